"""Error bounds of the results of a program: a running error analysis over its typed operations.

Each value gets a bound of the distance between its exact value and what any conforming device computes, element by
element (Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3, with first-order terms kept whole):

- what is exact by construction has bound 0, and so have programs without mathematical functions;
- a function of the table of ulp bounds adds that many units in the last place of its result, and carries the error
  of its operand on with its greatest slope;
- sums and products carry errors on as mathematics has it, and add half a unit for their own rounding;
- a contraction of n terms adds n units of its accumulator, scaled by the sum of the terms' sizes: any order, and
  fused or separate multiplication, stay within that.

Two devices, or a device and the interpreter, differ by at most twice the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import numpy as np

from tileir.core import Aggregation, Combination, Domain, DType, Op, attrs, dtype_of
from tileir.typed import ir as typed
from tileir.typed.interpreter import interpret
from tileir_testing.generated.exact import rough_values
from tileir_testing.values import bound

Array = np.ndarray[Any, np.dtype[Any]]

STEEPEST: Final = 1.13
"""The greatest slope of the functions that generated programs apply to inexact values: that of erf at 0."""


def differences(function: typed.Function, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return, for each output, how far two right implementations may be apart at each element; f64.

    Infinite where nothing can be said, because infinities meet inexact values.
    """
    everything = attrs.evolve(function, outputs=tuple(operation.name for operation in function.operations))
    values = {**inputs, **interpret(everything, inputs)}
    rough = rough_values(function) or set()
    analysis = _Analysis(values)
    for operation in function.operations:
        if operation.name in rough:
            with np.errstate(all="ignore"):
                error = np.broadcast_to(analysis.error(operation), values[operation.name].shape)
            analysis.errors[operation.name] = np.where(np.isnan(error), np.inf, error)
    return {name: 2.0 * analysis.of(name) for name in function.outputs}


@attrs.frozen(repr=False)
class _Analysis:
    """The values of a program, and the errors of those that are inexact."""

    values: Mapping[str, Array]
    errors: dict[str, Array] = attrs.field(factory=dict)

    def of(self, name: str) -> Array:
        """Return the error of a value."""
        return self.errors[name] if name in self.errors else np.zeros(self.values[name].shape)

    def size(self, name: str) -> Array:
        """Return a bound of a value's size, error included."""
        return np.asarray(np.abs(self.values[name].astype(np.float64)) + self.of(name))

    def error(self, operation: typed.Operation) -> Array:
        """Return the error of the result of an operation."""
        match operation:
            case typed.Elementwise():
                return self._elementwise(operation)
            case typed.Cast(input=name, dtype=dtype):
                return self.of(name) + _rounding(self.size(name), dtype)
            case typed.Contraction():
                return self._contraction(operation)
            case typed.Scatter():
                return self._scatter(operation)
            case typed.Gather(data=data) | typed.Reshape(input=data):
                return _run(attrs.evolve(operation, dtype=DType.F64), {**self.values, data: self.of(data)})
            case typed.Constant() | typed.ArrayConstant() | typed.Coordinate() | typed.ShapeOf() | typed.Argsort():
                return np.zeros(())
            case (
                typed.Reduce()
                | typed.Scan()
                | typed.Override()
                | typed.Upstream()
                | typed.Checkpoint()
                | typed.Recall()
                | typed.Collective()
            ):
                # generated programs have none of these
                return np.asarray(np.inf)
            case _:
                assert_never(operation)

    def _elementwise(self, operation: typed.Elementwise) -> Array:
        names, op = operation.inputs, operation.op
        errors, sizes = [self.of(name) for name in names], [self.size(name) for name in names]
        result = np.abs(self.values[operation.name].astype(np.float64))
        if op.info.domain is Domain.FLOAT:
            carried = STEEPEST * np.sum(np.broadcast_arrays(*errors), axis=0)
            units = bound(op, operation.dtype) + 0.5
            return np.asarray(carried + 2.0 * units * _rounding(result + carried, operation.dtype))
        match op:
            case Op.ADD | Op.SUB:
                carried = errors[0] + errors[1]
            case Op.MUL:
                carried = sizes[0] * errors[1] + sizes[1] * errors[0]
            case Op.MAX | Op.MIN:
                return np.maximum(errors[0], errors[1])
            case Op.COND:
                return np.where(self.values[names[0]], errors[1], errors[2])
            case _:  # NEG, ABS and IDENT; others do not get inexact operands
                return errors[0]
        return np.asarray(carried + _rounding(result + carried, operation.dtype))

    def _contraction(self, operation: typed.Contraction) -> Array:
        """Sum up the errors of all terms, which bounds the error of their maximum as well."""
        names = [access.tensor for access in operation.inputs]
        wide = attrs.evolve(
            operation, aggregation=Aggregation.SUM, operand_dtype=DType.F64, accumulator=DType.F64, dtype=DType.F64
        )
        no_default = {} if operation.default is None else {operation.default: np.zeros(operation.shape)}

        def total(*operands: Array) -> Array:
            return _run(_renamed(wide), {**_numbered(operands), "default": np.zeros(operation.shape), **no_default})

        sizes, errors = [self.size(name) for name in names], [self.of(name) for name in names]
        if operation.combination is Combination.MUL:
            carried = total(sizes[0], errors[1]) + total(errors[0], sizes[1])
        else:
            carried = total(*errors)
        terms = total(*[np.ones_like(size) for size in sizes])
        rounding = (terms + 2.0) * _unit(operation.accumulator) * total(*sizes)
        result = carried + rounding + _rounding(total(*sizes), operation.dtype)
        if operation.default is not None:
            return np.maximum(result, self.of(operation.default))
        return result

    def _scatter(self, operation: typed.Scatter) -> Array:
        wide = attrs.evolve(operation, accumulator=DType.F64, dtype=DType.F64)

        def total(updates: Array) -> Array:
            return _run(wide, {**self.values, operation.updates: updates})

        size = self.size(operation.updates)
        rounding = (total(np.ones_like(size)) + 2.0) * _unit(operation.accumulator) * total(size)
        return total(self.of(operation.updates)) + rounding + _rounding(total(size), operation.dtype)


def _renamed(operation: typed.Contraction) -> typed.Contraction:
    """Give each input a name of its own: one tensor may stand for two operands with different errors."""
    accesses = tuple(attrs.evolve(access, tensor=f"operand{n}") for n, access in enumerate(operation.inputs))
    return attrs.evolve(operation, inputs=accesses, default=None if operation.default is None else "default")


def _numbered(operands: tuple[Array, ...]) -> dict[str, Array]:
    return {f"operand{number}": operand for number, operand in enumerate(operands)}


def _run(operation: typed.Operation, values: Mapping[str, Array]) -> Array:
    """Interpret one operation."""
    names = dict.fromkeys(typed.operands(operation))
    inputs = tuple(typed.Value(name, dtype_of(values[name]), values[name].shape) for name in names)
    function = typed.Function(inputs, (operation.name,), (operation,))
    return interpret(function, {value.name: values[value.name] for value in inputs})[operation.name]


def _rounding(size: Array, dtype: DType) -> Array:
    """Return half a unit in the last place of numbers of that size."""
    if not dtype.is_float:
        return np.zeros(size.shape)
    return np.asarray(np.where(np.isfinite(size), size, 0.0) * _unit(dtype) + dtype.format.smallest_subnormal / 2)


def _unit(dtype: DType) -> float:
    return dtype.format.epsilon / 2
