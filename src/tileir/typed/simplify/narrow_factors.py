"""Factors of 16 bits that are read as they are, where sums of their products are kept in f32.

A program says ``W = as_f32(A); C[i, j] = +(W[i, k] * B[k, j])`` to have sums that are not rounded to f16. A contraction
converts its factors itself, and so do instructions for matrices, so the cast need not be stored.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileir.core import Combination, DType, accumulator, attrs
from tileir.typed.dataflow import with_bodies, without_dead
from tileir.typed.ir import Access, Cast, Contraction, Function, Operation, Value


def with_narrow_factors(function: Function) -> Function:
    """Return ``function`` with products of what was cast to f32 before; itself where there are none."""
    function = with_bodies(function, with_narrow_factors)
    definitions: dict[str, Value | Operation] = {
        value.name: value for value in (*function.inputs, *function.operations)
    }
    operations = tuple(_read_narrow(operation, definitions) for operation in function.operations)
    if all(new is old for new, old in zip(operations, function.operations, strict=True)):
        return function
    return without_dead(attrs.evolve(function, operations=operations))


def _read_narrow(operation: Operation, definitions: Mapping[str, Value | Operation]) -> Operation:
    if not isinstance(operation, Contraction) or operation.combination is not Combination.MUL:
        return operation
    inputs = tuple(_before_cast(access, operation.operand_dtype, definitions) for access in operation.inputs)
    return operation if inputs == operation.inputs else attrs.evolve(operation, inputs=inputs)


def _before_cast(access: Access, dtype: DType, definitions: Mapping[str, Value | Operation]) -> Access:
    """Return an access to what is cast to ``dtype``, in which such values are added up; else ``access``."""
    cast = definitions[access.tensor]
    if not isinstance(cast, Cast) or cast.dtype is not dtype:
        return access
    source = definitions[cast.input].dtype
    narrow = source.is_float and source is not dtype and accumulator(source) is dtype
    return attrs.evolve(access, tensor=cast.input) if narrow else access
