"""Typed functions as text, which :mod:`tileir.typed.text.parser` reads back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, assert_never

from tileir.core import Combination, grouped
from tileir.core.text.writer import Writer, listed
from tileir.poly.affine import Affine
from tileir.tile.functions import scatter_name
from tileir.tile.text.grammar import AGGREGATIONS, COMBINATIONS
from tileir.tile.text.printer import value_text
from tileir.typed.ir import (
    Access,
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Constraint,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Marker,
    Operation,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    ScanResult,
    Scatter,
    ShapeOf,
    TensorType,
    Upstream,
    Value,
    operands,
)
from tileir.typed.node import Node
from tileir.typed.number_steps import NumberArithmetic, NumberCast, NumberLiteral, NumberStep
from tileir.typed.text.lexer import spell

_AGGREGATION_SIGNS: Final = {aggregation: sign for sign, aggregation in AGGREGATIONS.items()}
_COMBINATION_SIGNS: Final = {combination: f" {sign} " for sign, combination in COMBINATIONS.items()}


def to_text(function: Function) -> str:
    """Return the function with the type of every value, one operation a line.

    Of constant arrays of more than 256 elements the text has the digests: :func:`tileir.typed.text.parser.parse` reads
    it where it is passed these arrays.
    """
    writer = Writer()
    _write(writer, function, "function")
    return writer.text()


def node_text(node: Node) -> str:
    """Return the text of any node, which a text of a function has where the node stands."""
    match node:
        case Function():
            return to_text(node)
        case Value(number=number):
            return f"{_typed(node)}{'' if number is None else f' = {spell(number)}'}"
        case NumberLiteral() | NumberCast() | NumberArithmetic():
            return _number(node)
        case Access():
            return _access(node)
        case Constraint():
            return _constraint(node)
        case ScanResult(part=part, number=number):
            return f"{part.value} {number}"
        case _ if isinstance(node, Operation):
            steps = {node.body: spell(f"{node.name}_step")} if isinstance(node, Scan) else {}
            return f"{_typed(node)} = {_definition(node, steps)}"
        case _:
            raise TypeError(f"nodes of type {type(node).__name__} have no text")


def _write(writer: Writer, function: Function, heading: str) -> None:
    """Write a function; those of loops stand above the first of their results, as ``step`` with its name."""
    writer.line(f"{heading} (")
    with writer.indented():
        for value in function.inputs:
            writer.line(f"{value},")
    writer.line(f") -> ({_names(function.outputs)}) {{")
    labels = _labels_in_order(function)
    steps: dict[Function, str] = {}
    with writer.indented():
        for step in function.numbers:
            writer.line(_number(step))
        for operation in function.operations:
            if isinstance(operation, Scan) and operation.body not in steps:
                steps[operation.body] = name = spell(f"{operation.name}_step")
                _write(writer, operation.body, f"{name} = function")
            marks = "".join(map(_attribute, labels.get(operation.name, ())))
            for line in f"{marks}{_typed(operation)} = {_definition(operation, steps)}".split("\n"):
                writer.line(line)
        for name, label in () if labels else function.labels:
            writer.line(f"{_attribute(label)}{spell(name)}")
    writer.line("}")


def _labels_in_order(function: Function) -> Mapping[str, list[str]]:
    """Return the labels of each operation; empty where they are not in the order of the operations."""
    labels = grouped(function.labels)
    ordered = [(each.name, label) for each in function.operations for label in labels.get(each.name, ())]
    return labels if ordered == list(function.labels) else {}


def _attribute(label: str) -> str:
    return f"[[pid({spell(label)})]] "


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(spell, names))


def _typed(value: Value | Operation) -> str:
    return f"{spell(value.name)}: {TensorType(value.dtype, value.shape)}"


def _number(step: NumberStep) -> str:
    """Return a step that each call computes before anything runs."""
    kind = "number" if step.dtype is None else f"number({step.dtype.value})"
    match step:
        case NumberLiteral(value=value):
            text = str(value).lower()
        case NumberCast(input=name):
            text = f"cast({spell(name)})"
        case NumberArithmetic(op=op, inputs=inputs):
            text = f"{op.value}({_names(inputs)})"
    return f"{spell(step.name)}: {kind} = {text}"


def _definition(operation: Operation, steps: Mapping[Function, str]) -> str:
    match operation:
        case Constant(value=value):
            return f"constant({str(value).lower()})"
        case ArrayConstant(value=array):
            return f"array({value_text(array)})"
        case Elementwise(op=op, inputs=inputs):
            return f"{op.value}({_names(inputs)})"
        case Cast(input=name):
            return f"cast({spell(name)})"
        case Coordinate(axis=axis):
            return f"coordinate({axis})"
        case ShapeOf(dims=dims):
            return f"shape({listed(dims)})"
        case Reshape(input=name):
            return f"reshape({spell(name)})"
        case Argsort(input=name, axis=axis, descending=descending):
            return f"argsort({spell(name)}, {axis}){' descending' if descending else ''}"
        case Gather(data=data, indices=indices):
            return f"gather({_names((data, indices))})"
        case Scatter(accumulator=accumulator, aggregation=how):
            return f"{scatter_name(how)}({_names(operands(operation))}) in {accumulator.value}"
        case Contraction():
            return _contraction(operation)
        case Reduce(combine=combine, input=name, axes=axes, result=result):
            return f"reduce_{combine.value}({listed((spell(name), *axes))}): {result}"
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
            return f"checkpoint({spell(name)})"
        case Recall(input=name, sweep=sweep):
            return f"recall({spell(name)}) in sweep {sweep}"
        case _:
            assert_never(operation)


def _override(operation: Override) -> str:
    pairs = "".join(f", {spell(value)} gets {spell(gradient)}" for value, gradient in operation.pairs)
    arriving = "" if operation.upstream is None else f" from {spell(operation.upstream)}"
    return f"override_gradient({spell(operation.input)}{pairs}){arriving}"


def _scan(operation: Scan, step: str) -> str:
    lists = "; ".join(map(_names, (operation.carries, operation.sequences, operation.constants)))
    direction = " reverse" if operation.reverse else ""
    return f"scan {step}({lists}) {operation.count} times{direction}: {operation.result}"


def _contraction(operation: Contraction) -> str:
    accesses = [_access(access) for access in operation.inputs]
    if operation.combination is Combination.COND:
        inner = f"{accesses[0]} == {accesses[1]} ? {accesses[2]}"
    else:
        inner = _COMBINATION_SIGNS.get(operation.combination, "").join(accesses)
    parts = [f"[{_affines(operation.output)}] {_AGGREGATION_SIGNS[operation.aggregation]}({inner})"]
    parts += [_constraint(constraint) for constraint in operation.constraints]
    text = ", ".join(parts)
    if {operation.operand_dtype, operation.accumulator} != {operation.dtype}:
        text += f" combine {operation.operand_dtype.value} aggregate {operation.accumulator.value}"
    if not operation.reduce:
        text += " no_defract"
    if operation.finite:
        text += " finite"
    return text if operation.default is None else f"{text} default {spell(operation.default)}"


def _constraint(constraint: Constraint) -> str:
    return f"{_affine(constraint.polynomial)} < {constraint.bound}"


def _access(access: Access) -> str:
    return f"{spell(access.tensor)}[{_affines(access.indices)}]"


def _affines(affines: Iterable[Affine]) -> str:
    return listed(map(_affine, affines))


def _affine(affine: Affine) -> str:
    return str(affine.rename({name: spelt for name in affine.indices if (spelt := spell(name)) != name}))
