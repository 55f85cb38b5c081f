"""Which operations a kernel has, counted once for all stages that have nothing to do where some are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.ops import Op
from tileir.semtree.dots import fragment_of
from tileir.semtree.ir import Apply, Bitcast, Cast, Const, DeclareArray, Dot, Hint, Reduce
from tileir.semtree.rewrite import distinct_nodes, statements

if TYPE_CHECKING:
    from tileir.core.dtype import DType
    from tileir.semtree.ir import KernelFunction


@attrs.frozen(eq=False)
class Census:
    """What there is in a kernel, each kind once.

    Attributes:
        operations: Elementwise operations, each with the dtype of its first operand and the most lanes of one.
        reductions: Operations that merge lanes, each with their dtype and number.
        dots: Fragments of dot products, as :func:`tileir.semtree.dots.fragment_of` tells them.
        converts: Whether there are conversions, by value or of bits.
        dtypes: Those of arrays, constants and conversions; other nodes have the dtype of one of these.
        hints: Classes of hints.

    """

    operations: frozenset[tuple[Op, DType, int]]
    reductions: frozenset[tuple[Op, DType, int]]
    dots: frozenset[str]
    converts: bool
    dtypes: frozenset[DType]
    hints: frozenset[type[Hint]]


def census(kernel: KernelFunction) -> Census:
    """Return what there is in a kernel; the last one that was asked about is remembered."""
    global _last
    known = _last  # several threads may ask
    if known is None or known[0] is not kernel:
        _last = known = kernel, _counted(kernel)
    return known[1]


_last: tuple[KernelFunction, Census] | None = None


def _counted(kernel: KernelFunction) -> Census:
    operations: set[tuple[Op, DType, int]] = set()
    reductions: set[tuple[Op, DType, int]] = set()
    dots: set[str] = set()
    dtypes = {param.dtype for param in kernel.params}
    hints: set[type[Hint]] = set()
    for stmt in statements(kernel.body):
        if isinstance(stmt, DeclareArray):
            dtypes.add(stmt.dtype)
        elif isinstance(stmt, Hint):
            hints.add(type(stmt))
    converts = False
    for node in distinct_nodes(kernel):
        match node:
            case Apply(op=op, args=args):
                operations.add((op, args[0].type.dtype, max([arg.type.lanes for arg in args])))
            case Const(type=kind):
                dtypes.add(kind.dtype)
            case Cast(type=kind) | Bitcast(type=kind):
                dtypes.add(kind.dtype)
                converts = True
            case Reduce(op=op, operand=operand):
                reductions.add((op, operand.type.dtype, operand.type.lanes))
            case Dot():
                dots.add(fragment_of(node))
            case _:
                pass
    return Census(
        frozenset(operations), frozenset(reductions), frozenset(dots), converts, frozenset(dtypes), frozenset(hints)
    )
