"""Type inference: a Tile function and the types of its arguments become typed operations.

Literals, dimensions and number arguments have no dtype of their own and adapt to the other operand. Nested expressions
become one operation for each operator, macros their operations, and aliases nothing.

A while loop is a scan whose first carry says whether there is a further step. The condition is computed once before the
loop, and then at the end of each step from the new carries.

The step of a scan is inferred for the types of its arguments, as a function of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, assert_never

from tileir.core import ArrayValue, Diagnostic, DType, NameScope, Op, Span, attrs, fail
from tileir.tile import ir as tile
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.functions import builtin
from tileir.tile.ir import Expr
from tileir.tile.traversal import dimensions, named
from tileir.typed.dataflow import result_type, results_of, with_operands
from tileir.typed.dims import read_constant, size
from tileir.typed.inference.builtins import handler
from tileir.typed.inference.contraction import Scope, bottom_up, contract
from tileir.typed.inference.declared import check_dtype, check_result
from tileir.typed.inference.elementwise import apply, convert, scalar
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.faults import Faults, Observer
from tileir.typed.inference.numbers import as_tensors, is_float, natural_dtype, number_of, number_type, replayed
from tileir.typed.inference.overrides import escaped_upstreams
from tileir.typed.inference.values import (
    ConstantScalar,
    DifferentiatedError,
    Group,
    Number,
    Operand,
    PoisonedError,
    Result,
    Scalar,
    Tensor,
)
from tileir.typed.ir import (
    ArrayConstant,
    Constant,
    Elementwise,
    Function,
    Operation,
    Scan,
    ScanPart,
    ScanResult,
    Shape,
    TensorType,
    Value,
)


def scan(
    scope: Scope,
    statement: tile.Scan,
    infer: Callable[[tile.Function, Mapping[str, TensorType]], Function],
) -> Result:
    """Emit a scan: the last value of each carry, then each stacked output; as a tuple if there are several.

    Raises:
        TileError: One diagnostic for each fault of the statement and of its step.
        PoisonedError: It has no fault of its own, but uses a name whose statement has one.
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
    """Return the type of a value in a step: constants without a dtype are numbers there too, integers known ones."""
    if isinstance(value, ConstantScalar) and type(value.value) is int:
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

    Carries without a dtype get the one that the step declares, or else the one in which it returns them.
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
    """Return the value of a carry before the first step, as a tensor."""
    return value if isinstance(value, Tensor) else emission.literal(value, kind.dtype)


