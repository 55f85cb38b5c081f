"""Elementwise kernels, and which of their elements another kernel sees through a view."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import Op, attrs
from tileir.passes.analysis.accesses import address, is_element, views_in_one_place
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Convert, Direction, Intrinsic, Load, Refinement, Special, Store


@attrs.frozen(repr=False)
class Producer:
    """An elementwise kernel over the elements of one temporary.

    ``from_nothing`` holds all operations that take indices to an element, where no tensor is read on the way.
    """

    number: int
    block: Block
    result: Refinement
    scalar: str
    from_nothing: tuple[Op, ...] | None = None

    @classmethod
    def of(cls, number: int, block: Block) -> Producer | None:
        """Return ``block`` as a producer; None where it is none: a flat kernel with one store to its own element."""
        stores = [s for s in block.statements if isinstance(s, Store)]
        flat = not any(isinstance(s, Block | Special) for s in block.statements)
        written = [r for r in block.refinements if r.direction is not Direction.IN]
        if not flat or block.constraints or len(stores) != 1 or len(written) != 1 or stores[0].index is not None:
            return None
        result = written[0]
        plain = result.direction is Direction.OUT and not result.merges
        if not plain or not is_element(result) or not _counts_elements(block, result):
            return None
        return cls(number, block, result, stores[0].source)

    def operations(self) -> list[Op]:
        """Return what the kernel computes for each element, beside casts."""
        return [s.op for s in self.block.statements if isinstance(s, Intrinsic)]

    def only_copies(self) -> bool:
        """Return whether the kernel copies one element to each of the result."""
        first, *rest = self.block.statements
        return isinstance(first, Load) and first.index is None and len(rest) == 1

    def copies_a_slice(self) -> bool:
        """Return whether the kernel copies elements from where one scalar says, with the same neighbours."""
        block = self.block
        if not all(isinstance(s, Load | Store) for s in block.statements):
            return False
        found = views_in_one_place(block.refinements, block.statements)
        views = [r for r in block.refinements if r.name in found]
        if len(views) != 1 or not any(isinstance(s, Load) and s.into == self.scalar for s in block.statements):
            return False
        source, result = address(views[0]), address(self.result)
        near = [name for name, step in result.terms if step == 1]
        return all(source.coefficient(name) == 1 for name in near)

    def only_widens(self) -> bool:
        """Return whether the kernel only converts elements to a wider dtype."""
        if not all(isinstance(s, Load | Convert | Store) for s in self.block.statements):
            return False
        narrow = (r.shape.dtype.itemsize for r in self.block.refinements if r.direction is Direction.IN)
        return max(narrow, default=0) < self.result.shape.dtype.itemsize

    def widens_integers(self) -> bool:
        """Return whether the kernel only widens integers, which loads and dot products do as well."""
        return self.only_widens() and all(r.shape.dtype.is_integer for r in self.block.refinements)

    def coordinates(self, kernel: Block, view: Refinement) -> dict[str, Affine] | None:
        """Return where a view of a kernel looks along each index; None where it shows no element that is stored.

        A view may have the axes of its source cut or joined, as that of a long sum in parts has: then addresses tell.
        """
        result = self.result
        if view.shape.strides == result.shape.strides:
            axes = zip(result.access, view.access, strict=True)
            found = {own.terms[0][0]: access for own, access in axes if not own.is_constant}
        else:
            found = self._along_indices(address(view), kernel.ranges)
        is_whole = found.keys() == self.block.ranges.keys()
        return found if is_whole and address(result).substitute(found) == address(view) else None

    def _along_indices(self, place: Affine, ranges: Mapping[str, int]) -> dict[str, Affine]:
        """Take an address apart into indices, those with the largest steps first, and leave out what does not fit.

        None but the first may leave its range, in which whole addresses keep that one.
        """
        found: dict[str, Affine] = {}
        steps = sorted(address(self.result).terms, key=lambda term: (-term[1], -self.block.ranges[term[0]]))
        for name, step in steps:
            terms = {index: factor // step for index, factor in place.terms if factor % step == 0}
            along = Affine.of(terms, place.offset // step)
            low, high = along.bounds(ranges)
            if not found or 0 <= low <= high < self.block.ranges[name]:
                found[name] = along
                place -= along * step
        return found


def _counts_elements(block: Block, result: Refinement) -> bool:
    """Return whether each index of ``block`` runs along one axis of ``result``, and other axes stay at 0."""
    if not all(i.is_plain for i in block.indices):
        return False
    moving = [access for access in result.access if not access.is_constant]
    simple = all(a.offset == 0 and [c for _, c in a.terms] in ([], [1]) for a in result.access)
    return simple and sorted(a.terms[0][0] for a in moving) == sorted(block.ranges)
