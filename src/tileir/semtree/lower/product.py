"""Phases tagged ``multiply`` as instructions that multiply matrices.

Such a block is an ordinary one, in which each thread adds up the elements that it holds. Tags say which of its indices
is which: ``lane_row`` and ``lane_column`` of the threads, ``tile_row`` and ``tile_column`` that number tiles (and
``tile_high`` that numbers rows of these), ``half`` and ``pair`` that number the elements of a thread in a tile, and
``depth``. Sums that constraints turn away may be computed all the same: they are not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.poly.affine import Affine
from tileir.semtree import ir as sem
from tileir.semtree.matrices import LANE_COLUMNS, LANE_ROWS, PAIR, SHAPES
from tileir.stripe import ir as stripe
from tileir.stripe import tags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.targets.target import Target
    from tileir.semtree.lower.offsets import OffsetBuilder
    from tileir.semtree.lower.views import View

_MISSING: Final = "%none"


def product(
    block: stripe.Block, views: Mapping[str, View], names: Mapping[str, str], target: Target, offsets: OffsetBuilder
) -> sem.MatrixMultiply | None:
    """Return the instruction for a block, or None where it is not just that.

    ``names`` holds the variable that stands for each index in the offsets of ``views``.
    """
    found = {role: index for index in block.indices for role in tags.ROLES if role in index.tags}
    reads = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.IN]
    sums = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.INOUT]
    if len(reads) != 2 or len(sums) != 1 or not only_multiplies(block):
        return None
    roles = {role: names[index.name] for role, index in found.items()}
    ranges = {role: found[role].range if role in found else 1 for role in tags.ROLES}
    left, right = sorted(reads, key=lambda view: not _step(view, roles, tags.LANE_ROW))
    dtype = left.shape.dtype
    if dtype not in target.matrix_dtypes or right.shape.dtype is not dtype or sums[0].shape.dtype is not DType.F32:
        return None
    shape = SHAPES[dtype]
    lanes = (ranges[tags.LANE_ROW], ranges[tags.LANE_COLUMN], ranges[tags.HALF] * LANE_ROWS, ranges[tags.PAIR])
    whole = lanes == (LANE_ROWS, LANE_COLUMNS, shape[0], PAIR) and ranges[tags.DEPTH] % shape[2] == 0
    if not whole or not _fits(left, right, sums[0], roles, ranges):
        return None
    a, b = _step(left, roles, tags.LANE_ROW), _step(right, roles, tags.PAIR)
    return sem.MatrixMultiply(
        shape,
        (
            ranges[tags.TILE_HIGH] * ranges[tags.TILE_ROW] * shape[0],
            ranges[tags.TILE_COLUMN] * shape[1],
            ranges[tags.DEPTH],
        ),
        sem.Subscript(sums[0].array, _start(sums[0], roles, offsets), sem.Type(DType.F32)),
        sem.MatrixOperand(_first(left, roles, offsets), (a, _step(left, roles, tags.DEPTH)), *left.swizzle),
        sem.MatrixOperand(_first(right, roles, offsets), (_step(right, roles, tags.DEPTH), b), *right.swizzle),
    )


def only_multiplies(block: stripe.Block) -> bool:
    """Return whether a block adds products of what it loads, and does nothing else."""
    kinds = (stripe.Load, stripe.Store, stripe.Convert, stripe.Intrinsic)
    if not all(isinstance(s, kinds) for s in block.statements):
        return False
    products = [s for s in block.statements if isinstance(s, stripe.Intrinsic)]
    stores = [s for s in block.statements if isinstance(s, stripe.Store)]
    return len(products) == len(stores) == 1 and products[0].op is Op.MUL and stores[0].source == products[0].into


def _step(view: View, roles: Mapping[str, str], role: str) -> int:
    return int(view.offset.coefficient(roles.get(role, _MISSING)))


def _fits(left: View, right: View, sums: View, roles: Mapping[str, str], ranges: Mapping[str, int]) -> bool:
    """Return whether all views go with the indices as the instruction asks."""
    row, column, half = _step(left, roles, tags.LANE_ROW), _step(right, roles, tags.PAIR), LANE_ROWS
    tall = ranges[tags.HALF] * half
    wide = LANE_COLUMNS * PAIR
    count = ranges[tags.HALF] * PAIR
    held = count * ranges[tags.TILE_COLUMN]
    high = ranges[tags.TILE_ROW]
    wanted = {
        left: {tags.LANE_ROW: row, tags.HALF: half * row, tags.TILE_ROW: tall * row, tags.TILE_HIGH: high * tall * row},
        right: {tags.PAIR: column, tags.LANE_COLUMN: PAIR * column, tags.TILE_COLUMN: wide * column},
        sums: {
            tags.PAIR: 1,
            tags.HALF: PAIR,
            tags.TILE_COLUMN: count,
            tags.TILE_ROW: held,
            tags.TILE_HIGH: high * held,
        },
    }
    return all(
        _step(view, roles, role) == steps.get(role, 0)
        for view, steps in wanted.items()
        for role in tags.ROLES
        if ranges[role] > 1 and (role != tags.DEPTH or view is sums)
    )


def _start(view: View, roles: Mapping[str, str], offsets: OffsetBuilder) -> sem.Expr:
    return offsets.scalar(view.offset.substitute({name: Affine() for name in roles.values()}))


def _first(view: View, roles: Mapping[str, str], offsets: OffsetBuilder) -> sem.Subscript:
    return sem.Subscript(view.array, _start(view, roles, offsets), sem.Type(view.shape.dtype))
