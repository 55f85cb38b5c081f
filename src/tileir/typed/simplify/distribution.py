"""Factoring of invariant operands out of aggregates, with which they are combined once.

``O[i] = +(A[i] * B[k])`` over ``k <= i`` is ``A[i]`` times a running sum of B, and ``O[i] = +(A[i] + B[k])`` that sum
plus ``A[i]`` times the number of its terms. Maxima and minima are factored in the same way if the invariant operand is
added, or multiplied and known never to be negative; those of integers are not, because integers wrap around.

Sums of integers have the same bits. Sums of floats must not overflow before they are multiplied, and ``A[i]`` and
``B[k]`` of a sum may cancel in each term: they are computed in f64, which holds all sums of narrower floats and the
digits that cancellation needs. Sums of ``A[i] + B[k]`` in f64 remain. Guards handle overflow in f64, and infinite
operands, which make NaN with 0 or an infinity in one term. Maxima and minima have the same bits.

``+(A[i] * B[k])`` is ``A[i] * S[i]`` with the sum S of B, for finite ``A[i]``. An infinite one makes all terms
infinite, and their sum is NaN unless all B have one sign, which the least and the greatest B tell. If S overflows, B is
summed again in a scale that avoids this, and the products are scaled back. ``>(A[i] + B[k])`` is ``A[i]`` plus the
greatest B, except that an infinity that meets the opposite one also meets the least B.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isinf
from typing import Final

import numpy as np

from tileir.core import Aggregation, Combination, DType, NameScope, Op, attrs
from tileir.poly.affine import Affine
from tileir.poly.bounds import Domain
from tileir.poly.coverage import covers
from tileir.typed.dataflow import with_bodies
from tileir.typed.ir import (
    Access,
    ArrayConstant,
    Cast,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Operation,
    Reshape,
    Shape,
    Value,
)
from tileir.typed.simplify.prefixes import GAIN, constraints_of, work_of
from tileir.typed.simplify.separation import domain_of, with_replaced

_DEPTH: Final = 8

_KEEPS_FINITE: Final = frozenset(
    {Op.IDENT, Op.NEG, Op.ABS, Op.MAX, Op.MIN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC, Op.COND}
)
"""Operations whose results are never infinite if no operand is."""

_WIDE: Final = frozenset({DType.BF16, DType.F32, DType.F64})
"""Types of floats that hold the magnitude of every integer."""

_SCALE: Final = 2.0**64
"""Divisor of terms whose sum overflows: no sum exceeds the range of a dtype by a greater factor."""


def never_infinite(name: str, definitions: Mapping[str, Value | Operation], depth: int = _DEPTH) -> bool:
    """Return whether no element of a value is infinite for any inputs; False if that is not obvious."""
    value = definitions[name]
    if not value.dtype.is_float:
        return True
    match value:
        case Constant(value=number):
            return not isinf(number)
        case ArrayConstant(value=array):
            return not bool(np.isinf(array.numpy().astype(np.float64)).any())
        case Coordinate():
            return True
        case Reshape(input=source) if depth:
            return never_infinite(source, definitions, depth - 1)
        case Cast(input=source) if depth:
            wide = value.dtype.holds(definitions[source].dtype)
            if not definitions[source].dtype.is_float:
                return wide or value.dtype in _WIDE
            return wide and never_infinite(source, definitions, depth - 1)
        case Elementwise(op=op, inputs=inputs) if depth:
            known = (never_infinite(each, definitions, depth - 1) for each in inputs)
            return op.info.bounded or (op in _KEEPS_FINITE and all(known))
        case _:
            return False


def with_products(
    first: Contraction,
    last: Contraction,
    stays: int,
    values: tuple[Value | Operation, Value | Operation],
    names: NameScope,
    *,
    overflows: bool,
) -> list[Operation]:
    """Return operations that compute sums of products, the sums last, under a new name.

    Args:
        first: The sums of the varying operand.
        last: Their products with the invariant operand, correct if nothing is infinite or overflows.
        stays: The number of the invariant operand of ``last``.
        values: The varying operand and the invariant one.
        names: Names in use.
        overflows: Whether sums of finite values of the varying operand may be infinite.
    """
    steps = _Steps(last, stays, names)
    moving, staying = values
    zero, one, minus, infinity = map(steps.constant, (0.0, 1.0, -1.0, inf))
    unbounded = steps.elementwise(Op.CMP_EQ, steps.elementwise(Op.ABS, staying), infinity)
    sign = steps.elementwise(Op.COND, steps.elementwise(Op.CMP_LT, staying, zero), minus, one)
    bounded = steps.elementwise(Op.COND, unbounded, sign, staying)
    if overflows:
        finite = steps.elementwise(Op.CMP_LT, steps.elementwise(Op.ABS, first), infinity)
        scaled = steps.elementwise(Op.MUL, moving, steps.constant(1 / _SCALE))
        small = steps.aggregate(attrs.evolve(first, inputs=(Access(scaled.name, first.inputs[0].indices),)))
        total = steps.products(steps.elementwise(Op.COND, finite, first, zero), bounded)
        beyond = steps.products(steps.elementwise(Op.COND, finite, zero, small), bounded)
        total = steps.elementwise(Op.ADD, total, steps.elementwise(Op.MUL, beyond, steps.constant(_SCALE)))
    else:
        total = steps.products(first, bounded)
    least, greatest = (
        steps.aggregate(attrs.evolve(first, aggregation=each)) for each in (Aggregation.MIN, Aggregation.MAX)
    )
    # 1 or -1 if all terms have that sign, otherwise 0, which makes NaN with infinity.
    common = steps.elementwise(Op.COND, steps.elementwise(Op.CMP_LT, greatest, zero), minus, zero)
    common = steps.elementwise(Op.COND, steps.elementwise(Op.CMP_GT, least, zero), one, common)
    beside = steps.products(common, steps.elementwise(Op.COND, unbounded, staying, zero))
    steps.elementwise(Op.ADD, total, beside)
    return steps.made


def with_extremes(
    first: Contraction, last: Contraction, stays: int, staying: Value | Operation, names: NameScope
) -> list[Operation]:
    """Return operations that compute extrema of sums, the extrema last, under a new name; arguments as above."""
    steps = _Steps(last, stays, names)
    greatest = first.aggregation is Aggregation.MAX
    opposite = steps.aggregate(attrs.evolve(first, aggregation=Aggregation.MIN if greatest else Aggregation.MAX))
    pair = steps.products(first, staying), steps.products(opposite, staying)
    steps.elementwise(Op.MAX if greatest else Op.MIN, *pair)
    return steps.made


@attrs.define(eq=False, repr=False)
class _Steps:
    """Builder of operations in the dtype of ``last``, which combines an aggregate with the invariant operand."""

    last: Contraction
    stays: int
    names: NameScope
    made: list[Operation] = attrs.field(factory=list, init=False)

    def constant(self, value: float) -> Operation:
        return self._add(Constant(self.names.fresh("constant"), self.last.dtype, value, span=self.last.span))

    def elementwise(self, op: Op, *inputs: Value | Operation) -> Operation:
        """Compute an elementwise operation on values of one shape or scalars."""
        dtype = DType.BOOL if op.info.compares else self.last.dtype
        shape = max((each.shape for each in inputs), key=len)
        names = tuple(each.name for each in inputs)
        return self._add(Elementwise(self._name(), op, names, dtype, shape, span=self.last.span))

    def aggregate(self, contraction: Contraction) -> Operation:
        return self._add(attrs.evolve(contraction, name=self._name()))

    def products(self, part: Operation, staying: Value | Operation) -> Operation:
        """Combine an aggregate with the invariant operand."""
        pair = (staying, part) if self.stays == 0 else (part, staying)
        inputs = tuple(Access(new.name, old.indices) for new, old in zip(pair, self.last.inputs, strict=True))
        return self._add(attrs.evolve(self.last, name=self._name(), inputs=inputs))

    def _name(self) -> str:
        return self.names.fresh(f"{self.last.name}_part")

    def _add(self, operation: Operation) -> Operation:
        self.made.append(operation)
        return operation


LEAST: Final = 1024
"""Least number of steps of a contraction that is factored."""


def distributed(function: Function, *, doubles: bool = True) -> Function:
    """Return an equivalent function in which invariant operands are factored out of aggregates, if that pays.

    ``function`` itself is returned if it never pays.

    Args:
        function: A valid function without markers.
        doubles: Whether f64 may be used for sums of narrower floats.
    """

    def inside(body: Function) -> Function:
        return distributed(body, doubles=doubles)

    function = with_bodies(function, inside)
    definitions = {each.name: each for each in (*function.inputs, *function.operations)}

    def parts(operation: Operation, _: Mapping[str, Shape], names: NameScope) -> Sequence[Operation]:
        return _parts(operation, definitions, names, doubles) if isinstance(operation, Contraction) else [operation]

    return with_replaced(function, parts)


def _parts(
    whole: Contraction, definitions: Mapping[str, Value | Operation], names: NameScope, doubles: bool
) -> list[Operation]:
    """Return the operations that replace a contraction, the last one under its name."""
    plain = whole.aggregation is not Aggregation.ASSIGN and whole.default is None and whole.reduce
    if not plain or len(whole.inputs) != 2 or whole.operand_dtype is not whole.accumulator:
        return [whole]
    work = _Parts(definitions, names, doubles).work(whole)
    if work < LEAST:
        return [whole]
    best: list[Operation] = [whole]
    for stays in (0, 1):
        attempt = _Parts(definitions, names, doubles)
        if attempt.apart(whole, stays) and (cost := attempt.total) * GAIN <= work:
            best, work = attempt.made, cost * GAIN - 1
    # The remaining contraction may have an invariant operand, too.
    known = {**definitions, **{part.name: part for part in best}}
    if len(best) > 1:
        best = [
            each
            for part in best
            for each in (_parts(part, known, names, doubles) if isinstance(part, Contraction) else [part])
        ]
    return best


@attrs.define(eq=False, repr=False)
class _Parts:
    """Builder of the operations that replace a contraction.

    Attributes:
        definitions: The values of the function, by name.
        names: Names in use.
        doubles: Whether f64 may be used.
        made: The operations, in order.
    """

    definitions: Mapping[str, Value | Operation]
    names: NameScope
    doubles: bool
    made: list[Operation] = attrs.field(factory=list, init=False)

    @property
    def total(self) -> int:
        """Number of steps of all contractions."""
        return sum(self.work(part) for part in self.made if isinstance(part, Contraction))

    def work(self, contraction: Contraction) -> int:
        """Return the number of steps of a contraction."""
        return work_of(contraction, self._shapes(contraction)) or 0

    def apart(self, whole: Contraction, stays: int) -> bool:
        """Factor operand number ``stays`` out of a contraction; return False if that is unsound."""
        domain = domain_of(whole, self._shapes(whole))
        if domain is None:
            return False
        written, known = _indices(domain.accesses[0]), _indices(domain.accesses[1 + stays])
        inside = [name for name, _ in domain.ranges if name not in written | known]
        if not inside:
            return False
        floats = whole.operand_dtype.is_float
        match whole.aggregation, whole.combination:
            case Aggregation.SUM, Combination.MUL:
                return self._factor(whole, domain, stays, inside)
            case Aggregation.SUM, Combination.ADD:
                return len(inside) == 1 and self._term(whole, domain, stays, inside[0])
            case ((Aggregation.MAX | Aggregation.MIN), Combination.ADD) if floats:
                return self._factor(whole, domain, stays, inside)
            case ((Aggregation.MAX | Aggregation.MIN), Combination.MUL) if floats:
                finite = whole.finite or all(never_infinite(a.tensor, self.definitions) for a in whole.inputs)
                keeps = finite and never_negative(whole.inputs[stays].tensor, self.definitions)
                return keeps and self._factor(whole, domain, stays, inside)
            case _:
                return False

    def _factor(
        self, whole: Contraction, domain: Domain, stays: int, inside: Sequence[str], *, counts: bool = False
    ) -> bool:
        """Aggregate the varying operand over some indices, and combine the result with the invariant one.

        ``counts`` says that the varying operand is 1 everywhere.
        """
        ranges, moves = dict(domain.ranges), domain.accesses[2 - stays]
        within = [c for c in domain.constraints if set(inside) & set(c.indices)]
        held = [name for name in _in_order((*moves, *within)) if name not in inside]
        moving, staying = whole.inputs[1 - stays].tensor, whole.inputs[stays].tensor
        wide, overflows = whole.operand_dtype, False
        if whole.aggregation is Aggregation.SUM and wide.is_float and not counts:
            wide, overflows = self._for_sums(moving, wide)
        source = self._cast(moving, whole.operand_dtype, wide)
        first = attrs.evolve(
            whole,
            name=self.names.fresh(f"{whole.name}_part"),
            output=tuple(map(Affine.index, held)),
            inputs=(Access(source, moves),),
            combination=Combination.NONE,
            operand_dtype=wide,
            accumulator=wide,
            dtype=wide,
            shape=tuple(ranges[name] for name in held),
            constraints=constraints_of(within, {name: ranges[name] for name in (*held, *inside)}),
        )
        reached = self._reached(first, inside, within, ranges)
        if reached is None:
            return False
        self.made.append(first)
        outside = {name: extent for name, extent in ranges.items() if name not in inside}
        limits = [c for c in domain.constraints if not set(inside) & set(c.indices)]
        part = Access(first.name, tuple(map(Affine.index, held)))
        if wide.is_float:
            staying = self._cast(staying, whole.operand_dtype, wide)
        other = Access(staying, domain.accesses[1 + stays])
        last = attrs.evolve(
            whole,
            output=domain.accesses[0],
            inputs=(part, other) if stays else (other, part),
            operand_dtype=wide,
            accumulator=wide,
            dtype=wide,
            constraints=constraints_of((*limits, *reached), outside),
        )
        finite = counts or whole.finite or not wide.is_float
        other_known = never_infinite(staying, self._known)
        if whole.aggregation is not Aggregation.SUM:
            finite = finite or other_known or never_infinite(source, self._known)
            guarded = [] if finite else with_extremes(first, last, stays, self._value(staying), self.names)
        elif finite or (other_known and not overflows):
            guarded = []
        else:
            pair = self._value(source), self._value(staying)
            guarded = with_products(first, last, stays, pair, self.names, overflows=overflows)
        self.made += guarded[:-1]
        self._named(guarded[-1] if guarded else last, whole)
        return True

    def _reached(
        self, first: Contraction, inside: Sequence[str], within: Sequence[Affine], ranges: Mapping[str, int]
    ) -> list[Affine] | None:
        """Return affines that are >= 0 exactly where an aggregate has terms: elsewhere, its 0 must not be used.

        None if they are not easy to find.
        """
        domain = domain_of(first, self._shapes(first))
        if domain is None:
            return None
        if covers(domain, first.shape):
            return []
        index = inside[0]
        ends = [*within, Affine.index(index), ranges[index] - 1 - Affine.index(index)]
        if len(inside) > 1 or any(abs(end.coefficient(index)) != 1 for end in ends):
            return None
        lows = [end for end in ends if end.coefficient(index) > 0]
        highs = [end for end in ends if end.coefficient(index) < 0]
        return [form for low in lows for high in highs if not (form := low + high).is_constant]

    def _term(self, whole: Contraction, domain: Domain, stays: int, index: str) -> bool:
        """Sum the varying operand, and add the other one times the number of its terms."""
        wide = whole.operand_dtype
        if wide.is_float:
            if wide is DType.F64 or not self.doubles:
                return False
            wide = DType.F64
        moves = domain.accesses[2 - stays]
        if not set(dict(domain.ranges)) - _indices(domain.accesses[0]) <= _indices(moves):
            return False
        moving = attrs.evolve(
            whole,
            name=self.names.fresh(f"{whole.name}_part"),
            output=domain.accesses[0],
            inputs=(Access(self._cast(whole.inputs[1 - stays].tensor, whole.operand_dtype, wide), moves),),
            combination=Combination.NONE,
            operand_dtype=wide,
            accumulator=wide,
            dtype=wide,
            constraints=constraints_of(domain.constraints, dict(domain.ranges)),
        )
        self.made.append(moving)
        ones = self._ones(moving, index, dict(domain.ranges)[index])
        counting, staying = Access(ones, (Affine.index(index),)), domain.accesses[1 + stays]
        source = self._cast(whole.inputs[stays].tensor, whole.operand_dtype, wide)
        counted = attrs.evolve(
            moving,
            name=self.names.fresh(f"{whole.name}_part"),
            inputs=(counting, Access(source, staying)),
            combination=Combination.MUL,
        )
        points = attrs.evolve(domain, accesses=(domain.accesses[0], counting.indices, staying))
        if not self._factor(counted, points, 1, [index], counts=True):
            return False
        pair = (moving.name, counted.name)
        self._named(Elementwise(whole.name, Op.ADD, pair, wide, whole.shape, span=whole.span), whole)
        return True

    def _for_sums(self, tensor: str, dtype: DType) -> tuple[DType, bool]:
        """Return the dtype to sum an operand in, and whether sums of finite values may overflow there."""
        value = self._value(tensor)
        origins = [value.dtype]
        while isinstance(value, Cast):
            value = self._value(value.input)
            origins.append(value.dtype)
        if not all(each in (DType.F64, DType.F32, DType.BF16) for each in origins):
            return dtype, False
        narrow = origins != [DType.F64] * len(origins)
        if narrow and self.doubles:
            return DType.F64, False
        return dtype, not (narrow and dtype is DType.F64)

    def _ones(self, like: Contraction, index: str, extent: int) -> str:
        """Make a vector of ones, and return its name."""
        one = Constant(self.names.fresh("one"), like.dtype, 1.0 if like.dtype.is_float else 1, span=like.span)
        ones = attrs.evolve(
            like,
            name=self.names.fresh("ones"),
            output=(Affine.index(index),),
            inputs=(Access(one.name, ()),),
            aggregation=Aggregation.ASSIGN,
            shape=(extent,),
            constraints=(),
        )
        self.made += one, ones
        return ones.name

    def _cast(self, tensor: str, *dtypes: DType) -> str:
        """Convert an operand to one dtype after the other, and return its name."""
        for dtype in dtypes:
            source = self._value(tensor)
            if source.dtype is not dtype:
                self.made.append(Cast(self.names.fresh(f"{tensor}_wide"), tensor, dtype, source.shape))
                tensor = self.made[-1].name
        return tensor

    def _named(self, last: Operation, whole: Contraction) -> None:
        """Add an operation under the name and in the dtype of the original contraction."""
        if last.dtype is whole.dtype:
            self.made.append(attrs.evolve(last, name=whole.name))
            return
        total = attrs.evolve(last, name=self.names.fresh(f"{whole.name}_wide"))
        self.made += total, Cast(whole.name, total.name, whole.dtype, whole.shape, span=whole.span)

    @property
    def _known(self) -> Mapping[str, Value | Operation]:
        return ChainMap({each.name: each for each in self.made}, self.definitions)  # type: ignore[arg-type]

    def _value(self, name: str) -> Value | Operation:
        return self._known[name]

    def _shapes(self, contraction: Contraction) -> dict[str, Shape]:
        return {access.tensor: self._value(access.tensor).shape for access in contraction.inputs}


def _indices(access: Iterable[Affine]) -> set[str]:
    return set(_in_order(access))


def _in_order(polynomials: Iterable[Affine]) -> dict[str, None]:
    return dict.fromkeys(name for polynomial in polynomials for name in polynomial.indices)


_ALWAYS: Final = frozenset({Op.EXP, Op.ABS, Op.SQRT, Op.SIGMOID})
"""Operations whose results are never negative."""

_KEEPS: Final = frozenset({Op.ADD, Op.MUL, Op.MIN, Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC})
"""Operations on floats whose results are never negative if no operand is."""


def never_negative(name: str, definitions: Mapping[str, Value | Operation], depth: int = _DEPTH) -> bool:
    """Return whether no element of a value can be less than 0; False if that is not obvious."""
    value = definitions[name]
    dtype = value.dtype
    if dtype.is_bool or (dtype.is_integer and not dtype.is_signed):
        return True
    match value:
        case Constant(value=number):
            return number >= 0
        case ArrayConstant(value=array):
            return bool((array.numpy() >= 0).all())
        case Coordinate():
            return True
        case Reshape(input=source) | Cast(input=source) if depth and dtype.is_float:
            return never_negative(source, definitions, depth - 1)
        case Elementwise(op=op, inputs=inputs) if depth and dtype.is_float:
            if op is Op.MUL and inputs[0] == inputs[1]:
                return True
            known = (never_negative(each, definitions, depth - 1) for each in inputs)
            return op in _ALWAYS or (op is Op.MAX and any(known)) or (op in _KEEPS and all(known))
        case _:
            return False
