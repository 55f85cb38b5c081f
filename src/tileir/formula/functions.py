"""Functions that the steps of formulas call: Tile bodies with parameters that know their bounds."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.errors import Diagnostic
from tileir.core.names import nearest
from tileir.core.template_expressions import Budget, evaluate
from tileir.formula.ir import Argument, Boundary, Value
from tileir.tile import ir as tile

if TYPE_CHECKING:
    from tileir.formula.parameters import Operand, Parameter

BORDER: Final = "border"
"""The word by which bodies ask for a picture with what lies outside of it."""


@attrs.frozen
class Derived:
    """An input of a body that is computed from parameters, such as a radius from a standard deviation.

    Attributes:
        name: The input.
        expression: Python's arithmetic over the names of parameters, as templates of targets have it.

    """

    name: str
    expression: str

    @cached_property
    def tree(self) -> ast.expr:
        """The expression, taken apart."""
        return ast.parse(self.expression, mode="eval").body


@attrs.frozen(slots=False)
class Function:
    """What a step can do.

    Attributes:
        name: How formulas call it.
        body: Tile. Its inputs are pictures, then parameters by their names with a capital, and derived values. It may
            call ``border(Picture, rows, columns)``: the picture with so much of what lies outside on each side.
        parameters: In the order of their controls.
        derived: What the body is passed besides.
        boundary: What windows see outside the picture where a step does not say.
        about: What it does, in a sentence.
        source: Who described the method.

    """

    name: str
    body: tile.Function
    parameters: tuple[Parameter, ...] = ()
    derived: tuple[Derived, ...] = ()
    boundary: Boundary = Boundary.MIRROR
    about: str = ""
    source: str = ""

    @cached_property
    def pictures(self) -> tuple[str, ...]:
        """The inputs that are pictures: one, or two of a function that merges."""
        others = {input_name(each.name) for each in self.parameters} | {each.name for each in self.derived}
        return tuple(each.name for each in self.body.inputs if each.name not in others)

    @cached_property
    def has_window(self) -> bool:
        """Whether it looks beyond the edges of a picture, so that a boundary means something."""
        return any(calls_border(statement) for statement in self.body.statements)

    @cached_property
    def is_pointwise(self) -> bool:
        """Whether it reads no element but that at the place of its result, so that it may overwrite it."""
        return all(
            isinstance(statement, tile.Assignment) and not calls_border(statement) for statement in self.body.statements
        )

    def parameter(self, name: str) -> Parameter | None:
        """Return a parameter by its name."""
        return next((each for each in self.parameters if each.name == name), None)

    def values(self, arguments: tuple[Argument, ...]) -> dict[str, Value]:
        """Return the value of each parameter, by its name."""
        given = {argument.name: argument.value for argument in arguments}
        return {each.name: given.get(each.name, each.default) for each in self.parameters}

    def operands(self, arguments: tuple[Argument, ...]) -> dict[str, Operand]:
        """Return what the body is called with besides pictures, by the names of parameters and derived values."""
        values = self.values(arguments)
        operands = {each.name: each.operand(values[each.name]) for each in self.parameters}
        scalars = {name: number for name, number in operands.items() if isinstance(number, int | float)}
        for each in self.derived:
            value = evaluate(each.tree, scalars, Budget())
            assert isinstance(value, int | float)  # the description was checked at both ends of the bounds
            operands[each.name] = value
        return operands

    def faults(self, arguments: tuple[Argument, ...]) -> list[Diagnostic]:
        """Return what is wrong with the arguments of a call."""
        found = []
        seen: set[str] = set()
        for argument in arguments:
            parameter = self.parameter(argument.name)
            if parameter is None:
                names = [each.name for each in self.parameters]
                listed = f"it has {', '.join(names)}" if names else "it has none"
                message = f"{self.name} has no parameter {argument.name!r}{nearest(argument.name, names)}; {listed}"
                found.append(Diagnostic("TIL206", message, argument.span))
            elif argument.name in seen:
                found.append(Diagnostic("TIL202", f"{argument.name!r} is given twice", argument.span))
            elif (fault := parameter.fault(argument.value)) is not None:
                found.append(Diagnostic("TIL224", f"{argument.name} {fault}", argument.value.span))
            seen.add(argument.name)
        return found


def parameter_name(function: Function, name: str) -> str:
    """Return the parameter, or the derived value, that an input of the body is."""
    return next((each.name for each in function.parameters if input_name(each.name) == name), name)


def calls_border(statement: tile.Statement) -> bool:
    """Return whether a statement of a body asks for what lies outside a picture."""
    if not isinstance(statement, tile.Assignment):
        return False
    return isinstance(statement.value, tile.Call) and statement.value.function == BORDER


def input_name(parameter: str) -> str:
    """Return how a Tile body spells a parameter: with a capital."""
    return parameter[:1].upper() + parameter[1:]
