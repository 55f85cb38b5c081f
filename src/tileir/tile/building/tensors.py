"""Tensors and their elementwise operators."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

import numpy as np

from tileir.core import (
    Aggregation,
    ArrayValue,
    Combination,
    attrs,
    call_site,
    with_short_traceback,
    with_whole_traceback,
)
from tileir.core.operators import method_of, methods_of
from tileir.tile import ir
from tileir.tile.building.captures import captured
from tileir.tile.building.contractions import Access, CombinedElements, PendingAggregate, contract
from tileir.tile.building.dtypes import dtype_of
from tileir.tile.building.indices import Dim, Polynomial, dim_of, polynomial_of, size_of
from tileir.tile.building.recording import (
    ACTIVE,
    RecordedObject,
    Recorder,
    array_function,
    foreign,
    literal,
    mistake,
    named,
    same,
)
from tileir.tile.building.sizes import sizes_of
from tileir.tile.functions import advice, builtin
from tileir.tile.ir import BinaryOperator, Expr, UnaryOperator

Key: TypeAlias = Any
"""Keys between brackets: polynomials for a contraction, else those of NumPy."""


class _Method:
    """A method of :mod:`tileir.numpy`, as a function of the tensor and its other arguments."""

    def __init__(self, word: str = "") -> None:
        self.name = word

    def __set_name__(self, _: type, name: str) -> None:
        self.name = self.name or name

    def __get__(self, tensor: Tensor | None, _: type) -> Callable[..., Tensor]:
        method: Callable[..., Tensor] = array_function("method")(self.name, tensor)
        return method


@attrs.frozen(eq=False)
class Tensor(RecordedObject):
    """A tensor of the function that is being built, with the operators, methods and functions of NumPy's arrays.

    All operators are elementwise, ``==`` and ``!=`` too; hashing is by identity. In a function that
    :class:`tileir.FunctionBuilder` builds, ``/`` of integers truncates towards zero, and ``%`` has the sign of the
    dividend, as in Tile's text; in a Python function that is traced both have their meaning for arrays.
    """

    home: Recorder = attrs.field(repr=False)
    own_reference: str

    @property
    @with_whole_traceback
    def reference(self) -> str:
        """The name of the tensor in the function that is being built."""
        return self.own_reference if ACTIVE.recorder is None else self._seen(self.own_reference, captured)

    def __repr__(self) -> str:
        kind = dtype_of(self.home, self.own_reference)
        sizes = sizes_of(self.home, self.own_reference)
        shape = "…" if sizes is None else ", ".join(size.text for size in sizes)
        return f"Tensor({'any dtype' if kind is None else kind.value}[{shape}])"

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The sizes, unless they depend on an input that was declared without any."""
        sizes = sizes_of(self.recorder, self.reference)
        if sizes is None:
            raise mistake("TIL209", "the sizes of this tensor were not declared; they are known when it is compiled")
        return sizes

    @property
    def rank(self) -> int:
        """The number of axes, unless that depends on an input that was declared without sizes."""
        known = self.recorder.ranks.get(self.reference)
        return len(self.dims) if known is None else known

    @property
    def shape(self) -> tuple[Dim | int, ...]:
        """The sizes, as integers if the program determines them."""
        return tuple(size if size.value is None else size.value for size in self.dims)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.rank

    @property
    def size(self) -> Dim | int:
        """The number of elements."""
        return functools.reduce(operator.mul, self.shape, 1)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> Dim | int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    @property
    def dtype(self) -> Any:
        """The dtype of the elements: NumPy's in a Python function that is traced, else a :class:`tileir.DType`.

        Raises:
            TileError: TIL215, it depends on an input that was declared without one.

        """
        found = dtype_of(self.recorder, self.reference)
        if found is None:
            raise mistake("TIL215", "the dtype of this tensor is known when it is compiled; declare those of inputs")
        return found.numpy if self.recorder.means_numpy else found

    @property
    def T(self) -> Tensor:  # noqa: N802  NumPy's name
        """The tensor with its axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Tensor:  # noqa: N802  NumPy's name
        """The tensor with its last two axes swapped."""
        return self.swapaxes(-1, -2)

    all, any, argmax, argmin, argsort, astype = (_Method() for _ in range(6))
    clip, conj, copy, cumprod, cumsum, diagonal = (_Method() for _ in range(6))
    dot, flatten, max, mean, min, prod, ptp = (_Method() for _ in range(7))
    ravel, repeat, reshape, round, squeeze, std = (_Method() for _ in range(6))
    sum, swapaxes, take, trace, transpose, var, view = (_Method() for _ in range(7))

    @property
    def at(self) -> Any:
        """Indexing for updated copies: ``x.at[key].set(y)``, ``add``, ``max``, ``min``."""
        return array_function("method")("at", self)()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return the functions of the array API standard."""
        return array_function("namespace")(api_version)

    def __getattr__(self, name: str) -> NoReturn:
        advice = "" if name.startswith("_") else array_function("missing")(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    def __getitem__(self, key: Key) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        contracts = any(isinstance(part, Polynomial) for part in keys)
        if not contracts and (self.recorder.means_numpy or not all(_is_place(part) for part in keys)):
            return array_function("indexed")(self, key)
        indices = self._indices(key)
        return Access(self.recorder, Combination.NONE, (ir.Access(self.reference, indices, span=call_site()),))

    def __setitem__(self, key: Key, value: Any) -> None:
        if self.reference not in self.recorder.targets and not isinstance(value, CombinedElements):
            message = "tensors never change: write x = x.at[key].set(value), or x = numpy.where(mask, value, x)"
            raise mistake("TIL215", message)
        if not isinstance(value, PendingAggregate):
            contract(self[key], Aggregation.ASSIGN, value)
        elif value.access.tensor != self.reference:
            raise mistake("TIL215", "this aggregation was written for another tensor")
        else:
            contract(value, value.aggregation, value.value)

    def _indices(self, key: object) -> tuple[Expr, ...]:
        keys = key if isinstance(key, tuple) else (key,)
        for part in keys:
            if isinstance(part, slice | Tensor) or part is ... or part is None:
                raise mistake("TIL215", "index variables stand alone between brackets; slice first, as in X[0:2][i, j]")
        indices = tuple(polynomial_of(self.recorder, part).expr for part in keys)
        rank = self.recorder.ranks.setdefault(self.reference, len(indices))
        if rank != len(indices):
            raise mistake("TIL209", f"this tensor has rank {rank}, but there are {len(indices)} indices")
        return indices

    def _binary(self, kind: BinaryOperator, other: Operand) -> Tensor:
        return _operated(self.recorder, kind, self, other)

    def _reflected(self, kind: BinaryOperator, other: Operand) -> Tensor:
        return _operated(self.recorder, kind, other, self)

    __add__, __radd__ = methods_of(_binary, _reflected, BinaryOperator.ADD)
    __sub__, __rsub__ = methods_of(_binary, _reflected, BinaryOperator.SUB)
    __mul__, __rmul__ = methods_of(_binary, _reflected, BinaryOperator.MUL)
    __and__, __rand__ = methods_of(_binary, _reflected, BinaryOperator.BIT_AND)
    __or__, __ror__ = methods_of(_binary, _reflected, BinaryOperator.BIT_OR)
    __xor__, __rxor__ = methods_of(_binary, _reflected, BinaryOperator.BIT_XOR)
    __lshift__, __rlshift__ = methods_of(_binary, _reflected, BinaryOperator.BIT_LEFT)
    __rshift__, __rrshift__ = methods_of(_binary, _reflected, BinaryOperator.BIT_RIGHT)
    __lt__ = method_of(_binary, BinaryOperator.CMP_LT)
    __le__ = method_of(_binary, BinaryOperator.CMP_LE)
    __gt__ = method_of(_binary, BinaryOperator.CMP_GT)
    __ge__ = method_of(_binary, BinaryOperator.CMP_GE)

    def __eq__(self, other: Operand) -> Tensor:  # type: ignore[override]  # elementwise, as in NumPy
        return self._binary(BinaryOperator.CMP_EQ, other)

    def __ne__(self, other: Operand) -> Tensor:  # type: ignore[override]
        return self._binary(BinaryOperator.CMP_NE, other)

    __hash__ = object.__hash__

    def _meant(self, own: Callable[..., Tensor], name: str, *operands: Operand) -> Tensor:
        """Return the result of NumPy's operator in a Python function that is traced, else that of Tile's."""
        if self.recorder.means_numpy:
            found: Tensor = array_function(name)(*operands)
            return found
        return own(*operands)

    def __truediv__(self, other: Operand) -> Tensor:
        return self._meant(divided, "divide", self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return self._meant(divided, "divide", other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return self._meant(_remainder, "remainder", self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return self._meant(_remainder, "remainder", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return self._meant(_power, "pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return self._meant(_power, "pow", other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        found: Tensor = array_function("floor_divide")(self, other)
        return found

    def __rfloordiv__(self, other: Operand) -> Tensor:
        found: Tensor = array_function("floor_divide")(other, self)
        return found

    def __divmod__(self, other: Operand) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __matmul__(self, other: Operand) -> Tensor:
        found: Tensor = array_function("matmul")(self, other)
        return found

    def __rmatmul__(self, other: Operand) -> Tensor:
        found: Tensor = array_function("matmul")(other, self)
        return found

    def __neg__(self) -> Tensor:
        return self._unary(UnaryOperator.NEG)

    def __invert__(self) -> Tensor:
        return self._unary(UnaryOperator.BIT_NOT)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return self._meant(functools.partial(call, "abs"), "absolute", self)

    def __bool__(self) -> NoReturn:
        raise mistake("TIL215", "a tensor has no truth value while a function is built; use where(c, t, e), & and |")

    def _value(self, *_: object) -> NoReturn:
        message = "a tensor has no value while a function is built: use numpy's functions, not those of math"
        raise mistake("TIL215", message)

    __int__ = __float__ = __complex__ = __index__ = _value

    def __format__(self, spec: str) -> str:
        return self._value() if spec else repr(self)

    def __iter__(self) -> Any:
        if not self.recorder.means_numpy:
            raise mistake("TIL215", "a tensor cannot be iterated while a function is built; write a contraction")
        return iter([self[number] for number in range(len(self))])

    def __len__(self) -> int:
        if not self.recorder.means_numpy:
            raise mistake("TIL215", "a tensor has no length while a function is built; use its dims")
        if not self.rank:
            raise TypeError("len() of a tensor of rank 0")
        return int(self.dims[0].known())

    def _unary(self, operator: UnaryOperator) -> Tensor:
        operand = value_of(self.recorder, self)
        return computed(self.recorder, ir.Unary(operator, operand, span=call_site()))


Operand: TypeAlias = Tensor | Dim | int | float


def _operated(recorder: Recorder, kind: BinaryOperator, left: Operand, right: Operand) -> Tensor:
    """Return the result of an operator; in a Python function that is traced, that of NumPy's."""
    if recorder.means_numpy:
        kind, left, right = array_function("operands")(recorder, kind, left, right)
    return computed(recorder, ir.Binary(kind, value_of(recorder, left), value_of(recorder, right), span=call_site()))


def divided(left: Operand, right: Operand) -> Tensor:
    """Return Tile's quotient."""
    recorder = recorder_of((left, right))
    operands = value_of(recorder, left), value_of(recorder, right)
    return computed(recorder, ir.Binary(BinaryOperator.DIV, *operands, span=call_site()))


def _remainder(left: Operand, right: Operand) -> Tensor:
    return call("mod", left, right)


def _power(left: Operand, right: Operand) -> Tensor:
    return call("pow", left, right)


def _is_place(part: object) -> bool:
    return isinstance(part, Dim | int | np.integer) and not isinstance(part, bool)


def constant_of(recorder: Recorder, array: np.ndarray[Any, Any]) -> Tensor:
    """Return an array as a constant of the function, whose elements are copied; equal arrays are one constant."""
    value = ArrayValue.of(array)
    if value not in recorder.constants:
        span = call_site()
        reference = recorder.constants[value] = recorder.record(ir.Constant("", value, span=span, name_span=span))
        recorder.ranks[reference] = array.ndim
    return Tensor(recorder, recorder.constants[value])


def computed(recorder: Recorder, expr: Expr) -> Tensor:
    """Record an elementwise value and return it as a tensor."""
    return Tensor(recorder, recorder.record(expr))


def value_of(recorder: Recorder, value: object) -> Expr:
    """Return the expression of an operand: a tensor that is defined, a dimension or a number.

    Raises:
        TileError: It is something else, or belongs to another builder.

    """
    if isinstance(value, Tensor):
        same(recorder, value.recorder)
        reference = value.reference
        if reference in recorder.targets:
            raise mistake("TIL201", f"{reference!r} is read before a contraction defined it")
        return named(reference)
    if isinstance(value, Dim):
        return dim_of(recorder, value).expr
    if isinstance(value, Polynomial):
        raise mistake("TIL203", "an index variable stands only between brackets; index(T, axis) is a tensor of indices")
    if isinstance(value, np.ndarray):
        return named(constant_of(recorder, value).reference)
    if isinstance(value, CombinedElements):
        raise mistake("TIL215", "elements such as A[i] stand only inside contractions; operators take whole tensors")
    expr = literal(value)
    if expr is None:
        raise foreign(value)
    return expr


@with_short_traceback
def call(function: str, *arguments: Operand) -> Tensor:
    """Apply any builtin function by name; at least one argument is a tensor or a dimension.

    Raises:
        TileError: There is no such function, or it takes other arguments.

    """
    row = builtin(function)
    if row is None:
        raise mistake("TIL206", f"there is no function {function!r}", *advice(function))
    if not row.takes(len(arguments)):
        raise mistake("TIL207", f"{function!r} takes {row.arity}, not {len(arguments)}")
    recorder = recorder_of(arguments)
    first = len(arguments) if row.constants is None else row.constants
    values = (
        *(value_of(recorder, argument) for argument in arguments[:first]),
        *(size_of(recorder, argument) for argument in arguments[first:]),
    )
    return computed(recorder, ir.Call(function, values, span=call_site()))


def recorder_of(arguments: tuple[object, ...]) -> Recorder:
    """Return the builder that the arguments belong to."""
    for argument in arguments:
        if isinstance(argument, Tensor | Dim | Polynomial | CombinedElements):
            return argument.recorder
    raise mistake("TIL215", "at least one argument is a tensor or dimension; compute numbers in Python")
