"""Last simplifications of a typed function before lowering, after differentiation.

- Aggregations that merge at most one value into each element become assignments, which can be inlined like
  elementwise operations, as ``O[i, j : N, M] = +(X[j] - Z[i])``. Only the sign of zero differs, which sums leave
  undefined: 0 + x in the interpreter, and x here.
- Rematerialisation: forward values that a backward pass recalls are recomputed from inputs, outputs, constants and
  checkpoints, just before their first use, segment by segment, and once for each backward pass (Chen, Xu, Zhang and
  Guestrin, "Training deep nets with sublinear memory cost", 2016).
- Ordered row assignment, for devices with unordered threads::

      O = scatter_assign(U, I, L) ordered    ->    N = coordinate(0)            number of each update
                                                   W = scatter_max(N, I)        the last update of each row
                                                   O = cond(W >= 0, gather(U, W), L)

- Contractions read 16-bit operands directly where a program widens them, ``+(as_f32(A)[i, k] * B[k, j])``, to keep
  sums in f32; the cast is not stored.
- Moves of widened elements, ``as_f16(O)`` of ``O[i] = widen(X)[i + 1]``, become moves of 16-bit elements.
- Windows of constant weights of rank one are separated: ``O[y, x] = +(I[y + i, x + j] * K[i, j])`` with
  ``K[i, j] = U[i] * V[j]`` becomes ``P[y, x] = +(I[y, x + j] * V[j])`` and ``O[y, x] = +(P[y + i, x] * U[i])``, up to
  rounding.

Windows over axes that a program splits by residues become windows with strides over the unsplit axes. If vectors run
along an axis that windows step over, a program groups its elements by their residues:

```text
T[c, r, o + t] = +(Y[c, o] * W[c, r + 2 * t]);   O[c, 2 * q + r] = T[c, r, q]
```

writes contiguous runs of T. Threads with one element each handle strides by their indices, and would only copy O once
more:

```text
O[c, 2 * o + i] = +(Y[c, o] * W[c, i])
```

The same holds for sums that read a split tensor T.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import gcd, prod
from typing import Final

import numpy as np

from tileir.core import (
    Aggregation,
    ArrayValue,
    Combination,
    DType,
    NameScope,
    Op,
    TileError,
    accumulator,
    attrs,
    contraction_types,
)
from tileir.poly.affine import Affine
from tileir.poly.bounds import solve
from tileir.poly.coverage import injective
from tileir.typed.dataflow import definitions, with_bodies, with_operands, with_operations, without_dead
from tileir.typed.ir import (
    Access,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Constraint,
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
    Shape,
    Upstream,
    Value,
    counting,
    operands,
)
from tileir.typed.reductions import with_components_named
from tileir.typed.simplify.bands import with_bands
from tileir.typed.simplify.distribution import distributed
from tileir.typed.simplify.prefixes import with_ends
from tileir.typed.simplify.separation import (
    domain_of,
    index_factors,
    points_of,
    separated,
    with_replaced,
    without_factor,
)
from tileir.typed.simplify.simplifier import simplify

INTERMEDIATE: Final = 8
"""Cost of writing and reading an element of the intermediate result, in products."""


def factorised(function: Function) -> Function:
    """Return an equivalent function in which sums with separable constant weights are two sums, if that pays.

    ``function`` itself is returned if it never pays.
    """
    function = with_bodies(function, factorised)
    values = {each.name: each for each in function.operations if isinstance(each, ArrayConstant)}
    if not values:
        return function

    def parts(operation: Operation, shapes: Mapping[str, Shape], names: NameScope) -> Sequence[Operation]:
        return _parts(operation, values, shapes, names) if isinstance(operation, Contraction) else [operation]

    return with_replaced(function, parts)


def _parts(
    whole: Contraction, values: Mapping[str, ArrayConstant], shapes: Mapping[str, Shape], names: NameScope
) -> Sequence[Operation]:
    """Return the operations that replace a contraction, the last one under its name."""
    best: tuple[int, list[Operation]] | None = None
    for place in _weights(whole, values):
        cost = _products(whole, values, shapes)
        for attempt in _attempts(whole, place, values, shapes, names):
            constants = {**values, **{each.name: each for each in attempt if isinstance(each, ArrayConstant)}}
            known = {**shapes, **{each.name: each.shape for each in attempt}}
            sums = [each for each in attempt if isinstance(each, Contraction)]
            less = sum(_products(each, constants, known) for each in sums) + INTERMEDIATE * prod(sums[0].shape)
            if less < cost and (best is None or less < best[0]):
                best = less, attempt
    if best is None:
        return [whole]
    taken = best[1]
    values = {**values, **{each.name: each for each in taken if isinstance(each, ArrayConstant)}}
    shapes = {**shapes, **{each.name: each.shape for each in taken}}
    return [
        part
        for each in taken
        for part in (_parts(each, values, shapes, names) if isinstance(each, Contraction) else [each])
    ]


def _weights(whole: Contraction, values: Mapping[str, ArrayConstant]) -> Iterator[int]:
    """Yield the numbers of inputs that are windows: constants whose axes are indices summed over."""
    if whole.aggregation is not Aggregation.SUM or whole.combination is not Combination.MUL:
        return
    if not whole.operand_dtype == whole.dtype == whole.accumulator or whole.default is not None:
        return
    written = {name for polynomial in whole.output for name in polynomial.indices}
    for place, access in enumerate(whole.inputs):
        if access.tensor not in values or values[access.tensor].value.dtype is not whole.operand_dtype:
            continue
        names = [polynomial.indices[0] for polynomial in access.indices if polynomial.indices]
        bare = tuple(map(Affine.index, names)) == access.indices
        if bare and len(names) == len(set(names)) >= 2 and not written & set(names):
            yield place


def _attempts(
    whole: Contraction,
    place: int,
    values: Mapping[str, ArrayConstant],
    shapes: Mapping[str, Shape],
    names: NameScope,
) -> Iterator[list[Operation]]:
    """Yield two sums with the factors of a window, for each way to separate its axes."""
    window, other = whole.inputs[place], whole.inputs[1 - place]
    value = values[window.tensor].value
    axes = {polynomial.indices[0]: axis for axis, polynomial in enumerate(window.indices)}
    within = [Constraint(Affine.index(name), value.shape[axis]) for name, axis in axes.items()]
    plain = attrs.evolve(
        whole, inputs=(other,), combination=Combination.NONE, constraints=(*whole.constraints, *within)
    )
    for factor in index_factors(plain):
        own = [name for name in axes if name in factor]
        rest = [name for name in axes if name not in factor]
        pair = factors_of(value, [axes[name] for name in own]) if own and rest else None
        if pair is None:
            continue
        first, last = without_factor(plain, factor, shapes, names)
        weights = [
            ArrayConstant(names.fresh(f"{window.tensor}_factor"), each, span=values[window.tensor].span)
            for each in pair
        ]
        yield [
            weights[0],
            _weighted(first, weights[0].name, own, whole),
            weights[1],
            _weighted(last, weights[1].name, rest, whole),
        ]


def _weighted(part: Contraction, weights: str, indices: Sequence[str], whole: Contraction) -> Contraction:
    """Return a sum with its terms multiplied by weights."""
    access = Access(weights, tuple(map(Affine.index, indices)))
    return attrs.evolve(
        part, inputs=(*part.inputs, access), combination=Combination.MUL, operand_dtype=whole.operand_dtype
    )


def _products(whole: Contraction, values: Mapping[str, ArrayConstant], shapes: Mapping[str, Shape]) -> int:
    """Return the number of products of a sum: none for weights of 0."""
    domain = domain_of(whole, shapes)
    if domain is None:
        return 0
    points = points_of(domain)
    for access in whole.inputs:
        if access.tensor in values:
            array = values[access.tensor].value.numpy()
            points = points * int(np.count_nonzero(array)) // max(1, array.size)
    return points


MOST_ELEMENTS: Final = 4096
"""Greatest number of elements of a constant that is examined: windows have fewer."""

_WHOLE: Final = 1 << 24

_ROUNDINGS: Final = 5
"""Number of roundings by which a product of floats may differ from an element: those of the elements of a row and a
column, of their divisor, of their quotient, and of the product itself.
"""


def factors_of(value: ArrayValue, axes: Sequence[int]) -> tuple[ArrayValue, ArrayValue] | None:
    """Return the factors of a constant over some of its axes and over the others; None if it is not separable.

    Products of whole numbers are equal to the elements, those of other floats equal up to rounding.
    """
    size = prod(value.shape)
    if not 0 < size <= MOST_ELEMENTS or value.dtype not in (DType.F32, DType.F64, DType.I32, DType.I64):
        return None
    others = [axis for axis in range(len(value.shape)) if axis not in axes]
    shapes = [value.shape[axis] for axis in axes], [value.shape[axis] for axis in others]
    matrix = value.numpy().transpose([*axes, *others]).reshape(prod(shapes[0]), prod(shapes[1]))
    exact = not value.dtype.is_float or _is_whole(matrix)
    pair = _of_integers(matrix) if exact else _of_floats(matrix, value.dtype)
    if pair is None:
        return None
    first, second = (np.array(each, value.dtype.numpy).reshape(shape) for each, shape in zip(pair, shapes, strict=True))
    return ArrayValue.of(first), ArrayValue.of(second)


def _is_whole(matrix: np.ndarray) -> bool:
    """Return whether floats are small whole numbers, as the weights of most windows: their factors are, too."""
    return bool((np.abs(matrix) < _WHOLE).all() and (matrix == np.rint(matrix)).all())


def _of_floats(matrix: np.ndarray, dtype: DType) -> tuple[list[float], list[float]] | None:
    """Return the column and the row of the largest element, the latter divided by that element, if they are factors."""
    if not np.isfinite(matrix).all() or not matrix.any():
        return None
    row, column = np.unravel_index(np.abs(matrix).argmax(), matrix.shape)
    left = matrix[:, column]
    right = matrix[row] / matrix[row, column]
    # Most windows are not separable, which doubles show at once; exact arithmetic decides about the others.
    if np.abs(np.outer(left, right) - matrix).max() > 1e-5 * np.abs(matrix).max():
        return None
    unit = Fraction(float(np.finfo(dtype.numpy).eps)) / 2 * _ROUNDINGS
    rights = [Fraction(float(each)) for each in right]
    for factor, elements in zip(left, matrix, strict=True):
        exact = Fraction(float(factor))
        for other, element in zip(rights, elements, strict=True):
            wanted = Fraction(float(element))
            if abs(exact * other - wanted) > unit * abs(wanted):
                return None
    return [float(each) for each in left], [float(each) for each in right]


def _of_integers(matrix: np.ndarray) -> tuple[list[int], list[int]] | None:
    """Return a column and a row without common divisors whose products are the elements."""
    rows = [[int(element) for element in row] for row in matrix]
    pivot = next((row for row in rows if any(row)), None)
    if pivot is None:
        return None
    divisor = gcd(*pivot)
    right = [element // divisor for element in pivot]
    place = next(number for number, element in enumerate(right) if element)
    left = [row[place] // right[place] for row in rows]
    products = [[factor * other for other in right] for factor in left]
    return (left, right) if products == rows else None


def with_narrow_moves(function: Function) -> Function:
    """Return ``function`` with moves of elements before casts that widen them; itself if there are none."""
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
    """Return the move of elements before they are widened; None for other operations."""
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
    """Return ``function`` with products of 16-bit operands without their casts to f32; itself if there are none."""
    function = with_bodies(function, with_narrow_factors)
    known = definitions(function)
    narrow = with_operations(function, lambda operation: _read_narrow(operation, known))
    return function if narrow is function else without_dead(narrow)


def _read_narrow(operation: Operation, definitions: Mapping[str, Value | Operation]) -> Operation:
    if not isinstance(operation, Contraction) or operation.combination is not Combination.MUL:
        return operation
    inputs = tuple(_before_cast(access, operation.operand_dtype, definitions) for access in operation.inputs)
    return operation if inputs == operation.inputs else attrs.evolve(operation, inputs=inputs)


def _before_cast(access: Access, dtype: DType, definitions: Mapping[str, Value | Operation]) -> Access:
    """Return an access to the operand of a cast to its accumulator dtype ``dtype``; otherwise ``access``."""
    cast = definitions[access.tensor]
    if not isinstance(cast, Cast) or cast.dtype is not dtype:
        return access
    source = definitions[cast.input].dtype
    narrow = source.is_float and source is not dtype and accumulator(source) is dtype
    return attrs.evolve(access, tensor=cast.input) if narrow else access


def with_last_updates(function: Function) -> Function:
    """Return ``function`` without ordered assignments; itself if it has none."""
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
    """Yield operations that find the last update of each row and store it."""
    assert operation.into is not None  # an assignment replaces rows of a tensor
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


def prepared(function: Function, *, doubles: bool = True, in_order: bool = True, divides: bool = True) -> Function:
    """Return an equivalent function for later stages: simplified, without markers, with recalls carried out.

    Values that are recomputed to save memory remain so, because equal operations are no longer merged after that.
    Aggregations are separated last, since the derivatives of their parts are more complicated.

    Args:
        function: The function.
        doubles: Whether the device computes in f64.
        in_order: Whether the device can make replacing updates one after the other; if not, all threads search for the
            last update.
        divides: Whether axes with strided windows are split by residues where a program says so, for vectors.
    """
    simple = simplify(with_assignments(function if in_order else with_last_updates(function)))
    moved = with_bands(with_narrow_moves(simple))
    moved = moved if divides else with_whole_axes(moved)
    if moved is not simple:
        simple = simplify(moved)
    if _has_markers(simple):
        recalls = any(isinstance(operation, Recall) for operation in simple.operations)
        simple = simplify(unmarked(simple), merge=not recalls)
    short = distributed(factorised(with_components_named(simple)), doubles=doubles)
    return with_narrow_factors(with_ends(separated(short)))


def unmarked(function: Function) -> Function:
    """Return ``function`` without markers and templates; itself if it has none.

    Recalls become repeated operations, as described above, and all other markers their operand.
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
    """Return ``function`` with assignments for aggregations that provably merge nothing; itself if it has none."""
    function = with_bodies(function, with_assignments)
    known = definitions(function)
    return with_operations(function, lambda operation: _assigned(operation, known))


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
    """Return whether no two valid points write one element, as far as can be proved."""
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

    A recall remains, and reads the repeated value. The cost is linear in the number of operations, before and after,
    except for sorting those that one recall needs.
    """
    if not any(isinstance(operation, Recall) for operation in function.operations):
        return function
    work = _Work.of(function)
    return attrs.evolve(function, operations=tuple(after for op in function.operations for after in work.visit(op)))


@attrs.define(eq=False, repr=False)
class _Work:
    """The kept values, and the values that each backward pass has recomputed."""

    positions: dict[str, int]
    operations: tuple[Operation, ...]
    kept: frozenset[str]
    names: NameScope
    again: dict[int, dict[str, str]] = attrs.field(factory=dict, init=False)  # by backward pass and name

    @classmethod
    def of(cls, function: Function) -> _Work:
        """Find the values that ``function`` keeps."""
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
        """Yield an operation, preceded by the repeated operations that a recall needs."""
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
        """Return the positions, in order, of the missing operations on which ``name`` depends."""
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


def with_whole_axes(function: Function) -> Function:
    """Return ``function`` with windows over unsplit axes; itself if it splits none."""
    function = with_bodies(function, with_whole_axes)
    readers = Counter(name for operation in function.operations for name in operands(operation))
    readers.update(function.outputs)
    definitions: dict[str, Value | Operation] = {value.name: value for value in function.inputs}
    names = NameScope.of(value.name for value in (*function.inputs, *function.operations))
    operations: list[Operation] = []
    for operation in function.operations:
        made: Sequence[Operation] = (operation,)
        if isinstance(operation, Contraction):
            if _is_copy(operation):
                made = _written_whole(operation, definitions, readers, names) or made
            elif (
                operation.aggregation is Aggregation.SUM
                and operation.combination is Combination.MUL
                and operation.reduce
            ):
                made = (_read_whole(operation, definitions),)
        operations += made
        definitions.update((each.name, each) for each in made)
    if operations == [*function.operations]:
        return function
    return without_dead(attrs.evolve(function, operations=tuple(operations)))


@attrs.frozen
class _Division:
    """An axis of ``size`` elements, split in two of sizes ``parts``: ``step * q + r + offset`` is at q and r.

    ``places`` maps each index of a copy to its axis of the split tensor, and ``axes`` are those of q and r.
    """

    size: int
    step: int
    offset: int
    parts: tuple[int, int]
    axes: tuple[int, int]
    places: Mapping[str, int]

    def through(self, whole: Sequence[Affine], seen: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the access of a sum to the unsplit tensor for its access ``seen`` to the split one."""
        return tuple(each.substitute({name: seen[self.places[name]] for name in each.indices}) for each in whole)

    def are_windows(self, seen: Sequence[Affine]) -> bool:
        """Return whether positions along the quotient are those of windows: sums of an output's and a term's index."""
        return len(seen[self.axes[0]].indices) == 1 < len(seen[self.axes[1]].indices)

    def applied(self, total: Contraction, seen: Sequence[Affine]) -> Contraction:
        """Return a sum restricted to elements of the split tensor, with one index for a term and its residue."""
        residue, quotient = (seen[axis] for axis in self.axes)
        low = -((self.offset + self.step - 1) // self.step)
        if low < 0 or (self.size - 1 - self.offset) // self.step >= self.parts[1]:
            total = _with(total, Constraint(quotient, self.parts[1]))
        bound = Constraint(residue, self.parts[0])
        others = attrs.evolve(total, constraints=tuple(each for each in total.constraints if each != bound))
        (name,) = residue.indices
        alone = residue == Affine.index(name) and self.parts[0] == self.step
        for term in quotient.indices if alone else ():
            joined = {name: residue - Affine.index(term) * (self.step * quotient.coefficient(term))}
            if abs(quotient.coefficient(term)) != 1:
                continue
            found = _substituted(others, joined)
            if not any(term in each.indices for each in _places(found)):
                return found
        return _with(others, bound)


def _with(total: Contraction, constraint: Constraint) -> Contraction:
    return attrs.evolve(total, constraints=tuple(dict.fromkeys((*total.constraints, constraint))))


def _places(total: Contraction) -> list[Affine]:
    read = [place for access in total.inputs for place in access.indices]
    return [*total.output, *read, *(each.polynomial for each in total.constraints)]


def _substituted(total: Contraction, mapping: Mapping[str, Affine]) -> Contraction:
    return attrs.evolve(
        total,
        output=tuple(each.substitute(mapping) for each in total.output),
        inputs=tuple(
            attrs.evolve(access, indices=tuple(each.substitute(mapping) for each in access.indices))
            for access in total.inputs
        ),
        constraints=tuple(
            attrs.evolve(each, polynomial=each.polynomial.substitute(mapping)) for each in total.constraints
        ),
    )


def _is_copy(operation: Contraction) -> bool:
    """Return whether an operation only moves elements of one tensor, with zeros elsewhere."""
    moves = operation.aggregation is Aggregation.ASSIGN and operation.combination is Combination.NONE
    return moves and operation.default is None and operation.dtype is operation.operand_dtype


def _written_whole(
    copy: Contraction, definitions: Mapping[str, Value | Operation], readers: Mapping[str, int], names: NameScope
) -> tuple[Operation, ...] | None:
    """Return a sum that writes to the destination of a copy; None if that joins no split axis of windows."""
    total = behind = definitions[copy.inputs[0].tensor]
    if isinstance(behind, Reshape):
        total = definitions[behind.input]
    once = readers[behind.name] == readers[total.name] == 1
    if not isinstance(total, Contraction) or total.aggregation is not Aggregation.SUM or not (once and total.reduce):
        return None
    if copy.constraints or total.default is not None or copy.dtype is not total.dtype:
        return None
    divided = _divided(copy.inputs[0].indices, copy.output, behind.shape, copy.shape)
    if divided is None or any(
        size != behind.shape[divided.places[each.indices[0]]]
        for size, each in zip(copy.shape, copy.output, strict=True)
        if len(each.indices) == 1
    ):
        return None
    same = min(divided.axes) - len(behind.shape)  # a reshape may join axes before these
    axes, shape = total.output[same:], total.shape[same:]
    if shape != behind.shape[same:] or [*divided.places.values()] != [*range(len(behind.shape))]:
        return None
    before = len(behind.shape) + same
    beside = [*divided.places][:before]
    seen = (*map(Affine.index, beside), *axes)
    mixed = any(name in beside for each in copy.output[before:] for name in each.indices)
    if mixed or copy.output[:before] != seen[:before] or not divided.are_windows(seen):
        return None
    output = (*total.output[:same], *divided.through(copy.output, seen)[before:])
    name = copy.name if behind is total else names.fresh(copy.name)
    sizes = (*total.shape[:same], *copy.shape[before:])
    found = divided.applied(attrs.evolve(total, name=name, shape=sizes, output=output, span=copy.span), seen)
    if behind is total:
        return (found,)
    return found, Reshape(copy.name, name, copy.dtype, copy.shape, span=copy.span)


def _read_whole(total: Contraction, definitions: Mapping[str, Value | Operation]) -> Contraction:
    """Return a sum of products that reads the unsplit source of a copy; itself if none of its factors is split."""
    for number, access in enumerate(total.inputs):
        copy = definitions[access.tensor]
        if not isinstance(copy, Contraction) or not _is_copy(copy):
            continue
        source = copy.inputs[0]
        divided = _divided(copy.output, source.indices, copy.shape, definitions[source.tensor].shape)
        if divided is None or not divided.are_windows(access.indices):
            continue
        whole = Access(source.tensor, divided.through(source.indices, access.indices))
        inputs = (*total.inputs[:number], whole, *total.inputs[number + 1 :])
        where = {name: access.indices[axis] for name, axis in divided.places.items()}
        tests = (attrs.evolve(each, polynomial=each.polynomial.substitute(where)) for each in copy.constraints)
        moved = attrs.evolve(total, inputs=inputs, constraints=(*total.constraints, *tests))
        total = divided.applied(moved, access.indices)
    return total


def _divided(apart: Sequence[Affine], whole: Sequence[Affine], shape: Shape, sizes: Shape) -> _Division | None:
    """Return the split of an axis; None if there is not exactly one.

    ``apart`` are the accesses to the split tensor, one index each, and ``shape`` its sizes; ``whole`` and ``sizes``
    those of the unsplit one.
    """
    places = {each.indices[0]: axis for axis, each in enumerate(apart) if len(each.indices) == 1}
    if len(places) != len(apart) or [*apart] != [*map(Affine.index, places)]:
        return None
    joined = [
        axis for axis, each in enumerate(whole) if len(each.indices) != 1 or each != Affine.index(each.indices[0])
    ]
    if len(joined) != 1 or len(whole[joined[0]].indices) != 2:
        return None
    place = whole[joined[0]]
    rest, quotient = sorted(place.indices, key=lambda name: int(place.coefficient(name)))
    step = int(place.coefficient(quotient))
    axes = places[rest], places[quotient]
    parts = shape[axes[0]], shape[axes[1]]
    if place.coefficient(rest) != 1 or not place.is_integral or parts[0] > step:
        return None
    return _Division(sizes[joined[0]], step, int(place.offset), parts, axes, places)
