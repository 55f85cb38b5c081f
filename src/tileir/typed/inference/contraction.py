"""Typing of contractions: exact polynomials, sizes, ranks, dtypes, and errors of index mathematics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from tileir.core import Aggregation, Combination, Diagnostic, DType, Span, TileError, contraction_types, fail
from tileir.poly.affine import Affine
from tileir.poly.bounds import constraint_only_indices, solve, unbounded_indices
from tileir.poly.coverage import injective
from tileir.tile import ir as tile
from tileir.tile.checks.polynomial_rules import in_polynomial
from tileir.tile.ir import BinaryOperator, Expr
from tileir.tile.traversal import Role, children, expressions, index_names
from tileir.typed.dims import known_integer, size
from tileir.typed.inference.elementwise import check_storage, common_dtype, scalar
from tileir.typed.inference.emission import Emission
from tileir.typed.inference.faults import Faults
from tileir.typed.inference.values import ConstantScalar, Operand, Scalar, Tensor
from tileir.typed.ir import Access, Constraint, Contraction, Shape

T = TypeVar("T")


def bottom_up(root: Expr, combine: Callable[[Expr, Sequence[T]], T]) -> T:
    """Return ``combine(node, results of its operands)`` of ``root``; operands come first, left to right."""
    pending = [root]
    order = []
    while pending:
        node = pending.pop()
        order.append(node)
        pending.extend(children(node))
    results: list[T] = []
    for node in reversed(order):
        first = len(results) - len(children(node))
        result = combine(node, results[first:])
        del results[first:]
        results.append(result)
    return results[0]


_FINITE: Final = "finite"


class Scope(Protocol):
    """Services of the surrounding function for a contraction."""

    @property
    def emission(self) -> Emission:
        """Destination of operations."""

    def lookup(self, name: str, span: Span | None) -> Operand:
        """Return the value of ``name``; raise if it is undefined or poisoned."""

    def evaluate(self, expr: Expr) -> Operand:
        """Return the value of an elementwise expression."""


def contract(scope: Scope, statement: tile.Contraction) -> Tensor:
    """Emit a contraction and the operations for its operands.

    Raises:
        TileError: One diagnostic for each fault of the statement.
        PoisonedError: It has no fault of its own, but uses a name whose statement has one.
    """
    faults = Faults()
    shape = faults.each(lambda expr: size(scope.evaluate(expr), "a size"), statement.sizes)
    output = faults.each(partial(_index, scope), statement.indices)
    scalars = faults.each(lambda access: _read(scope, access), statement.inputs)
    accesses = faults.each(lambda access: faults.each(partial(_index, scope), access.indices), statement.inputs)
    constraints = faults.each(partial(_constraint, scope), statement.constraints)
    default = faults.each(lambda name: scalar(scope.lookup(name.name, name.span)), _default(statement))
    faults.done()
    if len(output) != len(shape):
        message = f"{statement.name!r} has {len(output)} indices but {len(shape)} sizes; write one size for each index"
        raise fail("TIL208", message, statement.name_span or statement.span)
    if len(scalars) != statement.combination.arity:
        message = f"{statement.combination.value!r} combines {statement.combination.arity} tensors, not {len(scalars)}"
        raise fail("TIL210", message, statement.span)
    tensors = _combined(scope.emission, scalars, statement)
    types = contraction_types(statement.aggregation, statement.combination, [t.dtype for t in tensors])
    emission = scope.emission
    draft = Contraction(
        statement.name,
        output,
        tuple(Access(t.name, indices) for t, indices in zip(tensors, accesses, strict=True)),
        statement.aggregation,
        statement.combination,
        types.operand,
        types.accumulator,
        types.result,
        shape,
        constraints,
        _default_name(scope, statement, default, types.result, shape),
        not statement.no_defract,
        any(attribute.name == _FINITE for attribute in statement.attributes),
        span=statement.span,
    )
    check_contraction(draft, [t.shape for t in tensors], statement)
    if emission.observer is not None:
        emission.observer.contraction(statement, draft, [t.shape for t in tensors])
        partners = tensors[:2] if statement.combination is Combination.COND else tensors
        emission.observer.promoted(emission, partners, common_dtype(partners), statement.span)
    return emission.add(draft)


def check_contraction(node: Contraction, shapes: Sequence[Shape], statement: tile.Contraction) -> None:
    """Refuse statements that index mathematics shows to be wrong for these shapes.

    Raises:
        TileError: TIL401, TIL403, TIL404 and TIL407 underline the index variable, constraint or polynomial; TIL406, an
            assignment that may write an element twice; TIL405, numbers out of range.
    """
    faults = list(_index_faults(node, statement))
    if faults:
        raise TileError(faults)
    accesses = [node.output, *(access.indices for access in node.inputs)]
    try:
        domain = solve(accesses, [node.shape, *shapes], _pairs(node), node.reduce)
        single = (
            node.aggregation is not Aggregation.ASSIGN
            or domain is None
            or injective(domain.accesses[0], dict(domain.ranges), domain.constraints)
        )
    except TileError as error:
        raise TileError(Diagnostic(d.code, d.message, statement.span, d.notes) for d in error.diagnostics) from None
    if not single:
        raise fail(
            "TIL406",
            f"several values may meet in one element of {statement.name!r}; write +, *, > or < to say what becomes "
            "of them, or constrain the indices",
            statement.span,
        )


def _index_faults(node: Contraction, statement: tile.Contraction) -> Iterator[Diagnostic]:
    """Yield faults that do not depend on extents, each with its place in the text."""
    accesses = [node.output, *(access.indices for access in node.inputs)]
    polynomials = [*(p for access in accesses for p in access), *(c.polynomial for c in node.constraints)]
    places = {name.name: name.span for name in reversed(tuple(_index_variables(statement)))}
    used = {index for polynomial in polynomials for index in polynomial.indices}
    unbounded = dict.fromkeys((*unbounded_indices(accesses, _pairs(node)), *sorted(places.keys() - used)))
    for name in unbounded:
        message = f"index {name!r} has no bounds: use it alone in some access, or add a constraint such as '{name} < N'"
        yield Diagnostic("TIL401", message, places.get(name))
    for name in constraint_only_indices(accesses, _pairs(node)):
        message = f"index {name!r} stands only in constraints: use it in some access, or remove it"
        yield Diagnostic("TIL403", message, places.get(name))
    for constraint, source in zip(node.constraints, statement.constraints, strict=True):
        if constraint.polynomial.is_constant and not 0 <= constraint.polynomial.offset < constraint.bound:
            value = f"0 <= {constraint.polynomial} < {constraint.bound}"
            message = f"the constraint {value} is false whatever the indices are, so nothing would be computed"
            yield Diagnostic("TIL404", message, source.span)
    written = [*statement.indices, *(index for access in statement.inputs for index in access.indices)]
    written += [constraint.polynomial for constraint in statement.constraints]
    for polynomial, expr in zip(polynomials, written, strict=True):
        if polynomial.is_never_integral:
            message = f"{polynomial} is never an integer, so no point counts: what has an index is divided exactly"
            yield Diagnostic("TIL407", message, expr.span)


def _index_variables(statement: tile.Contraction) -> Iterator[tile.IndexName]:
    for place, root in expressions(statement):
        if place is Role.POLYNOMIAL:
            yield from index_names(root)


def _pairs(node: Contraction) -> tuple[tuple[Affine, int], ...]:
    return tuple((c.polynomial, c.bound) for c in node.constraints)


def _read(scope: Scope, access: tile.Access) -> Scalar:
    value = scalar(scope.lookup(access.tensor, access.span))
    if len(value.shape) != len(access.indices):
        message = f"{access.tensor!r} has shape {list(value.shape)}, but is read with {len(access.indices)} indices"
        raise fail("TIL209", message, access.span)
    return value


def _combined(emission: Emission, values: Sequence[Scalar], statement: tile.Contraction) -> list[Tensor]:
    """Return the operands of a contraction as tensors; constants and numbers adapt to the other operands."""
    partners = values[:2] if statement.combination is Combination.COND else values
    check_storage([(repr(a.tensor), v) for a, v in zip(statement.inputs, partners, strict=False)], statement.span)
    dtype = common_dtype(partners)
    spans = [access.span for access in statement.inputs]
    rows = zip(partners, spans, strict=False)
    found = [v if isinstance(v, Tensor) else emission.literal(v, dtype, span) for v, span in rows]
    return [*found, *(emission.tensor(value, spans[2]) for value in values[len(found) :])]


def _constraint(scope: Scope, constraint: tile.Constraint) -> Constraint:
    bound = known_integer(scope.evaluate(constraint.bound), "a bound")
    return Constraint(_index(scope, constraint.polynomial), bound)


def _default(statement: tile.Contraction) -> tuple[tile.Name, ...]:
    return () if statement.default is None else (statement.default,)


def _default_name(
    scope: Scope, statement: tile.Contraction, default: Sequence[Scalar], dtype: DType, shape: Shape
) -> str | None:
    """Return the default tensor in the dtype of the result; it takes no part in promotion."""
    if statement.default is None:
        return None
    (value,) = default
    if value.shape != shape:
        message = f"default {statement.default.name!r} has shape {list(value.shape)}, but the result has {list(shape)}"
        raise fail("TIL310", message, statement.default.span)
    check_storage(
        [(repr(statement.default.name), value), (repr(statement.name), ConstantScalar(0, dtype))], statement.span
    )
    if isinstance(value, Tensor):
        return scope.emission.cast(value, dtype, statement.default.span).name
    return scope.emission.literal(value, dtype, statement.default.span).name


def _index(scope: Scope, polynomial: Expr) -> Affine:
    """Return an index polynomial: exact if it contains an index; all other parts follow the arithmetic of sizes."""

    def combine(node: Expr, operands: Sequence[Affine | None]) -> Affine | None:
        """Return the polynomial at ``node``, or None if it contains no index."""
        if isinstance(node, tile.IndexName):
            return Affine.index(node.name)
        if not in_polynomial(node):
            raise fail("TIL214", "an index polynomial has only integers, dimensions, indices and + - * /", node.span)
        if all(operand is None for operand in operands):
            return None
        parts = [
            _size_part(scope, child) if part is None else part
            for child, part in zip(children(node), operands, strict=True)
        ]
        return _binary(node.operator, parts[0], parts[1], node.span) if isinstance(node, tile.Binary) else -parts[0]

    found = bottom_up(polynomial, combine)
    return _size_part(scope, polynomial) if found is None else found


def _size_part(scope: Scope, expr: Expr) -> Affine:
    """Return a part without index variables, evaluated like a size."""
    purpose = f"{expr.name!r} in an index polynomial" if isinstance(expr, tile.Name) else "a part of a polynomial"
    return Affine.constant(known_integer(scope.evaluate(expr), purpose))


def _binary(operator: BinaryOperator, left: Affine, right: Affine, span: Span | None) -> Affine:
    match operator:
        case BinaryOperator.ADD:
            return left + right
        case BinaryOperator.SUB:
            return left - right
        case BinaryOperator.MUL if left.is_constant:
            return right * left.offset
        case BinaryOperator.MUL if right.is_constant:
            return left * right.offset
        case BinaryOperator.DIV if right.is_constant and right.offset != 0:
            return left / right.offset
        case _:
            raise fail(
                "TIL402", "an index polynomial can be multiplied and divided by constants other than 0 only", span
            )
