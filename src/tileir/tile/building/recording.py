"""What one builder has recorded so far: the only mutable state of the builder's objects."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

import numpy as np

from tileir.core import NameScope, Span, TileError, attrs, call_site, fail
from tileir.core.process.tracebacks import methods_at_the_call
from tileir.core.text.advice import ELSEWHERE
from tileir.tile.ir import (
    Attribute,
    Call,
    Constant,
    Contraction,
    Expr,
    FloatLiteral,
    Input,
    IntLiteral,
    Name,
    Scan,
    Unary,
    UnaryOperator,
    While,
)
from tileir.tile.text.grammar import MAX_INTEGER, is_index_name, is_tensor_name

if TYPE_CHECKING:
    from tileir.tile.building.indices import Dim


def mistake(code: str, message: str, *notes: str) -> TileError:
    """Build the error for a mistake at the user's line, to be raised by the caller."""
    return fail(code, message, call_site(), *notes)


Declared: TypeAlias = Contraction | Scan | While | Constant
"""What is a statement of its own, and no expression that could be nested into another one."""


@attrs.define(eq=False, repr=False)
class Step:
    """One statement. Without a ``name`` it goes by its ``reference``, which no text can spell."""

    reference: str
    body: Expr | Declared
    name: str | None
    attributes: tuple[Attribute, ...]
    span: Span | None


@attrs.frozen
class Target:
    """What was declared of a tensor that its contraction has still to define."""

    sizes: tuple[Expr, ...]
    default: str | None  # by reference
    no_defract: bool
    span: Span | None


@attrs.define(eq=False)
class Recorder:
    """The inputs and statements of one function, in order; that of a step knows the one ``around`` its scan."""

    around: Recorder | None = None
    inputs: list[Input] = attrs.field(factory=list, init=False)
    dims: dict[str, None] = attrs.field(factory=dict, init=False)
    steps: dict[str, Step] = attrs.field(factory=dict, init=False)  # by reference
    targets: dict[str, Target] = attrs.field(factory=dict, init=False)  # by reference
    names: NameScope = attrs.field(factory=NameScope, init=False)
    ranks: dict[str, int] = attrs.field(factory=dict, init=False)  # by reference, where it is known
    sizes: dict[str, tuple[Dim, ...] | None] = attrs.field(factory=dict, init=False)  # as far as they were asked for
    finished: bool = attrs.field(default=False, init=False)
    _attributes: list[Attribute] = attrs.field(factory=list, init=False)
    _count: int = attrs.field(default=0, init=False)

    def check_open(self) -> None:
        """Refuse to go on after the function was built."""
        if self.finished:
            raise mistake("TIL216", "this builder is finished: its function was built; start a new one")

    def claim(self, name: str) -> None:
        """Take a name for a tensor that was not taken before."""
        check_tensor_name(name)
        if name in self.names:
            raise mistake("TIL202", f"{name!r} is defined before; tensors never change, so choose a new name")
        self.names.add(name)

    def record(self, body: Expr | Declared, name: str | None = None) -> str:
        """Append a statement and return how expressions refer to its result."""
        self.check_open()
        reference = f"%{self._count}" if name is None else name
        self._count += 1
        self.steps[reference] = Step(reference, body, name, tuple(self._attributes), call_site())
        return reference

    @contextmanager
    def attributed(self, attribute: Attribute) -> Iterator[None]:
        """Put ``attribute`` in front of each statement that is recorded inside."""
        self._attributes.append(attribute)
        try:
            yield
        finally:
            self._attributes.pop()


def _no_name(name: object) -> TileError:
    if isinstance(name, tuple | list) and all(isinstance(each, str) for each in name):
        spread = ", ".join(map(repr, name))
        return mistake("TIL211", f"{name!r:.80} is no name; pass each on its own: {spread:.80}")
    return mistake("TIL211", f"{name!r:.80} is no name: one has letters, digits and _, and begins with no digit")


def check_tensor_name(name: object) -> None:
    """Refuse what no text can spell as a tensor or dimension."""
    if not isinstance(name, str) or not is_tensor_name(name):
        raise _no_name(name)


def check_index_name(name: object) -> None:
    """Refuse what no text can spell as an index variable."""
    if not isinstance(name, str) or not is_index_name(name):
        raise _no_name(name)


def literal(value: object) -> Expr | None:
    """Return the expression that a Python or NumPy number is, or None for anything else."""
    span = call_site()
    if isinstance(value, bool | np.bool_):
        return Call("as_bool", (IntLiteral(int(value), span=span),), span=span)
    if isinstance(value, numbers.Integral):
        return _signed(IntLiteral(_bounded(abs(int(value))), span=span), int(value) < 0)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        number = float(value)
        if math.isnan(number):
            raise mistake("TIL212", "NaN has no literal; write 0.0 / 0.0")
        return _signed(FloatLiteral(abs(number), span=span), math.copysign(1, number) < 0)
    return None


