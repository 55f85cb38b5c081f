"""Kernels of attention and its gradients: one for results and logarithms, one for queries, one for keys and values.

A fourth, which multiplies results and their gradients row by row, is an ordinary sum of products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, Protocol

from tileir.core import DType, NameScope, Op, attrs, rounded
from tileir.passes.analysis.accesses import address
from tileir.passes.fusion.attention_gradients import Gradients, Kept
from tileir.passes.fusion.attention_match import output_of
from tileir.passes.fusion.attention_plans import Asked, Options, band_of, planned, planned_back
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.stripe import ir as stripe
from tileir.stripe.attending import ATTEND, ATTEND_BACK, Attending

_PER_BASE: Final = rounded(1.0 / math.log(2.0), DType.F32)


class Device(Options, Protocol):
    """Facts about a device."""

    @property
    def vector_bytes(self) -> int:
        """Width of a copy of one thread."""


@attrs.frozen
class Kernels:
    """Kernels by where they stand, and what they allocate."""

    blocks: Mapping[int, tuple[stripe.Block, ...]]
    memory: tuple[stripe.Refinement, ...]


@attrs.frozen
class MatrixViews:
    """Makes views of whole matrices of views of one element.

    Attributes:
        sizes: How long the axes of matrices are, by the indices that move along them.
        vector_bytes: Width of a copy of one thread.
        outer: The indices that number matrices.
        names: The names of views.

    """

    sizes: Mapping[str, int]
    vector_bytes: int
    outer: frozenset[str]
    names: NameScope = attrs.field(factory=NameScope)

    def of(self, view: stripe.Refinement, *axes: str) -> stripe.Refinement | None:
        """Return the view of all that ``axes`` number, if rows lie one after the other, each of neighbours."""
        places = [[n for n, access in enumerate(view.access) if name in access.indices] for name in axes]
        if any(len(each) != 1 for each in places) or any(a >= b for a, b in pairwise(places)):
            return None
        place, column = address(view), axes[-1]
        steps = [int(place.coefficient(name)) for name, _ in place.terms if name != column]
        lanes = self.vector_bytes // view.shape.dtype.itemsize if view.direction is stripe.Direction.IN else 2
        moved = [view.access[n].coefficient(name) for (n,), name in zip(places, axes, strict=True)]
        known = all(name in {*self.outer, *axes} for name in place.indices)
        if place.coefficient(column) != 1 or moved != [1] * len(axes) or not known:
            return None
        if any(step % lanes for step in (*steps, int(place.offset))):
            return None
        return self.whole(view, *axes)

    def whole(self, view: stripe.Refinement, *axes: str) -> stripe.Refinement:
        """Return the view of all that ``axes`` number, each of which has an axis of its own."""
        dims = list(view.shape.dims)
        for name in axes:
            axis = next(n for n, access in enumerate(view.access) if name in access.indices)
            dims[axis] = attrs.evolve(dims[axis], size=self.sizes[name])
        access = tuple(each.substitute(dict.fromkeys(axes, Affine())) for each in view.access)
        direction = stripe.Direction.IN if view.direction is stripe.Direction.IN else stripe.Direction.OUT
        shape = attrs.evolve(view.shape, dims=tuple(dims))
        return stripe.Refinement(self.names.fresh(view.source), direction, view.source, access, shape)


@refusing
def backward_kernels(device: Device, found: Gradients, names: NameScope) -> Kernels | Refused:
    """Return the kernels of attention and its gradients, or why there are none; they take names for temporaries."""
    band = band_of(found.scores, found.rows)
    if band is None:
        return refused("TR442")
    builder = _Builder.of(device, found, band)
    if min(builder.sizes.values()) < 2:
        return refused("TR443")
    if found.kept is not None:
        memory = [builder.allocated(names.fresh(f"{found.queries.source}_logs"))]
        logs, dots = builder.element(memory[0]), found.kept.dots
        made = [
            builder.scaled(found.kept, logs),
            *map(accepted, (builder.queries(logs, dots), builder.keys(logs, dots))),
        ]
        return Kernels({found.number: tuple(made)}, tuple(memory))
    results = found.results
    memory = [builder.allocated(names.fresh(f"{found.queries.source}_{word}")) for word in ("logs", "dots")]
    logs, dots = (builder.element(each) for each in memory)
    if results is None:
        kept = builder.allocated(names.fresh(f"{found.queries.source}_attended"), of_results=True)
        memory.append(kept)
        results = builder.element(kept, of_results=True)
    blocks = (
        builder.forward(results, logs),
        builder.dots(results, dots),
        builder.queries(logs, dots),
        builder.keys(logs, dots),
    )
    made = [accepted(block) for block in blocks]
    if found.forward is not None and found.forward < found.number:
        return Kernels({found.forward: (made[0],), found.number: tuple(made[1:])}, tuple(memory))
    return Kernels({found.number: tuple(made)}, tuple(memory))


@attrs.frozen
class _Builder:
    """Makes the kernels of one attention.

    Attributes:
        device: What the device offers.
        found: What is computed.
        asked: The same for queries as rows; dtypes are those of queries, keys, values and gradients.
        sizes: How long axes are.
        outer: The indices that number matrices, but for heads that share keys.

    """

    device: Device
    found: Gradients
    asked: Asked
    sizes: Mapping[str, int]
    outer: tuple[stripe.Index, ...]

    @classmethod
    def of(cls, device: Device, found: Gradients, band: tuple[int | None, int | None]) -> _Builder:
        """Collect sizes."""
        kernel = found.kernel
        sizes = {name: kernel.index(name).range for name in (found.rows, found.along, found.feature)}
        sizes[found.column[0]] = found.column[1]
        if found.sharers is not None:
            sizes[found.sharers] = kernel.index(found.sharers).range
        outer = tuple(index for index in kernel.indices if index.name not in sizes)
        views = (found.queries, found.keys, found.values, found.given)
        widths = (sizes[found.feature], sizes[found.column[0]])
        asked = Asked.of(
            tuple(view.shape.dtype for view in views), sizes[found.rows], sizes[found.along], widths,
            math.prod(index.range for index in outer), found.scores, band, zeros=False, finite=found.finite,
        )  # fmt: skip
        return cls(device, found, asked, sizes, outer)

    @property
    def heads(self) -> tuple[str, ...]:
        """The index of heads that share keys, if there is one."""
        return () if self.found.sharers is None else (self.found.sharers,)

    def allocated(self, name: str, *, of_results: bool = False) -> stripe.Refinement:
        """Return memory for a number of each query, or for its result."""
        ranges = [
            *(index.range for index in self.outer),
            *(self.sizes[name] for name in (*self.heads, self.found.rows)),
        ]
        if of_results:
            return stripe.allocation(name, self.asked.dtypes[0], (*ranges, self.found.column[1]))
        return stripe.allocation(name, DType.F32, ranges)

    def element(self, memory: stripe.Refinement, *, of_results: bool = False) -> stripe.Refinement:
        """Return the view of one element of such memory, as something that is written."""
        axes = [*(index.name for index in self.outer), *self.heads, self.found.rows]
        axes += [self.found.column[0]] * of_results
        return memory.element(stripe.Direction.OUT, map(Affine.index, axes))

    def forward(self, results: stripe.Refinement, logs: stripe.Refinement) -> stripe.Block | Refused:
        """Return the kernel of results and logarithms."""
        found, outer = self.found, self._grid(*self.heads)
        views = self._views(outer)
        asked = attrs.evolve(self.asked, outer=math.prod(i.range for i in outer))
        asked = attrs.evolve(asked, dtypes=(*asked.dtypes[:3], results.shape.dtype))
        matrices = [
            views.of(found.queries, found.rows, found.feature), views.of(found.keys, found.along, found.feature),
            views.of(found.values, found.along, found.column[0]), views.of(results, found.rows, found.column[0]),
        ]  # fmt: skip
        return self._block(outer, [*matrices, views.whole(logs, found.rows)], ATTEND, 3, planned(self.device, asked))

    def scaled(self, kept: Kept, logs: stripe.Refinement) -> stripe.Block:
        """Return the kernel of logarithms to base 2, made of those that are kept."""
        indices = (*self.outer, *(self.found.kernel.index(name) for name in (*self.heads, self.found.rows)))
        blind = -math.inf if kept.zeros else math.nan
        return scaled_logs(f"{self.found.kernel.name}_logs", indices, kept.logs, logs, _PER_BASE, blind)

    def dots(self, results: stripe.Refinement, dots: stripe.Refinement) -> stripe.Block | Refused:
        """Return the kernel that multiplies results and their gradients, made of the one that multiplies values."""
        found, kernel = self.found, self.found.given_kernel
        if results.shape.dtype is not found.values.shape.dtype:
            return refused(
                "TR429", queries=found.queries.shape.dtype.value, values=results.shape.dtype.value, offered=""
            )
        column = NameScope.of(index.name for index in self.outer).fresh("column")
        index = stripe.Index(column, found.column[1])
        output = output_of(kernel)
        views = {found.given.name: found.given, found.values.name: attrs.evolve(results, direction=stripe.Direction.IN)}
        refinements = []
        for view in kernel.refinements:
            new = dots if view == output else views[view.name]
            access = tuple(each.substitute({found.column[0]: Affine.index(column)}) for each in new.access)
            new = attrs.evolve(view, source=new.source, access=access, shape=new.shape)
            refinements.append(new)
        rows = (found.kernel.index(found.rows), *(found.kernel.index(name) for name in self.heads))
        comments = tuple(dict.fromkeys(kernel.comments))
        return attrs.evolve(
            kernel, indices=(*self.outer, *rows, index), refinements=tuple(refinements), comments=comments, deps=()
        )

    def queries(self, logs: stripe.Refinement, dots: stripe.Refinement) -> stripe.Block | Refused:
        """Return the kernel of the gradients of queries."""
        found, outer = self.found, self._grid(*self.heads)
        views = self._views(outer)
        asked = attrs.evolve(self.asked, outer=math.prod(i.range for i in outer))
        matrices = [
            views.of(found.queries, found.rows, found.feature), views.of(found.given, found.rows, found.column[0]),
            views.of(found.keys, found.along, found.feature), views.of(found.values, found.along, found.column[0]),
            *(views.whole(_read(each), found.rows) for each in (logs, dots)),
            views.of(found.changed[0], found.rows, found.feature),
        ]  # fmt: skip
        return self._block(outer, matrices, ATTEND_BACK, 6, planned_back(self.device, asked, two=False))

    def keys(self, logs: stripe.Refinement, dots: stripe.Refinement) -> stripe.Block | Refused:
        """Return the kernel of the gradients of keys and values."""
        found, outer, heads = self.found, self._grid(), self.heads
        views = self._views(outer)
        matrices = [
            views.of(found.keys, found.along, found.feature), views.of(found.values, found.along, found.column[0]),
            views.of(found.queries, *heads, found.rows, found.feature),
            views.of(found.given, *heads, found.rows, found.column[0]),
            *(views.whole(_read(each), *heads, found.rows) for each in (logs, dots)),
            views.of(found.changed[1], found.along, found.feature),
            views.of(found.changed[2], found.along, found.column[0]),
        ]  # fmt: skip
        return self._block(outer, matrices, ATTEND_BACK, 6, planned_back(self.device, self.asked.turned(), two=True))

    def _grid(self, *more: str) -> tuple[stripe.Index, ...]:
        indices = (*self.outer, *(self.found.kernel.index(name) for name in more))
        return tuple(index.bound(stripe.Binding.GRID) for index in indices)

    def _views(self, outer: tuple[stripe.Index, ...]) -> MatrixViews:
        return MatrixViews(self.sizes, self.device.vector_bytes, frozenset(index.name for index in outer))

    @refusing
    def _block(
        self,
        outer: tuple[stripe.Index, ...],
        views: list[stripe.Refinement | None],
        name: str,
        inputs: int,
        plan: Attending | Refused,
    ) -> stripe.Block | Refused:
        """Return a kernel that is a special of views, of which the first ones are inputs."""
        whole = [view for view in views if view is not None]
        if len(whole) != len(views):
            return refused("TR443")
        names = [view.name for view in whole]
        special = stripe.Special(name, tuple(names[:inputs]), tuple(names[inputs:]), accepted(plan).parameters())
        comments = tuple(dict.fromkeys(self.found.kernel.comments))
        return stripe.Block(f"{self.found.kernel.name}_{name}", outer, (), tuple(whole), (special,), comments)


def scaled_logs(
    name: str,
    indices: tuple[stripe.Index, ...],
    logs: stripe.Refinement,
    target: stripe.Refinement,
    base: float,
    blind: float = math.inf,
) -> stripe.Block:
    """Return the kernel that stores logarithms to another base: they are multiplied by ``base``.

    ``attend`` has infinity for queries that see nothing, so that gradients have no weights: others have its negation.
    ``blind`` is the one that is there.
    """
    wide = DType.F32
    result = attrs.evolve(target, name="result", direction=stripe.Direction.OUT, aggregation=None)
    converted = () if result.shape.dtype is wide else (stripe.Convert("stored", "narrow", result.shape.dtype),)
    return stripe.Block(
        name, indices, (), (attrs.evolve(logs, name="logs", direction=stripe.Direction.IN), result), (
            stripe.Load("logs", "log"),
            stripe.Constant("base", wide, base),
            stripe.Constant("blind", wide, blind),
            stripe.Constant("none", wide, -blind),
            stripe.Intrinsic(Op.MUL, ("log", "base"), "scaled", wide),
            stripe.Intrinsic(Op.CMP_EQ, ("scaled", "blind"), "is_blind", DType.BOOL),
            stripe.Intrinsic(Op.COND, ("is_blind", "none", "scaled"), "stored", wide),
            *converted,
            stripe.Store("narrow" if converted else "stored", "result"),
        ),
    )  # fmt: skip


def _read(view: stripe.Refinement) -> stripe.Refinement:
    return attrs.evolve(view, direction=stripe.Direction.IN)
