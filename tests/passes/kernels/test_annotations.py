from __future__ import annotations

from typing import ClassVar

import attrs
import pytest

from strategies.passes import assert_same_meaning, program_of
from tileir.core.errors import VerifyError
from tileir.passes.analysis.dependences import ComputeDeps
from tileir.passes.base import run, with_kernels
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Program

COPY = """
block [i:4]:4 (
  in {0}[i] fp32:I(1):(1):4 B
  out {1}[i] fp32:I(1):(1):4 B
) {{
  0: $a = load({0})
  1: {1} = store($a)
}}
"""


@attrs.frozen
class Swap:
    """Exchange the first two kernels, with all that they say of order and place."""

    name: ClassVar[str] = "swap"

    def __call__(self, program: Program) -> Program:
        first, second, *others = program.main.statements
        main = attrs.evolve(program.main, statements=(second, first, *others))
        return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


@attrs.frozen
class Forget:
    """Drop all dependencies but the last one."""

    name: ClassVar[str] = "forget"

    def __call__(self, program: Program) -> Program:
        *others, last = program.main.statements
        plain = tuple(attrs.evolve(statement, deps=()) for statement in others)
        main = attrs.evolve(program.main, statements=(*plain, attrs.evolve(last, deps=(0,))))
        return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def program() -> Program:
    kernels = [COPY.format(*names) for names in ("XA", "XB", "AC", "BD")]
    return program_of(kernels, dict.fromkeys("XABCD", (4,)), ("C", "D"))


def test_dependencies_that_no_longer_hold_are_dropped() -> None:
    after = run((ComputeDeps(reqs=("main",)), Swap()), program())
    assert [kernel.deps for kernel in after.main.blocks] == [()] * 4
    assert_same_meaning(program(), after)


def test_what_a_pass_itself_gets_wrong_is_its_fault() -> None:
    with pytest.raises(VerifyError, match="made by the pass 'forget'"):
        run((Forget(),), program())


def test_other_kernels_lose_their_dependencies() -> None:
    ordered = ComputeDeps(reqs=("main",))(program())
    assert [kernel.deps for kernel in with_kernels(ordered, ordered.main.statements[:3]).main.blocks] == [()] * 3
