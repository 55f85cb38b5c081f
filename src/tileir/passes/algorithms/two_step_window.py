"""Window aggregates along rows in two steps: over a few neighbours, and then over every n-th of these aggregates."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import Aggregation, NameScope, attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.analysis.running_aggregates import Terms, terms_of
from tileir.passes.base import at_least
from tileir.passes.kernels.replacement import Outcome, Replacement, ReplacingPass
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, accepted, refused, refusing
from tileir.stripe.ir import Block, Direction, Index, Load, Refinement, Store, allocation


@attrs.frozen
class TwoStepWindow(ReplacingPass):
    """Factor window reductions of constant width into two reductions, whose widths multiply to that width.

    ``O[i] = +(X[i + k])`` over ``k < 25`` becomes ``A[i] = +(X[i + k])`` over ``k < 5``, and then
    ``O[i] = +(A[i + 5k])`` over ``k < 5``, which reads 10 elements instead of 25. Windows of maxima and minima may
    overlap in the second step, so that all widths can be factored. Terms must be plain elements, and the window must
    slide within the rows of the output: windows over several rows already share the aggregates of rows without a
    temporary.

    Attributes:
        reqs: Tags that a kernel must carry.
        least: Minimum width of a window.
        most: Maximum width of a window; the pass ``window`` computes wider ones by scans.
        row: Minimum length of a row of the output.
    """

    name: ClassVar[str] = "two_step_window"
    reqs: tuple[str, ...] = ()
    least: int = attrs.field(default=13, validator=at_least(1))
    most: int = attrs.field(default=63, validator=at_least(1))
    row: int = attrs.field(default=64, validator=at_least(1))

    @refusing
    def _kernel(self, kernel: Block, names: NameScope) -> Outcome:
        window = accepted(self._window(kernel))
        between = window.between(names)
        facts = (("first", window.first), ("second", window.second))
        return Replacement(window.kernels(between), (between,), facts)

    def _window(self, kernel: Block) -> _Window | Refused:
        """Return the two steps of a kernel; refused if it is no window of this kind, or too narrow."""
        terms = terms_of(kernel)
        if terms is None or terms.slant != -1:
            return refused("TR671")
        if kernel.constraints:
            return refused("TR616")
        if [type(statement) for statement in kernel.statements] != [Load, Store]:
            return refused("TR672")
        width, along = terms.reduced.range, address(terms.output).coefficient(terms.along.name)
        if not any(abs(int(address(terms.output).coefficient(i.name))) > abs(int(along)) for i in terms.others):
            return refused("TR673")
        if not self.least <= width <= self.most:
            return refused("TR674", width=width, least=self.least, most=self.most)
        if terms.along.range < self.row:
            return refused("TR675", outputs=terms.along.range, least=self.row)
        steps = _steps(width, overlapping=terms.output.aggregation in (Aggregation.MAX, Aggregation.MIN))
        return refused("TR676", width=width) if steps is None else _Window(kernel, terms, *steps)


def _steps(width: int, *, overlapping: bool) -> tuple[int, int, int] | None:
    """Return the widths of both steps, and the stride of the second; None if none save much."""
    ways = [
        (first, 1 + (width - first) // apart, apart)
        for first in range(2, width)
        for apart in range(1 if overlapping else first, first + 1)
        if (width - first) % apart == 0
    ]
    best = min(ways, key=lambda way: way[0] + way[1], default=None)
    return best if best is not None and 3 * (best[0] + best[1]) <= 2 * width else None


@attrs.frozen(repr=False)
class _Window:
    """A window in two steps: ``first`` neighbours, then ``second`` of their aggregates, ``apart`` elements apart."""

    kernel: Block
    terms: Terms
    first: int
    second: int
    apart: int

    def between(self, names: NameScope) -> Refinement:
        """Return memory for the aggregates of the first step."""
        output, sizes = self.terms.output, [i.range for i in self._places()]
        return allocation(names.fresh(f"{output.source}_steps"), output.shape.dtype, sizes)

    def kernels(self, between: Refinement) -> tuple[Block, Block]:
        """Return the kernels of both steps, with ``between`` between them."""
        kernel, output, along, reduced = self.kernel, self.terms.output, self.terms.along, self.terms.reduced
        narrow = {reduced: attrs.evolve(reduced, range=self.first), along: self._longer()}
        stored = attrs.evolve(
            output,
            source=between.name,
            access=tuple(Affine.index(i.name) for i in self._places()),
            shape=between.shape.element,
        )
        first = attrs.evolve(
            kernel,
            name=f"{kernel.name}_step" if kernel.name else "",
            indices=tuple(narrow.get(i, i) for i in kernel.indices),
            refinements=tuple(stored if view is output else view for view in kernel.refinements),
            deps=(),
        )
        steps = attrs.evolve(reduced, range=self.second)
        place = Affine.of({along.name: 1, reduced.name: self.apart})
        access = tuple(place if i.name == along.name else Affine.index(i.name) for i in self._places())
        name = NameScope.of((output.name,)).fresh(between.name)
        second = attrs.evolve(
            kernel,
            indices=tuple(steps if i is reduced else i for i in kernel.indices),
            refinements=(between.element(Direction.IN, access, name), output),
            statements=(Load(name, "part"), Store("part", output.name)),
            deps=(),
        )
        return first, second

    def _longer(self) -> Index:
        """Return the index along which windows move, with as many values as the second step reads."""
        along = self.terms.along
        return attrs.evolve(along, range=along.range + self.apart * (self.second - 1))

    def _places(self) -> tuple[Index, ...]:
        """Return the indices of the first step's output, in memory order."""
        where = address(self.terms.output)
        indices = (self._longer(), *self.terms.others)
        return tuple(sorted(indices, key=lambda i: -abs(int(where.coefficient(i.name)))))
