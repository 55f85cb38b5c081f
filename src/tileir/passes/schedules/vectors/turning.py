"""Square tiles of memory that are loaded along one index, turned in vector registers, and read along another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.passes.kernels import schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule.nest import Node, Use
from tileir.stripe import ir as stripe
from tileir.stripe.blocks import Binding

if TYPE_CHECKING:
    from tileir.core.text.names import NameScope


def turned_tile(
    source: Use, row: stripe.Index, column: stripe.Index, names: NameScope
) -> tuple[tuple[stripe.Refinement, ...], tuple[Node, ...], Use]:
    """Return allocations, nodes that load and turn a tile of ``source``, and the use of its elements afterwards.

    ``source`` is contiguous along ``row``, far apart along ``column``; both have as many values, a power of two from
    2 on. The nodes, and blocks that read the result along ``column``, run at each point of all other indices.
    """
    lanes = row.range
    before, after = (_tile(source, names.fresh(f"{source.root}_{what}"), lanes) for what in ("rows", "columns"))
    by_rows = _view(source, before, (sch.part(column), sch.part(row)), stripe.Direction.OUT)
    points = (column.bound(Binding.UNROLL), row.bound(Binding.LANE))
    statements = (stripe.Load(source.name, "element"), stripe.Store("element", by_rows.name))
    load = Node(points, statements=statements, uses=(attrs.evolve(source, aggregation=None), by_rows))
    result = attrs.evolve(
        _view(source, after, (sch.part(row), sch.part(column)), stripe.Direction.IN), name=source.name
    )
    return (before, after), (load, _turn(source, before, after)), result


def _tile(use: Use, name: str, lanes: int) -> stripe.Refinement:
    shape = stripe.TensorShape.dense(use.dtype, (lanes, lanes))
    return stripe.Refinement(name, stripe.Direction.NONE, "", (Affine(), Affine()), shape, location=sch.REGISTER)


def _turn(use: Use, before: stripe.Refinement, after: stripe.Refinement) -> Node:
    zero = (Affine(), Affine())
    views = (
        attrs.evolve(_view(use, before, zero, stripe.Direction.IN), sizes=before.shape.sizes),
        attrs.evolve(_view(use, after, zero, stripe.Direction.OUT), sizes=after.shape.sizes),
    )
    return Node(statements=(stripe.Special("transpose", (before.name,), (after.name,)),), uses=views)


def _view(use: Use, tile: stripe.Refinement, place: tuple[Affine, Affine], direction: stripe.Direction) -> Use:
    return Use(tile.name, tile.name, place, tile.shape.strides, use.dtype, direction)
