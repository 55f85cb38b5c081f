from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, functions, program_of
from strategies.pipelines import cpu, gpu
from tileir.core.dtype import DType
from tileir.core.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import Pass, run
from tileir.passes.share_names import ShareNames, form
from tileir.semtree.launches import launches
from tileir.semtree.lowering import lower
from tileir.semtree.printer import to_text
from tileir.semtree.sharing import share_kernels
from tileir.stripe.ir import Block, Program, Special
from tileir.stripe.lowering import lower as to_stripe
from tileir.stripe.twins import twins
from tileir.typed.dataflow import with_operands
from tileir.typed.ir import Function, TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

SCALE = """block [i:4]:4 ( // {name}
  in {x}[i] fp32:I(1):(1):4 B
  out {y}[i] fp32:I(1):(1):4 B
) {{
  0: $two = (fp32){factor}
  1: ${x}0 = load({x})
  2: $p = {op}(${x}0, $two)
  3: {y} = store($p)
}}"""
SIZES = dict.fromkeys("ABCDE", (4,))
LAYERS = """function (X[B, N], U[N, N], V[N, N], W[N, N], C[N]) -> (O) {
    Y[b, n : B, N] = +(X[b, k] * U[k, n]); H = tanh(Y + C);
    Z[b, n : B, N] = +(H[b, k] * V[k, n]); G = tanh(Z + C);
    S[b, n : B, N] = +(G[b, k] * W[k, n]); F = tanh(S + C);
    O[b : B] = +(F[b, n]);
}"""


def scale(x: str, y: str, factor: str = "2.0", op: str = "mul") -> str:
    return SCALE.format(x=x, y=y, factor=factor, op=op, name=f"scale_{x}")


def shared(*kernels: str) -> tuple[Block, ...]:
    results = tuple(name for name in SIZES if any(f"out {name}[" in kernel for kernel in kernels))
    program = program_of(kernels, SIZES, results)
    after = ShareNames()(program)
    run((ShareNames(),), program)
    assert_same_meaning(program, after)
    return after.main.blocks


def test_kernels_that_differ_in_names_share_what_they_hold() -> None:
    first, second, third = shared(scale("A", "B"), scale("E", "C"), scale("A", "D"))
    assert first == program_of([scale("A", "B")], SIZES).main.blocks[0]
    assert second.statements is first.statements
    assert third.statements is first.statements
    assert [kernel.name for kernel in (first, second, third)] == ["scale_A", "scale_E", "scale_A"]
    assert [[view.source for view in kernel.refinements] for kernel in (second, third)] == [["E", "C"], ["A", "D"]]


def test_kernels_share_only_if_their_tensors_are_of_one_kind() -> None:
    first, second = shared(scale("A", "B"), scale("B", "C"))
    assert second.statements is not first.statements, "one reads a parameter, the other a result"


@pytest.mark.parametrize(
    "other",
    [
        scale("E", "C", "-2.0"),
        scale("E", "C", op="add"),
        scale("E", "C").replace("$p = mul($E0, $two)", "$p = mul($two, $E0)"),
    ],
    ids=["constant", "operation", "operands"],
)
def test_kernels_that_compute_something_else_do_not(other: str) -> None:
    first, second = shared(scale("A", "B"), other)
    assert second.statements is not first.statements


def test_zeros_of_both_signs_are_told_apart() -> None:
    first, second = shared(scale("A", "B", "0.0", "add"), scale("E", "C", "-0.0", "add"))
    assert second.statements is not first.statements
    positive, negative = (attrs.evolve(first, statements=(filled(zero),)) for zero in (0.0, -0.0))
    assert form(positive, {}) != form(negative, {})


def filled(value: float) -> Special:
    return Special("fill", (), ("B",), (("value", value),))


def test_it_returns_a_program_without_equal_kernels_itself() -> None:
    program = program_of([scale("A", "B"), scale("E", "C", "3.0")], SIZES, ("B", "C"))
    assert ShareNames()(program) is program
    once = ShareNames()(program_of([scale("A", "B"), scale("E", "C")], SIZES, ("B", "C")))
    assert ShareNames()(once) is once


def test_equal_layers_are_scheduled_once() -> None:
    sizes = {"X": (8, 32), "C": (32,), **dict.fromkeys("UVW", (32, 32))}
    stages = compile_stages(LAYERS, {name: TensorType(DType.F32, shape) for name, shape in sizes.items()}, Target())
    _, second, third, _ = stages.scheduled.main.blocks
    assert list(twins(stages.scheduled.main).items()) == [(id(third), second)]
    assert third.name == "kernel_6(G,W)+kernel_7(S,C)+kernel_8(F_0)"
    assert [launch.kernel for launch in launches(stages.sem.works)] == [0, 1, 1, 2]


@pytest.mark.parametrize("pipeline", [cpu, gpu], ids=["cpu", "gpu"])
@given(function=functions(8))
@examples(15)
def test_kernels_are_those_that_come_without_it(
    pipeline: Callable[[Target], tuple[Pass, ...]], function: Function
) -> None:
    passes = pipeline(Target())
    program = to_stripe(doubled(function))
    alone = tuple(step for step in passes if step.name != ShareNames.name)
    assert kernels(passes, program) == kernels(alone, program)


def kernels(passes: tuple[Pass, ...], program: Program) -> str:
    return to_text(share_kernels(lower(run(passes, program), Target())))


def doubled(function: Function) -> Function:
    """Return a function that also does all that it does with inputs of their own."""
    names = {value.name: f"{value.name}_again" for value in (*function.inputs, *function.operations)}
    return Function(
        (*function.inputs, *(attrs.evolve(value, name=names[value.name]) for value in function.inputs)),
        (*function.outputs, *(names[name] for name in function.outputs)),
        (
            *function.operations,
            *(attrs.evolve(with_operands(step, names), name=names[step.name]) for step in function.operations),
        ),
    )
