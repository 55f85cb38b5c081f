from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.kernels import PROGRAMS, inputs, stripe_program
from strategies.passes import assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run, with_kernels
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.canonicalise import Canonicalise
from tileir.passes.schedules.vectors.register_transpose import RegisterTranspose
from tileir.passes.schedules.vectors.vectorise import Vectorise
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import Declare, Shuffle
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Block, Program, Special
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

AXES = ("i", "j", "k")
LETTERS = ("M", "N", "P")


def permuted(order: tuple[int, ...], sizes: tuple[int, ...], dtype: DType, after: str) -> Program:
    """Return the program that permutes the axes of a tensor of three axes, and computes with the result."""
    place = ", ".join(AXES[axis] for axis in order)
    shape = ", ".join(LETTERS[axis] for axis in order)
    text = f"function (A[M, N, P], B) -> (O) {{ T[{place} : {shape}] = =(A[i, j, k]); O = {after}; }}"
    types = {"A": TensorType(dtype, sizes), "B": TensorType(dtype, tuple(sizes[axis] for axis in order))}
    return lower(infer(parse(text), types))


def turns(program: Program) -> int:
    pending, found = list(program.main.blocks), 0
    while pending:
        block: Block = pending.pop()
        pending.extend(block.blocks)
        found += sum(isinstance(s, Special) and s.name == "transpose" for s in block.statements)
    return found


def arrays(program: Program) -> dict[str, Any]:
    generator = np.random.default_rng(2)
    shapes = {name: program.entry.refinement(name).shape for name in program.inputs}
    return {n: np.asarray(generator.integers(0, 50, s.sizes), s.dtype.numpy) for n, s in shapes.items()}


@examples(60)
@given(
    order=st.sampled_from(tuple(permutations(range(3)))),
    sizes=st.tuples(*(st.integers(1, 11) for _ in range(3))),
    dtype=st.sampled_from((DType.F32, DType.F64, DType.I16, DType.U8)),
    after=st.sampled_from(("T", "T + B", "T * B - T")),
    shuffles=st.booleans(),
)
def test_permutations_keep_their_meaning(
    order: tuple[int, ...], sizes: tuple[int, ...], dtype: DType, after: str, *, shuffles: bool
) -> None:
    program = permuted(order, sizes, dtype, after)
    given = arrays(program)
    first = (Accumulate(), Fuse(), Canonicalise())
    turned = run((*first, RegisterTranspose(vector_bytes=16, max_tile=4, rows=8, columns=4)), program)
    assert_same_meaning(program, turned, given)
    kernels = lower_to_semtree(run((Vectorise(vector_bytes=16),), turned), Target(vector_bytes=16, shuffles=shuffles))
    expected = interpret(program, given)
    for name, value in run_program(kernels, given).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_kernels_keep_their_meaning(name: str) -> None:
    program = stripe_program(name)
    turned = run((Accumulate(), Fuse(), RegisterTranspose(vector_bytes=16)), program)
    assert_same_meaning(program, turned, inputs(name))


def test_tiles_are_turned_by_shuffles_of_two_vectors() -> None:
    program = run((RegisterTranspose(vector_bytes=16),), permuted((2, 1, 0), (8, 3, 4), DType.F32, "T"))
    assert turns(program) == 1
    kernel = lower_to_semtree(program, Target(shuffles=True)).kernels[0]
    nodes = [n for s in statements(kernel.body) if isinstance(s, Declare) for e in expressions(s) for n in walk(e)]
    shuffles = [node for node in nodes if isinstance(node, Shuffle)]
    assert len(shuffles) == 4 * 2
    assert {len(node.operands) for node in shuffles} == {2}


def test_blocks_are_no_larger_than_the_tensor() -> None:
    program = permuted((0, 2, 1), (3, 16, 16), DType.F32, "T * B")
    large = run((RegisterTranspose(rows=2**62, columns=2**62),), program)
    assert large == run((RegisterTranspose(rows=16, columns=16),), program)


def test_what_fills_no_tile_is_left_to_other_passes() -> None:
    program = permuted((2, 1, 0), (9, 2, 7), DType.F32, "T")
    turned = run((RegisterTranspose(vector_bytes=16),), program)
    assert [bool(turns(run_with(turned, kernel))) for kernel in turned.main.blocks][:3] == [True, False, False]


def run_with(program: Program, kernel: Block) -> Program:
    return with_kernels(program, (kernel,))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2)])
def test_kernels_whose_rows_stay_rows_are_left_alone(order: tuple[int, ...]) -> None:
    program = permuted(order, (8, 8, 8), DType.F32, "T")
    assert run((RegisterTranspose(vector_bytes=16),), program) is program
