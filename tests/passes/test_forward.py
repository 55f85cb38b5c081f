"""Padded tensors that are never made."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.families import Written, written
from strategies.golden_kernels import compiled
from strategies.passes import assert_same_meaning
from strategies.pictures import MODES
from tileir import ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.unroll_window import UnrollWindow
from tileir.passes.base import run, with_kernels
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.fusion.inline import Inline
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.passes.rewrites.forward import Forward
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Intrinsic, Load, LoadIndex, Program
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

THROUGH = (UnrollWindow(), Forward(), DeadCode())


def blurred(mode: str, margin: int, *shape: int, value: float = 0, dtype: DType = DType.F32) -> Program:
    """Return a program that sums windows of a padded matrix."""
    f = tileir.FunctionBuilder()
    x = f.input("X", "M", "N")
    y = f.tensor("Y", *x.dims)
    i, j, k, n = f.indices("i j k n")
    options: Any = {"value": value} if mode == "constant" else {}
    padded = ops.pad(x, margin, mode=mode, **options)
    y[i, j] += padded[i + k, j + n].given(k < 2 * margin + 1).given(n < 2 * margin + 1)
    return lower(infer(f.build(y), {"X": TensorType(dtype, shape)}))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (2, 9), (9, 1)])
@pytest.mark.parametrize("margin", [1, 2, 3])
def test_one_kernel_reads_the_matrix(mode: Any, shape: tuple[int, int], margin: int) -> None:
    program = blurred(mode, margin, *shape, value=2)
    after = run(THROUGH, program)
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    options: Any = {"constant_values": 2} if mode == "constant" else {}
    padded = np.pad(x, margin, mode, **options)
    size = 2 * margin + 1
    expected = np.lib.stride_tricks.sliding_window_view(padded, (size, size)).sum((2, 3))
    np.testing.assert_array_equal(interpret(after, {"X": x})["Y"], expected)
    if margin <= min(shape) > 1:
        assert len(after.main.blocks) == 1
        assert {r.name for r in after.entry.refinements} == {"X", "Y"}


@pytest.mark.parametrize(("size", "most_apart", "copied"), [(3, 8, True), (3, 9, False), (2, 8, False)])
def test_neighbours_from_far_apart_are_brought_together_for_many_loads(
    size: int, most_apart: int, copied: bool
) -> None:
    text = """function (X[H, W, C]) -> (O) {
        P[c, y, x : C, H, W] = =(X[y, x, c]);
        O[c, y, x : C, 5, 6] = +(P[c, y + i, x + j]), i < N, j < N;
    }"""
    program = lower(infer(tileir.parse(text.replace("N", str(size))), {"X": TensorType(DType.F32, (8, 9, 3))}))
    after = run((UnrollWindow(), Forward(most_apart=most_apart), DeadCode()), program)
    assert ("P" in {r.name for r in after.entry.refinements}) is copied
    assert_same_meaning(program, after)


def test_places_that_are_affine_everywhere_are_not_computed() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "N")
    (i,) = f.indices("i")
    a, b = f.tensor("A", 6), f.tensor("B", 6)
    a[i] = x[i + 1]
    b[i] = x[i + 2]
    program = lower(infer(f.build(Y=a - b), {"X": TensorType(DType.F32, (8,))}))
    (kernel,) = run((Forward(), DeadCode()), program).main.blocks
    assert not any(isinstance(s, LoadIndex) for s in kernel.statements)
    assert [s.index for s in kernel.statements if isinstance(s, Load)] == [None, None]


def test_what_several_windows_compute_is_computed_once() -> None:
    (kernel,) = run(THROUGH, blurred("edge", 1, 8, 8)).main.blocks
    places = [s for s in kernel.statements if isinstance(s, Intrinsic) and s.op.value in ("max", "min")]
    assert len(places) == 2 * 4  # the rows above and below, and such columns


@pytest.mark.parametrize(
    "reader",
    [
        "S[] = +(P[i]);",  # a reduction would compute places in its loop
        "O[i, j : 10, 3] = =(P[i] * B[j]); C[i : 10] = >(P[i + 1]), i < 9;",
    ],
)
def test_readers_of_other_kinds_keep_the_copies(reader: str) -> None:
    results = [name for name in ("S", "O", "C") if f"{name} " in reader or f"{name}[" in reader]
    text = f"""function (X[N], B[M]) -> ({", ".join(results)}) {{
        T[i + 1 : N + 2] = =(X[i]);
        P[i : N + 2] = =(X[N - 1]), i < 1 default T;
        {reader}
    }}"""
    types = {"X": TensorType(DType.F32, (8,)), "B": TensorType(DType.F32, (3,))}
    program = lower(infer(tileir.parse(text), types))
    after = run((Forward(),), program)
    if "O[i, j" not in reader:
        assert after is program
    x = np.arange(8, dtype=np.float32)
    inputs = {"X": x, "B": np.ones(3, np.float32)}
    for name, value in interpret(program, inputs).items():
        np.testing.assert_array_equal(interpret(after, inputs)[name], value)


def test_a_source_that_changes_is_not_read_later() -> None:
    text = "function (X[N]) -> (O, Z) { Y = X * 2; P[i + 1 : N + 1] = =(Y[i]); Z = X * 5; O = P * 3; }"
    program = lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, (8,))}))
    *kernels, last = program.main.blocks
    again = next(kernel for kernel in kernels if kernel.refinements[-1].source == "Z")
    views = tuple(attrs.evolve(r, source="Y") if r.source == "Z" else r for r in again.refinements)
    changed = with_kernels(program, (*kernels, attrs.evolve(again, refinements=views), last))
    assert run((Forward(),), program) is not program
    assert run((Forward(),), changed) is changed


def test_copies_of_copies_that_stand_first_in_memory_read_what_stays() -> None:
    text = "function (X[N]) -> (O) { A[i : N] = =(X[N - 1 - i]); B[i : N] = =(A[N - 1 - i]); O = B * 2; }"
    program = lower(infer(tileir.parse(text), {"X": TensorType(DType.F32, (7,))}))
    turned = attrs.evolve(program, memory=program.memory[::-1])
    assert [r.name for r in turned.main.refinements] == [r.name for r in program.main.refinements][::-1]
    after = run((Forward(),), turned)
    assert len(after.main.blocks) == 1
    assert_same_meaning(program, after)


def test_marked_copies_are_not_fused() -> None:
    marked = run((UnrollWindow(), Forward(mark=True), Fuse()), blurred("edge", 1, 8, 8))
    assert sum("copies" in kernel.tags for kernel in marked.main.blocks) == len(marked.main.blocks) - 1
    (_,) = run((Forward(), DeadCode()), marked).main.blocks


NORMALISED_ROWS = """
function (X[N, H, W, C], F[C, R, S]) -> (O) {
    T[n, g, k, y, x : N, C, 1, H, W] = +(X[n, y + r - 1, x + s - 1, g] * F[g + k, r, s]), k < 1;
    U = as_f16(reshape(T, N, C, H, W));
    P[n, y, x, c : N, H, W, C] = =(U[n, c, y, x]);
    D = as_f32(P);
    M[n, y, x, 0 : N, H, W, 1] = +(D[n, y, x, c]);
    E = D - M / 32.0;
    V[n, y, x, 0 : N, H, W, 1] = +(E[n, y, x, c] * E[n, y, x, c]);
    O = (D - M / 32.0) * rsqrt(V + 1.0);
}
"""
"""Normalised rows of a permuted window; the cast is inlined into the sum, which needs the permuted tensor."""
NORMALISED_TYPES = {"X": TensorType(DType.F32, (2, 6, 7, 32)), "F": TensorType(DType.F32, (32, 3, 3))}


def test_copies_that_inlined_readers_need_lose_their_mark() -> None:
    program = lower(infer(tileir.parse(NORMALISED_ROWS), NORMALISED_TYPES))
    (copy,) = (kernel for kernel in run((Forward(mark=True),), program).main.blocks if "copies" in kernel.tags)
    inlined = run((Forward(mark=True), Inline(), DeadCode()), program)
    assert [kernel.name for kernel in inlined.main.blocks if "copies" in kernel.tags] == [copy.name]
    after = run((Forward(mark=True),), inlined)
    assert not any("copies" in kernel.tags for kernel in after.main.blocks)
    assert len(run((Fuse(),), after).main.blocks) < len(run((Fuse(),), inlined).main.blocks)
    assert_same_meaning(program, run((Fuse(), Forward(), DeadCode()), after))


def test_windows_write_the_permuted_tensor_of_normalised_rows() -> None:
    window, rows = compiled(NORMALISED_ROWS, NORMALISED_TYPES, "nvidia-hopper").kernels
    assert {each.name for each in window.params} == {"X", "F", "P"}
    assert {each.name for each in rows.params} == {"P", "O"}


@given(case=written("pictures"), most_runs=st.sampled_from((1, 2, 8)), windows=st.booleans())
@examples(100)
def test_meaning_stays(case: Written, most_runs: int, windows: bool) -> None:
    program = case.program()
    ready = run((UnrollWindow(),), program) if windows else program
    assert_same_meaning(program, run((Forward(most_runs=most_runs), DeadCode()), ready))
