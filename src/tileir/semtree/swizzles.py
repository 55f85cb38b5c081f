"""Folded and swizzled layouts of local arrays, which instructions read without bank conflicts."""

from __future__ import annotations

from functools import reduce
from math import lcm
from typing import Any, Final

import numpy as np

from tileir.core.ops import Op
from tileir.semtree.expressions import Apply, Const, Expr

PLAIN: Final = (0, 0, 0)
"""The fold of row-major arrays."""


def swizzled(place: Expr, shift: int, mask: int, fold: tuple[int, int, int] = PLAIN) -> Expr:
    """Return the offset in a folded and swizzled array of the element at ``place`` in a plain one."""
    place = folded(place, fold)
    if not mask:
        return place
    high = Apply(Op.BIT_RIGHT, (place, Const(shift, place.type)))
    return Apply(Op.BIT_XOR, (place, Apply(Op.BIT_AND, (high, Const(mask, place.type)))))


def folded(place: Expr, fold: tuple[int, int, int]) -> Expr:
    """Return the offset in a folded array of the element at ``place`` in a plain one."""
    if fold == PLAIN:
        return place
    piece, row, rows = fold

    def part(op: Op, value: Expr, number: int) -> Expr:
        return Apply(op, (value, Const(number, place.type)))

    if row & row - 1:
        within = part(Op.MOD, place, row * rows)
        column = part(Op.DIV, part(Op.MOD, within, row), piece)
        above = part(Op.MUL, part(Op.DIV, place, row * rows), row * rows)
        moved = (part(Op.MUL, column, piece * rows), part(Op.MUL, part(Op.DIV, within, row), piece))
        return reduce(lambda a, b: Apply(Op.ADD, (a, b)), (above, *moved, part(Op.MOD, place, piece)))

    def field(unit: int, count: int, distance: int) -> Expr:
        number = part(Op.BIT_AND, part(Op.BIT_RIGHT, place, unit.bit_length() - 1), count - 1)
        return part(Op.MUL, number, distance)

    kept = Apply(Op.BIT_AND, (place, Const(piece - 1 - row * rows, place.type)))  # below the pieces, and above the rows
    return Apply(Op.ADD, (Apply(Op.ADD, (kept, field(row, rows, piece))), field(piece, row // piece, piece * rows)))


def folded_place(place: np.ndarray[Any, Any], fold: tuple[int, int, int]) -> np.ndarray[Any, Any]:
    """Return :func:`folded` for known places."""
    if fold == PLAIN:
        return place
    piece, row, rows = fold
    within = place % (row * rows)
    moved: np.ndarray[Any, Any] = within % row // piece * (piece * rows) + within // row * piece + within % piece
    moved += place - within
    return moved


def period(shift: int, mask: int, fold: tuple[int, int, int] = PLAIN) -> int:
    """Return the period of the layout: adding a multiple of it commutes with folding and swizzling."""
    return lcm(1 << (mask << shift).bit_length(), max(1, fold[1] * fold[2]))
