"""Tile sizes and instructions for attention and its gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS, Fragment, OperandMemory, usable
from tileir.passes.fusion.attention_match import Scores
from tileir.passes.fusion.row_expressions import ALONG
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.stripe.attention import AttentionParameters

_TILES: Final = (
    (64, 32, 2, 64),
    (128, 32, 4, 64),
    (128, 32, 4, 32),
    (128, 16, 4, 64),
    (128, 16, 2, 64),
    (128, 16, 2, 32),
)
"""Tiles, best first: maximum columns, query rows per warp, warps, and keys per step."""

_OF_WARPGROUPS: Final = ((64, 64, 3, 128), (64, 64, 1, 128), (128, 64, 2, 128), (128, 64, 1, 64))
"""Tiles as in :data:`_TILES` for asynchronous instructions of four warps.

While some warps compute weights, others multiply. Teams of a group alternate, share copied tiles, and use all registers
of a processor: three teams for rows of 64 columns, and two for wider ones. With too few groups for that, groups of four
warps run independently, several on one processor.
"""

_FEW_TEAMS: Final = 2
"""Maximum number of teams that need not be busy: smaller groups are more even, and have registers for masks."""

_MOST_IDLE: Final = 1 / 10
"""Maximum share of idle work, for no queries, of teams."""

_FLOATS: Final = 192
"""Maximum number of scores and sums in a thread's registers; masks need some of these."""

_OF_MASKS: Final = 40

_FEWEST: Final = 4 / 3
"""Slack in the number of groups: three quarters of ``groups`` keep the device busy."""

_UNIT: Final = 16
"""Required divisor of the number of columns."""

_PANEL: Final = 32
"""Required divisor for instructions of four warps."""


_BACK: Final = ((64, 16, 4, 64), (64, 16, 4, 32), (128, 16, 4, 32), (128, 16, 2, 32), (128, 16, 2, 16))
"""Tiles as in :data:`_TILES` for gradients, which keep products of two kinds, and their sums, in registers."""

_BACK_OF_WARPGROUPS: Final = ((128, 64, 1, 64),)
"""Tiles for gradients with instructions of four warps."""

_QUADS: Final = FRAGMENTS["mma_m16n8k16_f16"].sums
"""Layout of sums in threads that the lowering supports: four threads share a row."""


_OF_SUMS: Final = 2
"""Number of adjacent sums that form a left operand."""

_BESIDE: Final = 3
"""Number of groups on one processor, each with a third of its memory."""

_DEEP: Final = 4
"""Pipeline stages in local memory, if they fit, for groups that share keys, since they wait for memory."""

_FARTHEST: Final = 2.0**64
"""Bound of numbers added to scores before scaling, so that exponents do not overflow in f32."""

_LEAST_TILES: Final = 4
"""Minimum number of key tiles of a group that shares keys."""


class Options(Protocol):
    """Device facts for the choice of tiles."""

    @property
    def fragments(self) -> tuple[str, ...]:
        """Names of matrix instructions."""

    @property
    def local_bytes(self) -> int:
        """Local memory of a group, in bytes."""

    @property
    def groups(self) -> int:
        """Number of groups that keeps the device busy."""


@attrs.frozen
class AttentionShape:
    """Sizes and dtypes of an attention to compute.

    Attributes:
        dtypes: Dtypes of queries, keys, values and the result.
        rows: Number of rows.
        length: Number of columns.
        widths: Features of the first and of the second matrices.
        outer: Number of matrices.
        scale: Scale of scores.
        band: Number of visible columns before and after a row.
        zeros: As in :class:`AttentionParameters`.
        finite: As in :class:`AttentionParameters`.
        hidden: As in :class:`AttentionParameters`.
    """

    dtypes: tuple[DType, ...]
    rows: int
    length: int
    widths: tuple[int, int]
    outer: int
    scale: float
    band: tuple[int | None, int | None]
    zeros: bool
    finite: bool
    hidden: float | None

    @classmethod
    def of(
        cls,
        dtypes: tuple[DType, ...],
        rows: int,
        length: int,
        widths: tuple[int, int],
        outer: int,
        scores: Scores,
        band: tuple[int | None, int | None],
        *,
        zeros: bool,
        finite: bool,
    ) -> AttentionShape:
        """Build the request from scores, of which rows see a band."""
        hidden = scores.hidden if scores.seen and math.isfinite(scores.hidden) else None
        return cls(dtypes, rows, length, widths, outer, scores.scale, band, zeros, finite and hidden is None, hidden)

    def tiles(self, fragment: Fragment, tall: int, teams: int, keys: int) -> AttentionParameters:
        """Return the parameters with these tiles."""
        return AttentionParameters(
            fragment.name, tall * teams, tall, keys, self.scale, *self.band,
            zeros=self.zeros, finite=self.finite, hidden=self.hidden,
        )  # fmt: skip

    def turned(self) -> AttentionShape:
        """Return the request with keys as rows, and queries as columns."""
        return attrs.evolve(self, rows=self.length, length=self.rows, band=self.band[::-1])


