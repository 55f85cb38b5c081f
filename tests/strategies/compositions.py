"""Compositions of operations, one reading what another one made: built once for all sizes, with NumPy as the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from hypothesis import strategies as st

from strategies.operation_steps import moves, windows
from strategies.operation_steps.step import Array, Step, UnfitError
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import vjp

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor
    from tileir.tile.ir import Function

_LARGEST: Final = 400  # elements of a result, so that thousands of examples take minutes


@attrs.frozen
class Composition:
    """Steps one after the other, from a tensor of ``rank`` axes."""

    rank: int
    steps: tuple[Step, ...]

    def function(self) -> Function:
        """Return the function of X and Y, whose sizes are dimensions."""
        f = FunctionBuilder()
        return f.build(Y=self._result(f.input("X", *(f"N{axis}" for axis in range(self.rank)))))

    def backward(self) -> Function:
        """Return the function of X and what arrives at Y to the gradient D of X."""
        f = FunctionBuilder()
        x = f.input("X", *(f"N{axis}" for axis in range(self.rank)))
        return f.build(D=vjp(self._result(x), f.input("W"), x))

    def expected(self, array: Array) -> Array:
        """Return what Y is.

        Raises:
            UnfitError: Some step does not take an array of this shape.
        """
        for step in self.steps:
            array = step.compute(array)
            if array.size > _LARGEST:
                raise UnfitError
        return array

    def _result(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = step.build(x)
        return x


@st.composite
def compositions(draw: st.DrawFn, *, linear: bool = False, most: int = 4) -> Composition:
    """Draw two to ``most`` steps, linear ones only if so wished."""
    rank = start = draw(st.integers(1, 3))
    steps: list[Step] = []
    for _ in range(draw(st.integers(2, most))):
        makers = [maker for maker, ranks in _MAKERS if rank in ranks]
        step = draw(draw(st.sampled_from(makers))(rank).filter(lambda step: step.linear or not linear))
        steps.append(step)
        rank = step.rank
    return Composition(start, tuple(steps))


def shapes(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Sizes odd and even, and now and then 1 and 0."""
    size = st.sampled_from((5, 4, 3, 2, 7, 6, 1, 1, 0))
    return st.tuples(*[size] * rank)


_MAKERS: Final[tuple[tuple[Callable[[int], st.SearchStrategy[Step]], tuple[int, ...]], ...]] = (
    *((make, (1, 2, 3)) for make in (*moves.ANY_RANK, *windows.ANY_RANK)),
    *((make, (2, 3)) for make in (moves.selections, moves.flattenings)),
    *((make, (1, 2)) for make in (moves.stacks, moves.foldings, windows.convolutions, windows.interpolations)),
)
"""Strategies that draw a step, with the ranks for which they do. Some come twice: they have found the most faults."""
