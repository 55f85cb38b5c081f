"""Peeling of borders: a kernel that computes places is split where these begin to be affine."""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels.forms import against_flat
from tileir.passes.regions.interior import divided, inside
from tileir.passes.rewrites.affine_places import computed_tests, decided
from tileir.passes.rewrites.canonicalise import simplified
from tileir.schedule.remarks import Done, Refused, refused, refusing, rule_out
from tileir.stripe.ir import Block, Index

_MANY: Final = 16
"""Minimum ratio of rows to unrolled rows at which a few more border rows cost no noticeable time."""
_ROW: Final = 16
"""Minimum distance of rows in elements; closer places are in one row."""


@attrs.frozen
class SplitBorder(KernelPass):
    """Peel borders off elementwise kernels that compute indices from coordinates, as for reflection.

    In the interior, where all comparisons have the result that they have at the centre, addresses are affine and
    vectors contiguous. The rest, tagged ``border``, is one kernel for each index that was split, starting with the
    innermost: in the first rows of an image, addresses are still affine within the rows. The pass ``join_border`` joins
    these kernels.

    Attributes:
        reqs: Tags that a kernel must carry.
        points: Minimum number of points of a kernel.
        share: Minimum share of the interior in the range of an index, in percent.
        rows: Unroll factor of the pass ``vectorise``, in rows: the interior is trimmed to a multiple if that excludes
            few rows.
    """

    name: ClassVar[str] = "split_border"
    reqs: tuple[str, ...] = ()
    points: int = attrs.field(default=1024, validator=at_least(0))
    share: int = attrs.field(default=50, validator=at_least(0))
    rows: int = attrs.field(default=4, validator=at_least(1))

    @refusing
    def _kernel(self, kernel: Block) -> Done | Refused:
        rule_out(_against_elementwise(kernel))
        tests = computed_tests(kernel)
        if not tests:
            return refused("TR615")
        if kernel.points < self.points:
            return refused("TR611", points=kernel.points, least=self.points)
        interior, parts = kernel, list[Block]()
        for index in reversed(kernel.indices):
            low, high = inside(index, tests, kernel.ranges)
            if _MANY * self.rows < high - low < index.range and _is_row(kernel, index):
                high -= (high - low) % self.rows
            if high - low < index.range and 100 * (high - low) >= max(1, self.share * index.range):
                interior, outside = divided(interior, index, low, high)
                parts.append(attrs.evolve(outside, tags=outside.tags.add("border")))
        if not parts:
            return refused("TR612", share=self.share)
        made = tuple(s for part in (interior, *parts) if (s := simplified(decided(part))) is not None)
        return Done(made, (("kernels", len(made)),))


@refusing
def _against_elementwise(kernel: Block) -> Refused | None:
    """Return the reason why a kernel does not compute each point independently."""
    rule_out(against_flat(kernel))
    if kernel.constraints:
        return refused("TR616")
    merging = next((r.name for r in kernel.refinements if r.merges), None)
    return None if merging is None else refused("TR206", memory=merging)


def _is_row(kernel: Block, index: Index) -> bool:
    """Return whether values of an index lead to different rows of a kernel's output."""
    written = (address(r) for r in kernel.refinements if r.direction.writes)
    return all(abs(int(where.coefficient(index.name))) >= _ROW for where in written)
