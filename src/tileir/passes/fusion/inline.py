"""Inlining of elementwise kernels into the reductions that read their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import ClassVar, Final

from tileir.core import NameScope, Op, attrs
from tileir.core.fragments import OperandMemory, usable
from tileir.passes.analysis import address, bytes_of_a_row, is_element, lone_store, roots
from tileir.passes.analysis.accesses import views_in_one_place
from tileir.passes.base import selected_kernel, with_kernels
from tileir.passes.cost.figures import takes_less_than_memory
from tileir.passes.kernels.expansion import called_block
from tileir.poly.affine import Affine
from tileir.schedule import Refused, refused, refusing, reindexed, remark, renamed, rule_out
from tileir.stripe.ir import (
    Block,
    Convert,
    Direction,
    Intrinsic,
    Load,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    scalar_output,
    views_read,
    views_written,
)


@attrs.frozen(repr=False)
class Producer:
    """An elementwise kernel over the elements of one temporary.

    ``from_nothing`` holds all operations from indices to an element, if no tensor is read.
    """

    number: int
    block: Block
    result: Refinement
    scalar: str
    from_nothing: tuple[Op, ...] | None = None

    @classmethod
    def of(cls, number: int, block: Block) -> Producer | None:
        """Return ``block`` as a producer; None unless it is a flat kernel with one store to its own element."""
        found = None if block.constraints else lone_store(block)
        if found is None:
            return None
        store, result = found
        plain = result.direction is Direction.OUT and not result.merges
        return cls(number, block, result, store.source) if plain and _counts_elements(block, result) else None

    def operations(self) -> list[Op]:
        """Return the operations for each element, except casts."""
        return [s.op for s in self.block.statements if isinstance(s, Intrinsic)]

    def only_copies(self) -> bool:
        """Return whether the kernel only copies elements."""
        first, *rest = self.block.statements
        return isinstance(first, Load) and first.index is None and len(rest) == 1

    def copies_a_slice(self) -> bool:
        """Return whether the kernel copies elements from a scalar offset, with the same neighbours."""
        block = self.block
        if not all(isinstance(s, Load | Store) for s in block.statements):
            return False
        found = views_in_one_place(block.refinements, block.statements)
        views = [r for r in block.refinements if r.name in found]
        if len(views) != 1 or not any(isinstance(s, Load) and s.into == self.scalar for s in block.statements):
            return False
        source, result = address(views[0]), address(self.result)
        near = [name for name, step in result.terms if step == 1]
        return all(source.coefficient(name) == 1 for name in near)

    def only_widens(self) -> bool:
        """Return whether the kernel only converts elements to a wider dtype."""
        return self._only_converts() and self._widest() < self.result.shape.dtype.itemsize

    def only_narrows(self) -> bool:
        """Return whether the kernel only converts elements to a narrower dtype."""
        return self._only_converts() and self._widest() > self.result.shape.dtype.itemsize

    def _only_converts(self) -> bool:
        return all(isinstance(s, Load | Convert | Store) for s in self.block.statements)

    def _widest(self) -> int:
        sizes = (r.shape.dtype.itemsize for r in self.block.refinements if r.direction is Direction.IN)
        return max(sizes, default=0)

    def widens_integers(self) -> bool:
        """Return whether the kernel only widens integers, which loads and dot products do as well."""
        return self.only_widens() and all(r.shape.dtype.is_integer for r in self.block.refinements)

    def coordinates(self, kernel: Block, view: Refinement) -> dict[str, Affine] | None:
        """Return the places of a kernel's view along each index; None if it shows no single stored element.

        A view may have the axes of its source split or joined, as in a long sum in parts: then addresses decide.
        """
        result = self.result
        if view.shape.strides == result.shape.strides:
            axes = zip(result.access, view.access, strict=True)
            found = {own.terms[0][0]: access for own, access in axes if not own.is_constant}
        else:
            found = self._along_indices(address(view), kernel.ranges)
        is_whole = found.keys() == self.block.ranges.keys()
        return found if is_whole and address(result).substitute(found) == address(view) else None

    def _along_indices(self, place: Affine, ranges: Mapping[str, int]) -> dict[str, Affine]:
        """Decompose an address into indices, largest strides first, dropping the remainder.

        Only the first may leave its range, in which whole addresses stay.
        """
        found: dict[str, Affine] = {}
        steps = sorted(address(self.result).terms, key=lambda term: (-term[1], -self.block.ranges[term[0]]))
        for name, step in steps:
            terms = {index: factor // step for index, factor in place.terms if factor % step == 0}
            along = Affine.of(terms, place.offset // step)
            low, high = along.bounds(ranges)
            if not found or 0 <= low <= high < self.block.ranges[name]:
                found[name] = along
                place -= along * step
        return found


def _counts_elements(block: Block, result: Refinement) -> bool:
    """Return whether each index of ``block`` runs along one axis of ``result``, and other axes stay at 0."""
    moving = [access for access in result.access if not access.is_constant]
    simple = all(a.offset == 0 and [c for _, c in a.terms] in ([], [1]) for a in result.access)
    return simple and sorted(a.terms[0][0] for a in moving) == sorted(block.ranges)


CHEAP: Final = frozenset(op for op in Op if max(op.info.weight) <= 1)
"""Operations that cost less than a load from memory."""
_LARGER: Final = 4
"""Size ratio to other tensors from which on a kernel reads a tensor few times."""
_VECTOR: Final = 16
"""Width of a copy on cards in bytes."""
_SMALL: Final = 8
"""Size ratio from which on reading the smaller tensor costs nothing beside the result."""


@attrs.frozen
class Inline:
    """Inline elementwise kernels into reductions that read each of their elements about once.

    A kernel with a single reader is computed there and not stored; a kernel with several readers is recomputed in each
    if it is cheap. A cheap kernel without inputs, such as one of indices, and one that only widens integers, is
    recomputed for every use; other elementwise kernels, too, widen floats from memory themselves, for any reuse. Inputs
    of an inlined kernel must be in memory, or be inlined as well: epilogues of contractions stay epilogues, elementwise
    kernels still pass on unstored values, and no live range is extended far. Dead kernels are left to ``dead_code``.
    Runs before ``accumulate``, which splits flat kernels.

    Attributes:
        reqs: Tags that a reduction must carry.
        max_operations: Maximum number of operations of a recomputed kernel, all of them in :data:`CHEAP`.
        max_statements: Maximum number of statements of a reduction after the pass.
        far: Distance in statements between a tensor's last read and a reduction beyond which the tensor counts as dead.
        turned: Whether reductions with reuse, such as products with a transposed matrix, read their largest tensor in
            its original axis order instead of a transposed copy.
        fragments: Names of matrix instructions: a product that one of them can read in either order gets no transposed
            copy.
        row_bytes: Minimum bytes of a temporary per result that make recomputation pay, even of exponentials, as it
            exceeds caches; non-contiguous terms count ``beside_bytes`` each. 0 for never.
        narrow_bytes: Minimum bytes per result if the inputs are narrower than the temporary, and are cached in its
            place. 0 for never.
        slices: Whether reductions other than matrix products read slices at a scalar offset, such as a loop's step, in
            place.
    """

    name: ClassVar[str] = "inline"
    reqs: tuple[str, ...] = ()
    max_operations: int = 4
    max_statements: int = 128
    far: int = 8
    turned: bool = False
    fragments: tuple[str, ...] = ()
    row_bytes: int = 0
    beside_bytes: int = 0
    narrow_bytes: int = 0
    slices: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with elementwise kernels inlined."""
        scan = _Scan(self, program)
        return with_kernels(program, scan.kernels())


