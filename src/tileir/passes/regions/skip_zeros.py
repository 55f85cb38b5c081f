"""Skipping of products with masked weights: the mask becomes constraints of the contraction.

With scores ``cond(t <= s, x, -inf)``, the weights of a softmax over t are 0 above the diagonal for any x, or NaN. A
contraction that is promised finite inputs adds 0 there, and so may skip these points.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from tileir.core import Aggregation, NameScope, Op, attrs
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least
from tileir.passes.kernels.replacement import Replacement, replaced
from tileir.passes.rewrites.affine_places import Tests, coordinate_tests, coordinates
from tileir.poly.affine import Affine
from tileir.schedule.remarks import Refused, refused
from tileir.stripe.ir import (
    Block,
    Constant,
    Convert,
    Intrinsic,
    Load,
    LoadIndex,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    scalar_output,
    views_written,
)

_FINITE: Final = "finite"


@attrs.frozen
class SkipZeros:
    """Turn masks of coordinates, outside of which an operand is 0, into constraints of the contraction.

    The contraction carries the tag ``finite``. Its factors are traced through elementwise kernels to selections between
    a value and 0, or minus infinity, by comparisons of coordinates. Each output keeps at least one step, so that it is
    always written.

    Attributes:
        least: Minimum number of steps of a reduction that gets constraints.
    """

    name: ClassVar[str] = "skip_zeros"
    least: int = attrs.field(default=64, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with these contractions constrained."""
        known = _TensorFacts(program)
        promised = any(_FINITE in block.tags for block in program.main.blocks)

        def constrained(kernel: Block, _: NameScope) -> Replacement | Refused:
            outcome = self._constrained(kernel, known)
            if promised:
                known.learn(kernel)
            if isinstance(outcome, Refused):
                return outcome
            return Replacement((outcome,), facts=(("constraints", len(outcome.constraints)),))

        return replaced(program, constrained)

    def _constrained(self, kernel: Block, known: _TensorFacts) -> Block | Refused:
        """Return a contraction with constraints, or the reason why it gets none."""
        if _FINITE not in kernel.tags:
            return refused("TR641")
        store = _only_store(kernel)
        zeros = None if store is None else known.scalars(kernel).get(store.source)
        view = None if store is None else kernel.refinement(store.into)
        if view is None or view.aggregation is not Aggregation.SUM or zeros is None or zeros.number != 0:
            return refused("TR642")
        outer = {name for access in view.access for name in access.indices}
        inner = [index for index in kernel.indices if index.name not in outer]
        tests = [t for t in sorted(zeros.tests, key=str) if t.bounds(kernel.ranges)[0] < 0 and outer & set(t.indices)]
        bounded = [i for i in inner if any(abs(t.coefficient(i.name)) == 1 for t in tests)]
        if len(bounded) != 1 or bounded[0].range < self.least:
            return refused("TR643", loops=len(bounded), least=self.least)
        (loop,) = bounded
        if not all(set(t.indices) - outer == {loop.name} and abs(t.coefficient(loop.name)) == 1 for t in tests):
            return refused("TR643", loops=len(inner), least=self.least)
        if not _some_step_each(tests, loop.name, kernel.ranges):
            return refused("TR644", index=loop.name)
        return attrs.evolve(kernel, constraints=(*kernel.constraints, *tests), deps=())


@attrs.frozen(repr=False)
class _Zeros:
    """A value that is ``number`` (0 or minus infinity), or NaN, wherever some of ``tests`` is negative."""

    number: float
    tests: frozenset[Affine]

    def moved(self, values: Mapping[str, Affine]) -> _Zeros:
        """Return this fact with values substituted for indices."""
        return _Zeros(self.number, frozenset(test.substitute(values) for test in self.tests))


