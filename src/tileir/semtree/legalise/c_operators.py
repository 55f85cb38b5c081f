"""How languages like C spell operations."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.ops import Op

if TYPE_CHECKING:
    from collections.abc import Mapping

INFIX: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.ADD: "+",
        Op.SUB: "-",
        Op.MUL: "*",
        Op.DIV: "/",
        Op.MOD: "%",
        Op.BIT_AND: "&",
        Op.BIT_OR: "|",
        Op.BIT_XOR: "^",
        Op.BIT_LEFT: "<<",
        Op.BIT_RIGHT: ">>",
        Op.CMP_EQ: "==",
        Op.CMP_NE: "!=",
        Op.CMP_LT: "<",
        Op.CMP_LE: "<=",
        Op.CMP_GT: ">",
        Op.CMP_GE: ">=",
    }
)
"""Operators between two operands."""

FUNCTIONS: Final[Mapping[Op, str]] = MappingProxyType(
    {
        Op.ABS: "fabs",
        Op.SQRT: "sqrt",
        Op.FLOOR: "floor",
        Op.CEIL: "ceil",
        Op.ROUND: "rint",
        Op.TRUNC: "trunc",
        Op.MOD: "fmod",
        Op.FMA: "fma",
    }
)
"""Functions of floats that are exact, or rounded once; ``rint`` rounds to even unless a program changes the mode."""
