"""Footprints: nothing outside of them changes a result, and windows have exactly those that they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, event, given, strategies as st

from strategies.effort import examples
from strategies.tile import Case, cases
from tileir import craft
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.text.parser import parse
from tileir.typed.boxes import Box
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, TensorType
from tileir_formula.running.footprint import MOST_BOXES, footprint

Array = npt.NDArray[Any]

PICTURE = np.zeros((20, 30, 3), np.float32)


def function_of(text: str, **shapes: tuple[int, ...]) -> Function:
    return infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in shapes.items()})


def covered(shape: tuple[int, ...], boxes: tuple[Box, ...]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(shape, bool)
    for box in boxes:
        mask[tuple(slice(*sides) for sides in box)] = True
    return mask


@given(case=cases(), seed=st.integers(0, 99))
@examples(150)
def test_nothing_outside_matters(case: Case, seed: int) -> None:
    function = case.typed()
    rng = np.random.default_rng(seed)
    before = interpret(function, case.inputs)
    name = function.outputs[int(rng.integers(len(function.outputs)))]
    assume(np.asarray(before[name]).size)
    element = tuple(int(rng.integers(size)) for size in np.shape(before[name]))
    read = footprint(function, name, tuple((place, place + 1) for place in element))
    changed = {}
    for key, array in case.inputs.items():
        other = np.asarray(array)[...].copy()
        outside = ~covered(other.shape, read.get(key, ()))
        other[outside] = np.roll(other, 1)[outside] if other.dtype == bool else other[outside] + other.dtype.type(1)
        changed[key] = other
    after = interpret(function, changed)
    event("something is outside" if any((changed[key] != case.inputs[key]).any() for key in changed) else "all is read")
    np.testing.assert_array_equal(np.asarray(before[name])[element], np.asarray(after[name])[element])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("convolve(weights=[1 2 3])", (7, 9), [(7, 8), (8, 11)]),
        ("convolve(weights=[1 2 3])", (7, 0), [(7, 8), (0, 2)]),
        ("convolve(weights=[1; 2; 3]) outside wrap", (0, 4), [(0, 2), (4, 5)]),
        ("gaussian(sigma=1)\nconvolve(weights=[1 2 3; 4 5 6; 7 8 9])", (10, 15), [(5, 16), (10, 21)]),
        ("repeat 40 {\n convolve(weights=[1 2 3])\n}", (7, 2), [(7, 8), (0, 30)]),
        ("repeat 2 {\n convolve(weights=[1 2 3])\n}", (7, 12), [(7, 8), (10, 15)]),
    ],
)
def test_footprints_of_steps(text: str, place: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    function = craft(text).executable(PICTURE).typed
    boxes = footprint(function, "Result", (*((each, each + 1) for each in place), (1, 2)))["image"]
    wanted = covered(PICTURE.shape, ((*expected, (1, 2)),))
    if "wrap" in text:
        wanted |= covered(PICTURE.shape, (((19, 20), (4, 5), (1, 2)),))
    np.testing.assert_array_equal(covered(PICTURE.shape, boxes), wanted)


def test_sorted_elements() -> None:
    function = function_of("function (A[N, M]) -> (B) { B = argsort(A, 1, 0, 3); }", A=(9, 4))
    assert footprint(function, "B", ((1, 3), (0, 2))) == {"A": (((1, 3), (0, 4)),)}


def test_chosen_elements() -> None:
    shifted = "function (A[N, M]) -> (B) { B = gather(A, index(A, 0) * 0 + 2); }"
    function = function_of("function (A[N, M], C[K]) -> (B) { B = gather(A, index(C, 0) + 2); }", A=(9, 4), C=(5,))
    assert footprint(function, "B", ((1, 3), (0, 2))) == {"A": (((3, 5), (0, 2)),)}
    by_data = function_of("function (A[N, M], C[K]) -> (B) { B = gather(A, as_int(C, 32)); }", A=(9, 4), C=(5,))
    read = footprint(by_data, "B", ((1, 3), (0, 2)))
    assert read == {"A": (((0, 9), (0, 2)),), "C": (((1, 3),),)}
    assert footprint(function_of(shifted, A=(9, 4)), "B", ((0, 1), (3, 4), (1, 2)))["A"] == (((2, 3), (1, 2)),)


def test_reshaped_and_joined_elements() -> None:
    function = function_of("function (A[N]) -> (B) { B = reshape(A, 3, 4); }", A=(12,))
    assert footprint(function, "B", ((1, 2), (1, 3))) == {"A": (((5, 7),),)}
    many = function_of("function (A[N, M]) -> (B) { B[i : N] = +(A[j, 2 * i]), j - j < 1; }", A=(40, 40))
    assert footprint(many, "B", ((1, 2),)) == {"A": (((0, 40), (2, 3)),)}
    sums = " + ".join(f"A{k}" for k in range(MOST_BOXES + 2))
    parts = " ".join(f"A{k}[i : 1] = =(X[i + {2 * k}]);" for k in range(MOST_BOXES + 2))
    joined = function_of(f"function (X[N]) -> (B) {{ {parts} B = {sums}; }}", X=(200,))
    boxes = footprint(joined, "B", ((0, 1),))["X"]
    assert len(boxes) <= MOST_BOXES
    assert covered((200,), boxes)[: 2 * MOST_BOXES + 3 : 2].all()


def test_what_is_no_result() -> None:
    function = function_of("function (A[N]) -> (B) { B = A * 2.0; }", A=(12,))
    for output, box, code in (("C", ((0, 1),), "TIL311"), ("B", ((3, 13),), "TIL314"), ("B", (), "TIL314")):
        with pytest.raises(TileError) as caught:
            footprint(function, output, box)
        assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize("access", ["i, i + j", "i, j - i", "i, 3 - j"])
def test_boxes_of_skewed_indices_stay_within_the_tensor(access: str) -> None:
    text = f"function (A[M, N]) -> (R) {{ R[ : ] = +(A[{access}]); }}"
    function = infer(parse(text), {"A": TensorType(DType.F32, (2, 4))})
    assert footprint(function, "R", ()) == {"A": (((0, 2), (0, 4)),)}
