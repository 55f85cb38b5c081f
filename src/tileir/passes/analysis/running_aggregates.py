"""Contractions over triangles: running aggregates (prefix sums) along an index of the output.

``O[i] = +(X[k])`` over ``k <= i`` adds one term to its value for ``i - 1``. The same holds for every contraction
whose points are, for each ``i``, an interval that grows by one term at one end per step, and whose terms do not
otherwise depend on ``i``, such as ``X[i - k]`` over ``k <= i`` or ``X[k]`` over ``k >= i``. :func:`running` brings them
to one form: step ``t`` adds term ``before + t``, and writes the output at the ``i`` of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import is_element
from tileir.poly.affine import Affine
from tileir.poly.coverage import injective
from tileir.stripe import ir as stripe


@attrs.frozen
class RunningAggregate:
    """A running aggregate.

    Attributes:
        output: The refinement that aggregates.
        along: The index of the output along which it runs.
        reduced: The index that counts terms.
        others: Indices of the output except ``along``.
        steps: Number of outputs, one per step.
        before: Number of terms of the first output, excluding the term of its own step.
        start: The value of ``along`` at step 0.
        direction: Change of ``along`` per step: 1 or -1.
        term: The value of ``reduced`` for term 0 if ``along`` is 0.
        pace: Change of ``reduced`` from one term to the next for constant ``along``.
        slant: Change of ``reduced`` with ``along`` for a fixed term.
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
        """Return values of both indices at which a term is read: any output that needs it will do."""
        along = Affine.constant(self.start)
        return {self.along.name: along, self.reduced.name: self._reduced(number, along)}

    def _reduced(self, number: Affine, along: Affine) -> Affine:
        return number * self.pace + self.term + along * self.slant


@attrs.frozen
class Terms:
    """The terms of a flat kernel that reduces one index, within bounds that move with one index of its output.

    Term m of the output at i has ``reduced = m + slant·i``, and does not otherwise depend on i. The terms of an
    output are an interval: each bound is a factor of i and an offset.
    """

    output: stripe.Refinement
    along: stripe.Index
    reduced: stripe.Index
    others: tuple[stripe.Index, ...]
    slant: int
    lows: tuple[tuple[int, int], ...]
    highs: tuple[tuple[int, int], ...]

    @property
    def low(self) -> tuple[int, int] | None:
        """The lower bound that implies all others, for every i; None if there is none."""
        return _tightest(self.lows, 0, self.along.range - 1, 1)

    @property
    def high(self) -> tuple[int, int] | None:
        """The upper bound that implies all others, for every i; None if there is none."""
        return _tightest(self.highs, 0, self.along.range - 1, -1)

    def cuts(self) -> tuple[int, ...]:
        """Return where to cut the values of i so that in each part one bound on each side implies all others."""
        starts = {0}
        for bounds in (self.lows, self.highs):
            for (f, o), (g, p) in combinations(bounds, 2):
                if f != g:
                    # f·x + o < g·x + p changes after the greatest integer below the crossing, or at it.
                    crossing = (p - o) // (f - g)
                    starts.update(x for x in (crossing, crossing + 1) if 0 < x < self.along.range)
        kept: list[int] = []
        last: tuple[object, object] | None = None
        ends = [*sorted(starts)[1:], self.along.range]
        for start, end in zip(sorted(starts), ends, strict=True):
            bounds_here = (_tightest(self.lows, start, end - 1, 1), _tightest(self.highs, start, end - 1, -1))
            if bounds_here != last:
                kept.append(start)
            last = bounds_here
        return tuple(kept)


def terms_of(kernel: stripe.Block) -> Terms | None:
    """Return the terms of a kernel; None if it has another form, or if the analysis cannot tell."""
    output = _output(kernel)
    if output is None:
        return None
    written = {name for access in output.access for name in access.indices}
    reduced = [i for i in kernel.indices if i.name not in written and i.range > 1]
    if len(reduced) != 1:
        return None
    moving = {name for r in kernel.refinements if r is not output for a in r.access for name in a.indices}
    tied = {name for constraint in kernel.constraints for name in constraint.indices} - {reduced[0].name}
    along = [i for i in kernel.indices if i.name in written & (tied or _shifting(kernel, output, reduced[0]))]
    if len(along) != 1 or not tied <= {along[0].name} or not moving | tied:
        return None
    if not injective(output.access, {i.name: i.range for i in kernel.indices if i.name in written}, ()):
        return None
    for slant in (0, 1, -1):
        if _is_free(kernel, output, along[0], reduced[0], slant):
            others = tuple(i for i in kernel.indices if i is not along[0] and i is not reduced[0])
            bounds = _bounds(kernel, along[0], reduced[0], slant)
            return None if bounds is None else Terms(output, along[0], reduced[0], others, slant, *bounds)
    return None


