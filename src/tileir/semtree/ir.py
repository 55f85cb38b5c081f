"""Nodes of the kernel IR. Every expression has a :class:`Type`; no conversion is implicit.

Operands of :class:`Apply` follow the table of :mod:`tileir.core.ops`: all of one type (for ``COND`` the first is bool
of the same lanes), the result that type, or bool of the same lanes for comparisons. Integer arithmetic wraps;
:mod:`tileir.core.arithmetic` defines each operation. A kernel runs once for each point of ``grid``; groups are not
ordered. Each has ``group`` threads, one on most processors, which may meet at a :class:`Barrier`.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Final, TypeAlias

import attrs

from tileir.core.arithmetic import rounded
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.schema import BODY, INTRODUCES, OPERAND, OPERANDS, PART, USES, Role, role
from tileir.semtree.kinds import BufferRole as BufferRole
from tileir.semtree.kinds import Collective as Collective
from tileir.semtree.kinds import Deferred as Deferred
from tileir.semtree.kinds import GridLevel as GridLevel
from tileir.semtree.kinds import Hint as Hint
from tileir.semtree.kinds import LoopKind as LoopKind
from tileir.semtree.kinds import ParamAccess as ParamAccess
from tileir.semtree.kinds import Region as Region
from tileir.semtree.kinds import Type as Type


def _bits(value: bool | int | float) -> bool | int | str:
    """Return what tells floats apart as their bits do: -0.0 is not 0.0, and nan is nan."""
    return value.hex() if isinstance(value, float) else value


@attrs.frozen(cache_hash=True)
class Const:
    """A value known when compiling, the same in every lane: a bool, int or float as ``type.dtype`` represents it."""

    value: bool | int | float = attrs.field(eq=_bits)
    type: Type

    @classmethod
    def of(cls, value: bool | int | float, type: Type) -> Const:  # noqa: A002  # the name of the field
        """Return ``value`` rounded or wrapped to ``type``, as :func:`tileir.core.arithmetic.rounded` does."""
        return cls(rounded(value, type.dtype), type)


@attrs.frozen(cache_hash=True)
class Var:
    """A variable declared before: a :class:`Declare` or the counter of a loop."""

    name: str = attrs.field(metadata=USES)
    type: Type


@attrs.frozen(cache_hash=True)
class GridIndex:
    """The coordinate of this group or thread along ``axis``, as a scalar of the kernel's index type."""

    level: GridLevel
    axis: int
    type: Type


@attrs.frozen(cache_hash=True, slots=False)
class Apply:
    """An elementwise operation on operands of equal type."""

    op: Op
    args: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        operand = self.args[-1].type
        return operand.with_dtype(DType.BOOL) if self.op.info.compares else operand


@attrs.frozen(cache_hash=True)
class Cast:
    """Convert by value, with :func:`tileir.core.arithmetic.cast`; lanes stay."""

    operand: Expr = attrs.field(metadata=OPERAND)
    type: Type


@attrs.frozen(cache_hash=True)
class Bitcast:
    """Read the same bits as a type of the same lanes and element width."""

    operand: Expr = attrs.field(metadata=OPERAND)
    type: Type


@attrs.frozen(cache_hash=True, slots=False)
class Broadcast:
    """A scalar in every lane."""

    operand: Expr = attrs.field(metadata=OPERAND)
    lanes: int

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operand.type.dtype, self.lanes)


@attrs.frozen(cache_hash=True, slots=False)
class Ramp:
    """``base, base + stride, base + 2·stride, …`` of a scalar integer ``base``."""

    base: Expr = attrs.field(metadata=OPERAND)
    stride: int
    lanes: int

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.base.type.dtype, self.lanes)


@attrs.frozen(cache_hash=True, slots=False)
class Reduce:
    """Merge all lanes into a scalar with ADD, MUL, MAX or MIN, in any order."""

    op: Op
    operand: Expr = attrs.field(metadata=OPERAND)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operand.type.dtype)


