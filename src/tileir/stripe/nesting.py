"""Programs as nested blocks: the form of text, and of passes that rewrite blocks.

The outermost block (tag ``program``) allocates memory. Its only statement is the block ``main``, whose statements are
kernels, loops and branches. All of these tags are created here, from positions; kernels and memory have none:

- ``main``, or the body of the only loop that uses it, allocates temporaries in memories that hold nothing else; the
  outermost block everything else: parameters and results (tag ``user``), temporaries (tag ``tmp``), and constants.
- A loop is a block (tag ``loop``) with one serial index, or with the name of a condition as the value of its tag
  ``while``. It holds a block ``body`` with the works of a step, and copies of carried values. It allocates the
  temporaries of a single step.
- A branch is a block with the name of its condition as the value of its tag ``branch``, which holds the blocks
  ``then`` and ``else``.

All views of these blocks show memory as it is.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.stripe.blocks import Block, Direction, Index, Special, Tags
from tileir.stripe.lower.kernel_table import launched
from tileir.stripe.tags import BODY, BRANCH, ELSE, LOOP, MAIN, PROGRAM, TEMPORARY, THEN, USER, WHILE
from tileir.stripe.works import (
    Branch,
    Launch,
    Loop,
    Uses,
    While,
    inner_memory,
    local_memory,
    loops,
    needed,
    sorted_memory,
    uses_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from tileir.stripe.ir import Kernel, Program, Refinement, Statement, TensorShape, Work


def main_of(program: Program, show: Callable[[Kernel, Launch], Block] = launched) -> Block:
    """Return the block of all works of a program; ``show`` returns the block of a launch."""
    nesting = _Nesting.of(program, show)
    given = {*program.inputs, *(buffer.name for buffer in program.buffers)}
    used = uses_of(program.kernels, program.works)
    outer, inner = nesting.allocated()
    views = (_view_in_main(each, each.name in given, used) for each in outer if each.name in used)
    statements = nesting.statements(program.works)
    return Block(program.name, refinements=(*views, *inner), statements=statements, tags=Tags.of(MAIN))


def entry_around(program: Program, main: Block) -> Block:
    """Return the outermost block of a program, around that of all its works."""
    lasting = {*program.inputs, *program.outputs}
    outer, _ = _Nesting.of(program, launched).allocated()
    memory = (each if each.constant else tagged(each, USER if each.name in lasting else TEMPORARY) for each in outer)
    return Block(program.name, refinements=tuple(memory), statements=(main,), tags=program.tags.add(PROGRAM))


def parameters_of(entry: Block) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the inputs and outputs of a program in nested blocks, from the views of ``main``.

    It reads the inputs, and writes outputs and temporaries, whose allocations have the tag ``tmp``.
    """
    held = {memory.name for memory in entry.refinements if TEMPORARY in memory.tags or memory.constant}
    views = [view for block in entry.blocks[:1] for view in block.refinements if view.source not in held]
    inputs = (view.source for view in views if view.direction.reads)
    outputs = (view.source for view in views if view.direction.writes)
    return tuple(inputs), tuple(outputs)


def tagged(memory: Refinement, word: str) -> Refinement:
    """Return an allocation with a word of text as a tag."""
    return attrs.evolve(memory, tags=memory.tags.add(word))


def _view_in_main(memory: Refinement, given: bool, used: Uses) -> Refinement:
    if not given:
        return view_of(memory, Direction.OUT)
    return view_of(memory, Direction.INOUT if memory.name in used.written else Direction.IN)


@lru_cache(1 << 14)  # each pass requests the views of all memory, of which large networks have thousands
def view_of(memory: Refinement, direction: Direction) -> Refinement:
    """Return the view of a whole allocation under its own name."""
    return attrs.evolve(memory, direction=direction, source=memory.name, offset=None, constant=False)


