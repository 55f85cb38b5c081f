"""Splitting of elementwise kernels along the parts of their input, so that each part can fuse with its producer.

The input gradient of a strided convolution is computed by several kernels, one for each residue of the places.
Elementwise users of the result would otherwise wait for all of them, and read their sums from memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, takewhile
from typing import ClassVar, TypeGuard

from tileir.core import NameScope, attrs, grouped
from tileir.passes.analysis.dependences import roots
from tileir.passes.analysis.rows import are_apart, counts_of
from tileir.passes.base import with_temporaries
from tileir.poly.affine import Affine
from tileir.schedule import product, reindexed
from tileir.stripe.ir import (
    Block,
    Direction,
    Load,
    Program,
    Refinement,
    Statement,
    Store,
    allocation,
    views_read,
    views_written,
)


@attrs.frozen
class SplitElementwise:
    """Split a temporary that several reductions write into one for each, and its elementwise readers accordingly.

    The reductions must write disjoint elements that cover the tensor, with at most one index per axis. All other users
    of the temporary must follow these, and have a point for each element. Each user is then split into a kernel for
    each
    reduction, over the elements of that. In the program of two sums and a conversion::

        T[2*i : 8] = +(A[i, k]);  T[1 + 2*i : 8] = +(B[i, k]);  O[i : 8] = cast(T[i])

    there are two conversions then, one of ``T_part[i : 4]`` to ``O[2*i : 8]`` and one of another to ``O[1 + 2*i : 8]``.
    """

    name: ClassVar[str] = "split_elementwise"

    def __call__(self, program: Program) -> Program:
        """Return the program with these kernels split."""
        behind = roots(program)
        views = Counter(behind.values())
        kept = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
        memory = {each.name: each for each in program.main.refinements}
        cut = _SplitKernels.of(program)
        for name in cut.touching:  # a tensor comes after its sources
            if name not in kept and name == behind[name] and views[name] == 1:
                cut.visit(memory[name])
        return cut.program() if cut.gone else program


@attrs.define(repr=False)
class _SplitKernels:
    """Kernels in place of each statement so far; the numbers in ``made`` are parts of a split kernel."""

    before: Program
    touching: Mapping[str, list[int]]
    names: NameScope
    kernels: list[tuple[Statement, ...]]
    made: set[int] = attrs.field(factory=set)
    added: list[Refinement] = attrs.field(factory=list)
    gone: set[str] = attrs.field(factory=set)

    @classmethod
    def of(cls, program: Program) -> _SplitKernels:
        """Return the state before the first temporary."""
        statements = program.main.statements
        touching = grouped(
            (name, number)
            for number, each in enumerate(statements)
            for name in dict.fromkeys((*views_read(each), *views_written(each)))
        )
        names = NameScope.of(memory.name for memory in program.memory)
        return cls(program, touching, names, [(each,) for each in statements])

    def program(self) -> Program:
        """Return the program in its present state."""
        statements = (each for some in self.kernels for each in some)
        return with_temporaries(self.before, statements, self.added, self.gone)

    def visit(self, tensor: Refinement) -> None:
        """Split the readers of a temporary, if they and its producers qualify."""
        numbers, name = self.touching[tensor.name], tensor.name
        writing = list(takewhile(lambda n: any(name in views_written(each) for each in self.kernels[n]), numbers))
        found = [_Part.of(each, tensor, made=n in self.made) for n in writing for each in self.kernels[n]]
        parts = [part for part in found if part is not None]
        reading = numbers[len(writing) :]
        if not len(parts) == len(found) > 1 or not reading or not _are_whole(parts, tensor):
            return
        readers = [each for n in reading for each in self.kernels[n] if _is_elementwise(each, tensor)]
        if len(readers) != sum(len(self.kernels[n]) for n in reading):
            return
        own = [allocation(self.names.fresh(f"{name}_part"), tensor.shape.dtype, part.counts) for part in parts]
        writers = iter([part.writer(memory) for part, memory in zip(parts, own, strict=True)])
        for number in writing:
            self.kernels[number] = tuple(next(writers) for _ in self.kernels[number])
        for number, kernel in zip(reading, readers, strict=True):  # of a part no point for each element is left
            self.kernels[number] = tuple(part.reader(kernel, memory) for part, memory in zip(parts, own, strict=True))
        self.made.update(reading)
        self.added += own
        self.gone.add(name)


@attrs.frozen(eq=False)
class _Part:
    """Part of a tensor that a kernel writes by ``view``: ``counts`` elements along each axis, by at most one index."""

    kernel: Block
    tensor: str
    view: Refinement
    counts: tuple[int, ...]

    @classmethod
    def of(cls, kernel: Statement, tensor: Refinement, *, made: bool) -> _Part | None:
        """Return the part written by a reduction or window, or by a ``made`` kernel; None for others."""
        view = _only_view(kernel, tensor)
        if not isinstance(kernel, Block) or view is None or view.direction is not Direction.OUT:
            return None
        counts = counts_of(view, kernel.ranges)
        sums = made or view.opens_scope or "window" in kernel.tags
        return None if counts is None or not sums else cls(kernel, tensor.name, view, counts)

    def writer(self, memory: Refinement) -> Block:
        """Return the kernel with its output in separate memory."""
        return _showing(self.kernel, self.tensor, memory, map(_own, self.view.access))

    def reader(self, kernel: Block, memory: Refinement) -> Block:
        """Return the part of an elementwise kernel that reads this separate memory."""
        view = next(each for each in kernel.refinements if each.source == self.tensor)
        axes = {name: axis for axis, at in enumerate(view.access) for name in at.indices}
        places = {name: self.view.access[axis] for name, axis in axes.items()}
        values = {name: at.rename(dict.fromkeys(at.indices, name)) for name, at in places.items()}
        indices = (attrs.evolve(i, range=self.counts[axes[i.name]]) for i in kernel.indices if values[i.name].terms)
        part = reindexed(kernel, tuple(indices), values)
        return _showing(part, self.tensor, memory, (_own(at.substitute(values)) for at in view.access))


def _own(place: Affine) -> Affine:
    """Return the place in separate memory for elements along at most one index."""
    return Affine.of(dict.fromkeys(place.indices, 1))


def _showing(kernel: Block, tensor: str, memory: Refinement, access: Iterable[Affine]) -> Block:
    """Return a kernel with a view of other memory, at another place, in place of that of a tensor."""
    place, shape = tuple(access), memory.shape.element
    views = (
        attrs.evolve(each, source=memory.name, access=place, shape=shape) if each.source == tensor else each
        for each in kernel.refinements
    )
    return attrs.evolve(kernel, refinements=tuple(views), deps=())


def _only_view(kernel: Statement, tensor: Refinement) -> Refinement | None:
    """Return the only view of a tensor in a flat kernel: of one element, along the tensor's axes; None for others."""
    if not isinstance(kernel, Block) or kernel.blocks or not all(i.is_plain for i in kernel.indices):
        return None
    views = [each for each in kernel.refinements if each.source == tensor.name]
    chosen = {s.source if isinstance(s, Load) else s.into for s in kernel.statements if _is_indirect(s)}
    indirect = any(view.name in chosen for view in views)
    fits = len(views) == 1 and views[0].shape == tensor.shape.element and not indirect
    return views[0] if fits else None


def _is_indirect(statement: Statement) -> TypeGuard[Load | Store]:
    return isinstance(statement, Load | Store) and statement.index is not None


def _is_elementwise(kernel: Statement, tensor: Refinement) -> TypeGuard[Block]:
    """Return whether a kernel has one point for each element of a tensor, reads it there, and merges nothing."""
    view = _only_view(kernel, tensor)
    if not isinstance(kernel, Block) or view is None or view.direction is not Direction.IN:
        return False
    moved = [(name, dim.size) for at, dim in zip(view.access, tensor.shape.dims, strict=True) for name in at.indices]
    whole = all(at in (Affine(), _own(at)) and len(at.terms) < 2 for at in view.access)
    merging = any(each.merges for each in kernel.refinements)
    return (
        whole
        and sorted(moved) == sorted(kernel.ranges.items())
        and kernel.points == tensor.shape.elements
        and not merging
    )


def _are_whole(parts: Sequence[_Part], tensor: Refinement) -> bool:
    """Return whether parts cover a tensor without overlap."""
    total = sum(product(part.counts) for part in parts)
    return total == tensor.shape.elements and all(
        are_apart((one.view, one.counts), (other.view, other.counts)) for one, other in combinations(parts, 2)
    )
