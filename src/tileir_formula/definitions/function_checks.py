"""The rules of functions of formulas: each body is Tile that fits its description."""

from __future__ import annotations

from collections.abc import Iterator

from tileir.core import Diagnostic, TileError, attrs
from tileir.core.targets.template_expressions import (
    Budget,
    ExhaustedError,
    ExpressionError,
    MissingError,
    evaluate,
    parse,
)
from tileir.tile import ir as tile
from tileir.tile.checks.verifier import verify
from tileir.tile.traversal import walk
from tileir_formula.definitions.bodies import build
from tileir_formula.definitions.functions import Derived, Function, input_name
from tileir_formula.definitions.parameters import ColourParameter, NumberParameter, Parameter, WeightsParameter
from tileir_formula.ir import Number
from tileir_formula.text.reading import LARGEST
from tileir_formula.text.spelling import fault_of_value


def faults_of(function: Function) -> list[Diagnostic]:
    """Return the faults of a function; where inputs are right, also those of its body."""
    found = [*_of_parameters(function)]
    found = found or [*_of_derived(function), *_of_inputs(function), *_of_words(function)]
    return found or _of_body(function)


def _of_parameters(function: Function) -> Iterator[Diagnostic]:
    names = [each.name for each in function.parameters]
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield _fault(f"the parameter {name!r} is described twice")
    declared = {each.name: each for each in function.body.inputs}
    for parameter in function.parameters:
        if (fault := fault_of_value(parameter.default) or parameter.fault(parameter.default)) is not None:
            yield _fault(f"the default of {parameter.name} {fault}")
        if isinstance(parameter, NumberParameter) and not (_is_bounded(parameter) and parameter.step > 0):
            yield _fault(f"the bounds of {parameter.name} are numbers, the lower one first, with a step above 0")
        name = input_name(parameter.name)
        if name not in declared:
            yield _fault(f"the body has no input {name!r} for the parameter {parameter.name!r}")
            continue
        dims = declared[name].dims
        rank = _rank(parameter)
        if (0 if dims is None else len(dims)) != rank:
            yield Diagnostic("TIL226", f"{name} of the body has {rank} axes, as its parameter", declared[name].span)


def _is_bounded(parameter: NumberParameter) -> bool:
    return -LARGEST <= parameter.low <= parameter.high <= LARGEST and parameter.step <= LARGEST


def _rank(parameter: Parameter) -> int:
    return 2 if isinstance(parameter, WeightsParameter) else 1 if isinstance(parameter, ColourParameter) else 0


def _of_derived(function: Function) -> Iterator[Diagnostic]:
    inputs = {each.name for each in function.body.inputs}
    for derived in function.derived:
        if derived.name not in inputs:
            yield _fault(f"the body has no input {derived.name!r}, which is derived")
        try:
            parse(derived.expression)
        except ExpressionError as error:
            yield _fault(f"{derived.name} has no expression: {error}")
            continue
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


def _of_words(function: Function) -> Iterator[Diagnostic]:
    """Check that words stand in statements of their own, with the names of tensors, then sizes."""
    for statement in function.body.statements:
        if not isinstance(statement, tile.Assignment):
            continue
        call = function.word_call(statement)
        whole = (statement.value,) if call is None else call.arguments
        for node in (part for expression in whole for part in walk(expression)):
            if isinstance(node, tile.Call) and node.function in function.words:
                message = (
                    f"{node.function} stands in a statement of its own: Made = {function.words[node.function].form};"
                )
                yield Diagnostic("TIL226", message, node.span)
        if call is not None:
            word, operands = function.words[call.function], call.arguments
            named = all(isinstance(operand, tile.Name) for n, operand in enumerate(operands) if n in word.tensors)
            if not named or not word.least <= len(operands) <= word.most:
                yield Diagnostic("TIL226", f"write {word.form}, where what has axes is the name of a tensor", call.span)


def _of_body(function: Function) -> list[Diagnostic]:
    """Return the faults of the body by Tile's own rules, as part of a function."""
    try:
        verify(_without_words(function))
    except TileError as error:
        return list(error.diagnostics)
    try:
        build(function)
    except TileError as error:
        return list(error.diagnostics)
    return []


def _without_words(function: Function) -> tile.Function:
    """Return the body with the first tensors of words in their place; other operands are values of their own."""
    statements: list[tile.Statement] = []
    for number, statement in enumerate(function.body.statements):
        call = function.word_call(statement)
        if isinstance(statement, tile.Assignment) and call is not None:
            data, *others = call.arguments
            for place, other in enumerate(others):
                statements.append(tile.Assignment(f"Operand{number}_{place}", other, span=statement.span))
            statement = attrs.evolve(statement, value=data)
        statements.append(statement)
    return attrs.evolve(function.body, statements=tuple(statements))


def _fault(message: str) -> Diagnostic:
    return Diagnostic("TIL226", message)
