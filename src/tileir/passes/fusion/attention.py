"""Attention as one kernel, in which groups of threads keep running maxima and sums of the softmax."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

import attrs

from tileir.core.dtype import DType
from tileir.core.fragments import FRAGMENTS, Fragment, Where, usable
from tileir.core.text.names import NameScope
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, with_temporaries
from tileir.passes.fusion.attention_match import Attention, attentions
from tileir.passes.fusion.row_expressions import ALONG
from tileir.passes.kernels.expansion import called_block
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing, remark
from tileir.stripe import ir as stripe
from tileir.stripe.attending import ATTEND, Attending

_TILES: Final = (
    (64, 32, 2, 64),
    (128, 32, 4, 64),
    (128, 32, 4, 32),
    (128, 16, 4, 64),
    (128, 16, 2, 64),
    (128, 16, 2, 32),
)
"""Columns for which threads have registers, rows of queries of a warp, warps, and keys at a time, the best first."""

_OF_WARPGROUPS: Final = ((64, 64, 1, 128), (128, 64, 1, 64))
"""The same for instructions of four warps, which go on while threads make weights.

Groups of four warps wait for nobody else, and two or three of them share a processor: while one makes weights, others
multiply. Larger groups copy less, but then all of their warps make weights at a time.
"""

_FLOATS: Final = 192
"""Scores and sums for which a thread has registers beside all else; masks need some of these."""

_OF_MASKS: Final = 40

_FEWEST: Final = 4 / 3
"""Of the groups that keep the device busy three quarters do."""

_UNIT: Final = 16
"""Columns come in multiples of so many."""

_PANEL: Final = 32
"""The same for instructions of four warps."""


@attrs.frozen
class FuseAttention:
    """Compute attention in one kernel, where instructions multiply matrices: scores stay in registers, in f32.

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
        kernels = program.main.blocks
        if not self.fragments or len(kernels) < 4:
            return program
        replaced: dict[int, stripe.Block | None] = {}
        for number, found in attentions(kernels, frozenset(program.outputs)):
            made = found if isinstance(found, Refused) else self._fused(found)
            name = called_block(kernels[number])
            if isinstance(made, Refused):
                remark(name, made, number=number)
            elif not isinstance(found, Refused):
                replaced |= dict.fromkeys(found.kernels)
                replaced[found.kernels[-1]] = made
                remark(name, None, (("kernels", len(found.kernels)),), number=number)
        if not replaced:
            return program
        after = [replaced.get(number, kernel) for number, kernel in enumerate(kernels)]
        left = [kernel for kernel in after if kernel is not None]
        used = {view.source for kernel in left for view in kernel.refinements}
        kept = {*program.inputs, *program.outputs, *used}
        return with_temporaries(program, left, (), {r.name for r in program.memory if r.name not in kept})

    @refusing
    def _fused(self, found: Attention) -> stripe.Block | Refused:
        """Return the kernel for attention."""
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
        names = NameScope()
        wanted = (
            (found.queries, rows.name, found.feature[0]), (found.keys, ALONG, found.feature[0]),
            (found.values, ALONG, columns.name), (found.results, rows.name, columns.name),
        )  # fmt: skip
        inside = {index.name for index in outer}
        views = [self._view(*each, sizes, inside, names) for each in wanted]
        whole = [view for view in views if view is not None]
        band = _band(found, rows.name)
        if band is None:
            return refused("TR442")
        if len(whole) != len(views) or min(sizes.values()) < 2:
            return refused("TR443")
        planned = accepted(self._planned(found, whole, math.prod(i.range for i in outer), band))
        special = stripe.Special(ATTEND, tuple(v.name for v in whole[:3]), (whole[3].name,), planned.parameters())
        comments = tuple(dict.fromkeys(found.kernel.comments))
        return stripe.Block(found.kernel.name, outer, (), tuple(whole), (special,), comments)

    def _view(
        self,
        view: stripe.Refinement,
        row: str,
        column: str,
        sizes: Mapping[str, int],
        outer: Collection[str],
        names: NameScope,
    ) -> stripe.Refinement | None:
        """Return the view of all rows and columns, where rows lie one after the other, each of neighbours."""
        axes = [[n for n, access in enumerate(view.access) if name in access.indices] for name in (row, column)]
        if any(len(each) != 1 for each in axes) or axes[0] >= axes[1]:
            return None
        place = address(view)
        steps = [int(place.coefficient(name)) for name, _ in place.terms if name != column]
        lanes = self.vector_bytes // view.shape.dtype.itemsize if view.direction is stripe.Direction.IN else 2
        moved = [view.access[n].coefficient(name) for (n,), name in zip(axes, (row, column), strict=True)]
        known = all(name in {*outer, row, column} for name in place.indices)
        if place.coefficient(column) != 1 or moved != [1, 1] or not known:
            return None
        if any(step % lanes for step in (*steps, int(place.offset))):
            return None
        dims = list(view.shape.dims)
        for (axis,), name in zip(axes, (row, column), strict=True):
            dims[axis] = attrs.evolve(dims[axis], size=sizes[name])
        access = tuple(each.substitute({row: Affine(), column: Affine()}) for each in view.access)
        shape = attrs.evolve(view.shape, dims=tuple(dims))
        direction = stripe.Direction.IN if view.direction is stripe.Direction.IN else stripe.Direction.OUT
        return stripe.Refinement(names.fresh(view.source), direction, view.source, access, shape)

    def _planned(
        self, found: Attention, views: list[stripe.Refinement], outer: int, band: tuple[int | None, int | None]
    ) -> Attending | Refused:
        """Choose the instruction and the sizes of tiles."""
        dtypes = [view.shape.dtype for view in views]
        dtype, rows, widths = (
            dtypes[0],
            found.kernel.index(found.rows).range,
            (found.feature[1], found.kernel.index(found.columns).range),
        )
        fragments = [each for each in usable(self.fragments) if each.dtypes == (dtype, dtype, DType.F32)]
        whole = {each.mnk[1]: each for each in fragments if each.is_async and each.a.layout is not None}
        fragments = [each for each in fragments if each.a.where is Where.REGISTER and each.sums == _QUADS]
        told = {"queries": dtypes[0].value, "keys": dtypes[1].value, "values": dtypes[2].value}
        if not fragments or dtypes[:3] != [dtype] * 3 or not dtypes[3].is_float or dtypes[3] is DType.F64:
            return refused("TR429", **told, offered=" ".join(self.fragments))
        if any(width % _UNIT or width > _TILES[-1][0] for width in widths):
            return refused("TR435", local_bytes=self.local_bytes, columns=max(widths))
        groups = self._of_warpgroups(found, whole, (rows, *widths), outer, band)
        if groups is not None:
            return groups
        fitting: list[Attending] = []
        for widest, tall, teams, keys in _TILES:
            if max(widths) > widest:
                continue
            plan = Attending(
                fragments[0].name, tall * teams, tall, keys, found.scores.scale, band[0], band[1],
                zeros=found.zeros, finite=found.finite,
            )  # fmt: skip
            masked = band != (None, None) or found.length % keys > 0
            floats = tall * (keys + widths[1]) // fragments[0].threads
            if floats <= _FLOATS - masked * _OF_MASKS and plan.local_bytes(dtype, *widths) <= self.local_bytes:
                fitting.append(plan)
        if not fitting:
            return refused("TR435", local_bytes=self.local_bytes, columns=max(widths))
        busy = [each for each in fitting if _FEWEST * -(-rows // each.rows) * outer >= self.groups]
        return (busy or fitting[-1:])[0]

    def _of_warpgroups(
        self,
        found: Attention,
        whole: Mapping[int, Fragment],
        sizes: tuple[int, int, int],
        outer: int,
        band: tuple[int | None, int | None],
    ) -> Attending | None:
        """Choose the sizes of tiles for instructions of four warps; None where they do not fit, or groups are few."""
        rows, *widths = sizes
        for widest, tall, teams, keys in _OF_WARPGROUPS:
            if max(widths) > widest or any(width % _PANEL for width in widths) or keys not in whole:
                continue
            fragment = whole[keys]
            plan = Attending(
                fragment.name, tall * teams, tall, keys, found.scores.scale, band[0], band[1],
                zeros=found.zeros, finite=found.finite,
            )  # fmt: skip
            fits = plan.local_bytes(fragment.a.dtype, widths[0], widths[1]) <= self.local_bytes
            if fits and _FEWEST * -(-rows // plan.rows) * outer >= self.groups:
                return plan
        return None


_QUADS: Final = FRAGMENTS["mma_m16n8k16_f16"].sums
"""How sums lie in the threads of the instructions that the lowering knows: four threads share a row."""


def _band(found: Attention, rows: str) -> tuple[int | None, int | None] | None:
    """Return how far before and after a query the keys may be that it sees; None where tests say anything else."""
    before: int | None = None
    after: int | None = None
    for test in found.scores.seen:
        ahead, behind = Affine.index(rows) - Affine.index(ALONG), Affine.index(ALONG) - Affine.index(rows)
        if (test - ahead).is_constant:
            after = min(int((test - ahead).offset), int((test - ahead).offset) if after is None else after)
        elif (test - behind).is_constant:
            before = min(int((test - behind).offset), int((test - behind).offset) if before is None else before)
        else:
            return None
    return before, after
