"""Views of a block that can be in an inner memory while its statements run, and their use there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from tileir.core import LOCAL, REGISTER, SCRATCH, Aggregation, attrs
from tileir.stripe.aliases import Aliases, Overlap, Reach, allocations, byte_size, compare
from tileir.stripe.check.views import has_constraints
from tileir.stripe.ir import Block, Direction, Refinement, Statement, views_read, views_written
from tileir_accelerators.placement.locate import Place, is_at
from tileir_accelerators.placement.residency import Item, Use
from tileir_accelerators.placement.stored import edges, overhangs, stores_all
from tileir_accelerators.placement.transfers import can_move, slot_for

_NEAR = frozenset({LOCAL, REGISTER, SCRATCH})
"""Memories nearer than any that data are scheduled for."""


@attrs.frozen(eq=False)
class Resident:
    """View to keep in the inner memory.

    Attributes:
        view: Refinement of the block.
        slot: Allocation that replaces it, not placed yet.
        item: Its use by the statements.
        filled: Whether slots have to hold the identity of the aggregation before a statement merges into them.
    """

    view: Refinement
    slot: Refinement
    item: Item
    filled: bool = False


def overhanging(aliases: Aliases) -> tuple[str, ...]:
    """Return the indices, named ``depth:index``, that move views of a block which may exceed bounds."""
    found: dict[str, None] = {}
    for name in aliases.scope.views:
        places = edges(aliases, name) or ()
        for axis in overhangs(aliases, name):
            found.update(dict.fromkeys(places[axis][0].indices))
    return tuple(found)


def brings_its_own(block: Block, memory: Sequence[Place]) -> bool:
    """Return whether a block has allocations in that memory itself, and so loads its own data."""
    return any(is_at(allocation.location, memory) for allocation in allocations(block))


def residents(
    aliases: Aliases, lasting: Container[str], memory: Sequence[Place], banks: int, skip_tags: Iterable[str]
) -> tuple[Resident, ...]:
    """Return the views of a block that can be in ``memory``, with their use by its statements.

    Args:
        aliases: The block.
        lasting: Parameters and results of the program.
        memory: The inner memory.
        banks: Number of its banks.
        skip_tags: Views with one of these tags stay outside.
    """
    block = aliases.scope.block
    skipped = tuple(skip_tags)
    inside = [_is_consumer(statement, memory) for statement in block.statements]
    users = _users(block)
    hanging = aliases.scope.guarded or has_constraints(block)  # then views may exceed the bounds of their memory
    candidates = [
        view
        for view in block.refinements
        if not any(tag in view.tags for tag in skipped)
        and _is_outside(aliases, view, memory)
        and can_move(view, (block.statements[number] for number in users.get(view.name, ())))
        and (edges(aliases, view.name) is not None or not hanging)
    ]
    tangled = _tangled(aliases, candidates)
    found = (
        _resident(aliases, view, users.get(view.name, {}), inside, banks, lasting)
        for view in candidates
        if view.name not in tangled
    )
    return tuple(resident for resident in found if resident is not None)


def _users(block: Block) -> dict[str, dict[int, tuple[bool, bool]]]:
    """Return the accessing statements of each refinement, by number, and whether they read and write it."""
    found: dict[str, dict[int, tuple[bool, bool]]] = {}
    for number, statement in enumerate(block.statements):
        reads, writes = frozenset(views_read(statement)), frozenset(views_written(statement))
        for name in sorted(reads | writes):
            found.setdefault(name, {})[number] = (name in reads, name in writes)
    return found


def locals_of(statement: Statement, memory: Sequence[Place]) -> tuple[Refinement, ...]:
    """Return a statement's allocations without a location, at any depth, if it uses ``memory``."""
    if not isinstance(statement, Block) or not _is_consumer(statement, memory):
        return ()
    return tuple(a for a in allocations(statement) if not a.location and a.offset is None and a.shape.elements)


def _is_consumer(statement: Statement, memory: Sequence[Place]) -> bool:
    """Return whether a statement uses data in the inner memory, and can be redirected to find them there."""
    return isinstance(statement, Block) and "xfer" not in statement.tags and not brings_its_own(statement, memory)


def _is_outside(aliases: Aliases, view: Refinement, memory: Sequence[Place]) -> bool:
    """Return whether the memory of a view is farther away than ``memory``."""
    behind = aliases.view(view.name)
    where = view.location if behind is None else behind.root.location
    near = any(device.name in _NEAR for device in where)
    return view.shape.elements > 0 and not near and not is_at(where, memory)


def _tangled(aliases: Aliases, candidates: Sequence[Refinement]) -> set[str]:
    """Return the views whose elements another view may change: copies of them would be stale."""
    by_memory: dict[object, list[Refinement]] = {}
    for view in aliases.scope.block.refinements:
        behind = aliases.view(view.name)
        if behind is not None:
            by_memory.setdefault(behind.memory, []).append(view)
    found: set[str] = set()
    for view in candidates:
        behind = aliases.view(view.name)
        for other in by_memory[behind.memory] if behind is not None else ():
            if other is not view and _interfere(aliases, view, other):
                found.add(view.name)
    return found


