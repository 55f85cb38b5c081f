"""Values of the inputs of a typed function in a call: arrays, and numbers in the dtypes that they adapt to.

Arithmetic on numbers uses the functions for literals, so that a call with a number equals a program with that number in
its text.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import ArgumentError, Diagnostic, DType, Op, TileError, reached
from tileir.core.numbers.arithmetic import constant, fits, rounded
from tileir.typed.inference.elementwise import folded
from tileir.typed.inference.values import ConstantScalar
from tileir.typed.ir import Function, NumberArithmetic, NumberCast, NumberLiteral, NumberStep, Value, step_inputs


def takes_numbers(function: Function) -> bool:
    """Return whether some input is a number that calls convert."""
    return any(value.number is not None for value in function.inputs)


def passed_numbers(function: Function) -> tuple[str, ...]:
    """Return the arguments from which inputs of ``function`` are computed; they have to be numbers."""
    steps = {step.name: step for step in function.numbers}
    read = {value.number for value in function.inputs if value.number is not None}
    read.update(name for step in function.numbers for name in step_inputs(step))
    return tuple(sorted(read - steps.keys()))


def input_values(function: Function, arguments: Mapping[str, object]) -> list[object]:
    """Return the value of each input of ``function`` in a call, in order.

    Args:
        function: A typed function; only its inputs and numbers are read.
        arguments: The arguments by the names of the Tile function; Python numbers for :func:`passed_numbers`.

    Raises:
        ArgumentError: TIL701, a number does not fit the dtype that it adapts to; TIL308, an integer is divided by zero.
    """
    if not takes_numbers(function):
        return [arguments[value.name] for value in function.inputs]
    numbers = _computed(function, arguments)
    faults: list[Diagnostic] = []
    found: list[object] = []
    for value in function.inputs:
        if value.number is None:
            found.append(arguments[value.name])
            continue
        known = numbers[value.number]
        if fits(known.value, value.dtype):
            found.append(constant(known.value, value.dtype))
        else:
            faults.append(_misfit(function, value, known))
    if faults:
        raise ArgumentError(faults)
    return found


def _misfit(function: Function, value: Value, known: ConstantScalar) -> Diagnostic:
    number = value.number or value.name
    steps = {step.name: step for step in function.numbers}
    if number not in steps:
        message = f"input {number!r} is {known.value}, which {value.dtype.value} cannot hold"
        return Diagnostic("TIL701", f"{message}; that is the dtype of what it meets, so pass less or cast that")
    made = ", ".join(map(repr, arguments_of(function, number)))
    message = f"a number computed from {made} is {known.value}, which {value.dtype.value} cannot hold"
    return Diagnostic("TIL701", f"{message}; that is the dtype of what it meets, so pass less or cast that", value.span)


def arguments_of(function: Function, number: str) -> tuple[str, ...]:
    """Return the arguments from which a number of a typed function is computed."""
    steps = {step.name: step for step in function.numbers}
    made = reached((number,), lambda name: step_inputs(steps[name]) if name in steps else ())
    return tuple(name for name in made if name not in steps)


def _computed(function: Function, arguments: Mapping[str, object]) -> dict[str, ConstantScalar]:
    values = {name: _known(value) for name, value in arguments.items() if isinstance(value, bool | int | float)}
    for step in function.numbers:
        try:
            values[step.name] = _value(step, values)
        except TileError as error:
            raise ArgumentError(error.diagnostics) from None
    return values


def _known(value: bool | int | float) -> ConstantScalar:
    return ConstantScalar(value, DType.BOOL if isinstance(value, bool) else None)


def _value(step: NumberStep, values: Mapping[str, ConstantScalar]) -> ConstantScalar:
    match step:
        case NumberLiteral(value=value, dtype=dtype):
            return ConstantScalar(value, dtype)
        case NumberCast(input=name, dtype=dtype):
            return ConstantScalar(rounded(values[name].value, dtype), dtype)
        case NumberArithmetic(op=op, inputs=inputs, dtype=dtype):
            operands = [values[name] for name in inputs]
            adapting = len(operands) - (op is Op.COND)
            return folded(op, operands, dtype, [step.span] * adapting, step.span)
