"""Numbers among the arguments during inference: arithmetic on them is left to each call.

Like a literal, a Python number has no dtype. Where it or a value computed from it meets a tensor, it becomes an input
of the typed function, one for each dtype that it adapts to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Final

import attrs

from tileir.core import Domain, DType, NameScope, Op, Span, fits, float_for, needed, promote_all, reached
from tileir.tile import ir as tile
from tileir.typed.inference.values import ConstantScalar, Number, Scalar, Tensor
from tileir.typed.ir import (
    Function,
    NumberArithmetic,
    NumberCast,
    NumberLiteral,
    NumberStep,
    TensorType,
    Value,
    step_inputs,
)

_INTEGERS: Final = (DType.I32, DType.I64, DType.U64)


def number_type(value: bool | int | float) -> TensorType | None:
    """Return the kind of a Python number; None for an integer that no dtype holds."""
    if isinstance(value, bool):
        return TensorType(DType.BOOL, (), weak=True)
    if isinstance(value, float):
        return TensorType(DType.F64, (), weak=True)
    dtype = next((dtype for dtype in _INTEGERS if fits(value, dtype)), None)
    return None if dtype is None else TensorType(dtype, (), weak=True)


def number_of(name: str, kind: TensorType) -> Number:
    """Return the number passed as the argument ``name``; bool is a dtype of its own, as in constants."""
    return Number(name, kind.dtype, kind.dtype if kind.dtype.is_bool else None)


def natural_dtype(value: ConstantScalar | Number) -> DType:
    """Return the dtype if no other operand determines it: i32, i64 if needed, or f32."""
    if value.dtype is not None:
        return value.dtype
    if isinstance(value, Number):
        return DType.F32 if value.natural.is_float else value.natural
    if isinstance(value.value, float):
        return DType.F32
    return DType.I32 if fits(value.value, DType.I32) else DType.I64


def is_float(value: ConstantScalar | Number) -> bool:
    """Return whether a scalar adapts as a float literal does, or has a float dtype."""
    if value.dtype is not None:
        return value.dtype.is_float
    return value.natural.is_float if isinstance(value, Number) else isinstance(value.value, float)


@attrs.define(eq=False, repr=False)
class Numbers:
    """The numbers of one inference.

    Attributes:
        names: Names in use.
        steps: The steps of each call, in order, by name.
        inputs: Inputs for numbers that meet tensors, by name.
    """

    names: NameScope
    steps: dict[str, NumberStep] = attrs.field(factory=dict, init=False)
    inputs: dict[str, Value] = attrs.field(factory=dict, init=False)
    _literals: dict[tuple[DType | None, str], str] = attrs.field(factory=dict, init=False)
    _inputs: dict[tuple[str, DType], Tensor] = attrs.field(factory=dict, init=False)
    _casts: dict[tuple[str, DType], Number] = attrs.field(factory=dict, init=False)

    def arithmetic(
        self, op: Op, values: Sequence[ConstantScalar | Number], dtype: DType | None, stem: str, span: Span | None
    ) -> Number:
        """Return the result of ``op`` on numbers and constants.

        Args:
            op: The operation; the operands are in its domain.
            values: At least one of them is a number.
            dtype: The dtype of the operands, or None if all adapt.
            stem: The stem of the result's name.
            span: The expression, for errors.
        """
        names = tuple(self._name(value, stem) for value in values)
        step = NumberArithmetic(self.names.fresh(stem), op, names, dtype, span=span)
        self.steps[step.name] = step
        if op.info.compares:
            return Number(step.name, DType.BOOL, DType.BOOL)
        if dtype is not None:
            return Number(step.name, dtype, dtype)
        parts = values[1:] if op is Op.COND else values
        if op.info.domain is Domain.FLOAT or any(map(is_float, parts)):
            return Number(step.name, DType.F64)
        return Number(step.name, promote_all(map(natural_dtype, parts)))

    def cast(self, value: Number, dtype: DType, stem: str, span: Span | None) -> Number:
        """Return ``value`` converted to ``dtype``, even if it does not fit."""
        found = self._casts.get((value.name, dtype))
        if found is None:
            step = NumberCast(self.names.fresh(stem), value.name, dtype, span=span)
            self.steps[step.name] = step
            found = self._casts[value.name, dtype] = Number(step.name, dtype, dtype)
        return found

    def input(self, value: Number, dtype: DType, span: Span | None) -> tuple[Tensor, Value | None]:
        """Return the input for ``value`` in ``dtype``, and its declaration if it is new."""
        found = self._inputs.get((value.name, dtype))
        if found is not None:
            return found, None
        taken = value.name in self.inputs or value.name in self.steps
        name = self.names.fresh(value.name) if taken else value.name
        declared = self.inputs[name] = Value(name, dtype, (), value.name, span=span)
        found = self._inputs[value.name, dtype] = Tensor(name, dtype, ())
        return found, declared

    def arguments(self, value: Number) -> frozenset[str]:
        """Return the arguments from which ``value`` is computed."""
        made = reached((value.name,), lambda name: step_inputs(self.steps[name]) if name in self.steps else ())
        return frozenset(made - self.steps.keys())

    def needed(self) -> tuple[NumberStep, ...]:
        """Return the steps on which inputs depend."""
        numbers = [value.number for value in self.inputs.values() if value.number is not None]
        return tuple(needed(self.steps.values(), numbers, attrgetter("name"), step_inputs))

    def _name(self, value: ConstantScalar | Number, stem: str) -> str:
        if isinstance(value, Number):
            return value.name
        key = (value.dtype, repr(value.value))
        name = self._literals.get(key)
        if name is None:
            name = self._literals[key] = self.names.fresh(stem)
            self.steps[name] = NumberLiteral(name, value.value, value.dtype)
        return name


def replayed(
    function: Function,
    arguments: Mapping[str, Scalar],
    apply: Callable[[Op, Sequence[Scalar]], Scalar],
    cast: Callable[[Scalar, DType], Scalar],
) -> dict[str, Scalar]:
    """Return the numbers of ``function`` as values of a function around it, which passes ``arguments``."""
    values = dict(arguments)
    for step in function.numbers:
        match step:
            case NumberLiteral(value=value, dtype=dtype):
                values[step.name] = ConstantScalar(value, dtype)
            case NumberCast(input=source, dtype=dtype):
                values[step.name] = cast(values[source], dtype)
            case NumberArithmetic(op=op, inputs=inputs):
                values[step.name] = apply(op, [values[name] for name in inputs])
    return values


def as_tensors(
    function: tile.Function, types: Mapping[str, TensorType], names: Collection[str]
) -> dict[str, TensorType]:
    """Return types in which the numbers called ``names`` are tensors, so that derivatives with respect to them exist.

    A declared dtype is used as it is. Other floats get the widest float dtype of the tensors; without one f32, or f64
    beside integers of 64 bits.
    """
    declared = {each.name: each.dtype for each in function.inputs}
    strong = [kind.dtype for kind in types.values() if not kind.weak]
    floats = [dtype for dtype in strong if dtype.is_float]
    widest = float_for(promote_all(floats or strong)) if strong else DType.F32
    return {
        name: TensorType(declared.get(name) or _strong(kind, widest), ()) if name in names else kind
        for name, kind in types.items()
    }


def _strong(kind: TensorType, widest: DType) -> DType:
    return widest if kind.dtype.is_float else kind.dtype
