"""Between which numbers the integers of a program lie: the scalars of blocks, and what tensors hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.stripe.ir import Buffer, Constant, Convert, Intrinsic, Load, LoadIndex, Refinement, Statement, scalar_output

Range: TypeAlias = tuple[int, int]
"""The least and the greatest value that is possible."""


def all_of(dtype: DType) -> Range | None:
    """Return the range of a dtype; None for other than integers."""
    return (int(dtype.minimum), int(dtype.maximum)) if dtype.is_integer else None


def held(buffer: Buffer, dtype: DType) -> Range | None:
    """Return the range of the elements of a constant tensor; None for other than integers."""
    if not dtype.is_integer or not buffer.data:
        return None
    elements = np.frombuffer(buffer.data, dtype.numpy.newbyteorder("<"))
    return int(elements.min()), int(elements.max())


def both(one: Range | None, other: Range | None) -> Range | None:
    """Return the range of what lies in one of two ranges; None where either is not known."""
    return None if one is None or other is None else (min(one[0], other[0]), max(one[1], other[1]))


@attrs.define
class ScalarRanges:
    """The ranges of the scalars of one block, statement by statement.

    Attributes:
        indices: The least and the greatest value of each index of the block.
        views: The refinements of the block by name.
        elements: The range of what a view shows, by its name; what has no entry can be anything.
    """

    indices: Mapping[str, Range]
    views: Mapping[str, Refinement]
    elements: Mapping[str, Range | None]
    known: dict[str, Range] = attrs.field(factory=dict, init=False)

    def add(self, statement: Statement) -> None:
        """Learn what a statement defines."""
        found: Range | None = None
        match statement:
            case LoadIndex(affine=affine, dtype=dtype):
                found = _within(affine_range(affine, self.indices), dtype)
            case Constant(value=int(number), dtype=dtype) if dtype.is_integer:
                found = (number, number)
            case Load(source=source):
                found = self.elements.get(source) or all_of(self.views[source].shape.dtype)
            case Convert(input=value, dtype=dtype):
                found = all_of(dtype)
                if found is not None and (known := self.known.get(value)) is not None:
                    found = _within(known, dtype)
            case Intrinsic(op=op, inputs=inputs, dtype=dtype) if dtype.is_integer:
                operands = [self.known.get(name) for name in inputs]
                found = _within(_computed(op, operands), dtype)
        into = scalar_output(statement)
        if found is not None and into is not None:
            self.known[into] = found


def affine_range(affine: Affine, indices: Mapping[str, Range]) -> Range:
    """Return the range of an affine of indices."""
    low = high = int(affine.offset)
    for name, coefficient in affine.terms:
        ends = [int(coefficient) * end for end in indices[name]]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _within(found: Range | None, dtype: DType) -> Range | None:
    """Return a range as integers of a dtype have it: all of the dtype where it may wrap."""
    whole = all_of(dtype)
    if whole is None or found is None:
        return whole
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def _computed(op: Op, operands: Sequence[Range | None]) -> Range | None:
    """Return the range of the result of an operation before it wraps; None where it is not known."""
    if op is Op.COND:
        return both(operands[1], operands[2])
    match op, operands:
        case Op.ADD, ((int(a), int(b)), (int(c), int(d))):
            return a + c, b + d
        case Op.SUB, ((int(a), int(b)), (int(c), int(d))):
            return a - d, b - c
        case Op.MUL, ((int(a), int(b)), (int(c), int(d))):
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case Op.MIN, ((int(a), int(b)), (int(c), int(d))):
            return min(a, c), min(b, d)
        case Op.MAX, ((int(a), int(b)), (int(c), int(d))):
            return max(a, c), max(b, d)
        case Op.MOD, ((int(a), int(b)), (int(c), int(d))) if c > 0:
            return (max(a, 1 - d) if a < 0 else 0), min(max(b, 0), d - 1)
        case Op.ABS, ((int(a), int(b)),):
            return (0 if a <= 0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))
        case Op.NEG, ((int(a), int(b)),):
            return -b, -a
    return None
