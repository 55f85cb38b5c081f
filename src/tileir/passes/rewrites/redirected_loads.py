"""Loads of elements that repeat those of another tensor, redirected to affine or computed places there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from tileir.core import DType, NameScope, Op, attrs
from tileir.passes.analysis.pieces import Pieces
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Block,
    Constant,
    Dim,
    Intrinsic,
    Load,
    LoadIndex,
    Refinement,
    Statement,
    TensorShape,
    scalar_output,
    views_read,
)


@attrs.frozen(repr=False)
class _Run:
    """A run of places, ``step`` elements apart from ``start`` on; ``first`` is extrapolated to coordinate 0."""

    start: int
    step: int
    first: int

    def at(self, coordinate: Affine) -> Affine:
        """Return the place at a coordinate."""
        return coordinate * self.step + self.first


@attrs.frozen
class Axis:
    """Summand of one axis of a view to the place of an element, from ``least`` to ``most``, by runs of coordinates.

    If one of the runs, clamped to these bounds, gives all places, it is ``clamped``. Elements exist only from ``low``
    to ``high``; coordinates beyond have the place of the nearest one.
    """

    coordinate: Affine
    runs: tuple[_Run, ...]
    clamped: _Run | None
    least: int
    most: int
    low: int | None
    high: int | None

    @property
    def affine(self) -> Affine | None:
        """The place, if it is affine."""
        return self.runs[0].at(self.coordinate) if len(self.runs) == 1 else None


def axes_seen(view: Refinement, made: Pieces, ranges: Mapping[str, int], most_runs: int) -> tuple[Axis, ...] | None:
    """Return the axes of a view of a tensor that is made of pieces.

    Returns:
        None if an axis takes more than ``most_runs`` runs, or if some elements have neither a source nor a value.
    """
    if len(view.access) != len(made.table):
        return None
    result: list[Axis] = []
    for access, table in zip(view.access, made.table, strict=True):
        first, last = (int(bound) for bound in access.bounds(ranges))
        if first < 0 or last >= len(table):
            return None
        axis = _axis(access, table, first, last, most_runs)
        if axis is None or (made.filling is None and (axis.low, axis.high) != (None, None)):
            return None
        result.append(axis)
    return tuple(result)


def _axis(coordinate: Affine, table: tuple[int | None, ...], first: int, last: int, most_runs: int) -> Axis | None:
    """Return the offset of an axis over the coordinates from ``first`` to ``last``."""
    low, known = _known_runs(table)
    high = low + sum(length for _, length in known) - 1
    if None in table[low : high + 1]:
        return None
    if high < low or low > last or high < first:
        return Axis(coordinate, (_Run(first, 0, 0),), None, 0, 0, last + 1, None)
    runs = [(attrs.evolve(r, start=max(r.start, first)), r.start + n - 1) for r, n in known]
    runs = [(run, min(end, last)) for run, end in runs if run.start <= min(end, last)]
    if len(runs) > most_runs:
        return None
    ends = [run.first + run.step * place for run, end in runs for place in (run.start, end)]
    least, most = min(ends), max(ends)
    longest = max((run for run, _ in runs), key=lambda run: abs(run.step))
    places = {place for run, end in runs for place in (run.start, run.start + 1, end - 1, end) if place <= end}
    clamped = all(table[p] == min(max(longest.step * p + longest.first, least), most) for p in places)
    inside = low if low > first else None, high if high < last else None
    return Axis(coordinate, _around(runs, first, last), longest if clamped else None, least, most, *inside)


def _around(runs: Sequence[tuple[_Run, int]], first: int, last: int) -> tuple[_Run, ...]:
    """Return runs with constant runs at both ends to cover all coordinates."""
    (begin, _), (finish, end) = runs[0], runs[-1]
    before = (_Run(first, 0, begin.first + begin.step * begin.start),) if begin.start > first else ()
    behind = (_Run(end + 1, 0, finish.first + finish.step * end),) if end < last else ()
    return (*before, *(run for run, _ in runs), *behind)


@cache
def _known_runs(table: tuple[int | None, ...]) -> tuple[int, tuple[tuple[_Run, int], ...]]:
    """Return the first coordinate with an element, and the runs of elements with their lengths."""
    low = next((place for place, distance in enumerate(table) if distance is not None), len(table))
    distances = [distance for distance in table if distance is not None]
    return low, tuple(_runs(distances, low))


def _runs(distances: Sequence[int], start: int) -> Iterator[tuple[_Run, int]]:
    """Yield the runs of equal steps, with their lengths."""
    position = 0
    while position < len(distances):
        end = _end(distances, position)
        if end == position + 2 and _end(distances, position + 1) > position + 3:
            end = position + 1  # its second element begins a longer run
        step = distances[position + 1] - distances[position] if end > position + 1 else 0
        yield _Run(start + position, step, distances[position] - step * (start + position)), end - position
        position = end


def _end(distances: Sequence[int], position: int) -> int:
    """Return the end of the run of equal steps that begins at a position."""
    end = position + 1
    while end < len(distances) and distances[end] - distances[end - 1] == distances[position + 1] - distances[position]:
        end += 1
    return end


def reading_through(kernel: Block, through: Mapping[str, Pieces], main: Block, most_runs: int) -> Block:
    """Return an elementwise kernel that reads the sources of the tensors ``through``, all of which it can see."""
    if through.keys().isdisjoint(views_read(kernel)):
        return kernel
    loads = _Loads(kernel, main)
    for statement in kernel.statements:
        view = kernel.refinement(statement.source) if isinstance(statement, Load) else None
        if view is None or not isinstance(statement, Load) or view.source not in through:
            loads.statements.append(statement)
            continue
        made = through[view.source]
        axes = axes_seen(view, made, kernel.ranges, most_runs)
        assert axes is not None
        loads.add(statement, view, axes, made)
    kept = tuple(r for r in kernel.refinements if r.source not in through)
    views = (*kept, *loads.views.values())
    return attrs.evolve(kernel, refinements=views, statements=tuple(loads.statements), deps=())


def reading_inside(kernel: Block, main: Block) -> Block:
    """Return an elementwise kernel with out-of-bounds loads clamped to the nearest elements."""
    loads, moved = _Loads(kernel, main), set[str]()
    for statement in kernel.statements:
        view = kernel.refinement(statement.source) if isinstance(statement, Load) else None
        if view is None or not isinstance(statement, Load):
            loads.statements.append(statement)
            continue
        dims = main.refinement(view.source).shape.dims
        axes = [_axis_inside(a, dim, kernel.ranges) for a, dim in zip(view.access, dims, strict=True)]
        if all(axis.affine is not None for axis in axes):
            loads.statements.append(statement)
        else:
            loads.add(statement, view, axes, Pieces(view.source, ()))
            moved.add(view.name)
    kept = (r for r in kernel.refinements if r.name not in moved)
    return attrs.evolve(kernel, refinements=(*kept, *loads.views.values()), statements=tuple(loads.statements), deps=())


def _axis_inside(coordinate: Affine, dim: Dim, ranges: Mapping[str, int]) -> Axis:
    """Return the offset of an axis, clamped to the tensor."""
    first, last = (int(bound) for bound in coordinate.bounds(ranges))
    low, high = max(first, 0), min(last, dim.size - 1)
    run = _Run(low, dim.stride, 0)
    return Axis(coordinate, _around([(run, high)], first, last), run, low * dim.stride, high * dim.stride, None, None)


def place_view(view: Refinement, held: TensorShape, affine: Affine, reach: int | None) -> Refinement:
    """Return a view of the element at a place of a dense tensor, or of that and the next ``reach`` elements."""
    dims, access = [Dim(1, 1)], [affine]
    if reach is not None:
        # The rank differs from the tensor's, which marks accesses that do not follow its axes.
        more = 2 if len(held.dims) == 2 else 1
        dims, access = [Dim(reach + 1, 1), *dims * more], [Affine(), affine, *[Affine()] * (more - 1)]
    return attrs.evolve(view, access=tuple(access), shape=TensorShape(view.shape.dtype, tuple(dims)))


@attrs.define(eq=False, repr=False)
class _Loads:
    """Statements of a kernel with redirected loads; common subexpressions are computed once."""

    kernel: Block
    main: Block
    statements: list[Statement] = attrs.field(factory=list, init=False)
    views: dict[Refinement, Refinement] = attrs.field(factory=dict, init=False)
    _names: NameScope = attrs.field(init=False)
    _scalars: NameScope = attrs.field(init=False)
    _known: dict[Statement, str] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._names = NameScope.of(r.name for r in self.kernel.refinements)
        self._scalars = NameScope.of(filter(None, map(scalar_output, self.kernel.statements)))

    def add(self, load: Load, view: Refinement, axes: Sequence[Axis], made: Pieces) -> None:
        """Add a load of the element of ``view`` at the place given by ``axes``."""
        held = self.main.refinement(made.source).shape
        dtype = DType.I32 if held.elements < 1 << 31 else DType.I64
        start, reach = Affine(), 0
        index: str | None = None
        for axis in axes:
            if axis.affine is not None:
                start = start + axis.affine
                continue
            start, reach = start + axis.least, reach + axis.most - axis.least
            place = self._place(axis, dtype)
            index = place if index is None else self._intrinsic(Op.ADD, (index, place), dtype)
        new = place_view(attrs.evolve(view, name="", source=made.source), held, start, None if index is None else reach)
        if new not in self.views:
            self.views[new] = attrs.evolve(new, name=self._names.fresh(made.source))
        tests = [test for axis in axes for test in self._tests(axis, dtype)]
        into = self._scalars.fresh(load.into) if tests else load.into
        self.statements.append(attrs.evolve(load, source=self.views[new].name, into=into, index=index, deps=()))
        for number, test in enumerate(tests, 1):
            assert made.filling is not None
            other = self._once(attrs.evolve(made.filling, into="filling", deps=()))
            value = load.into if number == len(tests) else self._scalars.fresh(load.into)
            self.statements.append(Intrinsic(Op.COND, (test, into, other), value, view.shape.dtype))
            into = value

    def _place(self, axis: Axis, dtype: DType) -> str:
        """Return the scalar offset of an axis, less its minimum."""
        if axis.clamped is not None:
            place = self._coordinate(axis.clamped.at(axis.coordinate) - axis.least, dtype)
        else:
            coordinate = self._coordinate(axis.coordinate, dtype)
            *runs, last = axis.runs
            place, start = self._coordinate(last.at(axis.coordinate) - axis.least, dtype), last.start
            for run in reversed(runs):
                test = self._intrinsic(Op.CMP_LT, (coordinate, self._constant(start, dtype)), DType.BOOL)
                here = self._coordinate(run.at(axis.coordinate) - axis.least, dtype)
                place, start = self._intrinsic(Op.COND, (test, here, place), dtype), run.start
        place = self._intrinsic(Op.MAX, (place, self._constant(0, dtype)), dtype)
        return self._intrinsic(Op.MIN, (place, self._constant(axis.most - axis.least, dtype)), dtype)

    def _tests(self, axis: Axis, dtype: DType) -> Iterator[str]:
        for op, bound in ((Op.CMP_GE, axis.low), (Op.CMP_LE, axis.high)):
            if bound is not None:
                coordinate = self._coordinate(axis.coordinate, dtype)
                yield self._intrinsic(op, (coordinate, self._constant(bound, dtype)), DType.BOOL)

    def _coordinate(self, affine: Affine, dtype: DType) -> str:
        return self._once(LoadIndex(affine, "place", dtype))

    def _constant(self, value: int, dtype: DType) -> str:
        return self._once(Constant("bound", dtype, value))

    def _intrinsic(self, op: Op, inputs: tuple[str, ...], dtype: DType) -> str:
        return self._once(Intrinsic(op, inputs, "place", dtype))

    def _once(self, statement: Constant | LoadIndex | Intrinsic) -> str:
        """Return the scalar of a statement, which is added unless an equal one exists."""
        if statement not in self._known:
            into = self._scalars.fresh(statement.into)
            self.statements.append(attrs.evolve(statement, into=into))
            self._known[statement] = into
        return self._known[statement]
