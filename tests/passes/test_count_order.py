from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tileir.passes.algorithms.count_order import CountOrder
from tileir.passes.base import run
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Special
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir_testing.programs.moves import ORDERS

if TYPE_CHECKING:
    from tileir.stripe.ir import Program
    from tileir_testing.programs.case import Conformance


def program_of(case: Conformance) -> Program:
    return lower(infer(parse(case.text), case.types))


@pytest.mark.sampled(29)
@pytest.mark.parametrize("case", [case for case in ORDERS if max(case.inputs["X"].shape) <= 80], ids=lambda c: c.name)
def test_counted_orders_are_the_same(case: Conformance) -> None:
    program = program_of(case)
    counted = run([CountOrder()], program)
    verify(counted)
    kernels = [kernel for kernel in counted.main.statements if isinstance(kernel, Block)]
    assert not any(isinstance(s, Special) for kernel in kernels for s in kernel.statements)
    case.check({name: np.asarray(value) for name, value in interpret(counted, case.inputs).items()})


def test_a_program_without_orders_is_left_alone() -> None:
    program = program_of(next(case for case in ORDERS if case.name == "order_of_1"))
    assert CountOrder()(program) is program
