"""Promotion, broadcasting and emission of elementwise operations: one function for all rows of the table."""

from __future__ import annotations

from collections.abc import Sequence

from tileir.core import (
    SHIFTS,
    Domain,
    DType,
    Op,
    Span,
    TileError,
    arithmetic_type,
    fail,
    float_for,
    promote_all,
    rounded,
)
from tileir.typed.dims import fold
from tileir.typed.inference.emission import Emission, adapt, broadcast_shape
from tileir.typed.inference.numbers import is_float, natural_dtype
from tileir.typed.inference.values import ConstantScalar, Group, Number, Operand, Scalar, Stream, Tensor
from tileir.typed.ir import Shape


def apply(emission: Emission, op: Op, operands: Sequence[Operand], span: Span | None) -> Scalar:
    """Type and emit ``op``; on constants alone, compute it; on constants and numbers, let each call compute it.

    Operands are cast to their common dtype by :func:`tileir.core.dtype.promote`, to which literals and numbers adapt.

    Raises:
        TileError: TIL301, shapes that do not broadcast; TIL302, a dtype outside the operation's domain;
            TIL303, a literal that does not fit; TIL308, a constant without a result; TIL309, not a tensor; TIL315, two
            types of storage.

    """
    values = [scalar(operand) for operand in operands]
    if op is Op.IDENT:
        return values[0]
    typed = values[1:] if op is Op.COND else values
    check_storage(
        [(operand.label, value) for operand, value in zip(operands, values, strict=True)][-len(typed) :], span
    )
    spans = [operand.span for operand in operands][len(values) - len(typed) :]
    dtype = _operand_dtype(op, common_dtype(typed), span)
    fixed = None if all(value.dtype is None for value in typed) else dtype
    known = [value for value in values if isinstance(value, ConstantScalar)]
    if len(known) == len(values):
        return folded(op, known, fixed, spans, span)
    scalars = [value for value in values if not isinstance(value, Tensor)]
    if len(scalars) == len(values):
        return emission.numbers.arithmetic(op, scalars, fixed, emission.stem, span)
    if emission.observer is not None and op.info.domain is not Domain.FLOAT:
        emission.observer.promoted(emission, typed, dtype, span)
    inputs = [_operand(emission, v, dtype, s) for v, s in zip(typed, spans, strict=True)]
    if op is Op.COND:
        inputs.insert(0, truth(emission, operands[0]))
    try:
        return emission.elementwise(op, *inputs, span=span)
    except ValueError:
        raise _mismatch(operands, values, span) from None


def folded(
    op: Op, values: Sequence[ConstantScalar], dtype: DType | None, spans: Sequence[Span | None], span: Span | None
) -> ConstantScalar:
    """Compute ``op`` on constants.

    Args:
        op: The operation.
        values: One constant for each operand.
        dtype: The dtype that operands adapt to, or None if all are without a dtype.
        spans: The operands that adapt, which are the last ones.
        span: The expression.

    Raises:
        TileError: TIL303, a value does not fit in ``dtype``; TIL308, there is no result.
    """
    if dtype is None:
        return fold(op, values, None, span)
    first = len(values) - len(spans)
    adapted = [adapt(value, dtype, place) for value, place in zip(values[first:], spans, strict=True)]
    return fold(op, [*values[:first], *adapted], dtype, span)


def scalar(operand: Operand) -> Scalar:
    """Return a value that elementwise operations accept.

    Raises:
        TileError: TIL309, ``operand`` is a tuple or a stream of random numbers.
    """
    value = operand.value
    if isinstance(value, Group):
        raise fail("TIL309", f"{operand.label} is a tuple; take a part of it with element(…, position)", operand.span)
    if isinstance(value, Stream):
        raise fail("TIL309", f"{operand.label} is a prng_step; read it with prng_value or prng_state", operand.span)
    return value


def convert(emission: Emission, value: Scalar, dtype: DType, span: Span | None) -> Scalar:
    """Return ``value`` in ``dtype``, as by a cast of the program; constants stay constants."""
    if isinstance(value, ConstantScalar):
        return ConstantScalar(rounded(value.value, dtype), dtype)
    if isinstance(value, Number):
        return emission.numbers.cast(value, dtype, emission.stem, span)
    return emission.cast(value, dtype, span)


