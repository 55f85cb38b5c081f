"""Programs over long axes: ``large()`` is for register tiles, packing, chunks, split reductions and several threads.

Each is a family of contractions with drawn offsets, strides, dilations and sizes, and perhaps elementwise statements
before and after. Arrays come from a drawn seed and hold integers so small that every sum is exact in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from strategies.tile import Case
from tileir.core.dtype import DType
from tileir.tile.text.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir_testing.generated.exact import Array

Shape = tuple[int, ...]
Family = tuple[str, dict[str, Shape], Shape]
"""The statement that makes C, the shapes of its arguments, and that of C."""

POINTS = 1 << 21
"""Most points of a contraction's index space; the interpreter visits all of them."""

_DTYPES = (DType.F32, DType.F32, DType.F32, DType.F64, DType.I32, DType.I8, DType.U8, DType.I64, DType.BF16, DType.F16)


class _Sizes:
    """Draws sizes of axes until the points of a contraction are used up."""

    def __init__(self, draw: st.DrawFn, points: int) -> None:
        self.draw, self.points = draw, points

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))

    def axis(self, most: int = 300) -> int:
        """Draw a size: round or odd, small or large."""
        room = max(1, min(most, self.points))
        size = min(room, self.draw(st.one_of(st.integers(1, 20), st.integers(1, most), st.sampled_from(_ROUND))))
        self.points //= size
        return size


_ROUND = (1, 2, 4, 8, 16, 31, 32, 33, 48, 63, 64, 65, 96, 128, 192, 256, 300)


def _aggregation(sizes: _Sizes) -> str:
    return sizes.draw(st.sampled_from("++++><"))


def _product(sizes: _Sizes) -> Family:
    m, n, k = sizes.axis(), sizes.axis(), sizes.axis()
    left = {"i, k": (m, k), "k, i": (k, m), f"{m - 1} - i, k": (m, k), f"i, {k - 1} - k": (m, k)}
    right = {"k, j": (k, n), "j, k": (n, k), f"k, {n - 1} - j": (k, n)}
    a, b = sizes.draw(st.sampled_from(sorted(left))), sizes.draw(st.sampled_from(sorted(right)))
    target, shape = sizes.draw(st.sampled_from([("i, j", (m, n)), ("j, i", (n, m))]))
    combination = sizes.draw(st.sampled_from("***+"))
    text = f"C[{target} : {', '.join(map(str, shape))}] = {_aggregation(sizes)}(A[{a}] {combination} B[{b}]);"
    return text, {"A": left[a], "B": right[b]}, shape


def _batched(sizes: _Sizes) -> Family:
    z, m, n, k = sizes.axis(20), sizes.axis(100), sizes.axis(100), sizes.axis(100)
    text = f"C[z, i, j : {z}, {m}, {n}] = {_aggregation(sizes)}(A[z, i, k] * B[z, k, j]);"
    return text, {"A": (z, m, k), "B": (z, k, n)}, (z, m, n)


def _reduction(sizes: _Sizes) -> Family:
    rank = sizes.number(1, 4)
    shape = tuple(sizes.axis() for _ in range(rank))
    names = "ijkl"[:rank]
    kept = [axis for axis in sizes.draw(st.permutations(range(rank))) if sizes.number(0, 1)]
    result = tuple(shape[axis] for axis in kept)
    target = ", ".join(names[axis] for axis in kept)
    text = f"C[{target} : {', '.join(map(str, result))}] = {_aggregation(sizes)}(A[{', '.join(names)}]);"
    return text, {"A": shape}, result


def _convolution(sizes: _Sizes) -> Family:
    """Draw a two-dimensional convolution with channels: padded or not, strided, dilated, in either channel order."""
    p, q, c = sizes.axis(4), sizes.axis(4), sizes.axis(20)
    d, h, w = sizes.axis(70), sizes.axis(40), sizes.axis(70)
    stride, dilation, padding = sizes.number(1, 2), sizes.number(1, 3), sizes.number(0, 2)
    tall, wide = h * stride + p, w * stride + q
    y = f"{stride} * y + {dilation} * i - {padding}"
    x = f"{stride} * x + {dilation} * j - {padding}"
    data, shape = sizes.draw(
        st.sampled_from([(f"A[{y}, {x}, c]", (tall, wide, c)), (f"A[c, {y}, {x}]", (c, tall, wide))])
    )
    target, result = sizes.draw(st.sampled_from([("y, x, d", (h, w, d)), ("d, y, x", (d, h, w))]))
    text = f"C[{target} : {', '.join(map(str, result))}] = {_aggregation(sizes)}({data} * B[i, j, c, d]);"
    return text, {"A": shape, "B": (p, q, c, d)}, result


