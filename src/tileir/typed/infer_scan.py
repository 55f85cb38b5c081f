"""Typing of scans: the step is inferred for the types of what is passed to it, as a function of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.errors import fail
from tileir.typed.dims import size
from tileir.typed.faults import Faults
from tileir.typed.infer_contraction import Scope
from tileir.typed.infer_elementwise import tensor
from tileir.typed.ir import Scan, ScanPart, TensorType
from tileir.typed.loops import result_type, results_of
from tileir.typed.values import Group

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.tile import ir as tile
    from tileir.typed.ir import Function
    from tileir.typed.values import Result, Tensor


def scan(
    scope: Scope,
    statement: tile.Scan,
    infer: Callable[[tile.Function, Mapping[str, TensorType]], Function],
) -> Result:
    """Emit a scan: the last value of each carry, then each stacked output; as a tuple where these are several.

    Raises:
        TileError: One diagnostic for each fault of the statement and of its step.
        PoisonedError: It has no fault of its own, but uses a name that has.

    """
    faults = Faults()
    groups = [
        faults.each(lambda name: tensor(scope.emission, scope.lookup(name.name, name.span)), names)
        for names in (statement.carries, statement.sequences, statement.constants)
    ]
    count = faults.each(lambda expr: size(scope.evaluate(expr), "a number of steps"), _given(statement))
    faults.done()
    carries, sequences, constants = groups
    steps = _steps(statement, sequences, count)
    types = [TensorType(value.dtype, value.shape) for value in carries]
    types += [TensorType(value.dtype, value.shape[1:]) for value in sequences]
    types += [TensorType(value.dtype, value.shape) for value in constants]
    named = zip((parameter.name for parameter in statement.step.inputs), types, strict=True)
    body = infer(statement.step, dict(named))
    _check_carries(statement, body, types)
    names = [tuple(value.name for value in group) for group in groups]
    results = [found for found in results_of(body, len(carries)) if found.part is not ScanPart.HISTORY]
    made: list[Tensor] = []
    for result in results:
        kind = result_type(body, len(carries), steps, result)
        operation = Scan(
            statement.name if len(results) == 1 else scope.emission.fresh(),
            body,
            steps,
            statement.reverse,
            names[0],
            names[1],
            names[2],
            result,
            kind.dtype,
            kind.shape,
            span=statement.span,
        )
        made.append(scope.emission.add(operation))
    return made[0] if len(made) == 1 else Group(tuple(made))


def _given(statement: tile.Scan) -> tuple[tile.Expr, ...]:
    return () if statement.count is None else (statement.count,)


def _steps(statement: tile.Scan, sequences: Sequence[Tensor], count: Sequence[int]) -> int:
    """Return how many steps there are, which all sequences and the number that was given agree on."""
    faults = Faults()

    def steps(pair: tuple[tile.Name, Tensor]) -> int:
        name, value = pair
        if not value.shape:
            raise fail("TIL305", f"{name.name!r} has no axis to be read along; pass it as a constant", name.span)
        return value.shape[0]

    lengths = faults.each(steps, zip(statement.sequences, sequences, strict=True))
    faults.done()
    known = (*count, *lengths)
    for name, length in zip(statement.sequences, lengths, strict=True):
        if length != known[0]:
            message = f"{name.name!r} has {length} elements along its first axis, but there are {known[0]} steps"
            raise fail("TIL331", message, name.span)
    return known[0]


def _check_carries(statement: tile.Scan, body: Function, types: Sequence[TensorType]) -> None:
    """Check that every carry keeps its dtype and shape."""
    definitions = {operation.name: operation for operation in body.operations}
    faults = Faults()

    def check(number: int) -> None:
        new = definitions[body.outputs[number]]
        now = TensorType(new.dtype, new.shape)
        if now != types[number]:
            output = statement.step.outputs[number]
            message = (
                f"the carry {statement.carries[number].name!r} is {types[number]} before a step, and {output.name!r}"
                f" makes it {now}: cast or shape one of them"
            )
            raise fail("TIL332", message, output.span)

    faults.each(check, range(len(statement.carries)))
    faults.done()
