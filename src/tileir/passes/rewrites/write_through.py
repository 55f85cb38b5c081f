"""Write a temporary where it is copied to: the copy goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from tileir.core import attrs, grouped
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import selected_kernel, with_temporaries
from tileir.poly.affine import Affine
from tileir.stripe.ir import Block, Dim, Direction, Load, Program, Refinement, Statement, Store


@attrs.frozen
class WriteThrough:
    """Let kernels that make a temporary write to a part of the tensor that it is copied to, and drop the copy.

    So a concatenation of many tensors, which is a tree of short ones, copies each element once, and a network each of
    whose layers adds channels to those before it has one tensor of them all. Several kernels must touch the temporary,
    since a single one is joined with the copy anyway; the copy must take it as a whole, without turning it, into an
    output or another temporary; nothing may touch it later, nor the other tensor meanwhile. In the program of two
    kernels and a copy::

        T[i : 4] = X[i];  T[4 + i : 4] = Y[i];  O[2 + i : 8] = T[i]

    the two write to ``O[2 + i : 4]`` and ``O[6 + i : 4]``, and there is no third.

    Attributes:
        reqs: Tags that the copy must carry.
    """

    name: ClassVar[str] = "write_through"
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with such temporaries gone."""
        scan = _Scan.of(program)
        copies = [
            (number, statement)
            for number, statement in enumerate(program.main.statements)
            if isinstance(statement, Block) and selected_kernel(statement, self.reqs) and copied(statement) is not None
        ]
        for number, statement in reversed(copies):  # what a temporary is copied to is read, and copied, later
            scan.visit(number, statement)
        if not scan.moved:
            return program
        kept = (s for number, s in enumerate(program.main.statements) if number not in scan.gone)
        return with_temporaries(program, [scan.redirected(s) for s in kept], (), frozenset(scan.moved))


@attrs.frozen
class _Part:
    """Where in another tensor a temporary lies."""

    whole: str
    offsets: tuple[int, ...]


_Box: TypeAlias = tuple[tuple[int, int], ...]
"""Where elements lie along each axis of a tensor: from the first to before the second."""