def _scattered_convolution(sizes: _Sizes) -> Family:
    """Draw the gradient of a convolution for its data: the output is indexed by a sum."""
    x, k, c, d = sizes.axis(200), sizes.axis(5), sizes.axis(40), sizes.axis(40)
    stride, dilation = sizes.number(1, 3), sizes.number(1, 2)
    n = sizes.number(1, stride * x + dilation * k)
    text = f"C[{stride} * x + {dilation} * k, c : {n}, {c}] = +(A[x, d] * B[k, c, d]);"
    return text, {"A": (x, d), "B": (k, c, d)}, (n, c)


def _pool(sizes: _Sizes) -> Family:
    c, y, x, p, q = sizes.axis(40), sizes.axis(60), sizes.axis(120), sizes.axis(4), sizes.axis(4)
    step, shift = sizes.number(1, 3), sizes.number(-1, 1)
    tall, wide = sizes.number(1, y * step + p), sizes.number(1, x * step + q)
    text = (
        f"C[y, x, c : {y}, {x}, {c}] = {_aggregation(sizes)}"
        f"(A[{step} * y + i + {shift}, {step} * x + j, c]), i < {p}, j < {q};"
    )
    return text, {"A": (tall, wide, c)}, (y, x, c)


def _movement(sizes: _Sizes) -> Family:
    m, n, z = sizes.axis(), sizes.axis(), sizes.axis(20)
    forms = {
        "j, i, z": (n, m, z), "z, j, i": (z, n, m), f"i, {n - 1} - j, z": (m, n, z),
        "i + 3, j, z": (m + 5, n, z), "i, 2 * j, z": (m, 2 * n, z), "i, j / 2, z": (m, n, z),
    }  # fmt: skip
    target = sizes.draw(st.sampled_from(sorted(forms)))
    shape = forms[target]
    text = f"C[{target} : {', '.join(map(str, shape))}] = =(A[i, j, z]);"
    return text, {"A": (m, n, z)}, shape


def _running(sizes: _Sizes) -> Family:
    n, m = sizes.axis(200), sizes.axis(100)
    n, m = min(n, 200), max(1, min(m, POINTS // (n * n)))
    form = sizes.draw(st.sampled_from([f"C[i, m : {n}, {m}]", f"C[m, i : {m}, {n}]"]))
    shape = (n, m) if form.startswith("C[i") else (m, n)
    width = sizes.number(1, n)
    return f"{form} = {_aggregation(sizes)}(A[k, m]), i - k < {width};", {"A": (n, m)}, shape


def _indirect(sizes: _Sizes) -> Family:
    rows, columns, count = sizes.axis(60), sizes.axis(120), sizes.axis(200)
    if sizes.number(0, 1):
        return "C = gather(A, X);", {"A": (rows, columns), "X": (count,)}, (count, columns)
    return "C = scatter(A, X, D);", {"A": (count, columns), "X": (count,), "D": (rows,)}, (rows, columns)


_FAMILIES: tuple[Callable[[_Sizes], Family], ...] = (
    _product, _product, _batched, _reduction, _reduction, _convolution, _scattered_convolution, _pool, _movement,
    _running, _indirect,
)  # fmt: skip


@st.composite
def large(draw: st.DrawFn, points: int = POINTS) -> Case:
    """Draw a program whose contraction has up to ``points`` points, and its arguments."""
    line, shapes, result = draw(st.sampled_from(_FAMILIES))(_Sizes(draw, points))
    dtype = draw(st.sampled_from(_DTYPES))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    statements, last = [line], "C"
    if draw(st.booleans()):
        broadcast = tuple(size if draw(st.booleans()) else 1 for size in result)[draw(st.integers(0, len(result))) :]
        shapes = {**shapes, "E": broadcast}
        form = draw(st.sampled_from(["C + E", "max(C, E)", "(C < E ? C : E)", "E - C", "relu(C) + E", "C == E"]))
        statements.append(f"R = {form};")
        last = "R"
    if draw(st.integers(0, 3)) == 0:
        statements.insert(0, "A1 = A + 1;")
        statements[1] = statements[1].replace("A[", "A1[").replace("(A,", "(A1,")
    if draw(st.integers(0, 4)) == 0 and result:
        names = ", ".join("abcdef"[: len(result)])
        statements.append(f"S[a : {result[0]}] = {draw(st.sampled_from('+><'))}({last}[{names}]);")
        last = draw(st.sampled_from(["S", f"{last}, S"]))
    inputs = {name: _array(random, DType.I32 if name == "X" else dtype, shape) for name, shape in shapes.items()}
    text = f"function ({', '.join(shapes)}) -> ({last}) {{\n  " + "\n  ".join(statements) + "\n}"
    return Case(parse(text), inputs, text)


def _array(random: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    """Return integers of which even thousands add up exactly in the dtype's accumulator."""
    low = 0 if dtype.is_integer and not dtype.is_signed else -1
    return random.integers(low, 2, shape).astype(dtype.numpy)
