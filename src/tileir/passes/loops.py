"""Passes on programs with loops: a pass never sees one.

The kernels between two loops are given to it as a program, and so is the body of each loop; what others read or write
are parameters and results there. So nothing moves into a loop, out of it or past it, and whatever a pass does for a
program it does for the kernels of a step. Passes that look at blocks, whatever these are, have
``sees_loops: ClassVar[bool] = True`` and get the program as it is.
"""

from __future__ import annotations

from collections import Counter
from operator import is_
from typing import TYPE_CHECKING

import attrs

from tileir.core.names import NameScope
from tileir.core.rewrite import rewritten
from tileir.stripe.ir import Block, Buffer, Direction, Program, Tags, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tileir.stripe.ir import Refinement, Statement


def is_loop(statement: Statement) -> bool:
    """Return whether a statement of ``main``, or of the body of a loop, is a loop."""
    return isinstance(statement, Block) and "loop" in statement.tags


def between_loops(function: Callable[[Program], Program], program: Program) -> Program:
    """Apply ``function`` to the kernels between loops and to the bodies of loops, each as a program of its own.

    Loops inside loops are treated in the same way, by recursion as deep as they are nested. The program itself is
    returned where nothing changed.
    """
    if not any(map(is_loop, program.main.statements)):
        return function(program)
    stretches = _stretches(program.main.statements)
    whole = _Whole.of(program, stretches)
    after: list[Statement] = []
    for stretch in stretches:
        first = stretch[0]
        if isinstance(first, Block) and is_loop(first):
            after.append(whole.loop_after(function, first))
        else:
            after.extend(whole.kernels_after(function, stretch))
    return whole.result(tuple(after))


def _stretches(statements: Iterable[Statement]) -> list[tuple[Statement, ...]]:
    """Return the statements cut before and after each loop."""
    found: list[list[Statement]] = []
    for statement in statements:
        if not found or is_loop(statement) or is_loop(found[-1][-1]):
            found.append([])
        found[-1].append(statement)
    return [tuple(stretch) for stretch in found]


