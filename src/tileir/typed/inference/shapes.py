"""Builtin functions that move, count or reduce elements, with shape rules of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

from tileir.core import (
    Aggregation,
    Combination,
    Combine,
    DType,
    Op,
    Span,
    accumulator,
    arithmetic_type,
    contraction_types,
    fail,
    float_for,
)
from tileir.poly.affine import Affine
from tileir.tile.functions import SCATTER_LAST, SCATTERS, SIZE
from tileir.typed.dims import known_integer, size
from tileir.typed.inference.elementwise import scalar, tensor
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.values import ConstantScalar, Group, Operand, Result, Tensor
from tileir.typed.ir import (
    Access,
    Argsort,
    Contraction,
    Coordinate,
    Gather,
    Override,
    Reduce,
    Reshape,
    Scatter,
    Shape,
    ShapeOf,
)
from tileir.typed.reductions import positions_in


def _index(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    shape = scalar(operands[0]).shape
    axis = _axis(operands[1], shape)
    dtype = DType.I32 if shape[axis] <= DType.I32.maximum else DType.I64
    place = emission.add(Coordinate(emission.fresh(), axis, dtype, shape, span=span))
    reach = known_integer(operands[2], "the reach") if len(operands) > 2 else 0
    return emission.cast(place, DType.I64, span) if abs(reach) > DType.I32.maximum else place


def _axis(operand: Operand, shape: Shape) -> int:
    """Return the axis, counted from the front; a negative one counts from the end."""
    axis = known_integer(operand, "the axis")
    if not -len(shape) <= axis < len(shape):
        count = "no axes" if not shape else f"axes 0 to {len(shape) - 1}"
        raise fail("TIL314", f"the axis is {axis}, but the tensor has {count}", operand.span)
    return axis % len(shape)


def _argsort(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    keys = _with_axes(emission, operands[0])
    keys = emission.cast(keys, arithmetic_type(keys.dtype), span)
    axis = _axis(operands[1], keys.shape)
    longest = keys.shape[axis]
    descending = len(operands) > 2 and known_integer(operands[2], "whether the order descends") != 0
    count = size(operands[3], "a size") if len(operands) > 3 else longest
    if count > longest:
        raise fail("TIL310", f"{operands[0].label} has {longest} elements along axis {axis}, not {count}", span)
    dtype = DType.I32 if longest <= DType.I32.maximum else DType.I64
    shape = (*keys.shape[:axis], count, *keys.shape[axis + 1 :])
    return emission.add(Argsort(emission.fresh(), keys.name, axis, descending, dtype, shape, span=span))


def _shape(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    dims = scalar(operands[0]).shape
    dtype = DType.I32 if all(dim <= DType.I32.maximum for dim in dims) else DType.I64
    return emission.add(ShapeOf(emission.fresh(), dims, dtype, (len(dims),), span=span))


def _size(_: Emission, operands: Sequence[Operand], __: Span | None) -> Result:
    shape = scalar(operands[0]).shape
    return ConstantScalar(shape[_axis(operands[1], shape)])


def _reshape(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value = tensor(emission, operands[0])
    shape = tuple(size(operand, "a size") for operand in operands[1:])
    if math.prod(shape) != math.prod(value.shape):
        raise fail(
            "TIL310",
            f"{operands[0].label} has {math.prod(value.shape)} elements, shape {list(value.shape)}, and cannot become "
            f"{list(shape)} with {math.prod(shape)}",
            span,
        )
    if shape == value.shape:
        return value
    return emission.add(Reshape(emission.fresh(), value.name, value.dtype, shape, span=span))


def _expect_sizes(_: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Return a tensor after a check of its declared sizes."""
    value = scalar(operands[0])
    shape = tuple(size(operand, "a size") for operand in operands[1:])
    if shape != value.shape:
        told = f"{operands[0].label} has shape {list(value.shape)}, where {list(shape)} is declared"
        raise fail("TIL317", told, span)
    return value


