"""Repetition: a function that runs several steps, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import NameScope, attrs, schema
from tileir.typed.ir import Function, Operation


def repeated(function: Function, updates: Mapping[str, str], count: int) -> Function:
    """Return the function of ``count`` steps; its results are those of the last one.

    Args:
        function: A step.
        updates: Names of inputs, each with the name of the result of equal type that is its value in the next step.
        count: The number of steps, at least one.
    """
    names = NameScope.of(each.name for each in (*function.inputs, *function.operations))
    operations: list[Operation] = []
    known: dict[str, str] = {}
    for number in range(count):
        current = dict(known)
        for operation in function.operations:
            name = operation.name if number == count - 1 else names.fresh(f"{operation.name}_step")
            operations.append(attrs.evolve(schema.with_used(operation, current), name=name))
            current[operation.name] = name
        known = {name: current.get(result, result) for name, result in updates.items()}
    return attrs.evolve(function, operations=tuple(operations))
