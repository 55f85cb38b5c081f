"""Fused attention with a running softmax (maxima and sums per group of threads), and its gradients.

If several groups share the keys, their parts are merged in a fixed order. A part has results r and the logarithm l of
the sum of its weights. Its share of the result is r / sum(2^(k - l)), where k are the logarithms of all parts: parts
with the greatest exponents dominate, and none overflows.

The kernels: one for results and logarithms, one for queries, one for keys and values. A fourth, which multiplies
results and their gradients row by row, is an ordinary sum of products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import ClassVar, Final, Protocol

from tileir.core import Aggregation, DType, NameScope, Op, attrs, rounded
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, with_temporaries
from tileir.passes.fusion.attention_gradients import Gradients, SavedIntermediates, gradients_of
from tileir.passes.fusion.attention_match import Attention, attentions, output_of
from tileir.passes.fusion.attention_plans import AttentionShape, Options, band_of, planned, planned_back, split
from tileir.passes.fusion.row_expressions import ALONG
from tileir.passes.kernels.expansion import called_block
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing, remark
from tileir.stripe import ir as stripe
from tileir.stripe.attention import ATTEND, ATTEND_BACK, AttentionParameters

_PER_BASE: Final = rounded(1.0 / math.log(2.0), DType.F32)


class Device(Options, Protocol):
    """Device facts that attention needs."""

    @property
    def vector_bytes(self) -> int:
        """Width of a thread's copy in bytes."""


@attrs.frozen
class Kernels:
    """Kernels by position, with their allocations."""

    blocks: Mapping[int, tuple[stripe.Block, ...]]
    memory: tuple[stripe.Refinement, ...]


@attrs.frozen
class MatrixViews:
    """Builder of views of whole matrices from views of one element.

    Attributes:
        sizes: Lengths of the axes of matrices, by the indices that move along them.
        vector_bytes: Width of a thread's copy in bytes.
        outer: The indices that number matrices.
        names: The names of views.
    """

    sizes: Mapping[str, int]
    vector_bytes: int
    outer: frozenset[str]
    names: NameScope = attrs.field(factory=NameScope)

    def of(self, view: stripe.Refinement, *axes: str) -> stripe.Refinement | None:
        """Return the view of all elements along ``axes``, if rows are contiguous and follow each other."""
        places = [[n for n, access in enumerate(view.access) if name in access.indices] for name in axes]
        if any(len(each) != 1 for each in places) or any(a >= b for a, b in pairwise(places)):
            return None
        place, column = address(view), axes[-1]
        steps = [int(place.coefficient(name)) for name, _ in place.terms if name != column]
        lanes = max(1, self.vector_bytes // view.shape.dtype.itemsize) if view.direction is stripe.Direction.IN else 2
        moved = [view.access[n].coefficient(name) for (n,), name in zip(places, axes, strict=True)]
        known = all(name in {*self.outer, *axes} for name in place.indices)
        if place.coefficient(column) != 1 or moved != [1] * len(axes) or not known:
            return None
        if any(step % lanes for step in (*steps, int(place.offset))):
            return None
        return self.whole(view, *axes)

    def whole(self, view: stripe.Refinement, *axes: str) -> stripe.Refinement:
        """Return the view of all elements along ``axes``, each of which has an axis of its own."""
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
    """Return the kernels of attention and its gradients, or the reason against them; ``names`` names temporaries."""
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
    """Builder of the kernels of one attention.

    Attributes:
        device: Facts about the device.
        found: The attention to compute.
        asked: The attention with queries as rows, and dtypes of queries, keys, values and gradients.
        sizes: Lengths of axes.
        outer: The indices that number matrices, except heads that share keys.
    """

    device: Device
    found: Gradients
    asked: AttentionShape
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
        asked = AttentionShape.of(
            tuple(view.shape.dtype for view in views), sizes[found.rows], sizes[found.along], widths,
            math.prod(index.range for index in outer), found.scores, band, zeros=False, finite=found.finite,
        )  # fmt: skip
        return cls(device, found, asked, sizes, outer)

    @property
    def heads(self) -> tuple[str, ...]:
        """The index of heads that share keys, if any."""
        return () if self.found.sharers is None else (self.found.sharers,)

    def allocated(self, name: str, *, of_results: bool = False) -> stripe.Refinement:
        """Return memory for a number per query, or for its result."""
        ranges = [
            *(index.range for index in self.outer),
            *(self.sizes[name] for name in (*self.heads, self.found.rows)),
        ]
        if of_results:
            return stripe.allocation(name, self.asked.dtypes[0], (*ranges, self.found.column[1]))
        return stripe.allocation(name, DType.F32, ranges)

    def element(self, memory: stripe.Refinement, *, of_results: bool = False) -> stripe.Refinement:
        """Return the view of one element of this memory, as an output."""
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

    def scaled(self, kept: SavedIntermediates, logs: stripe.Refinement) -> stripe.Block:
        """Return the kernel that converts saved logarithms to base 2."""
        indices = (*self.outer, *(self.found.kernel.index(name) for name in (*self.heads, self.found.rows)))
        blind = -math.inf if kept.zeros else math.nan
        return scaled_logs(f"{self.found.kernel.name}_logs", indices, kept.logs, logs, _PER_BASE, blind)

    def dots(self, results: stripe.Refinement, dots: stripe.Refinement) -> stripe.Block | Refused:
        """Return the kernel of dot products of results and their gradients, like the one that multiplies values."""
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
        plan: AttentionParameters | Refused,
    ) -> stripe.Block | Refused:
        """Return a kernel that consists of a special of views, of which the first ``inputs`` are inputs."""
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

    ``attend`` stores infinity for queries without visible keys, so that gradients have no weights; others use its
    negation. ``blind`` is the value in ``logs``.
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


