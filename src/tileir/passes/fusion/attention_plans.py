"""The tiles of attention and of its gradients: which instruction, and how many rows and columns at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS, Fragment, Where, usable
from tileir.passes.fusion.attention_match import Scores
from tileir.passes.fusion.row_expressions import ALONG
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.stripe.attending import Attending

_TILES: Final = (
    (64, 32, 2, 64),
    (128, 32, 4, 64),
    (128, 32, 4, 32),
    (128, 16, 4, 64),
    (128, 16, 2, 64),
    (128, 16, 2, 32),
)
"""Columns for which threads have registers, rows of queries of a warp, warps, and keys at a time, the best first."""

_OF_WARPGROUPS: Final = ((64, 64, 3, 128), (64, 64, 1, 128), (128, 64, 2, 128), (128, 64, 1, 64))
"""The same for instructions of four warps, which go on while threads make weights.

While some warps make weights, others multiply. Teams of a group take turns, share what is copied for them, and have all
registers of a processor: three of rows of 64 columns, and two of wider ones. Where there are not enough such groups,
groups of four warps wait for nobody else, and some of them share a processor.
"""

_FEW_TEAMS: Final = 2
"""Where there are more teams, they have to be busy: smaller groups are more even, and have registers for masks."""

_MOST_IDLE: Final = 1 / 10
"""So much of what they can do may be for no queries."""

_FLOATS: Final = 192
"""Scores and sums for which a thread has registers beside all else; masks need some of these."""

_OF_MASKS: Final = 40

_FEWEST: Final = 4 / 3
"""Of the groups that keep the device busy three quarters do."""

_UNIT: Final = 16
"""Columns come in multiples of so many."""

_PANEL: Final = 32
"""The same for instructions of four warps."""


_BACK: Final = ((64, 16, 4, 64), (64, 16, 4, 32), (128, 16, 4, 32), (128, 16, 2, 32), (128, 16, 2, 16))
"""The same as the first ones for gradients, which have products of two kinds, and their sums, in registers."""

_BACK_OF_WARPGROUPS: Final = ((128, 64, 1, 64),)
"""And for instructions of four warps."""

_QUADS: Final = FRAGMENTS["mma_m16n8k16_f16"].sums
"""How sums lie in the threads of the instructions that the lowering knows: four threads share a row."""


_OF_SUMS: Final = 2
"""So many sums beside each other are a left operand."""

_BESIDE: Final = 3
"""So many groups share a processor, where each needs a third of its memory."""

_DEEP: Final = 4
"""So many tiles are in local memory if it has room, where groups share keys: what they wait for is memory."""

_FARTHEST: Final = 2.0**64
"""Bound of numbers added to scores, before they are scaled: exponents do not overflow in f32."""

_LEAST_TILES: Final = 4
"""So many tiles of keys a group has at least that shares them with others."""


class Options(Protocol):
    """Facts about a device."""

    @property
    def fragments(self) -> tuple[str, ...]:
        """Names of instructions."""

    @property
    def local_bytes(self) -> int:
        """Memory that the threads of a group share."""

    @property
    def groups(self) -> int:
        """So many groups keep the device busy."""


@attrs.frozen
class Asked:
    """The attention that is to be computed.

    Attributes:
        dtypes: Dtypes of queries, keys, values and the result.
        rows: Number of rows.
        length: Number of columns.
        widths: Features of the first and of the second matrices.
        outer: Number of matrices.
        scale: Scale of scores.
        band: Number of visible columns before and after a row.
        zeros: As in :class:`Attending`.
        finite: As in :class:`Attending`.
        hidden: As in :class:`Attending`.
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
    ) -> Asked:
        """Return what is asked for by scores, of which rows see a band."""
        hidden = scores.hidden if scores.seen and math.isfinite(scores.hidden) else None
        return cls(dtypes, rows, length, widths, outer, scores.scale, band, zeros, finite and hidden is None, hidden)

    def tiles(self, fragment: Fragment, tall: int, teams: int, keys: int) -> Attending:
        """Return the parameters with these tiles."""
        return Attending(
            fragment.name, tall * teams, tall, keys, self.scale, *self.band,
            zeros=self.zeros, finite=self.finite, hidden=self.hidden,
        )  # fmt: skip

    def turned(self) -> Asked:
        """Return it for keys as rows, and queries as columns."""
        return attrs.evolve(self, rows=self.length, length=self.rows, band=self.band[::-1])


