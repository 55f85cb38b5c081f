"""Operators over axes: sums and extrema, their positions, sorting, running sums, softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from tileir import DType, ops
from tileir.tile.builder import Tensor
from tileir_onnx.graph import Array
from tileir_onnx.importing import Call
from tileir_onnx.rows.arguments import axes_of, like, wide
from tileir_onnx.rows.table import row

Reduction: TypeAlias = Callable[[Tensor, Any, bool], Tensor]


def _precise(x: Tensor) -> Tensor:
    """Return a tensor whose floats represent integers exactly."""
    return wide(x) if x.dtype.is_float else ops.cast(x, DType.F64)


def _least(dtype: DType) -> float:
    """Return the maximum of no elements."""
    return -math.inf if dtype.is_float else 0 if dtype.is_bool else int(np.iinfo(dtype.numpy).min)


def _greatest(dtype: DType) -> float:
    """Return the minimum of no elements."""
    return math.inf if dtype.is_float else 1 if dtype.is_bool else int(np.iinfo(dtype.numpy).max)


_REDUCTIONS: Final[dict[str, Reduction]] = {
    "ReduceL1": lambda x, axes, keep: ops.sum(ops.abs(x), axes, keepdims=keep),
    "ReduceL2": lambda x, axes, keep: ops.norm(_precise(x), axes, keepdims=keep),
    "ReduceLogSum": lambda x, axes, keep: ops.log(ops.sum(_precise(x), axes, keepdims=keep)),
    "ReduceLogSumExp": lambda x, axes, keep: ops.logsumexp(_precise(x), axes, keepdims=keep),
    "ReduceMax": lambda x, axes, keep: ops.max(x, axes, keepdims=keep, empty=_least(x.dtype)),
    "ReduceMean": lambda x, axes, keep: ops.mean(_precise(x), axes, keepdims=keep),
    "ReduceMin": lambda x, axes, keep: ops.min(x, axes, keepdims=keep, empty=_greatest(x.dtype)),
    "ReduceProd": lambda x, axes, keep: ops.prod(x, axes, keepdims=keep),
    "ReduceSum": lambda x, axes, keep: ops.sum(x, axes, keepdims=keep),
    "ReduceSumSquare": lambda x, axes, keep: ops.sum(wide(x) * wide(x), axes, keepdims=keep),
}


def _entered(name: str, reduction: Reduction, since: int) -> None:
    """Enter the rows of a reduction; its axes are an attribute before opset ``since``."""

    def old(call: Call, x: Tensor, *, axes: Sequence[int] | None = None, keepdims: int = 1) -> Tensor:
        return like(reduction(x, axes_of(axes), bool(keepdims)), x)

    def new(
        call: Call, x: Tensor, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        chosen = axes_of(axes) or ([] if noop_with_empty_axes else None)
        return like(reduction(x, chosen, bool(keepdims)), x)

    row(name, until=since)(old)
    row(name, since=since, known=("axes",))(new)


for _name, _reduction in _REDUCTIONS.items():
    _entered(_name, _reduction, 13 if _name == "ReduceSum" else 18)


@row("ArgMax")
def arg_max(call: Call, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    ties = "last" if select_last_index else "first"
    return ops.cast(ops.argmax(x, axis, keepdims=bool(keepdims), ties=ties), DType.I64)


@row("ArgMin")
def arg_min(call: Call, x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    ties = "last" if select_last_index else "first"
    return ops.cast(ops.argmin(x, axis, keepdims=bool(keepdims), ties=ties), DType.I64)


@row("TopK", until=10)
def top_k_before_10(call: Call, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _top_k(x, k, axis, True)


@row("TopK", since=10, known=("k",))
def top_k(
    call: Call,
    x: Tensor,
    k: Array,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,  # noqa: A002  ONNX's name
) -> tuple[Tensor, Tensor]:
    """Return the greatest elements, always in order."""
    return _top_k(x, int(k.reshape(())), axis, bool(largest))


def _top_k(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    if k == 0:
        none = ops.narrow(x, axis, 0, 0)
        return none, ops.cast(none, DType.I64)
    values, places = ops.top_k(x, k, axis, largest=largest)
    return values, ops.cast(places, DType.I64)


@row("Softmax", until=13)
def softmax_before_13(call: Call, x: Tensor, *, axis: int = 1) -> Tensor:
    return ops.softmax(x, _from(x, axis))


@row("Softmax", since=13)
def softmax(call: Call, x: Tensor, *, axis: int = -1) -> Tensor:
    return ops.softmax(x, axis)


@row("LogSoftmax", until=13)
def log_softmax_before_13(call: Call, x: Tensor, *, axis: int = 1) -> Tensor:
    return ops.log_softmax(x, _from(x, axis))


@row("LogSoftmax", since=13)
def log_softmax(call: Call, x: Tensor, *, axis: int = -1) -> Tensor:
    return ops.log_softmax(x, axis)


@row("Hardmax", until=13)
def hardmax_before_13(call: Call, x: Tensor, *, axis: int = 1) -> Tensor:
    first = _from(x, axis)[0] if _from(x, axis) else x.rank
    rows = ops.reshape(x, *x.shape[:first], math.prod(x.shape[first:]))
    return ops.reshape(ops.hardmax(rows, -1), *x.shape)


@row("Hardmax", since=13)
def hardmax(call: Call, x: Tensor, *, axis: int = -1) -> Tensor:
    return ops.hardmax(x, axis)


def _from(x: Tensor, axis: int) -> list[int]:
    """Return an axis and all later axes, which were one axis before opset 13."""
    return list(range(axis + x.rank * (axis < 0), x.rank))


@row("CumSum", known=("axis",))
def cumsum(call: Call, x: Tensor, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return like(ops.cumsum(x, int(axis.reshape(())), exclusive=bool(exclusive), reverse=bool(reverse)), x)


@row("CumProd", known=("axis",))
def cumprod(call: Call, x: Tensor, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    return like(ops.cumprod(x, int(axis.reshape(())), exclusive=bool(exclusive), reverse=bool(reverse)), x)