@attrs.frozen
class FuseAttention:
    """Fuse attention into one kernel on devices with matrix instructions; scores stay in registers, in f32.

    Its gradients become three more kernels, which recompute the scores.

    Attributes:
        fragments: Names of matrix instructions, as for ``matrix_contraction``.
        local_bytes: Local memory of a group, in bytes.
        vector_bytes: Width of a thread's copy in bytes.
        groups: Number of groups that keeps the device busy: with fewer, groups take fewer queries each.
    """

    name: ClassVar[str] = "fuse_attention"
    fragments: tuple[str, ...] = ()
    local_bytes: int = attrs.field(default=48 * 1024, validator=at_least(0))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with attention fused."""
        kernels, outputs = program.main.blocks, frozenset(program.outputs)
        if not self.fragments or len(kernels) < 4:
            return program
        replaced: dict[int, tuple[stripe.Block, ...]] = {}
        added: list[stripe.Refinement] = []
        names = NameScope.of(each.name for each in program.memory)
        for gradients in gradients_of(kernels, outputs):
            backward = backward_kernels(self, gradients, names)
            _tell(kernels[gradients.number], backward, gradients.kernels, gradients.number)
            if not isinstance(backward, Refused):
                replaced |= {**dict.fromkeys(gradients.kernels, ()), **backward.blocks}
                added += backward.memory
        for number, found in attentions(kernels, outputs):
            if number in replaced:
                continue
            made = found if isinstance(found, Refused) else self._fused(found, names)
            _tell(kernels[number], made, () if isinstance(found, Refused) else found.kernels, number)
            if not isinstance(made, Refused) and not isinstance(found, Refused):
                replaced |= dict.fromkeys(found.kernels, ())
                replaced[found.kernels[-1]] = made.blocks[0]
                added += made.memory
        if not replaced:
            return program
        left = [block for number, kernel in enumerate(kernels) for block in replaced.get(number, (kernel,))]
        used = {view.source for kernel in left for view in kernel.refinements}
        kept = {*program.inputs, *program.outputs, *used}
        return with_temporaries(program, left, added, {r.name for r in program.memory if r.name not in kept})

    @refusing
    def _fused(self, found: Attention, taken: NameScope) -> Kernels | Refused:
        """Return the kernels for attention; ``taken`` names temporaries."""
        left = {found.rows, found.columns, ALONG, found.feature[0]}
        outer = tuple(i for i in found.kernel.indices if any(i.name in a.indices for a in found.results.access))
        outer = tuple(i.bound(stripe.Binding.GRID) for i in outer if i.name not in left)
        rows, columns = (found.kernel.index(name) for name in (found.rows, found.columns))
        sizes = {
            rows.name: rows.range,
            columns.name: columns.range,
            ALONG: found.length,
            found.feature[0]: found.feature[1],
        }
        wanted = (
            (found.queries, rows.name, found.feature[0]), (found.keys, ALONG, found.feature[0]),
            (found.values, ALONG, columns.name), (found.results, rows.name, columns.name),
        )  # fmt: skip
        views = MatrixViews(sizes, self.vector_bytes, frozenset(index.name for index in outer))
        whole = [views.of(*each) for each in wanted]
        band = band_of(found.scores, rows.name)
        if band is None:
            return refused("TR442")
        matrices = [view for view in whole if view is not None]
        if len(matrices) != len(whole) or min(sizes.values()) < 2:
            return refused("TR443")
        asked = AttentionShape.of(
            tuple(view.shape.dtype for view in matrices), rows.range, found.length, (found.feature[1], columns.range),
            math.prod(i.range for i in outer), found.scores, band, zeros=found.zeros, finite=found.finite,
        )  # fmt: skip
        plan = accepted(planned(self, asked))
        plan = plan if found.sums is not None else split(self, asked, plan)
        if plan.parts is not None:
            return in_parts(found, plan, outer, matrices, taken)
        stored = None if found.sums is None else _stored_sums(found, found.sums, outer, taken)
        after, memory = ((), ()) if stored is None else ((stored[1],), (stored[0],))
        matrices += [] if stored is None else [stored[2]]
        names = tuple(view.name for view in matrices)
        special = stripe.Special(ATTEND, names[:3], names[3:], plan.parameters())
        comments = tuple(dict.fromkeys(found.kernel.comments))
        block = stripe.Block(found.kernel.name, outer, (), tuple(matrices), (special,), comments)
        return Kernels({0: (block, *after)}, memory)


def _stored_sums(
    found: Attention, sums: stripe.Refinement, outer: tuple[stripe.Index, ...], taken: NameScope
) -> tuple[stripe.Refinement, stripe.Block, stripe.Refinement]:
    """Return memory for base-2 logarithms, the kernel that stores them to base e, and the view for ``attend``."""
    rows = found.kernel.index(found.rows)
    logs = _Tensors(tuple(index.range for index in outer), 1, rows.range, 1, taken).made(
        f"{found.queries.source}_logs", "s"
    )
    lead = [Affine.index(index.name) for index in outer]
    indices = (*(attrs.evolve(index, binding=None) for index in outer), rows)
    each = _view(logs, (*lead, Affine.index(rows.name)), stripe.Direction.IN, "log")
    after = scaled_logs(f"{found.kernel.name}_sums", indices, each, sums, _BASE)
    return logs, after, _view(logs, (*lead, Affine()), stripe.Direction.OUT, free=1)


def _tell(kernel: stripe.Block, made: object, members: tuple[int, ...], number: int) -> None:
    if isinstance(made, Refused):
        remark(called_block(kernel), made, number=number)
    else:
        remark(called_block(kernel), None, (("kernels", len(members)),), number=number)


_WIDE: Final = DType.F32

_BASE: Final = rounded(math.log(2.0), _WIDE)

_LEAST: Final = -(2.0**100)
"""Finite stand-in for minus infinity, which cannot be subtracted, in a part of which a query sees nothing."""


def in_parts(
    found: Attention,
    plan: AttentionParameters,
    outer: tuple[stripe.Index, ...],
    matrices: list[stripe.Refinement],
    names: NameScope,
) -> Kernels:
    """Return a kernel of attention in parts, and two that merge these.

    Args:
        found: The attention.
        plan: Its tiles.
        outer: The indices that number matrices.
        matrices: Views of queries, keys, values and the result.
        names: Names that are taken in the program.
    """
    assert plan.parts is not None  # it is split
    inner = NameScope.of(index.name for index in found.kernel.indices)
    part, other = (stripe.Index(inner.fresh(word), plan.parts) for word in ("part", "other"))
    plain = tuple(attrs.evolve(index, binding=None) for index in outer)
    rows, columns = (found.kernel.index(name) for name in (found.rows, found.columns))
    lead = [Affine.index(index.name) for index in (*outer, part)]
    tensors = _Tensors(tuple(index.range for index in outer), plan.parts, rows.range, columns.range, names)
    results, logs, sums, total = (
        tensors.made(f"{found.queries.source}_{word}", *axes)
        for word, axes in (("parts", "pse"), ("logs", "ps"), ("shares", "ps"), ("merged", "se"))
    )
    row, column, at = (Affine.index(name) for name in (rows.name, columns.name, other.name))
    whole = tuple(
        _view(memory, (*lead[:-1], *[Affine()] * count), stripe.Direction.OUT, free=count)
        for memory, count in ((results, 3), (logs, 2))
    )
    special = stripe.Special(
        ATTEND, tuple(v.name for v in matrices[:3]), tuple(v.name for v in whole), plan.parameters()
    )
    comments = tuple(dict.fromkeys(found.kernel.comments))
    attend = stripe.Block(found.kernel.name, outer, (), (*matrices[:3], *whole), (special,), comments)
    shares = stripe.Block(
        f"{found.kernel.name}_shares", (*plain, part, rows, other), (), (
            _view(logs, (*lead, row), stripe.Direction.IN, "own"),
            _view(logs, (*lead[:-1], at, row), stripe.Direction.IN, "each"),
            _sum(sums, (*lead, row)),
        ), _SHARES, comments,
    )  # fmt: skip
    merge = stripe.Block(
        f"{found.kernel.name}_merged", (*plain, rows, columns, part), (), (
            _view(results, (*lead, row, column), stripe.Direction.IN, "part"),
            _view(sums, (*lead, row), stripe.Direction.IN, "share"),
            _sum(total, (*lead[:-1], row, column)),
        ), _MERGES, comments,
    )  # fmt: skip
    store = attrs.evolve(found.results, name="result", direction=stripe.Direction.OUT, aggregation=None)
    converted = () if store.shape.dtype is _WIDE else (stripe.Convert("sum", "result", store.shape.dtype),)
    convert = stripe.Block(
        f"{found.kernel.name}_result", (*plain, rows, columns), (),
        (_view(total, (*lead[:-1], row, column), stripe.Direction.IN, "sum"), store),
        (stripe.Load("sum", "sum"), *converted, stripe.Store("result" if converted else "sum", "result")), comments,
    )  # fmt: skip
    return Kernels({0: (attend, shares, merge, convert)}, (results, logs, sums, total))


_SHARES: Final = (
    stripe.Load("own", "own"),
    stripe.Load("each", "each"),
    stripe.Constant("least", _WIDE, _LEAST),
    stripe.Constant("base", _WIDE, _BASE),
    stripe.Intrinsic(Op.MAX, ("own", "least"), "from", _WIDE),
    stripe.Intrinsic(Op.SUB, ("each", "from"), "less", _WIDE),
    stripe.Intrinsic(Op.MUL, ("less", "base"), "exponent", _WIDE),
    stripe.Intrinsic(Op.EXP, ("exponent",), "power", _WIDE),
    stripe.Store("power", "sum"),
)
"""Terms of the sum of powers of a part: its own and each other part's, relative to its own logarithm."""

