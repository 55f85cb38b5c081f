"""What the special ``attend`` computes: the softmax in f32, and weights in the dtype of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.stripe.attending import Attending

if TYPE_CHECKING:
    from tileir.core.number_system import NumberSystem
    from tileir.stripe.interpret.memory import Array
    from tileir.stripe.ir import Special


def attended(
    numbers: NumberSystem, special: Special, dtype: DType, queries: Array, keys: Array, values: Array
) -> Array:
    """Return [S, E] for queries [S, D], keys [T, D] and values [T, E] of ``dtype``, in f32."""
    plan, wide = Attending.of(special), DType.F32
    rows, columns = np.ogrid[: len(queries), : len(keys)]
    seen = np.ones((len(queries), len(keys)), np.bool_)
    if plan.before is not None:
        seen &= columns >= rows - plan.before
    if plan.after is not None:
        seen &= columns <= rows + plan.after

    def constant(value: float) -> Array:
        return np.asarray(numbers.constant(value, wide))

    scores = numbers.product(queries, keys.T, wide)
    scores = numbers.apply(Op.MUL, wide, scores, constant(plan.scale))
    scores = np.where(seen, scores, constant(-np.inf))
    top = scores.max(1, keepdims=True)
    top = np.where(numbers.apply(Op.CMP_EQ, DType.BOOL, top, constant(-np.inf)), constant(0.0), top)
    powers = numbers.apply(Op.EXP, wide, numbers.apply(Op.SUB, wide, scores, top))
    weights = numbers.cast(powers, dtype)
    total = numbers.cast(weights, wide).sum(1, keepdims=True)
    if plan.zeros:
        total = np.where(numbers.apply(Op.CMP_EQ, DType.BOOL, total, constant(0.0)), constant(1.0), total)
    return numbers.apply(Op.DIV, wide, numbers.product(weights, values, wide), total)
