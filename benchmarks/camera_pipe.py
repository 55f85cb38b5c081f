"""A camera pipe, from the raw values of a sensor to a picture, in tileir's Python and in Halide's.

The sensor has 10 bits and Bayer's pattern, rows of green and red above rows of blue and green:

1. A pixel that is brighter than the four nearest ones of its colour is as bright as the brightest of them.
2. The pattern is taken apart to a plane for each of its four places.
3. Green of red and blue pixels is interpolated along the direction in which it changes least. Red and blue elsewhere
   are the mean of two neighbours, corrected by how much green lies above the mean of theirs; in the middle of four
   neighbours, those two on the diagonal that differ least (after Hamilton and Adams, "Adaptive color plane
   interpolation in single sensor color electronic camera", 1997).
4. Colours are mixed by a matrix in fixed point, with 8 bits behind the point.
5. A table has the curve of tones, from 10 to 8 bits.
6. What a binomial filter takes away is added once more, to 8 bits at each step.

All of it is arithmetic of integers, so that the two are equal to the bit. The output has a plane for each colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import tileir
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.tile.builder import Tensor

MARGIN: Final = 8
"""Pixels of the sensor around those of the picture."""

STRENGTH: Final = 40
"""Weight of the details, in parts of 32."""

MATRIX: Final = ((416, -122, -38, -90), (-72, 386, -58, -70), (-10, -148, 414, -84))
"""Weights of red, green, blue and 256 in each channel, in parts of 256."""

Shifted: TypeAlias = "Callable[[Any, int, int], Any]"


def curve() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the table of the curve: a gamma of 2.2 with more contrast in the middle."""
    x = np.linspace(0, 1, 1024) ** (1 / 2.2)
    return np.rint(255 * (0.5 * x + 0.5 * x * x * (3 - 2 * x))).astype(np.uint8)


