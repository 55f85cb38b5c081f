"""Masks made of coordinates and constants: comparisons where they are bands, results as in NumPy with f64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir import FunctionBuilder, ops
from tileir.core import Op
from tileir.core.dtype import DType
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import ArrayConstant, Contraction, Coordinate, Elementwise, Function, Gather, TensorType
from tileir.typed.simplify.bands import Band, band_of, with_bands
from tileir.typed.simplify.preparation import prepared
from tileir.typed.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, np.dtype[Any]]


def graph(text: str, **shapes: tuple[int, ...]) -> Function:
    return prepared(infer(tileir.parse(text), {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}))


def band(rows: int, columns: int, before: int | None, after: int | None) -> Array:
    row, column = np.ogrid[:rows, :columns]
    seen = np.ones((rows, columns), bool)
    if before is not None:
        seen &= row - column <= before
    if after is not None:
        seen &= column - row <= after
    return seen


def attended(found: dict[str, Array], hidden: Array) -> Array:
    """Return attention in f64; ``hidden`` is added to the scores, and rows that see nothing give zeros."""
    queries, keys, values = (found[name].astype(float) for name in "QKV")
    scores = queries @ np.swapaxes(keys, -1, -2) / np.sqrt(queries.shape[-1]) + hidden
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return np.asarray(weights / np.where(total == 0, 1, total) @ values)


def attention(
    shapes: dict[str, tuple[int, ...]], mask: Callable[[FunctionBuilder], dict[str, Any]]
) -> tuple[Function, dict[str, Array], Array]:
    """Return attention with a mask, simplified, inputs, and what the interpreter finds."""
    builder = FunctionBuilder()
    inputs = [builder.input(name, *(f"{name}{n}" for n in range(len(shape)))) for name, shape in shapes.items()]
    function = builder.build(O=ops.scaled_dot_product_attention(*inputs, **mask(builder)))
    made = prepared(infer(function, {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}))
    verify(made)
    random = np.random.default_rng(0)
    found = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return made, found, interpret(made, found)["O"]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_masks_without_elements_are_no_bands(shape: tuple[int, int]) -> None:
    assert band_of(np.empty(shape, bool)) is None


@examples(30)
@given(st.data())
def test_constant_masks_that_are_bands_become_comparisons(data: st.DataObject) -> None:
    draw = data.draw
    rows, columns = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    before, after = (draw(st.none() | st.integers(-4, 9)) for _ in range(2))
    seen = band(rows, columns, before, after)
    is_added = draw(st.booleans())
    lead = draw(st.sampled_from(((), (1,), (3,))))
    array = np.broadcast_to(seen, (*lead, rows, columns))
    hidden = np.where(seen, 0.0, -np.inf)
    values = np.where(array, 0.0, -np.inf).astype(np.float32) if is_added else array.copy()
    made, found, result = attention(
        {"Q": (3, rows, 4), "K": (3, columns, 4), "V": (3, columns, 2)},
        lambda builder: {"bias" if is_added else "mask": builder.constant(values)},
    )
    np.testing.assert_allclose(result, attended(found, hidden), atol=1e-5)
    kept = any(isinstance(each, ArrayConstant) for each in made.operations)
    assert kept == (seen.all() or not seen.any())
    if not kept:
        assert not any(
            each.op is Op.ADD and each.dtype.is_float for each in made.operations if isinstance(each, Elementwise)
        )


GATHERED = """function (X[N, N]) -> (O) {
    P = index(X, 0);
    R[i : N] = =(P[i, 0]);
    T = gather(R, index(R, 0)) - R;
    S[i : N] = +(T[i - k]), k < N;
    A = reshape(gather(R, R), 1, N) <= reshape(gather(R, R), N, 1);
    B = reshape(S, 1, N) == reshape(S, N, 1);
    M = A & B;
    O = cond(M, X, -1e999);
}"""


def test_masks_by_gathers_and_running_sums_are_evaluated() -> None:
    made = graph(GATHERED, X=(7, 7))
    verify(made)
    assert not any(isinstance(each, Gather | Contraction) for each in made.operations)
    assert {type(each) for each in made.operations} >= {Coordinate, Elementwise}
    x = np.random.default_rng(0).standard_normal((7, 7)).astype(np.float32)
    np.testing.assert_array_equal(interpret(made, {"X": x})["O"], np.where(np.tri(7, dtype=bool), x, -np.inf))


@pytest.mark.parametrize("op", ["<=", "<", ">", ">="])
def test_both_sides_of_a_diagonal_are_bands(op: str) -> None:
    text = f"""function (X[N, M]) -> (O) {{
        R[i : M] = =(X[0, i]);
        P = gather(index(R, 0), index(R, 0));
        O = cond(P {op} index(X, 0) + 1, X, 3.0);
    }}"""
    made = graph(text, X=(5, 6))
    assert not any(isinstance(each, Gather) for each in made.operations)
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    row, column = np.ogrid[:5, :6]
    seen = {"<=": column <= row + 1, "<": column < row + 1, ">": column > row + 1, ">=": column >= row + 1}[op]
    np.testing.assert_array_equal(interpret(made, {"X": x})["O"], np.where(seen, x, 3.0))


@pytest.mark.parametrize(
    "array",
    [
        np.eye(4, dtype=bool)[:, [2, 0, 3, 1]],
        np.kron(np.eye(2), np.ones((3, 3))).astype(bool),
        np.stack([np.tri(4), np.tri(4).T]),
        np.tri(4) * 2 + np.eye(4),
        np.where(np.tri(4) > 0, 0, np.nan),
        np.ones((3, 3), bool),
        np.arange(4) < np.full((3, 1), 2),
    ],
)
def test_other_masks_are_no_bands(array: Array) -> None:
    assert band_of(array) is None


def test_of_weights_with_many_values_few_are_read() -> None:
    assert band_of(np.broadcast_to(np.arange(3), (1 << 20, 1 << 20, 3))) is None  # to compare all would take terabytes


def test_bands_may_run_along_any_two_axes() -> None:
    array = np.where(band(4, 5, 1, 2), 0.0, -7.0)
    assert band_of(np.broadcast_to(array[:, None, :, None], (4, 3, 5, 2))) == Band(0, 2, 1, 2, 0.0, -7.0)


@pytest.mark.parametrize("scores", ["X", "exp(X)", "Z * 2.0"])
def test_sums_with_minus_infinity_stay_where_operands_may_be_infinite(scores: str) -> None:
    """Infinity and minus infinity are NaN, where a choice would hide the former."""
    text = f"""function (X[N, N]) -> (O) {{
        Z[i, j : N, N] = +(X[i, k] * X[k, j]);
        O = {scores} + cond(index(X, 1) <= index(X, 0), 0.0, -1e999);
    }}"""
    made = graph(text, X=(2, 2))
    found = interpret(made, {"X": np.full((2, 2), np.inf, np.float32)})["O"]
    assert np.isnan(found[0, 1])


def test_masks_that_inputs_take_part_in_stay() -> None:
    text = "function (X[N, N], P[N]) -> (O) { O = cond(reshape(P, 1, N) <= reshape(P, N, 1), X, -1e999); }"
    made = graph(text, X=(4, 4), P=(4,))
    assert with_bands(made) is made
