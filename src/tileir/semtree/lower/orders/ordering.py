"""Lowering of the special ``order``: positions that sort the elements of a row stably, NaN last.

Each element becomes an integer word (:class:`tileir.semtree.lower.orders.packing.Row`): a key in the order of the
elements, followed by the position in the low bits. Words are unique, so that every correct network sorts stably.
Short rows are sorted by a :class:`tileir.semtree.lower.orders.networks.Network`, and long rows by a :class:`Radix`;
for a few positions, :class:`tileir.semtree.lower.orders.selection.Selection` sorts only candidates.

The radix sort begins with the least significant digit (Knuth, "Sorting and searching", 5.2.5), in linear time: one
pass counts the values of all digits, and one pass for each digit moves the elements, in order, between the halves of
two arrays. Digits that are equal in all keys are skipped. Digits are bytes, so that the 256 write positions of a pass
fit in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log, log2
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.core.numbers.integers import network_comparisons
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering
from tileir.semtree.lower.orders.networks import Network
from tileir.semtree.lower.orders.packing import Row
from tileir.semtree.lower.orders.selection import Selection, is_inserted, kept_of
from tileir.semtree.lower.orders.words import Body, Words
from tileir.semtree.lower.views import View, cast
from tileir.stripe import ir as stripe

_PRIVATE_BYTES: Final = 16 * 1024
"""Maximum size of private arrays of words; larger ones are in scratch memory, if there is any."""


def lower_order(blocks: BlockLowering, views: Mapping[str, View], statement: stripe.Special) -> list[sem.Stmt]:
    """Return statements that order one row."""
    keys, places = views[statement.inputs[0]], views[statement.outputs[0]]
    descending = bool(dict(statement.parameters)["descending"])
    blocks.touch(keys, writes=False, lanes=None)
    blocks.touch(places, writes=True, lanes=None)
    size, count = keys.shape.elements, places.shape.elements
    dtypes = _words(keys.shape.dtype, size)
    lanes = blocks.target.lanes(dtypes[0]) if blocks.target.shuffles else 1
    lanes = min(1 << lanes.bit_length() - 1, 1 << (size - 1).bit_length())
    arrays = tuple(blocks.names.fresh(name) for name in (("words",), ("keys", "places"))[len(dtypes) - 1])
    words = Words(blocks, arrays, dtypes, lanes)
    kept = kept_of(count, lanes)
    digits = digits_of(keys.shape.dtype.bits)
    whole_cost = min(network_cost(size, lanes, dtypes), digits_cost(size, digits))
    if 2 * kept <= size and selection_cost(size, kept, lanes, dtypes) < whole_cost:
        return _first(words, keys, places, kept, descending=descending)
    if size < 1 << 31 and digits_cost(size, digits) == whole_cost:
        return _by_digits(words, keys, places, digits, descending=descending)
    return _by_network(words, keys, places, descending=descending)


def _first(words: Words, keys: View, places: View, kept: int, *, descending: bool) -> list[sem.Stmt]:
    """Return statements that order the first elements of a row, keeping a power of two."""
    row, count = Row(words, keys, descending), places.shape.elements
    selection = Selection(row, _network(words), kept, count)
    body: Body = [*_arrays(words, selection.span, 0)]
    selection.run(body)
    row.store(body, places, count)
    return body


def _by_network(words: Words, keys: View, places: View, *, descending: bool) -> list[sem.Stmt]:
    """Return statements that order a short row by a network."""
    network, row = _network(words), Row(words, keys, descending)
    leaf = network.leaf(row.size)
    whole = -(-row.size // leaf) * leaf
    body: Body = [*_arrays(words, whole, 0)]
    row.pack(body, Affine(), row.size, 0, whole)
    network.sort(body, 0, whole)
    row.store(body, places, places.shape.elements)
    return body


def _by_digits(words: Words, keys: View, places: View, digits: int, *, descending: bool) -> list[sem.Stmt]:
    """Return statements that order a long row by the digits of its keys."""
    blocks, size = words.blocks, keys.shape.elements
    dtypes = (words.dtypes[0], *(DType.I32 for _ in words.dtypes[1:]))
    span = -(-size // words.lanes) * words.lanes
    lowest = 0 if len(dtypes) > 1 else dtypes[0].bits // 2
    counts = blocks.names.fresh("counts")
    radix = Radix(blocks, words.arrays, dtypes, words.lanes, lowest, digits, span, counts)
    row = Row(radix, keys, descending, unsigned=True)
    arrays = _arrays(radix, 2 * span, count_bytes(digits))
    counted = attrs.evolve(arrays[0], name=counts, dtype=DType.I32, size=count_bytes(digits) // DType.I32.itemsize)
    body: Body = [*arrays, counted]
    row.pack(body, Affine(), size, 0, span)
    start = radix.sort(body, size)
    row.store(body, places, places.shape.elements, start)
    return body


def _network(words: Words) -> Network:
    near = 1 << (_PRIVATE_BYTES // words.dtypes[0].itemsize).bit_length() - 1
    return Network(words.blocks, words.arrays, words.dtypes, words.lanes, near)


def _arrays(words: Words, span: int, more: int) -> list[sem.DeclareArray]:
    """Declare the arrays of words, in addition to which ``more`` bytes are needed."""
    large = span * sum(dtype.itemsize for dtype in words.dtypes) + more > _PRIVATE_BYTES
    region = sem.Region.SCRATCH if large and words.blocks.target.scratch else sem.Region.PRIVATE
    pairs = zip(words.arrays, words.dtypes, strict=True)
    return [sem.DeclareArray(name, dtype, span, region) for name, dtype in pairs]


def _words(dtype: DType, size: int) -> tuple[DType, ...]:
    """Return the type of words: one with key and place, or two."""
    if dtype.itemsize <= 2 and size < 1 << 16:
        return (DType.I32,)
    return (DType.I64,) * (2 if dtype.itemsize > 4 or size >= 1 << 31 else 1)


_COMPARED: Final = {4: 5.0, 8: 8.0, 16: 14.0}
"""Cycles to load, compare, exchange and store vectors of elements, by bytes per element."""

_MOVED: Final = 14.0
"""Cycles per digit to count and to move an element."""

_ADDED: Final = 3.0 * 256
"""Cycles to turn the counts of one digit into places."""

_PASSED: Final = 0.5
"""Cycles to compare an element with the bound."""

_TAKEN: Final = 4.0
"""Cycles per element of a block with an element before the bound."""

_INSERTED: Final = 10.0
"""Cycles to insert an element in a sorted vector."""


def network_cost(size: int, lanes: int, words: tuple[DType, ...]) -> float:
    """Return the cost of a network for elements of these words."""
    return network_comparisons(size) / lanes * _COMPARED[sum(dtype.itemsize for dtype in words)]


def digits_cost(size: int, digits: int) -> float:
    """Return the cost of sorting by digits."""
    return digits * (_ADDED + size * _MOVED)


def selection_cost(size: int, kept: int, lanes: int, words: tuple[DType, ...]) -> float:
    """Return the cost of finding the first elements of a random row, of which ``kept`` are kept."""
    seen = size * _PASSED + network_cost(kept, lanes, words)
    if is_inserted(kept, lanes):
        inserted = kept * log(size / kept)
        return seen + inserted * (kept / lanes * _INSERTED + 16 * _TAKEN)
    merges = 1 + log2(size / kept)
    return seen + merges * (1.3 * network_cost(kept, lanes, words) + 2 * kept * _TAKEN)


_BITS: Final = 8
_VALUES: Final = 1 << _BITS


def digits_of(bits: int) -> int:
    """Return the number of digits of a key of ``bits`` bits."""
    return -(-bits // _BITS)


def count_bytes(digits: int) -> int:
    """Return the bytes of the counts of all digits."""
    return digits * _VALUES * DType.I32.itemsize


@attrs.frozen
class Radix(Words):
    """Sorter of elements by the digits of their first word.

    Attributes:
        lowest: The number of the bit where the first digit begins.
        digits: Number of digits.
        span: Distance between the halves of the arrays.
        counts: The name of an array for the counts of all digits, in i32, like places.
    """

    lowest: int
    digits: int
    span: int
    counts: str

    def sort(self, body: Body, size: int) -> Affine:
        """Sort the first ``size`` elements as unsigned words; return where the result begins."""
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
        """Count the occurrences of each value of each digit."""
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
        """Turn the counts of one digit into the starts of its elements."""
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
        """Move one element to the next place for its digit."""
        words = []
        for word in self.at(source, 1):
            words.append(sem.Var(self.blocks.names.fresh("word"), word.type))
            body.append(sem.Declare(words[-1], word))
        count = self._counted(self._slot(body, words[0], bits, place))
        to = self.named(body, "to", cast(count, self.blocks.offsets.dtype))
        body += [sem.Assign(target, word) for target, word in zip(self.at(other + to, 1), words, strict=True)]
        body.append(sem.Assign(count, cast(self.blocks.offsets.scalar(to + 1), DType.I32)))

    def _slot(self, body: Body, word: sem.Expr, bits: sem.Expr, place: Affine) -> Affine:
        """Return the place of the count of a digit that begins at bit number ``bits``."""
        shifted = sem.Apply(Op.BIT_RIGHT, (word, bits))
        digit = sem.Apply(Op.BIT_AND, (shifted, sem.Const(_VALUES - 1, word.type)))
        return place + self.named(body, "digit", cast(digit, self.blocks.offsets.dtype))

    def _counted(self, slot: Affine) -> sem.Subscript:
        return sem.Subscript(self.counts, self.blocks.offsets.scalar(slot), sem.Type(DType.I32))

    def _add(self, body: Body, count: sem.Subscript, number: int) -> None:
        body.append(sem.Assign(count, sem.Apply(Op.ADD, (count, sem.Const(number, count.type)))))