@refusing
def planned(options: Options, asked: Asked) -> Attending | Refused:
    """Choose the instruction and the sizes of tiles."""
    fragment, whole = accepted(_instructions(options, asked))
    widths, dtype = asked.widths, asked.dtypes[0]
    for widest, tall, teams, keys in _OF_WARPGROUPS:
        if max(widths) <= widest and keys in whole and not any(width % _PANEL for width in widths):
            plan = asked.tiles(whole[keys], tall, teams, keys)
            fits = plan.local_bytes(dtype, *widths) <= options.local_bytes and _is_busy(options, asked, plan)
            if fits and (teams <= _FEW_TEAMS or _is_even(options, asked, plan)):
                return attrs.evolve(plan, groups=options.groups) if teams > 1 else plan
    fitting: list[Attending] = []
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


def split(options: Options, asked: Asked, plan: Attending) -> Attending:
    """Return a plan whose groups share the keys of a row of tiles, where half of the device would be idle."""
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
def planned_back(options: Options, asked: Asked, *, two: bool) -> Attending | Refused:
    """Choose the same for gradients; ``two`` where they have two outputs."""
    fragment, whole = accepted(_instructions(options, asked))
    widths, dtype = asked.widths, asked.dtypes[0]
    for widest, tall, teams, keys in _BACK_OF_WARPGROUPS:
        if max(widths) <= widest and keys in whole and not any(width % _PANEL for width in widths):
            plan = asked.tiles(whole[keys], tall, teams, keys)
            if plan.back_bytes(dtype, *widths, two=two) <= options.local_bytes:
                return plan
    fitting: list[Attending] = []
    for widest, tall, teams, keys in _BACK:
        plan = asked.tiles(fragment, tall, teams, keys)
        fits = plan.back_bytes(dtype, *widths, two=two) <= options.local_bytes
        if max(widths) <= widest and fits:
            fitting.append(plan)
    return fitting[0] if fitting else refused("TR435", local_bytes=options.local_bytes, columns=max(widths))


def _is_busy(options: Options, asked: Asked, plan: Attending) -> bool:
    return _FEWEST * -(-asked.rows // plan.rows) * asked.outer >= options.groups


def _is_even(options: Options, asked: Asked, plan: Attending) -> bool:
    """Return whether teams of groups that take turns are seldom without queries that see keys.

    Under a triangle those of the first rows of a tile see fewer than those of the last ones. Other masks need registers
    that three teams do not have.
    """
    before, after = asked.band
    if before is not None or asked.length % plan.keys or (after is not None and not asked.finite):
        return False
    turns = -(-(-(-asked.rows // plan.rows) * asked.outer) // options.groups)
    whole = turns * options.groups * plan.rows + (after is not None) * (plan.rows - plan.tall) * asked.outer
    return asked.rows * asked.outer >= (1 - _MOST_IDLE) * whole


def _instructions(options: Options, asked: Asked) -> tuple[Fragment, Mapping[int, Fragment]] | Refused:
    """Return the instruction of a warp, and those of four warps by their columns."""
    dtypes = asked.dtypes
    dtype = dtypes[0]
    fragments = [each for each in usable(options.fragments) if each.dtypes == (dtype, dtype, DType.F32)]
    whole = {each.mnk[1]: each for each in fragments if each.is_async and each.a.layout is not None}
    fragments = [each for each in fragments if each.a.where is Where.REGISTER and each.sums == _QUADS]
    # Weights are multiplied where sums of scores lie; of bytes a thread would have to hold four neighbours, not two.
    fragments = [each for each in fragments if each.mnk[2] == _OF_SUMS * each.mnk[1]]
    told = {"queries": dtypes[0].value, "keys": dtypes[1].value, "values": dtypes[2].value}
    if not fragments or set(dtypes[:3]) != {dtype} or not dtypes[3].is_float or dtypes[3] is DType.F64:
        return refused("TR429", **told, offered=" ".join(options.fragments))
    if any(width % _UNIT or width > _TILES[-1][0] for width in asked.widths):
        return refused("TR435", local_bytes=options.local_bytes, columns=max(asked.widths))
    return fragments[0], whole


def band_of(scores: Scores, rows: str) -> tuple[int | None, int | None] | None:
    """Return how far before and after a query the keys may be that it sees; None where tests say anything else.

    What is added to other scores has to be small enough to be compared with them before they are scaled.
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
