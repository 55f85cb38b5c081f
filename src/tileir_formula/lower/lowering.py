"""From a formula to one Tile function: the bodies of its steps, with borders, conditions and merges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tileir.core import ArgumentError, DType, TileError, attrs
from tileir.ops.shared.foundation import Aggregation, Tensor, aggregate, call, cast_to, indices_of
from tileir.tile.builder import FunctionBuilder, Operand
from tileir.tile.building.scans import scan
from tileir.tile.ir import Attribute, Function as TileFunction
from tileir_formula.definitions.functions import Function, parameter_name
from tileir_formula.definitions.parameters import Operand as Value
from tileir_formula.ir import Boundary, Formula, Mask, Near, Repeat, Source, Step, Subject
from tileir_formula.lower.conditions import chosen_by, count_of, reads_of
from tileir_formula.lower.inputs import inputs_of
from tileir_formula.text.reading import PREVIOUS
from tileir_formula.verifier import verify

MOST_UNROLLED: Final = 32
"""Steps of a group, in all rounds, that are written out; more of them become a loop."""

_WHITE: Final[Mapping[DType, float]] = {DType.U8: 255, DType.U16: 65535, DType.U32: 2**32 - 1, DType.BOOL: 1}
"""The pixels of integers that are 1 in a formula."""


@attrs.frozen
class Crafted:
    """A formula as a Tile function.

    Attributes:
        function: Its inputs are the pictures, each ``[rows, columns, channels]``, then those of ``arguments``.
        arguments: The values of parameters by the names of their inputs, in order.
        paths: The path of the element of the formula behind each of these values, or its default.
        labels: The path of each step, by the label of its statements.
    """

    function: TileFunction
    arguments: Mapping[str, Value]
    paths: Mapping[str, str]
    labels: Mapping[str, str]


def craft(
    formula: Formula, functions: Mapping[str, Function], *, pixels: DType | str | Sequence[DType | str] = "f32"
) -> Crafted:
    """Return the Tile function of a formula.

    Args:
        formula: The formula.
        functions: Functions available to its steps, by name.
        pixels: The dtype of its pictures, or one for each. A formula computes in f32, from 0 for black to 1 for white;
            unsigned integers are converted where they are read. Results have the dtype of the first picture, rounded
            and clamped to its range.

    Raises:
        VerifyError: The formula breaks a rule.
        ArgumentError: TIL302, pictures of a dtype have no white; TIL705, another number of dtypes than pictures.
        TileError: The body of a step does not fit its inputs; the span is that of the step.
    """
    verify(formula, functions)
    given = [pixels] * len(formula.inputs) if isinstance(pixels, DType | str) else list(pixels)
    dtypes = tuple(each if isinstance(each, DType) else DType(each) for each in given)
    if len(dtypes) != len(formula.inputs):
        message = f"the formula reads {len(formula.inputs)} pictures, but there are {len(dtypes)} dtypes"
        raise ArgumentError.of("TIL705", message)
    for dtype in dtypes:
        if not dtype.is_float and dtype not in _WHITE:
            message = f"pictures are floats, bool, or unsigned integers up to 32 bits; {dtype.value} has no white"
            raise ArgumentError.of("TIL302", message)
    return _Crafting(functions, dtypes).formula(formula)


@attrs.define(eq=False, repr=False)
class _Scope:
    """The available sources of a step.

    Attributes:
        names: The inputs and named steps, and the last round of a group.
        lines: The results of top-level lines.
        operands: Operands computed from parameters, by their paths.
    """

    original: Tensor
    names: dict[str, Tensor]
    lines: list[Tensor]
    operands: dict[str, Operand]

    def picture(self, source: Source) -> Tensor:
        return self.names[source.name] if isinstance(source.name, str) else self.lines[source.name - 1]


@attrs.frozen(repr=False)
class _Crafting:
    """The formula that is being written as Tile."""

    functions: Mapping[str, Function]
    pixels: tuple[DType, ...]
    builder: FunctionBuilder = attrs.field(factory=FunctionBuilder)
    labels: dict[str, str] = attrs.field(factory=dict)

    def formula(self, formula: Formula) -> Crafted:
        inputs = inputs_of(formula, self.functions)
        given = [self.builder.input(name, *dims) for name, dims in inputs.pictures]
        operands: dict[str, Operand] = dict(inputs.fixed)
        for name, value in inputs.values.items():
            operands[inputs.paths[name]] = self.declared(name, value, inputs.dims.get(name, ()))
        pictures = [self.read(picture, dtype) for picture, dtype in zip(given, self.pixels, strict=True)]
        scope = _Scope(pictures[0], dict(zip(formula.inputs, pictures, strict=True)), [], operands)
        last = self.steps(formula.steps, "", pictures[0], scope, top=True)
        results = [scope.picture(source) for source in formula.results] or [last]
        written = {name: self.written(result) for name, result in zip(inputs.results, results, strict=True)}
        function = self.builder.build(**written)
        return Crafted(function, inputs.values, inputs.paths, self.labels)

    def declared(self, name: str, value: Value, dims: tuple[str, ...]) -> Operand:
        """Declare the input of a parameter; sizes may depend on whole numbers."""
        if dims:
            return self.builder.input(name, *dims)
        return self.builder.integer(name) if isinstance(value, int) else self.builder.scalar(name)

    def read(self, picture: Tensor, dtype: DType) -> Tensor:
        """Return a picture in f32, where 1 is white."""
        converted = cast_to(picture, DType.F32)
        return converted if dtype.is_float or dtype.is_bool else converted * (1 / _WHITE[dtype])

    def written(self, result: Tensor) -> Tensor:
        """Return a result in the dtype of the first picture."""
        dtype = self.pixels[0]
        if dtype.is_float:
            return cast_to(result, dtype)
        if dtype.is_bool:
            return result >= 0.5
        white = _WHITE[dtype]
        return cast_to(call("round", call("min", call("max", result * white, 0.0), white)), dtype)

    def steps(
        self, steps: tuple[Step | Repeat, ...], prefix: str, current: Tensor, scope: _Scope, *, top: bool = False
    ) -> Tensor:
        """Compute steps one after the other, and return the last result."""
        for number, step in enumerate(steps):
            path = f"{prefix}steps[{number}]"
            if isinstance(step, Repeat):
                current = self.repeat(step, path, current, scope)
            else:
                current = self.step(step, path, current, scope)
            if top:
                scope.lines.append(current)
        return current

    def step(self, step: Step, path: str, current: Tensor, scope: _Scope) -> Tensor:
        label = f"{path.replace('steps[', 's').replace('].', '_').replace(']', '')}_{step.function}"
        self.labels[label] = path
        sources = [scope.picture(source) for source in step.sources] or [current]
        try:
            with sources[0].recorder.attributed(Attribute("pid", (label,))):
                result = self.called(step.function, path, sources, step.boundary, scope)
                if step.condition is not None:
                    result = self.limited(step, path, sources[0], result, scope)
                if step.merge is not None:
                    others = [result, scope.picture(step.merge.source)]
                    result = self.called(step.merge.function, f"{path}.merge", others, None, scope)
        except TileError as error:
            raise type(error)(
                tuple(
                    attrs.evolve(fault, span=step.span, message=f"in {step.function}: {fault.message}")
                    for fault in error.diagnostics
                )
            ) from error
        if step.name is not None:
            scope.names[step.name] = result
        return result

    def called(
        self, name: str, path: str, pictures: Sequence[Tensor], boundary: Boundary | None, scope: _Scope
    ) -> Tensor:
        """Return the result of a function of pictures."""
        function = self.functions[name]
        given = dict(zip(function.pictures, pictures, strict=True))
        operands = [
            given[each.name]
            if each.name in given
            else scope.operands[f"{path}.arguments.{parameter_name(function, each.name)}"]
            for each in function.body.inputs
        ]
        return function.applied(operands, function.boundary if boundary is None else boundary)

    def limited(self, step: Step, path: str, source: Tensor, result: Tensor, scope: _Scope) -> Tensor:
        """Return the step's result where its condition holds, and its input elsewhere."""
        condition = step.condition
        assert condition is not None
        subjects = {Subject.INPUT: source, Subject.OUTPUT: result, Subject.ORIGINAL: scope.original}
        mask = scope.picture(condition.source) if isinstance(condition, Mask) else None
        colour = None
        if isinstance(condition, Near) and condition.reference is not None:
            reference = scope.operands[f"{path}.condition.reference"]
            assert isinstance(reference, Tensor)
            colour = reference

        def number(name: str) -> Operand:
            return scope.operands[f"{path}.condition.{name}"]

        return call("cond", chosen_by(condition, subjects, mask, colour, number), result, source)

    def repeat(self, group: Repeat, path: str, current: Tensor, scope: _Scope) -> Tensor:
        """Compute a group: written out where it is short, else as a loop."""
        rounds = int(group.count.value)
        if group.limit is not None or rounds * count_of(group.steps) > MOST_UNROLLED:
            return self.loop(group, path, current, scope, rounds)
        for _ in range(rounds):
            current = self.round(group, path, current, scope)
        return current

    def round(self, group: Repeat, path: str, current: Tensor, scope: _Scope) -> Tensor:
        inner = attrs.evolve(scope, names={**scope.names, PREVIOUS: current})
        return self.steps(group.steps, f"{path}.", current, inner)

    def loop(self, group: Repeat, path: str, current: Tensor, scope: _Scope, rounds: int) -> Tensor:
        """Compute a group as a scan, whose step gets outer values as constants."""
        sources = [source for source in dict.fromkeys(reads_of(group.steps)) if _is_known(source, scope)]
        within = {name: operand for name, operand in scope.operands.items() if name.startswith(f"{path}.")}
        passed_on = [name for name, operand in within.items() if not isinstance(operand, int)]

        def step(*passed: Tensor) -> tuple[Tensor, ...]:
            carries = 1 if group.limit is None else 2
            before, done, original, *others = (passed[0], passed[carries - 1], *passed[carries:])
            names, lines = dict(scope.names), list(scope.lines)
            for source, picture in zip(sources, others, strict=False):
                if isinstance(source.name, str):
                    names[source.name] = picture
                else:
                    lines[source.name - 1] = picture
            operands: dict[str, Operand] = {**within, **dict(zip(passed_on, others[len(sources) :], strict=True))}
            after = self.round(group, path, before, _Scope(original, names, lines, operands))
            if group.limit is None:
                return (after,)
            settled = _largest_change(before, after) < operands[f"{path}.limit"]
            return call("cond", done, before, after), call("logical_or", done, settled)

        pictures = [scope.original, *(scope.picture(source) for source in sources)]
        constants = [*pictures, *(within[name] for name in passed_on)]
        carries: list[Operand] = [current] if group.limit is None else [current, False]
        return scan(step, carries, constants=constants, count=rounds)[0]


def _is_known(source: Source, scope: _Scope) -> bool:
    return isinstance(source.name, int) or source.name in scope.names


def _largest_change(before: Tensor, after: Tensor) -> Tensor:
    change = call("abs", after - before)
    return aggregate(Aggregation.MAX, change[indices_of(change)], [], [])
