"""What bodies of functions may say besides Tile: words that know the boundary of their step, or need literal sizes.

Each stands in a statement of its own, ``Result = word(Tensor, …, size, …);``. The functions above one in its file are
words of its body as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import attrs

from tileir.formula.ir import Boundary
from tileir.formula.lower.channels import bordered, channel, coloured
from tileir.formula.lower.ranking import ranked
from tileir.formula.lower.sampling import picked, sampled
from tileir.ops.shared.foundation import Dim, Tensor, dim_like, mistaken

Make = Callable[[Sequence[Tensor | Dim], Boundary], Tensor]

LONGEST_RANKED: Final = 9
"""Rows and columns of windows within which elements are ranked: networks grow faster than windows."""


@attrs.frozen
class Word:
    """A word.

    Attributes:
        form: How it is written.
        about: What it is, in a sentence.
        make: Computes it of its operands and the boundary of the step.
        tensors: Which operands, counted from 0, are tensors, each by its name; the others are sizes and numbers.
        least: How many operands there are, at least.
        most: How many there are, at most.
        literal: The operands that choose which statements there are, so that they are written into the function.
        has_boundary: Whether it sees what lies outside.
        is_pointwise: Whether each element of its result depends on those at its place only.

    """

    form: str
    about: str
    make: Make
    tensors: frozenset[int]
    least: int
    most: int
    literal: frozenset[int] = frozenset()
    has_boundary: bool = True
    is_pointwise: bool = False


def _border(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    return bordered(_tensor(operands[0]), [_size(each) for each in operands[1:]], boundary)


def _ranked(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    rows, columns, percent = (_literal(operand) for operand in operands[1:])
    for length in (rows, columns):
        if length % 2 == 0 or not 1 <= length <= LONGEST_RANKED:
            raise mistaken(f"windows are ranked with 1 to {LONGEST_RANKED} rows and columns, odd; not {length}")
    if not 0 <= percent <= 100:
        raise mistaken(f"a rank is from 0 to 100 percent; not {percent}")
    picture = _tensor(operands[0])
    widths = [dim_like(picture, length // 2) for length in (rows, columns)]
    return ranked(bordered(picture, widths, boundary), rows, columns, percent)


def _pick(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    axis = _literal(operands[2])
    if axis not in (0, 1):
        raise mistaken(f"pick looks along axis 0, of rows, or 1, of columns; not {axis}")
    return picked(_tensor(operands[0]), _tensor(operands[1]), axis, boundary)


def _sample(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    picture, rows, columns = map(_tensor, operands)
    return sampled(picture, rows, columns, boundary)


def _channel(operands: Sequence[Tensor | Dim], _boundary: Boundary) -> Tensor:
    return channel(_tensor(operands[0]), _size(operands[1]))


def _coloured(operands: Sequence[Tensor | Dim], _boundary: Boundary) -> Tensor:
    return coloured(_tensor(operands[0]), [_tensor(each) for each in operands[1:4]], _size(operands[4]))


def _tensor(operand: Tensor | Dim) -> Tensor:
    assert isinstance(operand, Tensor)  # as the word says
    return operand


def _size(operand: Tensor | Dim) -> Dim:
    assert isinstance(operand, Dim)  # as the word says
    return operand


def _literal(operand: Tensor | Dim) -> int:
    value = _size(operand).value
    if value is None:
        raise mistaken("this size chooses which statements there are, so it is a number, or a parameter by its name")
    return value


_FIRST: Final = frozenset({0})

WORDS: Final[Mapping[str, Word]] = MappingProxyType(
    {
        "border": Word(
            "border(Picture, rows, columns)",
            "the picture with so much of what lies outside on each side of its first axes",
            _border,
            _FIRST,
            2,
            9,
        ),
        "ranked": Word(
            "ranked(Picture, rows, columns, percent)",
            "of the window around each pixel, which has so many rows and columns, the element of a rank: 0 for the "
            "least, 100 for the greatest",
            _ranked,
            _FIRST,
            4,
            4,
            literal=frozenset({1, 2, 3}),
        ),
        "pick": Word(
            "pick(Picture, Positions, axis)",
            "the rows (axis 0) or columns (axis 1) of a picture that are at whole positions, a vector",
            _pick,
            frozenset({0, 1}),
            3,
            3,
            literal=frozenset({2}),
        ),
        "sample": Word(
            "sample(Picture, Rows, Columns)",
            "the picture between its pixels, at points whose places are two matrices, interpolated linearly",
            _sample,
            frozenset({0, 1, 2}),
            3,
            3,
        ),
        "channel": Word(
            "channel(Picture, number)",
            "one channel, the last one where there are not so many, on an axis of 1",
            _channel,
            _FIRST,
            2,
            2,
            has_boundary=False,
        ),
        "coloured": Word(
            "coloured(Picture, First, Second, Third, least)",
            "a picture whose first three channels are others; it has as many as the picture, but at least so many",
            _coloured,
            frozenset({0, 1, 2, 3}),
            5,
            5,
            has_boundary=False,
        ),
    }
)
"""Those of every body, by the names by which they are called."""
