"""The rules of functions of formulas: each body is Tile that fits what its description says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.errors import Diagnostic, TileError
from tileir.core.template_expressions import Budget, ExhaustedError, ExpressionError, MissingError, evaluate
from tileir.formula.borders import bordered
from tileir.formula.functions import BORDER, calls_border, input_name
from tileir.formula.ir import Number
from tileir.formula.parameters import ColourParameter, NumberParameter, WeightsParameter
from tileir.tile import ir as tile
from tileir.tile.builder import FunctionBuilder
from tileir.tile.building.inlining import inline
from tileir.tile.verifier import verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.formula.functions import Derived, Function
    from tileir.formula.parameters import Parameter
    from tileir.tile.builder import Dim, Tensor


def faults_of(function: Function) -> list[Diagnostic]:
    """Return what is wrong with a function; where inputs are right, also what is wrong with its body."""
    found = [*_of_parameters(function), *_of_derived(function), *_of_inputs(function), *_of_borders(function)]
    return found or _of_body(function)


def _of_parameters(function: Function) -> Iterator[Diagnostic]:
    names = [each.name for each in function.parameters]
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield _fault(f"the parameter {name!r} is described twice")
    declared = {each.name: each for each in function.body.inputs}
    for parameter in function.parameters:
        name = input_name(parameter.name)
        if name not in declared:
            yield _fault(f"the body has no input {name!r} for the parameter {parameter.name!r}")
            continue
        dims = declared[name].dims
        rank = _rank(parameter)
        if (0 if dims is None else len(dims)) != rank:
            yield Diagnostic("TIL226", f"{name} of the body has {rank} axes, as its parameter", declared[name].span)


def _rank(parameter: Parameter) -> int:
    return 2 if isinstance(parameter, WeightsParameter) else 1 if isinstance(parameter, ColourParameter) else 0


def _of_derived(function: Function) -> Iterator[Diagnostic]:
    inputs = {each.name for each in function.body.inputs}
    for derived in function.derived:
        if derived.name not in inputs:
            yield _fault(f"the body has no input {derived.name!r}, which is derived")
        for end in ("low", "high"):
            names = {each.name: _end(each, end) for each in function.parameters if _rank(each) == 0}
            yield from _of_value(derived, names)


def _end(parameter: Parameter, end: str) -> int | float:
    """Return the value at one end of the bounds of a parameter, as expressions see it."""
    if not isinstance(parameter, NumberParameter):
        value = parameter.operand(parameter.default)
        assert isinstance(value, int)  # its rank is 0
        return value
    value = parameter.operand(Number(getattr(parameter, end)))
    assert isinstance(value, int | float)
    return value


def _of_value(derived: Derived, names: dict[str, int | float]) -> Iterator[Diagnostic]:
    try:
        value = evaluate(derived.tree, names, Budget())
    except MissingError as error:
        yield _fault(f"{derived.name} is derived from {error.args[0]!r}, which is no number among the parameters")
    except (ExpressionError, ExhaustedError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        yield _fault(f"{derived.name} has no value where {names}: {error}")
    else:
        if not isinstance(value, int | float):
            yield _fault(f"{derived.name} is a number; it is {value!r} where {names}")


def _of_inputs(function: Function) -> Iterator[Diagnostic]:
    if not function.pictures:
        yield _fault(f"a function reads a picture; all inputs of {function.name} are parameters")
    if len(function.pictures) > 2:
        yield _fault(f"a function reads one picture or two; {function.name} reads {', '.join(function.pictures)}")
    for each in function.body.inputs:
        if each.name in function.pictures and each.dims is None:
            message = f"{each.name} is a picture, and names its axes, as in {each.name}[H, W, C]"
            yield Diagnostic("TIL226", message, each.span)
    if len(function.body.outputs) != 1:
        yield _fault(f"a function makes one picture; {function.name} has {len(function.body.outputs)} outputs")


def _of_borders(function: Function) -> Iterator[Diagnostic]:
    """Check that borders are asked for by statements, of tensors, with a width for some axes."""
    for statement in function.body.statements:
        if isinstance(statement, tile.Assignment) and calls_border(statement):
            assert isinstance(statement.value, tile.Call)
            data, *widths = statement.value.arguments
            if not isinstance(data, tile.Name) or not 1 <= len(widths) <= 8:
                message = f"write {BORDER}(Picture, rows, columns), with a width for each axis that has a border"
                yield Diagnostic("TIL226", message, statement.value.span)


def _of_body(function: Function) -> list[Diagnostic]:
    """Return what Tile's own rules say about the body, once it is part of a function."""
    try:
        verify(_without_borders(function.body))
    except TileError as error:
        return list(error.diagnostics)
    builder = FunctionBuilder()
    declared = [
        builder.input(each.name, *(dim.name for dim in each.dims)) if each.dims else builder.scalar(each.name)
        for each in function.body.inputs
    ]

    def border(picture: Tensor, widths: Sequence[Dim]) -> Tensor:
        return bordered(picture, widths, function.boundary)

    try:
        builder.build(*inline(function.body, *declared, expansions={BORDER: border}))
    except TileError as error:
        return list(error.diagnostics)
    return []


def _without_borders(body: tile.Function) -> tile.Function:
    """Return a body with pictures as they are in place of those with borders, whose widths are values of their own."""
    statements: list[tile.Statement] = []
    for number, statement in enumerate(body.statements):
        if isinstance(statement, tile.Assignment) and calls_border(statement):
            assert isinstance(statement.value, tile.Call)
            data, *widths = statement.value.arguments
            for axis, width in enumerate(widths):
                statements.append(tile.Assignment(f"Width{number}_{axis}", width, span=statement.span))
            statement = attrs.evolve(statement, value=data)
        statements.append(statement)
    return attrs.evolve(body, statements=tuple(statements))


def _fault(message: str) -> Diagnostic:
    return Diagnostic("TIL226", message)