def picture(width: int, height: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Return what the sensor saw, [height + 16, width + 16]: smooth colours, noise, and some hot pixels."""
    random = np.random.default_rng(1)
    rows, columns = np.mgrid[: height + 2 * MARGIN, : width + 2 * MARGIN]
    smooth = 400 + 250 * np.sin(rows / 31) * np.cos(columns / 17) + 90 * (columns % 2) * (1 - rows % 2)
    noise = random.normal(0, 25, rows.shape) + 600 * (random.random(rows.shape) > 0.999)
    return np.asarray(np.clip(smooth + noise, 0, 1023), np.uint16)


def _mean(a: Any, b: Any) -> Any:
    return (a + b + 1) >> 1


def _mixed(colours: Sequence[Any], row: tuple[int, int, int, int]) -> Any:
    red, green, blue = colours
    return (red * row[0] + green * row[1] + blue * row[2] + row[3] * 256) >> 8


def greens(planes: Sequence[Any], at: Shifted, tools: Any) -> tuple[Any, Any]:
    """Return green at red and at blue pixels: the mean of the two neighbours that differ least."""
    gr, _, _, gb = planes

    def smoother(a: Any, b: Any, c: Any, d: Any) -> Any:
        return tools.where(tools.abs(a - b) < tools.abs(c - d), _mean(a, b), _mean(c, d))

    at_red = smoother(at(gr, 0, 0), at(gr, 0, 1), at(gb, -1, 0), at(gb, 0, 0))
    at_blue = smoother(at(gb, 0, -1), at(gb, 0, 0), at(gr, 0, 0), at(gr, 1, 0))
    return at_red, at_blue


def others(planes: Sequence[Any], green: Sequence[Any], at: Shifted, own: Shifted, tools: Any) -> tuple[Any, ...]:
    """Return red at green, blue and other green pixels, and blue at green, red and other green pixels.

    ``at`` shifts the planes, and ``own`` the two of ``green``.
    """
    gr, r, b, gb = planes
    at_red, at_blue = green

    def between(colour: Any, near: Any, here: Any, one: tuple[int, int], two: tuple[int, int]) -> Any:
        return here - _mean(own(near, *one), own(near, *two)) + _mean(at(colour, *one), at(colour, *two))

    def crossing(colour: Any, near: Any, here: Any, down: int, across: int) -> Any:
        one, two = ((0, 0), (down, across)), ((0, across), (down, 0))
        steps = [tools.abs(at(colour, *pair[0]) - at(colour, *pair[1])) for pair in (one, two)]
        return tools.where(steps[0] < steps[1], between(colour, near, here, *one), between(colour, near, here, *two))

    return (
        between(r, at_red, at(gr, 0, 0), (0, -1), (0, 0)),
        crossing(r, at_red, own(at_blue, 0, 0), 1, -1),
        between(r, at_red, at(gb, 0, 0), (0, 0), (1, 0)),
        between(b, at_blue, at(gr, 0, 0), (-1, 0), (0, 0)),
        crossing(b, at_blue, own(at_red, 0, 0), -1, 1),
        between(b, at_blue, at(gb, 0, 0), (0, 0), (0, 1)),
    )


class _Tiles:
    """tileir's names of operations that Halide calls differently."""

    where = staticmethod(tf.where)
    abs = staticmethod(tf.abs)


def function() -> tileir.Function:
    """Return the pipe as a function of the raw values, u16[H + 16, W + 16], to u8[3, H, W]."""
    f = tileir.FunctionBuilder()
    seen = tf.cast(f.input("Raw", "H", "W"), "i16")
    around = [_inner(seen, 2, *shift) for shift in ((0, -2), (0, 2), (-2, 0), (2, 0))]
    clean = tf.min(_inner(seen, 2, 0, 0), tf.max(tf.max(around[0], around[1]), tf.max(around[2], around[3])))
    planes = tuple(ops.slice(clean, np.s_[y::2, x::2]) for y in (0, 1) for x in (0, 1))

    def by(margin: int) -> Shifted:
        return lambda x, down, across: _inner(x, margin, down, across)

    green = greens(planes, by(1), _Tiles)
    red_gr, red_b, red_gb, blue_gr, blue_r, blue_gb = others(planes, green, by(2), by(1), _Tiles)
    gr, r, b, gb = (_inner(plane, 2, 0, 0) for plane in planes)
    at_red, at_blue = (_inner(plane, 1, 0, 0) for plane in green)
    colours = [
        tf.cast(_interleaved(f, *parts), "i32")
        for parts in ((red_gr, r, red_b, red_gb), (gr, at_red, at_blue, gb), (blue_gr, blue_r, b, blue_gb))
    ]
    mixed = [_mixed(colours, row) for row in MATRIX]
    toned = tf.gather(f.constant(curve(), "Curve"), ops.clip(ops.stack(mixed), 0, 1023))
    smooth = _binomial(_binomial(toned, 1), 2)
    inside = np.s_[:, 2:-2, 2:-2]
    before = tf.cast(ops.slice(toned, inside), "i16")
    details = before - tf.cast(ops.slice(smooth, np.s_[:, 1:-1, 1:-1]), "i16")
    return f.build(O=tf.cast(ops.clip(before + (details * STRENGTH >> 5), 0, 255), "u8"))


def _inner(x: Tensor, margin: int, down: int, across: int) -> Tensor:
    """Return all but a margin, as it looks from a place further down and across."""
    rows, columns = x.dims
    return ops.slice(x, np.s_[margin + down : rows - margin + down, margin + across : columns - margin + across])


def _interleaved(f: tileir.FunctionBuilder, *parts: Tensor) -> Tensor:
    """Return the picture of which each part has every second pixel of every second row."""
    rows, columns = parts[0].dims
    p, q, y, x = f.indices("p q y x")
    together = ops.stack([ops.stack(list(parts[:2])), ops.stack(list(parts[2:]))])
    return f.assign(together[p, q, y, x], [2 * y + p, 2 * x + q], [2 * rows, 2 * columns])


def _binomial(x: Tensor, axis: int) -> Tensor:
    """Return (1 2 1) / 4 along an axis, rounded to 8 bits, without the first and last element."""
    wide = tf.cast(x, "i16")
    size = x.dims[axis]
    parts = [
        ops.slice(wide, tuple(slice(k, size - 2 + k) if number == axis else slice(None) for number in range(3)))
        for k in range(3)
    ]
    return tf.cast(parts[0] + 2 * parts[1] + parts[2] + 2 >> 2, "u8")


def halide(api: Any, source: Any) -> Any:
    """Return the pipe in Halide's language."""
    x, y, c = (api.Var(name) for name in "xyc")

    def func(name: str, value: Any, *more: Any) -> Any:
        result = api.Func(name)
        result[(x, y, *more)] = value
        return result

    def at(func: Any, down: int, across: int) -> Any:
        return func[x + across, y + down]

    i16, i32, u8 = api.i16, api.i32, api.u8
    seen = func("seen", i16(source[x + MARGIN, y + MARGIN]))
    around = [at(seen, *shift) for shift in ((0, -2), (0, 2), (-2, 0), (2, 0))]
    most = api.max(api.max(around[0], around[1]), api.max(around[2], around[3]))
    clean = func("clean", api.min(seen[x, y], most))
    planes = tuple(
        func(n, clean[2 * x + q, 2 * y + p]) for n, p, q in (("gr", 0, 0), ("r", 0, 1), ("b", 1, 0), ("gb", 1, 1))
    )
    tools = _Halide(api)
    at_red, at_blue = green = tuple(
        func(name, value) for name, value in zip(("at_red", "at_blue"), greens(planes, at, tools), strict=True)
    )
    names = ("red_gr", "red_b", "red_gb", "blue_gr", "blue_r", "blue_gb")
    red_gr, red_b, red_gb, blue_gr, blue_r, blue_gb = (
        func(name, value) for name, value in zip(names, others(planes, green, at, at, tools), strict=True)
    )
    gr, r, b, gb = planes

    def whole(name: str, *parts: Any) -> Any:
        four = [part[x >> 1, y >> 1] for part in parts]
        even = x % 2 == 0
        return func(name, api.select(y % 2 == 0, api.select(even, *four[:2]), api.select(even, *four[2:])))

    colours = [
        i32(whole(name, *parts)[x, y])
        for name, *parts in (
            ("red", red_gr, r, red_b, red_gb),
            ("green", gr, at_red, at_blue, gb),
            ("blue", blue_gr, blue_r, b, blue_gb),
        )
    ]
    mixed = [_mixed(colours, row) for row in MATRIX]
    corrected = func("corrected", api.select(c == 0, mixed[0], api.select(c == 1, mixed[1], mixed[2])), c)
    table = api.Buffer(curve()).copy()
    toned = func("toned", table[api.clamp(corrected[x, y, c], 0, 1023)], c)

    def binomial(name: str, f: Any, down: int, across: int) -> Any:
        parts = [i16(f[x + k * across, y + k * down, c]) for k in (-1, 0, 1)]
        return func(name, u8((parts[0] + parts[1] * i16(2) + parts[2] + i16(2)) >> i16(2)), c)

    smooth = binomial("across", binomial("down", toned, 1, 0), 0, 1)
    before = i16(toned[x, y, c])
    details = before - i16(smooth[x, y, c])
    sharp = before + ((details * i16(STRENGTH)) >> i16(5))
    return func("camera", u8(api.clamp(sharp, i16(0), i16(255))), c)


class _Halide:
    """Halide's names of operations that tileir calls differently."""

    def __init__(self, api: Any) -> None:
        self.where = api.select
        self.abs = lambda x: api.i16(api.abs(x))
