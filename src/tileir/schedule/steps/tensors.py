"""Steps for instructions of the device: tensorise, interleave, and transpose of register tiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.products import dtype_of_product, factors_of_product
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import no_vector
from tileir.schedule.steps.memory import Level, with_memory
from tileir.schedule.tree import (
    Item,
    Known,
    Leaf,
    Loop,
    Replaced,
    Size,
    Tree,
    chain_of,
    map_uses,
    with_loops_replaced,
)
from tileir.stripe import ir as stripe


@attrs.frozen
class Tensorise:
    """Run the points of two loops as one dot-product instruction: each lane adds the products of a few terms.

    Loops of equal name around other statements become vector lanes.

    Attributes:
        lanes: The loop over lanes.
        terms: The inner loop over the terms of a lane.
        fragment: The name of a row of :mod:`tileir.core.fragments`.
    """

    name: ClassVar[str] = "tensorise"
    lanes: str
    terms: str
    fragment: str

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with the loops bound to lanes and terms."""
        row = FRAGMENTS.get(self.fragment)
        if row is None or not row.is_dot:
            return refused("TR742", fragment=self.fragment)
        return with_loops_replaced(tree, self.lanes, lambda loop, _: self._bound(loop, row))

    @refusing
    def _bound(self, loop: Loop, row: Fragment) -> Replaced | Refused:
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        if len(loop.body) == 1 and isinstance(loop.body[0], Leaf):
            return no_vector(loop) or Replaced((attrs.evolve(loop, binding=stripe.Binding.LANE),))
        chain = accepted(chain_of(loop, (self.lanes, self.terms)))
        terms = chain[1]
        if (loop.size, terms.size) != row.mnk[1:]:
            return refused("TR743", fragment=row.name, lanes=loop.size, terms=terms.size)
        rule_out(self._against_leaf(terms, row))
        inner = attrs.evolve(terms, binding=stripe.Binding.DOT)
        return Replaced((attrs.evolve(loop, binding=stripe.Binding.LANE, body=(inner,)),))

    def _against_leaf(self, terms: Loop, row: Fragment) -> Refused | None:
        """Return the reason why the statements inside do not match the instruction."""
        leaf = terms.body[0]
        if len(terms.body) > 1 or not isinstance(leaf, Leaf) or terms.allocations:
            return refused("TR744", fragment=row.name)
        product, factors = dtype_of_product(leaf.statements, leaf.uses), factors_of_product(leaf.statements, leaf.uses)
        if product is None or factors is None:
            return refused("TR744", fragment=row.name)
        a, b = (use.dtype for use in factors)
        if row.dtypes not in ((a, b, product), (b, a, product)):
            return refused("TR744", fragment=row.name, left=a.value, right=b.value, sums=product.value)
        if any(self.terms in test.indices for test in leaf.constraints):
            return refused("TR722", loop=self.terms)
        for use in leaf.uses:
            lane, term = use.stride(self.lanes), use.stride(self.terms)
            if (lane, term) not in (((0, 1), (terms.size, 1)) if use in factors else ((1, 0),)):
                return refused("TR745", memory=use.root, lane=lane, term=term)
        return None


