"""Aggregations that merge at most one value into each element, as assignments, which need no start value.

Programs say so where they move or combine elements, as in ``O[i, j : N, M] = +(X[j] - Z[i])``. An assignment is inlined
where it is read, as elementwise operations are; an aggregation would be stored. The one difference is the sign of zero,
which sums do not define: a sum of one value is 0 + x in the interpreter, and x here, so that -0 stays -0.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from tileir.core.errors import TileError
from tileir.core.ops import Aggregation
from tileir.poly.bounds import solve
from tileir.poly.coverage import injective
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import Contraction, Function, Operation, Value
from tileir.typed.rules import contraction_types


def with_assignments(function: Function) -> Function:
    """Return ``function`` with assignments for aggregations that provably merge nothing; itself where it has none."""
    function = with_bodies(function, with_assignments)
    definitions: dict[str, Value | Operation] = {
        value.name: value for value in (*function.inputs, *function.operations)
    }
    operations = tuple(_assigned(operation, definitions) for operation in function.operations)
    if all(new is old for new, old in zip(operations, function.operations, strict=True)):
        return function
    return attrs.evolve(function, operations=operations)


def _assigned(operation: Operation, definitions: Mapping[str, Value | Operation]) -> Operation:
    if not isinstance(operation, Contraction) or operation.aggregation is Aggregation.ASSIGN:
        return operation
    written = {index for polynomial in operation.output for index in polynomial.indices}
    read = {index for access in operation.inputs for polynomial in access.indices for index in polynomial.indices}
    if not read <= written:
        return operation
    sources = [definitions[access.tensor] for access in operation.inputs]
    types = contraction_types(Aggregation.ASSIGN, operation.combination, [source.dtype for source in sources])
    if types.result is not operation.dtype or not _is_single(operation, [source.shape for source in sources]):
        return operation
    return attrs.evolve(
        operation, aggregation=Aggregation.ASSIGN, operand_dtype=types.operand, accumulator=types.accumulator
    )


def _is_single(operation: Contraction, shapes: list[tuple[int, ...]]) -> bool:
    """Return whether it is proved that no two valid points write one element."""
    accesses = [operation.output, *(access.indices for access in operation.inputs)]
    constraints = [(constraint.polynomial, constraint.bound) for constraint in operation.constraints]
    try:
        domain = solve(accesses, [operation.shape, *shapes], constraints, operation.reduce)
        return domain is not None and injective(domain.accesses[0], dict(domain.ranges), domain.constraints)
    except TileError:  # numbers out of range
        return False
