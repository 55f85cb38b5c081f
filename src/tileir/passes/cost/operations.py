"""Kinds and weights of operations.

Each operation counts as many as the weight in its row of :mod:`tileir.core.ops` says: 1 for what processors do in one
instruction, and for functions the size of their expansions, in elementary operations.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from tileir.core import DType, Op
from tileir.stripe import ir as stripe

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(enum.Enum):
    """Kind of an operation."""

    MULTIPLY_ADD = "multiply-add"
    ARITHMETIC = "arithmetic"
    DIVISION = "division"
    FUNCTION = "function"
    CONVERSION = "conversion"

    __hash__ = object.__hash__


_DIVISIONS: Final = frozenset({Op.DIV, Op.MOD, Op.SQRT})


_MEMORY: Final = 48
"""Operations, by their weight, that cards do in the time in which they store an element and load it again."""


def takes_less_than_memory(operations: Iterable[Op], dtype: DType) -> bool:
    """Return whether a card does the operations sooner than it stores an element and loads it again."""
    return sum(op.info.weight_in(dtype) for op in operations) <= _MEMORY


def weights_of(block: stripe.Block) -> int:
    """Return how many operations a block does at each point, by their weights; blocks inside are left out."""
    return sum(s.op.info.weight_in(s.dtype) for s in block.statements if isinstance(s, stripe.Intrinsic))


def kind_of(op: Op) -> Kind:
    """Return what sort of operation ``op`` is, by itself."""
    if op.info.approximates:
        return Kind.FUNCTION
    return Kind.MULTIPLY_ADD if op is Op.FMA else Kind.DIVISION if op in _DIVISIONS else Kind.ARITHMETIC
