"""Contractions over triangles: aggregates that run along an index of the output.

``O[i] = +(X[k])`` over ``k <= i`` adds one term to what it was for ``i - 1``. So does every contraction whose points
are, for each ``i``, an interval that grows by one term at one end from step to step, and whose terms do not depend on
``i`` otherwise: ``X[i - k]`` over ``k <= i``, ``X[k]`` over ``k >= i``, and their like. :func:`running` brings all of
them to one form: step ``t`` adds term ``before + t``, and writes the output at the ``i`` of the step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.ops import Aggregation
from tileir.passes.analysis.accesses import is_element
from tileir.poly.affine import Affine
from tileir.poly.coverage import injective
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.frozen
class Running:
    """A running aggregate.

    Attributes:
        output: The refinement that aggregates.
        along: The index of the output along which it runs.
        reduced: The index that counts terms.
        others: Indices of the output beside ``along``.
        steps: How many outputs are written, one in each step.
        before: How many terms the first output has beside the one of its own step.
        start: The value of ``along`` at step 0.
        direction: 1 or -1: by how much ``along`` grows with each step.
        term: The value of ``reduced`` for term 0 where ``along`` is 0.
        pace: By how much ``reduced`` grows with the number of the term where ``along`` stays.
        slant: By how much ``reduced`` grows with ``along`` for one and the same term.

    """

    output: stripe.Refinement
    along: stripe.Index
    reduced: stripe.Index
    others: tuple[stripe.Index, ...]
    steps: int
    before: int
    start: int
    direction: int
    term: int
    pace: int
    slant: int

    def at_step(self, step: Affine) -> dict[str, Affine]:
        """Return the values of both indices in a step."""
        along = step * self.direction + self.start
        return {self.along.name: along, self.reduced.name: self._reduced(step + self.before, along)}

    def at_term(self, number: Affine) -> dict[str, Affine]:
        """Return values of both indices at which a term is read: which output asks makes no difference."""
        along = Affine.constant(self.start)
        return {self.along.name: along, self.reduced.name: self._reduced(number, along)}

    def _reduced(self, number: Affine, along: Affine) -> Affine:
        return number * self.pace + self.term + along * self.slant


def running(kernel: stripe.Block) -> Running | None:
    """Return how a flat kernel runs along an index; None where it does not, or where that is not plain to see."""
    output = _output(kernel)
    if output is None:
        return None
    written = {name for access in output.access for name in access.indices}
    reduced = [i for i in kernel.indices if i.name not in written and i.range > 1]
    tied = {name for constraint in kernel.constraints for name in constraint.indices}
    along = [i for i in kernel.indices if i.name in written & tied]
    if len(reduced) != 1 or len(along) != 1 or tied != {along[0].name, reduced[0].name}:
        return None
    if not injective(output.access, {i.name: i.range for i in kernel.indices if i.name in written}, ()):
        return None
    for slant in (0, 1, -1):
        if _is_free(kernel, output, along[0], reduced[0], slant):
            interval = _Interval.of(kernel, along[0], reduced[0], slant)
            return None if interval is None else _steps(kernel, output, along[0], reduced[0], slant, interval)
    return None


def _output(kernel: stripe.Block) -> stripe.Refinement | None:
    """Return the one refinement to which a flat kernel stores, merging; None for kernels of another form."""
    if kernel.blocks or any(i.affine is not None or i.tags.items for i in kernel.indices):
        return None
    outputs = [r for r in kernel.refinements if r.direction is not stripe.Direction.IN]
    stores = [s for s in kernel.statements if isinstance(s, stripe.Store)]
    moves = [s for s in kernel.statements if isinstance(s, stripe.Load | stripe.Store)]
    if len(outputs) != 1 or len(stores) != 1 or any(s.index is not None for s in moves):
        return None
    if any(isinstance(s, stripe.Special) for s in kernel.statements) or not all(map(is_element, kernel.refinements)):
        return None
    output = outputs[0]
    merges = output.aggregation not in (None, Aggregation.ASSIGN)
    return output if merges and output.direction is stripe.Direction.OUT else None


def _is_free(
    kernel: stripe.Block, output: stripe.Refinement, along: stripe.Index, reduced: stripe.Index, slant: int
) -> bool:
    """Return whether terms do not depend on ``along`` once ``reduced`` is counted from ``slant`` times it on."""
    affines = [access for r in kernel.refinements if r is not output for access in r.access]
    affines.extend(s.affine for s in kernel.statements if isinstance(s, stripe.LoadIndex))
    return all(a.coefficient(along.name) + slant * a.coefficient(reduced.name) == 0 for a in affines)


@attrs.frozen
class _Interval:
    """The terms of each output: ``low <= m <= high``, affine in the value of ``along``, as (factor, offset)."""

    low: tuple[int, int]
    high: tuple[int, int]

    @classmethod
    def of(cls, kernel: stripe.Block, along: stripe.Index, reduced: stripe.Index, slant: int) -> _Interval | None:
        lows: list[tuple[int, int]] = []
        highs: list[tuple[int, int]] = []
        for constraint in _bounds(kernel, reduced):
            factor, step = (int(constraint.coefficient(name)) for name in (along.name, reduced.name))
            factor, offset = factor + slant * step, int(constraint.offset)
            if step == 1:
                lows.append((-factor, -offset))
            elif step == -1:
                highs.append((factor, offset))
            else:
                return None
        low, high = _tightest(lows, along.range, 1), _tightest(highs, along.range, -1)
        return None if low is None or high is None else cls(low, high)


def _bounds(kernel: stripe.Block, reduced: stripe.Index) -> Iterator[Affine]:
    """Yield affines that must be >= 0: the constraints, and what the range of the reduction index says."""
    yield from kernel.constraints
    yield Affine.index(reduced.name)
    yield reduced.range - 1 - Affine.index(reduced.name)


def _tightest(bounds: list[tuple[int, int]], extent: int, sign: int) -> tuple[int, int] | None:
    """Return the bound that implies all others over ``extent`` values; None where there is none."""
    for factor, offset in bounds:
        ends = (0, extent - 1)
        if all(sign * (factor * x + offset - f * x - o) >= 0 for f, o in bounds for x in ends):
            return factor, offset
    return None


def _steps(
    kernel: stripe.Block,
    output: stripe.Refinement,
    along: stripe.Index,
    reduced: stripe.Index,
    slant: int,
    interval: _Interval,
) -> Running | None:
    """Return the steps in which the intervals grow; None where both ends move, or neither."""
    (low, first), (high, last) = interval.low, interval.high
    if abs(high - low) != 1 or (low and high):
        return None
    # Terms are counted from the end that stays: m = fixed + pace·number. The last one of i is number reach + growth·i.
    growth = high - low
    fixed, pace = (first, 1) if high else (last, -1)
    reach = last - first
    # Step t belongs to i = t, or to the last i first, after steps whose outputs have no term at all.
    start = 0 if growth == 1 else along.range - 1
    most = reach + growth * start
    skipped = max(0, -most)
    others = tuple(i for i in kernel.indices if i is not along and i is not reduced)
    if skipped >= along.range:
        return None
    return Running(
        output,
        along,
        reduced,
        others,
        steps=along.range - skipped,
        before=max(0, most),
        start=start + growth * skipped,
        direction=growth,
        term=fixed,
        pace=pace,
        slant=slant,
    )
