"""Dimensions, index variables, and the arithmetic over them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from tileir.core import attrs, call_site
from tileir.core.numbers.integers import quotient, remainder
from tileir.core.operators import method_of, methods_of
from tileir.tile.building.recording import Recorded, Recorder, foreign, literal, mistake, same
from tileir.tile.checks.polynomial_rules import in_polynomial
from tileir.tile.ir import (
    Binary,
    BinaryOperator,
    Call,
    Constraint,
    Expr,
    FloatLiteral,
    IndexName,
    IntLiteral,
    Name,
    Unary,
    UnaryOperator,
)
from tileir.tile.text.grammar import MAX_INTEGER
from tileir.tile.traversal import index_names, walk

_LARGE_DIM: Final = 32  # nodes from which on a size gets a statement of its own
_LARGE_POLYNOMIAL: Final = 1000  # nodes: more than anybody writes


@attrs.frozen(repr=False)
class Dim(Recorded):
    """A size that is known when compiling: a dimension of an input, or arithmetic over such.

    ``/`` and ``//`` both are Tile's division, which truncates; ``%`` is its remainder. Two are equal
    when they were written alike. They have no order and no truth value, for they have no value yet.
    """

    expr: Expr
    recorder: Recorder = attrs.field(eq=False)
    size: int = attrs.field(default=1, eq=False)

    def __repr__(self) -> str:
        return f"Dim({self.expr.name})" if isinstance(self.expr, Name) else "Dim(…)"

    @property
    def value(self) -> int | None:
        """The integer that it is, where the program says so: a literal, or arithmetic over literals."""
        match self.expr:
            case IntLiteral(value=value):
                return value
            case Unary(UnaryOperator.NEG, IntLiteral(value=value)):
                return -value
            case _:
                return None

    def _binary(self, kind: BinaryOperator, other: Dim | int) -> Dim:
        if _of_another_kind(other):
            return NotImplemented  # type: ignore[no-any-return]
        dim = dim_of(self.recorder, other)
        known = _folded(kind, self, dim)
        return self._grown(Binary(kind, self.expr, dim.expr, span=call_site()), dim.size) if known is None else known

    def _reflected(self, kind: BinaryOperator, other: Dim | int) -> Dim:
        return dim_of(self.recorder, other)._binary(kind, self)

    __add__, __radd__ = methods_of(_binary, _reflected, BinaryOperator.ADD)
    __sub__, __rsub__ = methods_of(_binary, _reflected, BinaryOperator.SUB)
    __mul__, __rmul__ = methods_of(_binary, _reflected, BinaryOperator.MUL)
    __truediv__, __rtruediv__ = methods_of(_binary, _reflected, BinaryOperator.DIV)
    __floordiv__ = __truediv__
    __rfloordiv__ = __rtruediv__

    def __mod__(self, other: Dim | int) -> Dim:
        return NotImplemented if _of_another_kind(other) else self.call("mod", other)

    def __rmod__(self, other: int) -> Dim:
        return dim_of(self.recorder, other).call("mod", self)

    def __pow__(self, other: Dim | int) -> Dim:
        if _of_another_kind(other):
            return NotImplemented
        raise mistake("TIL215", "a dimension has no powers; multiply it by itself")

    def __rpow__(self, _: object) -> NoReturn:
        raise mistake("TIL215", "a dimension is no exponent of a number; pow(tensor, dimension) is a tensor")

    def __neg__(self) -> Dim:
        if self.value is not None:
            return dim_of(self.recorder, -self.value)
        return self._grown(Unary(UnaryOperator.NEG, self.expr, span=call_site()), 0)

    def __pos__(self) -> Dim:
        return self

    def max(self, other: Dim | int) -> Dim:
        """Return the greater of two sizes."""
        return self.call("max", other)

    def min(self, other: Dim | int) -> Dim:
        """Return the smaller of two sizes."""
        return self.call("min", other)

    def call(self, function: str, other: Dim | int) -> Dim:
        """Return a function of two sizes that is known when compiling."""
        dim = dim_of(self.recorder, other)
        known = _folded(function, self, dim)
        return (
            self._grown(Call(function, (self.expr, dim.expr), span=call_site()), dim.size) if known is None else known
        )

    def __bool__(self) -> NoReturn:
        raise mistake("TIL215", "a dimension has no truth value: its size is known only when the function is compiled")

    def __index__(self) -> NoReturn:
        raise mistake(
            "TIL215", "a dimension is no Python integer: its size is known only when the function is compiled"
        )

    def __getitem__(self, key: object) -> NoReturn:
        raise mistake("TIL205", "a dimension has no elements; only tensors take indices")

    def __iter__(self) -> NoReturn:
        raise mistake("TIL205", "a dimension has no elements; only tensors take indices")

    def _grown(self, expr: Expr, other: int) -> Dim:
        """Return the size ``expr``; a large one becomes a statement, so that using it often stays cheap."""
        size = self.size + other + 1
        if size <= _LARGE_DIM:
            return Dim(expr, self.recorder, size)
        return Dim(Name(self.recorder.record(expr), span=call_site()), self.recorder)


def _folded(operation: BinaryOperator | str, left: Dim, right: Dim) -> Dim | None:
    """Return the result of arithmetic over literals, or the operand that a 0 or 1 leaves as it is."""
    fold = _FOLDS.get(operation)
    if left.value is not None and right.value is not None and fold is not None:
        value = None if operation in _DIVISIONS and right.value == 0 else fold(left.value, right.value)
        return None if value is None or abs(value) > MAX_INTEGER else dim_of(left.recorder, value)
    if right.value is not None and (operation, right.value) in _NEUTRAL:
        return left
    neutral = left.value is not None and operation not in _ONE_SIDED and (operation, left.value) in _NEUTRAL
    return right if neutral and isinstance(operation, BinaryOperator) else None


_FOLDS: Final[Mapping[BinaryOperator | str, Callable[[int, int], int]]] = MappingProxyType(
    {
        BinaryOperator.ADD: operator.add,
        BinaryOperator.SUB: operator.sub,
        BinaryOperator.MUL: operator.mul,
        BinaryOperator.DIV: quotient,
        "mod": remainder,
        "max": max,
        "min": min,
    }
)
_NEUTRAL: Final = {
    (BinaryOperator.ADD, 0), (BinaryOperator.SUB, 0), (BinaryOperator.MUL, 1), (BinaryOperator.DIV, 1)
}  # fmt: skip
_ONE_SIDED: Final = {BinaryOperator.SUB, BinaryOperator.DIV}
_DIVISIONS: Final = {BinaryOperator.DIV, "mod"}


def _of_another_kind(value: object) -> bool:
    """Return whether ``value`` belongs to a builder but is no dimension: its own operator knows what to do."""
    return isinstance(value, Recorded) and not isinstance(value, Dim)


def dim_of(recorder: Recorder, value: object) -> Dim:
    """Return a dimension or number as a dimension of this builder.

    Raises:
        TileError: It is something else, or belongs to another builder.

    """
    if isinstance(value, Dim):
        same(recorder, value.recorder)
        return value
    if isinstance(value, Recorded):
        note = "an input from which sizes are computed is declared with integer(name)"
        raise mistake("TIL204", "a size is made of dimensions, integers and arithmetic over them", note)
    expr = literal(value)
    if expr is None or isinstance(expr, Call):
        raise foreign(value)
    return Dim(expr, recorder)


def size_of(recorder: Recorder, value: object) -> Expr:
    """Return a dimension or integer as the expression of a size.

    Raises:
        TileError: It is something else, a float among it, or belongs to another builder.

    """
    expr = dim_of(recorder, value).expr
    if any(isinstance(node, FloatLiteral) for node in walk(expr)):
        raise mistake("TIL215", "a size is an integer; no float can take part in it")
    return _placed(expr)


@attrs.frozen(eq=False, repr=False)
class Polynomial(Recorded):
    """An affine expression over index variables, at least one of them.

    ``/`` and ``//`` both divide exactly: a point where the quotient is no integer is skipped.
    ``p < bound`` is the constraint ``0 <= p < bound``.
    """

    expr: Expr
    recorder: Recorder
    size: int = 1

    def _binary(self, kind: BinaryOperator, other: Polynomial | Dim | int) -> Polynomial:
        if isinstance(other, Recorded) and not isinstance(other, Polynomial | Dim):
            return NotImplemented
        right = polynomial_of(self.recorder, other)
        return self._joined(Binary(kind, self.expr, right.expr, span=call_site()), right.size)

    def _reflected(self, kind: BinaryOperator, other: Polynomial | Dim | int) -> Polynomial:
        return polynomial_of(self.recorder, other)._binary(kind, self)

    __add__, __radd__ = methods_of(_binary, _reflected, BinaryOperator.ADD)
    __sub__, __rsub__ = methods_of(_binary, _reflected, BinaryOperator.SUB)
    __rmul__ = method_of(_reflected, BinaryOperator.MUL)

    def __mul__(self, other: Dim | int) -> Polynomial:
        _refuse_index(other, "a product of index variables is not affine; one factor must be constant")
        return self._binary(BinaryOperator.MUL, other)

    def __truediv__(self, other: Dim | int) -> Polynomial:
        _refuse_index(other, "an index polynomial can be divided by a constant only")
        if not isinstance(other, Recorded) and other == 0:
            raise mistake("TIL402", "an index polynomial cannot be divided by 0")
        return self._binary(BinaryOperator.DIV, other)

    __floordiv__ = __truediv__

    def __rtruediv__(self, _: object) -> NoReturn:
        raise mistake("TIL402", "an index polynomial can be divided by a constant only")

    __rfloordiv__ = __rtruediv__

    def __mod__(self, _: object) -> NoReturn:
        raise mistake("TIL402", "a remainder is not affine; write i = 2 * q + r with two index variables")

    def __pow__(self, _: object) -> NoReturn:
        raise mistake("TIL402", "a power of an index variable is not affine")

    __rpow__ = __pow__

    def __neg__(self) -> Polynomial:
        return Polynomial(Unary(UnaryOperator.NEG, self.expr, span=call_site()), self.recorder, self.size + 1)

    def __pos__(self) -> Polynomial:
        return self

    def __lt__(self, bound: Dim | int) -> Constraint:
        _refuse_index(bound, "all index variables of a constraint stand on its left: i - j < bound")
        return Constraint(self.expr, size_of(self.recorder, bound), span=call_site())

    def __le__(self, _: object) -> NoReturn:
        raise mistake("TIL214", _CONSTRAINT)

    __gt__ = __le__
    __ge__ = __le__

    def __bool__(self) -> NoReturn:
        raise mistake("TIL215", "an index variable has no truth value; it stands for all its values at once")

    def __index__(self) -> NoReturn:
        raise mistake("TIL215", "an index variable is no Python integer; it stands for all its values at once")

    def __iter__(self) -> NoReturn:
        raise mistake("TIL215", "an index variable cannot be iterated; a contraction runs over its values itself")

    def _joined(self, expr: Expr, other: int) -> Polynomial:
        size = self.size + other + 1
        if size > _LARGE_POLYNOMIAL:
            raise mistake("TIL103", f"this index polynomial has more than {_LARGE_POLYNOMIAL} terms")
        return Polynomial(expr, self.recorder, size)


_CONSTRAINT: Final = "a constraint is 'polynomial < bound' and means 0 <= polynomial < bound"


@attrs.frozen(eq=False)
class Index(Polynomial):
    """One index variable of contractions."""

    def __repr__(self) -> str:
        return f"Index({self.name})"

    @property
    def name(self) -> str:
        """Its name in the text."""
        return next(index_names(self.expr)).name


def _refuse_index(value: object, message: str) -> None:
    if isinstance(value, Polynomial):
        raise mistake("TIL402", message)


def polynomial_of(recorder: Recorder, value: object) -> Polynomial:
    """Return what stands between the brackets of a tensor as a polynomial, which may be constant then.

    Raises:
        TileError: It is no index, dimension or integer, or belongs to another builder.

    """
    if isinstance(value, Polynomial):
        same(recorder, value.recorder)
        return attrs.evolve(value, expr=_placed(value.expr))
    if isinstance(value, bool):
        raise mistake("TIL215", "a truth value is no index polynomial")
    if isinstance(value, float):
        raise mistake("TIL214", "an index polynomial has no floats; divide by an integer instead: i / 2")
    dim = dim_of(recorder, value)
    size_of(recorder, dim)
    if all(in_polynomial(node) for node in walk(dim.expr)):
        return Polynomial(dim.expr, recorder, dim.size)
    return Polynomial(Name(recorder.record(dim.expr), span=call_site()), recorder)


def _placed(expr: Expr) -> Expr:
    """Give a bare name the line where it is used; what is computed has the line of its operator."""
    return attrs.evolve(expr, span=call_site()) if isinstance(expr, Name | IndexName) else expr
