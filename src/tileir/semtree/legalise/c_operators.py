"""Languages like C: kernels of what they can spell, and how they spell operations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tileir.core.ops import Op
from tileir.semtree.ir import KernelFunction
from tileir.semtree.legalise.capabilities import C_LIKE
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.legalise.repeated import with_parts_named
from tileir.semtree.legalise.scalariser import scalarised
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.threads import one_thread

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


def scalar_c(kernel: KernelFunction) -> KernelFunction:
    """Return an equal kernel of what any language like C can spell.

    Statements are ``Declare``, ``DeclareArray``, ``Assign``, ``For`` and ``If``; groups have one thread, so that there
    are no barriers, and hints are left out. Expressions have one lane. They are ``Const``, ``Var``, ``Subscript``,
    ``Cast``, ``Bitcast``, the ``GridIndex`` of groups, and ``Apply`` of ``NEG``, ``BIT_NOT``, ``COND`` and what
    :data:`INFIX` and :data:`FUNCTIONS` have, where C defines the result. Floats narrower than f32 are nothing but their
    bits.

    Raises:
        BackendError: TIL804, the kernel holds something that no row of this stage expresses.
    """
    return with_parts_named(legalise(scalarised(expand_kernel(one_thread(kernel), frozenset())), C_LIKE))
