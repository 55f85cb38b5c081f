"""Constants: arrays of all dtypes in a program, as operands, tables, windows, results, and in loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.testing.programs.case import Array, Conformance, as_array, halves, integers
from tileir.testing.programs.convolutions import correlate
from tileir.tile.text.printer import value_text


def _constant(name: str, array: Array) -> str:
    """Return the statement of a constant."""
    return f"constant {name} = {value_text(ArrayValue.of(array), array.size)};"


def _operands() -> Iterator[Conformance]:
    for dtype in DType:
        table = np.array([[1, 0, 3], [2, 1, 0]]).astype(dtype.numpy)
        x = integers("i1", 2, 3, seed=3).astype(dtype.numpy)
        text = f"function (X[N, M]) -> (O, K) {{ {_constant('K', table)} O = X == K; }}"
        yield Conformance(f"constant_{dtype.value}", text, {"X": x}, {"O": x == table, "K": table})
    special = as_array([np.inf, -np.inf, np.nan, -0.0, 0.0], "f4")
    text = f"function (X[N]) -> (O, K) {{ {_constant('K', special)} O = X * K; }}"
    ones = np.ones(5, np.float32)
    yield Conformance("constant_special", text, {"X": ones}, {"O": special, "K": special})
    text = "function (X[N]) -> (O, P) { constant S = 0.5; constant T = i32[](3); O = X * S; P = index(X, 0) * T; }"
    x = halves("f4", 6)
    yield Conformance("constant_scalars", text, {"X": x}, {"O": x / 2, "P": 3 * np.arange(6, dtype=np.int32)})
    table = integers("i4", 40, 300)
    text = f"function (X[N]) -> (O) {{ {_constant('K', table)} O[i : N] = +(X[i] * K[i, j]); }}"
    x4 = integers("i4", 40, seed=1)
    yield Conformance("constant_large", text, {"X": x4}, {"O": x4 * table.sum(1, dtype=np.int32)})


def _uses() -> Iterator[Conformance]:
    table, at = halves("f4", 7, 3), as_array([6, 0, 3, 3], "i4")
    text = f"function (I) -> (O) {{ {_constant('T', table)} O = gather(T, I); }}"
    yield Conformance("constant_table", text, {"I": at}, {"O": table[at]})
    text = f"function () -> (O) {{ {_constant('T', table)} O[i : 7] = +(T[i, j]); }}"
    yield Conformance("constants_alone", text, {}, {"O": table.sum(1)})
    fill = halves("f4", 8, seed=2)
    x = halves("f4", 3)
    text = f"function (X[N]) -> (O) {{ {_constant('D', fill)} O[2 * i : 8] = =(X[i]) default D; }}"
    partly = fill.copy()
    partly[:6:2] = x
    yield Conformance("constant_default", text, {"X": x}, {"O": partly})
    weights = halves("f4", 4, seed=5)
    step = f"function (S) -> (S2, O) {{ {_constant('K', weights)} S2 = S * 0.5 + K; O = S2 * K; }}"
    text = f"function (H) -> (F) {{ R = scan(H) 3 times {step}; F = element(R, 0); }}"
    state = halves("f4", 4, seed=6)
    after = state
    for _ in range(3):
        after = after / 2 + weights
    yield Conformance("constant_in_a_loop", text, {"H": state}, {"F": after})


def _windows() -> Iterator[Conformance]:
    source = """function (I[H, W]) -> (O) {{
      {} {}O[y, x : H - 2, W - 2] = {}(I[y + j, x + i] {} K[j, i]), j < 3, i < 3;
    }}"""
    sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])
    for dtype in ("f4", "f8", "i4", "i2"):
        image, kernel = integers(dtype, 20, 37), sobel.astype(dtype)
        for mark in ("", "[[finite]] "):
            text = source.format(_constant("K", kernel), mark, "+", "*")
            name = f"constant_window_{'finite_' if mark else ''}{dtype}"
            yield Conformance(name, text, {"I": image}, {"O": correlate(image, kernel)})
    image = halves("f4", 20, 37)
    image[4, 5], image[11, 20] = np.inf, np.nan
    with np.errstate(all="ignore"):
        expected = correlate(image, sobel.astype("f4"))
    text = source.format(_constant("K", sobel.astype("f4")), "", "+", "*")
    yield Conformance("constant_window_not_finite", text, {"I": image}, {"O": expected})
    cross = np.where([[0, 1, 0], [1, 1, 1], [0, 1, 0]], 0, -np.inf).astype("f4")
    plain = halves("f4", 9, 20)
    text = source.format(_constant("K", cross), "[[finite]] ", ">", "+")
    views = [plain[1 + j : 8 + j, 1 + i : 19 + i] for j, i in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))]
    yield Conformance("constant_dilation", text, {"I": plain}, {"O": np.maximum.reduce(views)})


CONSTANTS = (*_operands(), *_uses(), *_windows())
