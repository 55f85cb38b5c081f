"""Table of tuple reductions: reductions whose state has several scalars, as data that all stages share.

A :class:`Combine` has a *state*, a tuple of scalars with an identity; a *step*, which adds an element that follows
all others of the state, and its position; and a *merge* of two states. Both are lists of scalar operations. Merging
is associative and commutative up to rounding, and a step equals a merge with the state of one element, so that lanes,
threads and parts of a long axis may each reduce their elements in order.

- Tile has a function for each, ``reduce_argmax(X, axes…)``, which returns the components of the state as a tuple.
- A typed :class:`tileir.typed.ir.Reduce` is one component; equal reductions run once.
- A Stripe kernel has an accumulator for each component, and a block over the reduced axes with ``serial`` indices,
  whose statements are a step. :attr:`tileir.stripe.blocks.Block.reduction` names the combine and the accumulators, by
  which the pass ``combine`` regroups it.

Sources: Welford, "Note on a method for calculating corrected sums of squares and products" (1962); Chan, Golub and
LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979); Milakov and Gimelshein,
"Online normalizer calculation for softmax" (2018).
"""

from __future__ import annotations

import enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tileir.core.dtype import DType, accumulator, float_for
from tileir.core.nodes import attrs
from tileir.core.ops import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.core.numbers.number_system import NumberSystem

Array: TypeAlias = np.ndarray[Any, Any]


class Combine(enum.Enum):
    """A tuple reduction; the value is its name in every textual form, after ``reduce_``.

    The arguments of extrema are the greatest or least element and the position of the first one, or the last one, in
    row-major order of the axes. NaN counts as greater, or less, than any number. Moments are the number of elements,
    their mean, and the sum of squared distances from that. The state of ``logsumexp`` is the greatest element ``m``,
    and the sum of ``exp(x - m)``.
    """

    ARGMAX = "argmax"
    ARGMIN = "argmin"
    LAST_ARGMAX = "last_argmax"
    LAST_ARGMIN = "last_argmin"
    MOMENTS = "moments"
    LOGSUMEXP = "logsumexp"

    __hash__ = object.__hash__

    @property
    def components(self) -> int:
        """Number of scalars of a state."""
        return 3 if self is Combine.MOMENTS else 2

    @property
    def is_extremum(self) -> bool:
        """True if the state is an element and its position."""
        return self in _EXTREMA

    def rule(self, dtype: DType, positions: DType) -> Rule:
        """Return the rule for elements of ``dtype``, with positions of dtype ``positions``: i32 or i64."""
        return _rule(self, dtype, positions)

    def element(self, dtype: DType) -> DType:
        """Return the dtype to which elements of ``dtype`` are cast before they are reduced."""
        if self.is_extremum:
            return accumulator(dtype) if dtype.is_float else dtype
        return accumulator(float_for(dtype))


@attrs.frozen(cache_hash=True)
class ScalarStep:
    """One scalar operation: ``op`` on earlier scalars, by number; without one, the constant ``value``."""

    op: Op | None
    inputs: tuple[int, ...]
    dtype: DType
    value: bool | int | float | None = attrs.field(default=None, eq=repr)


@attrs.frozen(cache_hash=True)
class ScalarProgram:
    """Scalar operations on some inputs, which are numbered first; ``outputs`` are scalars by number."""

    inputs: tuple[DType, ...]
    steps: tuple[ScalarStep, ...]
    outputs: tuple[int, ...]

    def run(self, numbers: NumberSystem, *inputs: Array) -> tuple[Array, ...]:
        """Return the outputs for arrays that broadcast."""
        values = list(inputs)
        for step in self.steps:
            if step.op is None:
                assert step.value is not None
                values.append(numbers.constant(step.value, step.dtype))
            else:
                values.append(numbers.apply(step.op, step.dtype, *(values[number] for number in step.inputs)))
        return tuple(values[number] for number in self.outputs)