@attrs.frozen
class _Scan:
    """Copies that were found so far.

    Attributes:
        program: A program without loops.
        touching: The numbers of the statements that touch each tensor, in order.
        temporaries: Tensors that may go.
        wholes: Tensors that they may become parts of.
        moved: Where those lie that go.
        gone: The numbers of the copies.

    """

    program: Program
    touching: Mapping[str, Sequence[int]]
    temporaries: frozenset[str]
    wholes: frozenset[str]
    moved: dict[str, _Part] = attrs.field(factory=dict, init=False)
    gone: set[int] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, program: Program) -> _Scan:
        """Return the scan of a program before its first step."""
        touching = grouped((source, n) for n, each in enumerate(program.main.statements) for source in _sources(each))
        behind = roots(program)
        views = Counter(behind.values())
        kept = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
        single = {name for name, root in behind.items() if name == root and views[root] == 1}
        temporaries = frozenset(single - kept)
        outputs = single.intersection(program.outputs).difference(program.inputs)
        return cls(program, touching, temporaries, temporaries | outputs)

    def visit(self, number: int, kernel: Block) -> None:
        """Note a kernel that copies a temporary which can be written to where it goes."""
        copy = copied(kernel)
        if copy is None:
            return
        read, written = copy
        offsets = self._offsets(kernel, read, written)
        own = _Part(written.source, ()) if written.source in self.wholes else None
        place = self.moved.get(written.source, own)
        touching = self.touching[read.source]
        if offsets is None or place is None or read.source not in self.temporaries or touching[-1] != number:
            return
        kernels = [self.program.main.statements[at] for at in touching[:-1]]
        if (
            len(kernels) < 2
            or not all(map(_is_movable, kernels))
            or not all(self._keeps_axes(each, read.source) for each in kernels)
        ):
            return
        outer = place.offsets or (0,) * len(offsets)
        part = _Part(place.whole, tuple(a + b for a, b in zip(outer, offsets, strict=True)))
        if self._is_free(read.source, part, touching[0], number):
            self.moved[read.source] = part
            self.gone.add(number)

    def _offsets(self, kernel: Block, read: Refinement, written: Refinement) -> tuple[int, ...] | None:
        """Return by how much each axis of a copy is shifted; None where it is no shift of the whole tensor."""
        shape, other = (self.program.main.refinement(view.source).shape for view in (read, written))
        if len(shape.dims) != len(other.dims) or shape.dtype is not other.dtype:
            return None
        if read.shape.strides != shape.strides or written.shape.strides != other.strides:
            return None
        indices = [place.indices for place in read.access]
        whole = [Affine.index(names[0]) if names else Affine() for names in indices]
        sizes = [kernel.ranges[names[0]] if names else 1 for names in indices]
        distinct = len({name for names in indices for name in names}) == len(kernel.indices) == sum(map(bool, indices))
        if list(read.access) != whole or sizes != list(shape.sizes) or not distinct:
            return None
        shifts = [there - here for here, there in zip(read.access, written.access, strict=True)]
        if not all(shift.is_constant for shift in shifts):
            return None
        return tuple(int(shift.offset) for shift in shifts)

    def _keeps_axes(self, kernel: Statement, tensor: str) -> bool:
        """Return whether a kernel sees a tensor with its own axes: a reshaped one may have others."""
        strides = self.program.main.refinement(tensor).shape.strides
        views = kernel.refinements if isinstance(kernel, Block) else ()
        return all(view.shape.strides == strides for view in views if view.source == tensor)

    def _is_free(self, name: str, part: _Part, first: int, last: int) -> bool:
        """Return whether nothing touches where a temporary is to lie, from one statement to before another."""
        sizes = self.program.main.refinement(name).shape.sizes
        box = tuple((at, at + size) for at, size in zip(part.offsets, sizes, strict=True))
        for number in range(first, last):
            statement = self.program.main.statements[number]
            if number in self.gone:
                continue
            if not isinstance(statement, Block) or not all(
                self._is_apart(statement, view, part.whole, box) for view in statement.refinements
            ):
                return False
        return True

    def _is_apart(self, kernel: Block, view: Refinement, whole: str, box: _Box) -> bool:
        """Return whether a kernel touches nothing of a box in a tensor by one of its views."""
        place = self.moved.get(view.source)
        if view.direction is Direction.NONE or (view.source if place is None else place.whole) != whole:
            return True
        if view.shape.strides != self.program.main.refinement(view.source).shape.strides:
            return False
        offsets = (0,) * len(box) if place is None else place.offsets
        bounds = [(at + offset).bounds(kernel.ranges) for at, offset in zip(view.access, offsets, strict=True)]
        touched = [(low, high + size) for (low, high), size in zip(bounds, view.shape.sizes, strict=True)]
        return any(one[1] <= other[0] or other[1] <= one[0] for one, other in zip(box, touched, strict=True))

    def redirected(self, statement: Statement) -> Statement:
        """Return a statement with views of whole tensors in place of those of what lies in them."""
        if not isinstance(statement, Block) or not any(r.source in self.moved for r in statement.refinements):
            return statement
        return attrs.evolve(statement, refinements=tuple(map(self._view, statement.refinements)), deps=())

    def _view(self, view: Refinement) -> Refinement:
        place = None if view.direction is Direction.NONE else self.moved.get(view.source)
        if place is None:
            return view
        whole = self.program.main.refinement(place.whole).shape
        dims = tuple(Dim(own.size, of.stride) for own, of in zip(view.shape.dims, whole.dims, strict=True))
        access = tuple(at + offset for at, offset in zip(view.access, place.offsets, strict=True))
        return attrs.evolve(view, source=place.whole, access=access, shape=attrs.evolve(view.shape, dims=dims))


def _sources(statement: Statement) -> tuple[str, ...]:
    """Return the tensors that a kernel touches, each once."""
    if not isinstance(statement, Block):
        return ()
    return tuple(dict.fromkeys(r.source for r in statement.refinements if r.direction is not Direction.NONE))


def copied(kernel: Block) -> tuple[Refinement, Refinement] | None:
    """Return what a kernel reads and writes that copies all of a tensor, element by element; None for others."""
    if kernel.constraints or len(kernel.statements) != 2 or not all(i.is_plain for i in kernel.indices):
        return None
    load, store = kernel.statements
    if not isinstance(load, Load) or not isinstance(store, Store) or load.into != store.source:
        return None
    if load.index is not None or store.index is not None:
        return None
    read, written = kernel.refinement(load.source), kernel.refinement(store.into)
    if read.direction is not Direction.IN or written.direction is not Direction.OUT or written.merges:
        return None
    return read, written


def _is_movable(statement: Statement) -> bool:
    """Return whether a kernel has its accesses at one level, and no data decide them."""
    if not isinstance(statement, Block) or statement.blocks:
        return False
    return not any(isinstance(s, Load | Store) and s.index is not None for s in statement.statements)
