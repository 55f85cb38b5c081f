"""The expressions of the kernel IR; :mod:`tileir.semtree.ir` holds these names too.

A class with a ``form`` is written as in :mod:`tileir.core.text.forms`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Final, TypeAlias

from tileir.core import COMPUTING, OPERAND, OPERANDS, USES, DType, Op, attrs, fits, one_of, rounded
from tileir.core.nodes.rules import Predicate, Rule, same
from tileir.semtree.kinds import GridLevel, Type, bits
from tileir.semtree.node import Node


def scalar(name: str) -> Predicate:
    """Return whether an operand has one lane."""
    return lambda node: bool(getattr(node, name).type.lanes == 1)


def _types(operands: tuple[Any, ...]) -> str:
    return ", ".join(str(operand.type) for operand in operands)


def _represents(const: Any) -> bool:
    """Return whether a value is representable in the dtype."""
    dtype, value = const.type.dtype, const.value
    if dtype.is_float:
        return type(value) is float and (value != value or rounded(value, dtype) == value)
    return type(value) is bool if dtype.is_bool else type(value) is int and fits(value, dtype)


def _unrepresented(const: Any) -> str:
    dtype, value = const.type.dtype, const.value
    kind = bool if dtype.is_bool else int if dtype.is_integer else float
    if type(value) is not kind:
        return f"a constant of {const.type} holds a Python {kind.__name__}, not {value!r}"
    if dtype.is_integer:
        return f"{value} is out of the range of {dtype.value}"
    return f"{value!r} is not a value of {dtype.value}: round it first"


def _values(expr: Any) -> tuple[Any, ...]:
    return expr.args[1:] if expr.op is Op.COND else expr.args  # type: ignore[no-any-return]


def _tests(expr: Any) -> bool:
    """Return whether a condition fits the operands of a selection."""
    test = expr.args[0].type
    return bool(test.dtype.is_bool and test.lanes == expr.args[-1].type.lanes)


def _alike(expr: Any) -> bool:
    kind = expr.args[-1].type
    return not [value for value in _values(expr) if value.type is not kind and value.type != kind]


def _keeps_bits(expr: Any) -> bool:
    source, target = expr.operand.type, expr.type
    return bool(source.lanes == target.lanes and source.dtype.bits == target.dtype.bits)


_SAME: Final = same("type", "operands")


def _starts_at_integer(ramp: Any) -> bool:
    return bool(ramp.base.type.lanes == 1 and ramp.base.type.dtype.is_integer)


@attrs.frozen(cache_hash=True, repr=False)
class Const(Node):
    """A compile-time constant, equal in every lane: a bool, int or float representable in ``type.dtype``."""

    rules: ClassVar = (Rule(_represents, _unrepresented),)
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

    rules: ClassVar = (
        Rule(
            lambda e: e.op is not Op.COND or _tests(e),
            lambda e: f"the condition of {e.args[-1].type} is bool of as many lanes, not {e.args[0].type}",
        ),
        Rule(_alike, lambda e: f"the operands of {e.op.value} differ in type: {_types(_values(e))}"),
        Rule(
            lambda e: e.op in COMPUTING and e.op.works_on(e.args[-1].type.dtype),
            lambda e: f"{e.op.value} is not defined for {e.args[-1].type.dtype.value}",
        ),
    )
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
    rules: ClassVar = (
        Rule(
            lambda e: e.operand.type.lanes == e.type.lanes,
            "a cast keeps the number of lanes: {operand.type} cannot become {type}",
        ),
    )
    operand: Expr = attrs.field(metadata=OPERAND)
    type: Type


@attrs.frozen(cache_hash=True, repr=False)
class Bitcast(Node):
    """Read the same bits as a type of the same lanes and element width."""

    form: ClassVar[str] = "bitcast<{type}>({operand})"
    rules: ClassVar = (
        Rule(_keeps_bits, "a bitcast keeps lanes and bits: {operand.type} cannot become {type}"),
        Rule(
            lambda e: not _keeps_bits(e) or e.operand.type.dtype.is_bool == e.type.dtype.is_bool,
            "a bitcast neither reads nor makes a bool",
        ),
    )
    operand: Expr = attrs.field(metadata=OPERAND)
    type: Type


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Broadcast(Node):
    """A scalar in every lane."""

    form: ClassVar[str] = "broadcast<{lanes}>({operand})"
    rules: ClassVar = (Rule(scalar("operand"), "only a scalar can be broadcast, not {operand.type}"),)
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
    rules: ClassVar = (
        Rule(_starts_at_integer, "a ramp starts at a scalar integer, not at {base.type}"),
        Rule(
            lambda e: not _starts_at_integer(e) or fits(e.stride, e.base.type.dtype),
            "the stride {stride} is out of the range of {base.type.dtype.value}",
        ),
    )
    base: Expr = attrs.field(metadata=OPERAND)
    stride: int
    lanes: int

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.base.type.dtype, self.lanes)


REDUCTIONS: Final = frozenset({Op.ADD, Op.MAX, Op.MIN, Op.MUL})
"""The operations that merge lanes."""


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Reduce(Node):
    """Merge all lanes into a scalar with ADD, MUL, MAX or MIN, in any order."""

    form: ClassVar[str] = "reduce<{op}>({operand})"
    rules: ClassVar = (
        Rule(lambda e: e.op in REDUCTIONS, "lanes are merged by add, mul, max or min, not by {op.value}"),
        Rule(
            lambda e: e.op not in REDUCTIONS or e.op.works_on(e.operand.type.dtype),
            "{op.value} is not defined for {operand.type.dtype.value}",
        ),
    )
    op: Op = attrs.field(metadata=one_of(*sorted(REDUCTIONS, key=lambda op: op.value)))
    operand: Expr = attrs.field(metadata=OPERAND)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return Type(self.operand.type.dtype)


@attrs.frozen(cache_hash=True, slots=False, repr=False)
class Shuffle(Node):
    """Lane ``j`` of the result is number ``lanes[j]`` among the lanes of the operands, one operand after another.

    The operands, at least one, have one type. A single lane makes a scalar.
    """

    form: ClassVar[str] = "shuffle<{lanes}>({operands})"
    rules: ClassVar = (
        Rule(_SAME, lambda e: f"the operands of shuffle differ in type: {_types(e.operands)}"),
        Rule(
            lambda e: not _SAME(e) or not e.missing,
            "the operands of shuffle have {known} lanes, counted from 0: there is no lane {missing[0]}",
        ),
    )
    operands: tuple[Expr, ...] = attrs.field(metadata=OPERANDS)
    lanes: tuple[int, ...]

    @property
    def known(self) -> int:
        """Number of lanes of all operands."""
        return self.operands[0].type.lanes * len(self.operands)

    @property
    def missing(self) -> list[int]:
        """The lane numbers beyond those of the operands."""
        return [lane for lane in self.lanes if not 0 <= lane < self.known]

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
    rules: ClassVar = (
        Rule(lambda e: Op.MUL.works_on(e.total.type.dtype), "mul is not defined for {total.type.dtype.value}"),
        Rule(
            lambda e: e.left.type.lanes == e.right.type.lanes and e.left.type.lanes % e.total.type.lanes == 0,
            "the factors of dot have as many lanes, a multiple of those of {total.type}: not {left.type} and"
            " {right.type}",
        ),
    )
    left: Expr = attrs.field(metadata=OPERAND)
    right: Expr = attrs.field(metadata=OPERAND)
    total: Expr = attrs.field(metadata=OPERAND)

    @cached_property
    def type(self) -> Type:
        """The type of the result."""
        return self.total.type

    @property
    def terms(self) -> int:
        """Number of products that each lane adds."""
        return self.left.type.lanes // self.total.type.lanes


@attrs.frozen(cache_hash=True, repr=False)
class Subscript(Node):
    """``array[offset]``, read as an expression or written as the target of :class:`Assign`.

    ``offset``, in elements, is an integer. A scalar one addresses ``type.lanes`` neighbours from there on;
    one with lanes addresses each lane's element (a gather or scatter; where lanes of a scatter meet, the last wins).
    """

    rules: ClassVar = (
        Rule(lambda e: e.offset.type.dtype.is_integer, "an offset is an integer, not {offset.type}"),
        Rule(
            lambda e: e.offset.type.lanes in (1, e.type.lanes) or not e.offset.type.dtype.is_integer,
            "an offset of {offset.type.lanes} lanes cannot address {type.lanes} elements",
        ),
    )
    array: str = attrs.field(metadata=USES)
    offset: Expr = attrs.field(metadata=OPERAND)
    type: Type


def neighbours(stmt: Any) -> bool:
    """Return whether a statement that moves elements from ``source`` to ``target`` moves a run of one type."""
    target, source = stmt.target, stmt.source
    return bool(target.type == source.type and target.offset.type.lanes == source.offset.type.lanes == 1)


Expr: TypeAlias = (
    Const | Var | GridIndex | Apply | Cast | Bitcast | Broadcast | Ramp | Reduce | Shuffle | Dot | Subscript
)