@attrs.frozen(cache_hash=True, slots=False)
class Shuffle:
    """Lane ``j`` of the result is number ``lanes[j]`` among the lanes of the operands, one operand after the other.

    The operands, one at least, are of one type. A single lane makes a scalar.
    """

    operands: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)
    lanes: tuple[int, ...]

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operands[0].type.dtype, len(self.lanes))


@attrs.frozen(cache_hash=True, slots=False)
class Dot:
    """Lane ``j`` is that of ``total`` plus the products of lanes ``r·j … r·j + r - 1`` of ``left`` and ``right``.

    These have ``r`` times as many lanes as ``total``. Their elements are converted to its dtype before they are
    multiplied; integers wrap, and floats are added in any order.
    """

    left: Expr = attrs.field(metadata=OPERAND)
    right: Expr = attrs.field(metadata=OPERAND)
    total: Expr = attrs.field(metadata=OPERAND)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return self.total.type

    @property
    def terms(self) -> int:
        """How many products each lane adds."""
        return self.left.type.lanes // self.total.type.lanes


@attrs.frozen(cache_hash=True)
class Subscript:
    """``array[offset]``, read as an expression or written as the target of :class:`Assign`.

    ``offset``, in elements, is an integer. A scalar one addresses ``type.lanes`` neighbours from there on;
    one with lanes addresses each lane's element (a gather or scatter; where lanes of a scatter meet, the last wins).
    """

    array: str = attrs.field(metadata=USES)
    offset: Expr = attrs.field(metadata=OPERAND)
    type: Type


Expr: TypeAlias = (
    Const | Var | GridIndex | Apply | Cast | Bitcast | Broadcast | Ramp | Reduce | Shuffle | Dot | Subscript
)
LValue: TypeAlias = Var | Subscript

_READ: Final = role(Role.OPERAND, Subscript)
_WRITTEN: Final = role(Role.TARGET, Subscript)
_UPDATED: Final = role(Role.UPDATED, Subscript)
_PLACE: Final = role(Role.PLACE, Subscript)


@attrs.frozen(cache_hash=True)
class Declare:
    """Introduce a variable, visible to the end of the enclosing list of statements."""

    variable: Var = attrs.field(metadata=INTRODUCES)
    value: Expr = attrs.field(metadata=OPERAND)


@attrs.frozen(cache_hash=True)
class DeclareArray:
    """Introduce an array of ``size`` elements with undefined content; ``alignment`` in bytes."""

    name: str = attrs.field(metadata=INTRODUCES)
    dtype: DType
    size: int
    region: Region = Region.PRIVATE
    alignment: int = 64


@attrs.frozen(cache_hash=True)
class Assign:
    """Set a variable or array elements."""

    target: LValue = attrs.field(metadata=role(Role.TARGET, Var, Subscript))
    value: Expr = attrs.field(metadata=OPERAND)


@attrs.frozen(cache_hash=True)
class For:
    """Run ``body`` for ``counter = begin, begin + step, …`` while ``counter < end``; ``step`` > 0.

    Both bounds are evaluated once, before the first iteration; the counter does not wrap.
    """

    counter: Var = attrs.field(metadata=INTRODUCES)
    begin: Expr = attrs.field(metadata=OPERAND)
    end: Expr = attrs.field(metadata=OPERAND)
    step: int
    body: tuple[Stmt, ...] = attrs.field(metadata=BODY)
    kind: LoopKind = LoopKind.SERIAL


@attrs.frozen(cache_hash=True)
class If:
    """Run ``then`` where the scalar bool ``condition`` holds, else ``otherwise``."""

    condition: Expr = attrs.field(metadata=OPERAND)
    then: tuple[Stmt, ...] = attrs.field(metadata=BODY)
    otherwise: tuple[Stmt, ...] = attrs.field(default=(), metadata=BODY)


@attrs.frozen(cache_hash=True)
class Barrier(Collective):
    """All threads of the group wait here, and see each other's writes to local arrays."""


@attrs.frozen(cache_hash=True)
class AsyncCopy(Deferred):
    """Begin to copy neighbours to a local array, whose elements are undefined until an :class:`AsyncWait`."""

    target: Subscript = attrs.field(metadata=_WRITTEN)
    source: Subscript = attrs.field(metadata=_READ)


