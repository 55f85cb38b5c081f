"""The generator: known answers of Philox, and figures of its numbers."""

import numpy as np

from tileir.core.dtype import DType
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType
from tileir.typed.simplify.simplifier import simplify
from tileir_testing.programs.elementwise import philox

TEXT = "function (S) -> (V, T) { P = prng_step(S, 100, 120); V = prng_value(P); T = prng_state(P); }"


def test_known_answers() -> None:
    # Random123, kat_vectors: philox4x32 with 10 rounds, counter and key 0.
    assert philox(0, 0, 0) == 0x6627E8D5


def test_numbers_are_uniform_and_the_state_moves_on() -> None:
    function = infer(parse(TEXT), {"S": TensorType(DType.U32, (4,))})
    state = np.array([1, 2, 0, 0], np.uint32)
    result = interpret(function, {"S": state})
    values = result["V"]
    assert values.shape == (100, 120)
    assert 0 <= values.min() < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.std() - 12**-0.5) < 0.01
    assert result["T"].tolist() == [1, 2, 12000, 0]
    again = interpret(function, {"S": result["T"]})
    assert not np.any(again["V"] == values.flat[0])
    assert np.array_equal(interpret(simplify(function), {"S": state})["V"], values)


def test_the_counter_carries_over() -> None:
    function = infer(parse(TEXT), {"S": TensorType(DType.U32, (4,))})
    state = np.array([1, 2, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
    result = interpret(function, {"S": state})
    assert result["T"].tolist() == [1, 2, 11999, 0]
    assert result["V"].flat[1] == np.float32(philox(0, 1, 2) >> 8) * np.float32(2.0**-24)
