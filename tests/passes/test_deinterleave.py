"""Kernels that mix the channels of interleaved pictures, as kernels over pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.families import Written, written
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import map_kernels, run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.layouts.deinterleave import Deinterleave
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Constant, Load, Store
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Program

MIXED = "function (A[H, W, C], K[M, N]) -> (O) { O[y, x, m : H, W, M] = +(A[y, x, c] * K[m, c]); }"
FUSED = "canonicalise{merge=false},deinterleave,accumulate,dead_code,fuse,localise,scalarise,dead_code,canonicalise"


def program_of(text: str, shapes: dict[str, tuple[int, ...]], **bound: Any) -> Program:
    source = tileir.bind(text, bound) if bound else tileir.parse(text)
    return lower(infer(source, {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}))


def joined(text: str, shapes: dict[str, tuple[int, ...]], **bound: Any) -> list[Block]:
    return list(run(parse_pipeline(FUSED), program_of(text, shapes, **bound)).main.blocks)


@given(case=written("channels"), pixels=st.sampled_from((1, 8)))
@examples(150)
def test_programs_mean_the_same(case: Written, pixels: int) -> None:
    before = run((Canonicalise(merge=False),), case.program())
    after = run((Deinterleave(pixels=pixels),), before)
    arrays: dict[str, Any] = case.arrays()
    assert_same_meaning(before, after, arrays, whole=False)
    scheduled = run(parse_pipeline(f"{FUSED},vectorise{{chunk=32}}"), case.program())
    assert_same_meaning(before, scheduled, arrays, whole=False)


def test_a_point_computes_all_channels() -> None:
    before = run((Canonicalise(merge=False),), program_of(MIXED, {"A": (4, 9, 3), "K": (2, 3)}))
    (kernel,) = run((Deinterleave(),), before).main.blocks
    assert kernel.ranges == {"y": 4, "x": 9}
    assert sum(isinstance(s, Load) for s in kernel.statements) == 3 + 6
    assert sum(isinstance(s, Store) for s in kernel.statements) == 2
    assert "contraction" not in kernel.tags


def test_constants_are_immediate_values() -> None:
    weights = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    before = run((Canonicalise(merge=False),), program_of(MIXED, {"A": (4, 9, 3)}, K=weights))
    (kernel,) = run((Deinterleave(),), before).main.blocks
    assert sum(isinstance(s, Load) for s in kernel.statements) == 3
    assert {s.value for s in kernel.statements if isinstance(s, Constant)} == {0, 1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    "body",
    [
        "B = A * A; O[y, x, m : H, W, 3] = +(B[y, x, c]); P = O + A;",
        "G[y, x, 0 : H, W, 1] = >(A[y, x, c]); P = A - G;",
        "G[y, x, 0 : H, W, 1] = =(A[y, x, 1]); B = A + 1; P = B * G;",
        "B = index(A, 2) == 1 ? A : A * 2; C1 = B * B; P = C1 + index(A, 1);",
    ],
)
def test_steps_on_pixels_run_as_one(body: str) -> None:
    (kernel,) = joined(f"function (A[H, W, C]) -> (P) {{ {body} }}", {"A": (9, 16, 3)})
    assert [index.range for index in kernel.indices if index.range > 1] in ([144], [9, 16])
    assert sum(isinstance(s, Store) for s in kernel.statements) == 3


@pytest.mark.parametrize(
    "text",
    [
        "function (A[H, W, C]) -> (O) { B = A * A; O = B + A; }",  # any element stands for itself
        "function (A[H, W, C], R[P, ONE, ALSO]) -> (O) { O = A * R; }",  # what rows share
        "function (A[H, W, C]) -> (O) { O[y, x, c : H, W, C] = +(A[y + i, x, c]), i < 3; }",  # a window
        "function (A[H, W, C]) -> (O) { O[y, x, c : 4, 8, C] = >(A[2*y + i, 2*x + j, c]), i < 2, j < 2; }",
        "function (A[H, W, C]) -> (O) { O[y, c : H, C] = +(A[y, x, c]); }",  # long sums
    ],
)
def test_others_stay(text: str) -> None:
    shapes: dict[str, tuple[int, ...]] = {"A": (8, 16, 3), **({"R": (8, 1, 1)} if "R[" in text else {})}
    program = run((Canonicalise(merge=False),), program_of(text, shapes))
    assert Deinterleave()(program) is program


def test_temporaries_are_split_where_all_channels_are_known() -> None:
    text = "function (A[H, W, C]) -> (O) { B = A * 2; O[y, x, c : H, W, C] = =(B[y, x, 2 - c]); P = O; }"
    mixed = text.replace("=(B[y, x, 2 - c])", "+(B[y, x, k])")
    before = run((Canonicalise(merge=False),), program_of(mixed, {"A": (4, 9, 3)}))
    after = run((Deinterleave(),), before)
    assert {r.name for r in after.entry.refinements} >= {"B_0", "B_1", "B_2"}
    assert_same_meaning(before, after)


def test_a_temporary_that_a_window_reads_stays_whole() -> None:
    text = (
        "function (A[H, W, C]) -> (O) { G[y, x, 0 : H, W, 1] = >(A[y, x, c]); B = A - G;"
        " O[y, x, c : H, W, C] = +(B[y + i, x, c]), i < 3; }"
    )
    before = run((Canonicalise(merge=False),), program_of(text, {"A": (8, 16, 3)}))
    after = run((Deinterleave(),), before)
    assert "B" in {r.name for r in after.entry.refinements}
    assert_same_meaning(before, after)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_vectors_run_over_pixels(channels: int) -> None:
    text = "function (A[H, W, C]) -> (O) { G[y, x, 0 : H, W, 1] = >(A[y, x, c]); O = A - G; }"
    target = Target("cpu", vector_bytes=32, threads=2)
    program = run(pipeline_for(target), program_of(text, {"A": (64, 64, channels)}))
    (kernel,) = program.main.blocks
    vectors = [i for block in _all(kernel) for i in block.indices if i.binding is Binding.LANE]
    assert [i.range for i in vectors] == [8]


def _all(block: Block) -> list[Block]:
    return [block, *(inner for each in block.blocks for inner in _all(each))]


def test_without_accumulators_there_is_nothing_to_accumulate() -> None:
    before = run((Canonicalise(merge=False), Deinterleave()), program_of(MIXED, {"A": (4, 9, 3), "K": (2, 3)}))
    assert run((Accumulate(),), before).main.blocks[0].statements == before.main.blocks[0].statements


def gathered(body: str) -> Program:
    text = f"function (X[N, C], K[H, W], I[H, W]) -> (O) {{ G = gather(X, I) * reshape(K, H, W, 1) + 1; {body} }}"
    shapes = {"X": (50, 3), "K": (4, 32)}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    return lower(infer(tileir.parse(text), {**types, "I": TensorType(DType.I32, (4, 32))}))


def test_pixels_that_data_choose_keep_their_channels_together() -> None:
    program = run((Canonicalise(merge=False),), gathered("O = G * 2;"))
    assert Deinterleave()(program) is program


def test_channels_that_are_mixed_after_pixels_were_chosen_are_written_out() -> None:
    before = run((Canonicalise(merge=False),), gathered("O[y, x : H, W] = >(G[y, x, c]);"))
    kernels = Deinterleave()(before).main.blocks
    assert [sorted(kernel.ranges.values()) for kernel in kernels] == [[3, 4, 32], [3, 4, 32], [3, 4, 32], [4, 32]]


def test_copies_that_are_read_through_keep_their_channels_together() -> None:
    before = run((Canonicalise(merge=False),), program_of(MIXED, {"A": (4, 9, 3), "K": (2, 3)}))
    marked = map_kernels(before, lambda kernel: attrs.evolve(kernel, tags=kernel.tags.add("copies")))
    assert Deinterleave()(before) is not before
    assert Deinterleave()(marked) is marked


@pytest.mark.parametrize(("distance", "size", "kernels"), [(1, 17, 2), (2, 18, 3), (3, 19, 2)])
def test_kernels_join_where_no_point_touches_what_another_one_writes(distance: int, size: int, kernels: int) -> None:
    """Points two elements apart may read the elements between them, but not the one that the next point writes."""
    text = (
        f"function (A[N], Z[M]) -> (T, O) {{ T[2 * i : {size}] = =(A[i]) default Z;"
        f" O[i : 8] = =(T[2 * i] * T[2 * i + {distance}]); }}"
    )
    before = program_of(text, {"A": (8,), "Z": (size,)})
    after = run((Accumulate(), Fuse()), before)
    assert len(after.main.blocks) == kernels
    assert_same_meaning(before, after)


def test_terms_of_a_sum_over_a_short_axis_are_no_channels() -> None:
    """Their producer goes over channels and terms alike, so that a sum written out over pixels could not take it in."""
    text = (
        "function (A[H, W, C], K[N]) -> (O)"
        " { T = max(reshape(A, H, W, C, 1) - K, 0.0); O[y, x, c : H, W, C] = +(T[y, x, c, k]); }"
    )
    before = run((Canonicalise(merge=False),), program_of(text, {"A": (6, 16, 3), "K": (4,)}))
    assert run((Deinterleave(),), before) is before
