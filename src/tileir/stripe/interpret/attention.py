"""The specials ``attend`` and ``attend_back``, computed by NumPy as a whole: in f32, weights in the dtype of rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tileir.core import DType, Op, attrs
from tileir.core.numbers.number_system import NumberSystem
from tileir.stripe.attending import ATTEND, Attending
from tileir.stripe.interpret.memory import Array, View
from tileir.stripe.ir import Special

_WIDE = DType.F32


def attend(special: Special, views: Mapping[str, View]) -> None:
    """Execute a special whose views are matrices, by the axes that have several elements."""
    given = [views[name].loaded(name) for name in special.inputs]
    inputs = [array.reshape([size for size in array.shape if size > 1]) for array in given]
    numbers, dtype = views[special.outputs[0]].memory.numbers, views[special.inputs[0]].shape.dtype
    found = (_attended if special.name == ATTEND else _attended_back)(numbers, special, dtype, *inputs)
    for name, result in zip(special.outputs, found, strict=False):
        shape = views[name].shape
        views[name].fill(name, numbers.cast(result, shape.dtype).reshape(shape.sizes))


def _attended(
    numbers: NumberSystem, special: Special, dtype: DType, queries: Array, keys: Array, values: Array
) -> tuple[Array, Array]:
    """Return [S, E] for queries [S, D], keys [T, D] and values [T, E] of ``dtype``, and [S] logarithms; or of parts."""
    plan = Attending.of(special)
    if plan.parts is not None:
        share, whole = plan.share(len(keys)), attrs.evolve(plan, parts=None)
        starts = range(0, len(keys), share)
        pairs = [
            _sums(numbers, whole, dtype, queries, keys[start : start + share], values[start : start + share], part=True)
            for start in starts
        ]
        return np.stack([result for result, _ in pairs]), np.stack([logs for _, logs in pairs])
    return _sums(numbers, plan, dtype, queries, keys, values)


def _sums(
    numbers: NumberSystem,
    plan: Attending,
    dtype: DType,
    queries: Array,
    keys: Array,
    values: Array,
    *,
    part: bool = False,
) -> tuple[Array, Array]:
    """Return results and logarithms; in a ``part`` of which a query sees nothing they are 0 and minus infinity."""

    def constant(value: float) -> Array:
        return np.asarray(numbers.constant(value, _WIDE))

    scores = _scores(numbers, plan, queries, keys)
    top = scores.max(1, keepdims=True)
    top = np.where(numbers.apply(Op.CMP_EQ, DType.BOOL, top, constant(-np.inf)), constant(0.0), top)
    powers = numbers.apply(Op.EXP, _WIDE, numbers.apply(Op.SUB, _WIDE, scores, top))
    weights = numbers.cast(powers, dtype)
    total = numbers.cast(weights, _WIDE).sum(1, keepdims=True)
    logs = numbers.apply(Op.ADD, _WIDE, numbers.apply(Op.LOG, _WIDE, total), top)
    logs = numbers.apply(Op.MUL, _WIDE, logs, constant(1.0 / np.log(2.0)))
    if plan.zeros or part:
        blind = numbers.apply(Op.CMP_EQ, DType.BOOL, total, constant(0.0))
        total, logs = np.where(blind, constant(1.0), total), logs if part else np.where(blind, constant(np.inf), logs)
    return numbers.apply(Op.DIV, _WIDE, numbers.product(weights, values, _WIDE), total), logs


def _attended_back(
    numbers: NumberSystem,
    special: Special,
    dtype: DType,
    rows: Array,
    beside: Array,
    columns: Array,
    others: Array,
    logs: Array,
    dots: Array,
) -> list[Array]:
    """Return [R, D] for rows [R, D] and [R, E], columns [..., C, D] and [..., C, E]; and perhaps [R, E]."""
    plan, two = Attending.of(special), len(special.outputs) == 2
    sums: list[Array] = []
    heads = range(columns.shape[0]) if columns.ndim > 2 else [()]
    for head in heads:
        # Numbers of rows stand in a column beside scores, those of columns in a row.
        log, dot = (numbers_of[head][None, :] if two else numbers_of[:, None] for numbers_of in (logs, dots))
        least = numbers.apply(Op.MUL, _WIDE, log, np.asarray(numbers.constant(np.log(2.0), _WIDE)))
        exponents = numbers.apply(Op.SUB, _WIDE, _scores(numbers, plan, rows, columns[head]), least)
        weights = numbers.apply(Op.EXP, _WIDE, exponents)
        change = numbers.apply(Op.SUB, _WIDE, numbers.product(beside, others[head].T, _WIDE), dot)
        changes = numbers.cast(numbers.apply(Op.MUL, _WIDE, weights, change), dtype)
        scale = np.asarray(numbers.constant(plan.scale, _WIDE))
        made = [numbers.apply(Op.MUL, _WIDE, numbers.product(changes, columns[head], _WIDE), scale)]
        if two:
            made.append(numbers.product(numbers.cast(weights, dtype), others[head], _WIDE))
        sums = [numbers.apply(Op.ADD, _WIDE, a, b) for a, b in zip(sums, made, strict=True)] if sums else made
    return sums


def _scores(numbers: NumberSystem, plan: Attending, rows: Array, columns: Array) -> Array:
    """Return scaled products of rows and columns, masked where a row does not see a column."""
    row, column = np.ogrid[: len(rows), : len(columns)]
    seen = np.ones((len(rows), len(columns)), np.bool_)
    if plan.before is not None:
        seen &= column >= row - plan.before
    if plan.after is not None:
        seen &= column <= row + plan.after
    hidden = -np.inf if plan.hidden is None else plan.hidden
    scale, more = (np.asarray(numbers.constant(value, _WIDE)) for value in (plan.scale, hidden))
    scores = numbers.apply(Op.MUL, _WIDE, numbers.product(rows, columns.T, _WIDE), scale)
    return np.where(seen, scores, more if plan.hidden is None else numbers.apply(Op.ADD, _WIDE, scores, more))
