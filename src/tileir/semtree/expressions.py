"""The expressions of the kernel IR; :mod:`tileir.semtree.ir` holds these names too.

A class that has a ``form`` is written as :mod:`tileir.core.text.forms` tells.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, TypeAlias

from tileir.core import DType, Op, attrs, rounded
from tileir.core.nodes.schema import OPERAND, OPERANDS, USES, one_of
from tileir.semtree.kinds import GridLevel, Type, bits
from tileir.semtree.node import Node


@attrs.frozen(cache_hash=True, repr=False)
class Const(Node):
    """A value known when compiling, the same in every lane: a bool, int or float as ``type.dtype`` represents it."""

    value: bool | int | float = attrs.field(eq=bits)
    type: Type

    @classmethod
    def of(cls, value: bool | int | float, type: Type) -> Const:  # noqa: A002  # the name of the field
        """Return ``value`` rounded or wrapped to ``type``, as :func:`tileir.core.numbers.arithmetic.rounded` does."""
        return cls(rounded(value, type.dtype), type)


@attrs.frozen(cache_hash=True, repr=False)
class Var(Node):
    """A variable declared before: a :class:`Declare` or the counter of a loop."""

    name: str = attrs.field(metadata=USES)
    type: Type


@attrs.frozen(cache_hash=True, repr=False)
class GridIndex(Node):
    """The coordinate of this group or thread along ``axis``, as a scalar of the kernel's index type."""

    level: GridLevel
    axis: int
    type: Type


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Apply(Node):
    """An elementwise operation on operands of equal type."""

    op: Op
    args: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        operand = self.args[-1].type
        return operand.with_dtype(DType.BOOL) if self.op.info.compares else operand


@attrs.frozen(cache_hash=True, repr=False)
class Cast(Node):
    """Convert by value, with :func:`tileir.core.numbers.arithmetic.cast`; lanes stay."""

    form: ClassVar[str] = "cast<{type}>({operand})"
    operand: Expr = attrs.field(metadata=OPERAND)
    type: Type


@attrs.frozen(cache_hash=True, repr=False)
class Bitcast(Node):
    """Read the same bits as a type of the same lanes and element width."""

    form: ClassVar[str] = "bitcast<{type}>({operand})"
    operand: Expr = attrs.field(metadata=OPERAND)
    type: Type


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Broadcast(Node):
    """A scalar in every lane."""

    form: ClassVar[str] = "broadcast<{lanes}>({operand})"
    operand: Expr = attrs.field(metadata=OPERAND)
    lanes: int

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operand.type.dtype, self.lanes)


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Ramp(Node):
    """``base, base + stride, base + 2·stride, …`` of a scalar integer ``base``."""

    form: ClassVar[str] = "ramp<{lanes}>({base}, {stride})"
    base: Expr = attrs.field(metadata=OPERAND)
    stride: int
    lanes: int

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.base.type.dtype, self.lanes)


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Reduce(Node):
    """Merge all lanes into a scalar with ADD, MUL, MAX or MIN, in any order."""

    form: ClassVar[str] = "reduce<{op}>({operand})"
    op: Op = attrs.field(metadata=one_of(Op.ADD, Op.MAX, Op.MIN, Op.MUL))
    operand: Expr = attrs.field(metadata=OPERAND)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operand.type.dtype)


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Shuffle(Node):
    """Lane ``j`` of the result is number ``lanes[j]`` among the lanes of the operands, one operand after the other.

    The operands, one at least, are of one type. A single lane makes a scalar.
    """

    form: ClassVar[str] = "shuffle<{lanes}>({operands})"
    operands: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)
    lanes: tuple[int, ...]

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operands[0].type.dtype, len(self.lanes))


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Dot(Node):
    """Lane ``j`` is that of ``total`` plus the products of lanes ``r·j … r·j + r - 1`` of ``left`` and ``right``.

    These have ``r`` times as many lanes as ``total``. Their elements are converted to its dtype before they are
    multiplied; integers wrap, and floats are added in any order.
    """

    form: ClassVar[str] = "dot_add<{terms}>({left}, {right}, {total})"
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


@attrs.frozen(cache_hash=True, repr=False)
class Subscript(Node):
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
