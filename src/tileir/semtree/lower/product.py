"""Phases tagged ``multiply`` as instructions that multiply matrices.

Such a block is an ordinary one, in which each thread adds up the elements that it holds; the tag's value names a
fragment (:mod:`tileir.core.fragments`). Tags say which of its indices is which: ``lane`` and ``element``, whose values
are the first of the bits of the thread's and of the element's number that the index stands for, one for each run of the
fragment's layout; ``tile_row`` and ``tile_column``, which number fragments (and ``tile_high`` rows of these); and
``depth``. Sums that constraints turn away may be computed all the same: they are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.fragments import FRAGMENTS, usable
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.stripe import ir as stripe
from tileir.stripe import tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.core.fragments import Fragment, Run
    from tileir.core.targets.target import Target
    from tileir.semtree.lower.offsets import OffsetBuilder
    from tileir.semtree.lower.views import View


def product(
    block: stripe.Block, views: Mapping[str, View], names: Mapping[str, str], target: Target, offsets: OffsetBuilder
) -> sem.MatrixMultiply | None:
    """Return the instruction for a block, or None where it is not just that.

    ``names`` holds the variable that stands for each index in the offsets of ``views``.
    """
    fragment = FRAGMENTS.get(str(block.tags.get(tags.MULTIPLY)))
    reads = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.IN]
    sums = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.INOUT]
    if fragment is None or len(reads) != 2 or len(sums) != 1 or not only_multiplies(block):
        return None
    if fragment not in usable(target.fragments, rounded=target.approximate):
        return None
    roles = _Roles.of(block, names, fragment)
    column = roles.first("n")
    left, right = sorted(reads, key=lambda view: bool(roles.step(view, column)))
    if (left.shape.dtype, right.shape.dtype, sums[0].shape.dtype) != fragment.dtypes:
        return None
    if not roles.are_whole(block) or not roles.fit(left, right, sums[0]):
        return None
    a, b = roles.step(left, roles.first("m")), roles.step(right, column)
    variables = tuple(names[index.name] for index in roles.found.values() if index.name in names)
    start, depth = sem.Type(fragment.c.dtype), (tags.DEPTH, 0)
    return sem.MatrixMultiply(
        fragment.name,
        roles.tile,
        sem.Subscript(sums[0].array, _start(sums[0], variables, offsets), start),
        sem.MatrixOperand(_first(left, variables, offsets), (a, roles.step(left, depth)), *left.swizzle),
        sem.MatrixOperand(_first(right, variables, offsets), (roles.step(right, depth), b), *right.swizzle),
    )


def only_multiplies(block: stripe.Block) -> bool:
    """Return whether a block adds products of what it loads, and does nothing else."""
    kinds = (stripe.Load, stripe.Store, stripe.Convert, stripe.Intrinsic)
    if not all(isinstance(s, kinds) for s in block.statements):
        return False
    products = [s for s in block.statements if isinstance(s, stripe.Intrinsic)]
    stores = [s for s in block.statements if isinstance(s, stripe.Store)]
    return len(products) == len(stores) == 1 and products[0].op is Op.MUL and stores[0].source == products[0].into


@attrs.frozen(eq=False, repr=False)
class _Roles:
    """Which indices of a block stand for what: a tag and its value, 0 where it has none."""

    fragment: Fragment
    found: Mapping[tuple[str, int], stripe.Index]
    variables: Mapping[tuple[str, int], str]

    @classmethod
    def of(cls, block: stripe.Block, names: Mapping[str, str], fragment: Fragment) -> _Roles:
        """Look at the tags of a block's indices."""
        found: dict[tuple[str, int], stripe.Index] = {}
        for index in block.indices:
            for role in tags.ROLES:
                if role in index.tags:
                    value = index.tags.get(role)
                    found[role, value if isinstance(value, int) else 0] = index
        return cls(fragment, found, {role: names[i.name] for role, i in found.items() if i.name in names})

    @property
    def runs(self) -> dict[tuple[str, int], Run]:
        """What the fragment's layout asks for."""
        layout = self.fragment.sums
        lanes = {(tags.LANE, run.start): run for run in layout.thread_runs()}
        return {**lanes, **{(tags.ELEMENT, run.start): run for run in layout.element_runs()}}

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows, columns and depth."""
        rows, columns, _ = self.fragment.mnk
        high, tall, wide, depth = (self.range(r) for r in (tags.TILE_HIGH, tags.TILE_ROW, tags.TILE_COLUMN, tags.DEPTH))
        return high * tall * rows, wide * columns, depth

    def range(self, role: str) -> int:
        """Return the range of an index, 1 where there is none."""
        return self.found[role, 0].range if (role, 0) in self.found else 1

    def first(self, axis: str) -> tuple[str, int]:
        """Return what moves from a row or column to the next one."""
        return next((role for role, run in self.runs.items() if run.axis == axis and run.bit == 0), ("", 0))

    def step(self, view: View, role: tuple[str, int]) -> int:
        """Return how far one step of an index moves in a view."""
        return int(view.offset.coefficient(self.variables[role])) if role in self.variables else 0

    def are_whole(self, block: stripe.Block) -> bool:
        """Return whether indices stand for all bits, those of threads for the lowest ones of their numbers."""
        own = {role: index.range for role, index in self.found.items() if role[0] in (tags.LANE, tags.ELEMENT)}
        stride, strides = 1, {}
        for index in reversed(block.indices):
            if index.binding is stripe.Binding.THREAD:
                strides[index.name] = stride
                stride *= index.range
        ordered = all(
            strides.get(index.name) == 1 << start for (role, start), index in self.found.items() if role == tags.LANE
        )
        whole = own == {role: run.extent for role, run in self.runs.items()}
        return whole and ordered and self.range(tags.DEPTH) % self.fragment.mnk[2] == 0

    def fit(self, left: View, right: View, sums: View) -> bool:
        """Return whether all views go with the indices as the instruction asks."""
        (rows, columns, _), held = self.fragment.mnk, self.fragment.sums.held
        row, column = self.step(left, self.first("m")), self.step(right, self.first("n"))
        tall, wide = self.range(tags.TILE_ROW), self.range(tags.TILE_COLUMN)
        wanted = {
            left: {(tags.TILE_ROW, 0): rows * row, (tags.TILE_HIGH, 0): tall * rows * row},
            right: {(tags.TILE_COLUMN, 0): columns * column},
            sums: {
                (tags.TILE_COLUMN, 0): held,
                (tags.TILE_ROW, 0): wide * held,
                (tags.TILE_HIGH, 0): tall * wide * held,
            },
        }
        for role, run in self.runs.items():
            view, unit = (left, row) if run.axis == "m" else (right, column)
            wanted[view][role] = unit << run.bit
            if role[0] == tags.ELEMENT:
                wanted[sums][role] = 1 << run.start
        return all(
            self.step(view, role) == steps.get(role, 0)
            for view, steps in wanted.items()
            for role in self.variables
            if role[0] != tags.DEPTH or view is sums
        )


def _start(view: View, variables: Iterable[str], offsets: OffsetBuilder) -> sem.Expr:
    return offsets.scalar(view.offset.substitute({name: Affine() for name in variables}))


def _first(view: View, variables: Iterable[str], offsets: OffsetBuilder) -> sem.Subscript:
    return sem.Subscript(view.array, _start(view, variables, offsets), sem.Type(view.shape.dtype))
