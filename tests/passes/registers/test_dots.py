"""Register tiles whose steps are dot products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.fragments import named
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.fusion.inline import Inline
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.semtree.dots import fragment_of
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Dot
from tileir.semtree.lower.lowering import lower as lower_kernels
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

FRAGMENTS = named("avx512vnni")
TARGET = Target(vector_bytes=16, fragments=FRAGMENTS)
TILE = RegisterTile(vector_bytes=16, registers=16, dots=FRAGMENTS, threads=2, operations=0)


def product(left: DType, right: DType, sizes: tuple[int, int, int], second: str = "k, n") -> Program:
    rows, depth, columns = sizes
    text = (
        f"function (A[M, K], B[{second.upper()}]) -> (O) {{ P = as_int(A, 32); Q = as_int(B, 32);"
        f" O[m, n : M, N] = +(P[m, k] * Q[{second}]); }}"
    )
    shape = {"k": depth, "n": columns}
    types = {
        "A": TensorType(left, (rows, depth)),
        "B": TensorType(right, tuple(shape[i] for i in second.split(", "))),
    }
    return lower(infer(parse(text), types))


def tiled(program: Program, step: RegisterTile = TILE) -> Program:
    return run((Inline(), Accumulate(), Fuse(), step), program)


def tags(block: Block) -> set[str]:
    own = {tag for index in block.indices for tag, _ in index.words.items}
    return own.union(*map(tags, block.blocks))


def kinds(program: Program) -> set[str]:
    kernels = lower_kernels(program, TARGET).kernels
    every = (n for k in kernels for s in statements(k.body) for root in expressions(s) for n in walk(root))
    return {fragment_of(node) for node in every if isinstance(node, Dot)}


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        (DType.U8, DType.I8, "dot_m1n4k4_u8_i8"),
        (DType.I8, DType.U8, "dot_m1n4k4_u8_i8"),
        (DType.I8, DType.I8, "dot_m1n4k4_i8"),
        (DType.U8, DType.U8, "dot_m1n4k4_u8"),
        (DType.I16, DType.I16, "dot_m1n4k2_i16"),
    ],
)
@pytest.mark.parametrize("second", ["k, n", "n, k"])
def test_narrow_factors_of_wide_sums_become_dot_products(left: DType, right: DType, kind: str, second: str) -> None:
    program = product(left, right, (9, 16, 13), second)
    after = tiled(program)
    assert kinds(after) == {kind}
    random = np.random.default_rng(0)
    arrays = {
        name: random.integers(int(dtype.minimum), int(dtype.maximum) + 1, program.entry.refinement(name).shape.sizes)
        for name, dtype in (("A", left), ("B", right))
    }
    values = {
        name: value.astype(dtype.numpy) for (name, value), dtype in zip(arrays.items(), (left, right), strict=True)
    }
    wanted = interpret(program, values)["O"]
    np.testing.assert_array_equal(interpret(after, values)["O"], wanted)
    np.testing.assert_array_equal(run_program(lower_kernels(after, TARGET), values, ALL_CHECKS)["O"], wanted)


@pytest.mark.parametrize(
    ("left", "right", "depth"),
    [(DType.I16, DType.I8, 16), (DType.U8, DType.I8, 18), (DType.U8, DType.I8, 4)],
    ids=["of other widths", "a reduction that does not divide", "a reduction of one step"],
)
def test_other_products_stay_as_they_are(left: DType, right: DType, depth: int) -> None:
    assert "dot" not in set().union(*map(tags, tiled(product(left, right, (9, depth, 13))).main.blocks))


@given(
    st.sampled_from((DType.U8, DType.I8, DType.I16)),
    st.sampled_from((DType.U8, DType.I8, DType.I16)),
    st.tuples(st.integers(1, 9), st.integers(1, 24), st.integers(1, 21)),
    st.sampled_from(("k, n", "n, k")),
)
@examples(60)
def test_products_keep_their_meaning(left: DType, right: DType, sizes: tuple[int, int, int], second: str) -> None:
    program = product(left, right, sizes, second)
    after = tiled(program)
    verify(after)
    assert_same_meaning(program, after)
