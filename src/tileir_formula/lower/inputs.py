"""The inputs of the Tile function of a formula: pictures, then a value for each parameter that a control can change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tileir.core import NameScope, attrs
from tileir_formula.definitions.functions import Function
from tileir_formula.definitions.parameters import Operand, channels
from tileir_formula.ir import Argument, Colour, Condition, Formula, Near, Number, Region, Repeat, Step


@attrs.frozen
class Inputs:
    """The inputs of a function.

    Attributes:
        pictures: The names of pictures, and of their dimensions.
        values: Arguments of the other inputs, by their names.
        dims: The names of the dimensions of array inputs.
        paths: The element of the formula that gives the value of each, or would give it.
        fixed: Values that are not inputs, since they choose statements; by the paths of their elements.
        results: The names of the outputs.
    """

    pictures: tuple[tuple[str, tuple[str, ...]], ...]
    values: Mapping[str, Operand]
    dims: Mapping[str, tuple[str, ...]]
    paths: Mapping[str, str]
    fixed: Mapping[str, int | float]
    results: tuple[str, ...]


def inputs_of(formula: Formula, functions: Mapping[str, Function]) -> Inputs:
    """Return the inputs of a formula that keeps the rules."""
    names = NameScope.of(formula.inputs)
    results = tuple(names.fresh("Result") for _ in formula.results or (None,))
    pictures = tuple(
        (name, tuple(names.fresh(f"{letter}_{name}") for letter in ("H", "W", "C"))) for name in formula.inputs
    )
    values: dict[str, Operand] = {}
    dims: dict[str, tuple[str, ...]] = {}
    paths: dict[str, str] = {}
    fixed: dict[str, int | float] = {}
    for path, value, is_fixed in _values("", formula.steps, functions):
        if is_fixed:
            assert isinstance(value, int | float)  # what has axes is no size
            fixed[path] = value
            continue
        name = names.fresh(_readable(path))
        values[name], paths[name] = value, path
        shape = getattr(value, "shape", ())
        if shape:
            dims[name] = tuple(names.fresh(f"{name}_{axis}") for axis in ("rows", "columns")[-len(shape) :])
    return Inputs(pictures, values, dims, paths, fixed, results)


def _readable(path: str) -> str:
    """Return the name of an input: ``steps[4].steps[0].merge.arguments.amount`` is ``S5_1_merge_amount``."""
    numbers = re.sub(r"steps\[(\d+)\]", lambda match: str(int(match[1]) + 1), path)
    return "S" + numbers.replace(".arguments", "").replace(".", "_")


def _values(
    prefix: str, steps: tuple[Step | Repeat, ...], functions: Mapping[str, Function]
) -> Iterator[tuple[str, Operand, bool]]:
    """Yield the values of all parameters, those at their defaults as well, with their paths and whether it is fixed."""
    for number, step in enumerate(steps):
        path = f"{prefix}steps[{number}]"
        if isinstance(step, Repeat):
            if step.limit is not None:
                yield f"{path}.limit", float(step.limit.value), False
            yield from _values(f"{path}.", step.steps, functions)
            continue
        yield from _of_call(path, functions[step.function], step.arguments)
        if step.condition is not None:
            yield from _of_condition(path, step.condition)
        if step.merge is not None:
            yield from _of_call(f"{path}.merge", functions[step.merge.function], step.merge.arguments)


def _of_call(path: str, function: Function, arguments: tuple[Argument, ...]) -> Iterator[tuple[str, Operand, bool]]:
    for name, operand in function.operands(arguments).items():
        yield f"{path}.arguments.{name}", operand, name in function.fixed


def _of_condition(path: str, condition: Condition) -> Iterator[tuple[str, Operand, bool]]:
    match condition:
        case Near(limit=limit, reference=reference):
            yield f"{path}.condition.limit", float(limit.value), False
            if isinstance(reference, Colour):
                yield f"{path}.condition.reference", channels(reference), False
        case Region():
            for side in ("top", "left", "height", "width"):
                number: Number = getattr(condition, side)
                yield f"{path}.condition.{side}", int(number.value), False