def tensor(emission: Emission, operand: Operand) -> Tensor:
    """Return ``operand`` as a tensor; a constant becomes one of rank 0."""
    return emission.tensor(scalar(operand), operand.span)


def common_dtype(values: Sequence[Scalar]) -> DType:
    """Return the dtype in which ``values`` are computed.

    Dtypes of values that have one are promoted, left to right. Integer literals and numbers adapt to the result, and
    remain i32 or i64 beside bool; floats among them adapt to a float, and turn 64-bit integers into f64, all else into
    f32.
    """
    typed = [value.dtype for value in values if value.dtype is not None]
    result = promote_all(typed) if typed else None
    adapting = [value for value in values if not isinstance(value, Tensor) and value.dtype is None]
    if result is not None and result.is_float:
        return result
    if any(map(is_float, adapting)):
        return DType.F32 if result is None else float_for(result)
    if adapting and (result is None or result.is_bool):
        return promote_all(map(natural_dtype, adapting))
    return DType.I32 if result is None else result


def check_storage(operands: Sequence[tuple[str, Scalar]], span: Span | None) -> None:
    """Refuse operands of two storage types: only the user knows the intended type of the result.

    Raises:
        TileError: TIL315, with the first two that differ.
    """
    stored = {value.dtype: label for label, value in reversed(operands) if value.dtype and value.dtype.is_storage}
    if len(stored) > 1:
        (second, label), (first, before) = list(stored.items())[-2:]
        message = f"{before} is {first.value} and {label} is {second.value}; cast one of them to the other, or both"
        raise fail("TIL315", f"{message} to f32", span)


def truth(emission: Emission, operand: Operand) -> Tensor:
    """Return the bool tensor ``operand != 0``."""
    value = scalar(operand)
    if isinstance(value, ConstantScalar):
        return emission.constant(value.value != 0, DType.BOOL, operand.span)
    if isinstance(value, Number):
        return emission.cast(value, DType.BOOL, operand.span)
    if value.dtype.is_bool:
        return value
    value = emission.cast(value, arithmetic_type(value.dtype), operand.span)
    zero = emission.constant(0.0 if value.dtype.is_float else 0, value.dtype, operand.span)
    return emission.elementwise(Op.CMP_NE, value, zero, span=operand.span)


def _mismatch(operands: Sequence[Operand], values: Sequence[Scalar], span: Span | None) -> TileError:
    """Return an error with the first two operands whose shapes do not broadcast together."""
    rows = list(zip(operands, values, strict=True))
    left, right = next(
        (left, right)
        for position, right in enumerate(rows)
        for left in rows[:position]
        if not _broadcasts(left[1].shape, right[1].shape)
    )
    return fail(
        "TIL301",
        f"{left[0].label} of shape {list(left[1].shape)} does not go with {right[0].label} of shape "
        f"{list(right[1].shape)}; aligned at the right, two sizes must be equal, or one of them 1",
        span,
    )


def _broadcasts(*shapes: Shape) -> bool:
    try:
        broadcast_shape(shapes)
    except ValueError:
        return False
    return True


def _operand_dtype(op: Op, dtype: DType, span: Span | None) -> DType:
    """Return the dtype in which ``op`` works on operands whose common dtype is ``dtype``."""
    match op.info.domain:
        case Domain.STORED | Domain.PATTERN:
            return dtype
        case Domain.ANY:
            return arithmetic_type(dtype)
        case Domain.NUMBER:
            return DType.I32 if dtype.is_bool else arithmetic_type(dtype)
        case Domain.FLOAT:
            return float_for(dtype)
        case Domain.BITS:
            if dtype.is_float:
                raise fail("TIL302", f"{op.value} works on integers and bool, not on {dtype.value}", span)
            return DType.I32 if dtype.is_bool and op in SHIFTS else dtype


def _operand(emission: Emission, value: Scalar, dtype: DType, span: Span | None) -> Tensor:
    if isinstance(value, Tensor):
        return emission.cast(value, dtype, span)
    return emission.literal(value, dtype, span)
