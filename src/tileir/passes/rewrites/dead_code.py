"""Dead code elimination."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from tileir.core import attrs, grouped
from tileir.passes.analysis.accesses import is_element
from tileir.passes.base import with_kernels
from tileir.passes.regions.narrowing import narrowed
from tileir.stripe import (
    Block,
    Direction,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    launches,
    scalar_inputs,
    scalar_output,
    views_read,
    views_written,
)


@attrs.frozen
class DeadCode:
    """Remove kernels, blocks, stores, scalars, refinements and temporaries that do not affect results.

    Remaining views get the narrowest direction: an INOUT view whose old content is not read becomes OUT, one that is no
    longer written becomes IN. If the last constraint goes, views shrink to their remaining use.
    """

    name: ClassVar[str] = "dead_code"

    def __call__(self, program: Program) -> Program:
        """Return the program without dead code."""
        main = _pruned(program.main, set(program.outputs), _Kernels().pruned)
        return _without_temporaries(with_kernels(program, main.statements))


def pruned(block: Block, live: set[str]) -> Block:
    """Return a kernel or block without code that does not reach its views ``live``; itself if all does."""
    return narrowed(_pruned(block, live), block)


@attrs.define(eq=False, repr=False)
class _Kernels:
    """Pruning of kernels; launches of one kernel, most of which lose nothing, share its statements."""

    _whole: set[object] = attrs.field(factory=set, init=False)

    def pruned(self, block: Block, live: set[str]) -> Block:
        """Apply :func:`pruned`."""
        views = tuple([(view.name, view.direction) for view in block.refinements])
        case = id(block.statements), views, frozenset(live), tuple(_aliases(block).items()), _is_in_turn(block)
        if case in self._whole:
            return block
        result = pruned(block, live)
        if result is block:
            self._whole.add(case)
        return result


def _pruned(block: Block, live: set[str], prune: Callable[[Block, set[str]], Block] = pruned) -> Block:
    statements = _needed(block, live, prune)
    same = len(statements) == len(block.statements) and all(
        new is old for new, old in zip(statements, block.statements, strict=True)
    )
    refinements = _narrowed(block, statements)
    if same and refinements == block.refinements:
        return block
    kept = block.statements if same else tuple(attrs.evolve(s, deps=()) if s.deps else s for s in statements)
    return attrs.evolve(block, statements=kept, refinements=refinements)


def _needed(block: Block, live: set[str], prune: Callable[[Block, set[str]], Block]) -> tuple[Statement, ...]:
    """Return the statements that reach the views ``live``; ``prune`` handles nested blocks."""
    views = set(live)
    scalars: set[str] = set()
    kept: list[Statement] = []
    aliases = _aliases(block)
    if _is_in_turn(block):  # the next point reads what this one has written
        reading = (r.name for r in block.refinements if r.direction.reads)
        views.update(name for view in reading for name in aliases.get(view, (view,)))
    for statement in reversed(block.statements):
        output = scalar_output(statement)
        if output is not None:
            if output not in scalars:
                continue
        elif isinstance(statement, Block):
            seen = views.union(*(aliases.get(name, ()) for name in views_read(statement))) if aliases else views
            written = {r.name for r in statement.refinements if r.direction.writes and r.source in seen}
            if not written and not _hints(statement):
                continue
            statement = prune(statement, written)
            if not statement.statements:
                continue
        elif isinstance(statement, Store | Special) and _is_dead(statement, views):
            continue
        kept.append(statement)
        scalars.update(scalar_inputs(statement))
        views.update(*(aliases.get(name, (name,)) for name in views_read(statement)))
    return tuple(reversed(kept))


def _is_in_turn(block: Block) -> bool:
    """Return whether points run in order; a reduction has state even if it has one point."""
    return block.is_serial or block.reduction is not None


def _is_dead(statement: Store | Special, live: set[str]) -> bool:
    """Return whether nothing reads the output of ``statement``; without written views, the back end decides."""
    written = views_written(statement)
    return bool(written) and live.isdisjoint(written)


def _hints(block: Block) -> bool:
    return any(isinstance(s, Special) and not s.outputs for s in block.statements)


def _aliases(block: Block) -> dict[str, tuple[str, ...]]:
    """Return, for each view that shares its source with others, the names of all of them."""
    by_source = grouped((r.source, r.name) for r in block.refinements if r.direction is not Direction.NONE)
    return {name: tuple(names) for names in by_source.values() if len(names) > 1 for name in names}


def _narrowed(block: Block, statements: tuple[Statement, ...]) -> tuple[Refinement, ...]:
    """Return the refinements that ``statements`` use, each with the narrowest direction."""
    elements = {r.name for r in block.refinements if is_element(r)}
    defined: set[str] = set()
    old_read: set[str] = set()
    written: set[str] = set()
    used: set[str] = set()
    for statement in statements:
        reads, writes = views_read(statement), views_written(statement)
        old_read.update(name for name in reads if name not in defined)
        used.update(reads, writes)
        written.update(writes)
        if isinstance(statement, Store) and statement.into in elements:
            defined.add(statement.into)
    return tuple(_directed(r, r.name in old_read, r.name in written) for r in block.refinements if r.name in used)


def _directed(refinement: Refinement, reads: bool, writes: bool) -> Refinement:
    if refinement.direction is not Direction.INOUT:
        return refinement
    if not writes:
        return attrs.evolve(refinement, direction=Direction.IN, aggregation=None)
    if refinement.merges or reads:
        return refinement
    return attrs.evolve(refinement, direction=Direction.OUT)


def _without_temporaries(program: Program) -> Program:
    """Drop unused memory, with its content if it is constant."""
    used = {name for launch in launches(program.works) for name in launch.arguments}
    used.update(program.inputs, program.outputs)
    memory = tuple(each for each in program.memory if each.name in used)
    if len(memory) == len(program.memory):
        return program
    buffers = tuple(buffer for buffer in program.buffers if buffer.name in used)
    return attrs.evolve(program, memory=memory, buffers=buffers)
