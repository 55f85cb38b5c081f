"""Typing of scans: the step is inferred for the types of what is passed to it, as a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileir.core import DType, attrs, fail
from tileir.tile import ir as tile
from tileir.typed.dataflow import result_type, results_of
from tileir.typed.dims import size
from tileir.typed.inference.contraction import Scope
from tileir.typed.inference.elementwise import apply, convert, scalar
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.faults import Faults
from tileir.typed.inference.numbers import is_float, natural_dtype, number_type, replayed
from tileir.typed.inference.values import Group, Known, Number, Operand, Result, Scalar, Tensor
from tileir.typed.ir import ArrayConstant, Function, Scan, ScanPart, TensorType, Value


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
    given, rows, constants = (
        faults.each(lambda name: scalar(scope.lookup(name.name, name.span)), names)
        for names in (statement.carries, statement.sequences, statement.constants)
    )
    count = faults.each(lambda expr: size(scope.evaluate(expr), "a number of steps"), _given(statement))
    faults.done()
    emission = scope.emission
    sequences = [emission.tensor(value, name.span) for value, name in zip(rows, statement.sequences, strict=True)]
    steps = _steps(statement, sequences, count)
    read = [TensorType(value.dtype, value.shape[1:]) for value in sequences]
    read += [kind_of(value) for value in constants]
    parameters = [parameter.name for parameter in statement.step.inputs]

    def inferred(types: Sequence[TensorType]) -> Function:
        return infer(statement.step, dict(zip(parameters, (*types, *read), strict=True)))

    types, body = with_carries(given, [parameter.dtype for parameter in statement.step.inputs], inferred)
    check_carries(statement, body, types)
    carries = [carry_of(emission, value, type_) for value, type_ in zip(given, types, strict=True)]
    arguments = dict(zip(parameters, (*carries, *sequences, *constants), strict=True))
    body, passed = with_tensors(emission, body, arguments, len(carries) + len(sequences))
    body, arrays = without_arrays(emission, body)
    passed += arrays
    groups = (carries, sequences, passed)
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


def kind_of(value: Scalar) -> TensorType:
    """Return the type of what a step reads: constants without a dtype are numbers there too, integers known ones."""
    if isinstance(value, Known) and type(value.value) is int:
        kind = number_type(value.value) if value.dtype is None else TensorType(value.dtype, ())
        return attrs.evolve(kind or TensorType(natural_dtype(value), (), weak=True), value=value.value)
    if value.dtype is not None:
        return TensorType(value.dtype, value.shape, weak=value.dtype.is_bool and not isinstance(value, Tensor))
    if isinstance(value, Number):
        return TensorType(value.natural, (), weak=True)
    return number_type(value.value) or TensorType(natural_dtype(value), (), weak=True)


def with_carries(
    given: Sequence[Scalar], declared: Sequence[DType | None], inferred: Callable[[Sequence[TensorType]], Function]
) -> tuple[list[TensorType], Function]:
    """Return the types of the carries and the step for them.

    Those without a dtype have what the step declares, or else take what it makes of them.
    """
    types = [
        TensorType(value.dtype or dtype or natural_dtype(value), value.shape)
        for value, dtype in zip(given, declared, strict=False)
    ]
    free = [
        (n, is_float(v))
        for n, v in enumerate(given)
        if not isinstance(v, Tensor) and v.dtype is None and declared[n] is None
    ]
    body = inferred(types)
    for _ in free:
        made = {operation.name: operation for operation in body.operations}
        new = list(types)
        for number, floating in free:
            result = made[body.outputs[number]]
            if result.shape == () and (result.dtype.is_float or not floating):
                new[number] = TensorType(result.dtype, ())
        if new == types:
            break
        types = new
        body = inferred(types)
    return types, body


def carry_of(emission: Emission, value: Scalar, kind: TensorType) -> Tensor:
    """Return what a carry is before the first step, as a tensor."""
    return value if isinstance(value, Tensor) else emission.literal(value, kind.dtype)


def with_tensors(
    emission: Emission, body: Function, arguments: Mapping[str, Scalar], varying: int
) -> tuple[Function, list[Tensor]]:
    """Return a step that reads tensors alone, and the constants that it is passed.

    What it makes of numbers is made once, around the scan.
    """
    numbers = replayed(
        body,
        arguments,
        lambda op, values: scalar(Operand(apply(emission, op, [Operand(v, None) for v in values], None), None)),
        lambda value, dtype: convert(emission, value, dtype, None),
    )
    passed: list[Tensor] = []
    inputs = list(body.inputs[:varying])
    for value in body.inputs[varying:]:
        source = numbers[value.number or value.name]
        passed.append(source if isinstance(source, Tensor) else emission.literal(source, value.dtype, value.span))
        inputs.append(attrs.evolve(value, number=None))
    return attrs.evolve(body, inputs=tuple(inputs), numbers=()), passed


def without_arrays(emission: Emission, body: Function) -> tuple[Function, list[Tensor]]:
    """Return a step that is passed its constant arrays, too, and these: every step reads the same."""
    arrays = [operation for operation in body.operations if isinstance(operation, ArrayConstant)]
    if not arrays:
        return body, []
    inputs = (Value(array.name, array.dtype, array.shape, span=array.span) for array in arrays)
    rest = tuple(operation for operation in body.operations if not isinstance(operation, ArrayConstant))
    made = [emission.add(attrs.evolve(array, name=emission.fresh())) for array in arrays]
    return attrs.evolve(body, inputs=(*body.inputs, *inputs), operations=rest), made


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


def check_carries(statement: tile.Scan | tile.While, body: Function, types: Sequence[TensorType]) -> None:
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
