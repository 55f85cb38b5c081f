"""Pictures that are converted or scaled where stencils read them."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from passes.test_forward import THROUGH
from strategies.effort import examples
from strategies.families import Written, written
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.base import run, with_kernels
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.fusion.inline_stencil import InlineStencil
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

FUSED = (*THROUGH, Fuse(), Localise(), Scalarise(), DeadCode())
BLUR = "O[y, x : 8, W] = +({0}[y + i, x]), i < 3;"


def program(body: str, results: str = "O", dtype: DType = DType.U8) -> Program:
    text = f"function (I[H, W], F[]) -> ({results}) {{ {body} }}"
    types = {"I": TensorType(dtype, (10, 7)), "F": TensorType(DType.F32, ())}
    return lower(infer(tileir.parse(text), types))


def results_of(before: Program, after: Program, dtype: DType = DType.U8) -> None:
    random = np.random.default_rng(0)
    inputs = {"I": random.integers(0, 99, (10, 7)).astype(dtype.numpy), "F": np.array(0.5, np.float32)}
    expected, found = interpret(before, inputs), interpret(after, inputs)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        f"S = as_float(I, 32) / 255; {BLUR.format('S')}".replace("/ 255", "* 0.25"),
        f"S = as_float(I, 32) * F; {BLUR.format('S')}",
        f"S = as_float(I, 32); P[y + 1, x : H + 2, W] = =(S[y, x]); {BLUR.format('P')}",
        "S = as_float(I, 32) * 2; A[y, x : 8, W] = >(S[y + i, x]), i < 3; "
        "B[y, x : H, 5] = +(S[y, x + j]), j < 3; O = A; Q = B;",
    ],
)
def test_one_kernel_less_reads_and_writes(body: str) -> None:
    before = program(body, "O, Q" if "Q =" in body else "O")
    kept = run(FUSED, before)
    after = run((InlineStencil(), DeadCode()), kept)
    assert len(after.main.blocks) == len(kept.main.blocks) - 1
    assert "S" not in {r.name for r in after.entry.refinements}
    results_of(before, after)


@pytest.mark.parametrize(
    ("body", "results"),
    [
        (f"S = exp(as_float(I, 32)); {BLUR.format('S')}", "O"),  # dear
        (f"S = as_float(I, 32) * F; {BLUR.format('S')}", "O, S"),  # a result
        ("S = as_float(I, 32) * F; O[y : H] = +(S[y, x]);", "O"),  # a reduction
        (f"S = as_float(I, 32) * 2 + index(I, 0); {BLUR.format('S')}", "O"),  # not the same at every place
    ],
)
def test_others_stay(body: str, results: str) -> None:
    before = program(body, results)
    fused = run(FUSED, before)
    assert run((InlineStencil(),), fused) is fused


HALVES = (
    "A[y, x : 5, W] = =(I[2 * y, x]); B[y, x : 5, W] = =(I[2 * y + 1, x]); S = A * 2 + B; "
    "C[y, x : 5, 3] = =(S[y, 2 * x]); D[y, x : 5, 3] = =(S[y, 2 * x + 1]); O = C * 2 + D;"
)


def test_elements_of_other_places_are_computed_where_each_is_read_once() -> None:
    before = program(HALVES, dtype=DType.I32)
    fused = run(FUSED, before)
    after = run((InlineStencil(), DeadCode()), fused)
    assert [sorted(kernel.ranges.values()) for kernel in after.main.blocks] == [[3, 5]]
    results_of(before, after, DType.I32)


@pytest.mark.parametrize(
    "body",
    [
        HALVES.replace("3]", "6]").replace("2 * x", "x"),  # most of them twice
        HALVES[: HALVES.index("C[")] + "O = gather(S, as_int(I[0, 0], 32));".replace("I[0, 0]", "F * 3"),  # data choose
    ],
)
def test_elements_of_other_places_are_stored_where_they_are_read_more_often(body: str) -> None:
    before = program(body, dtype=DType.I32)
    after = run((*FUSED, InlineStencil(), DeadCode()), before)
    assert len(after.main.blocks) == len(run(FUSED, before).main.blocks)
    results_of(before, after, DType.I32)


DEAR = "S = exp(as_float(I, 32)); A[{1} : {2}] = =(S[{0}, x]); B[{1} : {2}] = =(S[{0} + 1, x]); O = A / B;"
ONCE = DEAR.format("2 * y", "y, x", "5, W")


@pytest.mark.parametrize(
    ("body", "kernels"),
    [(ONCE, 1), (DEAR.format("y", "y, x", "9, W"), 2), (DEAR.format("2 * y", "x, y", "W, 5"), 2)],
    ids=["each element once", "most of them twice", "across vectors"],
)
def test_dear_elements_are_computed_where_each_is_read_once(body: str, kernels: int) -> None:
    before = program(body)
    after = run((*FUSED, InlineStencil(), DeadCode()), before)
    assert len(after.main.blocks) == kernels
    results_of(before, after)


def test_kernels_that_compute_dear_elements_have_an_end() -> None:
    fused = run(FUSED, program(ONCE))
    assert run((InlineStencil(statements=11),), fused) is fused
    assert run((InlineStencil(statements=12),), fused) is not fused


def test_operations_count_for_each_load() -> None:
    fused = run(FUSED, program(f"S = as_float(I, 32) * 2; {BLUR.format('S')}"))
    assert run((InlineStencil(operations=5),), fused) is fused
    assert run((InlineStencil(operations=6),), fused) is not fused


def test_what_is_written_anew_is_stored_first() -> None:
    body = f"Y = I + I; Z = I * I; S = Y + 1; {BLUR.format('S')} Q = Z * 2;"
    before = run(THROUGH, program(body, "O, Q", DType.I32))
    kernels = {kernel.refinements[-1].source: kernel for kernel in before.main.blocks}
    again = attrs.evolve(
        kernels["Z"],
        refinements=tuple(attrs.evolve(r, source="Y") if r.source == "Z" else r for r in kernels["Z"].refinements),
    )
    order = (kernels["Y"], kernels["Z"], kernels["S"], again, kernels["O"], kernels["Q"])
    steps = InlineStencil(readers=1)
    changed = with_kernels(before, order)
    assert "S" in {r.source for kernel in run((steps,), changed).main.blocks for r in kernel.refinements}
    results_of(changed, run((steps, DeadCode()), changed), DType.I32)


@given(
    case=written("pictures") | written("channels"), operations=st.sampled_from((3, 40, 1000)), readers=st.integers(1, 4)
)
@examples(100)
def test_meaning_stays(case: Written, operations: int, readers: int) -> None:
    before = case.program()
    steps = (*THROUGH, InlineStencil(operations=operations, readers=readers), DeadCode())
    assert_same_meaning(before, run(steps, before))
