"""What a constant may be, and the dimensions that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.array_value import ArrayValue
from tileir.core.errors import Diagnostic
from tileir.tile.checks.scope import Kind
from tileir.tile.ir import Constant
from tileir.tile.text.grammar import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.tile.checks.scope import Scope
    from tileir.tile.ir import Function


def check_constant_arrays(function: Function, scope: Scope) -> Iterator[Diagnostic]:
    """Check that numbers fit 64 bits, and that constants name one dimension for each axis, of one size all over."""
    sizes: dict[str, tuple[int, str]] = {}
    for statement in function.statements:
        if not isinstance(statement, Constant):
            continue
        value, dims = statement.value, statement.dims
        if type(value) is int and not -(1 << 63) <= value <= MAX_INTEGER:
            message = f"{value} is no constant: an integer has at most 64 bits"
            yield Diagnostic("TIL212", message, statement.span)
        if dims is None:
            continue
        if len(dims) != len(statement.shape):
            rank = f"is {value}" if isinstance(value, ArrayValue) else "is a number, which has no axes"
            message = f"the constant {statement.name!r} {rank}, but names {len(dims)} dimensions"
            yield Diagnostic("TIL305", message, statement.name_span or statement.span)
            continue
        for axis, (dim, size) in enumerate(zip(dims, statement.shape, strict=True)):
            place = f"axis {axis} of {statement.name!r}"
            known, where = sizes.setdefault(dim.name, (size, place))
            if scope.definitions[dim.name].kind is not Kind.DIMENSION:
                yield Diagnostic("TIL202", f"{dim.name!r} is a tensor, so no dimension can have that name", dim.span)
            elif known != size:
                yield Diagnostic("TIL304", f"{dim.name!r} is {known} on {where}, but {size} on {place}", dim.span)
