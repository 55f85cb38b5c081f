"""Square tiles of memory that are loaded along one index, turned in vector registers, and read along another."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import attrs

from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule.allocations import allocation
from tileir.schedule.nest import Use
from tileir.schedule.tree import Leaf, Loop, Replaced, leaves, map_leaves, map_uses, with_loops_replaced
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from tileir.core.text.names import NameScope
    from tileir.schedule.remarks import Refused
    from tileir.schedule.sizes import Known
    from tileir.schedule.tree import Item, Tree


@attrs.frozen(repr=False)
class Turn:
    """Let the loops over a tile, which are all that a loop holds, read along ``column`` what lies along ``row``.

    Both have as many iterations, a power of two from 2 on.
    """

    name: ClassVar[str] = "turn"
    at: str
    row: str
    column: str
    lanes: int
    names: NameScope

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002  # all steps are called alike
        """Return the tree with tiles of registers for what is transposed."""
        return with_loops_replaced(tree, self.at, lambda loop, _: Replaced((self._turned(loop),)))

    def _turned(self, loop: Loop) -> Loop:
        (leaf,) = leaves(loop.body)
        crossing = [u for u in leaf.uses if not u.direction.writes and u.crosses(self.row, self.column)]
        tiles = {use: turned_tile(use, self.row, self.column, self.lanes, self.names) for use in crossing}
        fills = map_leaves(tuple(each for _, items, _ in tiles.values() for each in items), {}, *leaf.constraints)
        body = map_uses(loop.body, lambda use: tiles[use][2] if use in tiles else use)
        memory = tuple(each for found, _, _ in tiles.values() for each in found)
        return attrs.evolve(loop, body=(*fills, *body), allocations=memory)


def turned_tile(
    source: Use, row: str, column: str, lanes: int, names: NameScope
) -> tuple[tuple[stripe.Refinement, ...], tuple[Item, ...], Use]:
    """Return allocations, items that load and turn a tile of ``source``, and the use of its elements afterwards.

    ``source`` is contiguous along ``row``, far apart along ``column``; both have ``lanes`` values, a power of two from
    2 on. The items, and statements that read the result along ``column``, run at each point of all other indices.
    """
    what = ("rows", "columns")
    memory = [allocation(names.fresh(f"{source.root}_{w}"), source.dtype, (lanes, lanes), sch.REGISTER) for w in what]
    across, down = Affine.index(row), Affine.index(column)
    by_rows = _view(memory[0], (down, across), stripe.Direction.OUT)
    load = (stripe.Load(source.name, "element"), stripe.Store("element", by_rows.name))
    leaf = Leaf(load, (attrs.evolve(source, aggregation=None), by_rows))
    whole = [
        attrs.evolve(_view(tile, (Affine(), Affine()), direction), sizes=tile.shape.sizes)
        for tile, direction in zip(memory, (stripe.Direction.IN, stripe.Direction.OUT), strict=True)
    ]
    turn = Leaf((stripe.Special("transpose", (whole[0].name,), (whole[1].name,)),), tuple(whole))
    inner = Loop(row, lanes, (leaf,), Binding.LANE)
    result = attrs.evolve(_view(memory[1], (across, down), stripe.Direction.IN), name=source.name)
    return tuple(memory), (Loop(column, lanes, (inner,), Binding.UNROLL), turn), result


def _view(tile: stripe.Refinement, place: tuple[Affine, Affine], direction: stripe.Direction) -> Use:
    return Use(tile.name, tile.name, place, tile.shape.strides, tile.shape.dtype, direction)
