from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from strategies.passes import assert_same_meaning, program_of
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.schedules.vectors.thread import Thread
from tileir.passes.schedules.vectors.vectorise_short import VectoriseShort
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.blocks import Binding
from tileir.stripe.lower.lowering import lower
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.stripe.ir import Block, Program

ROWS = "function (X[N, C], I[M]) -> (Y) { Y = gather(X, I) * 2; }"


def gathered(channels: int, text: str = ROWS) -> Program:
    types = {"X": TensorType(DType.F32, (7, channels)), "I": TensorType(DType.I32, (5,))}
    return lower(infer(tileir.parse(text), types))


def lanes(block: Block) -> list[int]:
    mine = [index.range for index in block.indices if index.binding is Binding.LANE]
    return mine + [count for inner in block.blocks for count in lanes(inner)]


@pytest.mark.parametrize("channels", [2, 3, 4, 7, 8])
def test_channels_of_pixels_that_data_choose_are_lanes(channels: int) -> None:
    program = gathered(channels)
    after = VectoriseShort(vector_bytes=32)(program)
    assert lanes(after.main) == [channels]
    arrays = {
        "X": np.arange(7 * channels, dtype=np.float32).reshape(7, channels),
        "I": np.array([6, 0, -3, 99, 2], np.int32),
    }
    assert_same_meaning(program, after, arrays)
    found = run_program(lower_to_kernels(run((Thread(),), after), Target()), arrays)
    np.testing.assert_array_equal(found["Y"], arrays["X"][[6, 0, 0, 6, 2]] * 2)


@pytest.mark.parametrize("channels", [1, 9, 40])
def test_rows_that_are_no_vector_or_more_than_one_stay(channels: int) -> None:
    program = gathered(channels)
    assert VectoriseShort(vector_bytes=32)(program) is program


def test_at_most_so_many_lanes_as_the_target_has() -> None:
    program = gathered(4)
    assert VectoriseShort(vector_bytes=32, max_lanes=2)(program) is program


def test_places_that_differ_between_lanes_stay_apart() -> None:
    text = """
    block [i:5, c:3]:15 (
     in I[i, c] i32:I(1, 1):(3, 1)
     in X[0] i32:I(7):(1)
     out Y[i, c] i32:I(1, 1):(3, 1)
    ) {
     0: $i = load(I)
     1: $x = load(X[$i])
     2: Y = store($x)
    }"""
    program = program_of([text], {"I": (5, 3), "X": (7,), "Y": (5, 3)}, ("Y",), dtype=DType.I32)
    assert VectoriseShort()(program) is program


def test_elementwise_kernels_stay() -> None:
    program = gathered(3, "function (X[N, C], I[M]) -> (Y) { Y = X * 2; }")
    assert VectoriseShort()(program) is program
