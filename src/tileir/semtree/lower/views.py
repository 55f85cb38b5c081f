"""What the blocks of a kernel see of its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.errors import fail
from tileir.poly.affine import Affine
from tileir.semtree.lower.offsets import LANE
from tileir.stripe.tags import SWIZZLE_MASK, SWIZZLE_SHIFT

if TYPE_CHECKING:
    from tileir.core.ops import Aggregation
    from tileir.semtree import ir as sem
    from tileir.stripe import ir as stripe


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
    swizzle: tuple[int, int] = (0, 0)  # shift and mask of :class:`tileir.semtree.ir.MatrixOperand`

    def keeps_neighbours(self, lanes: int) -> bool:
        """Return whether so many neighbours, from where the view starts on, stay neighbours when swizzled."""
        lowest = self.swizzle[1] & -self.swizzle[1]
        steps = (c for name, c in self.offset.terms if name != LANE)
        return not lowest or (lowest % lanes == 0 and all(int(c) % lanes == 0 for c in (*steps, self.offset.offset)))


def swizzle_of(refinement: stripe.Refinement) -> tuple[int, int]:
    """Return the shift and the mask by which an allocation in local memory asks to be swizzled; zeros for none."""
    shift, mask = refinement.tags.get(SWIZZLE_SHIFT), refinement.tags.get(SWIZZLE_MASK)
    return (shift, mask) if isinstance(shift, int) and isinstance(mask, int) else (0, 0)


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
