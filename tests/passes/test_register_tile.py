"""Structure of register tiles; test_schedule.py checks the results."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from strategies.contractions import Case, contractions
from strategies.effort import examples
from strategies.kernels import PROGRAMS, stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.regions.separate import Separate
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Program, Refinement, Store
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

SMALL = RegisterTile(vector_bytes=16, registers=16)


def tiled(name: str, step: RegisterTile = SMALL, dtype: DType = DType.F32) -> Program:
    return run((Accumulate(), step), stripe_program(name, dtype))


def blocks(program: Program) -> list[Block]:
    found: list[Block] = []
    pending = list(reversed(program.main.blocks))
    while pending:
        block = pending.pop()
        found.append(block)
        pending.extend(reversed(block.blocks))
    return found


def allocations(program: Program, location: str) -> list[Refinement]:
    return [r for b in blocks(program) for r in b.refinements if any(d.name == location for d in r.location)]


def accumulators(program: Program) -> set[tuple[int, ...]]:
    return {r.shape.sizes for r in allocations(program, "REGISTER") if r.name.endswith("acc")}


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 2), (4, 3)])
def test_a_tile_may_be_chosen(rows: int, columns: int) -> None:
    program = tiled("matmul", attrs.evolve(SMALL, rows=rows, columns=columns))
    lanes = 4
    assert (rows, columns * lanes) in accumulators(program)
    assert (19 % rows, columns * lanes) in accumulators(program) or 19 % rows == 0


def widths(program: Program) -> list[int]:
    return [max(shape[1] for shape in accumulators(_only(program, kernel))) for kernel in program.main.blocks]


def test_a_tile_has_as_many_columns_as_there_are() -> None:
    step = attrs.evolve(SMALL, rows=2, registers=1 << 31)
    assert widths(tiled("matmul", attrs.evolve(step, columns=1 << 31))) == widths(
        tiled("matmul", attrs.evolve(step, columns=37 // 4))
    )


def test_columns_that_are_left_over_get_kernels_of_their_own() -> None:
    assert widths(tiled("matmul", attrs.evolve(SMALL, rows=2, columns=2))) == [8, 4, 1]  # 37 = 4 * 8 + 4 + 1


@pytest.mark.parametrize(("columns", "expected"), [(32, [8]), (33, [8, 1]), (35, [8, 4]), (36, [8, 4]), (39, [8, 8])])
def test_columns_overlap_only_where_that_is_less_work(columns: int, expected: list[int]) -> None:
    shapes: dict[str, tuple[int, ...]] = {"A": (5, 7), "B": (7, columns)}
    assert widths(small_product("O[m, n : M, N] = +(A[m, k] * B[k, n])", shapes)) == expected


@pytest.mark.parametrize(
    ("dtype", "sum_of", "tile"),
    [
        (DType.F32, "A[m, k] * B[k, n])", (4, 12)),  # 12 sums, 3 vectors and an element are all of 16 registers
        (DType.I32, "A[m, k] * B[k, n])", (6, 8)),  # a product is in one, too, before it is added
        (DType.F32, "A[m + p, k] * B[k, n]), p < 3", (6, 8)),  # and what the next row loads again
    ],
)
def test_sums_of_a_product_leave_registers_for_what_else_a_step_holds(
    dtype: DType, sum_of: str, tile: tuple[int, int]
) -> None:
    text = f"function (A[L, K], B[K, N]) -> (O) {{ O[m, n : 48, N] = +({sum_of}; }}"
    shapes: dict[str, tuple[int, ...]] = {"A": (50, 9), "B": (9, 72)}
    assert tile in accumulators(run((Accumulate(), SMALL), Case(text, dtype, shapes).program()))


def small_product(statement: str, shapes: dict[str, tuple[int, ...]]) -> Program:
    """Return a contraction of f32 in tiles of two rows and two vectors of four lanes."""
    text = f"function (A[M, K], B[K, N]) -> (O) {{ {statement}; }}"
    step = attrs.evolve(SMALL, rows=2, columns=2)
    return run((Accumulate(), step), Case(text, DType.F32, shapes).program())


def _only(program: Program, kernel: Block) -> Program:
    main = attrs.evolve(program.main, statements=(kernel,))
    return with_entry(program, attrs.evolve(program.entry, statements=(main,)))


def test_a_chosen_tile_fits_the_registers() -> None:
    for registers in (4, 8, 16, 32):
        for rows, width in accumulators(tiled("matmul", attrs.evolve(SMALL, registers=registers))):
            assert rows * -(-width // 4) <= registers


def test_a_panel_that_the_cache_holds_is_read_in_place() -> None:
    eager = attrs.evolve(SMALL, reads=16)
    wanting, roomy = attrs.evolve(eager, cache_bytes=64), attrs.evolve(eager, cache_bytes=1 << 20)
    seldom = attrs.evolve(wanting, reads=17)  # there are 16 rows
    assert allocations(tiled("matmul, bias and relu", seldom), "SCRATCH") == []
    assert allocations(tiled("matmul, bias and relu", roomy), "SCRATCH") == []
    (panel,) = allocations(tiled("matmul, bias and relu", wanting), "SCRATCH")
    assert panel.shape.sizes[0] == 8  # all of the reduction


def test_an_operand_across_the_lanes_is_packed_in_any_case() -> None:
    program = tiled("matmul, second transposed", attrs.evolve(SMALL, cache_bytes=1 << 20))
    assert {r.shape.sizes[0] for r in allocations(program, "SCRATCH")} == {19}


def test_rows_are_shared_out_where_there_are_fewer_panels_than_threads() -> None:
    text, _ = PROGRAMS["convolution"]
    types = {"I": TensorType(DType.F32, (66, 34, 4)), "K": TensorType(DType.F32, (3, 3, 4, 16))}
    program = run((Accumulate(),), lower(infer(parse(text), types)))

    def groups(threads: int) -> list[int]:
        (kernel,) = attrs.evolve(SMALL, threads=threads)(program).main.blocks
        return [index.range for index in kernel.indices if index.binding is Binding.GRID]

    alone, several = groups(1), groups(8)
    assert alone == [2]  # two panels, each taken by one group
    assert several == [2, 16]  # four groups for each thread


@pytest.mark.parametrize("name", ["transpose", "chain", "scalar", "matmul, one column", "greatest of all"])
def test_other_kernels_are_left_alone(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert run((SMALL,), accumulated) is accumulated


def test_half_floats_are_summed_in_wide_lanes() -> None:
    assert {width % 4 for _, width in accumulators(tiled("matmul", dtype=DType.F16))} <= {0, 1}
    assert {r.shape.dtype for r in allocations(tiled("matmul", dtype=DType.F16), "REGISTER")} == {DType.F32}


def convolved(height: int, width: int, step: RegisterTile) -> Program:
    """Return a convolution of images by 3x3 weights, whose results are as large as they are."""
    text = """function (I[N, H, W, C], K[P, Q, C, M]) -> (O) {
        O[n, y, x, m : N, H, W, M] = +(I[n, y + i - 1, x + j - 1, c] * K[i, j, c, m]); }"""
    types = {"I": TensorType(DType.F32, (1, height, width, 4)), "K": TensorType(DType.F32, (3, 3, 4, 16))}
    return run((Accumulate(), step), lower(infer(parse(text), types)))


def test_rows_at_the_edges_alone_are_tested() -> None:
    program = convolved(12, 12, attrs.evolve(SMALL, rows=4, columns=2, edges=100))
    (kernel,) = program.main.blocks
    steps = [
        b
        for b in blocks(_only(program, kernel))
        if any(isinstance(s, Store) and s.into == "O_acc" for s in b.statements)
    ]
    sums = [b for b in steps if "reduction" in b.tags]
    assert [len(b.constraints) for b in sums] == [0, 1, 1]  # the rows inside come first
    assert [[i.range for i in b.indices if "_row" in i.name] for b in sums] == [[2], [], []]


def test_rows_are_not_tested_where_that_costs_more_than_kernels_of_their_own() -> None:
    for rows, edges, kernels in ((4, 1, 0), (4, 100, 1), (2, 100, 0)):  # of two rows, each has a test
        program = convolved(40, 40, attrs.evolve(SMALL, rows=rows, columns=1, edges=edges))
        assert sum(any(i.binding is Binding.GRID for i in kernel.indices) for kernel in program.main.blocks) == kernels


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("separate", [False, True])
def test_unrolled_steps_have_tests_of_their_own(separate: bool, shift: int) -> None:
    """Tiles of different heights have different runs of steps, each over an index of its own."""
    text = f"""function (I[C, H, W], K[M, C, P, Q]) -> (O) {{
        O[m, y, x : M, 1, {8 + 2 * shift}] = +(I[c, y + i, x + j - {shift}] * K[m, c, i, j]); }}"""
    types = {"I": TensorType(DType.I32, (2, 5, 14)), "K": TensorType(DType.I32, (20, 2, 5, 7))}
    program = run((Accumulate(),), lower(infer(parse(text), types)))
    cut = run((Separate(least=1, share=0, operations=0),), program) if separate else program
    after = RegisterTile(vector_bytes=64, registers=32)(cut)
    verify(after)
    assert_same_meaning(program, after)


def test_kernels_without_edges_wait_for_the_step_after() -> None:
    accumulated = run((Accumulate(),), stripe_program("matmul"))
    assert run((attrs.evolve(SMALL, edges=1000),), accumulated) is accumulated


@st.composite
def options(draw: st.DrawFn) -> RegisterTile:
    """Processors of all kinds, and tiles chosen or given."""
    return RegisterTile(
        vector_bytes=draw(st.sampled_from((8, 16, 32))),
        registers=draw(st.sampled_from((4, 16, 32))),
        cache_bytes=draw(st.sampled_from((16, 256, 1 << 15))),
        panel_bytes=draw(st.sampled_from((64, 1 << 18))),
        reads=draw(st.sampled_from((1, 16))),
        threads=draw(st.sampled_from((1, 2, 5))),
        operations=0,
        rows=draw(st.integers(0, 5)),
        columns=draw(st.integers(0, 3)),
        edges=draw(st.sampled_from((0, 0, 1000))),
    )


@given(contractions(), options(), st.booleans())
@examples(150)
def test_contractions_keep_their_meaning(case: Case, step: RegisterTile, separate: bool) -> None:
    program = case.program()
    first = (Separate(least=1, share=0, operations=0),) if separate else ()
    after = run((Accumulate(), Fuse(), *first, step), program)
    verify(after)
    assert_same_meaning(program, after)


@given(
    st.sampled_from(("m - k < 100", "k - m < 100", "m - k + 2 < 5")),
    st.tuples(st.integers(12, 60), st.integers(4, 60), st.integers(4, 40)),
    st.sampled_from((8, 16)),
    st.sampled_from((0, 0, 1, 2, 20)),
    st.integers(2, 4),
)
@examples(60)
def test_triangles_keep_their_meaning(
    bounds: str, sizes: tuple[int, int, int], vector_bytes: int, vectors: int, threads: int
) -> None:
    """Steps at an edge read rows of packed panels that move with the rows which threads share."""
    rows, depth, columns = sizes
    text = f"function (A[M, K], B[K, N]) -> (O) {{ O[m, n : M, N] = +(A[m, k] * B[k, n]), {bounds}; }}"
    types = {"A": TensorType(DType.I32, (rows, depth)), "B": TensorType(DType.I32, (depth, columns))}
    program = run((Accumulate(),), lower(infer(parse(text), types)))
    step = RegisterTile(
        vector_bytes=vector_bytes,
        registers=32,
        cache_bytes=64,
        reads=1,
        threads=threads,
        operations=0,
        columns=vectors,
        edges=20,
    )
    after = step(program)
    verify(after)
    assert_same_meaning(program, after)


@pytest.mark.sampled(0)
def test_rows_of_panels_move_with_groups_of_rows() -> None:
    text = "function (A[M, K], B[K, N]) -> (O) { O[m, n : M, N] = +(A[m, k] * B[k, n]), m - k < 100; }"
    types = {"A": TensorType(DType.F32, (72, 72)), "B": TensorType(DType.F32, (72, 128))}
    program = run((Accumulate(),), lower(infer(parse(text), types)))
    after = RegisterTile(vector_bytes=64, registers=32, threads=2, operations=0, reads=1, edges=20)(program)
    grid = [index.name for kernel in after.main.blocks for index in kernel.indices if index.binding is Binding.GRID]
    assert "m_chunk" in grid
    assert any(r.name == "B_panel" for kernel in after.main.blocks for r in kernel.refinements)
    assert_same_meaning(program, after)