@attrs.define
class _Whole:
    """A program with loops while its parts change.

    Attributes:
        program: What it was.
        allocations: What its entry block allocates, by name.
        views: The views of ``main``, by name.
        buffers: The contents of constants, by name.
        users: How many stretches use each allocation.
        fixed: Parameters and results, which stay.

    """

    program: Program
    allocations: dict[str, Refinement]
    views: dict[str, Refinement]
    buffers: dict[str, Buffer]
    users: Counter[str]
    fixed: frozenset[str]

    @classmethod
    def of(cls, program: Program, stretches: Iterable[tuple[Statement, ...]]) -> _Whole:
        """Take a program apart."""
        allocations = {r.name: r for r in program.entry.refinements}
        views = {view.name: view for view in program.main.refinements}
        buffers = {buffer.name: buffer for buffer in program.buffers}
        fixed = frozenset((*program.inputs, *program.outputs))
        whole = cls(program, allocations, views, buffers, Counter(), fixed)
        for stretch in stretches:
            whole.users.update(whole.memory(stretch))
        return whole

    def memory(self, statements: Iterable[Statement]) -> list[str]:
        """Return the allocations of the entry block that statements use, each once."""
        views = (self.views[name] for name in _used(statements))
        return list(dict.fromkeys(view.source for view in views if view.direction is not Direction.NONE))

    def result(self, statements: tuple[Statement, ...]) -> Program:
        """Put the program together again; the old one where nothing changed."""
        main = self.program.main
        if len(statements) == len(main.statements) and all(map(is_, statements, main.statements)):
            return self.program
        given = {*self.program.inputs, *self.buffers}
        views = tuple(_directed(view, given) for view in self.views.values())
        return _program(
            self.program.entry,
            tuple(self.allocations.values()),
            attrs.evolve(main, refinements=views, statements=_in_order(statements)),
            self.program.inputs,
            self.program.outputs,
            tuple(self.buffers.values()),
        )

    def kernels_after(
        self, function: Callable[[Program], Program], stretch: tuple[Statement, ...]
    ) -> tuple[Statement, ...]:
        """Apply ``function`` to neighbouring kernels, keep the memory that these need then, and return them."""
        own = self.memory(stretch)
        written = {self.views[name].source for statement in stretch for name in views_written(statement)}
        user = [name for name in own if name not in self.buffers and (name in self.fixed or self.users[name] > 1)]
        given = tuple(name for name in user if name not in written)
        content = {name: self.buffers[name] for name in own if name in self.buffers}
        views = tuple(_directed(self.views[name], {*given, *content}) for name in _used(stretch))
        part = _program(
            self.program.entry,
            tuple(
                _tagged(self.allocations[name], user=True) if name in user else self.allocations[name] for name in own
            ),
            attrs.evolve(self.program.main, refinements=views, statements=stretch),
            given,
            tuple(name for name in user if name in written),
            tuple(content.values()),
        )
        new = function(part)
        if new is part:
            return stretch
        kept = {*user, *(name for name in content if self.users[name] > 1)}
        self._forget(own, kept, _used(stretch))
        return self._added(new, kept)

    def _forget(self, own: Sequence[str], kept: AbstractSet[str], used: Iterable[str]) -> None:
        """Let go of what one stretch alone used, memory of ``main`` itself included."""
        self.users.subtract(own)
        for name in used:
            if self.views[name].direction is Direction.NONE:
                del self.views[name]
        gone = {name for name in own if name not in kept}
        for name in gone:
            del self.allocations[name]
            self.buffers.pop(name, None)
        self.views = {name: view for name, view in self.views.items() if view.source not in gone}

    def _added(self, part: Program, kept: AbstractSet[str]) -> tuple[Statement, ...]:
        """Add the memory of a changed stretch under names that are free, and return its kernels."""
        names = NameScope.of((*self.allocations, *self.views))
        sources: dict[str, str] = {}
        content = {buffer.name: buffer for buffer in part.buffers}
        for r in part.entry.refinements:
            name = sources[r.name] = r.name if r.name in kept else names.fresh(r.name)
            if r.name not in kept:
                self.allocations[name] = attrs.evolve(r, name=name) if name != r.name else r
                if r.name in content:
                    self.buffers[name] = attrs.evolve(content[r.name], name=name)
        renamed: dict[str, str] = {}
        for view in part.main.refinements:
            name, source = view.name, sources.get(view.source, "")
            if name in self.views and (self.views[name].source != source or not source):
                renamed[name] = names.fresh(name)
                name = renamed[name]
            if name not in self.views:
                self.views[name] = attrs.evolve(view, name=name, source=source)
        statements = tuple(_reading(statement, renamed) for statement in part.main.statements)
        self.users.update(self.memory(statements))
        return statements

    def loop_after(self, function: Callable[[Program], Program], loop: Block) -> Block:
        """Apply ``function`` to the body of a loop, add the constants that it needs, and return the loop."""
        body, *copies = loop.statements
        assert isinstance(body, Block)  # the verifier's rule
        views = {view.name: view for view in loop.refinements}
        advanced = {name for copy in copies for name in views_read(copy)}
        given = tuple(name for name, view in views.items() if view.direction.reads)
        results = frozenset(name for name, view in views.items() if view.direction is Direction.OUT)
        made = tuple(name for name, view in views.items() if view.direction is Direction.OUT or name in advanced)
        part = _program(
            attrs.evolve(self.program.entry, name=loop.name, tags=Tags.of("program")),
            tuple(_tagged(_allocation(view), user=name in given or name in made) for name, view in views.items()),
            attrs.evolve(
                body,
                refinements=_turned(body.refinements, results, Direction.OUT, Direction.INOUT),
                tags=body.tags.remove("body").add("main"),
            ),
            given,
            made,
            (),
        )
        new = between_loops(function, part)
        if new is part:
            return loop
        used = {view.source for view in new.main.refinements}
        kept = [view for name, view in views.items() if view.direction is Direction.INOUT or name in used]
        own = [r for r in new.entry.refinements if r.name not in views or views[r.name].direction is Direction.NONE]
        constants = self._with_constants([r for r in own if r.constant], new.buffers)
        refinements = (
            *(view for view in kept if view.direction is not Direction.NONE),
            *constants,
            *(_tagged(r, user=False) for r in own if not r.constant),
        )
        body = attrs.evolve(
            new.main,
            refinements=_turned(new.main.refinements, results, Direction.INOUT, Direction.OUT),
            tags=new.main.tags.remove("main").add("body"),
            deps=(),
        )
        changed = attrs.evolve(loop, refinements=refinements, statements=(body, *_in_order(copies)))
        self.users.subtract(self.memory((loop,)))
        self.users.update(self.memory((changed,)))
        return changed

    def _with_constants(self, constants: Sequence[Refinement], buffers: Iterable[Buffer]) -> list[Refinement]:
        """Add constants that a body needs, and return views of them for the loop."""
        data = {buffer.name: buffer.data for buffer in buffers}
        names = NameScope.of((*self.allocations, *self.views))
        inner = []
        for constant in constants:
            name = names.fresh(constant.name)
            self.allocations[name] = attrs.evolve(constant, name=name)
            view = attrs.evolve(constant, direction=Direction.IN, source=name, constant=False)
            self.views[name] = attrs.evolve(view, name=name)
            self.buffers[name] = Buffer(name, data[constant.name])
            inner.append(view)
        return inner


