"""Replacement of operations by several: one walk over a function, with shapes, fresh names, and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tileir.core import NameScope, attrs, grouped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tileir.typed.ir import Function, Operation, Shape

    Replacement: TypeAlias = Callable[[Operation, Mapping[str, Shape], NameScope], Sequence[Operation]]
    """From an operation, the shapes of all values before it and the names in use, to operations that end with its
    value.
    """


def with_replaced(function: Function, replacement: Replacement) -> Function:
    """Return a function with each operation replaced; itself if each one became a single operation.

    The replacement gets the labels of the operation.
    """
    shapes = {value.name: value.shape for value in function.inputs}
    names = NameScope.of((*shapes, *(operation.name for operation in function.operations)))
    labels = grouped(function.labels)
    operations: list[Operation] = []
    handed: list[tuple[str, str]] = []
    for operation in function.operations:
        parts = replacement(operation, shapes, names)
        shapes.update((part.name, part.shape) for part in parts)
        operations.extend(parts)
        handed.extend((part.name, label) for part in parts[:-1] for label in labels.get(operation.name, ()))
    if len(operations) == len(function.operations):
        return function
    return attrs.evolve(function, operations=tuple(operations), labels=(*function.labels, *handed))
