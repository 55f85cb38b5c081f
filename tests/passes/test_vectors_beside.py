"""Vectors of a row beside each other, which load once what their windows have in common, and sides of pictures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from passes.kernels.test_unroll_and_jam import element, loads
from passes.test_forward import THROUGH
from strategies.effort import examples
from strategies.passes import assert_same_meaning
from strategies.pictures import MODES
from tileir import ops
from tileir.core.dtype import DType
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.regions.split_border import SplitBorder
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType


def along(offsets: list[int], columns: int, rows: int = 2) -> str:
    """Return a weighted sum of elements of a row at some offsets, for so many columns."""
    read = [f"T{n}[i, j : {rows}, {columns}] = =(X[i, j + {x}]);" for n, x in enumerate(offsets)]
    chain = ["S0 = T0 * 2;", *(f"S{n} = S{n - 1} + T{n} * {n + 3};" for n in range(1, len(offsets)))]
    return f"function (X[M, N]) -> (S{len(offsets) - 1}) {{ {' '.join([*read, *chain])} }}"


def vectorised(
    text: str, shape: tuple[int, ...], dtype: DType, rows: int, chunk: int = 4096
) -> tuple[Program, Program]:
    """Return a program before and after it was vectorised."""
    graph = infer(parse(text), {"X": TensorType(dtype, shape)})
    before = run((Accumulate(), Fuse(max_refs=99), Localise(), Scalarise()), lower(graph))
    after = run((Vectorise(vector_bytes=16, chunk=chunk, rows=rows),), before)
    verify(after)
    return before, after


def bindings(block: Block) -> set[Binding | None]:
    """Return what the indices of a block and of all blocks inside are bound to."""
    return {index.binding for index in block.indices}.union(*map(bindings, block.blocks))


@given(
    offsets=st.one_of(
        st.integers(2, 20).map(lambda count: list(range(count))),
        st.lists(st.integers(0, 30), min_size=2, max_size=12),
        st.integers(2, 12).map(lambda count: [3 * number for number in range(count)]),  # of interleaved channels
    ),
    columns=st.integers(4, 75),
    rows=st.sampled_from([1, 2, 3, 4, 8]),
    dtype=st.sampled_from([DType.F32, DType.F64, DType.F16, DType.U8, DType.U16, DType.I32]),
    chunk=st.sampled_from([8, 48, 4096]),
    seed=st.integers(0, 99),
)
@examples(100)
def test_vectors_beside_each_other_compute_the_same_bits(
    offsets: list[int], columns: int, rows: int, dtype: DType, chunk: int, seed: int
) -> None:
    shape = (2, columns + max(offsets))
    before, after = vectorised(along(offsets, columns), shape, dtype, rows, chunk)
    picture = {"X": element(dtype, shape, seed)}
    found = interpret(after, picture)
    for name, result in interpret(before, picture).items():
        np.testing.assert_array_equal(found[name], result)


@pytest.mark.parametrize(("width", "vectors"), [(17, 4), (9, 4), (5, 1)])
def test_wide_windows_load_once_what_vectors_share(width: int, vectors: int) -> None:
    _, after = vectorised(along(list(range(width)), 32), (2, 31 + width), DType.F32, 4)
    (kernel,) = after.main.blocks
    assert loads(kernel) == width + 4 * (vectors - 1)


def test_vectors_that_are_left_are_computed_alone() -> None:
    _, after = vectorised(along(list(range(17)), 4 * 6), (2, 40), DType.F32, 4)
    (kernel,) = after.main.blocks
    assert loads(kernel) == 17 + 12 + 17  # four vectors beside each other, and two one after the other


def padded(mode: str, margin: int, columns: int, *, dear: bool) -> Program:
    """Return a program of windows along padded rows, split at their sides; ``dear`` takes their exponentials."""
    f = tileir.FunctionBuilder()
    x = f.input("X", "M", "N")
    y = f.tensor("Y", *x.dims)
    i, j, k = f.indices("i j k")
    y[i, j] += ops.pad(x, [(0, 0), (margin, margin)], mode=mode)[i, j + k].given(k < 2 * margin + 1)
    program = lower(infer(f.build(ops.exp(y) if dear else y), {"X": TensorType(DType.F32, (9, columns))}))
    fused = (*THROUGH, Fuse(), Localise(), Scalarise(), Canonicalise())
    return run((*fused, SplitBorder(points=0, share=0, rows=1), Canonicalise()), program)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("margin", [4, 6, 8])
@pytest.mark.parametrize("columns", [32, 45])
def test_places_at_the_sides_of_rows_are_constants(mode: str, margin: int, columns: int) -> None:
    before = padded(mode, margin, columns, dear=False)
    after = run((Vectorise(vector_bytes=16, chunk=64),), before)
    assert_same_meaning(before, after)
    (sides,) = (kernel for kernel in after.main.blocks if "border" in kernel.tags)
    assert Binding.UNROLL in bindings(sides)
    assert Binding.LANE not in bindings(sides)


def test_what_takes_long_at_the_sides_keeps_its_lanes() -> None:
    before = padded("edge", 4, 32, dear=True)
    after = run((Vectorise(vector_bytes=16, chunk=64),), before)
    assert_same_meaning(before, after)
    (sides,) = (kernel for kernel in after.main.blocks if "border" in kernel.tags)
    assert Binding.LANE in bindings(sides)


def test_bodies_without_loops_stay_short() -> None:
    before = padded("edge", 20, 90, dear=False)  # 41 loads for each of 40 points
    (sides,) = (k for k in run((Vectorise(vector_bytes=16),), before).main.blocks if "border" in k.tags)
    assert Binding.LANE in bindings(sides)