@attrs.define(eq=False, repr=False)
class _TensorFacts:
    """Facts about the tensors written so far, in terms of their axes."""

    program: Program
    _alone: frozenset[str] = attrs.field(init=False)
    _sizes: dict[str, tuple[int, ...]] = attrs.field(init=False)
    _coordinates: dict[str, Affine] = attrs.field(factory=dict, init=False)
    _tests: dict[str, Tests] = attrs.field(factory=dict, init=False)
    _zeros: dict[str, _Zeros] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        behind = roots(self.program)
        writers = Counter(name for s in self.program.main.statements for name in views_written(s))
        views = Counter(behind.values())
        self._alone = frozenset(n for n, times in writers.items() if behind[n] == n and views[n] == times == 1)
        self._sizes = {view.name: view.shape.sizes for view in self.program.main.refinements}

    def learn(self, kernel: Block) -> None:
        """Record facts about the output of an elementwise kernel, if nothing else writes that."""
        store = _only_store(kernel)
        view = None if store is None or kernel.constraints else kernel.refinement(store.into)
        if store is None or view is None or view.source not in self._alone or view.merges:
            return
        axes = _axes(kernel, view, self._sizes[view.source])
        if axes is None:
            return
        statements = self._placed(kernel)
        if (place := coordinates(statements, kernel.ranges).get(store.source)) is not None:
            self._coordinates[view.source] = place.substitute(axes)
        if (tests := self._comparisons(kernel, statements).get(store.source)) is not None:
            holds, fails = (tuple(test.substitute(axes) for test in side) for side in tests)
            self._tests[view.source] = holds, fails
        if (zeros := self.scalars(kernel).get(store.source)) is not None:
            self._zeros[view.source] = zeros.moved(axes)

    def scalars(self, kernel: Block) -> dict[str, _Zeros]:
        """Return where scalars of a kernel are 0, or minus infinity."""
        tests = self._comparisons(kernel, self._placed(kernel))
        numbers: dict[str, float] = {}
        found: dict[str, _Zeros] = {}
        for statement in kernel.statements:
            zeros: _Zeros | None = None
            match statement:
                case Constant(into=into, value=float(number)):
                    numbers[into] = number
                    zeros = _Zeros(number, frozenset()) if number in (0, -math.inf) else None
                case Load(source=source, index=None):
                    view = kernel.refinement(source)
                    zeros = self._zeros.get(view.source)
                    zeros = None if zeros is None else zeros.moved(_places(view))
                case Convert(input=converted):
                    zeros = found.get(converted)
                case Intrinsic(op=Op.COND, inputs=(test, yes, no)):
                    zeros = _chosen((found.get(yes), found.get(no)), tests.get(test, ((), ())))
                case Intrinsic(op=op, inputs=inputs):
                    zeros = _computed(op, [found.get(name) for name in inputs], [numbers.get(name) for name in inputs])
            result = scalar_output(statement)
            if zeros is not None and result is not None:
                found[result] = zeros
        return found

    def _placed(self, kernel: Block) -> list[Statement]:
        """Return the statements of a kernel with loads from coordinate tensors replaced by coordinates."""
        result: list[Statement] = []
        for statement in kernel.statements:
            if isinstance(statement, Load) and statement.index is None:
                view = kernel.refinement(statement.source)
                if view.source in self._coordinates:
                    place = self._coordinates[view.source].substitute(_places(view))
                    result.append(LoadIndex(place, statement.into, view.shape.dtype))
                    continue
            result.append(statement)
        return result

    def _comparisons(self, kernel: Block, statements: Sequence[Statement]) -> dict[str, Tests]:
        """Return the scalars that compare coordinates, or are loaded from tensors of comparisons."""
        loaded = {}
        for statement in kernel.statements:
            if isinstance(statement, Load) and statement.index is None:
                view = kernel.refinement(statement.source)
                if view.source in self._tests:
                    holds, fails = (
                        tuple(test.substitute(_places(view)) for test in side) for side in self._tests[view.source]
                    )
                    loaded[statement.into] = holds, fails
        return coordinate_tests(statements, kernel.ranges, loaded)


def _only_store(kernel: Block) -> Store | None:
    """Return the only store of a flat kernel, at a place that depends on coordinates."""
    if any(isinstance(s, Block | Special) for s in kernel.statements) or not all(i.is_plain for i in kernel.indices):
        return None
    stores = [s for s in kernel.statements if isinstance(s, Store)]
    return stores[0] if len(stores) == 1 and stores[0].index is None else None


def _axes(kernel: Block, view: Refinement, sizes: Sequence[int]) -> dict[str, Affine] | None:
    """Return the indices of a kernel in terms of the axes of its output, of these sizes; None if some are missing.

    An axis of one element has no index.
    """
    axes: dict[str, Affine] = {}
    if len(sizes) != len(view.access):
        return None
    for axis, (access, size) in enumerate(zip(view.access, sizes, strict=True)):
        if size == 1 and access == Affine():
            continue
        name = next(iter(access.indices), "")
        if name in axes or access != Affine.index(name) or kernel.ranges.get(name) != size:
            return None
        axes[name] = Affine.index(_axis(axis))
    return axes if axes.keys() == {index.name for index in kernel.indices} else None


def _axis(number: int) -> str:
    return f"@{number}"


def _places(view: Refinement) -> dict[str, Affine]:
    return {_axis(number): access for number, access in enumerate(view.access)}


def _chosen(arms: tuple[_Zeros | None, _Zeros | None], tests: Tests) -> _Zeros | None:
    """Return the fact about a selection, which takes the first arm if ``tests`` hold; arms may be unknown."""
    (yes, no), (holds, fails) = arms, tests
    if yes is not None and no is not None and yes.number == no.number:
        if not no.tests:
            return _Zeros(no.number, yes.tests.union(holds))
        if not yes.tests:
            return _Zeros(no.number, no.tests.union(fails))
    if no is not None and not no.tests and holds:
        return _Zeros(no.number, frozenset(holds))
    if yes is not None and not yes.tests and fails:
        return _Zeros(yes.number, frozenset(fails))
    return None


def _computed(op: Op, operands: Sequence[_Zeros | None], numbers: Sequence[float | None]) -> _Zeros | None:
    """Return the fact about the result of an operation."""
    first = operands[0] if operands else None
    infinite = [zeros for zeros in operands if zeros is not None and zeros.number != 0]
    zero = [zeros for zeros in operands if zeros is not None and zeros.number == 0]
    scaled = any(number is not None and number > 0 for number in numbers)
    match op:
        case Op.ADD if infinite:
            return infinite[0]
        case Op.SUB if first in infinite:
            return first
        case Op.MUL if zero:
            return _Zeros(0.0, frozenset(test for zeros in zero for test in zeros.tests))
        case Op.MUL if infinite and scaled:
            return infinite[0]
        case Op.DIV if first in zero or (first in infinite and scaled):
            return first
        case Op.EXP if infinite:
            return _Zeros(0.0, infinite[0].tests)
        case Op.NEG | Op.IDENT if zero:
            return first
    return None


def _some_step_each(tests: Iterable[Affine], loop: str, ranges: Mapping[str, int]) -> bool:
    """Return whether each output keeps some step of a loop, in each test with a coefficient of 1 or -1."""
    lower, upper = [Affine()], [Affine.constant(ranges[loop] - 1)]
    for test in tests:
        rest = test.substitute({loop: 0})
        if test.coefficient(loop) == 1:
            lower.append(-rest)
        else:
            upper.append(rest)
    return all((most - least).bounds(ranges)[0] >= 0 for least in lower for most in upper)