def _signed(expr: IntLiteral | FloatLiteral, negative: bool) -> Expr:
    return Unary(UnaryOperator.NEG, expr, span=expr.span) if negative else expr


def _bounded(value: int) -> int:
    if value > MAX_INTEGER:
        raise mistake("TIL104", "an integer has at most 64 bits")
    return value


def named(reference: str) -> Name:
    """Return the expression that reads a tensor, with the user's line as its span."""
    return Name(reference, span=call_site())


_BOTH: Final = 2

_OPERATORS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "add": ("add", "radd"),
        "subtract": ("sub", "rsub"),
        "multiply": ("mul", "rmul"),
        "divide": ("truediv", "rtruediv"),
        "floor_divide": ("floordiv", "rfloordiv"),
        "remainder": ("mod", "rmod"),
        "power": ("pow", "rpow"),
        "left_shift": ("lshift", "rlshift"),
        "right_shift": ("rshift", "rrshift"),
        "bitwise_and": ("and_", "rand"),
        "bitwise_or": ("or_", "ror"),
        "bitwise_xor": ("xor", "rxor"),
        "less": ("lt", "gt"),
        "less_equal": ("le", "ge"),
        "greater": ("gt", "lt"),
        "greater_equal": ("ge", "le"),
        "equal": ("eq", "eq"),
        "not_equal": ("ne", "ne"),
        "matmul": ("matmul", "rmatmul"),
    }
)
"""NumPy's functions behind operators: those of Python, and the methods that take the right operand's part."""

_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "shape": "its sizes are X.dims",
        "ndim": "its rank is len(X.dims)",
        "size": "its sizes are X.dims",
        "dtype": "it has one when the function is compiled",
        "T": "write ops.transpose(X)",
        "astype": "write ops.cast(X, dtype)",
        "numpy": "it has no values; run the function for those",
        "item": "it has no values; run the function for those",
    }
)
"""What to write for attributes that arrays have."""


class Recorded:
    """What the objects of a builder have in common.

    An operator between two kinds of them that the left one does not know is left to the right one.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        methods_at_the_call(cls)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        """Take the operators of NumPy's scalars and arrays, as those of Python's numbers; refuse its functions."""
        name = ufunc.__name__
        if method == "__call__" and len(inputs) == _BOTH and name in _OPERATORS and not options:
            left, right = (each[()] if isinstance(each, np.ndarray) and each.shape == () else each for each in inputs)
            if isinstance(left, Recorded):
                return getattr(operator, _OPERATORS[name][0])(left, right)
            reflected = getattr(right, f"__{_OPERATORS[name][1]}__", None)
            if reflected is not None:
                return reflected(left)
        here = f"write ops.{ELSEWHERE.get(name, name)}(X)"
        raise mistake("TIL215", f"numpy.{name} takes arrays, and this stands for a tensor of a program; {here}")

    def __matmul__(self, other: object) -> NoReturn:
        raise mistake("TIL215", "tensors of a program have no operator @; write ops.matmul(X, Y), or a contraction")

    __rmatmul__ = __matmul__

    def __getattr__(self, name: str) -> NoReturn:
        advice = _ATTRIBUTES.get(name, f"functions of tileir.ops take it, as in ops.{name}(X)")
        hint = "" if name.startswith("_") else f": {advice}"
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise mistake("TIL215", "this stands for a tensor of a program and has no values; run the function for those")


def foreign(value: object) -> TileError:
    """Build the error for a Python object that no expression can hold, to be raised by the caller."""
    if isinstance(value, np.ndarray):
        return mistake("TIL215", "an array is no operand; make it a constant, with constant(array), or an input")
    return mistake("TIL215", f"a {type(value).__name__} cannot stand here: {value!r:.60}")


def same(recorder: Recorder, other: Recorder) -> None:
    """Refuse an object of another builder."""
    if recorder is not other:
        if _stands_in(recorder, other) or _stands_in(other, recorder):
            message = "this belongs to the function around the step; pass it to the scan, among the constants"
            raise mistake("TIL216", message)
        raise mistake("TIL216", "this belongs to another builder; a function is made of what one builder gave")


def _stands_in(recorder: Recorder, other: Recorder) -> bool:
    """Return whether ``recorder`` is that of a step of a scan in ``other``, directly or not."""
    around = recorder.around
    while around is not None and around is not other:
        around = around.around
    return around is other
