"""Typing of loops that run while something holds: a scan whose first carry is whether there is a further step.

The condition is computed once before the loop, and then at the end of each step, of the new carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tileir.core import DType, NameScope, Op, attrs, fail
from tileir.tile import ir as tile
from tileir.typed.dataflow import result_type, with_operands
from tileir.typed.inference.contraction import Scope
from tileir.typed.inference.elementwise import scalar
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.faults import Faults
from tileir.typed.inference.scan import (
    carry_of,
    check_carries,
    kind_of,
    with_carries,
    with_tensors,
    without_arrays,
)
from tileir.typed.inference.values import Group, Result, Scalar, Tensor
from tileir.typed.ir import Elementwise, Function, Operation, Scan, ScanPart, ScanResult, TensorType, Value


def while_loop(
    scope: Scope,
    statement: tile.While,
    infer: Callable[[tile.Function, Mapping[str, TensorType]], Function],
) -> Result:
    """Emit a loop: the last value of each carry, as a tuple where these are several.

    Raises:
        TileError: One diagnostic for each fault of the statement and of its functions.
        PoisonedError: It has no fault of its own, but uses a name that has.

    """
    faults = Faults()
    given, constants = (
        faults.each(lambda name: scalar(scope.lookup(name.name, name.span)), names)
        for names in (statement.carries, statement.constants)
    )
    faults.done()
    emission, read = scope.emission, [kind_of(value) for value in constants]
    declared = [parameter.dtype for parameter in statement.step.inputs]
    types, step = with_carries(given, declared, partial(_inferred, infer, statement.step, read))
    check_carries(statement, step, types)
    condition = _inferred(infer, statement.condition, read, types)
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


def _inferred(
    infer: Callable[[tile.Function, Mapping[str, TensorType]], Function],
    function: tile.Function,
    read: Sequence[TensorType],
    types: Sequence[TensorType],
) -> Function:
    names = [parameter.name for parameter in function.inputs]
    return infer(function, dict(zip(names, (*types, *read), strict=True)))


def _check_condition(statement: tile.While, condition: Function) -> None:
    """Refuse a condition that is anything but one bool."""
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
    """Return a function that reads tensors alone, no constant arrays of its own, and what it is passed for that."""
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
    """Emit the operations of a function of one result for what it is given."""
    known = {value.name: tensor.name for value, tensor in zip(function.inputs, given, strict=True)}
    for operation in function.operations:
        made = emission.add(attrs.evolve(with_operands(operation, known), name=emission.fresh()))
        known[operation.name] = made.name
    (output,) = function.outputs
    made_of = {operation.name: operation for operation in function.operations}
    return Tensor(known[output], made_of[output].dtype, made_of[output].shape)


def _joined(step: Function, condition: Function, carries: int) -> Function:
    """Return a step whose first carry, which it does not read, is the condition of the others."""
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
