"""Packing of constant factors of products into panels, in the order in which register tiles read them.

Vector lanes along a matrix of weights need its elements to be contiguous, followed by the next step of the sum. Other
matrices are packed at each run, piece by piece; constants, such as weights of networks, and values computed from them
alone, are packed once, before the first run; values that no step of a loop changes, once before the loop. An index
``k`` of the kernel becomes two, the number of a panel and the place in it::

    Y[k, p] = +(W[k, c] * X[c, p])   with W[64, C]

becomes, with panels of 32::

    W_panels[o, c, r] = W[32 * o + r, c]
    Y[32 * o + r, p] = +(W_panels[o, c, r] * X[c, p])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import ClassVar, Final

from tileir.core import NameScope, attrs
from tileir.passes.base import at_least
from tileir.passes.kernels import nest_of, schedule as sch
from tileir.poly.affine import Affine
from tileir.schedule import Nest, Node, Refused, Segment, Use, dtype_of_product, emit, factors_of_product, leaf, product
from tileir.stripe import (
    Block,
    Direction,
    Index,
    Kernel,
    KernelTable,
    Launch,
    Load,
    Loop,
    Program,
    Refinement,
    Store,
    Tags,
    Work,
    allocation,
    launched,
    launches,
    loops,
    map_launches,
    sequential_works,
    sorted_memory,
    uses_of,
)
from tileir.stripe.check.views import is_dense

PANELS: Final = "panels"
"""Tag of kernels that read panels."""

_VECTORS: Final = (2, 3, 1)
"""Vectors per panel, best first: each row of a tile of two of them loads its element for two multiply-adds."""


@attrs.frozen
class LayPanels:
    """Pack constant operands of products, once, into panels in the order in which the reduction reads them.

    Attributes:
        vector_bytes: Width of a vector register in bytes.
        least_reuse: Minimum number of reads of each element by a kernel; below, the operand is not copied.
        most_bytes: Maximum size, in bytes, of the other operand for packing along this one. A larger operand does not
            fit in caches and is staged itself, with lanes along it, unless its accesses or the results are strided, as
            in transposed convolutions.
    """

    name: ClassVar[str] = "lay_panels"
    sees_loops: ClassVar[bool] = True
    vector_bytes: int = attrs.field(default=32, validator=at_least(1))
    least_reuse: int = attrs.field(default=8, validator=at_least(1))
    most_bytes: int = attrs.field(default=1 << 23, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with copies before the works that read them, outside loops."""
        contents = _Contents.of(program)
        memory = {each.name: each for each in program.memory}
        near = {r.name for r in program.memory if r.shape.elements * r.shape.dtype.itemsize <= self.most_bytes}
        table, copies, works = KernelTable(), dict[_Key, _Copy](), list[Work]()
        names = NameScope.of(memory)
        for work in program.works:
            fixed = {name: memory[name] for name in contents.before(work, self.least_reuse)}

            def laid(launch: Launch, fixed: Mapping[str, Refinement] = fixed) -> tuple[Launch, ...]:
                kernel = program.kernels[launch.kernel]
                found = self._factors(launched(kernel, launch), fixed, near) if fixed else ()
                for factor in found:
                    if factor.key not in copies:
                        copy = copies[factor.key] = _Copy.of(factor, names)
                        memory[copy.memory.name] = copy.memory
                        works.append(table.launch(copy.kernel(), memory))
                if not found:
                    return (table.relaunch(kernel, launch),)
                return (table.launch(_reading([(factor, copies[factor.key]) for factor in found]), memory),)

            works.extend(map_launches((work,), laid))
            contents.add(work)
        if not copies:
            return program
        kernels, after = tuple(table.kernels), sequential_works(tuple(works))
        return sorted_memory(attrs.evolve(program, memory=tuple(memory.values()), kernels=kernels, works=after))

    def _factors(self, kernel: Block, fixed: Mapping[str, Refinement], near: Container[str]) -> tuple[_Factor, ...]:
        """Return the constant factors of a kernel to pack along one index: one of each product, or none."""
        nest = nest_of(kernel)
        if isinstance(nest, Refused):
            return ()
        for index in nest.indices if nest.reductions else ():
            found = tuple(factor for each in nest.reductions for factor in self._along(index, nest, each, fixed, near))
            if len(found) == len(nest.reductions) and len({factor.width for factor in found}) == 1:
                return found
        return ()

    def _along(
        self, index: Index, nest: Nest, segment: Segment, fixed: Mapping[str, Refinement], near: Container[str]
    ) -> Iterator[_Factor]:
        """Yield the factor of a product to pack along an index, if there is one."""
        dtype, factors = dtype_of_product(segment.statements, segment.uses), _both(segment)
        if dtype is None or not dtype.is_float or index.name in sch.constrained_indices(nest):
            return
        lanes = max(1, self.vector_bytes // dtype.itemsize)
        width = next((count * lanes for count in _VECTORS if index.range % (count * lanes) == 0), 0)
        for weight, other in (factors, factors[::-1]) if factors and width else ():
            source = fixed.get(nest.sources[weight.root])
            moving = tuple(i for i in (*nest.indices, *segment.loops) if weight.stride(i.name))
            reuse = product(i.range for i in nest.indices if i not in moving)
            free = index in moving and not other.stride(index.name) and weight.dtype is dtype
            runs = _can_run(other, nest)
            free = free and (not runs or nest.sources[other.root] in near)
            if source is not None and free and reuse >= self.least_reuse and _is_whole(weight, moving, source):
                yield _Factor(nest, weight, other, source, index, moving, width)


def _can_run(use: Use, nest: Nest) -> bool:
    """Return whether lanes along a factor would be contiguous in it and in all results, and unconstrained."""
    constrained = sch.constrained_indices(nest)
    along = [i.name for i in nest.indices if use.stride(i.name) == 1 and i.name not in constrained]
    return any(all(written.stride(name) in (0, 1) for written in sch.written_uses(nest)) for name in along)


def _both(segment: Segment) -> tuple[Use, Use] | None:
    return factors_of_product(segment.statements, segment.uses)


@attrs.define(repr=False)
class _Contents:
    """Memory with unchanging content, updated during a scan of the works of a program.

    Attributes:
        kernels: The kernels of the program.
        writers: Number of remaining launches and carries that write each piece of memory.
        settled: Memory that nothing writes any more, and that only launches outside of loops have written.
        constant: Constants, and settled memory computed from constants alone.
        varying: Memory that is written and not computed from constants alone.
    """

    kernels: tuple[Kernel, ...]
    writers: Counter[str]
    settled: set[str]
    constant: set[str]
    varying: set[str] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, program: Program) -> _Contents:
        """Return the state before the first work of a program."""
        written = (uses_of(program.kernels, (launch,)).written for launch in launches(program.works))
        writers = Counter(name for names in written for name in names)
        writers.update(carry.kept for loop in loops(program.works) for carry in loop.carries)
        constant = {buffer.name for buffer in program.buffers}
        return cls(program.kernels, writers, {name for name in program.inputs if not writers[name]}, constant)

    def add(self, work: Work) -> None:
        """Update the state for a work."""
        if not isinstance(work, Launch):
            return
        used = uses_of(self.kernels, (work,))
        if not used.read - used.written <= self.constant:
            self.varying |= used.written
        self.writers.subtract(used.written)
        done = {name for name in used.written if not self.writers[name]}
        self.settled |= done
        self.constant |= done - self.varying

    def before(self, work: Work, steps: int) -> Iterable[str]:
        """Return the memory that may be packed now: a loop of ``steps`` or more uses it often."""
        often = isinstance(work, Loop) and isinstance(work.times, int) and work.times >= steps
        return sorted(self.constant | self.settled if often else self.constant)


