"""Overlapped tiling of stencil chains: intermediate tensors are computed strip by strip, with their halo.

Rows in overlapping strips are recomputed (Ragan-Kelley et al., "Halide", PLDI 2013). The pass join_strips joins the
kernels over the same strips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor
from typing import ClassVar, Final

from tileir.core import NameScope, attrs
from tileir.passes.analysis import address, is_element, roots
from tileir.passes.analysis.rows import Rows, rows_seen, rows_touched, writing
from tileir.passes.base import at_least, with_temporaries
from tileir.passes.kernels.expansion import called_block
from tileir.passes.regions.interior import affine_rows, divided
from tileir.passes.rewrites.canonicalise import simplified
from tileir.poly.affine import Affine
from tileir.schedule import Refused, refused, reindexed, remark
from tileir.stripe.aliases import byte_size
from tileir.stripe.ir import (
    Block,
    Dim,
    Direction,
    Index,
    Program,
    Refinement,
    Statement,
    Tags,
    TensorShape,
    allocation,
    views_read,
    views_written,
)

STRIP: Final = "strip"
"""Tag of the index that counts strips, and of kernels over strips; its value distinguishes chains."""


@attrs.frozen
class Strips:
    """Cut chains of elementwise kernels into strips of rows (overlapped tiling).

    Temporaries between the kernels get an axis of strips, each with the halo of rows that the next kernel reads. Rows
    near the first and the last one, with computed addresses, go to separate kernels that run before.

    Attributes:
        rows: Rows of a strip; up to eight times this number if strips overlap, and half of it if larger strips exceed
            ``most_bytes``.
        least_bytes: Minimum total size of all whole temporaries of a chain, in bytes: smaller ones stay in caches
            anyway. Four times this size if strips overlap.
        most_bytes: Maximum total size of the temporaries of one strip, in bytes.
        again: Maximum share of recomputed work in overlapping strips, in percent.
        least: Minimum number of strips.
    """

    name: ClassVar[str] = "strips"
    rows: int = attrs.field(default=8, validator=at_least(1))
    least_bytes: int = attrs.field(default=256 * 1024, validator=at_least(0))
    most_bytes: int = attrs.field(default=512 * 1024, validator=at_least(0))
    again: int = attrs.field(default=25, validator=at_least(0))
    least: int = attrs.field(default=8, validator=at_least(1))

    def __call__(self, program: Program) -> Program:
        """Return the program with these kernels in strips."""
        scan = _Scan(self, program)
        for number in reversed(range(len(scan.statements))):
            scan.visit(number)
        scan.tell()
        return scan.program_of_strips()


@attrs.frozen(repr=False)
class _Stage:
    """Tensors written by the same kernels, these kernels, and the halo of rows that a strip needs.

    Attributes:
        strides: Elements from one row to the next, by the names of the tensors in ``main``.
        height: Number of rows.
        numbers: Numbers of all kernels that write the tensors.
        kernels: Kernels that iterate over their rows, by number.
        edges: The other kernels, and the remaining first and last rows.
        low: The first row that a strip needs, relative to the first row of the strip.
        high: The last row that a strip needs, relative to the last row of the strip.
    """

    strides: Mapping[str, int]
    height: int
    numbers: frozenset[int]
    kernels: Mapping[int, Rows]
    edges: tuple[Block, ...]
    low: int = 0
    high: int = 0

    @property
    def work(self) -> int:
        """Number of statements executed for each row."""
        return sum(rows.work for rows in self.kernels.values())


@attrs.frozen(repr=False)
class _RowPartition:
    """Partition of the rows of a group: ``count`` strips of ``rows`` rows, from ``first`` on."""

    first: int
    rows: int
    count: int

    @property
    def end(self) -> int:
        """The row after the last strip."""
        return self.first + self.rows * self.count


@attrs.define(eq=False, repr=False)
class _Scan:
    """Scan of the statements of ``main``, last to first; groups are replaced by kernels over strips."""

    options: Strips
    program: Program
    statements: list[Statement] = attrs.field(init=False)
    names: NameScope = attrs.field(init=False)
    added: list[Refinement] = attrs.field(factory=list, init=False)
    gone: set[str] = attrs.field(factory=set, init=False)
    _replaced: dict[int, tuple[Statement, ...]] = attrs.field(factory=dict, init=False)
    _done: set[int] = attrs.field(factory=set, init=False)
    _said: dict[int, Refused] = attrs.field(factory=dict, init=False)
    _held: Mapping[str, Refinement] = attrs.field(init=False)
    _kept: frozenset[str] = attrs.field(init=False)
    _readers: dict[str, set[int]] = attrs.field(factory=dict, init=False)
    _writers: dict[str, set[int]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        program = self.program
        self.statements = list(program.main.statements)
        self.names = NameScope.of(r.name for r in (*program.memory, *program.main.refinements))
        behind = roots(program)
        views = Counter(behind.values())
        alone = {name for name, root in behind.items() if name == root and views[root] == 1}
        self._held = {r.name: r for r in program.main.refinements if r.name in alone}
        self._kept = frozenset((*program.inputs, *program.outputs, *(b.name for b in program.buffers)))
        for number, statement in enumerate(self.statements):
            for name in views_read(statement):
                self._readers.setdefault(behind[name], set()).add(number)
            for name in views_written(statement):
                self._writers.setdefault(behind[name], set()).add(number)

    def visit(self, number: int) -> None:
        """Cut the kernels that end with a statement into strips, if that is legal and pays."""
        written = writing(self.statements[number])
        last = None if number in self._done or not written else self._stage(written[0].source)
        if last is None or not last.kernels or max(last.numbers) != number or self._done & last.numbers:
            return
        stages = [last]
        while (more := self._with_another(stages)) is not None:
            stages = more
        if len(stages) > 1:
            why = self._against_gain(stages)
            if why is None and (cut := self._cut(stages)) is not None:
                self._replace(stages, cut)
            self._said[number] = why or refused("TR633", stages=len(stages), rows=stages[0].height)

    def tell(self) -> None:
        """Remark on each kernel whether it is in strips, or why not."""
        for number, statement in enumerate(self.program.main.statements):
            if isinstance(statement, Block):
                why = None if number in self._done else self._said.get(number, refused("TR631"))
                remark(called_block(statement), why, number=number)

    def _against_gain(self, stages: Sequence[_Stage]) -> Refused | None:
        """Return why strips would not pay: intermediate tensors fit the caches."""
        held = sum(byte_size(self._held[tensor]) for stage in stages[1:] for tensor in stage.strides)
        overlap = any(stage.low < stage.high for stage in stages)
        least = self.options.least_bytes * (4 if overlap else 1)
        return None if held >= least else refused("TR632", bytes=held, least=least)

    def _stage(self, tensor: str) -> _Stage | None:
        """Return the stage of a tensor, with its kernels and their other outputs; None if some are of another kind."""
        numbers = self._writers.get(tensor, set())
        views = [writing(self.statements[number]) for number in sorted(numbers)]
        tensors = sorted({view.source for written in views for view in written})
        held = [self._held[name].shape for name in tensors if name in self._held]
        together = all(self._writers[name] == numbers for name in tensors) and all(views)
        several = all(len(shape.dims) > 1 and shape.dims[0].size == held[0].dims[0].size for shape in held)
        if not tensors or len(held) < len(tensors) or not together or not several:
            return None
        strides = {name: shape.dims[0].stride for name, shape in zip(tensors, held, strict=True)}
        kernels: dict[int, Rows] = {}
        edges: list[Block] = []
        for number in sorted(numbers):
            kernel = self.statements[number]
            assert isinstance(kernel, Block)  # it writes
            rows, outside = affine_rows(kernel, strides)
            edges.extend(outside)
            if rows is not None:
                kernels[number] = rows
        return _Stage(strides, held[0].dims[0].size, frozenset(numbers), kernels, tuple(edges))

    def _with_another(self, stages: Sequence[_Stage]) -> list[_Stage] | None:
        """Return the stages of a group with one more producer stage; None if there is none."""
        members = set[int]().union(*(stage.numbers for stage in stages))
        known = {tensor for stage in stages for tensor in stage.strides}
        read = {
            view.source: None
            for stage in stages
            for rows in stage.kernels.values()
            for view in rows.kernel.refinements
            if view.direction is Direction.IN and view.source not in known
        }
        for tensor in read:
            stage = self._stage(tensor)
            if stage is None or not stage.kernels or stage.numbers & self._done:
                continue
            if any(name in self._kept or not self._readers.get(name, set()) <= members for name in stage.strides):
                continue
            numbers = members | stage.numbers
            whole = numbers == set(range(min(numbers), max(numbers) + 1))
            needed = _needed(stage, stages)
            if not whole or needed is None or min(members) < max(stage.numbers):
                continue
            more = [*stages, attrs.evolve(stage, low=needed[0], high=needed[1])]
            if self._cut(more) is not None:
                return more
        return None

    def _cut(self, stages: Sequence[_Stage]) -> _RowPartition | None:
        """Return the partition of a group; None if its rows are too few or too long, or strips overlap too much."""
        first, end = 0, stages[0].height
        for stage in stages:
            for own in stage.kernels.values():
                first, end = max(first, own.first - stage.low), min(end, own.end - stage.high)
            for edge in stage.edges:
                for low, high in _rows_of(stage, edge):
                    if low + high < stage.height:
                        first = max(first, high + 1 - stage.low)
                    else:
                        end = min(end, low - stage.high)
        between = stages[1:]
        work = sum(stage.work for stage in stages)
        again = sum((s.high - s.low) * s.work for s in between)
        rows = self.options.rows
        for height in (rows, 2 * rows, 4 * rows, 8 * rows) if again else (rows, rows // 2 or 1):
            count = (end - first) // height
            held = sum(self._width(s) * (height + s.high - s.low) for s in between)
            enough = count >= self.options.least and held <= self.options.most_bytes
            if enough and 100 * again <= self.options.again * height * work:
                return _RowPartition(first, height, count)
        return None

    def _width(self, stage: _Stage) -> int:
        return sum(stride * self._held[name].shape.dtype.itemsize for name, stride in stage.strides.items())

    def _replace(self, stages: Sequence[_Stage], cut: _RowPartition) -> None:
        """Replace the kernels of a group by kernels over strips, and kernels for the remaining rows."""
        before: list[Statement] = []
        outside: list[Block] = []
        for stage in stages:
            low, high = 0, stage.height
            if stage is stages[0]:
                low, high = cut.first, cut.end
            for kernel in outside:
                for start, end in _rows_of(stage, kernel):
                    if start + end < stage.height:
                        low = max(low, end + 1)
                    else:
                        high = min(high, start)
            if low >= high:
                return  # all of it is needed
            own = [*(self._outside(rows, low, high) for rows in stage.kernels.values()), *stage.edges]
            kept = [kernel for kernel in own if kernel is not None]
            outside.extend(kept)
            before[:0] = kept
            if stage is not stages[0] and not kept:
                self.gone.update(stage.strides)
        members = sorted(set[int]().union(*(stage.numbers for stage in stages)))
        strips = _StripKernels(stages, cut, self._temporaries(stages, cut), Tags.of(**{STRIP: members[0]}))
        self._replaced.update(dict.fromkeys(members, ()))
        self._replaced[members[0]] = (*before, *strips.kernels())
        self._done.update(members)

    def _outside(self, rows: Rows, low: int, high: int) -> Block | None:
        """Return a kernel for the rows before ``low`` and from ``high`` on; None if there are none."""
        start, end = max(0, low - rows.first), min(rows.index.range, high - rows.first)
        if start <= 0 and end >= rows.index.range:
            return None
        if start >= end:
            return rows.kernel
        _, outside = divided(rows.kernel, rows.index, start, end)
        return simplified(outside)

    def _temporaries(self, stages: Sequence[_Stage], cut: _RowPartition) -> dict[str, Refinement]:
        """Return allocations for the strips of each intermediate tensor."""
        result: dict[str, Refinement] = {}
        for stage, (tensor, stride) in ((s, each) for s in stages[1:] for each in s.strides.items()):
            height = cut.rows + stage.high - stage.low
            name, dtype = self.names.fresh(f"{tensor}_strips"), self._held[tensor].shape.dtype
            result[tensor] = allocation(name, dtype, (cut.count, height, stride))
        self.added.extend(result.values())
        return result

    def program_of_strips(self) -> Program:
        """Return the program with strips; itself if there are none."""
        if not self._replaced:
            return self.program
        statements = [new for n, old in enumerate(self.statements) for new in self._replaced.get(n, (old,))]
        return with_temporaries(self.program, statements, self.added, self.gone)


def _rows_of(stage: _Stage, kernel: Block) -> Iterator[tuple[int, int]]:
    for tensor, stride in stage.strides.items():
        yield from rows_touched(kernel, tensor, stride)


def _needed(stage: _Stage, readers: Iterable[_Stage]) -> tuple[int, int] | None:
    """Return the rows of a stage that a strip needs, relative to its own rows; None if some are unknown."""
    low, high = 0, 0
    found = False
    for reader in readers:
        for rows in reader.kernels.values():
            for view in rows.kernel.refinements:
                if view.source not in stage.strides:
                    continue
                seen = rows_seen(rows.kernel, view, rows.index, stage.strides[view.source])
                column = view.shape.dims[0].stride == 1 and all(dim.size == 1 for dim in view.shape.dims[1:])
                if seen is None or not (is_element(view) or column):
                    return None
                start, end = reader.low + seen[0] - rows.first, reader.high + seen[1] - rows.first
                low, high = (min(low, start), max(high, end)) if found else (start, end)
                found = True
    return (low, high) if found else None


@attrs.frozen(repr=False)
class _StripKernels:
    """Builder of the kernels of one group over its strips."""

    stages: Sequence[_Stage]
    cut: _RowPartition
    temporaries: Mapping[str, Refinement]
    tags: Tags

    def kernels(self) -> list[Block]:
        """Return the kernels, producers first."""
        order = sorted((number, stage) for stage in self.stages for number in stage.kernels)
        return [self._kernel(stage, stage.kernels[number]) for number, stage in order]

    def _kernel(self, stage: _Stage, rows: Rows) -> Block:
        kernel = rows.kernel
        names = NameScope.of(i.name for i in kernel.indices)
        strip = Index(names.fresh(STRIP), self.cut.count, tags=Tags.of(STRIP))
        index = attrs.evolve(rows.index, range=self.cut.rows + stage.high - stage.low)
        start = self.cut.first + stage.low - rows.first
        value = Affine.of({strip.name: self.cut.rows, index.name: 1}, start)
        others = tuple(index if i is rows.index else i for i in kernel.indices)
        moved = reindexed(kernel, (strip, *others), {rows.index.name: value})
        seen = {r.name: r for r in kernel.refinements}
        views = tuple(
            self._view(view, seen[view.name], rows, start, strip.name) if view.source in self.temporaries else view
            for view in moved.refinements
        )
        return attrs.evolve(moved, refinements=views, tags=kernel.tags.add(**dict(self.tags.items)), deps=())

    def _view(self, view: Refinement, before: Refinement, rows: Rows, start: int, strip: str) -> Refinement:
        stage = next(s for s in self.stages if view.source in s.strides)
        held, stride = self.temporaries[view.source], stage.strides[view.source]
        where = address(before) - Affine.of({rows.index.name: stride})
        row = floor(where.bounds(rows.kernel.ranges)[0] / stride)
        place = where - row * stride
        line = Affine.of({rows.index.name: 1}, start + row - self.cut.first - stage.low)
        access: tuple[Affine, ...] = (Affine.index(strip), line, place)
        dims = held.shape.element.dims
        if not is_element(view):
            access = (place, Affine.index(strip), line, Affine())
            dims = (view.shape.dims[0], *dims[:2], Dim(1, 1))
        return attrs.evolve(view, source=held.name, access=access, shape=TensorShape(view.shape.dtype, dims))
