"""Privatisation of results that a kernel reads back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from tileir.core import NameScope, attrs, rewritten
from tileir.passes.analysis.accesses import is_element
from tileir.passes.base import at_least, map_kernels
from tileir.passes.kernels.schedule import REGISTER
from tileir.stripe.ir import (
    Block,
    Dim,
    Direction,
    Load,
    Program,
    Refinement,
    Special,
    Statement,
    Store,
    allocation,
    views_read,
    views_written,
)


@attrs.frozen
class Shadow:
    """Privatise results that a kernel reads back: keep a private copy, and read that instead.

    Outputs of a kernel are then never inputs, so that its blocks can be scheduled independently. The kernel must write
    the result through one view, by stores in its body or in innermost blocks.

    Attributes:
        reqs: Tags that a kernel, or ``main``, must carry.
        most_bytes: Memory of the threads of a group, in bytes: results that exceed it, together with the kernel's other
            allocations, are read back from their tensor. 0 for no limit.
    """

    name: ClassVar[str] = "shadow"
    reqs: tuple[str, ...] = ()
    most_bytes: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with private copies in the kernels that carry all tags of ``reqs``."""
        return map_kernels(program, partial(_shadowed, self.most_bytes), self.reqs)


def _shadowed(most_bytes: int, kernel: Block) -> Block:
    views = Counter(r.source for r in kernel.refinements)
    names = NameScope.of(r.name for r in kernel.refinements)
    kept: dict[str, Refinement] = {}
    readers, users = _touching(kernel)
    owned = (r for r in kernel.refinements if r.direction is Direction.NONE)
    held = sum(_bytes(r) for r in owned if len(users.get(r.name, ())) > 1)
    for view in kernel.refinements:
        plain = view.direction is Direction.OUT and not view.merges
        if plain and views[view.source] == 1 and view.name in readers and _is_stored_plainly(users[view.name], view):
            own = _bytes(view)
            if most_bytes and own and held + own > most_bytes:
                continue
            kept[view.name] = _allocation(view, names.fresh(f"{view.name}_kept"))
            held += own
    if not kept:
        return kernel
    statements = tuple(new for old in kernel.statements for new in _statement(old, kept))
    return attrs.evolve(kernel, refinements=(*kernel.refinements, *kept.values()), statements=statements)


def _bytes(view: Refinement) -> int:
    return 0 if is_element(view) else view.shape.elements * view.shape.dtype.itemsize


def _touching(kernel: Block) -> tuple[frozenset[str], Mapping[str, Sequence[Statement]]]:
    """Return the views that statements read, and the statements that access each view."""
    readers: set[str] = set()
    users: dict[str, list[Statement]] = {}
    for statement in kernel.statements:
        read = views_read(statement)
        readers.update(read)
        for name in dict.fromkeys((*read, *views_written(statement))):
            users.setdefault(name, []).append(statement)
    return frozenset(readers), users


def _is_stored_plainly(users: Sequence[Statement], view: Refinement) -> bool:
    """Return whether only stores to known places write a view, and nested views have its axes.

    ``users`` are the statements that access it.
    """
    for statement in users:
        match statement:
            case Load(index=index) | Store(index=index):
                if index is not None:
                    return False
            case Block():
                if not _is_plain_block(statement, view):
                    return False
            case _:
                return False
    return True


def _is_plain_block(block: Block, view: Refinement) -> bool:
    if block.blocks or any(isinstance(s, Special) for s in block.statements):
        return False
    mine = {r.name: r for r in block.refinements if r.source == view.name and r.direction is not Direction.NONE}
    if any(len(r.access) != len(view.access) for r in mine.values()):
        return False
    if any(r.merges for r in mine.values()):
        return False
    touching = (s for s in block.statements if isinstance(s, Load | Store) and s.index is not None)
    return not any((s.source if isinstance(s, Load) else s.into) in mine for s in touching)


def _allocation(view: Refinement, name: str) -> Refinement:
    return allocation(name, view.shape.dtype, view.shape.sizes, REGISTER if is_element(view) else ())


def _statement(statement: Statement, kept: Mapping[str, Refinement]) -> tuple[Statement, ...]:
    match statement:
        case Load(source=source) if source in kept:
            return (attrs.evolve(statement, source=kept[source].name),)
        case Store(into=into) if into in kept:
            return (attrs.evolve(statement, into=kept[into].name), statement)
        case Block():
            return (_block(statement, kept),)
        case _:
            return (statement,)


def _block(block: Block, kept: Mapping[str, Refinement]) -> Block:
    """Return a nested block that uses the private copies, and also writes the results."""
    names = NameScope.of(r.name for r in block.refinements)
    both: dict[str, str] = {}
    views: list[Refinement] = []
    for view in block.refinements:
        local = kept.get(view.source) if view.direction is not Direction.NONE else None
        if local is None:
            views.append(view)
            continue
        dims = zip(view.shape.dims, local.shape.dims, strict=True)
        shape = attrs.evolve(view.shape, dims=tuple(Dim(own.size, of.stride) for own, of in dims))
        views.append(attrs.evolve(view, source=local.name, shape=shape))
        if view.direction.writes:
            both[view.name] = names.fresh(view.name)
            views.append(attrs.evolve(view, name=both[view.name], direction=Direction.OUT))
    if len(views) == len(block.refinements) and all(a is b for a, b in zip(views, block.refinements, strict=True)):
        return block

    def store(statement: Statement) -> tuple[Statement, ...]:
        if isinstance(statement, Store) and statement.into in both:
            return (statement, attrs.evolve(statement, into=both[statement.into]))
        return (statement,)

    return attrs.evolve(block, refinements=tuple(views), statements=rewritten(block.statements, store), deps=())