def _gather(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    data = _with_axes(emission, operands[0])
    indices = _indices(emission, operands[1])
    shape = indices.shape + data.shape[1:]
    if data.shape[0] == 0 and math.prod(shape) > 0:
        raise fail("TIL310", f"{operands[0].label} has no elements to gather", operands[0].span)
    return emission.add(Gather(emission.fresh(), data.name, indices.name, data.dtype, shape, span=span))


def _scatter(
    how: Aggregation,
    emission: Emission,
    operands: Sequence[Operand],
    span: Span | None,
    *,
    ordered: bool = False,
) -> Result:
    updates = tensor(emission, operands[0])
    indices = _indices(emission, operands[1])
    like = scalar(operands[2])
    if not like.shape:
        raise fail("TIL305", f"{operands[2].label} has no axes; its first one gives the size", operands[2].span)
    rank = len(indices.shape)
    if updates.shape[:rank] != indices.shape:
        raise fail(
            "TIL310",
            f"{operands[0].label} has shape {list(updates.shape)}; it must begin with the shape of the indices, "
            f"{list(indices.shape)}",
            operands[0].span,
        )
    if like.shape[0] == 0 and math.prod(updates.shape) > 0:
        raise fail("TIL310", f"{operands[2].label} has no elements to scatter to", operands[2].span)
    types = contraction_types(how, Combination.NONE, [updates.dtype])
    shape, into = (like.shape[0], *updates.shape[rank:]), None
    if how is Aggregation.ASSIGN:
        rows = tensor(emission, operands[2])
        if rows.shape != shape:
            told = f"{operands[2].label} has shape {list(rows.shape)}; with rows like the updates it is {list(shape)}"
            raise fail("TIL310", told, operands[2].span)
        types, into = contraction_types(how, Combination.NONE, [rows.dtype]), rows.name
    updates = emission.cast(updates, types.result, span)
    name, dtype = emission.fresh(), updates.dtype
    return emission.add(
        Scatter(name, updates.name, indices.name, types.accumulator, dtype, shape, how, into, ordered, span=span)
    )


def _with_axes(emission: Emission, operand: Operand) -> Tensor:
    value = tensor(emission, operand)
    if not value.shape:
        raise fail("TIL305", f"{operand.label} has no axes; at least one is needed", operand.span)
    return value


def _indices(emission: Emission, operand: Operand) -> Tensor:
    """Return the indices of gather and scatter as i32 or i64; narrower integers are widened."""
    value = tensor(emission, operand)
    if value.dtype in (DType.I32, DType.I64):
        return value
    if not value.dtype.is_integer or value.dtype is DType.U64:
        raise fail(
            "TIL302",
            f"{operand.label} is {value.dtype.value}; indices are integers of any type but u64, so cast it with as_i64",
            operand.span,
        )
    return emission.cast(value, DType.I64 if value.dtype is DType.U32 else DType.I32, operand.span)


def reduce_last(emission: Emission, value: Tensor, aggregation: Aggregation, span: Span | None) -> Tensor:
    """Aggregate over the last axis, which keeps size 1."""
    shape = (*value.shape[:-1], 1)
    return reduce_to(emission, value, shape, aggregation, span)


def reduce_to(emission: Emission, value: Tensor, shape: Shape, aggregation: Aggregation, span: Span | None) -> Tensor:
    """Aggregate down to ``shape``, whose sizes are those of the trailing axes or 1."""
    source = tuple(Affine.index(f"x{axis}") for axis in range(len(value.shape)))
    skipped = len(value.shape) - len(shape)
    kept = zip(source[skipped:], shape, value.shape[skipped:], strict=True)
    output = tuple(index if size == whole else Affine() for index, size, whole in kept)
    types = contraction_types(aggregation, Combination.NONE, [value.dtype])
    return emission.add(
        Contraction(
            emission.fresh(),
            output,
            (Access(value.name, source),),
            aggregation,
            Combination.NONE,
            types.operand,
            types.accumulator,
            types.result,
            shape,
            span=span,
        )
    )


def _simple_reduce(emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    value = tensor(emission, operands[0])
    shape = tuple(size(operand, "a size") for operand in operands[1:])
    trailing = value.shape[len(value.shape) - len(shape) :] if len(shape) <= len(value.shape) else None
    if trailing is None or any(new not in (1, old) for new, old in zip(shape, trailing, strict=True)):
        raise fail(
            "TIL310",
            f"{operands[0].label} of shape {list(value.shape)} does not reduce to {list(shape)}; each size must be "
            "that of the axis, counted from the end, or 1",
            span,
        )
    return value if shape == value.shape else reduce_to(emission, value, shape, Aggregation.SUM, span)


def _reduce(combine: Combine, emission: Emission, operands: Sequence[Operand], span: Span | None) -> Result:
    """Emit the components of the state of a reduction over some axes, or all; extrema get the dtype of the elements."""
    value = tensor(emission, operands[0])
    named = [_axis(operand, value.shape) for operand in operands[1:]]
    if len(set(named)) < len(named):
        raise fail("TIL310", f"{operands[0].label} is reduced along an axis twice", span)
    axes = tuple(sorted(named)) or tuple(range(len(value.shape)))
    shape = tuple(size for axis, size in enumerate(value.shape) if axis not in axes)
    dtype = arithmetic_type(value.dtype)
    elements = emission.cast(value, combine.element(dtype), span)
    rule = combine.rule(elements.dtype, positions_in(tuple(value.shape[axis] for axis in axes)))
    parts = []
    for number, kind in enumerate(rule.state):
        part = emission.add(Reduce(emission.fresh(), combine, elements.name, axes, number, kind, shape, span=span))
        parts.append(emission.cast(part, dtype, span) if combine.is_extremum and not number else part)
    return Group(tuple(parts))


def _softmax(emission: Emission, operands: Sequence[Operand], span: Span | None, *, logarithm: bool = False) -> Result:
    """Expand softmax over the last axis, less the greatest element so that nothing overflows.

    The result does not depend on the subtracted value, so its gradient is stopped.
    """
    value = _with_axes(emission, operands[0])
    _check_sizes(operands, value.shape)
    dtype = float_for(value.dtype)
    value = emission.cast(value, accumulator(dtype), span)
    greatest = reduce_last(emission, value, Aggregation.MAX, span)
    shift = emission.add(Override(emission.fresh(), greatest.name, (), None, greatest.dtype, greatest.shape, span=span))
    shifted = emission.elementwise(Op.SUB, value, shift, span=span)
    powers = emission.elementwise(Op.EXP, shifted, span=span)
    total = reduce_last(emission, powers, Aggregation.SUM, span)
    if logarithm:
        result = emission.elementwise(Op.SUB, shifted, emission.elementwise(Op.LOG, total, span=span), span=span)
    else:
        result = emission.elementwise(Op.DIV, powers, total, span=span)
    return emission.cast(result, dtype, span)


def _check_sizes(operands: Sequence[Operand], shape: Shape) -> None:
    for operand, actual in zip(operands[1:], shape[-2:], strict=False):
        given = size(operand, "a size")
        if given != actual:
            raise fail("TIL310", f"{operand.label} is {given}, but that axis has size {actual}", operand.span)


SHAPES: Final[Mapping[str, Callable[[Emission, Sequence[Operand], Span | None], Result]]] = MappingProxyType(
    {
        "builtin_softmax": _softmax,
        "builtin_logsoftmax": partial(_softmax, logarithm=True),
        "index": _index,
        "argsort": _argsort,
        "shape": _shape,
        SIZE: _size,
        "reshape": _reshape,
        "expect_sizes": _expect_sizes,
        "gather": _gather,
        **{name: partial(_scatter, how) for name, how in SCATTERS.items()},
        SCATTER_LAST: partial(_scatter, Aggregation.ASSIGN, ordered=True),
        "simple_reduce": _simple_reduce,
        **{f"reduce_{combine.value}": partial(_reduce, combine) for combine in Combine},
    }
)