def _is_whole(use: Use, moving: tuple[Index, ...], source: Refinement) -> bool:
    """Return whether the points of some indices read distinct elements that cover a whole tensor."""
    expected = 1
    for index in sorted((i for i in moving if i.range > 1), key=lambda i: use.stride(i.name)):
        if use.stride(index.name) != expected:
            return False
        expected *= index.range
    return max(use.sizes, default=1) == 1 and expected == source.shape.elements and is_dense(source.shape)


_Key = tuple[str, tuple[int, ...], tuple[int, ...]]


@attrs.frozen(repr=False)
class _Factor:
    """A constant factor of a product.

    Attributes:
        nest: The kernel.
        use: Its use of the factor.
        other: Its use of the other factor.
        source: The view of ``main`` behind the factor.
        index: The index that is split.
        moving: All indices that move the factor.
        width: Width of panels.
    """

    nest: Nest
    use: Use
    other: Use
    source: Refinement
    index: Index
    moving: tuple[Index, ...]
    width: int

    @property
    def others(self) -> tuple[Index, ...]:
        """The other indices that move the factor, in the order of the other factor, along which sums run."""
        moving = (i for i in self.moving if i is not self.index)
        return tuple(sorted(moving, key=lambda i: (-abs(self.other.stride(i.name)), -self.use.stride(i.name))))

    @property
    def key(self) -> _Key:
        """Source, sizes and strides, which identify equal panels."""
        moving = (self.index, *self.others)
        return (
            self.source.name,
            (self.width, *(i.range for i in moving)),
            tuple(self.use.stride(i.name) for i in moving),
        )

    def split(self) -> tuple[Index, Index]:
        """Return the two indices that replace ``index``."""
        names, name = self.nest.taken_names(), self.index.name
        count = self.index.range // self.width
        return Index(names.fresh(f"{name}_panel"), count), Index(names.fresh(f"{name}_place"), self.width)

    def values(self) -> dict[str, Affine]:
        """Return the index in terms of the two."""
        panel, place = self.split()
        return {self.index.name: sch.part(panel, self.width) + sch.part(place)}


