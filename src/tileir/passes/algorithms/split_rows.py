"""Splitting of few long rows into parts for groups of threads, each of which merges the partial aggregates of all.

The maximum of a row and the sum of its exponentials are aggregates that later kernels use over the same row. Split one
by one, each would need a kernel for parts, another for their merge, and a third for the use. Here each part has its own
merge, which fuses with the part's use: repeating it for each part costs less than a launch.

The number of parts depends only on sizes and options, never on the number of threads, so results are reproducible.

Kernels along the same long rows are grouped, with the points at which their rows are split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from tileir.core import NameScope, attrs, grouped
from tileir.passes.algorithms.product_parts import is_product
from tileir.passes.algorithms.split_reduction import against_contraction, reads_a_row, widest
from tileir.passes.analysis.accesses import address, is_element
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least, with_kernels, with_temporaries
from tileir.passes.kernels.expansion import called_block, left
from tileir.passes.kernels.forms import against_flat
from tileir.passes.layouts.own_axes import with_own_axes
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.poly.affine import Affine
from tileir.schedule import Fact, Refused, refused, reindexed, remark
from tileir.schedule.nest import chosen_by_data, product
from tileir.stripe import ir as stripe
from tileir.stripe.ir import Block, Direction, Index, Program, Refinement, Statement, views_read, views_written

_ALIGNED: Final = 32
"""Divisor of part lengths if no number of equal parts exists, to keep wide accesses whole."""

_LANES: Final = 8
"""Divisor of the lengths of equal parts."""


@attrs.frozen(eq=False)
class Rows:
    """Rows of tensors that are split alike.

    Attributes:
        whole: Ranges of the outer coordinates; each of their values has its own parts.
        cut: Range of the coordinate that is split.
        within: Number of values of that coordinate in a part; the last part may have fewer.
        points: Points of the kernel that requested the split; no member has more.
    """

    whole: tuple[int, ...]
    cut: int
    within: int
    points: int

    @property
    def parts(self) -> tuple[int, ...]:
        """Number of parts along each coordinate."""
        return (*self.whole, -(-self.cut // self.within))


@attrs.frozen(eq=False)
class Member:
    """A kernel that goes along rows; ``coordinates`` are its indices that count parts, the split one last."""

    rows: Rows
    coordinates: tuple[str, ...]

    @property
    def is_even(self) -> bool:
        """True if all parts have equally many elements."""
        return self.rows.cut % self.rows.within == 0


def members_of(program: Program, parts: Callable[[Block], int]) -> dict[int, Member]:
    """Return, by number, the kernels along few long rows that some of them aggregate.

    Args:
        program: A program of flat kernels.
        parts: Returns the approximate total number of parts for the rows that a kernel aggregates; 0 for other kernels.
    """
    statements = program.main.statements
    touching: Mapping[str, list[int]] | None = None
    members: dict[int, Member] = {}
    for number, kernel in enumerate(statements):
        wanted = parts(kernel) if isinstance(kernel, Block) and number not in members else 0
        first = _cut(kernel, wanted) if isinstance(kernel, Block) and wanted else None
        if first is None:
            continue
        touching = touching or _touching(statements)
        _RowSearch(program, touching, members, first.rows).spread(number, first)
    return members


def _touching(statements: Sequence[Statement]) -> Mapping[str, list[int]]:
    return grouped(
        (name, number)
        for number, each in enumerate(statements)
        for name in dict.fromkeys((*views_read(each), *views_written(each)))
    )


def is_long(kernel: Block, row_bytes: int, most_rows: int) -> bool:
    """Return whether a kernel aggregates at most ``most_rows`` rows of more than ``row_bytes`` bytes, along memory."""
    if against_contraction(kernel) is not None or kernel.constraints:
        return False
    (output,) = (r for r in kernel.refinements if r.direction.writes)
    written = {name for access in output.access for name in access.indices}
    reduced = product(i.range for i in kernel.indices if i.name not in written)
    long = reduced * widest(kernel) > row_bytes and kernel.points <= reduced * most_rows
    return long and reads_a_row(kernel, written, None)


def _cut(kernel: Block, parts: int) -> Member | None:
    """Return how the rows of a reduction are split: whole outer indices, in memory order, and the split one."""
    (output,) = (r for r in kernel.refinements if r.direction.writes)
    written = {name for access in output.access for name in access.indices}
    inputs = [r for r in kernel.refinements if r.direction is Direction.IN]
    place = address(max(inputs, key=lambda r: len(address(r).terms)))
    reduced = [i for i in kernel.indices if i.name not in written and i.range > 1]
    reduced.sort(key=lambda i: -abs(int(place.coefficient(i.name))))
    wanted = -(-parts * product(i.range for i in reduced) // kernel.points)
    whole: list[Index] = []
    for index in reduced:
        if index.range >= 2 * wanted or (index is reduced[-1] and index.range > 1):
            within = _within(index.range, max(2, wanted), alone=index is reduced[-1])
            rows = Rows(tuple(i.range for i in whole), index.range, within, kernel.points)
            return Member(rows, (*(i.name for i in whole), index.name))
        whole.append(index)
        wanted = -(-wanted // index.range)
    return None


def _within(size: int, parts: int, *, alone: bool) -> int:
    """Return the length of parts for about ``parts`` of them, equal if possible."""
    lanes = _LANES if alone else 1
    alike = [n for n in range(max(2, parts // 2), min(2 * parts, size) + 1) if size % n == 0 and size // n % lanes == 0]
    if alike:
        return size // min(alike, key=lambda n: max(n / parts, parts / n))
    unit = _ALIGNED if alone and size >= parts * _ALIGNED else 1
    return -(-size // (parts * unit)) * unit


@attrs.define(eq=False)
class _RowSearch:
    """Search, from tensor to tensor, for the kernels along the same rows."""

    program: Program
    touching: Mapping[str, list[int]]
    members: dict[int, Member]
    rows: Rows
    axes: dict[str, tuple[int, ...]] = attrs.field(factory=dict, init=False)

    def spread(self, number: int, first: Member) -> None:
        """Add a kernel and, transitively, all that share a tensor with it."""
        fresh = self._add(number, first)
        while fresh:
            for other in self.touching[fresh.pop()]:
                kernel = self.program.main.statements[other]
                if other not in self.members and isinstance(kernel, Block):
                    member = self._member(kernel)
                    fresh += [] if member is None else self._add(other, member)

    def _add(self, number: int, member: Member) -> list[str]:
        """Add a kernel, and return the tensors whose views show these rows."""
        kernel = self.program.main.statements[number]
        assert isinstance(kernel, Block)
        self.members[number] = member
        found: list[str] = []
        for view in kernel.refinements:
            axes = self._axes(view, member.coordinates)
            if view.source not in self.axes and axes is not None:
                self.axes[view.source] = axes
                found.append(view.source)
        return found

    def _axes(self, view: Refinement, coordinates: Sequence[str]) -> tuple[int, ...] | None:
        """Return the axes of a tensor along coordinates, each one axis from its start; None for others."""
        if len(self.program.main.refinement(view.source).shape.sizes) != len(view.access):
            return None
        found: list[int] = []
        for name in coordinates:
            axes = [axis for axis, place in enumerate(view.access) if name in place.indices]
            if len(axes) != 1 or view.access[axes[0]] != Affine.index(name):
                return None
            found += axes
        return tuple(found)

    def _member(self, kernel: Block) -> Member | None:
        """Return a kernel as a member; None if it does not go along the rows, or does more than that."""
        if kernel.points > self.rows.points or not is_flat(kernel):
            return None
        seen = {self._names(view) for view in kernel.refinements if view.source in self.axes}
        names = seen.pop() if len(seen) == 1 else None
        whole = (*self.rows.whole, self.rows.cut)
        if names is None or tuple(kernel.ranges[name] for name in names) != whole:
            return None
        outputs = [view for view in kernel.refinements if view.direction.writes]
        if any(view.merges for view in outputs):
            return Member(self.rows, names) if _reduces(kernel, names) else None
        return Member(self.rows, names) if all(self._axes(view, names) is not None for view in outputs) else None

    def _names(self, view: Refinement) -> tuple[str, ...] | None:
        """Return the indices by which a kernel goes along the rows of a tensor."""
        places = [view.access[axis] for axis in self.axes[view.source]]
        names = tuple(name for place in places for name in place.indices)
        return names if len(names) == len(places) and self._axes(view, names) is not None else None


def _reduces(kernel: Block, names: Sequence[str]) -> bool:
    """Return whether a kernel aggregates whole rows, and nothing else depends on the place in a row."""
    if against_contraction(kernel) is not None:
        return False
    (output,) = (view for view in kernel.refinements if view.direction.writes)
    return not any(name in place.indices for place in output.access for name in names)


def is_flat(kernel: Block) -> bool:
    """Return whether a kernel is statements on single elements, without data-dependent places, over a whole box."""
    plain = against_flat(kernel) is None and not kernel.constraints and kernel.reduction is None
    return plain and all(map(is_element, kernel.refinements)) and not chosen_by_data(kernel.statements)


_FEW: Final = 256
"""Maximum number of elements computed between aggregates and rows, repeated for each part."""


@attrs.frozen
class SplitRows:
    """Split long rows, as of softmax, into parts, together with all kernels that run along them.

    Partial aggregates go to a temporary with additional axes. Each part merges them in a kernel of its own, and repeats
    computations that depend only on aggregates. The program of a sum and a quotient::

        S[] = +(X[i]);  M = S / 1024;  O[i : 1024] = X[i] / M

    becomes partial sums ``S_parts[p : 8]``, ``S_each[q : 8] = +(S_parts[p])``, ``M_each[q]`` and ``O[128*q + i]``.

    Attributes:
        parts: Minimum number of parts of all rows together, approximately; 1 for no split.
        most_parts: Maximum number of parts of all rows together, approximately.
        part_bytes: Target size of a part in bytes, between these limits.
        row_bytes: Maximum size of rows that stay whole, one for each group of threads, in bytes.
        rows: Maximum number of rows that are split; more rows keep the device busy.
    """

    name: ClassVar[str] = "split_rows"
    parts: int = attrs.field(default=1, validator=at_least(1))
    most_parts: int = attrs.field(default=1, validator=at_least(1))
    part_bytes: int = attrs.field(default=1 << 15, validator=at_least(1))
    row_bytes: int = attrs.field(default=1 << 18, validator=at_least(0))
    rows: int = attrs.field(default=32, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with these rows split."""
        if self.parts < 2:
            return left(program, refused("TR620"))
        if not any(isinstance(kernel, stripe.Block) and self._parts(kernel) for kernel in program.main.statements):
            return left(program, refused("TR669"))
        whole = _with_own_axes(program)
        tails = _tails(whole)
        members = {n: member for n, member in members_of(whole, self._parts).items() if n not in tails}
        met = _met(whole, members)
        cutting = _RowSplitter.of(whole, {n: member for n, member in members.items() if member.rows in met})
        for number, kernel in enumerate(whole.main.statements):
            cutting.visit(number, kernel)
            if isinstance(kernel, stripe.Block):
                remark(called_block(kernel), *_outcome(members.get(number), met), number=number)
        return cutting.program() if met else program

    def _parts(self, kernel: stripe.Block) -> int:
        """Return the total number of parts for the rows of a kernel; 0 for kernels that aggregate no long rows."""
        if not is_long(kernel, self.row_bytes, self.rows):
            return 0
        return max(self.parts, min(self.most_parts, kernel.points * widest(kernel) // self.part_bytes))


def _tails(program: stripe.Program) -> frozenset[int]:
    """Return the numbers of elementwise kernels on results of a product, which fuse with that."""
    products: set[str] = set()
    found: set[int] = set()
    for number, kernel in enumerate(program.main.statements):
        if not isinstance(kernel, stripe.Block):
            continue
        outputs = [view for view in kernel.refinements if view.direction.writes]
        written = {name for view in outputs for place in view.access for name in place.indices}
        if any(view.merges for view in outputs):
            products |= {view.source for view in outputs} if is_product(kernel, written) else set()
        elif not products.isdisjoint(stripe.views_read(kernel)):
            found.add(number)
    return frozenset(found)


def _outcome(member: Member | None, met: set[Rows]) -> tuple[Refused | None, tuple[Fact, ...]]:
    """Return why a kernel stays as it is, or the facts about its split."""
    if member is None or member.rows not in met:
        return refused("TR669" if member is None else "TR670"), ()
    return None, (("index", member.coordinates[-1]), ("parts", member.rows.parts[-1]))


def _with_own_axes(program: stripe.Program) -> stripe.Program:
    """Return the program with views of tensors by their own axes, where possible."""
    shapes = {each.name: each.shape for each in program.main.refinements}
    kernels = (with_own_axes(k, shapes) if isinstance(k, stripe.Block) else k for k in program.main.statements)
    return with_kernels(program, tuple(kernels))


def _met(program: stripe.Program, members: Mapping[int, Member]) -> set[Rows]:
    """Return the rows whose aggregates, or values computed only from these, are used along the rows."""
    found: set[Rows] = set()
    told: dict[str, Rows] = {}
    for number, kernel in enumerate(program.main.statements if members else ()):
        read = {told[name] for name in stripe.views_read(kernel) if name in told}
        member = members.get(number)
        if member is not None and member.rows in read:
            found.add(member.rows)
        if not isinstance(kernel, stripe.Block):
            continue
        outputs = [view for view in kernel.refinements if view.direction.writes]
        if member is not None and any(view.merges for view in outputs):
            told.update((view.source, member.rows) for view in outputs)
        elif len(read) == 1 and _is_few(kernel):
            told.update((view.source, rows) for view in outputs for rows in read)
    return found


def _is_few(kernel: stripe.Block) -> bool:
    """Return whether a kernel computes few elements, each from others."""
    merging = any(view.merges for view in kernel.refinements)
    return is_flat(kernel) and not merging and kernel.points <= _FEW


@attrs.define(eq=False, repr=False)
class _RowSplitter:
    """The kernels so far, and the temporaries that hold aggregates once for each part."""

    before: stripe.Program
    members: Mapping[int, Member]
    names: NameScope
    once: frozenset[str]
    statements: list[stripe.Statement] = attrs.field(factory=list, init=False)
    added: list[stripe.Refinement] = attrs.field(factory=list, init=False)
    each: dict[str, tuple[Rows, stripe.Refinement]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, program: stripe.Program, members: Mapping[int, Member]) -> _RowSplitter:
        """Return the state before the first kernel; tensors that are written ``once`` stay as they were then."""
        behind = roots(program)
        written = Counter(behind[name] for each in program.main.statements for name in stripe.views_written(each))
        once = frozenset(name for name, count in written.items() if count == 1 and name not in program.inputs)
        return cls(program, members, NameScope.of(memory.name for memory in program.memory), once)

    def program(self) -> stripe.Program:
        """Return the program so far, without the kernels whose results are only needed for each part."""
        return DeadCode()(with_temporaries(self.before, self.statements, self.added))

    def visit(self, number: int, kernel: stripe.Statement) -> None:
        """Add the replacement of a kernel."""
        member = self.members.get(number)
        if not isinstance(kernel, stripe.Block):
            self.statements.append(kernel)
        elif member is None:
            self.statements.append(kernel)
            self.statements += self._few(kernel)
        elif any(view.merges for view in kernel.refinements):
            self.statements += self._aggregate(kernel, member)
        else:
            self.statements.append(self._cut(kernel, member)[0])

    def _cut(self, kernel: stripe.Block, member: Member) -> tuple[stripe.Block, tuple[stripe.Index, ...]]:
        """Return a kernel over parts and their elements, with inputs for each part; and the indices of parts."""
        *outer, name = member.coordinates
        rows, index = member.rows, kernel.index(name)
        part = stripe.Index(NameScope.of(kernel.ranges).fresh(f"{name}_part"), rows.parts[-1])
        value = Affine.of({part.name: rows.within, name: 1})
        within = (part, attrs.evolve(index, range=rows.within))
        indices = tuple(i for each in kernel.indices for i in (within if each is index else (each,)))
        cut = reindexed(kernel, indices, {name: value})
        own = (*(kernel.index(each) for each in outer), part)
        return attrs.evolve(
            cut,
            constraints=() if member.is_even else (index.range - 1 - value,),
            refinements=self._reading(cut.refinements, rows, own),
            deps=(),
        ), own

    def _reading(
        self, views: Iterable[stripe.Refinement], rows: Rows, own: tuple[stripe.Index, ...]
    ) -> tuple[stripe.Refinement, ...]:
        """Return views of the values of each part in place of views of shared values."""

        def one(view: stripe.Refinement) -> stripe.Refinement:
            found = self.each.get(view.source)
            if found is None or found[0] is not rows or len(view.access) + len(own) != len(found[1].shape.dims):
                return view
            return _of_part(view, found[1], own)

        return tuple(map(one, views))

    def _temporary(self, name: str, rows: Rows, tensor: str) -> stripe.Refinement:
        """Return memory with the elements of a tensor for each part."""
        shape = self.before.main.refinement(tensor).shape
        self.added.append(stripe.allocation(self.names.fresh(name), shape.dtype, (*shape.sizes, *rows.parts)))
        return self.added[-1]

    def _aggregate(self, kernel: stripe.Block, member: Member) -> Iterator[stripe.Block]:
        """Yield the kernels that aggregate parts, that merge them, and that merge them for each part."""
        cut, own = self._cut(kernel, member)
        (output,) = (view for view in kernel.refinements if view.direction.writes)
        parts = self._temporary(f"{output.source}_parts", member.rows, output.source)
        views = (_of_part(view, parts, own) if view.direction.writes else view for view in cut.refinements)
        yield attrs.evolve(cut, refinements=tuple(views))
        kept = tuple(i for i in kernel.indices if any(i.name in place.indices for place in output.access))
        view = attrs.evolve(output, direction=stripe.Direction.IN, aggregation=None)
        source = attrs.evolve(_of_part(view, parts, own), name=NameScope.of([output.name]).fresh(parts.name))
        merge = attrs.evolve(
            kernel,
            name=f"{kernel.name}_merge" if kernel.name else "",
            indices=(*kept, *own),
            refinements=(source, output),
            statements=(stripe.Load(source.name, "part"), stripe.Store("part", output.name)),
            deps=(),
        )
        yield merge
        if output.source in self.once:
            yield self._for_each(merge, member.rows, len(kept))

    def _few(self, kernel: stripe.Block) -> Iterator[stripe.Block]:
        """Yield the kernel that repeats, for each part, a computation on aggregates of rows."""
        told = {self.each[view.source][0] for view in kernel.refinements if view.source in self.each}
        if len(told) == 1 and _is_few(kernel) and self.once.issuperset(stripe.views_written(kernel)):
            yield self._for_each(kernel, told.pop(), len(kernel.indices))

    def _for_each(self, kernel: stripe.Block, rows: Rows, kept: int) -> stripe.Block:
        """Return the kernel with inputs and a result for each part; some of its indices move the result."""
        names = NameScope.of(kernel.ranges)
        own = tuple(stripe.Index(names.fresh("each"), count) for count in rows.parts)
        views = list(self._reading(kernel.refinements, rows, own))
        for number, view in enumerate(views):
            if view.direction.writes:
                memory = self._temporary(f"{view.source}_each", rows, view.source)
                views[number] = _of_part(view, memory, own)
                self.each[view.source] = rows, memory
        name = f"{kernel.name}_each" if kernel.name else ""
        indices = (*kernel.indices[:kept], *own, *kernel.indices[kept:])
        return attrs.evolve(kernel, name=name, indices=indices, refinements=tuple(views), deps=())


def _of_part(view: stripe.Refinement, memory: stripe.Refinement, own: tuple[stripe.Index, ...]) -> stripe.Refinement:
    """Return a view of the element of a part in place of that of the whole."""
    place = (*view.access, *(Affine.index(index.name) for index in own))
    return attrs.evolve(view, source=memory.name, access=place, shape=memory.shape.element)
