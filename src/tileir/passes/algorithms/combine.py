"""Choice of partial states in tuple reductions: of lanes, of neighbouring columns, and of parts of a long axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.algorithms.combines import CombineKernels, TupleReduction
from tileir.passes.algorithms.extrema import extremum_and_position
from tileir.passes.base import at_least
from tileir.passes.kernels import schedule as sch
from tileir.passes.kernels.replacement import Outcome, Replacement, ReplacingPass
from tileir.schedule import Refused, product, refused
from tileir.stripe import ir as stripe


@attrs.frozen
class Combine(ReplacingPass):
    """Regroup tuple reductions into partial states for lanes, neighbouring results and parts of long axes.

    If elements are contiguous along a reduced index, each lane of a few vectors keeps its own state and takes elements
    at a stride; at the end, vectors are merged pairwise, then halves of lanes. If they are contiguous along another
    index, vectors hold the states of neighbouring results. Long axes that few results share are split into parts, whose
    states a further kernel merges. All other reductions stay loops, except positions of extrema: two aggregations,
    scheduled by other passes, are cheaper than states along short axes.

    Attributes:
        reqs: Tags that a kernel must carry.
        vector_bytes: Width of a vector register in bytes; 0 keeps kernels scalar.
        max_lanes: Maximum number of lanes of a vector; 0 for as many as fit.
        unroll: Maximum number of vectors of states that are live at a time.
        stretch_bytes: Maximum bytes of each component of the states of neighbouring results.
        outputs: Number of results that keep all threads busy; only kernels with fewer are split into parts.
        parts: Maximum number of parts of an axis; 1 for no split.
        part_terms: Minimum number of elements of a part.
        least: Minimum number of contiguous elements for keeping states of positions of extrema; two aggregations find
            positions among fewer elements. None: two aggregations for all.
    """

    name: ClassVar[str] = "combine"
    reqs: tuple[str, ...] = ()
    vector_bytes: int = attrs.field(default=0, validator=at_least(0))
    max_lanes: int = attrs.field(default=0, validator=at_least(0))
    unroll: int = attrs.field(default=4, validator=at_least(1))
    stretch_bytes: int = attrs.field(default=2048, validator=at_least(1))
    outputs: int = attrs.field(default=8, validator=at_least(1))
    parts: int = attrs.field(default=1, validator=at_least(1))
    part_terms: int = attrs.field(default=16 * 1024, validator=at_least(1))
    least: int | None = 0

    def _kernel(self, kernel: stripe.Block, names: NameScope) -> Outcome:
        found = TupleReduction.of(kernel)
        kernels = self._kernels(found, names) if found is not None else refused("TR662")
        return kernels if isinstance(kernels, Refused) else Replacement(tuple(kernels[0]), tuple(kernels[1]))

    def _kernels(
        self, found: TupleReduction, names: NameScope
    ) -> tuple[Sequence[stripe.Block], Sequence[stripe.Refinement]] | Refused:
        """Return the kernels of one reduction, and their temporaries; refused if it stays a loop."""
        lanes = sch.vector_lanes(self.vector_bytes, found.widest_itemsize, self.max_lanes)
        along = next((i for i in found.inner if found.is_contiguous(i.name)), None)
        if self.least is None or (0 if along is None else along.range) < self.least:
            apart = extremum_and_position(found, names)
            if apart is not None:
                return apart
        builder = CombineKernels(found)
        if along is not None and along.range >= 2 * lanes > 2:
            count = self._count(found, along)
            width = min(self.unroll, along.range // count // lanes)
            return builder.along(along, lanes, max(1, width), count, names)
        across = next((i for i in found.outer if found.is_contiguous(i.name) and found.stores_along(i.name)), None)
        if across is not None and across.range >= lanes > 1:
            return builder.across(across, lanes, self._width(found, across, lanes)), ()
        if (count := self._count(found, found.inner[0])) > 1:
            return builder.along(found.inner[0], 1, 1, count, names)
        return refused("TR663", lanes=lanes, terms=product(i.range for i in found.inner))

    def _count(self, found: TupleReduction, index: stripe.Index) -> int:
        """Return the number of equal parts of an index, which cover most of it."""
        beside = product(i.range for i in found.outer)
        if beside >= self.outputs or self.parts < 2:
            return 1
        return max(1, min(self.parts, index.range // self.part_terms))

    def _width(self, found: TupleReduction, index: stripe.Index, lanes: int) -> int:
        """Return the number of neighbours that are reduced together, small enough to leave work for all threads."""
        most = max(lanes, self.stretch_bytes // found.widest_itemsize)
        others = product(i.range for i in found.outer) // index.range
        most = min(most, max(lanes, index.range * others // self.outputs))
        widths = range(lanes, min(most, index.range) + 1, lanes)
        return max((width for width in widths if index.range % width == 0), default=widths[-1])
