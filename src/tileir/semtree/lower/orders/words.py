"""Rows of words in memory for sorting: elements are one or several words, each in a separate array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from tileir.core import DType, Op, attrs
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.lower.block import BlockLowering

Element: TypeAlias = tuple[sem.Expr, ...]
"""The words of one element, or of a vector of elements."""

Body: TypeAlias = list[sem.Stmt]


@attrs.frozen
class Words:
    """Elements that are in arrays of words.

    Attributes:
        blocks: The lowering of the kernel.
        arrays: The array of each word.
        dtypes: Dtype of each word.
        lanes: Elements of a vector: a power of two.
    """

    blocks: BlockLowering
    arrays: tuple[str, ...]
    dtypes: tuple[DType, ...]
    lanes: int

    @property
    def types(self) -> tuple[sem.Type, ...]:
        """The types of vectors of each word."""
        return tuple(sem.Type(dtype, self.lanes) for dtype in self.dtypes)

    def at(self, place: Affine, lanes: int | None = None) -> tuple[sem.Subscript, ...]:
        """Return the words of the elements from ``place`` on: of a vector, or of ``lanes`` of them."""
        return self.from_offset(self.blocks.offsets.scalar(place), self.lanes if lanes is None else lanes)

    def from_offset(self, offset: sem.Expr, lanes: int) -> tuple[sem.Subscript, ...]:
        """Return the words of ``lanes`` elements from a place that may not be affine."""
        pairs = zip(self.arrays, self.dtypes, strict=True)
        return tuple(sem.Subscript(array, offset, sem.Type(dtype, lanes)) for array, dtype in pairs)

    @contextmanager
    def loop(
        self, body: Body, begin: Sequence[Affine], end: Sequence[Affine], step: int
    ) -> Iterator[tuple[Body, Affine]]:
        """Loop from the greatest ``begin`` to the least ``end``; yield the body to extend, and the counter."""
        bound = self.blocks.offsets.bound
        counter, inner = self.blocks.counter("t"), list[sem.Stmt]()
        yield inner, Affine.index(counter.name)
        body.append(sem.For(counter, bound([*begin], Op.MAX), bound([*end], Op.MIN), step, tuple(inner)))

    def named(self, body: Body, name: str, value: sem.Expr) -> Affine:
        """Declare a place that is not affine in others."""
        variable = self.blocks.counter(name)
        body.append(sem.Declare(variable, value))
        return Affine.index(variable.name)
