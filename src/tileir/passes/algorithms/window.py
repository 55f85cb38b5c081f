"""Aggregates over wide sliding windows by two scans, in time independent of the width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.analysis.running_aggregates import Terms, running, terms_of
from tileir.passes.base import at_least
from tileir.passes.kernels.replacement import Outcome, Replacement, ReplacingPass
from tileir.poly.affine import Affine
from tileir.schedule import refused, reindexed
from tileir.stripe import ir as stripe


@attrs.frozen
class Window(ReplacingPass):
    """Compute wide window reductions by two scans over blocks of the window's width (van Herk, Gil and Werman).

    ``O[i] = +(X[i + k])`` over ``k < W``: blocks of W terms are scanned backwards (into S) and forwards (into Q,
    excluding the current term). A window is the end of one block and the start of the next, so ``O[i]`` is
    ``S[i] + Q[i + W]``. This works for all aggregations, and avoids the cancellation of differences of running sums
    (van Herk, "A fast algorithm for local minimum and maximum filters on rectangular and octagonal kernels", 1992; Gil
    and Werman, "Computing 2-D min, median, and max filters", 1993). The pass ``scan`` schedules the scans.

    Windows that reach beyond the ends of a tensor, and running aggregates that stop growing, are first split into
    pieces whose windows move uniformly.

    Attributes:
        reqs: Tags that a kernel must carry.
        least: Minimum width of a window.
        least_outputs: Minimum number of outputs.
    """

    name: ClassVar[str] = "window"
    reqs: tuple[str, ...] = ()
    least: int = attrs.field(default=64, validator=at_least(2))
    least_outputs: int = attrs.field(default=32, validator=at_least(1))

    def _kernel(self, kernel: stripe.Block, names: NameScope) -> Outcome:
        terms = terms_of(kernel)
        if terms is None:
            return refused("TR671")
        if terms.reduced.range < self.least:
            return refused("TR674", width=terms.reduced.range, least=self.least)
        if terms.along.range < self.least_outputs:
            return refused("TR675", outputs=terms.along.range, least=self.least_outputs)
        pieces = self._pieces(kernel, terms)
        made = [self._scans(piece, names) for piece in pieces]
        blocks = tuple(block for blocks, _ in made for block in blocks)
        if len(blocks) == 1 and blocks[0] is kernel:
            return refused("TR677", pieces=len(terms.cuts()))
        return Replacement(blocks, tuple(each for _, temporaries in made for each in temporaries))

    def _pieces(self, kernel: stripe.Block, terms: Terms) -> tuple[stripe.Block, ...]:
        """Split a kernel where other bounds begin to hold, if that makes a scan or a window of some piece."""
        cuts = terms.cuts()
        if len(cuts) == 1 or len(cuts) > _MOST_PIECES:
            return (kernel,)
        ends = (*cuts[1:], terms.along.range)
        pieces = tuple(_piece(kernel, terms.along, start, end - start) for start, end in zip(cuts, ends, strict=True))
        return pieces if any(running(piece) or self._is_window(terms_of(piece)) for piece in pieces) else (kernel,)

    def _is_window(self, terms: Terms | None) -> bool:
        """Return whether both bounds of the terms move alike, and far enough apart."""
        if terms is None or terms.low is None or terms.high is None:
            return False
        (low, first), (high, last) = terms.low, terms.high
        return low == high != 0 and last - first + 1 >= self.least and terms.along.range >= self.least_outputs

    def _scans(
        self, kernel: stripe.Block, names: NameScope
    ) -> tuple[tuple[stripe.Block, ...], tuple[stripe.Refinement, ...]]:
        """Return the kernels that replace one, and their temporaries."""
        terms = terms_of(kernel)
        if terms is None or terms.low is None or terms.high is None or not self._is_window(terms):
            return (kernel,), ()
        builder = _WindowKernels(kernel, terms, terms.high[1] - terms.low[1] + 1, names)
        return builder.kernels(), (builder.ends, builder.starts)


_MOST_PIECES = 4
"""Maximum number of pieces; a window at both ends of a tensor makes three."""


def _piece(kernel: stripe.Block, along: stripe.Index, start: int, count: int) -> stripe.Block:
    """Return a kernel for some values of an index."""
    indices = tuple(attrs.evolve(i, range=count) if i is along else i for i in kernel.indices)
    return reindexed(kernel, indices, {along.name: Affine.index(along.name) + start})


@attrs.define(eq=False, repr=False)
class _WindowKernels:
    """Builder of the kernels of one window.

    ``ends`` holds for each term the aggregate from it to the end of its block, ``starts`` that of the terms before it.
    """

    kernel: stripe.Block
    terms: Terms
    width: int
    names: NameScope
    ends: stripe.Refinement = attrs.field(init=False)
    starts: stripe.Refinement = attrs.field(init=False)
    _blocks: int = attrs.field(init=False)
    _left: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._blocks, self._left = divmod(self.terms.along.range + self.width - 1, self.width)
        self.ends = self._temporary("ends", self._blocks)
        self.starts = self._temporary("starts", self._blocks + 1)

    def kernels(self) -> tuple[stripe.Block, ...]:
        """Return the kernels in order."""
        result = [self._scan("ends", self.ends, self._blocks, 0, self.width, -1), self._first()]
        if self._blocks > 1:
            result.append(self._scan("starts", self.starts, self._blocks - 1, 1, self.width, 1))
        if self._left:
            result.append(self._scan("rest", self.starts, 1, self._blocks, self._left, 1))
        return (*result, self._joined())

    def _temporary(self, what: str, blocks: int) -> stripe.Refinement:
        output = self.terms.output
        sizes = (*(i.range for i in self.terms.others), blocks * self.width)
        return stripe.allocation(self.names.fresh(f"{output.source}_{what}"), output.shape.dtype, sizes)

    def _view(self, temporary: stripe.Refinement, place: Affine, direction: stripe.Direction) -> stripe.Refinement:
        return temporary.element(direction, (*(Affine.index(i.name) for i in self.terms.others), place))

    def _scan(
        self, what: str, into: stripe.Refinement, blocks: int, first: int, width: int, direction: int
    ) -> stripe.Block:
        """Return the contraction that computes one aggregate for each place of some blocks of terms."""
        taken = NameScope.of(i.name for i in self.kernel.indices)
        block = stripe.Index(taken.fresh("block"), blocks)
        # A place excludes its own term: there are as many terms, and one place more.
        place = stripe.Index(taken.fresh("place"), width if direction < 0 else min(width + 1, self.width))
        term = stripe.Index(taken.fresh("term"), width)
        start = (Affine.index(block.name) + first) * self.width
        values = self._at_term(start + Affine.index(term.name))
        distance = Affine.index(place.name) - Affine.index(term.name)
        constraint = distance - 1 if direction > 0 else -distance
        view = attrs.evolve(
            self._view(into, start + Affine.index(place.name), stripe.Direction.OUT),
            name=self.terms.output.name,
            aggregation=self.terms.output.aggregation,
        )
        kernel = reindexed(self.kernel, (*self.terms.others, block, place, term), values)
        views = tuple(view if r.name == view.name else r for r in kernel.refinements)
        return attrs.evolve(kernel, name=self._name(what), constraints=(constraint,), refinements=views, deps=())

    def _at_term(self, number: Affine) -> Mapping[str, Affine]:
        """Return the values of both indices at which a term is read, counted from the first of output 0 or the last."""
        assert self.terms.low is not None
        factor, first = self.terms.low
        if factor < 0:
            first -= self.terms.along.range - 1
        return {self.terms.along.name: Affine(), self.terms.reduced.name: number + first}

    def _first(self) -> stripe.Block:
        """Return the kernel that stores the identity before the first term of each block."""
        output, aggregation = self.terms.output, self.terms.output.aggregation
        assert aggregation is not None
        dtype = output.shape.dtype
        block = stripe.Index(NameScope.of(i.name for i in self.kernel.indices).fresh("block"), self._blocks + 1)
        view = self._view(self.starts, Affine.index(block.name) * self.width, stripe.Direction.OUT)
        return stripe.Block(
            self._name("first"),
            (*self.terms.others, block),
            refinements=(view,),
            statements=(
                stripe.Constant("identity", dtype, aggregation.identity(dtype)),
                stripe.Store("identity", view.name),
            ),
            tags=stripe.Tags.of("eltwise", "fill"),
        )

    def _joined(self) -> stripe.Block:
        """Return the kernel that merges the end of one block with the start of the next."""
        output, along = self.terms.output, self.terms.along
        assert self.terms.low is not None
        assert output.aggregation is not None
        assert output.aggregation.op is not None
        step = Affine.index(along.name)
        if self.terms.low[0] < 0:
            step = along.range - 1 - step
        views = (
            self._view(self.ends, step, stripe.Direction.IN),
            self._view(self.starts, step + self.width, stripe.Direction.IN),
            attrs.evolve(output, aggregation=None),
        )
        dtype = output.shape.dtype
        statements = (
            stripe.Load(self.ends.name, "end"),
            stripe.Load(self.starts.name, "start"),
            stripe.Intrinsic(output.aggregation.op, ("end", "start"), "window", dtype),
            stripe.Store("window", output.name),
        )
        return attrs.evolve(
            self.kernel,
            name=self._name("joined"),
            indices=(*self.terms.others, along),
            constraints=(),
            refinements=views,
            statements=statements,
            tags=stripe.Tags.of("eltwise"),
            deps=(),
        )

    def _name(self, what: str) -> str:
        return f"{self.kernel.name}_{what}" if self.kernel.name else ""
