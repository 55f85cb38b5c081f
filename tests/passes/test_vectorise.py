"""Structure of kernels after the three vectorising passes; test_schedule.py checks the results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.stripe.blocks import Binding
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def lanes(program: Program) -> list[int]:
    """Return the ranges of all vector indices, in order."""
    found: list[int] = []
    pending: list[Block] = list(reversed(program.main.blocks))
    while pending:
        block = pending.pop()
        found.extend(index.range for index in block.indices if index.binding is Binding.LANE)
        pending.extend(reversed(block.blocks))
    return found


def vectorised(name: str, step: Vectorise, dtype: DType = DType.F32) -> Program:
    return run((Accumulate(), step), stripe_program(name, dtype))


@pytest.mark.parametrize(
    ("dtype", "widths"), [(DType.F32, {4}), (DType.F64, {2}), (DType.I8, {16, 8, 4}), (DType.F16, {8, 4})]
)
def test_lanes_fill_a_register_of_the_widest_dtype_in_each_kernel(dtype: DType, widths: set[int]) -> None:
    # A product of i8 is i8, and a sum with 1.0 is f32; f16 is computed in f32, but compared as it is. Rows of 41
    # elements end with a vector of 8 where two of 16 leave 9 over.
    assert set(lanes(vectorised("chain", Vectorise(vector_bytes=16), dtype))) == widths


def test_what_is_left_over_runs_by_elements() -> None:
    program = vectorised("chain", Vectorise(vector_bytes=16))  # rows of 41: ten vectors of 4, and one element
    first, *_ = program.main.blocks
    assert [len(block.indices) for block in first.blocks] == [1, 0]


@pytest.mark.parametrize(("bytes_", "widths"), [(64, [16, 8, 1]), (128, [32, 8, 1])])
def test_short_rows_end_with_shorter_vectors(bytes_: int, widths: list[int]) -> None:
    first, *_ = vectorised("chain", Vectorise(vector_bytes=bytes_)).main.blocks  # rows of 41
    found = [[i.range for b in (run, *run.blocks) for i in b.indices] for run in first.blocks]
    assert [max(ranges, default=1) for ranges in found] == widths


def test_long_rows_are_cut_over_the_grid() -> None:
    program = vectorised("chain", Vectorise(vector_bytes=16, chunk=16))
    grids = [[i.range for i in kernel.indices if i.binding is Binding.GRID] for kernel in program.main.blocks]
    assert grids[0] == [3, 2]  # rows, and two chunks of four vectors each
    assert grids[1] == [3]  # the rest of each row


def test_a_transposed_input_is_read_in_blocks() -> None:
    kernel = vectorised("blocked transpose", Vectorise(vector_bytes=16)).main.blocks[0]
    names = [index.name for block in kernel.blocks for index in block.indices]
    assert any(name.endswith("_in") for name in names)


@pytest.mark.parametrize("name", ["matmul", "greatest of all", "scalar"])
def test_other_kernels_are_left_alone(name: str) -> None:
    accumulated = run((Accumulate(),), stripe_program(name))
    assert lanes(run((Vectorise(),), accumulated)) == []


def stencil(rows: int, columns: int, height: int, width: int) -> Program:
    """Return the sum of elements at two places of a window, joined with what is done to it."""
    text = f"""function (X[M, N]) -> (O) {{
        A[i, j : M - {height}, N - {width}] = =(X[i, j]);
        B[i, j : M - {height}, N - {width}] = =(X[i + {height}, j + {width}]);
        O = A * 2.0 + B;
    }}"""
    graph = infer(parse(text), {"X": TensorType(DType.F32, (rows, columns))})
    return run((Accumulate(), Fuse(), Localise(), Scalarise()), lower(graph))


@examples(60)
@given(
    rows=st.integers(5, 20),
    columns=st.integers(9, 30),
    height=st.integers(0, 3),
    width=st.integers(0, 3),
    together=st.integers(1, 5),
)
def test_rows_of_stencils_keep_their_meaning(rows: int, columns: int, height: int, width: int, together: int) -> None:
    program = stencil(rows, columns, height, width)
    picture = np.random.default_rng(1).integers(-9, 9, (rows, columns)).astype(np.float32)
    assert_same_meaning(program, run((Vectorise(vector_bytes=16, chunk=8, rows=together),), program), {"X": picture})


@pytest.mark.parametrize("height", [0, 1, 2, 4])
def test_rows_that_read_the_same_elements_are_computed_together(height: int) -> None:
    program = run((Vectorise(vector_bytes=16, chunk=8, rows=3),), stencil(18 + height, 16, height, 0))
    blocks = [b for kernel in program.main.blocks for outer in kernel.blocks for b in outer.blocks]
    beside = [i.range for block in blocks for i in block.indices if i.binding is Binding.UNROLL]
    assert beside == ([3] if 0 < height < 3 else [])


@pytest.mark.parametrize(("statements", "rows"), [(18, [3]), (17, [2]), (12, [2]), (11, []), (1, [])])
def test_rows_that_run_together_have_a_body_that_is_not_too_long(statements: int, rows: list[int]) -> None:
    before = stencil(19, 16, 1, 0)  # six statements
    program = run((Vectorise(vector_bytes=16, chunk=8, rows=3, statements=statements),), before)
    blocks = [b for kernel in program.main.blocks for outer in kernel.blocks for b in outer.blocks]
    assert [i.range for block in blocks for i in block.indices if i.binding is Binding.UNROLL] == rows
    assert_same_meaning(before, program)


def test_rows_that_are_left_make_a_kernel_of_their_own() -> None:
    program = run((Vectorise(vector_bytes=16, chunk=8, rows=4),), stencil(12, 16, 1, 0))
    assert [kernel.indices[0].range for kernel in program.main.blocks] == [2, 3]


def test_rows_that_read_other_places_are_not_computed_together() -> None:
    # Planes of a row lie between those of the next: none is read for two rows.
    text = """function (X[M, K, N]) -> (O) {
        A[i, j : M, N] = =(X[i, 0, j]);
        B[i, j : M, N] = =(X[i, 2, j]);
        O = A * 2.0 + B;
    }"""
    graph = infer(parse(text), {"X": TensorType(DType.F32, (18, 3, 16))})
    program = run((Accumulate(), Fuse(), Localise(), Scalarise()), lower(graph))
    after = run((Vectorise(vector_bytes=16, chunk=8, rows=4),), program)
    assert lanes(after)
    blocks = [b for kernel in after.main.blocks for outer in kernel.blocks for b in (outer, *outer.blocks)]
    assert not any(index.binding is Binding.UNROLL for block in blocks for index in block.indices)


def elementwise(formula: str, size: int, dtype: DType = DType.F32) -> Program:
    return lower(infer(parse(f"function (X[N]) -> (Y) {{ Y = {formula}; }}"), {"X": TensorType(dtype, (size,))}))


@pytest.mark.parametrize(
    ("formula", "step", "widths"),
    [
        ("exp(X)", Vectorise(vector_bytes=16, registers=32), [16, 4, 1]),  # 53 = 3 · 16 + 4 + 1
        ("exp(X)", Vectorise(vector_bytes=16, registers=12), [8, 4, 1]),
        ("exp(X)", Vectorise(vector_bytes=16), [4, 1]),
        ("exp(X)", Vectorise(vector_bytes=16, registers=32, max_lanes=8), [8, 4, 1]),
        ("pow(X, X + 1.5)", Vectorise(vector_bytes=16, registers=32), [8, 4, 1]),  # it holds more values
        ("X * X + 1.0", Vectorise(vector_bytes=16, registers=32), [4, 1]),
    ],
    ids=str,
)
def test_vectors_of_functions_fill_as_many_registers_as_hold_their_steps(
    formula: str, step: Vectorise, widths: list[int]
) -> None:
    program = run((Fuse(), step), elementwise(formula, 53))
    assert sorted({*lanes(program), 1}, reverse=True) == widths


@given(st.integers(1, 200), st.sampled_from([4, 8, 32]))
@examples(30)
def test_several_registers_keep_the_meaning(size: int, registers: int) -> None:
    program = elementwise("exp(X) * X", size)
    step = Vectorise(vector_bytes=16, chunk=32, registers=registers)
    assert_same_meaning(program, run((step,), program), {"X": np.linspace(-2, 2, size, dtype=np.float32)})
