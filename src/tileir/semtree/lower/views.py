"""What the blocks of a kernel see of its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tileir.core.errors import fail
from tileir.poly.affine import Affine
from tileir.semtree.lower.offsets import LANE
from tileir.semtree.matrices import PLAIN
from tileir.stripe.tags import FOLD, SWIZZLE_MASK, SWIZZLE_SHIFT

if TYPE_CHECKING:
    from tileir.core.ops import Aggregation
    from tileir.semtree import ir as sem
    from tileir.stripe import ir as stripe


Swizzle: TypeAlias = tuple[int, int, tuple[int, int, int]]
"""Shift, mask and fold of a :class:`tileir.semtree.ir.MatrixOperand`."""

UNMOVED: Final[Swizzle] = (0, 0, PLAIN)


@attrs.frozen
class View:
    """A refinement in scope: the array behind it, and the offset of its first element.

    ``offset`` is affine over kernel variables and, in a vector block, :data:`LANE`.
    ``variable`` is set where the view is one element kept in a variable. With ``owned``, axis 0 of the shape numbers
    the threads of a group, of which each has an array of its own: the axis takes no part in offsets.
    """

    array: str
    offset: Affine
    shape: stripe.TensorShape
    aggregation: Aggregation | None = None
    variable: sem.Var | None = None
    owned: bool = False
    region: sem.Region | None = None  # None for parameters
    swizzle: Swizzle = UNMOVED

    def keeps_neighbours(self, lanes: int) -> bool:
        """Return whether so many neighbours, from where the view starts on, stay neighbours when swizzled."""
        _, mask, (piece, _, _) = self.swizzle
        lowest = mask & -mask or piece
        steps = (c for name, c in self.offset.terms if name != LANE)
        return not lowest or (lowest % lanes == 0 and all(int(c) % lanes == 0 for c in (*steps, self.offset.offset)))


def swizzle_of(refinement: stripe.Refinement) -> Swizzle:
    """Return the shift, mask and fold by which an allocation in local memory asks to be moved; zeros for none."""
    shift, mask, piece = (refinement.tags.get(tag) for tag in (SWIZZLE_SHIFT, SWIZZLE_MASK, FOLD))
    fold = PLAIN
    if isinstance(piece, int):
        rows, row = (dim.size for dim in refinement.shape.dims[-2:])
        fold = piece, row, rows
    return (shift, mask, fold) if isinstance(shift, int) and isinstance(mask, int) else (0, 0, fold)


def check_owner(refinement: stripe.Refinement, values: dict[str, Affine], thread: Affine | None) -> None:
    """Check that a view of an array that each thread has stays with this thread; ``thread`` is its number, if known.

    Raises:
        TileError: TIL502, it does not.

    """
    axis = refinement.access[0].substitute(values) if refinement.access else Affine()
    if axis != (Affine() if thread is None else thread):
        message = (
            f"{refinement.name} is a view of an array in registers, whose first axis is to be the number of the thread "
            f"that owns it, and not {axis}"
        )
        raise fail("TIL502", message)
