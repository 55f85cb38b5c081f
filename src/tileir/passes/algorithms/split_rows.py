"""Few long rows, cut into parts that groups of threads take, each of which merges what all of them have found.

The maximum of a row and the sum of its exponentials are aggregates that later kernels go on with over the same row. If
each was cut for itself, its parts would be a kernel, what merges them another, and what goes on with the row a third.
Here each part of a row has a merge of its own, which becomes one kernel with what goes on with that part: it is done
again for each part, and costs less than a launch.

How many parts there are depends on sizes and options, never on how many threads run: results have the same bits anyway.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

from tileir.core import NameScope, attrs
from tileir.passes.algorithms.product_parts import is_product
from tileir.passes.algorithms.row_members import Member, Rows, is_flat, is_long, members_of
from tileir.passes.algorithms.split_reduction import widest
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import at_least, with_kernels, with_temporaries
from tileir.passes.kernels.expansion import called_block, left
from tileir.passes.layouts.own_axes import with_own_axes
from tileir.passes.rewrites.dead_code import DeadCode
from tileir.poly.affine import Affine
from tileir.schedule import Fact, Refused, refused, reindexed, remark
from tileir.stripe import ir as stripe

_FEW: Final = 256
"""Elements of what is computed between aggregates and rows, again for each part, at most."""


@attrs.frozen
class SplitRows:
    """Split long rows, as of softmax, into parts, together with all kernels that run along them.

    Partial aggregates go to a temporary with axes more. A kernel for each part merges them, and what the program
    computes of aggregates alone is done for each part, too. In the program of a sum and a quotient::

        S[] = +(X[i]);  M = S / 1024;  O[i : 1024] = X[i] / M

    there are partial sums ``S_parts[p : 8]``, ``S_each[q : 8] = +(S_parts[p])``, ``M_each[q]`` and ``O[128*q + i]``.

    Attributes:
        parts: About so many parts all rows together have at least; 1 leaves them whole.
        most_parts: About so many they have at most.
        part_bytes: In between, parts have about so many bytes.
        row_bytes: Rows of at most so many bytes stay whole: a group of threads takes each.
        rows: More rows than this stay whole, as these keep the device busy.

    """

    name: ClassVar[str] = "split_rows"
    parts: int = attrs.field(default=1, validator=at_least(1))
    most_parts: int = attrs.field(default=1, validator=at_least(1))
    part_bytes: int = attrs.field(default=1 << 15, validator=at_least(1))
    row_bytes: int = attrs.field(default=1 << 18, validator=at_least(0))
    rows: int = attrs.field(default=32, validator=at_least(0))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with such rows cut."""
        if self.parts < 2:
            return left(program, refused("TR620"))
        if not any(isinstance(kernel, stripe.Block) and self._parts(kernel) for kernel in program.main.statements):
            return left(program, refused("TR669"))
        whole = _with_own_axes(program)
        tails = _tails(whole)
        members = {n: member for n, member in members_of(whole, self._parts).items() if n not in tails}
        met = _met(whole, members)
        cutting = _Cutting.of(whole, {n: member for n, member in members.items() if member.rows in met})
        for number, kernel in enumerate(whole.main.statements):
            cutting.visit(number, kernel)
            if isinstance(kernel, stripe.Block):
                remark(called_block(kernel), *_outcome(members.get(number), met), number=number)
        return cutting.program() if met else program

    def _parts(self, kernel: stripe.Block) -> int:
        """Return how many parts the rows of a kernel shall have together; 0 for kernels that aggregate no such rows."""
        if not is_long(kernel, self.row_bytes, self.rows):
            return 0
        return max(self.parts, min(self.most_parts, kernel.points * widest(kernel) // self.part_bytes))


def _tails(program: stripe.Program) -> frozenset[int]:
    """Return the numbers of kernels that go on with each element of a product: they become one kernel with that."""
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
    """Return why a kernel stays as it is, or what was cut."""
    if member is None or member.rows not in met:
        return refused("TR669" if member is None else "TR670"), ()
    return None, (("index", member.coordinates[-1]), ("parts", member.rows.parts[-1]))


def _with_own_axes(program: stripe.Program) -> stripe.Program:
    """Return the program with views of tensors by their own axes, as far as kernels have such."""
    shapes = {each.name: each.shape for each in program.main.refinements}
    kernels = (with_own_axes(k, shapes) if isinstance(k, stripe.Block) else k for k in program.main.statements)
    return with_kernels(program, tuple(kernels))


def _met(program: stripe.Program, members: Mapping[int, Member]) -> set[Rows]:
    """Return the rows whose aggregates, or what is computed of these alone, are read by what goes along them."""
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
    """Return whether a kernel computes few elements, each of others."""
    merging = any(view.merges for view in kernel.refinements)
    return is_flat(kernel) and not merging and kernel.points <= _FEW


@attrs.define(eq=False, repr=False)
class _Cutting:
    """The kernels so far, and of what aggregates tell the temporaries that have it once for each part."""

    before: stripe.Program
    members: Mapping[int, Member]
    names: NameScope
    once: frozenset[str]
    statements: list[stripe.Statement] = attrs.field(factory=list, init=False)
    added: list[stripe.Refinement] = attrs.field(factory=list, init=False)
    each: dict[str, tuple[Rows, stripe.Refinement]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, program: stripe.Program, members: Mapping[int, Member]) -> _Cutting:
        """Return the state before the first kernel; tensors that are written ``once`` stay as they were then."""
        behind = roots(program)
        written = Counter(behind[name] for each in program.main.statements for name in stripe.views_written(each))
        once = frozenset(name for name, count in written.items() if count == 1 and name not in program.inputs)
        return cls(program, members, NameScope.of(memory.name for memory in program.memory), once)

    def program(self) -> stripe.Program:
        """Return the program by now, without the kernels whose results are only needed for each part."""
        return DeadCode()(with_temporaries(self.before, self.statements, self.added))

    def visit(self, number: int, kernel: stripe.Statement) -> None:
        """Add what becomes of a kernel."""
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
        """Return a kernel over parts and what is in one, reading what each part has; and the indices of parts."""
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
        """Return views of what each part has in place of those of what all have together."""

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
        """Yield the kernels that aggregate parts, that merge them, and that do so for each part."""
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
        """Yield the kernel that does for each part what one does with aggregates of rows."""
        told = {self.each[view.source][0] for view in kernel.refinements if view.source in self.each}
        if len(told) == 1 and _is_few(kernel) and self.once.issuperset(stripe.views_written(kernel)):
            yield self._for_each(kernel, told.pop(), len(kernel.indices))

    def _for_each(self, kernel: stripe.Block, rows: Rows, kept: int) -> stripe.Block:
        """Return the kernel with a result for each part, of what each part has; of its indices some move the result."""
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
