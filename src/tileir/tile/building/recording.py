"""Record of one builder: the only mutable state of the builder's objects."""

from __future__ import annotations

import importlib
import math
import numbers
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, Self, TypeAlias, TypeVar

import numpy as np

from tileir.core import (
    ArrayValue,
    DType,
    NameScope,
    Span,
    TileError,
    attrs,
    call_site,
    fail,
    methods_at_the_call,
    with_whole_traceback,
)
from tileir.tile.ir import (
    Attribute,
    Binary,
    BinaryOperator,
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
from tileir.tile.text.grammar import MAX_INTEGER, MAX_NAME, is_index_name, is_tensor_name

if TYPE_CHECKING:
    from tileir.tile.building.indices import Dim


S = TypeVar("S")


def mistake(code: str, message: str, *notes: str) -> TileError:
    """Build the error for a mistake at the user's line, to be raised by the caller."""
    return fail(code, message, call_site(), *notes)


Declared: TypeAlias = Contraction | Scan | While | Constant
"""Statements that are no expressions, and so cannot be nested."""


@attrs.define(eq=False, repr=False)
class Step:
    """One statement. Without a ``name`` it goes by its ``reference``, which no text can spell.

    When it is written, its name begins with ``stem``.
    """

    reference: str
    body: Expr | Declared
    name: str | None
    attributes: tuple[Attribute, ...]
    span: Span | None
    stem: str = "T"


@attrs.frozen
class Target:
    """Declaration of a tensor that a contraction has yet to define."""

    sizes: tuple[Expr, ...]
    default: str | None  # by reference
    no_defract: bool
    span: Span | None


class _LibraryFlag(threading.local):
    """Flag of a thread that is inside an operation of the library, whose own code means Tile's operators."""

    operation = False


INSIDE: Final = _LibraryFlag()


class _Active(threading.local):
    """Recorder of the innermost Python function that this thread traces, if it is nested."""

    recorder: Recorder | None = None


ACTIVE: Final = _Active()


def here(home: Recorder) -> Recorder:
    """Return the recorder of the traced function inside that of a tensor, or else its own."""
    active = ACTIVE.recorder
    return home if active is None or active is home or not _stands_in(active, home) else active


@attrs.define(eq=False)
class Trace:
    """The Python function that a recorder records, with NumPy's operators and comparisons.

    Attributes:
        name: The name of the function.
        sizes: The sizes of the arrays that it is traced for, by dimension; without arrays there are none.
        assumed: The sizes that the function asked for: the trace holds for these sizes only.
    """

    name: str
    sizes: Mapping[str, int] = MappingProxyType({})
    assumed: dict[str, int] = attrs.field(factory=dict, init=False)


@attrs.define(eq=False)
class Recorder:
    """The inputs and statements of one function, in order; a step knows the recorder ``around`` its scan."""

    around: Recorder | None = None
    trace: Trace | None = None
    inputs: list[Input] = attrs.field(factory=list, init=False)
    dims: dict[str, None] = attrs.field(factory=dict, init=False)
    steps: dict[str, Step] = attrs.field(factory=dict, init=False)  # by reference
    targets: dict[str, Target] = attrs.field(factory=dict, init=False)  # by reference
    names: NameScope = attrs.field(factory=NameScope, init=False)
    ranks: dict[str, int] = attrs.field(factory=dict, init=False)  # by reference, if it is known
    sizes: dict[str, tuple[Dim, ...] | None] = attrs.field(factory=dict, init=False)  # as far as they were asked for
    dtypes: dict[str, DType | Literal["integer", "float"] | None] = attrs.field(factory=dict, init=False)  # likewise
    constants: dict[ArrayValue, str] = attrs.field(factory=dict, init=False)  # references of arrays
    outside: dict[str, Expr] = attrs.field(factory=dict, init=False)  # dimensions, as sizes around a step
    captured: dict[str, str] = attrs.field(factory=dict, init=False)  # inputs, by the references around a step
    kept: set[str] = attrs.field(factory=set, init=False)  # references of assertions, which have no other use
    finished: bool = attrs.field(default=False, init=False)
    _attributes: list[Attribute] = attrs.field(factory=list, init=False)
    _count: int = attrs.field(default=0, init=False)

    @property
    def means_numpy(self) -> bool:
        """True if operators have their meaning for arrays."""
        return self.trace is not None and not INSIDE.operation

    def check_open(self) -> None:
        """Refuse to go on after the function was built."""
        if self.finished and self.trace is not None:
            message = f"a tensor of {self.trace.name} is used after that function returned; return it instead"
            raise mistake("TIL216", message, *self.made())
        if self.finished:
            raise mistake("TIL216", "this builder is finished: its function was built; start a new one")

    def claim(self, name: str) -> None:
        """Take a name for a tensor that was not taken before."""
        check_tensor_name(name)
        if name in self.names:
            raise mistake("TIL202", f"{name!r} is defined before; tensors never change, so choose a new name")
        self.names.add(name)

    def record(self, body: Expr | Declared, name: str | None = None) -> str:
        """Append a statement and return the reference to its result."""
        self.check_open()
        reference = f"\n{self._count}" if name is None else name
        self._count += 1
        self.steps[reference] = Step(reference, body, name, tuple(self._attributes), call_site())
        return reference

    def made(self) -> tuple[str, ...]:
        """Return the place of the last statement, for errors about tensors that outlive their function."""
        span = next((step.span for step in reversed(self.steps.values()) if step.span is not None), None)
        return () if span is None else (f"its last statement is {span.source.name}:{span.line}: {span.text:.60}",)

    @contextmanager
    def attributed(self, attribute: Attribute) -> Iterator[None]:
        """Add ``attribute`` to each statement that is recorded inside."""
        self._attributes.append(attribute)
        try:
            yield
        finally:
            self._attributes.pop()


def _no_name(name: object, rule: str) -> TileError:
    if isinstance(name, tuple | list) and all(isinstance(each, str) for each in name):
        spread = ", ".join(map(repr, name))
        return mistake("TIL211", f"{name!r:.80} is no name; pass each on its own: {spread:.80}")
    return mistake("TIL211", f"{name!r:.80} is no name: {rule}")


def check_tensor_name(name: object) -> None:
    """Refuse a name that no text can spell as a tensor or dimension."""
    if not isinstance(name, str) or not is_tensor_name(name):
        raise _no_name(name, f"one is a text of 1 to {MAX_NAME} characters, all of which can be printed")


def check_index_name(name: object) -> None:
    """Refuse a name that no text can spell as an index variable."""
    if not isinstance(name, str) or not is_index_name(name):
        raise _no_name(name, "one of an index or attribute has letters, digits and _, and begins with no digit")


def literal(value: object) -> Expr | None:
    """Return the expression that a Python or NumPy number is, or None for anything else."""
    span = call_site()
    if isinstance(value, bool | np.bool_):
        return Call("as_bool", (IntLiteral(int(value), span=span),), span=span)
    if isinstance(value, (int, numbers.Integral)):
        return _signed(IntLiteral(_bounded(abs(int(value))), span=span), int(value) < 0)
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Rational):
        number = float(value)
        if math.isnan(number):
            return Binary(BinaryOperator.DIV, FloatLiteral(0.0, span=span), FloatLiteral(0.0, span=span), span=span)
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