@refusing
def planned(options: Options, asked: AttentionShape) -> AttentionParameters | Refused:
    """Choose the instruction and the sizes of tiles."""
    fragment, whole = accepted(_instructions(options, asked))
    widths, dtype = asked.widths, asked.dtypes[0]
    for widest, tall, teams, keys in _OF_WARPGROUPS:
        if max(widths) <= widest and keys in whole and not any(width % _PANEL for width in widths):
            plan = asked.tiles(whole[keys], tall, teams, keys)
            fits = plan.local_bytes(dtype, *widths) <= options.local_bytes and _is_busy(options, asked, plan)
            if fits and (teams <= _FEW_TEAMS or _is_even(options, asked, plan)):
                return attrs.evolve(plan, groups=options.groups) if teams > 1 else plan
    fitting: list[AttentionParameters] = []
    for widest, tall, teams, keys in _TILES:
        plan = asked.tiles(fragment, tall, teams, keys)
        masked = asked.band != (None, None) or asked.length % keys > 0
        floats = tall * (keys + widths[1]) // fragment.threads
        fits = floats <= _FLOATS - masked * _OF_MASKS and plan.local_bytes(dtype, *widths) <= options.local_bytes
        if max(widths) <= widest and fits:
            fitting.append(plan)
    if not fitting:
        return refused("TR435", local_bytes=options.local_bytes, columns=max(widths))
    busy = [each for each in fitting if _is_busy(options, asked, each)]
    return (busy or fitting[-1:])[0]


def split(options: Options, asked: AttentionShape, plan: AttentionParameters) -> AttentionParameters:
    """Return a plan whose groups share the keys of a row of tiles, if half of the device would be idle otherwise."""
    groups = -(-asked.rows // plan.rows) * asked.outer
    tiles = -(-asked.length // plan.keys)
    parts = min(_BESIDE * options.groups // groups, tiles // _LEAST_TILES)
    if 2 * groups > options.groups or parts < 2 or asked.band != (None, None):
        return plan
    parts = -(-tiles // -(-tiles // parts))  # none is empty
    deep = attrs.evolve(plan, parts=parts, stages=_DEEP, groups=None)
    fits = _BESIDE * deep.local_bytes(asked.dtypes[0], *asked.widths) <= options.local_bytes
    return deep if fits and not FRAGMENTS[plan.fragment].is_async else attrs.evolve(deep, stages=None)


@refusing
def planned_back(options: Options, asked: AttentionShape, *, two: bool) -> AttentionParameters | Refused:
    """Choose the instruction and tiles for gradients; ``two`` if they have two outputs."""
    fragment, whole = accepted(_instructions(options, asked))
    widths, dtype = asked.widths, asked.dtypes[0]
    for widest, tall, teams, keys in _BACK_OF_WARPGROUPS:
        if max(widths) <= widest and keys in whole and not any(width % _PANEL for width in widths):
            plan = asked.tiles(whole[keys], tall, teams, keys)
            if plan.back_bytes(dtype, *widths, two=two) <= options.local_bytes:
                return plan
    fitting: list[AttentionParameters] = []
    for widest, tall, teams, keys in _BACK:
        plan = asked.tiles(fragment, tall, teams, keys)
        fits = plan.back_bytes(dtype, *widths, two=two) <= options.local_bytes
        if max(widths) <= widest and fits:
            fitting.append(plan)
    return fitting[0] if fitting else refused("TR435", local_bytes=options.local_bytes, columns=max(widths))


def _is_busy(options: Options, asked: AttentionShape, plan: AttentionParameters) -> bool:
    return _FEWEST * -(-asked.rows // plan.rows) * asked.outer >= options.groups


def _is_even(options: Options, asked: AttentionShape, plan: AttentionParameters) -> bool:
    """Return whether alternating teams of groups seldom lack queries with visible keys.

    Under a triangle, the first rows of a tile see fewer keys than the last rows. Other masks need registers that three
    teams do not have.
    """
    before, after = asked.band
    if before is not None or asked.length % plan.keys or (after is not None and not asked.finite):
        return False
    turns = -(-(-(-asked.rows // plan.rows) * asked.outer) // options.groups)
    whole = turns * options.groups * plan.rows + (after is not None) * (plan.rows - plan.tall) * asked.outer
    return asked.rows * asked.outer >= (1 - _MOST_IDLE) * whole


def _instructions(options: Options, asked: AttentionShape) -> tuple[Fragment, Mapping[int, Fragment]] | Refused:
    """Return the instruction of a warp, and those of four warps by their columns."""
    dtypes = asked.dtypes
    dtype = dtypes[0]
    fragments = [each for each in usable(options.fragments) if each.dtypes == (dtype, dtype, DType.F32)]
    whole = {each.mnk[1]: each for each in fragments if each.is_async and each.a.layout is not None}
    fragments = [each for each in fragments if each.a.where is OperandMemory.REGISTER and each.sums == _QUADS]
    # Weights are multiplied in the layout of sums of scores; for bytes a thread would need four neighbours, not two.
    fragments = [each for each in fragments if each.mnk[2] == _OF_SUMS * each.mnk[1]]
    told = {"queries": dtypes[0].value, "keys": dtypes[1].value, "values": dtypes[2].value}
    if not fragments or set(dtypes[:3]) != {dtype} or not dtypes[3].is_float or dtypes[3] is DType.F64:
        return refused("TR429", **told, offered=" ".join(options.fragments))
    if any(width % _UNIT or width > _TILES[-1][0] for width in asked.widths):
        return refused("TR435", local_bytes=options.local_bytes, columns=max(asked.widths))
    return fragments[0], whole


def band_of(scores: Scores, rows: str) -> tuple[int | None, int | None] | None:
    """Return the number of visible keys before and after a query; None if tests are anything else.

    A number added to hidden scores has to be small enough for a comparison before scaling.
    """
    before: int | None = None
    after: int | None = None
    if math.isfinite(scores.hidden) and abs(scores.hidden) > _FARTHEST * min(1.0, scores.scale):
        return None
    for test in scores.seen:
        ahead, behind = Affine.index(rows) - Affine.index(ALONG), Affine.index(ALONG) - Affine.index(rows)
        if (test - ahead).is_constant:
            after = min(int((test - ahead).offset), int((test - ahead).offset) if after is None else after)
        elif (test - behind).is_constant:
            before = min(int((test - behind).offset), int((test - behind).offset) if before is None else before)
        else:
            return None
    return before, after