@attrs.frozen(cache_hash=True)
class AsyncCommit:
    """Make one group of the copies that this thread has begun since the last one."""


@attrs.frozen(cache_hash=True)
class AsyncWait:
    """Wait until at most the last ``pending`` groups of copies of this thread are not complete."""

    pending: int = 0


@attrs.frozen(cache_hash=True)
class MatrixOperand:
    """Element (i, j) is at ``p ^ ((p >> shift) & mask)``, where ``p = start.offset + i·strides[0] + j·strides[1]``."""

    start: Subscript = attrs.field(metadata=_READ)
    strides: tuple[int, int]
    shift: int = 0
    mask: int = 0


@attrs.frozen(cache_hash=True)
class MatrixMultiply(Collective):
    """Add ``left @ right`` to what 32 neighbouring threads hold together; all threads of a group run it.

    ``tile`` has the rows, columns and depth of the product, multiples of those of ``shape``, an instruction.
    ``accumulators`` is the first element that a thread holds; :mod:`tileir.semtree.matrices` tells which these are.
    """

    shape: tuple[int, int, int]
    tile: tuple[int, int, int]
    accumulators: Subscript = attrs.field(metadata=_UPDATED)
    left: MatrixOperand = attrs.field(metadata=PART)
    right: MatrixOperand = attrs.field(metadata=PART)


@attrs.frozen(cache_hash=True)
class Prefetch(Hint):
    """Bring an element of a parameter nearer, or what lies beyond its ends: a hint, which changes nothing."""

    target: Subscript = attrs.field(metadata=_PLACE)


Instruction: TypeAlias = AsyncCopy | AsyncCommit | AsyncWait | MatrixMultiply
"""What few devices have; :func:`tileir.semtree.matrices.without_instructions` does without."""

Stmt: TypeAlias = Declare | DeclareArray | Assign | For | If | Barrier | Instruction | Prefetch


@attrs.frozen(cache_hash=True)
class Param:
    """An array that the caller passes: ``size`` elements of ``dtype``.

    ``alignment``, in bytes, is promised by the caller, and so is ``no_alias``: no other parameter overlaps it.
    """

    name: str
    dtype: DType
    size: int
    access: ParamAccess
    alignment: int = 1
    no_alias: bool = True


@attrs.frozen(cache_hash=True)
class KernelFunction:
    """A kernel over a launch grid.

    ``grid`` and ``group`` have one to three extents, axis 0 first; ``group`` is (1,) where threads are not used.
    ``operations`` estimates arithmetic operations plus elements moved, all in all: whether splitting the launch pays.
    """

    name: str
    params: tuple[Param, ...]
    body: tuple[Stmt, ...]
    grid: tuple[int, ...] = (1,)
    group: tuple[int, ...] = (1,)
    index: DType = DType.I64
    operations: int = 0
    comments: tuple[str, ...] = ()


@attrs.frozen(cache_hash=True)
class Buffer:
    """Dense row-major memory; ``data`` holds the bytes of a constant, little-endian."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: BufferRole
    data: bytes = attrs.field(default=b"", repr=False)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@attrs.frozen(cache_hash=True)
class Launch:
    """Run kernel number ``kernel`` on the named buffers, one for each of its parameters."""

    kernel: int
    arguments: tuple[str, ...] = attrs.field(metadata=USES)


@attrs.frozen(cache_hash=True)
class Loop:
    """Run ``works``, in order, ``times`` times, from 1 on, one time after the other."""

    times: int
    works: tuple[Work, ...] = attrs.field(metadata=BODY)


Work: TypeAlias = Launch | Loop


@attrs.frozen(cache_hash=True)
class Program:
    """Kernels, the buffers between them, and works in an order that respects all dependencies."""

    kernels: tuple[KernelFunction, ...]
    buffers: tuple[Buffer, ...]
    works: tuple[Work, ...] = attrs.field(metadata=BODY)
