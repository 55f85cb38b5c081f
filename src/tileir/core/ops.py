"""Elementwise operations and aggregations: one table for every stage.

:mod:`tileir.core.arithmetic` defines what each one computes.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Mapping


class Op(enum.Enum):
    """An elementwise operation; the value is its name in every textual form."""

    IDENT = "ident"
    NEG = "neg"
    ABS = "abs"
    BIT_NOT = "bit_not"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    LOG = "log"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    TRUNC = "trunc"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MOD = "mod"
    POW = "pow"
    MAX = "max"
    MIN = "min"
    BIT_AND = "bit_and"
    BIT_OR = "bit_or"
    BIT_XOR = "bit_xor"
    BIT_LEFT = "bit_left"
    BIT_RIGHT = "bit_right"
    CMP_EQ = "cmp_eq"
    CMP_NE = "cmp_ne"
    CMP_LT = "cmp_lt"
    CMP_LE = "cmp_le"
    CMP_GT = "cmp_gt"
    CMP_GE = "cmp_ge"
    COND = "cond"
    FMA = "fma"

    __hash__ = object.__hash__

    @property
    def info(self) -> OpInfo:
        """Arity and typing of this operation."""
        return OPS[self]


class Domain(enum.Enum):
    """Which operand types an operation works on, after promotion."""

    ANY = "any"  # bool, integers and floats
    NUMBER = "number"  # integers and floats
    FLOAT = "float"  # floats; integers are cast by `float_for` first
    BITS = "bits"  # bool and integers


@attrs.frozen
class OpInfo:
    """Static facts of an operation.

    All operands share one dtype (for ``COND`` the second and third; the first is bool).
    The result has that dtype too, or bool when ``compares``.
    """

    arity: int
    domain: Domain
    compares: bool = False
    commutes: bool = False


def _table() -> Mapping[Op, OpInfo]:
    number_1 = (Op.NEG, Op.ABS, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC)
    float_1 = (
        Op.SQRT, Op.RSQRT, Op.EXP, Op.LOG, Op.SIN, Op.COS, Op.TAN, Op.ASIN, Op.ACOS, Op.ATAN,
        Op.SINH, Op.COSH, Op.TANH, Op.SIGMOID, Op.ERF,
    )  # fmt: skip
    table = {
        Op.IDENT: OpInfo(1, Domain.ANY),
        Op.BIT_NOT: OpInfo(1, Domain.BITS),
        **{op: OpInfo(1, Domain.NUMBER) for op in number_1},
        **{op: OpInfo(1, Domain.FLOAT) for op in float_1},
        Op.ADD: OpInfo(2, Domain.NUMBER, commutes=True),
        Op.MUL: OpInfo(2, Domain.NUMBER, commutes=True),
        **{op: OpInfo(2, Domain.NUMBER) for op in (Op.SUB, Op.DIV, Op.MOD)},
        Op.POW: OpInfo(2, Domain.FLOAT),
        Op.MAX: OpInfo(2, Domain.ANY),
        Op.MIN: OpInfo(2, Domain.ANY),
        **{op: OpInfo(2, Domain.BITS, commutes=True) for op in (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR)},
        Op.BIT_LEFT: OpInfo(2, Domain.BITS),
        Op.BIT_RIGHT: OpInfo(2, Domain.BITS),
        Op.CMP_EQ: OpInfo(2, Domain.ANY, compares=True, commutes=True),
        Op.CMP_NE: OpInfo(2, Domain.ANY, compares=True, commutes=True),
        **{op: OpInfo(2, Domain.ANY, compares=True) for op in (Op.CMP_LT, Op.CMP_LE, Op.CMP_GT, Op.CMP_GE)},
        Op.COND: OpInfo(3, Domain.ANY),
        Op.FMA: OpInfo(3, Domain.FLOAT),
    }
    return MappingProxyType(table)


OPS: Final = _table()


class Aggregation(enum.Enum):
    """How a contraction merges the values that meet at one output element."""

    SUM = "add"
    PROD = "mul"
    MAX = "max"
    MIN = "min"
    ASSIGN = "assign"

    __hash__ = object.__hash__

    @property
    def op(self) -> Op | None:
        """The elementwise operation that merges two values; None for assignment, which has one."""
        return _AGGREGATION_OPS[self]

    def identity(self, dtype: DType) -> int | float:
        """Return the value that leaves every other unchanged under this aggregation."""
        match self:
            case Aggregation.PROD:
                return 1
            case Aggregation.MAX:
                return dtype.minimum
            case Aggregation.MIN:
                return dtype.maximum
            case Aggregation.SUM | Aggregation.ASSIGN:
                return 0


_AGGREGATION_OPS: Final[Mapping[Aggregation, Op | None]] = MappingProxyType(
    {
        Aggregation.SUM: Op.ADD,
        Aggregation.PROD: Op.MUL,
        Aggregation.MAX: Op.MAX,
        Aggregation.MIN: Op.MIN,
        Aggregation.ASSIGN: None,
    }
)


class Combination(enum.Enum):
    """How a contraction combines the elements that it reads at one index point."""

    NONE = "none"  # one input
    ADD = "add"  # two inputs
    MUL = "mul"  # two inputs
    EQ = "eq"  # two inputs, the value is bool
    COND = "cond"  # three inputs: first == second ? third : 0

    __hash__ = object.__hash__

    @property
    def arity(self) -> int:
        """Number of inputs."""
        return {"none": 1, "cond": 3}.get(self.value, 2)