@attrs.frozen
class Interleave:
    """Interleave memory: neighbours along an axis, a few at a time, become its last axis.

    Attributes:
        memory: Memory that the kernel allocates.
        axis: The axis, counted from 0.
        by: Number of neighbours.
    """

    name: ClassVar[str] = "interleave"
    memory: str
    axis: int
    by: Size

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the memory in another order."""
        by = accepted(known.size(self.by, tree))
        ranges = tree.loop_sizes()
        changed: list[stripe.Refinement] = []

        def parted(found: stripe.Refinement) -> stripe.Refinement:
            sizes = list(found.shape.sizes)
            sizes[self.axis] = -(-sizes[self.axis] // by)
            changed.append(stripe.allocation(found.name, found.shape.dtype, [*sizes, by], found.location))
            return changed[-1]

        uses = [use for leaf in tree.leaves for use in leaf.uses if use.root == self.memory]
        if any(not 0 <= self.axis < len(use.access) or any(size > 1 for size in use.sizes) for use in uses):
            return refused("TR714", order=str(self.axis), axes=len(uses[0].access))
        if apart := [use.access[self.axis] for use in uses if _parts(use.access[self.axis], by, ranges) is None]:
            return refused("TR746", memory=self.memory, access=str(apart[0]), by=by)
        new = accepted(with_memory(tree, self.memory, parted))
        if len({each.shape.sizes for each in changed}) > 1:
            return refused("TR752", memory=self.memory)
        return attrs.evolve(new, body=map_uses(new.body, lambda use: self._moved(use, by, ranges, changed[0])))

    def _moved(self, use: Use, by: int, ranges: Mapping[str, int], memory: stripe.Refinement) -> Use:
        parts = _parts(use.access[self.axis], by, ranges) if use.root == self.memory else None
        if parts is None:
            return use
        access = (*use.access[: self.axis], parts[0], *use.access[self.axis + 1 :], parts[1])
        return attrs.evolve(use, access=access, strides=memory.shape.strides, sizes=())


def _parts(place: Affine, by: int, ranges: Mapping[str, int]) -> tuple[Affine, Affine] | None:
    """Return the number of a group of neighbours, and the position in it; None where indices decide about both."""
    whole = Affine.of({name: int(step) // by for name, step in place.terms if step % by == 0}) + place.offset // by
    rest = place - whole * by
    low, high = rest.bounds(ranges)
    return (whole, rest) if low >= 0 and high < by else None


@attrs.frozen
class Transpose:
    """Load tiles along the outer of two loops by vectors, and transpose them in registers.

    The inner loop becomes vector lanes, read from the transposed tile, and the outer loop is unrolled.

    Attributes:
        loops: Two perfectly nested loops of equal size: a power of two, 2 or more.
    """

    name: ClassVar[str] = "transpose"
    loops: tuple[str, str]

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with register tiles for transposed inputs."""
        written = {use.root for leaf in tree.leaves for use in leaf.uses if use.direction.writes}
        names = tree.names()
        return with_loops_replaced(tree, self.loops[0], lambda loop, _: self._turned(loop, written, names))

    @refusing
    def _turned(self, loop: Loop, written: set[str], names: NameScope) -> Replaced | Refused:
        row, column = accepted(chain_of(loop, self.loops))
        if len(column.body) != 1 or not isinstance(leaf := column.body[0], Leaf) or column.allocations:
            return refused("TR720", loop=column.name)
        if row.bound or column.bound:
            return refused("TR707", loop=row.name, binding=row.bound or column.bound)
        if row.size != column.size or row.size < 2 or row.size & (row.size - 1):
            return refused("TR756", rows=row.size, columns=column.size)
        rule_out(no_vector(column))
        crossing = [
            u for u in leaf.uses if u.root not in written and _is_single(u) and u.crosses(row.name, column.name)
        ]
        if not crossing:
            return refused("TR757", row=row.name, column=column.name)
        tiles = {use: turned_tile(use, row.name, column.name, row.size, names, leaf.tests) for use in crossing}
        inner = attrs.evolve(column, binding=stripe.Binding.LANE)
        body = map_uses((inner,), lambda use: tiles[use][2] if use in tiles else use)
        fills = tuple(item for _, items, _ in tiles.values() for item in items)
        memory = tuple(each for found, _, _ in tiles.values() for each in found)
        return Replaced((*fills, attrs.evolve(row, body=body, binding=stripe.Binding.UNROLL)), memory)


def _is_single(use: Use) -> bool:
    return all(size == 1 for size in use.sizes)


def turned_tile(
    source: Use, row: str, column: str, lanes: int, names: NameScope, tests: tuple[Affine, ...] = ()
) -> tuple[tuple[stripe.Refinement, ...], tuple[Item, ...], Use]:
    """Return allocations, items that load and transpose a tile of ``source``, and the use of its elements afterwards.

    ``source`` is contiguous along ``row`` and strided along ``column``; both have ``lanes`` values, a power of two of
    at least 2. The items, and statements that read the result along ``column``, run at each point of all other indices.
    Where ``tests`` fail, nothing is loaded.
    """
    what = ("rows", "columns")
    memory = [
        stripe.allocation(names.fresh(f"{source.root}_{w}"), source.dtype, (lanes, lanes), Level.REGISTER.location)
        for w in what
    ]
    across, down = Affine.index(row), Affine.index(column)
    by_rows = _view(memory[0], (down, across), stripe.Direction.OUT)
    load = (stripe.Load(source.name, "element"), stripe.Store("element", by_rows.name))
    leaf = Leaf(load, (attrs.evolve(source, aggregation=None), by_rows), tests)
    whole = [
        attrs.evolve(_view(tile, (Affine(), Affine()), direction), sizes=tile.shape.sizes)
        for tile, direction in zip(memory, (stripe.Direction.IN, stripe.Direction.OUT), strict=True)
    ]
    some = tuple(_at_best(test, (row, column), lanes - 1) for test in tests)
    turn = Leaf((stripe.Special("transpose", (whole[0].name,), (whole[1].name,)),), tuple(whole), some)
    inner = Loop(row, lanes, (leaf,), stripe.Binding.LANE)
    result = attrs.evolve(_view(memory[1], (across, down), stripe.Direction.IN), name=source.name)
    return tuple(memory), (Loop(column, lanes, (inner,), stripe.Binding.UNROLL), turn), result


def _at_best(test: Affine, loops: tuple[str, str], last: int) -> Affine:
    return test.substitute({loop: Affine.constant(last if test.coefficient(loop) > 0 else 0) for loop in loops})


def _view(tile: stripe.Refinement, place: tuple[Affine, Affine], direction: stripe.Direction) -> Use:
    return Use(tile.name, tile.name, place, tile.shape.strides, tile.shape.dtype, direction)
