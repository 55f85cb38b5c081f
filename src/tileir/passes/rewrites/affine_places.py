"""Coordinate-dependent places of kernels: which of them are affine, and from which index values on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from tileir.core import DType, NameScope, Op, attrs
from tileir.passes.rewrites.dead_code import pruned
from tileir.poly.affine import Affine, total
from tileir.schedule.reindex import renamed
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Dim,
    Intrinsic,
    Load,
    LoadIndex,
    Refinement,
    Statement,
    TensorShape,
    scalar_output,
)

_COMPARISONS: Final = {
    Op.CMP_LT: (-1, -1),
    Op.CMP_LE: (-1, 0),
    Op.CMP_GT: (1, -1),
    Op.CMP_GE: (1, 0),
    Op.MAX: (1, 0),
    Op.MIN: (-1, 0),
}
"""A sign and an offset: ``x op y`` holds if ``sign * (x - y) + offset >= 0``; MAX and MIN are ``x`` then."""


@attrs.frozen(repr=False)
class _Value:
    """An integer or truth value that depends only on coordinates, from ``low`` to ``high``, perhaps with its affine."""

    low: int
    high: int
    affine: Affine | None = None

    @property
    def truth(self) -> bool | None:
        """True if it is never 0, False if it is always 0, None if it depends."""
        return None if self.low != self.high else self.low != 0


@attrs.define(eq=False, repr=False)
class _Values:
    """Values of a block's scalars that depend only on coordinates.

    ``centre`` may hold a value of each index: undecided tests are then answered as there, and ``tests`` collects
    affines that are >= 0 as long as these answers hold.
    """

    ranges: Mapping[str, int]
    centre: Mapping[str, int] | None = None
    tests: list[Affine] = attrs.field(factory=list)
    known: dict[str, _Value] = attrs.field(factory=dict)

    def add(self, statement: Statement) -> None:
        """Record the value of the scalar that a statement defines."""
        value: _Value | None = None
        match statement:
            case LoadIndex(affine=affine, dtype=dtype) if dtype.is_integer:
                value = self._within(affine, dtype)
            case Constant(value=int(number), dtype=dtype) if dtype.is_integer or dtype.is_bool:
                value = _Value(int(number), int(number), Affine.constant(int(number)))
            case Intrinsic(op=op, inputs=inputs, dtype=dtype):
                operands = [self.known.get(name) for name in inputs]
                value = self._computed(op, operands, dtype)
        if value is not None and (into := scalar_output(statement)) is not None:
            self.known[into] = value

    def _within(self, affine: Affine, dtype: DType) -> _Value | None:
        low, high = (int(bound) for bound in affine.bounds(self.ranges))
        return _Value(low, high, affine) if dtype.minimum <= low and high <= dtype.maximum else None

    def _computed(self, op: Op, operands: list[_Value | None], dtype: DType) -> _Value | None:
        match op, operands:
            case Op.COND, (_Value(truth=bool(holds)), yes, no):
                return yes if holds else no
            case Op.COND, (_Value(), _Value() as yes, _Value() as no):
                return _Value(min(yes.low, no.low), max(yes.high, no.high))
            case Op.ADD, (_Value() as x, _Value() as y) if dtype.is_integer:
                if x.affine is not None and y.affine is not None:
                    return self._within(x.affine + y.affine, dtype)
                low, high = x.low + y.low, x.high + y.high
                return _Value(low, high) if dtype.minimum <= low and high <= dtype.maximum else None
            case Op.SUB, (_Value(affine=Affine() as x), _Value(affine=Affine() as y)) if dtype.is_integer:
                return self._within(x - y, dtype)
            case ((Op.MAX | Op.MIN), (_Value() as x, _Value() as y)):
                answer = self._answer(op, x, y)
                if answer is not None:
                    return x if answer else y
                choose = max if op is Op.MAX else min
                return _Value(choose(x.low, y.low), choose(x.high, y.high))
            case _, (_Value() as x, _Value() as y) if op in _COMPARISONS:
                answer = self._answer(op, x, y)
                return _Value(0, 1) if answer is None else _Value(int(answer), int(answer))
        return None

    def _answer(self, op: Op, x: _Value, y: _Value) -> bool | None:
        """Return whether a comparison holds; for MAX and MIN, whether the first operand is the result."""
        sign, offset = _COMPARISONS[op]
        if x.affine is None or y.affine is None:
            low, high = (x.low - y.high, x.high - y.low) if sign > 0 else (y.low - x.high, y.high - x.low)
            low, high = low + offset, high + offset
        else:
            difference = (x.affine - y.affine) * sign + offset
            low, high = (int(bound) for bound in difference.bounds(self.ranges))
            if low < 0 <= high and self.centre is not None:
                holds = difference.evaluate(self.centre) >= 0
                self.tests.append(difference if holds else -difference - 1)
                return holds
        return True if low >= 0 else False if high < 0 else None


def computed_tests(kernel: Block) -> list[Affine]:
    """Return affines that are >= 0 as long as a kernel's computed places are affine as they are at its centre.

    Empty if no place is computed from coordinates alone.
    """
    values = _Values(kernel.ranges, {i.name: i.range // 2 for i in kernel.indices})
    for statement in kernel.statements:
        values.add(statement)
    indices = {s.index for s in kernel.statements if isinstance(s, Load) and s.index is not None}
    computed = any((value := values.known.get(name)) is not None and value.affine is not None for name in indices)
    return values.tests if computed else []


Tests: TypeAlias = tuple[tuple[Affine, ...], tuple[Affine, ...]]
"""Affines that are >= 0 if a truth value holds, and those if it does not, as far as known."""


def coordinate_tests(
    statements: Sequence[Statement], ranges: Mapping[str, int], loaded: Mapping[str, Tests] = MappingProxyType({})
) -> dict[str, Tests]:
    """Return the tests of scalars that compare coordinates; ``loaded`` are those of loaded values.

    The negation of a conjunction is unknown.
    """
    values = _Values(ranges)
    found = dict(loaded)
    for statement in statements:
        values.add(statement)
        match statement:
            case Intrinsic(op=op, inputs=(left, right), into=into) if op in _COMPARISONS and op.name.startswith("CMP"):
                x, y = values.known.get(left), values.known.get(right)
                if x is not None and y is not None and x.affine is not None and y.affine is not None:
                    sign, offset = _COMPARISONS[op]
                    difference = (x.affine - y.affine) * sign + offset
                    found[into] = (difference,), (-difference - 1,)
            case Intrinsic(op=Op.BIT_AND, inputs=(left, right), into=into, dtype=dtype) if dtype.is_bool:
                both = tuple(found[name][0] for name in (left, right) if name in found)
                found[into] = tuple(test for tests in both for test in tests), ()
            case Convert(input=value, into=into, dtype=dtype) if dtype.is_bool and value in found:
                found[into] = found[value]
    return found


def coordinates(statements: Iterable[Statement], ranges: Mapping[str, int]) -> dict[str, Affine]:
    """Return the scalars that are affine in coordinates."""
    values = _Values(ranges)
    for statement in statements:
        values.add(statement)
    return {name: value.affine for name, value in values.known.items() if value.affine is not None}


def bounds_of_scalars(kernel: Block) -> dict[str, tuple[int, int]]:
    """Return the minimum and maximum of each integer that depends only on coordinates."""
    values = _Values(kernel.ranges)
    for statement in kernel.statements:
        values.add(statement)
    return {name: (value.low, value.high) for name, value in values.known.items()}


def decided(kernel: Block) -> Block:
    """Return an elementwise kernel without coordinate tests of constant outcome, and with affine places."""
    values = _Values(kernel.ranges)
    same: dict[str, str] = {}
    views = {r.name: r for r in kernel.refinements}
    loads = _PlacedLoads(views, NameScope.of(views), values)
    scalars = NameScope.of(filter(None, map(scalar_output, kernel.statements)))
    result: list[Statement] = []
    for old in kernel.statements:
        statement = renamed(old, same, {})
        values.add(statement)
        if isinstance(statement, Intrinsic) and statement.op is Op.COND:
            test = values.known.get(statement.inputs[0])
            if test is not None and test.truth is not None:
                same[statement.into] = statement.inputs[1 if test.truth else 2]
                continue
        if isinstance(statement, Load) and statement.index is not None:
            result.extend(loads.placed(statement, scalars))
            continue
        into = scalar_output(statement)
        known = None if into is None else values.known.get(into)
        if isinstance(statement, Intrinsic) and known is not None and known.affine is not None:
            statement = LoadIndex(known.affine, statement.into, statement.dtype)
        loads.remember(statement)
        result.append(statement)
    block = attrs.evolve(kernel, refinements=tuple(views.values()), statements=tuple(result), deps=())
    live = {r.name for r in kernel.refinements if r.direction.writes}
    return pruned(block, live)


@attrs.define(eq=False, repr=False)
class _PlacedLoads:
    """Loads at computed places, with the affine part of the place moved to the view."""

    views: dict[str, Refinement]
    names: NameScope
    values: _Values
    _sums: dict[str, Intrinsic] = attrs.field(factory=dict, init=False)
    _made: dict[Refinement, str] = attrs.field(factory=dict, init=False)

    def remember(self, statement: Statement) -> None:
        """Record a sum, which may be part of a place."""
        if isinstance(statement, Intrinsic) and statement.op is Op.ADD and statement.into in self.values.known:
            self._sums[statement.into] = statement

    def placed(self, load: Load, scalars: NameScope) -> Iterator[Statement]:
        """Yield statements that load the same element with only the non-affine part of the place as an index."""
        assert load.index is not None
        view, place = self.views[load.source], self.values.known.get(load.index)
        if place is None or place.low < 0 or place.high >= view.shape.dims[0].size:
            yield load
            return
        terms = {name: self.values.known[name] for name in self._terms(load.index)}
        start = total(value.affine for value in terms.values() if value.affine is not None)
        rest = [name for name, value in terms.items() if value.affine is None]
        if len(rest) == len(terms) or any(terms[name].low < 0 for name in rest):
            yield load
            return
        index: str | None = None
        for name in rest:
            if index is None:
                index = name
                continue
            both = scalars.fresh("place")
            yield attrs.evolve(self._sums[load.index], inputs=(index, name), into=both)
            index = both
        source = self._view(view, start, 1 + sum(terms[name].high for name in rest))
        yield attrs.evolve(load, source=source, index=index, deps=())

    def _terms(self, name: str) -> Iterator[str]:
        """Yield the terms of a sum, each once: sums of equal terms stay."""
        pending = [name]
        while pending:
            current = pending.pop()
            known, summed = self.values.known[current], self._sums.get(current)
            if known.affine is not None or summed is None or summed.inputs[0] == summed.inputs[1]:
                yield current
            else:
                pending.extend(reversed(summed.inputs))

    def _view(self, view: Refinement, start: Affine, size: int) -> str:
        """Return the name of a view that begins at another place along axis 0, with ``size`` elements there."""
        first, *others = view.shape.dims
        access, dims = (view.access[0] + start, *view.access[1:]), (attrs.evolve(first, size=size), *others)
        if size == 1 and all(dim == Dim(1, 1) for dim in dims):
            access, dims = (total(access),), dims[:1]
        new = attrs.evolve(view, name="", access=access, shape=TensorShape(view.shape.dtype, dims))
        if new not in self._made:
            self._made[new] = name = self.names.fresh(view.name)
            self.views[name] = attrs.evolve(new, name=name)
        return self._made[new]
