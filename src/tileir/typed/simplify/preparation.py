"""The last step of the typed stage: what differentiation left behind goes, and only computations remain.

Aggregations that merge at most one value into each element, as assignments, which need no start value.

Programs say so where they move or combine elements, as in ``O[i, j : N, M] = +(X[j] - Z[i])``. An assignment is inlined
where it is read, as elementwise operations are; an aggregation would be stored. The one difference is the sign of zero,
which sums do not define: a sum of one value is 0 + x in the interpreter, and x here, so that -0 stays -0.

Computing forward values again for the backward pass, from those that are kept.

The rule is that of Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost" (2016). Kept are
inputs, outputs, constants, and what a checkpoint marks. Every other value that the backward pass recalls is computed
again, with all that leads to it from what is kept, just before the backward pass first reads it. So it goes segment by
segment, from one checkpoint to the next. A backward pass computes a value again only once; another one does so anew.

Rows replaced by the last of their updates, found by the greatest number, for devices whose threads have no order.

```text
O = scatter_assign(U, I, L) ordered    ->    N = coordinate(0)            number of each update
                                             W = scatter_max(N, I)        the last update of each row
                                             O = cond(W >= 0, gather(U, W), L)
```

Factors of 16 bits that are read as they are, where sums of their products are kept in f32.

A program says ``W = as_f32(A); C[i, j] = +(W[i, k] * B[k, j])`` to have sums that are not rounded to f16. A contraction
converts its factors itself, and so do instructions for matrices, so the cast need not be stored.

Elements of 16 bits that are moved as they are, where a program widens them first and narrows them behind.

Operations of the library compute in f32, so that gradients are added up before they are rounded. Where they only move
elements, ``as_f16(O)`` of ``O[i] = widen(X)[i + 1]`` is a move of X, and no f32 is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from tileir.core import Aggregation, Combination, DType, NameScope, Op, TileError, accumulator, attrs, contraction_types
from tileir.poly.bounds import solve
from tileir.poly.coverage import injective
from tileir.typed.dataflow import with_bodies, with_operands, without_dead
from tileir.typed.ir import (
    Access,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Gather,
    Marker,
    Operation,
    Override,
    Recall,
    Reshape,
    Scan,
    Scatter,
    Upstream,
    Value,
    counting,
    operands,
)
from tileir.typed.reductions import with_components_named
from tileir.typed.simplify.bands import with_bands
from tileir.typed.simplify.distribution import distributed
from tileir.typed.simplify.factorisation import factorised
from tileir.typed.simplify.prefixes import with_ends
from tileir.typed.simplify.separation import separated
from tileir.typed.simplify.simplifier import simplify


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


def with_last_updates(function: Function) -> Function:
    """Return ``function`` without ordered assignments; itself where it has none."""
    function = with_bodies(function, with_last_updates)
    if not any(isinstance(each, Scatter) and each.ordered for each in function.operations):
        return function
    definitions = {each.name: each for each in (*function.inputs, *function.operations)}
    names = NameScope.of(definitions)
    operations: list[Operation] = []
    for operation in function.operations:
        if isinstance(operation, Scatter) and operation.ordered:
            operations += _by_numbers(operation, definitions, names)
        else:
            operations.append(operation)
    return attrs.evolve(function, operations=tuple(operations))


def _by_numbers(
    operation: Scatter, definitions: Mapping[str, Value | Operation], names: NameScope
) -> Iterator[Operation]:
    """Yield what finds the last update of each row, and puts it there."""
    assert operation.into is not None  # it replaces
    places, shape, dtype = definitions[operation.indices].shape, operation.shape, operation.dtype
    count = math.prod(places)
    if count == 0:
        yield Elementwise(operation.name, Op.IDENT, (operation.into,), dtype, shape, span=operation.span)
        return
    counted, rows, how = counting(count), shape[:1], Aggregation.MAX
    number, own, last, none, is_hit, hit, updates, found = (names.fresh(operation.name) for _ in range(8))
    yield Coordinate(number, 0, counted, (count,))
    yield Reshape(own, number, counted, places)
    yield Scatter(last, own, operation.indices, counted, counted, rows, how, span=operation.span)
    yield Constant(none, counted, 0)
    yield Elementwise(is_hit, Op.CMP_GE, (last, none), DType.BOOL, rows)
    yield Reshape(hit, is_hit, DType.BOOL, (*rows, *[1] * (len(shape) - 1)))
    yield Reshape(updates, operation.updates, dtype, (count, *shape[1:]))
    yield Gather(found, updates, last, dtype, shape)
    yield Elementwise(operation.name, Op.COND, (hit, found, operation.into), dtype, shape, span=operation.span)


def prepared(function: Function, *, doubles: bool = True, in_order: bool = True) -> Function:
    """Return an equivalent function for the stages to come: simplified, without markers, with recalls carried out.

    What is computed twice to save memory stays so: after that, equal operations are no longer merged. Aggregations are
    separated last, since what they become has no derivative as simple as theirs.

    Args:
        function: The function.
        doubles: Whether the device computes in f64.
        in_order: Whether the device has updates that replace elements made one after the other; if not, which update
            is the last one is found by all threads.
    """
    simple = simplify(with_assignments(function if in_order else with_last_updates(function)))
    moved = with_bands(with_narrow_moves(simple))
    if moved is not simple:
        simple = simplify(moved)
    if _has_markers(simple):
        recalls = any(isinstance(operation, Recall) for operation in simple.operations)
        simple = simplify(unmarked(simple), merge=not recalls)
    short = distributed(factorised(with_components_named(simple)), doubles=doubles)
    return with_narrow_factors(with_ends(separated(short)))


def unmarked(function: Function) -> Function:
    """Return ``function`` without markers and templates; itself where it has none.

    Recalls become repeated operations, as :mod:`tileir.typed.simplify.preparation` says; all other markers their
    operand.
    """
    if not _has_markers(function):
        return function
    function = rematerialised(with_bodies(function, unmarked))
    outputs = frozenset(function.outputs)
    forwarded: dict[str, str] = {}
    operations: list[Operation] = []
    for old in function.operations:
        operation = with_operands(old, forwarded)
        if not isinstance(operation, Marker) or isinstance(operation, Upstream):
            operations.append(operation)
        elif operation.name in outputs:
            name, shape = operation.name, operation.shape
            operations.append(Elementwise(name, Op.IDENT, (operation.input,), operation.dtype, shape, span=old.span))
        else:
            forwarded[operation.name] = operation.input
    labels = tuple((forwarded.get(name, name), label) for name, label in function.labels)
    return without_dead(attrs.evolve(function, operations=tuple(operations), labels=labels))


def _has_markers(function: Function) -> bool:
    bodies = {operation.body for operation in function.operations if isinstance(operation, Scan)}
    return any(isinstance(operation, Marker) for operation in function.operations) or any(map(_has_markers, bodies))


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


_SAME: Final = (Override, Checkpoint, Recall)


def rematerialised(function: Function) -> Function:
    """Return ``function`` with repeated operations before each recall that needs them; itself without recalls.

    A recall stays, and reads what was computed for it. The cost is linear in the number of operations, before and
    after, but for sorting those that one recall needs.
    """
    if not any(isinstance(operation, Recall) for operation in function.operations):
        return function
    work = _Work.of(function)
    return attrs.evolve(function, operations=tuple(after for op in function.operations for after in work.visit(op)))


@attrs.define(eq=False, repr=False)
class _Work:
    """Which values are kept, and what each backward pass has computed again."""

    positions: dict[str, int]
    operations: tuple[Operation, ...]
    kept: frozenset[str]
    names: NameScope
    again: dict[int, dict[str, str]] = attrs.field(factory=dict, init=False)  # by backward pass and name

    @classmethod
    def of(cls, function: Function) -> _Work:
        """Find what ``function`` keeps."""
        positions = {operation.name: number for number, operation in enumerate(function.operations)}
        inputs = [value.name for value in function.inputs]
        kept = {*inputs, *function.outputs}
        for operation in reversed(function.operations):
            if isinstance(operation, Checkpoint | Constant | ArrayConstant):
                kept.add(operation.name)
            if operation.name in kept and isinstance(operation, Reshape | Override | Checkpoint):
                kept.add(operation.input)  # the same memory
        return cls(positions, function.operations, frozenset(kept), NameScope.of((*inputs, *positions)))

    def visit(self, operation: Operation) -> Iterator[Operation]:
        """Yield what comes in place of an operation: itself, and what a recall needs before it."""
        if not isinstance(operation, Recall):
            yield operation
            return
        again = self.again.setdefault(operation.sweep, {})
        yield from self._repeated(operation.input, again)
        yield with_operands(operation, again)

    def _repeated(self, name: str, again: dict[str, str]) -> Iterator[Operation]:
        """Yield the operations that compute ``name``, unless it is kept or was computed; ``again`` gets their names."""
        for position in self._missing(name, again):
            operation = self.operations[position]
            if isinstance(operation, _SAME):
                again[operation.name] = again.get(operation.input, operation.input)
            else:
                copy = self.names.fresh(operation.name)
                yield attrs.evolve(with_operands(operation, again), name=copy)
                again[operation.name] = copy

    def _missing(self, name: str, again: dict[str, str]) -> list[int]:
        """Return where those values are defined, in order, that ``name`` needs and nobody has."""
        found: set[int] = set()
        pending = [name]
        while pending:
            wanted = pending.pop()
            position = self.positions.get(wanted)
            if position is None or position in found or wanted in self.kept or wanted in again:
                continue
            found.add(position)
            operation = self.operations[position]
            pending.extend((operation.input,) if isinstance(operation, _SAME) else operands(operation))
        return sorted(found)
