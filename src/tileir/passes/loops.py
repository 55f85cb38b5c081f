"""Passes on programs with loops: a pass never sees one.

The kernels between two loops are given to it as a program, and so is the body of each loop; what others read or write
are parameters and results there. So nothing moves into a loop, out of it or past it, and whatever a pass does for a
program it does for the kernels of a step. Passes that look at blocks, whatever these are, have
``sees_loops: ClassVar[bool] = True`` and get the program as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.names import NameScope
from tileir.stripe.ir import Block, Buffer, Direction, Program, Tags, views_read, views_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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
    old = program
    stretches = _stretches(program.main.statements)
    for number, stretch in enumerate(stretches):
        first = stretch[0]
        if isinstance(first, Block) and is_loop(first):
            program, loop = _loop_after(function, program, first)
            stretches[number] = (loop,)
        else:
            others = [s for place, other in enumerate(stretches) if place != number for s in other]
            program, stretches[number] = _stretch_after(function, program, stretch, others)
    statements = tuple(statement for stretch in stretches for statement in stretch)
    before = old.main.statements
    same = len(statements) == len(before) and all(new is s for new, s in zip(statements, before, strict=True))
    if program is old and same:
        return old
    main = attrs.evolve(program.main, statements=_in_order(statements))
    return attrs.evolve(program, entry=attrs.evolve(program.entry, statements=(main,)))


def _stretches(statements: Iterable[Statement]) -> list[tuple[Statement, ...]]:
    """Return the statements cut before and after each loop."""
    found: list[list[Statement]] = []
    for statement in statements:
        if not found or is_loop(statement) or is_loop(found[-1][-1]):
            found.append([])
        found[-1].append(statement)
    return [tuple(stretch) for stretch in found]


def _stretch_after(
    function: Callable[[Program], Program],
    program: Program,
    stretch: tuple[Statement, ...],
    others: Sequence[Statement],
) -> tuple[Program, tuple[Statement, ...]]:
    """Apply ``function`` to neighbouring kernels; return the program with the memory that these need, and they."""
    sources = {view.name: view.source for view in program.main.refinements}
    written = {sources[name] for statement in stretch for name in views_written(statement)}
    shared = {sources[name] for s in others for name in (*views_read(s), *views_written(s))}
    shared.update(program.inputs, program.outputs)
    constants = {buffer.name for buffer in program.buffers}
    allocations = [
        _tagged(r, user=True) if r.name in shared and r.name not in constants else r for r in program.entry.refinements
    ]
    user = [r.name for r in allocations if r.name in shared and r.name not in constants]
    given = tuple(name for name in user if name not in written)
    part = _program(
        program.entry,
        allocations,
        attrs.evolve(program.main, refinements=_directed(program.main, {*given, *constants}), statements=stretch),
        given,
        tuple(name for name in user if name in written),
        program.buffers,
    )
    new = _hoisted(function(part))
    return (program, stretch) if new is part else (_with_memory(program, new, shared), new.main.statements)


def _with_memory(program: Program, part: Program, shared: AbstractSet[str]) -> Program:
    """Return ``program`` with the memory of its changed part, and what others share as it was."""
    old = {r.name: r for r in program.entry.refinements}
    made = {r.name: r for r in part.entry.refinements if r.name not in shared}
    allocations = [made.pop(name, r) for name, r in old.items() if name in shared or name in made]
    content = {b.name: b for b in (*program.buffers, *part.buffers) if b.name in shared or b in part.buffers}
    views = {view.name: view for view in program.main.refinements if view.source in shared}
    views.update((view.name, view) for view in part.main.refinements)
    main = attrs.evolve(program.main, refinements=tuple(views.values()))
    main = attrs.evolve(main, refinements=_directed(main, {*program.inputs, *content}))
    return _program(
        program.entry, [*allocations, *made.values()], main, program.inputs, program.outputs, tuple(content.values())
    )


def _loop_after(function: Callable[[Program], Program], program: Program, loop: Block) -> tuple[Program, Block]:
    """Apply ``function`` to the body of a loop; return the program with the constants that it needs, and the loop."""
    body, *copies = loop.statements
    assert isinstance(body, Block)  # the verifier's rule
    views = {view.name: view for view in loop.refinements}
    advanced = {name for copy in copies for name in views_read(copy)}
    given = tuple(name for name, view in views.items() if view.direction.reads)
    made = tuple(name for name, view in views.items() if view.direction is Direction.OUT or name in advanced)
    part = _program(
        attrs.evolve(program.entry, name=loop.name, tags=Tags.of("program")),
        [_tagged(_allocation(view), user=name in given or name in made) for name, view in views.items()],
        attrs.evolve(body, tags=body.tags.remove("body").add("main")),
        given,
        made,
        (),
    )
    new = _hoisted(between_loops(function, part))
    if new is part:
        return program, loop
    used = {view.source for view in new.main.refinements}
    kept = [view for name, view in views.items() if view.direction is Direction.INOUT or name in used]
    own = [r for r in new.entry.refinements if r.name not in views or views[r.name].direction is Direction.NONE]
    program, constants = _with_constants(program, [r for r in own if r.constant], new.buffers)
    refinements = (
        *(view for view in kept if view.direction is not Direction.NONE),
        *constants,
        *(_tagged(r, user=False) for r in own if not r.constant),
    )
    body = attrs.evolve(new.main, tags=new.main.tags.remove("main").add("body"), deps=())
    return program, attrs.evolve(loop, refinements=refinements, statements=(body, *_in_order(copies)))


def _with_constants(
    program: Program, constants: Sequence[Refinement], buffers: Sequence[Buffer]
) -> tuple[Program, list[Refinement]]:
    """Add constants that a body needs to the program around it; return it, and views of them for the loop."""
    if not constants:
        return program, []
    data = {buffer.name: buffer.data for buffer in buffers}
    names = NameScope.of(r.name for r in (*program.entry.refinements, *program.main.refinements))
    allocations = list(program.entry.refinements)
    outer = list(program.main.refinements)
    inner = []
    content = list(program.buffers)
    for constant in constants:
        name = names.fresh(constant.name)
        allocations.append(attrs.evolve(constant, name=name))
        view = attrs.evolve(constant, direction=Direction.IN, source=name, constant=False)
        outer.append(attrs.evolve(view, name=name))
        inner.append(view)
        content.append(Buffer(name, data[constant.name]))
    main = attrs.evolve(program.main, refinements=tuple(outer))
    return _program(program.entry, allocations, main, program.inputs, program.outputs, tuple(content)), inner


def _program(
    entry: Block,
    allocations: Sequence[Refinement],
    main: Block,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    buffers: tuple[Buffer, ...],
) -> Program:
    return Program(attrs.evolve(entry, refinements=tuple(allocations), statements=(main,)), inputs, outputs, buffers)


def _hoisted(program: Program) -> Program:
    """Return the program with what ``main`` allocates allocated by the entry block."""
    own = [view for view in program.main.refinements if view.direction is Direction.NONE]
    if not own:
        return program
    names = NameScope.of(r.name for r in program.entry.refinements)
    sources = {view.name: names.fresh(view.name) for view in own}
    views = tuple(
        attrs.evolve(view, direction=Direction.OUT, source=sources[view.name], offset=None)
        if view.name in sources
        else view
        for view in program.main.refinements
    )
    allocations = [*program.entry.refinements, *(attrs.evolve(view, name=sources[view.name]) for view in own)]
    main = attrs.evolve(program.main, refinements=views)
    return _program(program.entry, allocations, main, program.inputs, program.outputs, program.buffers)


def _directed(main: Block, given: AbstractSet[str]) -> tuple[Refinement, ...]:
    """Return the views of ``main``, which reads what is ``given`` and writes everything else."""
    return tuple(
        attrs.evolve(view, direction=Direction.IN if view.source in given else Direction.OUT)
        if view.direction is not Direction.NONE
        else view
        for view in main.refinements
    )


def _allocation(view: Refinement) -> Refinement:
    return attrs.evolve(view, direction=Direction.NONE, source="", aggregation=None)


def _tagged(allocation: Refinement, *, user: bool) -> Refinement:
    """Return an allocation tagged as one that others see, or as one of the program's own."""
    new, old = ("user", "tmp") if user else ("tmp", "user")
    return attrs.evolve(allocation, tags=allocation.tags.remove(old).add(new))


def _in_order(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Return the statements without dependencies: the block runs them in order."""
    return tuple(attrs.evolve(s, deps=()) if s.deps else s for s in statements)