class Recorded:
    """Base of the objects of a builder.

    An operator between two kinds of them that the left one does not support is left to the right one. NumPy's functions
    are those of :mod:`tileir.numpy`.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        methods_at_the_call(cls)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> object:
        """Compute NumPy's elementwise functions, also for operators with arrays on the left."""
        return array_function("ufunc")(ufunc, method, *inputs, **options)

    def __array_function__(
        self, function: Any, types: object, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        """Compute NumPy's other functions."""
        return array_function("function")(function, args, kwargs)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        message = "this stands for a tensor of a program and has no values; run the function for those"
        advice = "leave numpy.asarray and numpy.array out, join tensors with numpy.stack, and read elements of an array"
        raise mistake("TIL215", message, f"{advice} with numpy.take(array, tensor, axis=0)")


class RecordedObject(Recorded):
    """Base of objects of a function that inner functions may read: tensors and sizes."""

    __slots__ = ()
    home: Recorder

    @property
    @with_whole_traceback
    def recorder(self) -> Recorder:
        """The function that is being built: that of the object, or an inner one that reads the object."""
        return self.home if ACTIVE.recorder is None else here(self.home)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def _seen(self, own: S, captured: Callable[[Recorder, Recorder, S], S]) -> S:
        """Return the reference to ``own`` in the function that is being built."""
        active = here(self.home)
        return own if active is self.home else captured(active, self.home, own)


def array_function(name: str) -> Any:
    """Return a function of :mod:`tileir.numpy`, which is built on operations and thus loaded on demand."""
    return getattr(importlib.import_module("tileir.numpy"), name)


def foreign(value: object) -> TileError:
    """Build the error for a Python object that no expression can hold, to be raised by the caller."""
    if isinstance(value, np.ndarray):
        return mistake("TIL215", "an array is no operand; make it a constant, with constant(array), or an input")
    if hasattr(value, "__array__"):
        kind = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
        return mistake("TIL215", f"a {kind} is no operand; pass it as an argument, or numpy.asarray(…) of it")
    return mistake("TIL215", f"a {type(value).__name__} cannot stand here: {value!r:.60}")


@contextmanager
def tracing(recorder: Recorder) -> Iterator[None]:
    """Let the statements recorded inside read tensors of surrounding functions."""
    before, ACTIVE.recorder = ACTIVE.recorder, recorder
    try:
        yield
    finally:
        ACTIVE.recorder = before


def same(recorder: Recorder, other: Recorder) -> None:
    """Refuse an object of another builder."""
    if recorder is not other:
        if _stands_in(recorder, other) or _stands_in(other, recorder):
            message = "this belongs to the function around the step; pass it to the scan, among the constants"
            raise mistake("TIL216", message)
        if other.trace is not None:
            message = f"this is a tensor of {other.trace.name}, which returned; return it, and pass it as an argument"
            raise mistake("TIL216", message, *other.made())
        raise mistake("TIL216", "this belongs to another builder; a function is made of what one builder gave")


def _stands_in(recorder: Recorder, other: Recorder) -> bool:
    """Return whether ``recorder`` is that of a step of a scan in ``other``, directly or not."""
    around = recorder.around
    while around is not None and around is not other:
        around = around.around
    return around is other
