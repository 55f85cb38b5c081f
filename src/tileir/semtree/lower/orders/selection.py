"""Selection of the first few elements of a row in order (top-k), without sorting the others.

The first elements are sorted. The last wanted element so far is the bound: blocks of the row are compared with it, all
lanes at once, and elements before the bound are taken. In random rows ever fewer elements are taken.

- Few wanted elements stay in registers, and a taken element is inserted: lanes from its place on move by one.
- For more, taken elements fill a buffer, which is sorted and merged with the kept ones whenever it may overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.orders.networks import Network
from tileir.semtree.lower.orders.packing import Row, key_of
from tileir.semtree.lower.orders.words import Body, Element
from tileir.semtree.lower.views import cast, widened

_VECTORS: Final = 4
"""Maximum vectors of kept elements in registers, beside those of compared elements."""

_BLOCK: Final = 16
"""Elements compared at once while few are kept."""

_LONGEST_BLOCK: Final = 64

_COMPARED: Final = (DType.F32, DType.F64)
"""Floats that processors compare without conversion."""


def kept_of(count: int, lanes: int) -> int:
    """Return the number of kept elements if ``count`` are wanted: a power of two, and whole vectors."""
    return max(lanes, 1 << (count - 1).bit_length())


def is_inserted(kept: int, lanes: int) -> bool:
    """Return whether ``kept`` elements stay in registers."""
    return kept <= _VECTORS * lanes


@attrs.frozen(repr=False)
class Selection:
    """Selector of the first elements of a row.

    Attributes:
        row: The row, of at least twice ``kept`` elements.
        network: Sorter of its words, with room for :meth:`span` elements.
        kept: Number of sorted and kept elements.
        count: Number of wanted elements.
    """

    row: Row
    network: Network
    kept: int
    count: int

    @property
    def span(self) -> int:
        """Number of elements that words have room for: kept ones, a buffer, and one behind it, in whole vectors."""
        return self.kept if is_inserted(self.kept, self.network.lanes) else 2 * self.kept + self.network.lanes

    def run(self, body: Body) -> None:
        """Leave the first elements in order in the first words."""
        self.row.pack(body, Affine(), self.kept, 0, self.kept)
        self.network.sort(body, 0, self.kept)
        if is_inserted(self.kept, self.network.lanes):
            self._by_insertion(body)
        else:
            self._by_merges(body)

    def _by_insertion(self, body: Body) -> None:
        lanes = self.network.lanes
        places = [Affine.constant(place) for place in range(0, self.kept, lanes)]
        vectors = [self._declared(body, "kept", self.network.at(place)) for place in places]
        vector, lane = divmod(self.count - 1, lanes)
        wanted = tuple(word if lanes == 1 else sem.Shuffle((word,), (lane,)) for word in vectors[vector])
        bound = self._declared(body, "bound", self._bounds(wanted))
        size = self.row.size
        block = min(_BLOCK, 1 << size.bit_length() - 1)
        with self.network.loop(body, [Affine.constant(self.kept)], [Affine.constant(size)], block) as (inner, base):
            taken: Body = []
            with self.network.loop(taken, [base], self._ends(base, block), 1) as (each, t):
                words = self._words(each, t)
                insertion: Body = []
                self._insert(insertion, vectors, words)
                insertion += self._assigned(bound, self._bounds(wanted))
                each.append(sem.If(sem.Apply(Op.CMP_LT, (words[0], bound[0])), tuple(insertion)))
            inner.append(sem.If(self._may_be_taken(inner, base, block, bound[1]), tuple(taken)))
        for place, words in zip(places, vectors, strict=True):
            body += self._assigned(self.network.at(place), words)

    def _insert(self, body: Body, vectors: Sequence[tuple[sem.Var, ...]], words: Element) -> None:
        """Insert an element before the first that follows it; the last one is dropped."""
        lanes = self.network.lanes
        wide = self._declared(body, "wide", [widened(word, lanes) for word in words])
        least = tuple(sem.Const(int(kind.dtype.minimum), kind) for kind in self.network.types)
        for number in reversed(range(len(vectors))):
            here = vectors[number]
            before: Element = vectors[number - 1] if number else least
            if lanes == 1:
                moved: Element = before
            else:
                order = tuple(range(lanes - 1, 2 * lanes - 1))
                moved = tuple(sem.Shuffle((left, right), order) for left, right in zip(before, here, strict=True))
            moved = self._declared(body, "moved", moved)
            is_here, is_before = (
                self._declared(body, "is_before", [sem.Apply(Op.CMP_LT, (wide[0], words[0]))])[0]
                for words in (here, moved)
            )
            for target, new, old in zip(here, wide, moved, strict=True):
                behind = sem.Apply(Op.COND, (is_before, old, new))
                body.append(sem.Assign(target, sem.Apply(Op.COND, (is_here, behind, target))))

    def _by_merges(self, body: Body) -> None:
        offsets, kept, size = self.network.blocks.offsets, self.kept, self.row.size
        block = min(kept // 2, _LONGEST_BLOCK)
        self.row.clear(body, kept, 2 * kept)
        bound = self._declared(body, "bound", self._bounds(self.network.at(Affine.constant(self.count - 1), 1)))
        filled = self.network.blocks.counter("filled")
        body.append(sem.Declare(filled, offsets.constant(0)))
        buffer = Affine.index(filled.name) + kept
        with self.network.loop(body, [Affine.constant(kept)], [Affine.constant(size)], block) as (inner, base):
            taken: Body = []
            with self.network.loop(taken, [base], self._ends(base, block), 1) as (each, t):
                words = self._words(each, t)
                each += self._assigned(self.network.at(buffer, 1), words)
                before = cast(sem.Apply(Op.CMP_LT, (words[0], bound[0])), filled.type.dtype)
                each.append(sem.Assign(filled, sem.Apply(Op.ADD, (filled, before))))
            inner.append(sem.If(self._may_be_taken(inner, base, block, bound[1]), tuple(taken)))
            full = sem.Apply(Op.CMP_GT, (filled, offsets.constant(kept - block)))
            last = sem.Apply(Op.CMP_GE, (offsets.scalar(base), offsets.constant(size - block)))
            merge: Body = []
            self.row.alone().set_behind(merge, buffer)
            self.network.sort(merge, kept, kept)
            self.network.keep_least(merge, kept)
            self.row.clear(merge, kept, 2 * kept)
            merge.append(sem.Assign(filled, offsets.constant(0)))
            merge += self._assigned(bound, self._bounds(self.network.at(Affine.constant(self.count - 1), 1)))
            inner.append(sem.If(sem.Apply(Op.BIT_OR, (full, last)), tuple(merge)))

    def _ends(self, base: Affine, block: int) -> list[Affine]:
        """Return the bounds of a block."""
        whole = (self.row.size - self.kept) % block == 0
        return [base + block] if whole else [base + block, Affine.constant(self.row.size)]

    def _words(self, body: Body, place: Affine) -> Element:
        alone = self.row.alone()
        return self._declared(body, "word", alone.packed(alone.loaded(place), place))

    def _bounds(self, words: Element) -> tuple[sem.Expr, sem.Expr]:
        """Return the first word of an element, and its part for comparisons with blocks."""
        alone = self.row.alone()
        place = cast(alone.place_in(words), self.network.blocks.offsets.dtype)
        return words[0], self._compared(alone.loaded_at(place))

    def _may_be_taken(self, body: Body, base: Affine, block: int, limit: sem.Expr) -> sem.Expr:
        """Return whether an element of a block may precede the bound: NaN always may.

        A partial block is compared together with preceding elements.
        """
        blocks, dtype = self.network.blocks, self.row.keys.shape.dtype
        lanes = min(1 << blocks.target.lanes(dtype).bit_length() - 1, block) if self.network.lanes > 1 else 1
        if len(self._ends(base, block)) > 1:
            last = Affine.constant(self.row.size - block)
            base = self.network.named(body, "start", blocks.offsets.bound([base, last], Op.MIN))
        row = attrs.evolve(self.row, words=attrs.evolve(self.network, lanes=lanes))
        op = Op.CMP_LE if self.row.descending else Op.CMP_GE
        behind: list[sem.Expr] = []
        for place in range(0, block, lanes):
            value = self._compared(row.loaded(base + place))
            behind.append(sem.Apply(op, (value, widened(limit, lanes))))
        while len(behind) > 1:
            pairs = zip(behind[::2], behind[1::2], strict=True)
            behind = [sem.Apply(Op.BIT_AND, pair) for pair in pairs]
        number = cast(behind[0], DType.I32)
        (whole,) = self._declared(body, "behind", [number if lanes == 1 else sem.Reduce(Op.MIN, number)])
        return sem.Apply(Op.CMP_EQ, (whole, sem.Const(0, whole.type)))

    def _compared(self, value: sem.Expr) -> sem.Expr:
        """Return the part of a key that is compared with the bound."""
        dtype = value.type.dtype
        return value if dtype in _COMPARED or dtype.is_integer else key_of(value)

    def _declared(self, body: Body, name: str, values: Sequence[sem.Expr]) -> tuple[sem.Var, ...]:
        result = tuple(sem.Var(self.network.blocks.names.fresh(name), value.type) for value in values)
        body += [sem.Declare(*pair) for pair in zip(result, values, strict=True)]
        return result

    @staticmethod
    def _assigned(targets: Sequence[sem.LValue], values: Sequence[sem.Expr]) -> list[sem.Stmt]:
        return [sem.Assign(*pair) for pair in zip(targets, values, strict=True)]