def _interfere(aliases: Aliases, one: Refinement, other: Refinement) -> bool:
    if not (_changes(one) or _changes(other)) or (one.merges and one.aggregation is other.aggregation):
        return False
    mine, theirs = (_whole(aliases, view) for view in (one, other))
    return mine is None or theirs is None or compare(mine, theirs, aliases.ranges) is not Overlap.NONE


def _changes(view: Refinement) -> bool:
    return view.direction is not Direction.IN


def _whole(aliases: Aliases, view: Refinement) -> Reach | None:
    """Return the whole extent of a view."""
    behind = aliases.view(view.name)
    if behind is None:
        return None
    shape = view.shape
    return Reach(behind.memory, behind.start, shape.sizes, shape.strides, {}, (), _changes(view))


def _resident(
    aliases: Aliases,
    view: Refinement,
    users: Mapping[int, tuple[bool, bool]],
    inside: Sequence[bool],
    banks: int,
    lasting: Container[str],
) -> Resident | None:
    """Return the use of a view; None if it has to stay outside, or no statement needs it inside."""
    merging = view.merges
    if merging and view.direction is not Direction.OUT:
        return None
    filled = False
    uses: dict[int, Use] = {}
    for number, (reads, writes) in users.items():
        statement = aliases.scope.block.statements[number]
        defines = writes and not reads and inside[number] and stores_all(aliases, statement, view.name)
        if merging and not defines:
            if not inside[number] or not stores_all(aliases, statement, view.name, tuple(_merged(aliases, view))):
                return None
            defines = filled = True
        uses[number] = Use(reads or not defines, writes, inside[number])
    if _adds_to_what_steps_made(aliases, view, uses):
        return None
    if not any(use.inside for use in uses.values()) or not (merging or _is_own(aliases, view, uses)):
        return None
    spread = view.bank_dim is not None and banks > 1
    slot = slot_for(view, banks if spread else 1)
    live_out = _live_out(aliases, view, lasting)
    item = Item(view.name, byte_size(slot), uses, view.direction.reads, live_out, merging, spread)
    return Resident(view, slot, item, filled)


def _is_main(aliases: Aliases) -> bool:
    """Return whether a block is the one statement of the outermost block."""
    return aliases.scope.depth == 2


def _adds_to_what_steps_made(aliases: Aliases, view: Refinement, uses: Mapping[int, Use]) -> bool:
    """Return whether a step of a loop writes some elements of the loop's result beside those of earlier steps.

    A copy would have to be loaded, but in the first step there is nothing; so it is written in place.
    """
    first = uses[min(uses)]
    return _is_main(aliases) and view.direction is Direction.INOUT and first.reads


def _is_own(aliases: Aliases, view: Refinement, uses: dict[int, Use]) -> bool:
    """Return whether storing all of a view preserves the results of the block's other points.

    This holds for a single point; if all elements are written, which points of a valid program then do not share; and
    if the views of different points are disjoint.
    """
    if not view.direction.writes or all(count == 1 for count in aliases.ranges.values()):
        return True
    first = uses[min(uses)]
    if first.writes and not first.reads:
        return True
    behind = aliases.view(view.name)
    if view.direction is not Direction.INOUT or behind is None or behind.start is None:
        return False
    moved: set[str] = set()
    for start, size in zip(behind.start, view.shape.sizes, strict=True):
        reach = size
        for step, name in sorted((abs(int(c)), name) for name, c in start.terms):
            if step < reach or name in moved:
                return False
            reach += step * (aliases.ranges[name] - 1)
            moved.add(name)
    return all(name in moved for name, count in aliases.ranges.items() if count > 1)


def _merged(aliases: Aliases, view: Refinement) -> Iterator[str]:
    """Yield the indices over which the aggregation scope of a view merges, named ``depth:index``."""
    scope, name = aliases.scope, view.name
    while scope.parent is not None:
        source = scope.parent.views.get(scope.views[name].source)
        if source is None or not source.merges:
            break
        scope, name = scope.parent, source.name
    behind = aliases.view(view.name)
    moving = {i for start in (behind.start or () if behind is not None else ()) for i in start.indices}
    for symbol in aliases.ranges:
        if int(symbol.partition(":")[0]) >= scope.depth and symbol not in moving:
            yield symbol


def _live_out(aliases: Aliases, view: Refinement, lasting: Container[str]) -> bool:
    """Return whether results in a view are needed after the block."""
    behind = aliases.view(view.name)
    if _is_main(aliases) and behind is not None:  # nothing runs after it: only results are needed
        return view.direction.writes and behind.root.name in lasting
    return view.direction.writes


def identity(view: Refinement) -> bool | int | float:
    """Return the identity of a view's aggregation: for sums of floats -0, as 0 + -0 is 0."""
    aggregation = view.aggregation
    if aggregation is None or aggregation is Aggregation.ASSIGN:
        raise ValueError(f"{view.name} does not merge")
    if aggregation is Aggregation.SUM and view.shape.dtype.is_float:
        return -0.0
    return aggregation.identity(view.shape.dtype)
