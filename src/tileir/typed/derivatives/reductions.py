"""Derivatives of tuple reductions: the tangent of each component of a state is linear in those of the elements.

The cotangent of an extremum goes to the element whose position the reduction finds; ties have one winner. A mean passes
on equal shares, and a sum of squared distances twice the distance. A sum of ``exp(x - m)`` varies with its elements,
and with ``m`` as an extremum.
"""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING

from tileir.core import Combine, DType, Op, attrs, fail, needed
from tileir.typed.inference.values import Tensor
from tileir.typed.ir import Coordinate, Elementwise, Operation, Override, Reduce, Shape, operands
from tileir.typed.reductions import positions_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.typed.derivatives.algebra import Algebra
    from tileir.typed.derivatives.reverse import Sweep


def sources(operation: Operation) -> tuple[str, ...]:
    """Return the values that determine the tangent of ``operation``: for an override the tensors that get gradients."""
    return tuple(name for name, _ in operation.pairs) if isinstance(operation, Override) else operands(operation)


def refuse_patterns(operations: Sequence[Operation], results: AbstractSet[str], moving: AbstractSet[str]) -> None:
    """Refuse to differentiate ``results`` by ``moving`` if the bits of a value between them are read.

    Raises:
        TileError: TIL335, at the operation that reads them.
    """
    if not any(isinstance(each, Elementwise) and each.op is Op.BITS for each in operations):
        return
    active = set(moving)
    for operation in needed(operations, set(results), attrgetter("name"), sources):
        if active.isdisjoint(sources(operation)):
            continue
        if isinstance(operation, Elementwise) and operation.op is Op.BITS:
            advice = "where none is meant, read those of stop_gradient(…)"
            raise fail("TIL335", f"the bits of a number have no derivative; {advice}", operation.span)
        if operation.dtype.is_float:
            active.add(operation.name)


def pullback(sweep: Sweep, operation: Reduce, cotangent: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the cotangent of the elements."""
    if not sweep.wanted(operation.input):
        return
    sweep.toward(operation.input)
    site = _Site(sweep, operation)
    found = site.share(site.beside(sweep.expanded(cotangent, operation.shape)))
    if found is not None:
        yield operation.input, found


def pushforward(algebra: Algebra, operation: Reduce, tangent: Tensor) -> Tensor | None:
    """Return the tangent of a component for the tangent of its elements: the sum of their shares."""
    site = _Site(algebra, operation)
    share = site.share(algebra.expanded(tangent, site.elements.shape))
    if share is None:
        return None
    total = algebra.summed(algebra.expanded(share, site.elements.shape), list(operation.axes))
    return algebra.reshaped(total, operation.shape)


@attrs.frozen(repr=False)
class _Site:
    """A component of a state, and the inputs of its derivative."""

    algebra: Algebra
    operation: Reduce

    @property
    def elements(self) -> Tensor:
        return self.algebra.value(self.operation.input)

    def beside(self, value: Tensor) -> Tensor:
        """Return a tensor of the shape of the results as one that broadcasts to the elements."""
        shape = tuple(1 if axis in self.operation.axes else size for axis, size in enumerate(self.elements.shape))
        return self.algebra.reshaped(value, shape)

    def share(self, moving: Tensor) -> Tensor | None:
        """Return the product of ``moving``, which broadcasts to the elements, and the derivative by each element."""
        combine, number = self.operation.combine, self.operation.result
        if combine is Combine.MOMENTS:
            return self._of_moments(number, moving)
        if combine is not Combine.LOGSUMEXP:
            return self._of_winner(combine, moving)
        if number == 0:
            return self._of_winner(Combine.ARGMAX, moving)
        algebra, most = self.algebra, self._component(Combine.LOGSUMEXP, 0)
        total = self._component(Combine.LOGSUMEXP, 1)
        power = algebra.compute(Op.EXP, algebra.sub(self.elements, most))
        winner = self._of_winner(Combine.ARGMAX, algebra.mul(moving, total))
        return algebra.sub(algebra.mul(moving, power), winner)

    def _of_moments(self, number: int, moving: Tensor) -> Tensor | None:
        algebra, sizes = self.algebra, self.elements.shape
        if number == 0:
            return None
        if number == 1:
            count = prod(sizes[axis] for axis in self.operation.axes)
            return algebra.div(moving, algebra.constant(count, moving))
        apart = algebra.sub(self.elements, self._component(Combine.MOMENTS, 1))
        return algebra.mul(moving, algebra.mul(apart, algebra.constant(2.0, apart)))

    def _of_winner(self, combine: Combine, moving: Tensor) -> Tensor:
        """Return ``moving`` at the elements that win, and 0 at all others."""
        wins = self.algebra.compute(Op.CMP_EQ, self._positions(), self._component(combine, 1))
        return self.algebra.choose(wins, moving, self.algebra.zero(moving))

    def _component(self, combine: Combine, number: int) -> Tensor:
        operation = self.operation
        dtype = combine.rule(self.elements.dtype, self._counted).state[number]
        made = attrs.evolve(operation, name="", combine=combine, result=number, dtype=dtype, span=None)
        return self.beside(self.algebra.emission.derive(made))

    @property
    def _counted(self) -> DType:
        return positions_in(tuple(self.elements.shape[axis] for axis in self.operation.axes))

    def _positions(self) -> Tensor:
        """Return the position of each element in row-major order of the reduced axes."""
        algebra, sizes = self.algebra, self.elements.shape
        positions: Tensor | None = None
        for axis in self.operation.axes:
            shape: Shape = tuple(size if place == axis else 1 for place, size in enumerate(sizes))
            place = algebra.emission.derive(Coordinate("", axis, positions_in((sizes[axis],)), shape))
            place = algebra.emission.cast(place, self._counted)
            if positions is not None:
                before = algebra.mul(positions, algebra.constant(sizes[axis], positions))
                place = algebra.add(before, place)
            positions = place
        assert positions is not None
        return positions
