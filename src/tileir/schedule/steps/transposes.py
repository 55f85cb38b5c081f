"""A step that turns tiles of what is read in vector registers: transpose."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import no_vector
from tileir.schedule.steps.loops import chain_of
from tileir.schedule.steps.memory import Level
from tileir.schedule.tree import (
    Item,
    Known,
    Leaf,
    Loop,
    Replaced,
    Tree,
    leaves,
    map_uses,
    with_loops_replaced,
)
from tileir.stripe import ir as stripe


@attrs.frozen
class Transpose:
    """Load tiles of what lies along the outer of two loops by vectors along it, and turn them in registers.

    The inner loop becomes lanes, of which each vector is read from a turned tile, and the outer one is unrolled.

    Attributes:
        loops: Two loops, the inner one alone in the outer one, of one size: a power of two from 2 on.
    """

    name: ClassVar[str] = "transpose"
    loops: tuple[str, str]

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with tiles of registers for what is transposed."""
        written = {use.root for leaf in leaves(tree.body) for use in leaf.uses if use.direction.writes}
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
        tiles = {
            use: turned_tile(use, row.name, column.name, row.size, names, (*leaf.constraints, *leaf.padded))
            for use in crossing
        }
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
    """Return allocations, items that load and turn a tile of ``source``, and the use of its elements afterwards.

    ``source`` is contiguous along ``row``, far apart along ``column``; both have ``lanes`` values, a power of two from
    2 on. The items, and statements that read the result along ``column``, run at each point of all other indices. Where
    ``tests`` fail, nothing is loaded.
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
    """Return the greatest value of a test that any iteration of some loops has."""
    return test.substitute({loop: Affine.constant(last if test.coefficient(loop) > 0 else 0) for loop in loops})


def _view(tile: stripe.Refinement, place: tuple[Affine, Affine], direction: stripe.Direction) -> Use:
    return Use(tile.name, tile.name, place, tile.shape.strides, tile.shape.dtype, direction)
