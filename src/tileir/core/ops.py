"""Elementwise operations and aggregations: one table for every stage.

:mod:`tileir.core.numbers.arithmetic` defines each one, except functions of floats, which their rows define.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core.dtype import DType
from tileir.core.nodes import attrs

Array: TypeAlias = np.ndarray[Any, Any]


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
    BITS = "bits"

    __hash__ = object.__hash__

    @cached_property
    def info(self) -> OpInfo:
        """Arity and typing of this operation."""
        return OPS[self]

    def works_on(self, dtype: DType) -> bool:
        """Return whether operands of this type are in the domain."""
        match self.info.domain:
            case Domain.STORED:
                return True
            case Domain.ANY:
                return not dtype.is_storage
            case Domain.NUMBER:
                return not dtype.is_bool and not dtype.is_storage
            case Domain.FLOAT:
                return dtype.is_float and not dtype.is_storage
            case Domain.PATTERN:
                return not dtype.is_bool
            case Domain.BITS:
                return dtype.is_integer or (dtype.is_bool and self not in SHIFTS)


class Domain(enum.Enum):
    """Operand types that an operation works on, after promotion."""

    STORED = "stored"  # every type: operands are passed on as they are
    ANY = "any"  # bool, integers and floats, except storage types, like all domains below
    NUMBER = "number"  # integers and floats
    FLOAT = "float"  # floats; integers are cast by `float_for` first
    BITS = "bits"  # bool and integers
    PATTERN = "pattern"  # integers and floats, also storage types, as their bits in memory


@attrs.frozen
class OpInfo:
    """Static facts of an operation.

    All operands share one dtype (for ``COND`` the second and third; the first is bool). The result has that dtype too,
    or bool when ``compares``; that of ``BITS`` is another one with as many bits.

    Attributes:
        arity: The number of operands.
        domain: The dtypes of operands.
        weight: Its cost in elementary operations, for f32 and narrower dtypes, and for f64: the unit of all estimates
            of time.
        compares: Whether the result is bool.
        commutes: Whether two operands may change places.
        meaning: A function of arrays of f64 that defines it, if it is a function of floats that is computed by an
            expansion into other operations, within a bound of error; everything else has one right result.
        bounded: Whether the result is finite for all operands.
        steady: Whether a small change of an operand causes no much larger one of the result.
    """

    arity: int
    domain: Domain
    weight: tuple[int, int]
    compares: bool = False
    commutes: bool = False
    meaning: Callable[..., Array] | None = None
    bounded: bool = False
    steady: bool = False

    @property
    def approximates(self) -> bool:
        """True for functions that are computed within a bound of error."""
        return self.meaning is not None

    def weight_in(self, dtype: DType) -> int:
        """Return its cost on operands of ``dtype`` in elementary operations."""
        return self.weight[dtype is DType.F64]


_FREE: Final = (0, 0)
_ONE: Final = (1, 1)
_DIVISION: Final = (8, 8)
"""Cost of a quotient, remainder or root in additions: dividers are not pipelined, or a few times slower than adders,
from Fog, "Instruction tables" (2022).
"""


def _function(f32: int, f64: int, meaning: Callable[..., Array], *, arity: int = 1, **facts: bool) -> OpInfo:
    """Return the row of a function of floats; its weights are the sizes of its expansion in the semtree."""
    return OpInfo(arity, Domain.FLOAT, (f32, f64), meaning=meaning, **facts)


def _power(base: Array, exponent: Array) -> Array:
    """Return powers by IEEE 754: NumPy takes a square root if the exponent is 0.5 throughout."""
    result = np.asarray(np.power(base, exponent))
    rooted = np.isinf(base) | (base == 0)
    return np.where((exponent == 0.5) & rooted, np.abs(base), result)


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


_erf = np.frompyfunc(math.erf, 1, 1)


def _table() -> Mapping[Op, OpInfo]:
    """Return the row of each operation.

    Raises:
        KeyError: An operation has none.

    """
    rows = {
        Op.IDENT: OpInfo(1, Domain.STORED, _FREE),
        Op.BIT_NOT: OpInfo(1, Domain.BITS, _ONE),
        **{op: OpInfo(1, Domain.NUMBER, _ONE) for op in (Op.NEG, Op.ABS, Op.FLOOR, Op.CEIL, Op.ROUND, Op.TRUNC)},
        Op.SQRT: OpInfo(1, Domain.FLOAT, _DIVISION),
        Op.RSQRT: _function(2, 2, lambda x: 1.0 / np.sqrt(x)),
        Op.EXP: _function(24, 29, np.exp),
        Op.LOG: _function(33, 37, np.log),
        Op.SIN: _function(29, 35, np.sin, bounded=True, steady=True),
        Op.COS: _function(28, 34, np.cos, bounded=True, steady=True),
        Op.TAN: _function(31, 37, np.tan),
        Op.ASIN: _function(21, 29, np.arcsin, bounded=True),
        Op.ACOS: _function(23, 31, np.arccos, bounded=True),
        Op.ATAN: _function(28, 34, np.arctan, bounded=True, steady=True),
        Op.SINH: _function(38, 46, np.sinh),
        Op.COSH: _function(25, 30, np.cosh),
        Op.TANH: _function(22, 44, np.tanh, bounded=True, steady=True),
        Op.SIGMOID: _function(28, 33, _sigmoid, bounded=True, steady=True),
        Op.ERF: _function(40, 65, lambda x: np.asarray(_erf(x)).astype(np.float64), bounded=True, steady=True),
        Op.ADD: OpInfo(2, Domain.NUMBER, _ONE, commutes=True),
        Op.SUB: OpInfo(2, Domain.NUMBER, _ONE),
        Op.MUL: OpInfo(2, Domain.NUMBER, _ONE, commutes=True),
        Op.DIV: OpInfo(2, Domain.NUMBER, _DIVISION),
        Op.MOD: OpInfo(2, Domain.NUMBER, _DIVISION),
        Op.POW: _function(93, 154, _power, arity=2),
        Op.MAX: OpInfo(2, Domain.ANY, _ONE),
        Op.MIN: OpInfo(2, Domain.ANY, _ONE),
        **{op: OpInfo(2, Domain.BITS, _ONE, commutes=True) for op in (Op.BIT_AND, Op.BIT_OR, Op.BIT_XOR)},
        Op.BIT_LEFT: OpInfo(2, Domain.BITS, _ONE),
        Op.BIT_RIGHT: OpInfo(2, Domain.BITS, _ONE),
        **{op: OpInfo(2, Domain.ANY, _ONE, compares=True, commutes=True) for op in (Op.CMP_EQ, Op.CMP_NE)},
        **{op: OpInfo(2, Domain.ANY, _ONE, compares=True) for op in (Op.CMP_LT, Op.CMP_LE, Op.CMP_GT, Op.CMP_GE)},
        Op.COND: OpInfo(3, Domain.STORED, _ONE),
        Op.FMA: OpInfo(3, Domain.FLOAT, _ONE),
        Op.BITS: OpInfo(1, Domain.PATTERN, _ONE),
    }
    return MappingProxyType({op: rows[op] for op in Op})


OPS: Final = _table()

COMPUTING: Final = tuple(op for op in Op if op is not Op.BITS)
"""The operations on numbers; the other one reads their bits, which the semtree does by a bitcast."""

FUNCTIONS: Final = tuple(op for op in Op if op.info.approximates and op.info.arity == 1)
"""The functions of one float that are computed within a bound of error."""

SHIFTS: Final = frozenset({Op.BIT_LEFT, Op.BIT_RIGHT})


class Aggregation(enum.Enum):
    """Merging of the values that meet at one output element of a contraction."""

    SUM = "add"
    PROD = "mul"
    MAX = "max"
    MIN = "min"
    ASSIGN = "assign"

    __hash__ = object.__hash__

    @property
    def op(self) -> Op | None:
        """The elementwise operation that merges two values; None for assignment, which has only one."""
        return _AGGREGATION_OPS[self]

    def identity(self, dtype: DType) -> bool | int | float:
        """Return the neutral element of this aggregation, as Python's kind for the dtype."""
        match self:
            case Aggregation.PROD:
                return dtype.typed(1)
            case Aggregation.MAX:
                return dtype.typed(dtype.minimum)
            case Aggregation.MIN:
                return dtype.typed(dtype.maximum)
            case Aggregation.SUM | Aggregation.ASSIGN:
                return dtype.typed(0)


_AGGREGATION_OPS: Final[Mapping[Aggregation, Op | None]] = MappingProxyType(
    {
        Aggregation.SUM: Op.ADD,
        Aggregation.PROD: Op.MUL,
        Aggregation.MAX: Op.MAX,
        Aggregation.MIN: Op.MIN,
        Aggregation.ASSIGN: None,
    }
)


def merges(aggregation: Aggregation | None) -> bool:
    """Return whether stores merge with the present value instead of overwriting it."""
    return aggregation is not None and aggregation is not Aggregation.ASSIGN


class Combination(enum.Enum):
    """Combination of the elements that a contraction reads at one index point."""

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
