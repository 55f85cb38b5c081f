"""Tuple reductions in Stripe: one kernel each, which holds a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.pipelines import PIPELINES
from strategies.tuple_reductions import TupleCase, assert_components, tuple_cases
from tileir.core.dtype import DType
from tileir.core.errors import ParseError, VerifyError
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.check.verifier import verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.parser import parse as parse_stripe
from tileir.stripe.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from collections.abc import Callable


@examples(100)
@given(tuple_cases())
def test_kernels_compute_what_they_mean(case: TupleCase) -> None:
    program = lower(case.function)
    verify(program)
    assert parse_stripe(to_text(program)) == program
    assert tileir.from_json(tileir.to_json(program), Program) == program
    assert_components(case, tuple(interpret(program, {"X": case.data}, seed=1).values()))


TEXT = """function (X[N, M]) -> (V, P) {{
  Y = {element};
  S = reduce_argmax(Y, {axes});
  V = element(S, 0);
  P = element(S, 1);
}}"""


def program_of(element: str = "X", axes: str = "1", shape: tuple[int, ...] = (3, 5)) -> Program:
    text = TEXT.format(element=element, axes=axes)
    return lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, shape)}))


def reducing(program: Program) -> list[Block]:
    return [inner for kernel in program.main.blocks for inner in kernel.blocks if inner.reduction is not None]


def test_both_components_are_of_one_kernel() -> None:
    (block,) = reducing(program_of())
    assert [view.name for view in block.refinements] == ["X", "S_0_state", "S_0_state_0"]
    assert len([kernel for kernel in program_of().main.blocks if "reduce" in kernel.tags]) == 1


def test_elements_are_computed_where_they_are_taken() -> None:
    (block,) = reducing(program_of("exp(X * 2 + 1)"))
    assert [view.name for view in block.refinements if view.direction.reads and not view.direction.writes] == ["X"]


def test_what_others_read_too_is_stored() -> None:
    text = "function (X[N]) -> (P, Y) { Y = exp(X); P = element(reduce_argmax(Y, 0), 1); }"
    (block,) = reducing(lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, (5,))})))
    assert block.refinements[0].name == "Y"


@pytest.mark.parametrize(("shape", "axes"), [((0, 3), "0"), ((3, 0), "1"), ((3, 0), "0"), ((1, 1), "0, 1")])
def test_short_axes(shape: tuple[int, ...], axes: str) -> None:
    program = program_of("X", axes, shape)
    verify(program)
    value, place = interpret(program, {"X": np.full(shape, 2.0, np.float32)}).values()
    assert not place.any()
    assert (value == (2.0 if np.prod(shape) else -np.inf)).all()


def test_a_constant_has_a_state_too() -> None:
    text = "function (X[N]) -> (V) { Y = as_f32(3); V = X + element(reduce_logsumexp(reshape(Y, 1), 0), 0); }"
    program = lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, (2,))}))
    (found,) = interpret(program, {"X": np.ones(2, np.float32)}).values()
    assert found.tolist() == [4.0, 4.0]


def changed(program: Program, change: Callable[[Block], Block]) -> Program:
    """Return a program whose block of steps is another one."""
    (kernel,) = (kernel for kernel in program.main.blocks if "reduce" in kernel.tags)
    statements = tuple(change(s) if isinstance(s, Block) else s for s in kernel.statements)
    main = attrs.evolve(
        program.main,
        statements=tuple(
            attrs.evolve(kernel, statements=statements) if s is kernel else s for s in program.main.statements
        ),
    )
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda block: attrs.evolve(block, reduction=attrs.evolve(block.reduction, positions=DType.I64)),
            "the state of argmax is f32, i64",
        ),
        (
            lambda block: attrs.evolve(block, reduction=attrs.evolve(block.reduction, elements=DType.F16)),
            "argmax does not reduce f16",
        ),
        (
            lambda block: attrs.evolve(block, indices=tuple(attrs.evolve(i, serial=False) for i in block.indices)),
            "its indices have to be serial",
        ),
    ],
)
def test_the_verifier_knows_the_rules(change: Callable[[Block], Block], message: str) -> None:
    with pytest.raises(VerifyError, match=message) as caught:
        verify(changed(program_of(), change))
    assert "TIL507" in {fault.code for fault in caught.value.diagnostics}


def test_other_combines_are_faults_of_the_text() -> None:
    text = to_text(program_of()).replace("reduction argmax", "reduction argbest")
    with pytest.raises(ParseError, match="expected one of argmax"):
        parse_stripe(text)


@pytest.mark.parametrize("name", ["plain", "fused", "cpu", "gpu"])
@examples(15)
@given(case=tuple_cases(most=70))
def test_every_pipeline_keeps_the_meaning(name: str, case: TupleCase) -> None:
    target = Target(vector_bytes=16, threads=2, group_threads=16 if name == "gpu" else 1, local_bytes=4096)
    program = lower(prepared(case.function))
    kernels = lower_to_kernels(run(PIPELINES[name](target), program), target)
    verify_program(kernels)
    assert_components(case, tuple(run_program(kernels, {"X": case.data}, ALL_CHECKS).values()))
