"""Store forwarding: elements stay in scalars instead of being stored and loaded again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from tileir.core import attrs, rewritten
from tileir.passes.base import map_kernels
from tileir.schedule.reindex import renamed
from tileir.stripe.ir import Block, Direction, Load, Program, Refinement, Statement, Store, views_read, views_written


@attrs.frozen
class Scalarise:
    """Forward stored and loaded values of an element to later loads in its body (scalar replacement).

    A store that is overwritten, or that goes to an allocation which nothing reads afterwards, is dropped, and so is
    an allocation without any use: element-sized temporaries become scalars. Accumulators that nested blocks merge
    into stay in place.
    """

    name: ClassVar[str] = "scalarise"
    aliases: ClassVar[tuple[str, ...]] = ("scalarize",)
    reqs: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with elements kept in scalars in the kernels that carry all tags of ``reqs``."""
        return map_kernels(program, _scalarised, self.reqs)


def _scalarised(block: Block) -> Block:
    """Rewrite a block after its nested blocks."""
    statements = rewritten(block.statements, lambda s: (_scalarised(s) if isinstance(s, Block) else s,))
    aliases = _Aliases.of(block.refinements)
    statements = _without_dead_stores(_forwarded(statements, aliases), aliases)
    if statements is block.statements:
        return block
    used = {name for s in statements for name in (*views_read(s), *views_written(s))}
    refinements = tuple(r for r in block.refinements if r.name in used or r.direction is not Direction.NONE)
    return attrs.evolve(block, statements=statements, refinements=refinements)


@attrs.frozen(repr=False)
class _Aliases:
    """Views of one block that may show the same elements, and views that merge stores."""

    sources: Mapping[str, str]
    by_source: Mapping[str, tuple[str, ...]]
    merging: frozenset[str]
    allocations: frozenset[str]

    @classmethod
    def of(cls, refinements: Iterable[Refinement]) -> _Aliases:
        """Compute aliases from the refinements of a block."""
        by_source: dict[str, list[str]] = {}
        sources: dict[str, str] = {}
        merging: set[str] = set()
        allocations: set[str] = set()
        for r in refinements:
            if r.direction is Direction.NONE:
                allocations.add(r.name)
                continue
            sources[r.name] = r.source
            by_source.setdefault(r.source, []).append(r.name)
            if r.merges:
                merging.add(r.name)
        groups = {source: tuple(names) for source, names in by_source.items()}
        return cls(sources, groups, frozenset(merging), frozenset(allocations))

    def together(self, name: str) -> tuple[str, ...]:
        """Return the views that may show elements of the view ``name``, itself included."""
        source = self.sources.get(name)
        return (name,) if source is None else self.by_source[source]


def _forwarded(statements: tuple[Statement, ...], aliases: _Aliases) -> tuple[Statement, ...]:
    """Replace loads of elements that are already in a scalar."""
    known: dict[str, str] = {}
    same: dict[str, str] = {}
    result: list[Statement] = []
    for original in statements:
        statement = renamed(original, same, {}) if same else original
        if isinstance(statement, Load) and statement.index is None:
            if (scalar := known.get(statement.source)) is not None:
                same[statement.into] = scalar
                continue
            known[statement.source] = statement.into
        for name in views_written(statement):
            for other in aliases.together(name):
                known.pop(other, None)
        if isinstance(statement, Store) and statement.index is None and statement.into not in aliases.merging:
            known[statement.into] = statement.source
        result.append(statement)
    return tuple(result) if same else statements


def _without_dead_stores(statements: tuple[Statement, ...], aliases: _Aliases) -> tuple[Statement, ...]:
    """Drop stores that are overwritten, or that go to an allocation, before anything reads them."""
    unread = set(aliases.allocations)  # no element is read later
    overwritten: set[str] = set()  # the first element is stored again before it is read
    kept: list[Statement] = []
    for statement in reversed(statements):
        read = set(views_read(statement))
        if isinstance(statement, Store):
            into, plain = statement.into, statement.into not in aliases.merging
            if plain and (into in unread or (into in overwritten and statement.index is None)):
                continue
            if plain and statement.index is None:
                overwritten.add(into)
            elif not plain:
                read.add(into)
        for name in read:
            together = aliases.together(name)
            unread.difference_update(together)
            overwritten.difference_update(together)
        kept.append(statement)
    return statements if len(kept) == len(statements) else tuple(reversed(kept))