@attrs.frozen(repr=False)
class _Copy:
    """Panels of a constant."""

    factor: _Factor
    memory: Refinement

    @classmethod
    def of(cls, factor: _Factor, names: NameScope) -> _Copy:
        """Return the panels of a factor."""
        shape, width = factor.source.shape, factor.width
        sizes = (factor.index.range // width, *(i.range for i in factor.others), width)
        return cls(factor, allocation(names.fresh(f"{factor.source.name}_panels"), shape.dtype, sizes))

    def kernel(self) -> Block:
        """Return a kernel that copies the constant."""
        factor = self.factor
        panel, place = factor.split()
        source = attrs.evolve(factor.use.substitute(factor.values()), name="from")
        target = attrs.evolve(self.read(factor), name="to", direction=Direction.OUT)
        statements = (Load("from", "x"), Store("x", "to"))
        root = Node((panel, place, *factor.others), statements=statements, uses=(source, target))
        shown = attrs.evolve(factor.nest.kernel, comments=(), tags=Tags.of("transpose"))
        block = emit(root, _shown(shown, self.memory, Direction.OUT))
        return attrs.evolve(block, name=f"lay_{factor.source.name}", deps=())

    def read(self, factor: _Factor) -> Use:
        """Return the use of the panels in place of the constant."""
        panel, place = factor.split()
        access = tuple(map(sch.part, (panel, *factor.others, place)))
        strides = self.memory.shape.strides
        return attrs.evolve(factor.use, root=self.memory.name, access=access, strides=strides, sizes=())


def _shown(kernel: Block, memory: Refinement, direction: Direction) -> Block:
    """Return a kernel with a view of some memory."""
    view = attrs.evolve(memory, direction=direction, source=memory.name)
    return attrs.evolve(kernel, refinements=(*kernel.refinements, view))


def _reading(factors: list[tuple[_Factor, _Copy]]) -> Block:
    """Return a kernel that reads panels of its factors along one index."""
    first, nest = factors[0][0], factors[0][0].nest
    read = {factor.use: copy.read(factor) for factor, copy in factors}
    indices = tuple(each for i in nest.indices for each in (first.split() if i is first.index else (i,)))
    nodes = []
    for segment in nest.segments:
        node = leaf(segment, first.values(), segment.loops)
        uses = tuple(read.get(old, new) for old, new in zip(segment.uses, node.uses, strict=True))
        nodes.append(attrs.evolve(node, uses=uses))
    kernel = attrs.evolve(nest.kernel, tags=nest.kernel.tags.add(PANELS))
    for memory in {copy.memory.name: copy.memory for _, copy in factors}.values():
        kernel = _shown(kernel, memory, Direction.IN)
    return attrs.evolve(emit(Node(indices, nest.allocations, tuple(nodes)), kernel), deps=())
