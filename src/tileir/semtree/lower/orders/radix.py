"""Sorting rows of words by their digits, the last one first: time grows as a row does, not as its logarithm squared.

The least significant digit first (Knuth, "Sorting and searching", 5.2.5): one pass over the keys counts how often each
digit has each value; then one pass for each digit moves the elements to where those counts say, in the order in which
they stand, so that equal ones stay in order. A digit that is the same in all keys moves nothing: 64-bit integers that
are small take as many passes as they have bytes.

The row moves to and fro between two halves of its arrays. Digits are bytes: as many elements are written beside each
other as a digit has values, and each of these needs a line of the nearest cache.
"""

from __future__ import annotations

from typing import Final

import attrs

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.orders.words import Body, Words
from tileir.semtree.lower.views import cast

_BITS: Final = 8
_VALUES: Final = 1 << _BITS


def digits_of(bits: int) -> int:
    """Return how many digits a key of so many bits has."""
    return -(-bits // _BITS)


def count_bytes(digits: int) -> int:
    """Return the bytes of the counts of all digits."""
    return digits * _VALUES * DType.I32.itemsize


@attrs.frozen
class Radix(Words):
    """Sorts elements by the digits of their first word.

    Attributes:
        lowest: The number of the bit where the first digit begins.
        digits: How many there are.
        span: How far the halves of the arrays are apart.
        counts: The name of an array for the counts of all digits, i32 as places are.

    """

    lowest: int
    digits: int
    span: int
    counts: str

    def sort(self, body: Body, size: int) -> Affine:
        """Sort the first ``size`` elements, as words without a sign; returns from where on they stand then."""
        self._count(body, size)
        offsets, half = self.blocks.offsets, self.blocks.counter("half")
        body.append(sem.Declare(half, offsets.constant(0)))
        here = Affine.index(half.name)
        with self.loop(body, [Affine()], [Affine.constant(self.digits)], 1) as (inner, digit):
            place = digit * _VALUES
            bits = cast(offsets.scalar(digit * _BITS + self.lowest), self.dtypes[0])
            other = self.named(inner, "other", offsets.scalar(Affine.constant(self.span) - here))
            first = self._slot(inner, self.at(here, 1)[0], bits, place)
            moves: Body = []
            self._add_up(moves, place)
            with self.loop(moves, [Affine()], [Affine.constant(size)], 1) as (each, t):
                self._move(each, here + t, other, bits, place)
            moves.append(sem.Assign(half, offsets.scalar(other)))
            alone = sem.Apply(Op.CMP_LT, (self._counted(first), sem.Const(size, sem.Type(DType.I32))))
            inner.append(sem.If(alone, tuple(moves)))
        return here

    def _count(self, body: Body, size: int) -> None:
        """Count how often each digit has each value."""
        lanes = self.blocks.target.lanes(DType.I32)
        kind = sem.Type(DType.I32, lanes if _VALUES % lanes == 0 else 1)
        with self.loop(body, [Affine()], [Affine.constant(self.digits * _VALUES)], kind.lanes) as (inner, t):
            place = self.blocks.offsets.scalar(t)
            inner.append(sem.Assign(sem.Subscript(self.counts, place, kind), sem.Const(0, kind)))
        with self.loop(body, [Affine()], [Affine.constant(size)], 1) as (inner, t):
            word = sem.Var(self.blocks.names.fresh("word"), sem.Type(self.dtypes[0]))
            inner.append(sem.Declare(word, self.at(t, 1)[0]))
            for digit in range(self.digits):
                bits = sem.Const(self.lowest + digit * _BITS, word.type)
                self._add(inner, self._counted(self._slot(inner, word, bits, Affine.constant(digit * _VALUES))), 1)

    def _add_up(self, body: Body, place: Affine) -> None:
        """Turn the counts of one digit into where its elements begin."""
        total = sem.Var(self.blocks.names.fresh("total"), sem.Type(DType.I32))
        body.append(sem.Declare(total, sem.Const(0, total.type)))
        with self.loop(body, [Affine()], [Affine.constant(_VALUES)], 1) as (inner, t):
            count = self._counted(place + t)
            old = sem.Var(self.blocks.names.fresh("count"), total.type)
            inner += [
                sem.Declare(old, count),
                sem.Assign(count, total),
                sem.Assign(total, sem.Apply(Op.ADD, (total, old))),
            ]

    def _move(self, body: Body, source: Affine, other: Affine, bits: sem.Expr, place: Affine) -> None:
        """Move one element to the next place of those with its digit."""
        words = []
        for word in self.at(source, 1):
            words.append(sem.Var(self.blocks.names.fresh("word"), word.type))
            body.append(sem.Declare(words[-1], word))
        count = self._counted(self._slot(body, words[0], bits, place))
        to = self.named(body, "to", cast(count, self.blocks.offsets.dtype))
        body += [sem.Assign(target, word) for target, word in zip(self.at(other + to, 1), words, strict=True)]
        body.append(sem.Assign(count, cast(self.blocks.offsets.scalar(to + 1), DType.I32)))

    def _slot(self, body: Body, word: sem.Expr, bits: sem.Expr, place: Affine) -> Affine:
        """Return where the count of a digit stands that begins at bit number ``bits``."""
        shifted = sem.Apply(Op.BIT_RIGHT, (word, bits))
        digit = sem.Apply(Op.BIT_AND, (shifted, sem.Const(_VALUES - 1, word.type)))
        return place + self.named(body, "digit", cast(digit, self.blocks.offsets.dtype))

    def _counted(self, slot: Affine) -> sem.Subscript:
        return sem.Subscript(self.counts, self.blocks.offsets.scalar(slot), sem.Type(DType.I32))

    def _add(self, body: Body, count: sem.Subscript, number: int) -> None:
        body.append(sem.Assign(count, sem.Apply(Op.ADD, (count, sem.Const(number, count.type)))))
