"""Tails that are masked: the lanes of a vector that are inside run, by one loop over whole tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.opencl_device import device as opencl_device
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.base import for_target
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.schedule.reasons import REASONS
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import AssignLanes, If
from tileir.semtree.rewrite import statements

if TYPE_CHECKING:
    from tileir.driver.executable import Executable

PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
LANES = "split{loop=j, by=8, into=(vector, lane), tail=mask}, jam{loops=(lane)}"
BOUND = "bind{loop=lane, to=vector}"


def compiled(
    text: str, arrays: dict[str, Any], steps: str, before: str = "accumulate, canonicalise{merge=false}", **options: Any
) -> Executable:
    return tileir.compile(text, arrays, passes=f"{before}, script{{steps=({steps})}}", **options)


def said(program: Executable) -> list[tuple[str, dict[str, object]]]:
    return [(each.code, dict(each.facts)) for each in program.remarks if each.step == "script"]


def masked(program: Executable) -> int:
    return sum(isinstance(stmt, AssignLanes) for kernel in program.sem.kernels for stmt in statements(kernel.body))


DTYPES = (np.float32, np.float64, np.float16, np.int32, np.uint8, np.int64)
PLACES: dict[str, Any] = {"llvm": None, "opencl": opencl_device}


def numbers(dtype: Any, *shape: int) -> Any:
    return np.random.default_rng(0).integers(1, 5, shape).astype(dtype)


def check(text: str, arrays: dict[str, Any], steps: str, before: str, place: str) -> Executable:
    """Compare a program that is scheduled by steps with one that is not, on a device and in the strict interpreter."""
    device = PLACES[place] and PLACES[place]()
    program = compiled(text, arrays, steps, before, device=device)
    plain = tileir.compile(text, arrays, passes="accumulate")
    expected = plain(*arrays.values())
    np.testing.assert_array_equal(program(*arrays.values()), expected)
    (found,) = run_program(program.sem, arrays, ALL_CHECKS).values()
    np.testing.assert_array_equal(found, expected)
    return program


@pytest.mark.sampled(4)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [3, 8, 23])
def test_lanes_inside_run(place: str, dtype: Any, size: int) -> None:
    arrays = {"A": numbers(dtype, 3, size)}
    text = "function (A[M, N]) -> (B) { B[i, j : M, N] = =(A[i, j]); }"
    steps = f"split{{loop=j, by=8, into=(vector, lane), tail=mask}}, {BOUND}"
    program = check(text, arrays, steps, "canonicalise{merge=false}", place)
    assert said(program) == [("TR001", {"masked": "lane"} if size % 8 else {})]
    assert (masked(program) > 0) == bool(size % 8)


GRID = ", bind{loop=panel, to=grid}"
PARTS = ", specialise{loop=panel, into=(before, whole, rest)}"
TILES = """split{loop=j, by=16, into=(panel, tile), tail=mask}, split{loop=i, by=3, into=(block, row), tail=TAIL},
    reorder{loops=(panel, block, row, tile)}, split{loop=tile, by=8, into=(vector, lane), tail=peel},
    jam{loops=(row, vector, lane)}, STAGE
    bind{loop=row, to=unroll}, bind{loop=vector, to=unroll}, bind{loop=lane, to=vector} MORE"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("place", "sizes"), [("llvm", (7, 21, 5)), ("llvm", (4, 3, 2)), ("opencl", (5, 40, 7))])
@pytest.mark.parametrize(
    ("tail", "more"), [("guard", ""), ("peel", GRID), ("pad", PARTS), ("mask", ""), ("mask", GRID)]
)
@pytest.mark.parametrize("stage", ["", "stage{tensor=B, at=panel, into=packed},"])
def test_products_of_odd_sizes(place: str, tail: str, stage: str, more: str, sizes: tuple[int, int, int]) -> None:
    rows, columns, terms = sizes
    arrays = {"A": numbers(np.float32, rows, terms), "B": numbers(np.float32, terms, columns)}
    steps = TILES.replace("TAIL", tail).replace("STAGE", stage).replace("MORE", more)
    if "specialise" in more and columns < 16:
        return  # no iteration passes all tests
    check(PRODUCT, arrays, steps, "accumulate, canonicalise{merge=false}", place)


