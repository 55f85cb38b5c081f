"""Typed functions as text, which :mod:`tileir.typed.text.parser` reads back."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import grouped
from tileir.core.text.writer import Writer as Lines
from tileir.typed.ir import Function, Scan
from tileir.typed.node import Node
from tileir.typed.text.language import LANGUAGE, Writer
from tileir.typed.text.lexer import spell


def to_text(function: Function) -> str:
    """Return the text of the function: one operation a line, with the type of every value.

    Constant arrays of more than 256 elements are printed as digests: to read the text, pass these arrays to
    :func:`tileir.typed.text.parser.parse`.
    """
    writer = Lines()
    _write(writer, function, "function")
    return writer.text()


def node_text(node: Node) -> str:
    """Return the text of any node, as it appears in the text of a function."""
    if isinstance(node, Function):
        return to_text(node)
    steps = {node.body: spell(f"{node.name}_step")} if isinstance(node, Scan) else {}
    return LANGUAGE.text(Writer(steps), node)


def _write(writer: Lines, function: Function, heading: str) -> None:
    """Write a function; those of loops precede the first of their results, as ``step`` with its name."""
    writer.line(f"{heading} (")
    steps: dict[Function, str] = {}
    nodes = Writer(steps)
    with writer.indented():
        for value in function.inputs:
            writer.line(f"{LANGUAGE.text(nodes, value)},")
    writer.line(f") -> ({', '.join(map(spell, function.outputs))}) {{")
    labels = _labels_in_order(function)
    with writer.indented():
        for step in function.numbers:
            writer.line(LANGUAGE.text(nodes, step))
        for operation in function.operations:
            if isinstance(operation, Scan) and operation.body not in steps:
                steps[operation.body] = name = spell(f"{operation.name}_step")
                _write(writer, operation.body, f"{name} = function")
            marks = "".join(map(_attribute, labels.get(operation.name, ())))
            for line in f"{marks}{LANGUAGE.text(nodes, operation)}".split("\n"):
                writer.line(line)
        for name, label in () if labels else function.labels:
            writer.line(f"{_attribute(label)}{spell(name)}")
    writer.line("}")


def _labels_in_order(function: Function) -> Mapping[str, list[str]]:
    """Return the labels of each operation; empty if they are not in the order of the operations."""
    labels = grouped(function.labels)
    ordered = [(each.name, label) for each in function.operations for label in labels.get(each.name, ())]
    return labels if ordered == list(function.labels) else {}


def _attribute(label: str) -> str:
    return f"[[pid({spell(label)})]] "
