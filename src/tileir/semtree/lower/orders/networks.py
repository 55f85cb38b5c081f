"""Sorting networks over rows of words in memory, known at compile time, so that lanes compare in parallel.

Bitonic sorting with ascending blocks (Batcher, "Sorting networks and their applications", 1968): blocks of twice
the size are merged by a flip, which compares mirrored elements of the block, and by steps of half the distance each. As
no comparator descends, padding behind the end of a row never moves, and takes no part.

Elements are tuples of words, compared from the first word on. No two are equal, except indistinguishable ones. Blocks
of a few vectors are sorted and merged in registers: distances below the lanes of a vector are shuffles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from tileir.core import Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.orders.words import Body, Element, Words
from tileir.semtree.lower.views import reversed_lanes

_VECTORS: Final = 4
"""Number of vectors of one word that are sorted in registers together; fewer for several words."""


@attrs.frozen
class Network(Words):
    """Sorter of elements in arrays of words, all of one dtype.

    Attributes:
        near: Number of elements that fit the nearest cache; a power of two.
    """

    near: int

    def leaf(self, size: int) -> int:
        """Return the number of elements sorted in registers, out of at least ``size``: a power of two."""
        return min(self.lanes * max(1, _VECTORS // len(self.arrays)), 1 << max(0, size - 1).bit_length())

    def sort(self, body: Body, start: int, size: int) -> None:
        """Sort ``size`` elements from ``start`` on, a multiple of :meth:`leaf`."""
        leaf = self.leaf(size)
        chunk = max(min(self.near, 1 << (size - 1).bit_length()), leaf)
        first, last = Affine.constant(start), Affine.constant(start + size)

        def merge_leaves(inner: Body, base: Affine, end: Sequence[Affine]) -> None:
            self._each_leaf(inner, base, end, leaf, lambda body, vectors: self._merged(body, vectors, leaf // 2))

        with self.loop(body, [first], [last], chunk) as (inner, base):
            end = [base + chunk] if size % chunk == 0 else [base + chunk, last]
            self._each_leaf(inner, base, end, leaf, self._sorted)
            with self._doubled(inner, leaf, chunk) as (within, phase, half):
                self._flip(within, base, end, half, chunk)
                self._steps(within, base, end, self._halved(within, half), phase, chunk)
                merge_leaves(within, base, end)
        with self._doubled(body, chunk, size) as (outer, phase, half):
            self._flip(outer, first, [last], half, size)
            self._steps(outer, first, [last], self._halved(outer, half), phase, size)
            with self.loop(outer, [first], [last], chunk) as (inner, base):
                end = [base + chunk] if size % chunk == 0 else [base + chunk, last]
                self._near_steps(inner, base, end, chunk, leaf)
                merge_leaves(inner, base, end)

    def keep_least(self, body: Body, size: int) -> None:
        """Merge the first ``size`` elements with the ``size`` elements behind, both sorted, and keep the least."""
        end, leaf = Affine.constant(size), self.leaf(size)
        with self.loop(body, [Affine()], [end], self.lanes) as (inner, t):
            there = self._reversed(self.at(Affine.constant(2 * size - self.lanes) - t))
            low, _ = self._ordered(inner, self.at(t), there)
            self._store(inner, t, low)
        self._near_steps(body, Affine(), [end], size, leaf)
        self._each_leaf(body, Affine(), [end], leaf, lambda inner, v: self._merged(inner, v, leaf // 2))

    def _near_steps(self, body: Body, base: Affine, end: Sequence[Affine], size: int, leaf: int) -> None:
        """Run the steps from half of ``size`` on that exceed registers."""
        count = size.bit_length() - leaf.bit_length()
        self._steps(body, base, end, Affine.constant(size // 2), Affine.constant(count), size)

    def _flip(self, body: Body, base: Affine, end: Sequence[Affine], half: Affine, size: int) -> None:
        """Compare each element in the first half of a block with its mirror element."""
        with self._blocks(body, base, half, size) as (outer, start):
            beyond = [start + half + half - limit for limit in end]
            with self.loop(outer, [Affine(), *beyond], [half], self.lanes) as (inner, t):
                here, there = start + t, start + half + half - self.lanes - t
                low, high = self._ordered(inner, self.at(here), self._reversed(self.at(there)))
                self._store(inner, here, low)
                self._store(inner, there, self._reversed(high))

    def _steps(self, body: Body, base: Affine, end: Sequence[Affine], first: Affine, count: Affine, size: int) -> None:
        """Compare elements at distance ``first``, then half of that, ``count`` times."""
        if count == Affine():
            return
        index = self.blocks.offsets
        with self.loop(body, [Affine()], [count], 1) as (outer, step):
            shifted = sem.Apply(Op.BIT_RIGHT, (index.scalar(first), index.scalar(step)))
            distance = self.named(outer, "distance", shifted)
            with self._blocks(outer, base, distance, size) as (around, start):
                inside = [limit - start - distance for limit in end]
                with self.loop(around, [Affine()], [distance, *inside], self.lanes) as (inner, t):
                    here, there = start + t, start + t + distance
                    low, high = self._ordered(inner, self.at(here), self.at(there))
                    self._store(inner, here, low)
                    self._store(inner, there, high)

    @contextmanager
    def _doubled(self, body: Body, first: int, size: int) -> Iterator[tuple[Body, Affine, Affine]]:
        """Loop over ``first`` and its doubles below ``size``; yield the body, the iteration number, and the value."""
        count = (-(-size // first) - 1).bit_length()
        index = self.blocks.offsets
        inner: Body = []
        phase = self.blocks.counter("phase")
        number = Affine.index(phase.name)
        half = sem.Apply(Op.BIT_LEFT, (index.constant(first), index.scalar(number)))
        yield inner, number, self.named(inner, "half", half)
        if count:
            body.append(sem.For(phase, index.constant(0), index.constant(count), 1, tuple(inner)))

    @contextmanager
    def _blocks(self, body: Body, base: Affine, half: Affine, size: int) -> Iterator[tuple[Body, Affine]]:
        """Loop over the starts of blocks of twice ``half`` elements with more than half within ``size``."""
        index = self.blocks.offsets
        double = self.named(body, "block", index.scalar(half + half))
        count = sem.Apply(Op.DIV, (index.scalar(half + (size - 1)), index.scalar(double)))
        inner: Body = []
        block = self.blocks.counter("b")
        place = sem.Apply(Op.MUL, (index.scalar(Affine.index(block.name)), index.scalar(double)))
        yield inner, base + self.named(inner, "start", place)
        body.append(sem.For(block, index.constant(0), count, 1, tuple(inner)))

    def _halved(self, body: Body, value: Affine) -> Affine:
        index = self.blocks.offsets
        return self.named(body, "first", sem.Apply(Op.BIT_RIGHT, (index.scalar(value), index.constant(1))))

    def _each_leaf(
        self,
        body: Body,
        base: Affine,
        end: Sequence[Affine],
        leaf: int,
        change: Callable[[Body, list[Element]], list[Element]],
    ) -> None:
        with self.loop(body, [base], end, leaf) as (inner, start):
            places = [start + place for place in range(0, leaf, self.lanes)]
            vectors = [self._declared(inner, self.at(place)) for place in places]
            for place, vector in zip(places, change(inner, vectors), strict=True):
                self._store(inner, place, vector)

    def _sorted(self, body: Body, vectors: list[Element]) -> list[Element]:
        """Sort the elements of some vectors in registers."""
        block = 2
        while block <= len(vectors) * self.lanes:
            vectors = self._flipped(body, vectors, block)
            vectors = self._merged(body, vectors, block // 4)
            block *= 2
        return vectors

    def _flipped(self, body: Body, vectors: list[Element], block: int) -> list[Element]:
        if block <= self.lanes:
            return [self._within(body, vector, block - 1) for vector in vectors]
        result, count = list(vectors), block // self.lanes
        for first in range(0, len(vectors), count):
            for low in range(first, first + count // 2):
                high = 2 * first + count - 1 - low
                least, greatest = self._ordered(body, result[low], self._reversed(result[high]))
                result[low], result[high] = least, self._declared(body, self._reversed(greatest))
        return result

    def _merged(self, body: Body, vectors: list[Element], distance: int) -> list[Element]:
        result = list(vectors)
        while distance:
            if distance < self.lanes:
                result = [self._within(body, vector, distance) for vector in result]
            else:
                step = distance // self.lanes
                for low in range(len(result)):
                    if not low & step:
                        result[low], result[low + step] = self._ordered(body, result[low], result[low + step])
            distance //= 2
        return result

    def _within(self, body: Body, vector: Element, mask: int) -> Element:
        """Compare lanes whose numbers differ in the bits of ``mask``; the lower one gets the lesser element."""
        partners = tuple(lane ^ mask for lane in range(self.lanes))
        other = self._declared(body, tuple(sem.Shuffle((word,), partners) for word in vector))
        low, high = self._ordered(body, vector, other)
        chosen = tuple(lane if lane < lane ^ mask else self.lanes + lane for lane in range(self.lanes))
        return self._declared(body, tuple(sem.Shuffle(pair, chosen) for pair in zip(low, high, strict=True)))

    def _ordered(self, body: Body, left: Sequence[sem.Expr], right: Sequence[sem.Expr]) -> tuple[Element, Element]:
        """Return the lesser and the greater of each pair of elements."""
        left, right = self._declared(body, left), self._declared(body, right)
        if len(left) == 1:
            low, high = (sem.Apply(op, (left[0], right[0])) for op in (Op.MIN, Op.MAX))
            return self._declared(body, (low,)), self._declared(body, (high,))
        (swaps,) = self._declared(body, (is_less(right, left),))
        pairs = list(zip(left, right, strict=True))
        lows = tuple(sem.Apply(Op.COND, (swaps, other, mine)) for mine, other in pairs)
        highs = tuple(sem.Apply(Op.COND, (swaps, mine, other)) for mine, other in pairs)
        return self._declared(body, lows), self._declared(body, highs)

    def _reversed(self, words: Sequence[sem.Expr]) -> Element:
        return tuple(words) if self.lanes == 1 else tuple(reversed_lanes(word) for word in words)

    def _store(self, body: Body, place: Affine, words: Element) -> None:
        body += [sem.Assign(target, word) for target, word in zip(self.at(place), words, strict=True)]

    def _declared(self, body: Body, words: Sequence[sem.Expr]) -> Element:
        result = []
        for word in words:
            if isinstance(word, sem.Var):
                result.append(word)
                continue
            result.append(sem.Var(self.blocks.names.fresh("w"), word.type))
            body.append(sem.Declare(result[-1], word))
        return tuple(result)


def is_less(left: Sequence[sem.Expr], right: Sequence[sem.Expr]) -> sem.Expr:
    """Return whether an element precedes another: by the first word that differs."""
    less = sem.Apply(Op.CMP_LT, (left[-1], right[-1]))
    for mine, other in reversed(list(zip(left[:-1], right[:-1], strict=True))):
        equal = sem.Apply(Op.CMP_EQ, (mine, other))
        first = sem.Apply(Op.CMP_LT, (mine, other))
        less = sem.Apply(Op.BIT_OR, (first, sem.Apply(Op.BIT_AND, (equal, less))))
    return less