_MERGES: Final = (
    stripe.Load("part", "part"),
    stripe.Load("share", "share"),
    stripe.Intrinsic(Op.DIV, ("part", "share"), "term", _WIDE),
    stripe.Store("term", "sum"),
)
"""Contribution of a part to a result: its own result divided by its sum."""


@attrs.frozen
class _Tensors:
    """Allocator of f32 temporaries, by letters for their last axes."""

    outer: tuple[int, ...]
    parts: int
    rows: int
    columns: int
    names: NameScope

    def made(self, name: str, *axes: str) -> stripe.Refinement:
        """Return memory with the outer axes and axes of parts, rows and columns."""
        sizes = {"p": self.parts, "s": self.rows, "e": self.columns}
        return stripe.allocation(self.names.fresh(name), _WIDE, (*self.outer, *(sizes[axis] for axis in axes)))


def _view(
    memory: stripe.Refinement,
    access: tuple[Affine, ...],
    direction: stripe.Direction,
    name: str | None = None,
    *,
    free: int = 0,
) -> stripe.Refinement:
    """Return the view of one element, or of all along the last ``free`` axes."""
    last = len(memory.shape.dims) - free
    dims = tuple(dim if n >= last else attrs.evolve(dim, size=1) for n, dim in enumerate(memory.shape.dims))
    shape = attrs.evolve(memory.shape, dims=dims)
    return stripe.Refinement(name or memory.name, direction, memory.name, access, shape)


def _sum(memory: stripe.Refinement, access: tuple[Affine, ...]) -> stripe.Refinement:
    return attrs.evolve(_view(memory, access, stripe.Direction.OUT, "sum"), aggregation=Aggregation.SUM)
