"""Elements of 16 bits that are moved as they are, where a program widens them first and narrows them behind.

Operations of the library compute in f32, so that gradients are added up before they are rounded. Where they only move
elements, ``as_f16(O)`` of ``O[i] = widen(X)[i + 1]`` is a move of X, and no f32 is stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import Aggregation, Combination, DType, NameScope, attrs
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Cast, Contraction, Function, Gather, Operation, Reshape


def with_narrow_moves(function: Function) -> Function:
    """Return ``function`` with moves before the casts that widen what is moved; itself where there are none."""
    function = with_bodies(function, with_narrow_moves)
    dtypes = {value.name: value.dtype for value in (*function.inputs, *function.operations)}
    widened = {
        each.name: (each.input, dtypes[each.input])
        for each in function.operations
        if isinstance(each, Cast) and dtypes[each.input].is_narrow and each.dtype.is_float
    }
    if not widened:
        return function
    names = NameScope.of(dtypes)
    operations: list[Operation] = []
    for operation in function.operations:
        moved = _moved(operation, widened, names)
        if moved is None:
            operations.append(operation)
        else:
            widened[operation.name] = moved.name, moved.dtype
            cast = Cast(operation.name, moved.name, operation.dtype, operation.shape, span=operation.span)
            operations += [moved, cast]
    changed = len(operations) > len(function.operations)
    return attrs.evolve(function, operations=tuple(operations)) if changed else function


def _moved(operation: Operation, widened: Mapping[str, tuple[str, DType]], names: NameScope) -> Operation | None:
    """Return the move of what was there before it was widened; None where something else is computed."""
    match operation:
        case Reshape(input=name) if name in widened:
            source, dtype = widened[name]
            return attrs.evolve(operation, name=names.fresh(operation.name), input=source, dtype=dtype)
        case Gather(data=name) if name in widened:
            source, dtype = widened[name]
            return attrs.evolve(operation, name=names.fresh(operation.name), data=source, dtype=dtype)
        case Contraction(
            aggregation=Aggregation.ASSIGN, combination=Combination.NONE, inputs=(access,), default=default
        ) if access.tensor in widened:
            source, dtype = widened[access.tensor]
            before = (None, dtype) if default is None else widened.get(default, ("", DType.BOOL))
            if before[1] is not dtype:
                return None
            inputs = (attrs.evolve(access, tensor=source),)
            return attrs.evolve(
                operation, name=names.fresh(operation.name), inputs=inputs, operand_dtype=dtype, accumulator=dtype,
                dtype=dtype, default=before[0],
            )  # fmt: skip
        case _:
            return None