@attrs.frozen(cache_hash=True)
class Rule:
    """A combine of one dtype.

    Attributes:
        state: The dtype of each component.
        identity: The state of no elements.
        step: From state, element and position to the state with this element, which follows the others.
        merge: From two states to that of all their elements.
    """

    state: tuple[DType, ...]
    identity: tuple[bool | int | float, ...] = attrs.field(eq=repr)
    step: ScalarProgram
    merge: ScalarProgram


def state_rule(combine: Combine, state: Sequence[np.dtype[Any]]) -> Rule:
    """Return the rule that merges states whose components have some dtypes of NumPy."""
    dtypes = [found for dtype in state if (found := DType.of(dtype)) is not None]
    return combine.rule(dtypes[0], dtypes[1] if combine.is_extremum else DType.I32)


def reduce_elements(rule: Rule, elements: Array, positions: Array, numbers: NumberSystem) -> tuple[Array, ...]:
    """Return the state of all elements along the first axis, neighbours merged first: the definition of a combine."""
    identity = [numbers.constant(value, dtype) for value, dtype in zip(rule.identity, rule.state, strict=True)]
    shape = elements.shape[1:]
    if not len(elements):
        return tuple(np.broadcast_to(value, shape) for value in identity)
    made = rule.step.run(numbers, *identity, elements, positions)
    states = [np.broadcast_to(each, elements.shape) for each in made]
    while (count := len(states[0])) > 1:
        pairs = count // 2 * 2
        merged = rule.merge.run(numbers, *(s[0:pairs:2] for s in states), *(s[1:pairs:2] for s in states))
        states = [np.concatenate([new, old[pairs:]]) for new, old in zip(merged, states, strict=True)]
    return tuple(state[0] for state in states)


@attrs.define(eq=False, repr=False)
class _Draft:
    """A scalar program while it is written."""

    inputs: tuple[DType, ...]
    steps: list[ScalarStep] = attrs.field(factory=list)

    def __call__(self, op: Op, *inputs: int) -> int:
        typed = self._dtype(inputs[-1])
        self.steps.append(ScalarStep(op, inputs, DType.BOOL if op.info.compares else typed))
        return len(self.inputs) + len(self.steps) - 1

    def constant(self, value: float, like: int) -> int:
        self.steps.append(ScalarStep(None, (), self._dtype(like), value))
        return len(self.inputs) + len(self.steps) - 1

    def is_nan(self, value: int) -> int:
        return self(Op.CMP_NE, value, value)

    def program(self, *outputs: int) -> ScalarProgram:
        return ScalarProgram(self.inputs, tuple(self.steps), outputs)

    def _dtype(self, number: int) -> DType:
        count = len(self.inputs)
        return self.inputs[number] if number < count else self.steps[number - count].dtype


@cache
def _rule(combine: Combine, dtype: DType, positions: DType) -> Rule:
    if combine.is_extremum:
        return _extremum(combine, dtype, positions)
    return (_moments if combine is Combine.MOMENTS else _logsumexp)(dtype, positions)


_EXTREMA: Final = {
    # the extremum; tests that the second operand is no better, or worse; whether the last one wins
    Combine.ARGMAX: (max, Op.CMP_LE, Op.CMP_LT, False),
    Combine.ARGMIN: (min, Op.CMP_GE, Op.CMP_GT, False),
    Combine.LAST_ARGMAX: (max, Op.CMP_LE, Op.CMP_LT, True),
    Combine.LAST_ARGMIN: (min, Op.CMP_GE, Op.CMP_GT, True),
}


