"""Rows replaced in order, and the same rows found by the greatest numbers of updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.driver.compiler import typed_of
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Function, Scan, Scatter, TensorType
from tileir.typed.simplify.preparation import with_last_updates
from tileir.typed.text.parser import parse
from tileir.typed.text.printer import to_text
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

TEXT = "function (U, I, L) -> (O) { O = scatter_last(U, I, L); }"
STEPS = """function (H0, Us, Is) -> (H) {
    H = scan(H0; Us, Is) function (H, U, I) -> (H1) { H1 = scatter_last(U, I, H); };
}"""


def graph(updates: tuple[int, ...], places: tuple[int, ...], rows: tuple[int, ...], dtype: DType) -> Function:
    types = {"U": TensorType(dtype, updates), "I": TensorType(DType.I32, places), "L": TensorType(dtype, rows)}
    return infer(tileir.parse(TEXT), types)


def last(rows: Array, places: Array, updates: Array) -> Array:
    """Return rows replaced one after the other."""
    found = rows.copy()
    for place in np.ndindex(places.shape):
        found[np.clip(places[place], 0, len(rows) - 1)] = updates[place]
    return found


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I8, DType.U64, DType.BOOL])
@pytest.mark.parametrize(
    ("places", "rest", "size"), [((9,), (), 3), ((3, 4), (2,), 5), ((), (3,), 2), ((0,), (2,), 4), ((6,), (2, 3), 1)]
)
def test_both_forms_put_the_last_update(
    places: tuple[int, ...], rest: tuple[int, ...], size: int, dtype: DType
) -> None:
    random = np.random.default_rng(0)
    shapes = {"U": (*places, *rest), "L": (size, *rest)}
    arrays: dict[str, Array] = {name: random.integers(0, 50, s).astype(dtype.numpy) for name, s in shapes.items()}
    arrays["I"] = np.asarray(random.integers(-2, size + 2, places), np.int32)
    before = graph((*places, *rest), places, (size, *rest), dtype)
    after = with_last_updates(before)
    verify(before)
    verify(after)
    assert not any(isinstance(each, Scatter) and each.ordered for each in after.operations)
    expected = last(arrays["L"], arrays["I"], arrays["U"])
    for function in (before, after):
        np.testing.assert_array_equal(interpret(function, arrays)["O"], expected)


def test_text_says_that_updates_have_an_order() -> None:
    before = graph((4,), (4,), (3,), DType.F32)
    text = to_text(before)
    assert "scatter_assign(U, I, L) in f32 ordered" in text
    assert parse(text) == before


def test_without_an_order_nothing_changes() -> None:
    types = {"U": TensorType(DType.F32, (4,)), "I": TensorType(DType.I32, (4,)), "L": TensorType(DType.F32, (3,))}
    before = infer(tileir.parse(TEXT.replace("scatter_last", "scatter_assign")), types)
    assert with_last_updates(before) is before


def test_devices_that_update_elements_by_all_threads_get_numbers_of_updates() -> None:
    types = {"U": TensorType(DType.F32, (4,)), "I": TensorType(DType.I32, (4,)), "L": TensorType(DType.F32, (3,))}
    for target, ordered in ((Target(), True), (attrs.evolve(Target(), update_bytes=4), False)):
        made = typed_of(tileir.parse(TEXT), types, target)
        assert any(isinstance(each, Scatter) and each.ordered for each in made.operations) is ordered


def test_steps_of_loops_too() -> None:
    types = {
        "H0": TensorType(DType.F32, (3,)), "Us": TensorType(DType.F32, (2, 4)), "Is": TensorType(DType.I32, (2, 4))
    }  # fmt: skip
    before = infer(tileir.parse(STEPS), types)
    after = with_last_updates(before)
    (loop,) = (each for each in after.operations if isinstance(each, Scan))
    assert not any(isinstance(each, Scatter) and each.ordered for each in loop.body.operations)
    random = np.random.default_rng(0)
    arrays: dict[str, Array] = {
        "H0": random.random(3).astype(np.float32),
        "Us": random.random((2, 4)).astype(np.float32),
        "Is": random.integers(0, 3, (2, 4)).astype(np.int32),
    }
    expected = arrays["H0"]
    for places, updates in zip(arrays["Is"], arrays["Us"], strict=True):
        expected = last(expected, places, updates)
    for function in (before, after):
        np.testing.assert_array_equal(interpret(function, arrays)["H"], expected)
