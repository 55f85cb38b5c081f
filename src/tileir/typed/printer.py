"""Typed functions as text, for dumps, golden files and people. There is no parser: Tile text is the way in."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tileir.core.ops import Combination
from tileir.core.text.writer import Writer, listed
from tileir.tile.constant_printer import value_text
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    ShapeOf,
    TensorType,
    Upstream,
)
from tileir.typed.number_steps import NumberArithmetic, NumberCast, NumberLiteral

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.typed.ir import Access, Function, Marker, Operation, Value
    from tileir.typed.number_steps import NumberStep

_AGGREGATIONS = {"add": "+", "mul": "*", "max": ">", "min": "<", "assign": "="}
_COMBINATIONS = {Combination.ADD: " + ", Combination.MUL: " * ", Combination.EQ: " == "}


def to_text(function: Function) -> str:
    """Return the function with the type of every value, one operation a line."""
    writer = Writer()
    _write(writer, function, "function")
    return writer.text()


def _write(writer: Writer, function: Function, heading: str) -> None:
    """Write a function; those of loops stand above the first of their results, as ``step`` with its name."""
    writer.line(f"{heading} (")
    with writer.indented():
        for value in function.inputs:
            writer.line(f"{_typed(value)}{'' if value.number is None else f' = {value.number}'},")
    writer.line(f") -> ({', '.join(function.outputs)}) {{")
    labels = dict(function.labels)
    steps: dict[Function, str] = {}
    with writer.indented():
        for step in function.numbers:
            writer.line(_number(step))
        for operation in function.operations:
            if isinstance(operation, Scan) and operation.body not in steps:
                steps[operation.body] = f"{operation.name}_step"
                _write(writer, operation.body, f"{operation.name}_step = function")
            label = f"[[pid({labels[operation.name]})]] " if operation.name in labels else ""
            writer.line(f"{label}{_typed(operation)} = {_definition(operation, steps)}")
    writer.line("}")


def _typed(value: Value | Operation) -> str:
    return f"{value.name}: {TensorType(value.dtype, value.shape)}"


def _number(step: NumberStep) -> str:
    """Return a step that each call computes before anything runs."""
    kind = "number" if step.dtype is None else f"number({step.dtype.value})"
    match step:
        case NumberLiteral(value=value):
            text = str(value).lower()
        case NumberCast(input=name):
            text = f"cast({name})"
        case NumberArithmetic(op=op, inputs=inputs):
            text = f"{op.value}({', '.join(inputs)})"
    return f"{step.name}: {kind} = {text}"


def _definition(operation: Operation, steps: Mapping[Function, str]) -> str:
    match operation:
        case Constant(value=value):
            return f"constant({str(value).lower()})"
        case ArrayConstant(value=array):
            return f"array({value_text(array)})"
        case Elementwise(op=op, inputs=inputs):
            return f"{op.value}({', '.join(inputs)})"
        case Cast(input=name):
            return f"cast({name})"
        case Coordinate(axis=axis):
            return f"coordinate({axis})"
        case ShapeOf(dims=dims):
            return f"shape({', '.join(map(str, dims))})"
        case Reshape(input=name):
            return f"reshape({name})"
        case Argsort(input=name, axis=axis, descending=descending):
            return f"argsort({name}, {axis}){' descending' if descending else ''}"
        case Gather(data=data, indices=indices):
            return f"gather({data}, {indices})"
        case Scatter(updates=updates, indices=indices, accumulator=accumulator):
            return f"scatter({updates}, {indices}) in {accumulator.value}"
        case Contraction():
            return _contraction(operation)
        case Reduce(combine=combine, input=name, axes=axes, result=result):
            return f"reduce_{combine.value}({', '.join((name, *map(str, axes)))}): {result}"
        case Scan():
            return _scan(operation, steps[operation.body])
        case _:
            return _marker(operation)


def _marker(operation: Marker) -> str:
    match operation:
        case Override():
            return _override(operation)
        case Upstream():
            return "upstream()"
        case Checkpoint(input=name):
            return f"checkpoint({name})"
        case Recall(input=name, sweep=sweep):
            return f"recall({name}) in sweep {sweep}"
        case _:
            assert_never(operation)


def _override(operation: Override) -> str:
    pairs = "".join(f", {value} gets {gradient}" for value, gradient in operation.pairs)
    arriving = "" if operation.upstream is None else f" from {operation.upstream}"
    return f"override_gradient({operation.input}{pairs}){arriving}"


def _scan(operation: Scan, step: str) -> str:
    lists = "; ".join(map(", ".join, (operation.carries, operation.sequences, operation.constants)))
    direction = " reverse" if operation.reverse else ""
    result = f"{operation.result.part.value} {operation.result.number}"
    return f"scan {step}({lists}) {operation.count} times{direction}: {result}"


def _contraction(operation: Contraction) -> str:
    accesses = [_access(access) for access in operation.inputs]
    if operation.combination is Combination.COND:
        inner = f"{accesses[0]} == {accesses[1]} ? {accesses[2]}"
    else:
        inner = _COMBINATIONS.get(operation.combination, "").join(accesses)
    parts = [f"[{listed(operation.output)}] {_AGGREGATIONS[operation.aggregation.value]}({inner})"]
    parts += [f"{constraint.polynomial} < {constraint.bound}" for constraint in operation.constraints]
    text = ", ".join(parts)
    if {operation.operand_dtype, operation.accumulator} != {operation.dtype}:
        text += f" combine {operation.operand_dtype.value} aggregate {operation.accumulator.value}"
    if not operation.reduce:
        text += " no_defract"
    if operation.finite:
        text += " finite"
    return text if operation.default is None else f"{text} default {operation.default}"


def _access(access: Access) -> str:
    return f"{access.tensor}[{listed(access.indices)}]"