@attrs.define(eq=False, repr=False)
class _Scan:
    """Scan of the kernels in order, which tracks producers whose inputs are still valid."""

    options: Inline
    program: Program
    _roots: Mapping[str, str] = attrs.field(init=False)
    _producers: dict[str, Producer] = attrs.field(factory=dict, init=False)
    _written: dict[str, int] = attrs.field(factory=dict, init=False)
    _writers: Counter[str] = attrs.field(init=False)
    _readers: Counter[str] = attrs.field(init=False)
    _sizes: dict[str, int] = attrs.field(init=False)
    _kept: frozenset[str] = attrs.field(init=False)
    _last: dict[str, int] = attrs.field(init=False)
    _stored: frozenset[str] = attrs.field(init=False)
    _burdens: dict[str, int] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        program = self.program
        self._roots = roots(program)
        self._kept = frozenset({*program.inputs, *program.outputs, *(b.name for b in program.buffers)})
        self._sizes = {self._roots[r.name]: r.shape.elements for r in program.main.refinements}
        kernels = program.main.blocks
        self._writers = Counter(self._roots[name] for kernel in kernels for name in set(views_written(kernel)))
        self._readers = Counter(self._roots[name] for kernel in kernels for name in _read(kernel))
        read = [[self._roots[name] for name in views_read(statement)] for statement in program.main.statements]
        self._last = {root: number for number, seen in enumerate(read) for root in seen}
        self._stored = self._with_narrow(self._kept | self._read_from_memory(read), read)

    def _read_from_memory(self, read: Sequence[Sequence[str]]) -> frozenset[str]:
        """Return the tensors that must be in memory for their readers.

        These are the inputs of other than elementwise kernels, and of elementwise users of a product of them: such a
        user is fused with the product, as with residual connections. A sum that reads its elements once may still be
        fused with their producer.
        """
        stored: set[str] = set()
        bits = {root: 1 << number for number, root in enumerate(self._sizes)}  # sets as integers, for long programs
        before, multiplied = dict.fromkeys(bits, 0), dict.fromkeys(bits, 0)
        for number, statement in enumerate(self.program.main.statements):
            sources = through = 0
            for root in read[number]:
                sources |= bits[root] | before[root]
                through |= multiplied[root]
            if not isinstance(statement, Block) or Producer.of(number, statement) is None:
                stored.update(read[number])
            else:
                stored.update(root for root in read[number] if through & bits[root])
            if isinstance(statement, Block) and self._reads_again(statement):
                through = sources
            for name in views_written(statement):
                before[self._roots[name]] |= sources
                multiplied[self._roots[name]] |= through
        return frozenset(stored)

    def _with_narrow(self, stored: frozenset[str], read: Sequence[Sequence[str]]) -> frozenset[str]:
        """Return stored tensors, and the narrow sources of those among them that are only widened."""
        narrow: set[str] = set()
        for number, statement in enumerate(self.program.main.statements):
            producer = Producer.of(number, statement) if isinstance(statement, Block) else None
            wide = "" if producer is None or not producer.only_widens() else self._roots[producer.result.source]
            for root in read[number] if wide in stored and wide not in self._kept else ():
                narrow.add(root)
                self._readers[root] += self._readers[wide] - 1
                self._last[root] = max(self._last[root], self._last[wide])
        return stored | narrow

    def _reads_again(self, kernel: Block) -> bool:
        """Return whether a kernel has more points than each of its inputs has elements."""
        return prod(kernel.ranges.values()) > max((self._sizes[self._roots[name]] for name in _read(kernel)), default=0)

    def kernels(self) -> tuple[Statement, ...]:
        """Return the kernels with producers inlined; identical objects if there were none."""
        old = self.program.main.statements
        new = tuple(self._kernel(number, kernel) for number, kernel in enumerate(old))
        return old if all(a is b for a, b in zip(new, old, strict=True)) else new

    def _kernel(self, number: int, kernel: Statement) -> Statement:
        if not isinstance(kernel, Block):
            return kernel
        if not _is_flat_reduction(kernel):
            remark(called_block(kernel), refused("TR626"), number=number)
            kernel = self._with_plain_reads(number, kernel)
        elif not selected_kernel(kernel, self.options.reqs):
            remark(called_block(kernel), refused("TR003"), number=number)
        else:
            kernel = self._with_producers(number, kernel)
        self._written.update((self._roots[name], number) for name in views_written(kernel))
        producer = Producer.of(number, kernel)
        if producer is not None:
            root = self._roots[producer.result.source]
            usable = root not in self._kept and self._writers[root] == 1 and not self._narrows_parts(producer)
            small = self._sizes[root] // _SMALL
            if usable and all(self._sizes[self._roots[n]] <= small or self._is_at_hand(n) for n in _read(kernel)):
                self._producers[root] = attrs.evolve(producer, from_nothing=self._from_nothing(producer))
                if self._is_cheap(producer.operations()):
                    burden = self._burden(self._roots[name] for name in _read(kernel))
                    self._burdens[root] = min(self._sizes[root], burden)
        return kernel

    def _narrows_parts(self, producer: Producer) -> bool:
        """Return whether a kernel rounds the output of several others, each of which can store its part narrowed."""
        return producer.only_narrows() and any(self._writers[self._roots[name]] > 1 for name in _read(producer.block))

    def _from_nothing(self, producer: Producer) -> tuple[Op, ...] | None:
        """Return the operations that compute an element from its place alone; None if a tensor must be read."""
        operations = [*producer.operations()]
        for name in _read(producer.block):
            before = self._producers.get(self._roots[name])
            if before is None or before.from_nothing is None or len(operations) > self.options.max_operations:
                return None
            operations.extend(before.from_nothing)
        return tuple(operations)

    def _is_at_hand(self, name: str) -> bool:
        """Return whether a tensor is in memory regardless of this pass, or can be computed from such tensors."""
        root = self._roots[name]
        return root in self._stored or self._readers[root] > 1 or root in self._producers

    def _with_producers(self, number: int, kernel: Block) -> Block:
        """Inline producers into a reduction, and the producers of their inputs, repeatedly."""
        name = called_block(kernel)
        pending = [r for r in kernel.refinements if r.direction is Direction.IN]
        remark(name, refused("TR651"), number=number)
        while pending:
            view = pending.pop()
            producer = self._producers.get(self._roots[view.source])
            if producer is None:
                continue
            why = self._against(number, kernel, view, producer)
            remark(name, why, () if why else (("tensor", view.source),), number)
            if why is not None:
                continue
            before = {r.name for r in kernel.refinements}
            kernel = _inlined(kernel, view, producer)
            pending.extend(r for r in kernel.refinements if r.name not in before)
        return kernel

    def _with_plain_reads(self, number: int, kernel: Block) -> Block:
        """Let an elementwise kernel read narrower tensors, and slices, in place, if these are in memory anyway."""
        if Producer.of(number, kernel) is None:
            return kernel
        for view in [r for r in kernel.refinements if r.direction is Direction.IN]:
            producer = self._producers.get(self._roots[view.source])
            slices = self.options.slices and producer is not None and producer.copies_a_slice()
            if producer is None or not (slices or producer.only_widens()):
                continue
            stored = self._stored.issuperset(self._roots[name] for name in _read(producer.block))
            if stored and self._against(number, kernel, view, producer) is None:
                remark(called_block(kernel), None, (("tensor", view.source),), number)
                kernel = _inlined(kernel, view, producer)
        return kernel

    @refusing
    def _against(self, number: int, kernel: Block, view: Refinement, producer: Producer) -> Refused | None:
        """Return why the elements of a view must be, or are better, stored and loaded; None if they are inlined."""
        tensor = view.source
        if not is_element(view) or not _loads_plainly(kernel, view.name) or producer.coordinates(kernel, view) is None:
            return refused("TR652", tensor=tensor)
        statements = len(kernel.statements) + len(producer.block.statements)
        if statements > self.options.max_statements:
            return refused("TR653", tensor=tensor, statements=statements, most=self.options.max_statements)
        rule_out(self._against_again(kernel, view, producer))
        if not self._holds(producer):
            return refused("TR656", tensor=tensor)
        return refused("TR657", tensor=tensor) if self._keeps_more(number, producer) else None

    def _against_again(self, kernel: Block, view: Refinement, producer: Producer) -> Refused | None:
        """Return why elements would be computed too often; None if that costs less than to store and load them."""
        if producer.from_nothing is not None and self._is_cheap(producer.from_nothing):
            return None
        points, elements = prod(kernel.ranges.values()), prod(producer.block.ranges.values())
        if self.options.slices and producer.copies_a_slice() and not _is_crossed(kernel):
            return None
        if points > elements and _is_flat_reduction(kernel) and not producer.widens_integers():
            better = self.options.turned and producer.only_copies() and self._is_better_in_place(kernel, view, producer)
            turned = better or (producer.only_copies() and self._takes_either_order(kernel, view, producer))
            return None if turned else refused("TR654", tensor=view.source, points=points, elements=elements)
        if self._readers[self._roots[view.source]] == 1 or self._is_cheap(producer.operations()):
            return None
        most, narrow = self.options.row_bytes, self.options.narrow_bytes
        long = 0 < most < bytes_of_a_row(kernel, view, self.options.beside_bytes)
        if not long and 0 < narrow < bytes_of_a_row(kernel, view, 0):
            long = self._bytes_read(producer) < view.shape.dtype.itemsize
        again = long and takes_less_than_memory(producer.operations(), view.shape.dtype)
        return None if again else refused("TR655", tensor=view.source)

    def _bytes_read(self, producer: Producer) -> int:
        """Return the bytes read per element from tensors of similar size, through other producers."""
        total = 0
        least = self._sizes[self._roots[producer.result.source]] // _SMALL
        for view in producer.block.refinements:
            root = self._roots[view.source] if view.direction is Direction.IN else None
            if root is None or self._sizes[root] <= least:
                continue
            before = self._producers.get(root)
            total += view.shape.dtype.itemsize if before is None else self._bytes_read(before)
        return total

    def _is_better_in_place(self, kernel: Block, view: Refinement, producer: Producer) -> bool:
        """Return whether a copy with one reader costs more than reading the source in its own order.

        It does if neighbours are terms of a sum, which schedules pack, and no other input is larger. Strided rows map
        to few cache sets, so if neighbours go to different sums, the tensor must be so large that its elements are read
        few times.
        """
        own = self._roots[view.source]
        most = max((self._sizes[root] for n in _read(kernel) if (root := self._roots[n]) != own), default=0)
        (source,) = (r for r in producer.block.refinements if r.direction is Direction.IN)
        place = address(source).substitute(producer.coordinates(kernel, view) or {})
        results = {name for r in kernel.refinements if r.merges for access in r.access for name in access.indices}
        summed = any(coefficient == 1 and name not in results for name, coefficient in place.terms)
        return self._readers[own] == 1 and most * (1 if summed else _LARGER) <= self._sizes[own]

    def _takes_either_order(self, kernel: Block, view: Refinement, producer: Producer) -> bool:
        """Return whether an instruction multiplies two matrices whose rows are whole vectors, in either order.

        Layouts that instructions on local memory do not support are copied to another order by ``transpose``.
        """
        reads = [r for r in kernel.refinements if r.direction is Direction.IN]
        (source,) = (r for r in producer.block.refinements if r.direction is Direction.IN)
        dtypes = {r.shape.dtype for r in reads}
        fragments = usable(self.options.fragments, rounded=True)
        either = any(
            each.b.where is OperandMemory.LOCAL and {each.a.dtype, each.b.dtype} == dtypes for each in fragments
        )
        plain = all(len(access.terms) <= 1 for each in (*reads, source) for access in each.access)
        strides = (dim.stride * view.shape.dtype.itemsize for dim in source.shape.dims if dim.stride != 1)
        return len(reads) == 2 and either and plain and all(stride % _VECTOR == 0 for stride in strides)

    def _keeps_more(self, number: int, producer: Producer) -> bool:
        """Return whether inlining into a reduction needs more memory than storing the result.

        It may keep inputs that would not be stored otherwise, and inputs last read long ago.
        """
        root = self._roots[producer.result.source]
        saved = self._sizes[root] if self._readers[root] == 1 else self._sizes[root] // _SMALL
        sources = {self._roots[name] for name in _read(producer.block)}
        start = number - self.options.far
        gone = (source for source in (sources & self._stored) - self._kept if self._last[source] < start)
        return self._burden(sources) + sum(self._sizes[source] for source in gone) > saved

    def _burden(self, sources: Iterable[str]) -> int:
        return sum(self._burdens.get(source, self._sizes[source]) for source in sources if source not in self._stored)

    def _is_cheap(self, operations: Sequence[Op]) -> bool:
        return len(operations) <= self.options.max_operations and CHEAP.issuperset(operations)

    def _holds(self, producer: Producer) -> bool:
        """Return whether the inputs of the producer have not been overwritten since."""
        sources = (self._roots[r.source] for r in producer.block.refinements if r.direction is Direction.IN)
        return all(self._written.get(source, -1) < producer.number for source in sources)


