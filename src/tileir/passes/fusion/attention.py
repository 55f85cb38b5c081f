"""Attention as one kernel, in which groups of threads keep running maxima and sums of the softmax; its gradients.

Where several groups share the keys, what brings the parts together does so always in the same order. A part has
results r and the logarithm l of the sum of its weights. Its share of the result is r / sum(2^(k - l)), where k are the
logarithms of all parts: with the greatest exponents no part comes in, and none overflows beyond that.
"""

from __future__ import annotations

import math
from typing import ClassVar, Final

from tileir.core import Aggregation, DType, NameScope, Op, attrs, rounded
from tileir.passes.base import at_least, with_temporaries
from tileir.passes.fusion.attention_backward import Kernels, MatrixViews, backward_kernels, scaled_logs
from tileir.passes.fusion.attention_gradients import gradients_of
from tileir.passes.fusion.attention_match import Attention, attentions
from tileir.passes.fusion.attention_plans import Asked, band_of, planned, split
from tileir.passes.fusion.row_expressions import ALONG
from tileir.passes.kernels.expansion import called_block
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing, remark
from tileir.stripe import ir as stripe
from tileir.stripe.attending import ATTEND, Attending


@attrs.frozen
class FuseAttention:
    """Fuse attention into one kernel on devices with matrix instructions; scores stay in registers, in f32.

    Its gradients become three more, which compute the scores again.

    Attributes:
        fragments: Names of instructions, as for ``matrix_contraction``.
        local_bytes: Memory that the threads of a group share.
        vector_bytes: Width of a copy of one thread.
        groups: So many groups keep the device busy: they have fewer queries where there are not so many.

    """

    name: ClassVar[str] = "fuse_attention"
    fragments: tuple[str, ...] = ()
    local_bytes: int = attrs.field(default=48 * 1024, validator=at_least(0))
    vector_bytes: int = attrs.field(default=16, validator=at_least(1))
    groups: int = attrs.field(default=1, validator=at_least(1))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such kernels."""
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
        """Return the kernel for attention, or several; they take names for temporaries."""
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
        asked = Asked.of(
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
    """Return memory for logarithms to base 2, the kernel that stores them to base e, and what ``attend`` sees of it."""
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
    """Remark what became of a kernel and those that belong to it."""
    if isinstance(made, Refused):
        remark(called_block(kernel), made, number=number)
    else:
        remark(called_block(kernel), None, (("kernels", len(members)),), number=number)


_WIDE: Final = DType.F32

_BASE: Final = rounded(math.log(2.0), _WIDE)

_LEAST: Final = -(2.0**100)
"""Stands for the logarithm of a part of which a query sees nothing, where minus infinity is no number to subtract."""


def in_parts(
    found: Attention,
    plan: Attending,
    outer: tuple[stripe.Index, ...],
    matrices: list[stripe.Refinement],
    names: NameScope,
) -> Kernels:
    """Return a kernel of attention in parts and two that merge these; they take names for temporaries.

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
"""What a part adds to a sum of powers: its own, and each other's, beside the greatest."""

_MERGES: Final = (
    stripe.Load("part", "part"),
    stripe.Load("share", "share"),
    stripe.Intrinsic(Op.DIV, ("part", "share"), "term", _WIDE),
    stripe.Store("term", "sum"),
)
"""What a part adds to a result: its own, by its share."""


@attrs.frozen
class _Tensors:
    """Allocates temporaries in f32, by letters for their last axes."""

    outer: tuple[int, ...]
    parts: int
    rows: int
    columns: int
    names: NameScope

    def made(self, name: str, *axes: str) -> stripe.Refinement:
        """Return memory with the axes of outer indices, and parts, rows and columns."""
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
