"""Typed contractions as Tile statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.core.ops import Aggregation, Combination
from tileir.core.text.names import NameScope
from tileir.tile import ir as tile
from tileir.tile.ir import IndexName, IntLiteral, Name
from tileir.tile.text.grammar import is_index_name
from tileir.typed.raising.expressions import integer, polynomial

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tileir.poly.affine import Affine
    from tileir.tile.ir import Attribute, Expr
    from tileir.typed.ir import Contraction, Shape


def contraction_statement(
    operation: Contraction, names: Mapping[str, str], attributes: tuple[Attribute, ...]
) -> tile.Contraction:
    """Return the statement of a contraction; ``names`` says how Tile spells values."""
    indices = _index_names(operation)

    def spelt(access: Iterable[Affine]) -> tuple[Expr, ...]:
        return tuple(polynomial(index, indices) for index in access)

    return tile.Contraction(
        names[operation.name],
        spelt(operation.output),
        tuple(map(IntLiteral, operation.shape)),
        operation.aggregation,
        operation.combination,
        tuple(tile.Access(names[access.tensor], spelt(access.indices)) for access in operation.inputs),
        tuple(tile.Constraint(polynomial(c.polynomial, indices), integer(c.bound)) for c in operation.constraints),
        no_defract=not operation.reduce,
        default=None if operation.default is None else Name(names[operation.default]),
        attributes=(*attributes, tile.Attribute("finite")) if operation.finite else attributes,
        span=operation.span,
    )


def fill_statement(name: str, shape: Shape, scalar: str, attributes: tuple[Attribute, ...]) -> tile.Contraction:
    """Return the statement that copies the tensor ``scalar``, of rank 0, to every element of ``shape``."""
    return tile.Contraction(
        name,
        tuple(IndexName(f"i{axis}") for axis in range(len(shape))),
        tuple(map(IntLiteral, shape)),
        Aggregation.ASSIGN,
        Combination.NONE,
        (tile.Access(scalar, ()),),
        attributes=attributes,
    )


def has_points(operation: Contraction) -> bool:
    """Return whether index points can count; inference refuses statements of which it is plain that none does."""
    return not (
        any(c.polynomial.is_constant and not 0 <= c.polynomial.offset < c.bound for c in operation.constraints)
        or any(polynomial.is_never_integral for polynomial in _polynomials(operation))
    )


def _index_names(operation: Contraction) -> dict[str, str]:
    """Return other names for the index variables that Tile cannot spell."""
    used = dict.fromkeys(index for affine in _polynomials(operation) for index in affine.indices)
    scope = NameScope.of(index for index in used if is_index_name(index))
    return {index: scope.fresh("i") for index in used if not is_index_name(index)}


def _polynomials(operation: Contraction) -> list[Affine]:
    """Return all index polynomials: those of the output, of the inputs, of the constraints."""
    accesses = (operation.output, *(access.indices for access in operation.inputs))
    return [*(index for access in accesses for index in access), *(c.polynomial for c in operation.constraints)]
