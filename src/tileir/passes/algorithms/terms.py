"""Terms of a reduction as statements of one body, with common subexpressions shared and constants folded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from tileir.core import Aggregation, DType, NameScope, Op, attrs, needed
from tileir.core.numbers import arithmetic
from tileir.core.numbers.number_system import REAL
from tileir.stripe.ir import (
    Buffer,
    Constant,
    Convert,
    Intrinsic,
    Load,
    LoadIndex,
    Refinement,
    Statement,
    scalar_inputs,
    scalar_output,
)

Known: TypeAlias = np.generic | np.ndarray[Any, Any]
"""A scalar known at compile time, as a NumPy value of its dtype."""

Value: TypeAlias = "Known | str"
"""A scalar of a term: its value, or its name."""

_NEUTRAL = {Aggregation.SUM: 0.0, Aggregation.PROD: 1.0, Aggregation.MAX: -np.inf, Aggregation.MIN: np.inf}
_KEEPS_FINITE = frozenset({Op.NEG, Op.ABS, Op.MAX, Op.MIN, Op.COND, Op.IDENT, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC})


@attrs.define(eq=False, repr=False)
class Terms:
    """Builder of the terms of a reduction, one after the other.

    Attributes:
        aggregation: The aggregation of the terms.
        names: Names that views cannot have.
        finite: Whether unknown floats are assumed to be finite.
        views: The views that are loaded from.
        statements: The statements that compute the terms.
        values: The terms.
    """

    aggregation: Aggregation
    names: NameScope
    finite: bool = False
    views: list[Refinement] = attrs.field(factory=list, init=False)
    statements: list[Statement] = attrs.field(factory=list, init=False)
    values: list[Value] = attrs.field(factory=list, init=False)
    _local: dict[str, Value] = attrs.field(factory=dict, init=False)
    _named: dict[Refinement, str] = attrs.field(factory=dict, init=False)
    _seen: dict[Statement, str] = attrs.field(factory=dict, init=False)
    _definitions: dict[str, Statement] = attrs.field(factory=dict, init=False)
    _scalars: NameScope = attrs.field(factory=NameScope, init=False)

    def begin(self) -> None:
        """Begin the next term, with no scalars from the previous one."""
        self._local.clear()

    def load(self, into: str, value: Known) -> None:
        """Set a scalar of the term to a known value."""
        self._local[into] = value

    def load_from(self, load: Load, view: Refinement) -> None:
        """Load a scalar of the term from a view, which gets a name."""
        key = attrs.evolve(view, name="")
        name = self._named.get(key)
        if name is None:
            name = self._named[key] = self.names.fresh(view.name)
            self.views.append(attrs.evolve(view, name=name))
        index = None if load.index is None else self.scalar(self._local[load.index])
        self._local[load.into] = self._emitted(Load(name, load.into, index, load.tags))

    def compute(self, statement: Constant | Convert | Intrinsic | LoadIndex) -> None:
        """Compute a scalar of the term: at compile time, if all operands are known."""
        read = [self._local[name] for name in scalar_inputs(statement)]
        known = [value for value in read if not isinstance(value, str)]
        result: Value
        if isinstance(statement, Constant):
            result = arithmetic.constant(statement.value, statement.dtype)
        elif isinstance(statement, LoadIndex) and statement.affine.is_constant:
            result = arithmetic.constant(int(statement.affine.offset), statement.dtype)
        elif isinstance(statement, Intrinsic) and statement.op is Op.COND and not isinstance(read[0], str):
            result = read[1] if bool(read[0]) else read[2]
        elif isinstance(statement, LoadIndex) or len(known) < len(read):
            result = self._emitted(self._reading(statement, read))
        elif isinstance(statement, Convert):
            result = arithmetic.cast(np.asarray(known[0]), statement.dtype)
        else:
            result = REAL.apply(statement.op, statement.dtype, *map(np.asarray, known))
        self._local[statement.into] = result

    def end(self, name: str) -> None:
        """Make a scalar of the term its value, unless it is neutral."""
        value = self._local[name]
        if not self._is_neutral(value):
            self.values.append(value)

    def value(self, name: str) -> str:
        """Return the name of a scalar of the term among the statements."""
        return self.scalar(self._local[name])

    def merged(self, dtype: DType) -> tuple[Statement, ...]:
        """Return statements that compute the aggregate of all terms, in order; the last one defines it."""
        return self.alive((self.total(dtype),))

    def total(self, dtype: DType) -> str:
        """Return the name of the aggregate of all terms, in order; later terms belong to another one."""
        values, self.values = self.values, []
        if self.aggregation is Aggregation.SUM or not values:
            total: Value = arithmetic.constant(_NEUTRAL[self.aggregation], dtype)
        else:
            total = values.pop(0)
        for value in values:
            total = self._emitted(self._merged(total, value, dtype))
        return self.scalar(total)

    def scalar(self, value: Value) -> str:
        """Return the name of a scalar with this value."""
        if isinstance(value, str):
            return value
        dtype = arithmetic.dtype_of(np.asarray(value))
        plain = float(np.asarray(value, np.float64)) if dtype.is_float else np.asarray(value).item()
        return self._emitted(Constant("constant", dtype, plain))

    def _merged(self, total: Value, value: Value, dtype: DType) -> Intrinsic:
        """Return the statement that merges one more term; products of floats are rounded with their sum."""
        op = self.aggregation.op
        assert op is not None  # an assignment has one term
        product = self._definitions.get(value) if isinstance(value, str) else None
        fuses = self.aggregation is Aggregation.SUM and dtype.is_float
        if fuses and isinstance(product, Intrinsic) and product.op is Op.MUL and product.dtype is dtype:
            return Intrinsic(Op.FMA, (*product.inputs, self.scalar(total)), "total", dtype)
        return Intrinsic(op, (self.scalar(total), self.scalar(value)), "total", dtype)

    def _reading(self, statement: Convert | Intrinsic | LoadIndex, read: Iterable[Value]) -> Statement:
        names = tuple(map(self.scalar, read))
        match statement:
            case Convert():
                return attrs.evolve(statement, input=names[0], deps=())
            case Intrinsic():
                return attrs.evolve(statement, inputs=names, deps=())
            case LoadIndex():
                return attrs.evolve(statement, deps=())

    def _emitted(self, statement: Statement) -> str:
        """Return the scalar that a statement defines, or that of an earlier equal statement."""
        stem = scalar_output(statement)
        assert stem is not None  # it loads or computes one
        key = _into(statement, "")
        name = self._seen.get(key)
        if name is None:
            name = self._seen[key] = self._scalars.fresh(stem)
            new = _into(statement, name)
            self.statements.append(new)
            self._definitions[name] = new
        return name

    def _is_neutral(self, value: Value) -> bool:
        """Return whether merging a value certainly changes nothing."""
        neutral = _NEUTRAL[self.aggregation]
        if not isinstance(value, str):
            return bool(value == neutral)
        definition = self._definitions[value]
        match definition:
            case Convert(input=name):
                return neutral == 0 and self._is_neutral(name)
            case Intrinsic(op=Op.MUL, inputs=names) if neutral == 0:
                return self._absorbs(names, 0.0)
            case Intrinsic(op=Op.ADD, inputs=names) if not np.isfinite(neutral):
                return self._absorbs(names, neutral)
            case _:
                return False

    def _absorbs(self, names: Iterable[str], absorbing: float) -> bool:
        """Return whether one operand is ``absorbing``, which determines the result, and the others are finite."""
        values = {name: self._constant(name) for name in names}
        absorbed = any(value is not None and value == absorbing for value in values.values())
        return absorbed and all(self._is_finite(name) for name, value in values.items() if value != absorbing)

    def _constant(self, name: str) -> float | None:
        definition = self._definitions[name]
        return float(definition.value) if isinstance(definition, Constant) else None

    def _is_finite(self, name: str) -> bool:
        """Return whether a scalar is neither infinite nor NaN."""
        definition = self._definitions[name]
        match definition:
            case Constant(value=value):
                return bool(np.isfinite(float(value)))
            case Intrinsic(op=op, inputs=inputs) if op in _KEEPS_FINITE:
                return all(self._is_finite(each) for each in inputs)
            case Convert(input=source, dtype=dtype) if dtype.is_float:
                before = self._dtype(source)
                wide = before.is_float or not np.isinf(arithmetic.rounded(before.maximum, dtype))
                return wide and (not before.is_float or (dtype.bits >= before.bits and self._is_finite(source)))
            case _:
                return self.finite or not self._dtype(name).is_float

    def _dtype(self, name: str) -> DType:
        match self._definitions[name]:
            case Load(source=source):
                return next(view.shape.dtype for view in self.views if view.name == source)
            case Constant(dtype=dtype) | Convert(dtype=dtype) | LoadIndex(dtype=dtype):
                return dtype
            case Intrinsic(op=op, dtype=dtype):
                return DType.BOOL if op.info.compares else dtype
            case _:
                raise TypeError("only scalars have dtypes")  # a defect of this module

    def alive(self, results: Iterable[str]) -> tuple[Statement, ...]:
        """Return the statements that scalars need, in order."""
        return tuple(needed(self.statements, results, scalar_output, scalar_inputs))


def _into(statement: Statement, name: str) -> Statement:
    assert isinstance(statement, Load | LoadIndex | Constant | Convert | Intrinsic)
    return attrs.evolve(statement, into=name)


def elements_of(buffer: Buffer, dtype: DType) -> arithmetic.Array:
    """Return the elements of a constant for use in terms."""
    stored = np.frombuffer(buffer.data, dtype.numpy.newbyteorder("<"))
    return stored.astype(dtype.numpy, copy=False)
