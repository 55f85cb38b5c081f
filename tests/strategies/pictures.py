"""Programs over pictures: chains of windows over padded ones, of steps on pixels alone, and of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

import tileir
from tileir import ops

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor
    from tileir.typed.ir import Shape

MODES: Final = ("constant", "edge", "reflect", "symmetric", "wrap")
"""The boundary rules."""

LENGTHS: Final = st.sampled_from((1, 2, 3, 5, 8, 9, 17, 35))
"""Heights and widths: less than a margin, odd, and longer than vectors."""


def picture(draw: st.DrawFn) -> tuple[str, dict[str, Shape]]:
    """Draw a function of pictures of one shape and of windows, as text, and the shapes of its arguments."""
    function = tileir.FunctionBuilder()
    channels = draw(st.integers(0, 4))
    names = ("H", "W", "C") if channels else ("H", "W")
    shape = (draw(LENGTHS), draw(LENGTHS), *((channels,) if channels else ()))
    count = draw(st.integers(1, 2))
    made = [function.input(f"I{number}", *names) for number in range(count)]
    shapes: dict[str, Shape] = {f"I{number}": shape for number in range(count)}
    for step in range(draw(st.integers(1, 4))):
        # Mostly the newest pictures, so that steps form chains.
        source = made[draw(st.integers(max(0, len(made) - 3), len(made) - 1))]
        if draw(st.integers(0, 2)):
            window = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
            made.append(_window(draw, function, source, window, f"K{step}", shapes))
        else:
            other = made[draw(st.integers(0, len(made) - 1))]
            made.append(draw(st.sampled_from((source * 2 + other, source - other + 1, -source))))
    results = {f"O{number}": value for number, value in enumerate(made[count:][-draw(st.integers(1, 2)) :])}
    return tileir.to_text(function.build(**results)), shapes


def _window(
    draw: st.DrawFn,
    function: tileir.FunctionBuilder,
    source: Tensor,
    window: tuple[int, int],
    name: str,
    shapes: dict[str, Shape],
) -> Tensor:
    """Aggregate over a window of a padded picture, by weights or without."""
    borders = []
    for size in window:
        before = draw(st.integers(0, size - 1))
        borders.append((before, size - 1 - before))
    more = [(0, 0)] * (len(source.dims) - 2)
    padded = _padded(draw, source, [*borders, *more])
    y, x, c, i, j = function.indices("y x c i j")
    place = (y, x, c) if more else (y, x)
    element = padded[(y + i, x + j, c) if more else (y + i, x + j)]
    how = draw(st.sampled_from("+*><"))
    result = function.tensor(f"R{name}", *source.dims)
    limited = element.given(i < window[0]).given(j < window[1])
    match how:
        case "*":
            shapes[name] = window
            result[place] += element * function.input(name, f"{name}P", f"{name}Q")[i, j]
        case "+":
            result[place] += limited
        case ">":
            result[place] >= limited  # noqa: B015 (writes a contraction)
        case _:
            result[place] <= limited  # noqa: B015
    return result


def _padded(draw: st.DrawFn, source: Tensor, borders: list[tuple[int, int]]) -> Tensor:
    """Pad by one rule, or by one for each of the axes."""
    if draw(st.booleans()):
        value = draw(st.sampled_from((0, 0, 3)))
        mode = draw(st.sampled_from(MODES))
        return ops.pad(source, borders, mode=mode, value=value if mode == "constant" else 0)
    for axis, border in enumerate(borders):
        alone = [border if a == axis else (0, 0) for a in range(len(borders))]
        source = ops.pad(source, alone, mode=draw(st.sampled_from(MODES)))
    return source
