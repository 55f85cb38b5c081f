"""The flexibility diagram of a catalogue: which functions a step has, with what arguments, conditions and merges.

It shows functions of one picture around a compute pass, each with its arguments and the conditions that apply, and
below it the functions that merge two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tileir.core.nodes import attrs
from tileir_formula.definitions.bodies import keeps_size
from tileir_formula.definitions.functions import Function
from tileir_formula.text.printer import value_text


@attrs.frozen
class Node:
    """A function.

    Attributes:
        name: Its name in formulas.
        about: Its description.
        arguments: Its parameters, with their defaults.
        conditions: The letters of the conditions that a step which calls it can have.
    """

    name: str
    about: str
    arguments: tuple[str, ...]
    conditions: tuple[str, ...]


@attrs.frozen
class Legend:
    """A kind of condition: where a step applies."""

    letter: str
    about: str


@attrs.frozen
class Diagram:
    """Elements of steps.

    Attributes:
        primaries: Functions of one picture.
        merges: Functions of two.
        conditions: Legend of the letters.
    """

    primaries: tuple[Node, ...]
    merges: tuple[Node, ...]
    conditions: tuple[Legend, ...]

    def __str__(self) -> str:
        """Return it as text."""
        lines = ["compute pass", "", "functions of one picture:"]
        lines += [_line(node) for node in self.primaries]
        lines += ["", "functions that merge two:"]
        lines += [_line(node) for node in self.merges]
        lines += ["", "a step applies where", *(f"  {each.letter}  {each.about}" for each in self.conditions)]
        return "\n".join(lines)


CONDITIONS: Final = (
    Legend("A", "what it reads is within a distance, or a percentage of the pixel, of a colour"),
    Legend("B", "what it makes is within a distance, or a percentage of the pixel, of a colour"),
    Legend("C", "what it makes is within a distance, or a percentage, of the pixel that it replaces"),
    Legend("D", "the original is within a distance, or a percentage of the pixel, of a colour"),
    Legend("E", "the original is within a distance, or a percentage, of the pixel that it replaces"),
    Legend("F", "a mask is not 0"),
    Legend("G", "a pixel lies in a rectangle"),
)
"""All conditions but that on what a step reads being near the pixel that it replaces, which is the same, and never
fails."""


def diagram_of(functions: Mapping[str, Function]) -> Diagram:
    """Return the diagram of a catalogue, its functions in the order of their names."""
    nodes = {name: _node(function) for name, function in sorted(functions.items())}
    merging = {name for name, function in functions.items() if len(function.pictures) == 2}
    return Diagram(
        tuple(node for name, node in nodes.items() if name not in merging),
        tuple(node for name, node in nodes.items() if name in merging),
        CONDITIONS,
    )


def _node(function: Function) -> Node:
    letters = tuple(each.letter for each in CONDITIONS) if keeps_size(function) else ()
    arguments = tuple(f"{each.name}={value_text(each.default)}" for each in function.parameters)
    return Node(function.name, function.about, arguments, letters)


def _line(node: Node) -> str:
    arguments = f"({', '.join(node.arguments)})" if node.arguments else ""
    letters = f" [{''.join(node.conditions)}]" if node.conditions else ""
    return f"  {node.name}{arguments}{letters}"
