"""Elimination of temporaries whose elements also lie in other tensors, with redirected views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from tileir.core import attrs, grouped
from tileir.passes.analysis.dependences import roots
from tileir.passes.base import with_temporaries
from tileir.stripe.ir import Block, Dim, Direction, Load, Program, Refinement, Statement, Store, TensorShape


@attrs.frozen
class Place:
    """Place of the elements of a tensor in another one.

    Attributes:
        whole: The containing tensor.
        axes: The tensor's axis for each axis of the containing one.
        offsets: Offset along each of these axes, in elements.
    """

    whole: str
    axes: tuple[int, ...]
    offsets: tuple[int, ...]


@attrs.frozen
class EmbeddedTensors:
    """Tensors that lie in others, collected from the copies that a pass can eliminate.

    Attributes:
        program: A program without loops.
        touching: Numbers of the statements that access each tensor, in order, by its representative.
        writing: Numbers of the statements that write it.
        single: Tensors with a single view in ``main``.
        temporaries: Tensors among these that can be eliminated.
        outputs: Tensors among these that are outputs only.
        moved: New places of the eliminated tensors.
        gone: Numbers of the eliminated copies.
    """

    program: Program
    touching: dict[str, list[int]]
    writing: dict[str, list[int]]
    single: frozenset[str]
    temporaries: frozenset[str]
    outputs: frozenset[str]
    moved: dict[str, Place] = attrs.field(factory=dict, init=False)
    gone: set[int] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, program: Program) -> Self:
        """Return the initial state, without eliminated tensors."""
        behind = roots(program)
        views = grouped((root, name) for name, root in behind.items())
        single = frozenset(name for name, root in behind.items() if name == root and len(views[root]) == 1)
        uses = [(view, n) for n, s in enumerate(program.main.statements) for view in views_of(s)]
        touching = grouped(dict.fromkeys((view.source, n) for view, n in uses))
        writing = grouped(dict.fromkeys((view.source, n) for view, n in uses if view.direction.writes))
        kept = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
        constant = {each.name for each in program.memory if each.constant}
        outputs = single.intersection(program.outputs).difference(program.inputs)
        return cls(program, touching, writing, single, single - kept - constant, outputs)

    def shape(self, name: str) -> TensorShape:
        """Return the shape of a tensor of ``main``."""
        return self.program.main.refinement(name).shape

    def place(self, name: str) -> Place:
        """Return the place of a tensor, which may be its own memory."""
        rank = len(self.shape(name).dims)
        return self.moved.get(name) or Place(name, tuple(range(rank)), (0,) * rank)

    def after(self) -> Program:
        """Return the program without the eliminated copies and tensors."""
        kept = (self._redirected(s) for number, s in enumerate(self.program.main.statements) if number not in self.gone)
        return with_temporaries(self.program, kept, (), frozenset(self.moved))

    def _redirected(self, statement: Statement) -> Statement:
        """Return a statement with views of the containing tensors in place of those of eliminated tensors."""
        if not isinstance(statement, Block) or not any(r.source in self.moved for r in statement.refinements):
            return statement
        return attrs.evolve(statement, refinements=tuple(map(self._view, statement.refinements)), deps=())

    def _view(self, view: Refinement) -> Refinement:
        place = None if view.direction is Direction.NONE else self.moved.get(view.source)
        if place is None:
            return view
        strides = self.shape(place.whole).strides
        dims = tuple(Dim(view.shape.sizes[axis], stride) for axis, stride in zip(place.axes, strides, strict=True))
        access = tuple(view.access[axis] + offset for axis, offset in zip(place.axes, place.offsets, strict=True))
        return attrs.evolve(view, source=place.whole, access=access, shape=attrs.evolve(view.shape, dims=dims))


def views_of(statement: Statement) -> Sequence[Refinement]:
    """Return the views through which a kernel accesses tensors."""
    views = statement.refinements if isinstance(statement, Block) else ()
    return [view for view in views if view.direction is not Direction.NONE]


def is_plain(statement: Statement) -> bool:
    """Return whether a statement is a kernel with all accesses at one level, none of them data-dependent."""
    if not isinstance(statement, Block) or statement.blocks:
        return False
    return not any(isinstance(s, Load | Store) and s.index is not None for s in statement.statements)


def copied(kernel: Block) -> tuple[Refinement, Refinement] | None:
    """Return the input and output of a kernel that copies a whole tensor, element by element; None for others."""
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