def _read(kernel: Block) -> set[str]:
    return {r.source for r in kernel.refinements if r.direction.reads}


def _is_flat_reduction(kernel: Block) -> bool:
    """Return whether a block without nested blocks merges several points into one element, or stores them in order."""
    if any(i.binding or i.role or i.tags.items for i in kernel.indices):
        return False
    if any(isinstance(s, Block | Special) for s in kernel.statements):
        return False
    if kernel.is_serial:
        return True
    scoped = [r for r in kernel.refinements if r.merges]
    moved = {name for r in scoped for access in r.access for name in access.indices}
    return len(scoped) == 1 and any(i.range > 1 and i.name not in moved for i in kernel.indices)


def _is_crossed(kernel: Block) -> bool:
    """Return whether each of two inputs has an index that does not move the other: tiles of a product are copied."""
    moved = {
        frozenset(name for access in r.access for name in access.indices if kernel.ranges[name] > 1)
        for r in kernel.refinements
        if r.direction is Direction.IN
    }
    return any(one - other and other - one for one, other in combinations(moved, 2))


def _loads_plainly(kernel: Block, view: str) -> bool:
    return all(s.index is None for s in kernel.statements if isinstance(s, Load) and s.source == view)


def _inlined(kernel: Block, view: Refinement, producer: Producer) -> Block:
    """Return ``kernel`` with the producer's statements in place of the load of ``view``."""
    body = reindexed(producer.block, (), producer.coordinates(kernel, view) or {})
    others = [r for r in kernel.refinements if r is not view]
    known = {_place(r): r.name for r in others if r.direction is Direction.IN}
    names = NameScope.of(r.name for r in kernel.refinements)
    views: dict[str, str] = {}
    for added in body.refinements:
        if added.direction is Direction.IN:
            place = _place(added)
            if place not in known:
                known[place] = names.fresh(added.name)
                others.append(attrs.evolve(added, name=known[place]))
            views[added.name] = known[place]
    staying = (s for s in kernel.statements if not (isinstance(s, Load) and s.source == view.name))
    scalars = NameScope.of(filter(None, map(scalar_output, staying)))
    fresh = {s: scalars.fresh(s) for s in filter(None, map(scalar_output, body.statements))}
    computed = [renamed(s, fresh, views) for s in body.statements if not isinstance(s, Store)]
    return attrs.evolve(
        kernel,
        refinements=tuple(others),
        statements=_replaced(kernel.statements, view.name, computed, fresh[producer.scalar]),
        comments=tuple(dict.fromkeys((*producer.block.comments, *kernel.comments))),
    )


def _place(view: Refinement) -> tuple[object, ...]:
    return view.source, view.access, view.shape


def _replaced(
    statements: tuple[Statement, ...], view: str, computed: list[Statement], scalar: str
) -> tuple[Statement, ...]:
    """Replace the first load of ``view`` by ``computed``, and all loaded scalars by ``scalar``."""
    result: list[Statement] = []
    same: dict[str, str] = {}
    for statement in statements:
        if isinstance(statement, Load) and statement.source == view:
            if not same:
                result.extend(computed)
            same[statement.into] = scalar
        else:
            result.append(renamed(statement, same, {}))
    return tuple(result)