def test_the_remainder_alone_is_masked() -> None:
    a, b = numbers(np.float32, 6, 5), numbers(np.float32, 5, 21)
    program = check(PRODUCT, {"A": a, "B": b}, f"{LANES}, {BOUND}", "accumulate, canonicalise", "llvm")
    assert said(program) == [("TR001", {"masked": "lane"})]
    assert "masked.load" in program.listing("llvm")
    parts = f"{LANES}, {BOUND}, specialise{{loop=vector, into=(before, whole, rest)}}"
    apart = check(PRODUCT, {"A": a, "B": b}, parts, "accumulate, canonicalise", "llvm")
    assert masked(apart) >= masked(program) > 0
    (kernel,) = apart.sem.kernels
    assert not any(isinstance(stmt, If) for stmt in statements(kernel.body))


REDUCED = {
    "+": "reorder{loops=(lane, step)}, rfactor{memory=S_acc, loop=lane, into=parts}, reorder{loops=(step, lane)}",
    "*": "rfactor{memory=S_acc, loop=lane, into=parts, around=step}",
    ">": "stage{tensor=A, at=i, into=own}, reorder{loops=(lane, step)}, rfactor{memory=S_acc, loop=lane, into=parts}",
    "<": "accumulate{memory=S_acc, at=step, into=parts}",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", REDUCED)
def test_lanes_outside_merge_nothing(place: str, how: str) -> None:
    steps = f"split{{loop=k, by=4, into=(step, lane), tail=mask}}, {REDUCED[how]}"
    steps += ", bind{loop=lane, to=vector}" if "reorder{loops=(step, lane)}" in steps else ""
    arrays = {"A": -numbers(np.float32, 4, 14)}
    text = f"function (A[M, K]) -> (S) {{ S[i : M] = {how}(A[i, k]); }}"
    program = check(text, arrays, steps, "accumulate, canonicalise", place)
    assert said(program)[0][0] == "TR001"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("index", ["j + k - 1", "2*j + k - 1", "k - j + 9"])
def test_borders_cut_lanes_as_well(place: str, index: str) -> None:
    arrays = {"A": numbers(np.float32, 3, 21), "W": numbers(np.float32, 3)}
    size = "N" if "2" not in index else "N / 2"
    text = f"function (A[M, N], W[K]) -> (C) {{ C[i, j : M, {size}] = +(A[i, {index}] * W[k]); }}"
    program = check(text, arrays, f"{LANES}, {BOUND}", "accumulate, canonicalise", place)
    assert said(program)[-1] == ("TR001", {"masked": "lane"})


CARD = Target(index_dtype=DType.I32, group_threads=256, local_bytes=32768)


@pytest.mark.parametrize("sizes", [(9, 21), (3, 70), (16, 3)])
def test_threads_of_a_card_have_masked_lanes(sizes: tuple[int, int]) -> None:
    arrays = {"A": numbers(np.float32, *sizes)}
    text = "function (A[M, N]) -> (B) { B[i, j : M, N] = =(A[i, j]); }"
    steps = """split{loop=i, by=4, into=(block_i, thread_i), tail=mask},
        split{loop=j, by=16, into=(block_j, tile_j), tail=mask},
        reorder{loops=(block_i, block_j, thread_i, tile_j)}, split{loop=tile_j, by=4, into=(thread_j, lane)},
        bind{loop=block_i, to=grid}, bind{loop=block_j, to=grid}, bind{loop=thread_i, to=thread},
        bind{loop=thread_j, to=thread}, bind{loop=lane, to=vector}"""
    passes = for_target(parse_pipeline(f"canonicalise{{merge=false}}, script{{steps=({steps})}}"), CARD)
    program = compile_stages(text, {"A": tileir.TensorType(DType.F32, sizes)}, CARD, passes=passes).sem
    (kernel,) = program.kernels
    assert kernel.group[0] > 1
    assert any(isinstance(stmt, AssignLanes) for stmt in statements(kernel.body)) == bool(sizes[1] % 4)
    (found,) = run_program(program, arrays, ALL_CHECKS).values()
    np.testing.assert_array_equal(found, arrays["A"])


def test_loops_that_share_a_name_have_a_size_each() -> None:
    """The remainder of a loop inside is peeled in one copy of what is around, and not in the other."""
    steps = """split{loop=j, by=24, into=(panel, tile)}, split{loop=tile, by=8, into=(vector, lane), tail=peel},
        jam{loops=(vector, lane)}, bind{loop=vector, to=unroll}, specialise{loop=panel, into=(before, whole, rest)}"""
    arrays = {"A": numbers(np.float32, 3, 5), "B": numbers(np.float32, 5, 65)}
    program = check(PRODUCT, arrays, steps, "accumulate, canonicalise", "llvm")
    assert said(program)[0][0] == "TR001"


DOTS = """function (A[M, K], B[K, N]) -> (C) {
    P = as_int(A, 32); Q = as_int(B, 32); C[i, j : M, N] = +(P[i, k] * Q[k, j]);
}"""


def test_what_instructions_multiply_is_not_masked() -> None:
    arrays = {"A": numbers(np.uint8, 3, 10), "B": numbers(np.int8, 10, 32)}
    steps = """split{loop=j, by=16, into=(vector, lane), tail=mask}, jam{loops=(lane)},
        split{loop=k, by=4, into=(step, term), tail=mask}, reorder{loops=(step, lane, term)},
        reorder{loops=(vector, i)}, stage{tensor=B, at=vector, into=packed},
        split{loop=packed_0, by=4, into=(packed_step, packed_term)},
        split{loop=packed_start_0, by=4, into=(start_step, start_term)},
        interleave{memory=packed, axis=0, by=4}, tensorise{lanes=lane, terms=term, fragment=dot_m1n16k4_u8_i8}"""
    program = compiled(DOTS, arrays, steps, "inline, accumulate, dead_code, canonicalise")
    ((code, facts),) = said(program)
    assert (code, facts) == ("TR722", {"loop": "term"})


def test_lanes_are_masked_where_their_split_says_so() -> None:
    arrays = {"A": numbers(np.float32, 3, 5), "B": numbers(np.float32, 5, 13)}
    program = compiled(PRODUCT, arrays, f"{LANES.replace('mask', 'guard')}, {BOUND}")
    assert said(program)[0][0] == "TR722"
    assert "mask" in REASONS["TR722"].text


@pytest.mark.parametrize(("dtype", "body"), [("bf16", "A * 2"), ("i16", "as_f8e5m2(A)"), ("f16", "as_f8e5m2(A)")])
def test_one_lane_of_narrowed_vectors_is_stored_alone(dtype: str, body: str) -> None:
    array = (np.arange(70).reshape(2, 7, 5) % 11).astype(DType(dtype).numpy)
    text = f"function (A[P, M, N]) -> (B) {{ B = {body}; }}"
    steps = """split{loop=i3, by=4, into=(vector, lane), tail=mask}, reorder{loops=(i1, vector, i2, lane)},
        specialise{loop=vector, into=(before, whole, rest)},
        bind{loop=i1, to=grid}, bind{loop=i2, to=unroll}, bind{loop=lane, to=vector}"""
    program = compiled(text, {"A": array}, steps, "canonicalise{merge=false}")
    assert masked(program) > 0
    expected = tileir.evaluate(text, [array])
    room = np.full(80, 7).astype(expected.dtype)
    np.testing.assert_array_equal(program(array, out=room[:70].reshape(2, 7, 5)), expected)
    np.testing.assert_array_equal(room[70:], np.full(10, 7).astype(expected.dtype))
