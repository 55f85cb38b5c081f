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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.core.target import Target
    from tileir.semtree.lower_offsets import OffsetBuilder
    from tileir.semtree.lower_views import View

MULTIPLY: Final = "multiply"
ROLES: Final = ("lane_row", "lane_column", "tile_high", "tile_row", "tile_column", "half", "pair", "depth")
_MISSING: Final = "%none"


def product(
    block: stripe.Block, views: Mapping[str, View], names: Mapping[str, str], target: Target, offsets: OffsetBuilder
) -> sem.MatrixMultiply | None:
    """Return the instruction for a block, or None where it is not just that.

    ``names`` holds the variable that stands for each index in the offsets of ``views``.
    """
    found = {role: index for index in block.indices for role in ROLES if role in index.tags}
    reads = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.IN]
    sums = [views[r.name] for r in block.refinements if r.direction is stripe.Direction.INOUT]
    if len(reads) != 2 or len(sums) != 1 or not only_multiplies(block):
        return None
    roles = {role: names[index.name] for role, index in found.items()}
    ranges = {role: found[role].range if role in found else 1 for role in ROLES}
    left, right = sorted(reads, key=lambda view: not _step(view, roles, "lane_row"))
    dtype = left.shape.dtype
    if dtype not in target.matrix_dtypes or right.shape.dtype is not dtype or sums[0].shape.dtype is not DType.F32:
        return None
    shape = SHAPES[dtype]
    lanes = (ranges["lane_row"], ranges["lane_column"], ranges["half"] * LANE_ROWS, ranges["pair"])
    whole = lanes == (LANE_ROWS, LANE_COLUMNS, shape[0], PAIR) and ranges["depth"] % shape[2] == 0
    if not whole or not _fits(left, right, sums[0], roles, ranges):
        return None
    a, b = _step(left, roles, "lane_row"), _step(right, roles, "pair")
    return sem.MatrixMultiply(
        shape,
        (ranges["tile_high"] * ranges["tile_row"] * shape[0], ranges["tile_column"] * shape[1], ranges["depth"]),
        sem.Subscript(sums[0].array, _start(sums[0], roles, offsets), sem.Type(DType.F32)),
        sem.MatrixOperand(_first(left, roles, offsets), (a, _step(left, roles, "depth")), *left.swizzle),
        sem.MatrixOperand(_first(right, roles, offsets), (_step(right, roles, "depth"), b), *right.swizzle),
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
    row, column, half = _step(left, roles, "lane_row"), _step(right, roles, "pair"), LANE_ROWS
    tall = ranges["half"] * half
    wide = LANE_COLUMNS * PAIR
    count = ranges["half"] * PAIR
    held = count * ranges["tile_column"]
    high = ranges["tile_row"]
    wanted = {
        left: {"lane_row": row, "half": half * row, "tile_row": tall * row, "tile_high": high * tall * row},
        right: {"pair": column, "lane_column": PAIR * column, "tile_column": wide * column},
        sums: {"pair": 1, "half": PAIR, "tile_column": count, "tile_row": held, "tile_high": high * held},
    }
    return all(
        _step(view, roles, role) == steps.get(role, 0)
        for view, steps in wanted.items()
        for role in ROLES
        if ranges[role] > 1 and (role != "depth" or view is sums)
    )


def _start(view: View, roles: Mapping[str, str], offsets: OffsetBuilder) -> sem.Expr:
    return offsets.scalar(view.offset.substitute({name: Affine() for name in roles.values()}))


def _first(view: View, roles: Mapping[str, str], offsets: OffsetBuilder) -> sem.Subscript:
    return sem.Subscript(view.array, _start(view, roles, offsets), sem.Type(view.shape.dtype))
