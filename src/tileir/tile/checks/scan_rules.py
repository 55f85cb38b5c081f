"""Rules for scans: what is passed to the step, and what it gives back.

What a constant may be, and the dimensions that it names.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileir.core import ArrayValue, Diagnostic
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.checks.scope import Kind, Scope
from tileir.tile.ir import Constant, Function, IntLiteral, Name, Scan, While
from tileir.tile.text.grammar import MAX_INTEGER


def check_scan(statement: Scan, scope: Scope) -> Iterator[Diagnostic]:
    """Yield what is wrong with a scan, its step itself left out."""
    where, step, given = statement.name_span or statement.span, statement.step, statement.operands
    if statement.count is None and not statement.sequences:
        message = f"{statement.name!r} has no sequences, so say how many steps there are: scan(…) N times function"
        yield Diagnostic("TIL218", message, where)
    if len(step.inputs) != len(given):
        passed, taken = count_of(len(given), "tensor", "tensors"), count_of(len(step.inputs), "input", "inputs")
        note = "the inputs of a step are the carries, a slice of each sequence, and the constants, in this order"
        yield Diagnostic("TIL218", f"{statement.name!r} passes {passed}, but its step has {taken}", where, (note,))
    if len(step.outputs) < len(statement.carries):
        carries = count_of(len(statement.carries), "carry", "carries")
        made = count_of(len(step.outputs), "output", "outputs")
        note = "the outputs of a step are a new value for each carry, and then what it puts out"
        yield Diagnostic("TIL218", f"{statement.name!r} has {carries}, but its step has {made}", where, (note,))
    yield from _check_operands((*statement.carries, *statement.sequences), given, step, scope)


def check_while(statement: While, scope: Scope) -> Iterator[Diagnostic]:
    """Yield what is wrong with a loop that runs while something holds, its functions themselves left out."""
    where, given, carries = statement.name_span or statement.span, statement.operands, statement.carries
    if not carries:
        message = f"{statement.name!r} has no carries, so its condition would never change"
        yield Diagnostic("TIL218", message, where)
    for function, kind in ((statement.condition, "condition"), (statement.step, "step")):
        if len(function.inputs) != len(given):
            passed, taken = count_of(len(given), "tensor", "tensors"), count_of(len(function.inputs), "input", "inputs")
            note = "the inputs of condition and step are the carries and the constants, in this order"
            yield Diagnostic(
                "TIL218", f"{statement.name!r} passes {passed}, but its {kind} has {taken}", where, (note,)
            )
        wanted = len(carries) if function is statement.step else 1
        if len(function.outputs) != wanted:
            made, needed = count_of(len(function.outputs), "output", "outputs"), f"{wanted}"
            note = "the output of a condition is one bool, and those of a step are a new value for each carry"
            message = f"the {kind} of {statement.name!r} has {made}, but {needed} is needed"
            yield Diagnostic("TIL218", message, where, (note,))
        yield from _check_operands(carries, given if function is statement.step else (), function, scope)


def _check_operands(
    changing: tuple[Name, ...], given: tuple[Name, ...], step: Function, scope: Scope
) -> Iterator[Diagnostic]:
    """Check that sizes are computed from nothing that changes, and that what is passed are tensors."""
    sizing = sizing_inputs(step)
    for operand, parameter in zip(changing, step.inputs, strict=False):
        if parameter.name in sizing:
            message = f"{operand.name!r} changes from step to step, but sizes of the step are computed from it"
            note = "pass what sizes are computed from among the constants of the loop"
            yield Diagnostic("TIL204", message, operand.span, (note,))
    for operand in given:
        definition = scope.definitions.get(operand.name)
        if definition is not None and definition.kind is Kind.DIMENSION:
            message = f"{operand.name!r} is a dimension, not a tensor; a step has the dimensions of its own inputs"
            yield Diagnostic("TIL205", message, operand.span)


def count_of(number: int, one: str, many: str) -> str:
    """Return a number with what is counted."""
    return f"{number} {one if number == 1 else many}"


def check_constant_arrays(function: Function, scope: Scope) -> Iterator[Diagnostic]:
    """Check that numbers fit 64 bits, and that constants name one dimension for each axis, of one size all over."""
    sizes: dict[str, tuple[int, str]] = {}
    for statement in function.statements:
        if not isinstance(statement, Constant):
            continue
        value, dims = statement.value, statement.dims
        if type(value) is int and not -(1 << 63) <= value <= MAX_INTEGER:
            yield Diagnostic("TIL212", f"{value} is no constant: an integer has at most 64 bits", statement.span)
        if dims is None:
            continue
        if len(dims) != len(statement.shape):
            rank = f"is {value}" if isinstance(value, ArrayValue) else "is a number, which has no axes"
            message = f"the constant {statement.name!r} {rank}, but names {len(dims)} dimensions"
            yield Diagnostic("TIL305", message, statement.name_span or statement.span)
            continue
        for axis, (dim, size) in enumerate(zip(dims, statement.shape, strict=True)):
            place = f"axis {axis} of {statement.name!r}"
            if isinstance(dim, IntLiteral):
                if dim.value != size:
                    message = f"{place} is declared as {dim.value}, but has {size} elements"
                    yield Diagnostic("TIL304", message, dim.span)
                continue
            known, where = sizes.setdefault(dim.name, (size, place))
            if scope.definitions[dim.name].kind is not Kind.DIMENSION:
                yield Diagnostic("TIL202", f"{dim.name!r} is a tensor, so no dimension can have that name", dim.span)
            elif known != size:
                yield Diagnostic("TIL304", f"{dim.name!r} is {known} on {where}, but {size} on {place}", dim.span)
