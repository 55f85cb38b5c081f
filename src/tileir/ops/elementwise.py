"""Functions of elements: activations, arithmetic, comparisons and logic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.ops.foundation import call

if TYPE_CHECKING:
    from tileir.ops.foundation import Operand, Tensor


def relu(x: Tensor, *, alpha: Operand = 0, threshold: Operand = 0, max_value: Operand | None = None) -> Tensor:
    """Return the rectified ``x``: ``x < threshold ? alpha * (x - threshold) : x``, then at most ``max_value``.

    Shapes and dtypes: those of ``x``, broadcast with the options.
    Source: PlaidML's ``relu``, of which PyTorch's ``relu``, ``leaky_relu`` and ``relu6`` are special cases.
    """
    plain = isinstance(alpha, int | float) and alpha == 0
    if plain and isinstance(threshold, int | float) and threshold == 0:
        result = call("relu", x)
    else:
        low = 0 if plain else alpha * (x if isinstance(threshold, int | float) and threshold == 0 else x - threshold)
        result = call("cond", x < threshold, low, x)
    return result if max_value is None else call("min", result, max_value)