def with_tensors(
    emission: Emission, body: Function, arguments: Mapping[str, Scalar], varying: int
) -> tuple[Function, list[Tensor]]:
    """Return a step that reads only tensors, and the constants to pass.

    Values computed from numbers are computed once, around the scan.
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
    """Return a step with its constant arrays as further inputs, and these arrays: they are equal in all steps."""
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
    """Return the number of steps, on which all sequences and a given number have to agree."""
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


def while_loop(
    scope: Scope,
    statement: tile.While,
    infer: Callable[[tile.Function, Mapping[str, TensorType]], Function],
) -> Result:
    """Emit a loop: the last value of each carry, as a tuple if there are several.

    Raises:
        TileError: One diagnostic for each fault of the statement and of its functions.
        PoisonedError: It has no fault of its own, but uses a name whose statement has one.
    """
    faults = Faults()
    given, constants = (
        faults.each(lambda name: scalar(scope.lookup(name.name, name.span)), names)
        for names in (statement.carries, statement.constants)
    )
    faults.done()
    emission, read = scope.emission, [kind_of(value) for value in constants]
    declared = [parameter.dtype for parameter in statement.step.inputs]
    types, step = with_carries(given, declared, partial(_part_of_step, infer, statement.step, read))
    check_carries(statement, step, types)
    condition = _part_of_step(infer, statement.condition, read, types)
    _check_condition(statement, condition)
    carries = [carry_of(emission, value, type_) for value, type_ in zip(given, types, strict=True)]
    step, passed = _closed(emission, step, statement.step, [*carries, *constants], len(carries))
    condition, asked = _closed(emission, condition, statement.condition, [*carries, *constants], len(carries))
    first = 0
    if not _is_first(condition):
        again = _copied(emission, condition, [*carries, *asked])
        step = _joined(step, condition, len(carries))
        carries, passed, first = [again, *carries], [*passed, *asked], 1
    single = len(carries) - first == 1
    made = [
        _result(emission, statement, step, (carries, passed), number, single=single)
        for number in range(first, len(carries))
    ]
    return made[0] if single else Group(tuple(made))


def _part_of_step(
    infer: Callable[[tile.Function, Mapping[str, TensorType]], Function],
    function: tile.Function,
    read: Sequence[TensorType],
    types: Sequence[TensorType],
) -> Function:
    names = [parameter.name for parameter in function.inputs]
    return infer(function, dict(zip(names, (*types, *read), strict=True)))


def _check_condition(statement: tile.While, condition: Function) -> None:
    """Refuse a condition that is not one scalar bool."""
    (name,) = condition.outputs
    made = next(operation for operation in condition.operations if operation.name == name)
    if (made.dtype, made.shape) != (DType.BOOL, ()):
        message = (
            f"the condition is {TensorType(made.dtype, made.shape)}, but is one bool, as in N > 0; reduce or compare"
        )
        raise fail("TIL334", message, statement.condition.outputs[0].span)


def _closed(
    emission: Emission, body: Function, source: tile.Function, given: Sequence[Scalar], carries: int
) -> tuple[Function, list[Tensor]]:
    """Return a function that reads only tensors and has no constant arrays, and the constants to pass."""
    names = (parameter.name for parameter in source.inputs)
    body, passed = with_tensors(emission, body, dict(zip(names, given, strict=True)), carries)
    body, arrays = without_arrays(emission, body)
    return body, [*passed, *arrays]


def _is_first(condition: Function) -> bool:
    """Return whether a condition is the first carry itself."""
    match condition.operations:
        case (Elementwise(op=Op.IDENT, inputs=(name,)),):
            return name == condition.inputs[0].name
        case _:
            return False


def _copied(emission: Emission, function: Function, given: Sequence[Tensor]) -> Tensor:
    """Emit the operations of a function with one result for these arguments."""
    known = {value.name: tensor.name for value, tensor in zip(function.inputs, given, strict=True)}
    for operation in function.operations:
        made = emission.add(attrs.evolve(with_operands(operation, known), name=emission.fresh()))
        known[operation.name] = made.name
    (output,) = function.outputs
    made_of = {operation.name: operation for operation in function.operations}
    return Tensor(known[output], made_of[output].dtype, made_of[output].shape)


def _joined(step: Function, condition: Function, carries: int) -> Function:
    """Return a step whose first carry, which it does not read, is the condition on the other carries."""
    names = NameScope.of(each.name for each in (*step.inputs, *step.operations))
    again = Value(names.fresh("More"), DType.BOOL, ())
    known = dict(zip((value.name for value in condition.inputs), step.outputs[:carries], strict=False))
    more: list[Value] = []
    for value in condition.inputs[carries:]:
        known[value.name] = names.fresh(value.name)
        more.append(attrs.evolve(value, name=known[value.name]))
    operations: list[Operation] = []
    for operation in condition.operations:
        name = names.fresh(operation.name)
        operations.append(attrs.evolve(with_operands(operation, known), name=name))
        known[operation.name] = name
    labels = ((known[name], label) for name, label in condition.labels)
    return attrs.evolve(
        step,
        inputs=(again, *step.inputs, *more),
        outputs=(known[condition.outputs[0]], *step.outputs),
        operations=(*step.operations, *operations),
        labels=(*step.labels, *labels),
    )


def _result(
    emission: Emission,
    statement: tile.While,
    step: Function,
    operands: tuple[Sequence[Tensor], Sequence[Tensor]],
    number: int,
    *,
    single: bool,
) -> Tensor:
    carries, constants = (tuple(value.name for value in group) for group in operands)
    result = ScanResult(ScanPart.FINAL, number)
    kind = result_type(step, len(carries), None, result)
    name = statement.name if single else emission.fresh()
    operation = Scan(
        name, step, None, False, carries, (), constants, result, kind.dtype, kind.shape, span=statement.span
    )
    return emission.add(operation)


_PROGRAM_ID: Final = "pid"
_TIES: Final = "ties"


def infer(function: tile.Function, arguments: Mapping[str, TensorType], observer: Observer | None = None) -> Function:
    """Return the typed form of ``function`` for arguments of these dtypes and shapes.

    Args:
        function: A function that :func:`tileir.tile.checks.verifier.verify` accepts.
        arguments: The type of each input, by name.
        observer: Receives findings during the inference.

    Raises:
        TileError: One diagnostic for each fault; statements that use the name of a faulty one are not reported again.
    """
    while True:
        try:
            return _inferred(function, arguments, observer)
        except DifferentiatedError as error:  # numbers have no derivatives
            arguments = as_tensors(function, arguments, error.names)


def _inferred(function: tile.Function, arguments: Mapping[str, TensorType], observer: Observer | None) -> Function:
    sizing = sizing_inputs(function)
    results = frozenset(output.name for output in function.outputs)
    emission = Emission(NameScope.of(_names(function)), observer=observer)
    inference = _Inference(emission, arguments, sizing, results)
    faults = Faults(list(_unknown(function, arguments)))
    faults.each(inference.bind, function.inputs)
    faults.each(inference.statement, function.statements)
    outputs = faults.each(inference.output, function.outputs)
    faults.done()
    numbers = inference.emission.numbers
    passed = (i for i in function.inputs if i.name not in sizing)
    arrays = ((i, arguments[i.name]) for i in passed if not arguments[i.name].weak)
    inputs = (*(Value(i.name, kind.dtype, kind.shape, span=i.span) for i, kind in arrays), *numbers.inputs.values())
    faults.found.extend(_oversized(inputs, inference.emission.operations))
    result = Function(inputs, outputs, tuple(inference.emission.operations), tuple(inference.labels), numbers.needed())
    if inference.emission.upstreams:
        faults.found.extend(escaped_upstreams(result))
    faults.done()
    return result


def _oversized(inputs: Iterable[Value], operations: Iterable[Operation]) -> Iterator[Diagnostic]:
    """Yield tensors with more bytes than 64 bits can count; axes of size 0 are left out of the product."""
    for value in (*inputs, *operations):
        if math.prod(size for size in value.shape if size) * value.dtype.itemsize >= 1 << 63:
            message = f"{value.name!r} would have the shape {list(value.shape)}, more bytes than 64 bits can count"
            yield Diagnostic("TIL405", message, value.span)


def _names(function: tile.Function) -> Iterator[str]:
    yield from (parameter.name for parameter in function.inputs)
    yield from (dim.name for dim in dimensions(function))
    yield from (statement.name for statement in function.statements)


def _unknown(function: tile.Function, arguments: Mapping[str, TensorType]) -> Iterator[Diagnostic]:
    """Yield arguments without an input."""
    known = sorted({parameter.name for parameter in function.inputs})
    for name in arguments:
        if name not in known:
            message = f"there is no input {name!r}; the inputs are: {', '.join(known) or 'none'}"
            yield Diagnostic("TIL311", message, function.span)


def _sizing_value(parameter: tile.Input, given: TensorType) -> int:
    name = parameter.name
    if given.shape or not given.dtype.is_integer:
        message = f"sizes are computed from {name!r}, so it is an integer of rank 0, but its argument is {given}"
        raise fail("TIL305" if given.shape else "TIL302", message, parameter.span)
    if given.value is None:
        message = f"sizes are computed from {name!r}, so it must be known when compiling: pass the integer itself"
        raise fail("TIL306", message, parameter.span)
    return given.value


def _splits_ties(attributes: Iterable[tile.Attribute]) -> bool:
    """Return whether the attributes of a statement ask for gradients that are split evenly among tied elements."""
    even = False
    for attribute in attributes:
        if attribute.name == _TIES:
            if attribute.parameters not in (("even",), ("all",)):
                raise fail("TIL323", "ties are 'even' or 'all': write [[ties(even)]] or [[ties(all)]]", attribute.span)
            even = attribute.parameters == ("even",)
    return even


@attrs.define(eq=False, repr=False)
class _Inference:
    """The values of the names of one function; None stands for a name whose statement is faulty."""

    emission: Emission
    arguments: Mapping[str, TensorType]
    sizing: frozenset[str]
    results: frozenset[str]
    labels: list[tuple[str, str]] = attrs.field(factory=list, init=False)
    _bound: dict[str, Result | None] = attrs.field(factory=dict, init=False)
    _places: dict[str, str] = attrs.field(factory=dict, init=False)
    _spans: dict[str, Span | None] = attrs.field(factory=dict, init=False)
    _taken: set[str] = attrs.field(factory=set, init=False)

    def bind(self, parameter: tile.Input) -> None:
        """Bind an input and its dimensions."""
        self._bound[parameter.name] = None
        for dim in named(parameter):
            self._bound.setdefault(dim.name, None)
        given = self.arguments.get(parameter.name)
        if given is None:
            raise fail("TIL311", f"input {parameter.name!r} has no argument", parameter.span)
        self._taken.add(parameter.name)
        if parameter.dims is not None and len(parameter.dims) != len(given.shape):
            message = f"input {parameter.name!r} has rank {len(parameter.dims)}, but its argument is {given}"
            raise fail("TIL305", message, parameter.span)
        self._bind_dims(parameter, given.shape)
        check_dtype(parameter, given)
        if parameter.name in self.sizing:
            self._bound[parameter.name] = ConstantScalar(_sizing_value(parameter, given))
            return
        if given.weak:
            number = number_of(parameter.name, given)
            declared = parameter.dtype
            self.emission.stem = parameter.name
            self._bound[parameter.name] = (
                number if declared is None else self.emission.literal(number, declared, parameter.span)
            )
            return
        self._bound[parameter.name] = Tensor(parameter.name, given.dtype, given.shape)
        self.emission.parameters((Value(parameter.name, given.dtype, given.shape, span=parameter.span),))

    def _bind_dims(self, declared: tile.Input | tile.Constant, shape: Shape) -> None:
        """Bind the dimensions that an input or constant names to their sizes."""
        faults = Faults()
        sizes = enumerate(zip(declared.dims or (), shape, strict=declared.dims is not None))
        faults.each(lambda axis: self._bind_dim(declared.name, *axis), sizes)
        faults.done()

    def _bind_dim(self, declared: str, axis: int, dim: tuple[tile.Size, int]) -> None:
        name, extent = dim
        place = f"axis {axis} of {declared!r}"
        if isinstance(name, tile.IntLiteral):
            if name.value != extent:
                raise fail("TIL317", f"{place} is declared as {name.value}, but its argument has {extent}", name.span)
            return
        bound = self._bound[name.name]
        if bound is None:
            self._bound[name.name] = ConstantScalar(extent)
            self._places[name.name] = place
        elif not isinstance(bound, ConstantScalar):
            raise fail("TIL202", f"{name.name!r} is an input, so no dimension can have that name", name.span)
        elif bound.value != extent:
            message = f"{name.name!r} is {bound.value} on {self._places[name.name]}, but {extent} on {place}"
            raise fail("TIL304", message, name.span)

    def statement(self, statement: tile.Statement) -> None:
        """Emit one statement and bind its name."""
        if statement.name in self._bound:
            raise fail("TIL202", f"{statement.name!r} is defined twice", statement.name_span or statement.span)
        self._bound[statement.name] = None
        self._spans[statement.name] = statement.name_span or statement.span
        self.emission.stem = statement.name
        self.emission.even_ties = _splits_ties(statement.attributes)
        result: Result
        match statement:
            case tile.Assignment():
                result = self._assign(statement)
            case tile.Contraction():
                result = contract(self, statement)
            case tile.Scan():
                result = scan(self, statement, partial(infer, observer=self.emission.observer))
            case tile.While():
                result = while_loop(self, statement, partial(infer, observer=self.emission.observer))
            case tile.Constant():
                result = self._constant(statement)
            case _:
                assert_never(statement)
        self._bound[statement.name] = result
        if isinstance(result, Tensor):
            ids = (a.parameters[0] for a in statement.attributes if a.name == _PROGRAM_ID and a.parameters)
            self.labels.extend((result.name, label) for label in ids)

    def _assign(self, statement: tile.Assignment) -> Result:
        operations = self.emission.operations
        before = len(operations)
        result = self.evaluate(statement.value).value
        if len(operations) == before or not isinstance(result, Tensor):
            return result
        last = operations[-1]
        if last.name != result.name or isinstance(last, Constant):  # other literals may be this constant
            return result
        return self.emission.rename_last(result, statement.name)

    def _constant(self, statement: tile.Constant) -> Result:
        """Emit an array; numbers and arrays without axes are known, like literals."""
        for dim in named(statement):
            self._bound.setdefault(dim.name, None)
        self._bind_dims(statement, statement.shape)
        value = statement.value
        if not isinstance(value, ArrayValue):
            return ConstantScalar(value, DType.BOOL if isinstance(value, bool) else None)
        if not value.shape:
            return read_constant(value.numpy(), value.dtype)
        name = self.emission.fresh() if statement.name in self.results else statement.name  # a result is a copy
        return self.emission.add(ArrayConstant(name, value, span=statement.span))

    def output(self, output: tile.Output) -> str:
        """Return the name of the operation whose value is an output; emit a copy of aliases and constants."""
        operand = self.lookup(output.name, output.span)
        value = scalar(operand)
        if output.dtype is not None or output.dims is not None:
            value = self._declared(output, value)
        free = output.name not in self._taken
        if free and isinstance(value, Tensor) and value.name == output.name:
            self._taken.add(value.name)
            return value.name
        self.emission.stem = output.name
        name = output.name if free else self.emission.fresh()
        self._taken.add(name)
        source = self.emission.tensor(value, output.span)
        self.emission.add(Elementwise(name, Op.IDENT, (source.name,), source.dtype, source.shape, span=output.span))
        return name

    def _declared(self, output: tile.Output, value: Scalar) -> Scalar:
        """Return a result that matches its declaration; a number gets the dtype."""
        if output.dtype is not None and not isinstance(value, Tensor) and value.dtype is None:
            value = self.emission.literal(value, output.dtype, output.span)
        sizes = None if output.dims is None else [size(self.evaluate(dim), "a size") for dim in output.dims]
        check_result(output, value, sizes, self._spans.get(output.name))
        return value

    def lookup(self, name: str, span: Span | None) -> Operand:
        """Return the value of ``name``.

        Raises:
            TileError: TIL201, it is not defined.
            PoisonedError: Its own statement is faulty.
        """
        if name not in self._bound:
            raise fail("TIL201", f"{name!r} is not defined", span)
        value = self._bound[name]
        if value is None:
            raise PoisonedError
        return Operand(value, span, name)

    def evaluate(self, expr: Expr) -> Operand:
        """Emit an elementwise expression; errors are those of its operations."""
        return bottom_up(expr, self._combine)

    def _combine(self, node: Expr, operands: Sequence[Operand]) -> Operand:
        span = node.span
        match node:
            case tile.IntLiteral(value=value) | tile.FloatLiteral(value=value):
                return Operand(ConstantScalar(value), span)
            case tile.Name(name=name):
                return self.lookup(name, span)
            case tile.IndexName(name=name):
                raise fail("TIL203", f"{name!r} is an index variable, which stands only in index polynomials", span)
            case tile.Unary(operator=operator):
                result: Result = apply(self.emission, Op[operator.name], operands, span)
            case tile.Binary(operator=infix):
                result = apply(self.emission, Op[infix.name], operands, span)
            case tile.Conditional():
                result = apply(self.emission, Op.COND, operands, span)
            case tile.Call(function=function):
                result = self._call(function, operands, span)
            case _:
                assert_never(node)
        return Operand(result, span)

    def _call(self, name: str, operands: Sequence[Operand], span: Span | None) -> Result:
        row = builtin(name)
        if row is None:
            raise fail("TIL206", f"there is no function {name!r}", span)
        if not row.takes(len(operands)):
            raise fail("TIL207", f"{name!r} takes {row.arity}, not {len(operands)}", span)
        if row.op is not None:
            return apply(self.emission, row.op, operands, span)
        return handler(name)(self.emission, operands, span)