@attrs.define(eq=False, repr=False)
class _Nesting:
    """State of the construction of a program's blocks."""

    show: Callable[[Kernel, Launch], Block]
    kernels: Sequence[Kernel]
    memory: dict[str, Refinement]
    local: dict[int, frozenset[str]]
    inner: frozenset[str]

    @classmethod
    def of(cls, program: Program, show: Callable[[Kernel, Launch], Block]) -> _Nesting:
        """Collect the facts for the blocks of a program."""
        program = sorted_memory(program)
        memory = {each.name: each for each in program.memory}
        return cls(show, program.kernels, memory, local_memory(program), inner_memory(program))

    def allocated(self) -> tuple[list[Refinement], list[Refinement]]:
        """Return the allocations of the outermost block, and those of ``main``."""
        local = frozenset(name for names in self.local.values() for name in names)
        found = [each for name, each in self.memory.items() if name not in local]
        outer = [each for each in found if each.name not in self.inner]
        return outer, [each for each in found if each.name in self.inner]

    def statements(self, works: Iterable[Work]) -> tuple[Statement, ...]:
        """Return the blocks of works; nesting is bounded, so recursion is."""
        return tuple(map(self._block, works))

    def _block(self, work: Work) -> Block:
        match work:
            case Launch():
                return self.show(self.kernels[work.kernel], work)
            case Loop():
                return self._loop(work)
            case Branch():
                return self._branch(work)
            case _:
                assert_never(work)

    def _loop(self, loop: Loop) -> Block:
        local = self.local.get(id(loop), frozenset())
        used = uses_of(self.kernels, (loop,))
        before = needed(self.kernels, (loop,))
        seen = self._seen(used, loop.works)
        alone = local - {carry.made for carry in loop.carries}
        held = tuple(each for each in seen if each.name in alone & self.inner)
        shapes = {carry.kept: self.memory[carry.made].shape for carry in loop.carries}
        views = tuple(
            self._own(each)
            if each.name in local
            else _shaped(view_of(each, _direction(each.name, used, before)), shapes)
            for each in seen
            if each not in held
        )
        inner = uses_of(self.kernels, loop.works)
        body = self._part(BODY, loop.works, inner, held)
        copies = (Special("copy", (carry.made,), (carry.kept,)) for carry in loop.carries)
        return Block(
            loop.name,
            (Index("step", loop.times, serial=True),) if isinstance(loop.times, int) else (),
            refinements=views,
            statements=(body, *copies),
            comments=loop.comments,
            tags=Tags.of(LOOP, **({WHILE: loop.times.memory} if isinstance(loop.times, While) else {})),
            deps=loop.deps,
        )

    def _own(self, memory: Refinement) -> Refinement:
        return memory if memory.name in self.inner else tagged(memory, TEMPORARY)

    def _branch(self, branch: Branch) -> Block:
        used = uses_of(self.kernels, (branch,))
        seen, before = self._seen(used, branch.then, branch.otherwise), needed(self.kernels, (branch,))
        views = tuple(view_of(each, _direction(each.name, used, before)) for each in seen)
        parts = [(THEN, branch.then), (ELSE, branch.otherwise)]
        return Block(
            branch.name,
            refinements=views,
            statements=tuple(self._part(name, works, uses_of(self.kernels, works)) for name, works in parts),
            comments=branch.comments,
            tags=Tags.of(**{BRANCH: branch.condition}),
            deps=branch.deps,
        )

    def _part(self, name: str, works: tuple[Work, ...], used: Uses, held: tuple[Refinement, ...] = ()) -> Block:
        """Return the block of the works of a step or of one side of a branch, with allocations of its own memory."""
        before = needed(self.kernels, works)
        views = tuple(
            each if each in held else view_of(each, _direction(each.name, used, before))
            for each in self._seen(used, works)
        )
        return Block(name, refinements=views, statements=self.statements(works), tags=Tags.of(name))

    def _seen(self, used: Uses, *inside: tuple[Work, ...]) -> list[Refinement]:
        """Return the used memory, without allocations of nested loops."""
        hidden = {name for works in inside for loop in loops(works) for name in self.local.get(id(loop), ())}
        return [each for name, each in self.memory.items() if name in used and name not in hidden]


def _shaped(view: Refinement, shapes: Mapping[str, TensorShape]) -> Refinement:
    """Return a view of memory that a loop keeps, with the shape of its steps' results, which are copied to it."""
    shape = shapes.get(view.name, view.shape)
    return view if shape == view.shape else attrs.evolve(view, shape=shape, access=(Affine(),) * len(shape.dims))


def _direction(name: str, used: Uses, before: Container[str]) -> Direction:
    """Return the direction of works' memory; ``before`` is memory whose earlier content they need."""
    if name not in used.written:
        return Direction.IN
    return Direction.INOUT if name in before else Direction.OUT
