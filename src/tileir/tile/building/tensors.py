"""Tensors and their elementwise operators."""

from __future__ import annotations

from typing import NoReturn, TypeAlias

from tileir.core import Aggregation, Combination, at_the_call, attrs, call_site
from tileir.core.operators import method_of, methods_of
from tileir.tile import ir
from tileir.tile.building.contractions import Access, Aggregated, Combined, contract
from tileir.tile.building.indices import Dim, Polynomial, dim_of, polynomial_of, size_of
from tileir.tile.building.recording import Recorded, Recorder, foreign, literal, mistake, named, same
from tileir.tile.building.sizes import sizes_of
from tileir.tile.functions import advice, builtin
from tileir.tile.ir import BinaryOperator, Expr, UnaryOperator

Key: TypeAlias = Polynomial | Dim | int | tuple[Polynomial | Dim | int, ...]


@attrs.frozen(eq=False)
class Tensor(Recorded):
    """A tensor of the function that is being built.

    All operators work on elements, ``==`` and ``!=`` too; hashing is by identity. ``/`` of integers
    truncates towards zero, and ``%`` has the sign of the dividend.
    """

    recorder: Recorder = attrs.field(repr=False)
    reference: str

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

    def __getitem__(self, key: Key) -> Access:
        indices = self._indices(key)
        return Access(self.recorder, Combination.NONE, (ir.Access(self.reference, indices, span=call_site()),))

    def __setitem__(self, key: Key, value: Combined) -> None:
        if not isinstance(value, Aggregated):
            contract(self[key], Aggregation.ASSIGN, value)
        elif value.access.tensor != self.reference:
            raise mistake("TIL215", "this aggregation was written for another tensor")
        else:
            contract(value, value.aggregation, value.value)

    def _indices(self, key: object) -> tuple[Expr, ...]:
        keys = key if isinstance(key, tuple) else (key,)
        for part in keys:
            if isinstance(part, slice) or part is ... or part is None:
                raise mistake("TIL215", "tensors have no slices; use tileir.ops.slice, or write a contraction")
            if isinstance(part, Tensor | Combined):
                raise mistake("TIL204", "a tensor is no index polynomial; use gather(data, indices)")
        indices = tuple(polynomial_of(self.recorder, part).expr for part in keys)
        rank = self.recorder.ranks.setdefault(self.reference, len(indices))
        if rank != len(indices):
            raise mistake("TIL209", f"this tensor has rank {rank}, but there are {len(indices)} indices")
        return indices

    def _binary(self, kind: BinaryOperator, other: Operand) -> Tensor:
        lhs, rhs = value_of(self.recorder, self), value_of(self.recorder, other)
        return computed(self.recorder, ir.Binary(kind, lhs, rhs, span=call_site()))

    def _reflected(self, kind: BinaryOperator, other: Operand) -> Tensor:
        lhs, rhs = value_of(self.recorder, other), value_of(self.recorder, self)
        return computed(self.recorder, ir.Binary(kind, lhs, rhs, span=call_site()))

    __add__, __radd__ = methods_of(_binary, _reflected, BinaryOperator.ADD)
    __sub__, __rsub__ = methods_of(_binary, _reflected, BinaryOperator.SUB)
    __mul__, __rmul__ = methods_of(_binary, _reflected, BinaryOperator.MUL)
    __truediv__, __rtruediv__ = methods_of(_binary, _reflected, BinaryOperator.DIV)
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

    def __mod__(self, other: Operand) -> Tensor:
        return call("mod", self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return call("mod", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return call("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return call("pow", other, self)

    def __neg__(self) -> Tensor:
        return self._unary(UnaryOperator.NEG)

    def __invert__(self) -> Tensor:
        return self._unary(UnaryOperator.BIT_NOT)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return call("abs", self)

    def __floordiv__(self, _: object) -> NoReturn:
        raise mistake("TIL215", "tensors have no operator //; write a / b, which truncates integers, or floor(a / b)")

    __rfloordiv__ = __floordiv__

    def __bool__(self) -> NoReturn:
        raise mistake("TIL215", "a tensor has no truth value while a function is built; use where(c, t, e), & and |")

    def __iter__(self) -> NoReturn:
        raise mistake("TIL215", "a tensor cannot be iterated while a function is built; write a contraction")

    def __len__(self) -> NoReturn:
        raise mistake("TIL215", "a tensor has no length while a function is built; use its dims")

    def _unary(self, operator: UnaryOperator) -> Tensor:
        operand = value_of(self.recorder, self)
        return computed(self.recorder, ir.Unary(operator, operand, span=call_site()))


Operand: TypeAlias = Tensor | Dim | int | float


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
        if value.reference in recorder.targets:
            raise mistake("TIL201", f"{value.reference!r} is read before a contraction defined it")
        return named(value.reference)
    if isinstance(value, Dim):
        return dim_of(recorder, value).expr
    if isinstance(value, Polynomial):
        raise mistake("TIL203", "an index variable stands only between brackets; index(T, axis) is a tensor of indices")
    if isinstance(value, Combined):
        raise mistake("TIL215", "elements such as A[i] stand only inside contractions; operators take whole tensors")
    expr = literal(value)
    if expr is None:
        raise foreign(value)
    return expr


@at_the_call
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
        if isinstance(argument, Tensor | Dim | Polynomial | Combined):
            return argument.recorder
    raise mistake("TIL215", "at least one argument is a tensor or dimension; compute numbers in Python")
