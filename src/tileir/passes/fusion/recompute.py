"""What elements cost that are computed again wherever a kernel reads them, beside what they cost in memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.passes.analysis.accesses import address
from tileir.stripe.ir import Block, Refinement

_MEMORY: Final = 48
"""Operations, by their weight, that cards do in the time in which they store an element and load it again."""


def bytes_of_a_row(kernel: Block, view: Refinement, least: int) -> int:
    """Return how much a flat reduction sees through a view for one result; where terms lie apart, each ``least``."""
    moved = {name for r in kernel.refinements if r.merges for access in r.access for name in access.indices}
    terms = prod(i.range for i in kernel.indices if i.name not in moved)
    along = any(name not in moved for name, step in address(view).terms if step == 1)
    return terms * (view.shape.dtype.itemsize if along else max(view.shape.dtype.itemsize, least))


def takes_less_than_memory(operations: Iterable[Op], dtype: DType) -> bool:
    """Return whether a card does the operations sooner than it stores an element and loads it again."""
    return sum(op.info.weight_in(dtype) for op in operations) <= _MEMORY