def _extremum(combine: Combine, dtype: DType, positions: DType) -> Rule:
    """Return a rule whose identity is at position 0, like the first element if all are as bad as the identity."""
    extremum, no_better, worse, last = _EXTREMA[combine]
    worst = dtype.minimum if extremum is max else dtype.maximum
    state = (dtype, positions)

    def chosen(draft: _Draft, take: int, new: tuple[int, int]) -> ScalarProgram:
        return draft.program(draft(Op.COND, take, new[0], 0), draft(Op.COND, take, new[1], 1))

    step = _Draft((*state, dtype, positions))
    take = step(Op.BIT_NOT, step(worse if last else no_better, 2, 0))
    if dtype.is_float:
        take = step(Op.BIT_AND, take, step(Op.CMP_EQ, 0, 0))
        take = step(Op.BIT_OR, take, step.is_nan(2)) if last else take
    merge = _Draft((*state, *state))
    better = merge(Op.BIT_NOT, merge(no_better, 2, 0))
    same = merge(Op.CMP_EQ, 2, 0)
    if dtype.is_float:
        better = merge(Op.BIT_AND, better, merge(Op.CMP_EQ, 0, 0))
        same = merge(Op.BIT_OR, same, merge(Op.BIT_AND, merge.is_nan(2), merge.is_nan(0)))
    same = merge(Op.BIT_AND, same, merge(Op.CMP_GT if last else Op.CMP_LT, 3, 1))
    either = merge(Op.BIT_OR, better, same)
    return Rule(state, (dtype.typed(worst), 0), chosen(step, take, (2, 3)), chosen(merge, either, (2, 3)))


def _moments(dtype: DType, positions: DType) -> Rule:
    state = (dtype, dtype, dtype)
    step = _Draft((*state, dtype, positions))
    count = step(Op.ADD, 0, step.constant(1.0, 0))
    distance = step(Op.SUB, 3, 1)
    mean = step(Op.ADD, 1, step(Op.DIV, distance, count))
    squares = step(Op.ADD, 2, step(Op.MUL, distance, step(Op.SUB, 3, mean)))
    merge = _Draft((*state, *state))
    total = merge(Op.ADD, 0, 3)
    weight = merge(Op.DIV, 3, merge(Op.MAX, total, merge.constant(1.0, 0)))
    apart = merge(Op.SUB, 4, 1)
    shift = merge(Op.MUL, apart, weight)
    middle = merge(Op.ADD, 1, shift)
    between = merge(Op.MUL, merge(Op.MUL, apart, shift), 0)
    spread = merge(Op.ADD, merge(Op.ADD, 2, 5), between)
    zeros = (0.0, 0.0, 0.0)
    return Rule(state, zeros, step.program(count, mean, squares), merge.program(total, middle, spread))


def _logsumexp(dtype: DType, positions: DType) -> Rule:
    """Return a rule with one exponential an element: the smaller sum is scaled."""
    state = (dtype, dtype)

    def scaled(draft: _Draft, new: int) -> tuple[int, int]:
        """Return the factor for the sum of the lesser maximum, and whether that is the old one."""
        apart = draft(Op.NEG, draft(Op.ABS, draft(Op.SUB, new, 0)))
        same = draft(Op.CMP_EQ, new, 0)  # infinities have no difference
        factor = draft(Op.COND, same, draft.constant(1.0, 0), draft(Op.EXP, apart))
        return factor, draft(Op.CMP_GT, new, 0)

    def taken(draft: _Draft, new: int, added: Callable[[_Draft, int], int], one: int) -> ScalarProgram:
        factor, grows = scaled(draft, new)
        shrunk = draft(Op.ADD, draft(Op.MUL, 1, factor), one)
        kept = draft(Op.ADD, 1, added(draft, factor))
        return draft.program(draft(Op.MAX, 0, new), draft(Op.COND, grows, shrunk, kept))

    step = _Draft((*state, dtype, positions))
    merge = _Draft((*state, *state))
    return Rule(
        state,
        (float(dtype.minimum), 0.0),
        taken(step, 2, lambda _, factor: factor, step.constant(1.0, 0)),
        taken(merge, 2, lambda draft, factor: draft(Op.MUL, 3, factor), 3),
    )