def _used(statements: Iterable[Statement]) -> list[str]:
    """Return the views that statements read and write, each once."""
    return list(dict.fromkeys(name for s in statements for name in (*views_read(s), *views_written(s))))


def _reading(statement: Statement, renamed: Mapping[str, str]) -> Statement:
    """Return a kernel that sees views of ``main`` under other names."""
    if not renamed or not isinstance(statement, Block):
        return statement
    refinements = rewritten(
        statement.refinements,
        lambda r: (attrs.evolve(r, source=renamed[r.source]) if r.source in renamed else r,),
    )
    return statement if refinements is statement.refinements else attrs.evolve(statement, refinements=refinements)


def _program(
    entry: Block,
    allocations: tuple[Refinement, ...],
    main: Block,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    buffers: tuple[Buffer, ...],
) -> Program:
    return Program(attrs.evolve(entry, refinements=allocations, statements=(main,)), inputs, outputs, buffers)


def _turned(
    views: tuple[Refinement, ...], sources: AbstractSet[str], old: Direction, new: Direction
) -> tuple[Refinement, ...]:
    """Return views of the body of a loop, those of some ``sources`` with another direction.

    In what a loop makes a step keeps what earlier steps have written: a pass has to see that it reads that.
    """
    return rewritten(
        views, lambda r: (attrs.evolve(r, direction=new),) if r.source in sources and r.direction is old else (r,)
    )


def _directed(view: Refinement, given: AbstractSet[str]) -> Refinement:
    """Return a view of ``main``, which reads what is ``given`` and writes everything else.

    In the body of a loop, what steps write one after the other it reads, too.
    """
    if view.direction in (Direction.NONE, Direction.INOUT):
        return view
    direction = Direction.IN if view.source in given else Direction.OUT
    return view if view.direction is direction else attrs.evolve(view, direction=direction)


def _allocation(view: Refinement) -> Refinement:
    return attrs.evolve(view, direction=Direction.NONE, source="", aggregation=None)


def _tagged(allocation: Refinement, *, user: bool) -> Refinement:
    """Return an allocation tagged as one that others see, or as one of the program's own."""
    new, old = ("user", "tmp") if user else ("tmp", "user")
    return attrs.evolve(allocation, tags=allocation.tags.remove(old).add(new))


def _in_order(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return the statements without dependencies: the block runs them in order."""
    return tuple(attrs.evolve(s, deps=()) if s.deps else s for s in statements)
