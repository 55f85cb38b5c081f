"""The pullback of each operation: what a cotangent of its value adds to those of its operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from tileir.typed.derivatives import contractions, elementwise, overrides, reductions, structure
from tileir.typed.ir import (
    Argsort,
    ArrayConstant,
    Cast,
    Checkpoint,
    Constant,
    Contraction,
    Coordinate,
    Elementwise,
    Gather,
    Override,
    Recall,
    Reduce,
    Reshape,
    Scan,
    Scatter,
    ShapeOf,
    Upstream,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.typed.derivatives.sweep import Sweep
    from tileir.typed.inference.values import Tensor
    from tileir.typed.ir import Operation


def pullback(sweep: Sweep, operation: Operation, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield (operand, contribution) for the operands that :meth:`Sweep.wanted` asks for; none means 0.

    The shape of ``cotangent`` broadcasts to that of ``operation``, and the shape of a contribution to that of its
    operand. A contribution is cast to the dtype of its operand by whoever takes it.
    """
    match operation:
        case Elementwise():
            return elementwise.pullback(sweep, operation, cotangent)
        case Cast():
            return structure.pull_cast(sweep, operation, cotangent)
        case Reshape():
            return structure.pull_reshape(sweep, operation, cotangent)
        case Gather():
            return structure.pull_gather(sweep, operation, cotangent)
        case Scatter():
            return structure.pull_scatter(sweep, operation, cotangent)
        case Contraction():
            return contractions.pullback(sweep, operation, cotangent)
        case Reduce():
            return reductions.pullback(sweep, operation, cotangent)
        case Override():
            return overrides.pull_override(sweep, operation, cotangent)
        case Checkpoint() | Recall():
            return overrides.pull_same(sweep, operation, cotangent)
        case Constant() | ArrayConstant() | Coordinate() | ShapeOf() | Argsort() | Upstream():
            return iter(())
        case Scan():
            return iter(())  # a loop is pulled back as a whole, for all of its results: `reverse` does that
        case _:
            assert_never(operation)
