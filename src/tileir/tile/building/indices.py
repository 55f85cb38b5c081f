"""Dimensions, index variables, and the arithmetic over them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from operator import index
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np

from tileir.core import attrs, call_site, with_whole_traceback
from tileir.core.numbers.integers import quotient, remainder
from tileir.core.operators import method_of, methods_of
from tileir.tile.building.recording import (
    ACTIVE,
    Declared,
    Recorded,
    RecordedObject,
    Recorder,
    array_function,
    foreign,
    literal,
    mistake,
    same,
)
from tileir.tile.checks.polynomial_rules import in_polynomial
from tileir.tile.ir import (
    Binary,
    BinaryOperator,
    Call,
    Conditional,
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
from tileir.tile.traversal import children, index_names, walk


def evaluated(recorder: Recorder, expr: Expr, sizes: Mapping[str, int]) -> int:
    """Return the value of a size.

    Args:
        recorder: The builder of the size.
        expr: The size.
        sizes: The sizes of dimensions, and the values of inputs that are integers, by name.

    Raises:
        TileError: TIL306, a size that is needed is not given; TIL308, something is divided by 0; TIL312 or TIL301, the
            sizes break a condition of the program; TIL215, one that is given is no integer.
    """
    known = {name: _given(name, value) for name, value in sizes.items()}
    needed = _statements(recorder, expr)
    for name, step in recorder.steps.items():
        if name in needed:
            known[name] = _value(_expression(step.body), known)
    return _value(expr, known)


def _statements(recorder: Recorder, expr: Expr) -> set[str]:
    """Return the statements on which an expression depends, directly or not."""
    found: set[str] = set()
    pending = [expr]
    while pending:
        for node in walk(pending.pop()):
            if isinstance(node, Name) and node.name in recorder.steps and node.name not in found:
                found.add(node.name)
                pending.append(_expression(recorder.steps[node.name].body))
    return found


def _expression(body: Expr | Declared) -> Expr:
    if not isinstance(body, Name | IntLiteral | FloatLiteral | Unary | Binary | Conditional | Call):
        raise mistake("TIL306", "this size is computed when running, so it has no value before")
    return body


def _given(name: str, value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]  # any integer, those of NumPy too
    except TypeError:
        raise mistake("TIL215", f"the size of {name!r} is an integer, not {value!r:.80}") from None


def _value(expr: Expr, known: Mapping[str, int]) -> int:
    match expr:
        case IntLiteral(value=value):
            return value
        case Name(name=name):
            if name not in known:
                raise mistake("TIL306", f"the size of {name!r} is not given; pass it, as in at({{{name!r}: 4}})")
            return known[name]
        case _:
            values = [_value(child, known) for child in children(expr)]
            return _computed(expr, values)


def _computed(expr: Expr, values: list[int]) -> int:
    word = "cond"
    if isinstance(expr, Call):
        word = expr.function
    elif isinstance(expr, Unary | Binary):
        word = expr.operator.name.lower()
    function = _FUNCTIONS.get(word)
    if function is None:
        raise mistake("TIL306", f"{word!r} of sizes has no value before the program is compiled")
    if word in ("div", "mod") and values[1] == 0:
        raise mistake("TIL308", f"this size divides {values[0]} by 0")
    return int(function(*values))


def _match(left: int, right: int) -> int:
    if left != right:
        raise mistake("TIL312", f"one size is {left} and the other {right}, but both must match")
    return left


def _broadcast(left: int, right: int) -> int:
    if left != right and 1 not in (left, right):
        raise mistake("TIL301", f"one size is {left} and the other {right}; they must be equal, or one of them 1")
    return right if left == 1 else left


_FUNCTIONS: Final[Mapping[str, Callable[..., int]]] = MappingProxyType(
    {
        **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "abs")},
        **{f"cmp_{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
        "div": quotient,
        "mod": remainder,
        "max": max,
        "min": min,
        **dict.fromkeys(("ident", "floor", "ceil"), math.floor),
        **dict.fromkeys(("cond", "where"), lambda condition, then, otherwise: then if condition else otherwise),
        "match": _match,
        "broadcast": _broadcast,
    }
)


_LARGE_DIM: Final = 32  # nodes from which on a size gets a statement of its own
_LARGE_POLYNOMIAL: Final = 1000  # nodes: more than users write


@attrs.frozen(repr=False, eq=False)
class Dim(RecordedObject):
    """A size that is known when compiling: a dimension of an input, or arithmetic over dimensions.

    In a builder ``/`` and ``//`` both are Tile's division, which truncates, and ``%`` is its remainder; two sizes are
    equal if they were written alike, and they have no order and no truth value, because they have no value yet. In a
    Python function that is traced for arrays operators have the meaning of those on Python's integers, and where the
    value is needed, by a comparison or ``range``, it is the size of the array: the trace holds for that size then.
    """

    own_expr: Expr
    home: Recorder
    size: int = 1

    @property
    @with_whole_traceback
    def expr(self) -> Expr:
        """The expression of the size in the function that is being built."""
        return self.own_expr if ACTIVE.recorder is None else self._seen(self.own_expr, _captured)

    def __hash__(self) -> int:
        known = self.known_for_arrays() if self.recorder.means_numpy else self.value
        return hash(self.own_expr if known is None else known)

    def __repr__(self) -> str:
        return f"Dim({self.text})"

    @property
    def text(self) -> str:
        """The size as a short text: its name or its value."""
        return self.own_expr.name if isinstance(self.own_expr, Name) else "…" if self.value is None else str(self.value)

    @property
    @with_whole_traceback
    def value(self) -> int | None:
        """The value, if the program determines it: a literal, or arithmetic over literals."""
        match self.own_expr:
            case IntLiteral(value=value):
                return value
            case Unary(UnaryOperator.NEG, IntLiteral(value=value)):
                return -value
            case _:
                return None

    def at(self, sizes: Mapping[str, int]) -> int:
        """Return the value for these sizes of dimensions, and values of inputs that are integers, by name.

        Raises:
            TileError: TIL306, a required one is not given; TIL308, something is divided by 0; TIL301 or TIL312, the
                sizes break
                a condition of the program; TIL215, one that is given is no integer.
        """
        return evaluated(self.recorder, self.expr, sizes)

    def _binary(self, kind: BinaryOperator, other: Dim | int) -> Dim:
        if not _is_size(other):
            return NotImplemented  # type: ignore[no-any-return]
        dim = dim_of(self.recorder, other)
        known = _folded(kind, self, dim)
        return self._grown(Binary(kind, self.expr, dim.expr, span=call_site()), dim.size) if known is None else known

    def _reflected(self, kind: BinaryOperator, other: Dim | int) -> Dim:
        if not _is_size(other):
            return NotImplemented  # type: ignore[no-any-return]
        return dim_of(self.recorder, other)._binary(kind, self)

    def _quotient(self, kind: str, other: Dim | int) -> Dim:
        """Return a quotient rounded down or its remainder: Tile's, corrected if an operand may be negative."""
        if not _is_size(other):
            return NotImplemented  # type: ignore[no-any-return]
        by = dim_of(self.recorder, other)
        rest = self.call("mod", by)
        if self.recorder.means_numpy and not (is_natural(self.expr) and is_natural(by.expr)):
            rest = (rest + by).call("mod", by)
        return rest if kind == "mod" else (self - rest)._binary(BinaryOperator.DIV, by)

    def _compared(self, compare: Callable[[int, int], bool], other: object) -> bool:
        if not self.recorder.means_numpy or not _is_size(other):
            return NotImplemented  # type: ignore[no-any-return]
        return bool(compare(self.known(), dim_of(self.recorder, other).known()))

    __lt__, __le__ = method_of(_compared, operator.lt), method_of(_compared, operator.le)
    __gt__, __ge__ = method_of(_compared, operator.gt), method_of(_compared, operator.ge)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim) and self.home is other.home and self.own_expr == other.own_expr:
            return True
        if isinstance(other, Dim) and self.recorder is other.recorder and self.expr == other.expr:
            return True
        if self.recorder.means_numpy and _is_size(other):
            return bool(self.known() == dim_of(self.recorder, other).known())
        return NotImplemented if not isinstance(other, Dim) else False

    def known_for_arrays(self) -> int | float | None:
        """Return the value of literals, or for the arrays that a function is traced for; None if it is unknown."""
        return value_for_arrays(self.home, self.own_expr) if self.value is None else self.value

    def known(self) -> Any:
        """Return the value: that of literals, or for the arrays that a Python function is traced for.

        Raises:
            TileError: TIL215, it is not known yet.
        """
        found = self.known_for_arrays()
        if found is None:
            message = "a dimension is no Python integer and has no truth value or order: its size is known only when "
            raise mistake("TIL215", f"{message}the function is compiled")
        return found

    __add__, __radd__ = methods_of(_binary, _reflected, BinaryOperator.ADD)
    __sub__, __rsub__ = methods_of(_binary, _reflected, BinaryOperator.SUB)
    __mul__, __rmul__ = methods_of(_binary, _reflected, BinaryOperator.MUL)

    def __truediv__(self, other: Dim | int | float) -> Dim:
        left = self if not self.recorder.means_numpy else self * dim_of(self.recorder, 1.0)
        return left._binary(BinaryOperator.DIV, other)  # type: ignore[arg-type]  # a float makes a float

    def __rtruediv__(self, other: Dim | int | float) -> Dim:
        return dim_of(self.recorder, other).__truediv__(self)

    def __floordiv__(self, other: Dim | int) -> Dim:
        return self._quotient("div", other) if self.recorder.means_numpy else self._binary(BinaryOperator.DIV, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return dim_of(self.recorder, other).__floordiv__(self)

    def __mod__(self, other: Dim | int) -> Dim:
        return self._quotient("mod", other)

    def __rmod__(self, other: int) -> Dim:
        return dim_of(self.recorder, other)._quotient("mod", self)

    def __pow__(self, other: Dim | int | float) -> Any:
        if not _is_size(other):
            return NotImplemented
        if not self.recorder.means_numpy:
            raise mistake("TIL215", "a dimension has no powers; multiply it by itself")
        if isinstance(other, int) and 0 < other <= _MOST_FACTORS:
            return functools.reduce(operator.mul, [self] * other)
        return array_function("power")(self, other) if isinstance(other, float) else self._counted(operator.pow, other)

    def __rpow__(self, other: object) -> Any:
        if not self.recorder.means_numpy:
            raise mistake("TIL215", "a dimension is no exponent of a number; pow(tensor, dimension) is a tensor")
        return self._counted_by(operator.pow, other)

    def _counted(self, apply: Callable[[Any, Any], Any], other: object) -> Any:
        """Return the result of Python's integers, for the arrays that a function is traced for."""
        if not self.recorder.means_numpy or not _is_size(other):
            return NotImplemented
        return apply(self.known(), other.known() if isinstance(other, Dim) else other)

    def _counted_by(self, apply: Callable[[Any, Any], Any], other: object) -> Any:
        return self._counted(lambda left, right: apply(right, left), other)

    __lshift__, __rlshift__ = methods_of(_counted, _counted_by, operator.lshift)
    __rshift__, __rrshift__ = methods_of(_counted, _counted_by, operator.rshift)
    __and__, __rand__ = methods_of(_counted, _counted_by, operator.and_)
    __or__, __ror__ = methods_of(_counted, _counted_by, operator.or_)
    __xor__, __rxor__ = methods_of(_counted, _counted_by, operator.xor)

    def __divmod__(self, other: Dim | int) -> tuple[Dim, Dim]:
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[Dim, Dim]:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.known(), digits)

    def __abs__(self) -> Dim:
        return self.max(-self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:  # type: ignore[override]
        """Return the number as an array, for NumPy's functions that make arrays of sizes, such as ``arange``."""
        if not self.recorder.means_numpy:
            raise mistake("TIL215", "this stands for a size of a program, which is known when it is compiled")
        return np.array(self.known(), dtype)

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

    def __bool__(self) -> bool:
        return bool(self.known() != 0)

    def __index__(self) -> int:
        return operator.index(self.known())

    def __int__(self) -> int:
        return int(self.known())

    def __float__(self) -> float:
        return float(self.known())

    def __getitem__(self, key: object) -> NoReturn:
        raise mistake("TIL205", "a dimension has no elements; only tensors take indices")

    def __iter__(self) -> NoReturn:
        raise mistake("TIL205", "a dimension has no elements; only tensors take indices")

    def _grown(self, expr: Expr, other: int) -> Dim:
        """Return the size ``expr``; a large one becomes a statement, so that frequent use remains cheap."""
        size = self.size + other + 1
        if size <= _LARGE_DIM:
            return Dim(expr, self.recorder, size)
        return Dim(Name(self.recorder.record(expr), span=call_site()), self.recorder)


def _captured(active: Recorder, home: Recorder, expr: Expr) -> Expr:
    from tileir.tile.building.captures import captured_size  # it is built on sizes

    return captured_size(active, home, expr)


def _folded(operation: BinaryOperator | str, left: Dim, right: Dim) -> Dim | None:
    """Return the result of arithmetic over literals, or the operand that a 0 or 1 leaves unchanged."""
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
_MOST_FACTORS: Final = 8  # of powers of sizes that remain symbolic
_NEUTRAL: Final = {
    (BinaryOperator.ADD, 0), (BinaryOperator.SUB, 0), (BinaryOperator.MUL, 1), (BinaryOperator.DIV, 1)
}  # fmt: skip
_ONE_SIDED: Final = {BinaryOperator.SUB, BinaryOperator.DIV}
_DIVISIONS: Final = {BinaryOperator.DIV, "mod"}


def _is_size(value: object) -> bool:
    """Return whether ``value`` may be an operand of a dimension; otherwise its own operator takes over."""
    return not isinstance(value, Recorded | np.ndarray | list | tuple) or isinstance(value, Dim)


def is_natural(expr: Expr) -> bool:
    """Return whether a size is obviously not negative."""
    return all(
        not isinstance(node, Unary) and getattr(node, "operator", None) is not BinaryOperator.SUB for node in walk(expr)
    )


_KNOWN: Final[Mapping[BinaryOperator | str, Callable[[int, int], int]]] = MappingProxyType(
    {"match": max, "broadcast": lambda left, right: right if left == 1 else left}
)
"""Functions of two sizes that a program checks when it is compiled."""


def value_for_arrays(recorder: Recorder, expr: Expr) -> int | float | None:
    """Return the value of a size for the arrays that a function, or the one around it, is traced for.

    The trace records the sizes that determine it.
    """
    trace = recorder.trace

    def value(expr: Expr) -> int | float | None:
        match expr:
            case IntLiteral(value=found) | FloatLiteral(value=found):
                return found
            case Name(name=name) if trace is not None and name in trace.sizes:
                trace.assumed[name] = trace.sizes[name]
                return trace.sizes[name]
            case Name(name=name) if recorder.around is not None and name in recorder.outside:
                return value_for_arrays(recorder.around, recorder.outside[name])
            case Name(name=name) if name in recorder.steps:
                body = recorder.steps[name].body
                return None if isinstance(body, Declared) else value(body)
            case Unary(UnaryOperator.NEG, operand):
                positive = value(operand)
                return None if positive is None else -positive
            case Binary(operator=kind, lhs=lhs, rhs=rhs):
                return folded(kind, value(lhs), value(rhs))
            case Call(function=kind, arguments=(lhs, rhs)):
                return folded(kind, value(lhs), value(rhs))
            case _:
                return None

    def folded(kind: BinaryOperator | str, left: int | float | None, right: int | float | None) -> int | float | None:
        if left is None or right is None:
            return None
        if kind is BinaryOperator.DIV and isinstance(left + right, float):
            return left / right if right else None
        fold: Any = _FOLDS.get(kind, _KNOWN.get(kind))
        return None if fold is None else fold(left, right)

    return value(expr)


def simplified(recorder: Recorder, expr: Expr) -> Dim:
    """Return a size with the arithmetic on its numbers done."""
    match expr:
        case Binary(operator=operation, lhs=lhs, rhs=rhs):
            return _joined(operation, simplified(recorder, lhs), simplified(recorder, rhs), expr)
        case Call(function=operation, arguments=(lhs, rhs)):
            return _joined(operation, simplified(recorder, lhs), simplified(recorder, rhs), expr)
        case Unary(UnaryOperator.NEG, operand):
            return -simplified(recorder, operand)
        case _:
            return Dim(expr, recorder, sum(1 for _ in walk(expr)))


def _joined(operation: BinaryOperator | str, left: Dim, right: Dim, expr: Expr) -> Dim:
    known = _folded(operation, left, right)
    if known is not None:
        return known
    if isinstance(expr, Binary):
        expr = attrs.evolve(expr, lhs=left.expr, rhs=right.expr)
    elif isinstance(expr, Call):
        expr = attrs.evolve(expr, arguments=(left.expr, right.expr))
    return Dim(expr, left.recorder, left.size + right.size + 1)


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
        TileError: It is something else, for example a float, or belongs to another builder.
    """
    expr = dim_of(recorder, value).expr
    if any(isinstance(node, FloatLiteral) for node in walk(expr)):
        raise mistake("TIL215", "a size is an integer; no float can take part in it")
    return _placed(expr)


@attrs.frozen(eq=False, repr=False)
class Polynomial(Recorded):
    """An affine expression over index variables, at least one of them.

    ``/`` and ``//`` both divide exactly: a point where the quotient is no integer is skipped. ``p < bound`` is the
    constraint ``0 <= p < bound``.
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
    """Return an index between the brackets of a tensor as a polynomial, which may be constant.

    Raises:
        TileError: It is no index, dimension or integer, or belongs to another builder.
    """
    if isinstance(value, Polynomial):
        same(recorder, value.recorder)
        return Polynomial(_placed(value.expr), recorder, value.size)
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
    """Give a bare name the line of its use; computed values have the line of their operator."""
    return type(expr)(expr.name, span=call_site()) if isinstance(expr, Name | IndexName) else expr
