"""Verifier of typed functions: names, dtypes, shapes, and bounds of indices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from tileir.core import (
    Aggregation,
    Combination,
    ContractionTypes,
    Diagnostic,
    DType,
    Op,
    VerifyError,
    arithmetic_type,
    contraction_types,
    rounded,
)
from tileir.core.nodes.rules import broken
from tileir.poly.bounds import unbounded_indices
from tileir.typed.dataflow import MAX_NESTING, result_type, results_of
from tileir.typed.inference.emission import broadcast_shape, broadcasts_to
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Computation,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Marker,
    NumberArithmetic,
    Operation,
    Override,
    Reduce,
    Reshape,
    Scan,
    ScanPart,
    Scatter,
    ShapeOf,
    TensorType,
    Upstream,
    Value,
    counting,
    operands,
    step_inputs,
)
from tileir.typed.reductions import rule_of
from tileir.typed.templates import free_upstreams

_SHIFTS: Final = frozenset({Op.BIT_LEFT, Op.BIT_RIGHT})


def verify(function: Function) -> None:
    """Check every rule of :mod:`tileir.typed.ir`.

    Raises:
        VerifyError: TIL531 for each fault.

    """
    faults = tuple(check_function(function))
    if faults:
        raise VerifyError(faults)


def check_function(function: Function, depth: int = 0) -> Iterator[Diagnostic]:
    """Yield the faults of a function; an operation that reads an undefined value is not checked further.

    ``depth`` is the number of loops around it.
    """
    bodies: set[Function] = set()
    defined: dict[str, Value | Operation] = {}
    for value in function.inputs:
        if value.name in defined:
            yield _fault(value, "is defined twice")
        if value.number is not None and (value.shape or depth):
            yield _fault(value, "is a number, so it is an input of the function itself, without axes")
        defined[value.name] = value
    yield from _check_numbers(function)
    for operation in function.operations:
        missing = [name for name in operands(operation) if name not in defined]
        for name in missing:
            yield _fault(operation, f"reads {name!r}, which is not defined before it")
        if operation.name in defined:
            yield _fault(operation, "is defined twice")
        if not missing:
            yield from (_fault(operation, message) for message in _check(operation, defined))
        if isinstance(operation, Scan) and operation.body not in bodies:
            bodies.add(operation.body)
            if depth < MAX_NESTING:
                yield from check_function(operation.body, depth + 1)
            else:
                yield _fault(operation, f"is a loop inside {depth} others; {MAX_NESTING} may be nested")
        defined[operation.name] = operation
    yield from _check_names(function)


def _check_numbers(function: Function) -> Iterator[Diagnostic]:
    """Yield faults of steps that read later steps or whose names are taken; other names are arguments."""
    later = Counter(step.name for step in function.numbers)
    arrays = {value.name for value in function.inputs if value.number is None}
    for step in function.numbers:
        if later[step.name] > 1:
            yield Diagnostic("TIL531", f"number {step.name!r} is defined twice", step.span)
        for name in step_inputs(step):
            if later[name] or name in arrays:
                yield Diagnostic(
                    "TIL531", f"number {step.name!r} reads {name!r}, which is no number before it", step.span
                )
        if isinstance(step, NumberArithmetic) and len(step.inputs) != (arity := step.op.info.arity):
            message = f"number {step.name!r} has {len(step.inputs)} operands, but {step.op.value} takes {arity}"
            yield Diagnostic("TIL531", message, step.span)
        del later[step.name]


def _check_names(function: Function) -> Iterator[Diagnostic]:
    made = {operation.name for operation in function.operations}
    seen: set[str] = set()
    for name in function.outputs:
        if name not in made:
            yield Diagnostic("TIL531", f"output {name!r} is not defined by an operation")
        if name in seen:
            yield Diagnostic("TIL531", f"output {name!r} is listed twice")
        seen.add(name)
    if not function.outputs:
        yield Diagnostic("TIL531", "a function needs at least one output")
    open_templates = free_upstreams(function.operations)
    for name in function.outputs:
        for upstream in sorted(open_templates.get(name, ())):
            message = f"output {name!r} reads {upstream!r}, which stands only in gradients of overrides"
            yield Diagnostic("TIL531", message)
    for name, label in function.labels:
        if name not in made:
            yield Diagnostic("TIL531", f"label {label!r} marks {name!r}, which no operation defines")


def _fault(place: Value | Operation, message: str) -> Diagnostic:
    return Diagnostic("TIL531", f"{place.name!r} {message}", place.span)


def _check(operation: Operation, defined: Mapping[str, Value | Operation]) -> Iterator[str]:
    if any(size < 0 for size in operation.shape):
        yield "has a negative size"
        return
    values = [defined[name] for name in operands(operation)]
    yield from (rule.told(operation, *values) for rule in broken(operation, *values))
    if isinstance(operation, Override):
        yield from _check_override(operation, defined)
    elif not isinstance(operation, Marker):
        yield from _check_computation(operation, defined)


def _check_computation(operation: Computation, defined: Mapping[str, Value | Operation]) -> Iterator[str]:
    match operation:
        case Constant():
            yield from _check_constant(operation)
        case ArrayConstant() | Cast() | Coordinate() | ShapeOf() | Reshape() | Gather():
            return
        case Elementwise():
            yield from _check_elementwise(operation, [defined[name] for name in operation.inputs])
        case Argsort(input=name, axis=axis):
            yield from _check_argsort(operation, axis, defined[name])
        case Scatter():
            yield from _check_scatter(operation, defined)
        case Contraction():
            yield from _check_contraction(operation, defined)
        case Reduce(input=name):
            yield from _check_reduce(operation, defined[name])
        case Scan():
            yield from _check_scan(operation, defined)
        case _:
            assert_never(operation)


def _check_constant(operation: Constant) -> Iterator[str]:
    dtype, value = operation.dtype, operation.value
    kind = bool if dtype.is_bool else float if dtype.is_float else int
    if type(value) is not kind or repr(rounded(value, dtype)) != repr(value):
        yield f"is {value!r}, which is no value of {dtype.value}"


def _check_elementwise(operation: Elementwise, inputs: list[Value | Operation]) -> Iterator[str]:
    op = operation.op
    if len(inputs) != op.info.arity:
        yield f"has {len(inputs)} operands, but {op.value} takes {op.info.arity}"
        return
    typed = inputs
    if op is Op.COND:
        typed = inputs[1:]
        if not inputs[0].dtype.is_bool:
            yield f"has a condition of {inputs[0].dtype.value}"
    dtype = typed[0].dtype
    if any(value.dtype is not dtype for value in typed):
        yield f"has operands of {', '.join(value.dtype.value for value in typed)}, which must be equal"
    if not op.works_on(dtype):
        yield f"applies {op.value} to {dtype.value}"
    result = DType.BOOL if op.info.compares else dtype
    if op is Op.BITS:
        if operation.dtype.is_bool or operation.dtype.bits != dtype.bits:
            yield f"reads {dtype.value} as {operation.dtype.value}"
    elif operation.dtype is not result:
        yield f"has dtype {operation.dtype.value}, not {result.value}"
    try:
        shape = broadcast_shape(tuple(value.shape for value in inputs))
    except ValueError:
        yield "has operands whose shapes do not broadcast"
        return
    if operation.shape != shape:
        yield f"has shape {list(operation.shape)}, not {list(shape)}"


def _check_argsort(operation: Argsort, axis: int, keys: Value | Operation) -> Iterator[str]:
    if not 0 <= axis < len(keys.shape) or len(operation.shape) != len(keys.shape):
        yield f"sorts along axis {axis} of rank {len(keys.shape)}"
        return
    if operation.shape[axis] > keys.shape[axis]:
        yield f"keeps {operation.shape[axis]} of {keys.shape[axis]} elements"
    others = (operation.shape[:axis], operation.shape[axis + 1 :])
    if others != (keys.shape[:axis], keys.shape[axis + 1 :]):
        yield "changes the size of another axis than that along which it sorts"
    if operation.dtype is not counting(keys.shape[axis]):
        yield f"cannot name places as {operation.dtype.value}"


def _check_scatter(operation: Scatter, defined: Mapping[str, Value | Operation]) -> Iterator[str]:
    updates, indices = defined[operation.updates], defined[operation.indices]
    rank = len(indices.shape)
    if operation.into is not None:
        yield from _check_same(operation, defined[operation.into])
    if (operation.into is None) is (operation.aggregation is Aggregation.ASSIGN):
        yield "replaces rows of nothing" if operation.into is None else "aggregates into rows of another value"
    if operation.ordered and operation.aggregation is not Aggregation.ASSIGN:
        yield "aggregates, and so has no last update"
    if indices.dtype not in (DType.I32, DType.I64):
        yield f"has indices of {indices.dtype.value}"
    if updates.shape[:rank] != indices.shape or operation.shape[1:] != updates.shape[rank:] or not operation.shape:
        yield "does not have the shape that its updates and indices give"
    elif operation.shape[0] == 0 and math.prod(updates.shape) > 0:
        yield "scatters to an empty axis"
    types = contraction_types(operation.aggregation, Combination.NONE, [operation.dtype])
    if operation.dtype is not updates.dtype or operation.dtype is not types.result:
        yield f"has dtype {operation.dtype.value}, but adds {updates.dtype.value}"
    if operation.accumulator is not types.accumulator:
        yield f"accumulates in {operation.accumulator.value}"


def _check_same(operation: Operation, source: Value | Operation) -> Iterator[str]:
    if (operation.dtype, operation.shape) != (source.dtype, source.shape):
        yield f"is {source.name!r} itself, but has another dtype or shape"


def _check_override(operation: Override, defined: Mapping[str, Value | Operation]) -> Iterator[str]:
    if operation.upstream is not None:
        upstream = defined[operation.upstream]
        if not isinstance(upstream, Upstream):
            yield f"has {upstream.name!r} as its upstream, which is none"
        elif (upstream.dtype, upstream.shape) != (arithmetic_type(operation.dtype), operation.shape):
            yield f"has an upstream {upstream.name!r} of another dtype or shape"
    for value, gradient in ((defined[x], defined[g]) for x, g in operation.pairs):
        if not value.dtype.is_float:
            yield f"gives a gradient to {value.name!r}, which is {value.dtype.value}"
        elif gradient.dtype is not arithmetic_type(value.dtype) or not broadcasts_to(gradient.shape, value.shape):
            yield f"gives {value.name!r} the gradient {gradient.name!r}, whose dtype or shape does not fit"


def _check_contraction(operation: Contraction, defined: Mapping[str, Value | Operation]) -> Iterator[str]:
    inputs = [defined[access.tensor] for access in operation.inputs]
    if len(inputs) != operation.combination.arity:
        yield f"has {len(inputs)} inputs, but {operation.combination.value!r} combines {operation.combination.arity}"
        return
    if len(operation.output) != len(operation.shape):
        yield f"is written with {len(operation.output)} indices, but has rank {len(operation.shape)}"
    for access, value in zip(operation.inputs, inputs, strict=True):
        if len(access.indices) != len(value.shape):
            yield f"reads {access.tensor!r} with {len(access.indices)} indices, but its rank is {len(value.shape)}"
    types = _types_of(operation, [value.dtype for value in inputs])
    for name, actual, right in (
        ("combines in", operation.operand_dtype, types.operand),
        ("aggregates in", operation.accumulator, types.accumulator),
        ("has dtype", operation.dtype, types.result),
    ):
        if actual is not right:
            yield f"{name} {actual.value}, not {right.value}"
    if operation.default is not None:
        default = defined[operation.default]
        if (default.dtype, default.shape) != (operation.dtype, operation.shape):
            yield f"has a default {operation.default!r} of another dtype or shape"
    accesses = [operation.output, *(access.indices for access in operation.inputs)]
    constraints = [(constraint.polynomial, constraint.bound) for constraint in operation.constraints]
    for index in unbounded_indices(accesses, constraints):
        yield f"has an index {index!r} without bounds"


def _types_of(operation: Contraction, inputs: list[DType]) -> ContractionTypes:
    """Return the required dtypes of a contraction; narrow factors may count as their converted dtype."""
    combination, operand = operation.combination, operation.operand_dtype
    types = contraction_types(operation.aggregation, combination, inputs)
    if combination is Combination.MUL and operation.dtype is not types.result and types.operand is operand:
        return contraction_types(operation.aggregation, combination, [operand] * len(inputs))
    return types


def _check_reduce(operation: Reduce, source: Value | Operation) -> Iterator[str]:
    axes, rank = operation.axes, len(source.shape)
    if any(not 0 <= axis < rank for axis in axes) or list(axes) != sorted(set(axes)):
        yield f"reduces along {list(axes)} of a tensor of rank {rank}"
        return
    if operation.combine.element(source.dtype) is not source.dtype:
        yield f"reduces {source.dtype.value} by {operation.combine.value}"
        return
    kept = tuple(size for axis, size in enumerate(source.shape) if axis not in axes)
    if operation.shape != kept:
        yield f"has shape {list(operation.shape)}, not {list(kept)}"
    state = rule_of(operation, source.dtype, source.shape).state
    if not 0 <= operation.result < len(state):
        yield f"is component {operation.result} of a state of {len(state)}"
    elif operation.dtype is not state[operation.result]:
        yield f"has dtype {operation.dtype.value}, not {state[operation.result].value}"


def _check_scan(operation: Scan, defined: Mapping[str, Value | Operation]) -> Iterator[str]:
    body, carries, sequences = operation.body, operation.carries, operation.sequences
    names = operands(operation)
    if operation.count is None:
        yield from _check_condition(operation)
    elif operation.count < 0:
        yield f"runs {operation.count} steps"
    if len(body.inputs) != len(names) or len(body.outputs) < len(carries):
        yield (
            f"passes {len(names)} values to a step with {len(body.inputs)} inputs and {len(body.outputs)} outputs,"
            f" of which {len(carries)} are carries"
        )
        return
    for position, (value, name) in enumerate(zip(body.inputs, names, strict=True)):
        given = defined[name]
        stacked = len(carries) <= position < len(carries) + len(sequences)
        wanted = TensorType(value.dtype, (operation.count or 0, *value.shape) if stacked else value.shape)
        if TensorType(given.dtype, given.shape) != wanted:
            actual = TensorType(given.dtype, given.shape)
            yield f"passes {name!r} for {value.name!r} of its step, which is {actual}, not {wanted}"
    for inner in body.operations:
        if isinstance(inner, ArrayConstant):
            yield f"holds the constant {inner.name!r} in its step, which is the same in all: pass it to the loop"
    made = {inner.name: inner for inner in body.operations}
    if any(name not in made for name in body.outputs):
        return  # a fault of the body
    for value, name in zip(body.inputs[: len(carries)], body.outputs, strict=False):
        new = made[name]
        if (new.dtype, new.shape) != (value.dtype, value.shape):
            was, now = TensorType(value.dtype, value.shape), TensorType(new.dtype, new.shape)
            yield f"has a carry {value.name!r} that is {was} before a step and {now} after it"
    if operation.result not in results_of(body, len(carries)):
        yield f"is {operation.result.part.value} {operation.result.number}, which the loop does not have"
    elif (kind := result_type(body, len(carries), operation.count, operation.result)) != TensorType(
        operation.dtype, operation.shape
    ):
        yield f"has type {TensorType(operation.dtype, operation.shape)}, not {kind}"


def _check_condition(operation: Scan) -> Iterator[str]:
    """Check a loop that runs as long as its first carry is true."""
    body = operation.body
    first = body.inputs[0] if operation.carries and body.inputs else None
    if first is None or (first.dtype, first.shape) != (DType.BOOL, ()):
        yield "has no count, so its first carry is one bool, which says whether there is a further step"
    if operation.sequences or operation.reverse or len(body.outputs) != len(operation.carries):
        yield "has no count, so it reads no sequences, has no direction, and stacks nothing"
    if operation.result.part is not ScanPart.FINAL:
        yield "has no count, so its results are the last values of carries"
