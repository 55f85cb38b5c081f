"""Type rules of a single expression with valid operands, shared by verifier and parser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tileir.core.nodes.rules import broken
from tileir.semtree.ir import Expr, GridIndex, GridLevel, KernelFunction, Type
from tileir.stripe.bindings import MAX_LANES

MAX_DEPTH: Final = 128
MAX_NESTING: Final = 64


def expression_faults(expr: Expr, kernel: KernelFunction) -> Iterable[str]:
    """Return the faults of one node; its operands, and their number, are valid.

    Of ``kernel`` only the grid, the group and the index type are used.
    """
    lanes = expr.type.lanes
    if not 1 <= lanes <= MAX_LANES:
        return (f"a vector has 1 to {MAX_LANES} lanes, not {lanes}",)
    for rule in expr.rules:
        if not rule.holds(expr):
            return [each.told(expr) for each in broken(expr)]
    return _grid_index_faults(expr, kernel) if expr.__class__ is GridIndex else ()


def _grid_index_faults(expr: GridIndex, kernel: KernelFunction) -> Iterator[str]:
    extents = kernel.grid if expr.level is GridLevel.GROUP else kernel.group
    if not 0 <= expr.axis < len(extents):
        yield f"axis {expr.axis} does not exist: the {expr.level.value} coordinate has {len(extents)}"
    if expr.type != Type(kernel.index):
        yield f"a grid coordinate has the kernel's index type {kernel.index.value}, not {expr.type}"