def _shifting(kernel: stripe.Block, output: stripe.Refinement, reduced: stripe.Index) -> set[str]:
    """Return the indices that occur in an input access together with the reduction index."""
    accesses = [access for r in kernel.refinements if r is not output for access in r.access]
    return {name for a in accesses if reduced.name in a.indices for name in a.indices if name != reduced.name}


def running(kernel: stripe.Block) -> RunningAggregate | None:
    """Return the running aggregate of a flat kernel; None if it is none, or if the analysis cannot tell."""
    terms = terms_of(kernel)
    if terms is None or terms.low is None or terms.high is None:
        return None
    return _steps(terms, terms.low, terms.high)


def _output(kernel: stripe.Block) -> stripe.Refinement | None:
    """Return the only refinement to which a flat kernel stores, merging; None for other kernels."""
    outputs = [r for r in kernel.refinements if r.direction is not stripe.Direction.IN]
    if len(outputs) != 1 or not outputs[0].opens_scope:
        return None
    if kernel.blocks or not all(i.is_plain for i in kernel.indices):
        return None
    stores = [s for s in kernel.statements if isinstance(s, stripe.Store)]
    moves = [s for s in kernel.statements if isinstance(s, stripe.Load | stripe.Store)]
    if len(stores) != 1 or any(s.index is not None for s in moves):
        return None
    if any(isinstance(s, stripe.Special) for s in kernel.statements) or not all(map(is_element, kernel.refinements)):
        return None
    return outputs[0]


def _is_free(
    kernel: stripe.Block, output: stripe.Refinement, along: stripe.Index, reduced: stripe.Index, slant: int
) -> bool:
    """Return whether terms do not depend on ``along`` if ``reduced`` is counted from ``slant`` times it."""
    affines = [access for r in kernel.refinements if r is not output for access in r.access]
    affines.extend(s.affine for s in kernel.statements if isinstance(s, stripe.LoadIndex))
    return all(a.coefficient(along.name) + slant * a.coefficient(reduced.name) == 0 for a in affines)


def _bounds(
    kernel: stripe.Block, along: stripe.Index, reduced: stripe.Index, slant: int
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] | None:
    """Return the lower and upper bounds of terms; None if a constraint is of another kind."""
    index = Affine.index(reduced.name)
    lows: dict[tuple[int, int], None] = {}
    highs: dict[tuple[int, int], None] = {}
    for constraint in (*kernel.constraints, index, reduced.range - 1 - index):
        factor, step = (int(constraint.coefficient(name)) for name in (along.name, reduced.name))
        factor, offset = factor + slant * step, int(constraint.offset)
        if step == 1:
            lows[-factor, -offset] = None
        elif step == -1:
            highs[factor, offset] = None
        else:
            return None
    return tuple(lows), tuple(highs)


def _tightest(bounds: Sequence[tuple[int, int]], first: int, last: int, sign: int) -> tuple[int, int] | None:
    """Return the bound that implies all others from ``first`` to ``last``; None if there is none."""
    for factor, offset in bounds:
        if all(sign * (factor * x + offset - f * x - o) >= 0 for f, o in bounds for x in (first, last)):
            return factor, offset
    return None


def _steps(terms: Terms, lowest: tuple[int, int], highest: tuple[int, int]) -> RunningAggregate | None:
    """Return the steps in which the intervals grow; None if both ends move, or neither."""
    (low, first), (high, last) = lowest, highest
    if abs(high - low) != 1 or (low and high):
        return None
    # Terms are counted from the end that stays: m = fixed + pace·number. The last one of i is number reach + growth·i.
    growth = high - low
    fixed, pace = (first, 1) if high else (last, -1)
    reach = last - first
    # Step t belongs to i = t, or to the last i first, after steps whose outputs have no term at all.
    start = 0 if growth == 1 else terms.along.range - 1
    most = reach + growth * start
    skipped = max(0, -most)
    if skipped >= terms.along.range:
        return None
    return RunningAggregate(
        terms.output,
        terms.along,
        terms.reduced,
        terms.others,
        steps=terms.along.range - skipped,
        before=max(0, most),
        start=start + growth * skipped,
        direction=growth,
        term=fixed,
        pace=pace,
        slant=terms.slant,
    )
