"""Hand indices of blocks down to blocks inside them, where they are not visible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from tileir.core.text.names import NameScope
from tileir.passes.kernels.walk import choice
from tileir.poly.affine import Affine
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import enter
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import Block, Index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tileir.stripe.ir import Program, Statement


def hand_down(program: Program, needed: Callable[[Aliases], Iterable[str]], reqs: tuple[str, ...]) -> Program:
    """Return the program with all indices visible that the selected blocks need; itself where they are already.

    ``needed`` names them ``depth:index``, as :class:`tileir.stripe.aliases.Aliases` does.
    """
    entry, missing = _handed(Aliases(enter(program.entry, None, 0)), needed, choice(program, reqs))
    if missing:
        raise KeyError(f"no block has the indices {sorted(missing)}")
    return with_entry(program, entry)


def visible(aliases: Aliases) -> dict[str, str]:
    """Return the name in a block of each index, named ``depth:index``, of it or of a block around it."""
    found: dict[str, str] = {}
    for name, value in aliases.values.items():
        if value.offset == 0 and len(value.terms) == 1 and value.terms[0][1] == 1:
            found.setdefault(value.terms[0][0], name)
    return found


def _handed(
    aliases: Aliases, needed: Callable[[Aliases], Iterable[str]], chosen: Callable[[Block], bool]
) -> tuple[Block, dict[str, str]]:
    """Return a block with indices added, and for each of them, by ``depth:index``, its name; all still start at 0."""
    block = aliases.scope.block
    asked = dict.fromkeys(needed(aliases)) if chosen(block) else {}
    inner: list[tuple[Block, dict[str, str]] | Statement] = []
    for number, statement in enumerate(block.statements):
        if not isinstance(statement, Block):
            inner.append(statement)
            continue
        handed = _handed(Aliases(enter(statement, aliases.scope, number), aliases), needed, chosen)
        asked.update(dict.fromkeys(handed[1]))
        inner.append(handed)
    known = visible(aliases)
    names = NameScope.of(index.name for index in block.indices)
    added = {symbol: names.fresh(symbol.partition(":")[2]) for symbol in asked if symbol not in known}
    known.update(added)
    statements = tuple(_filled(item, known) if isinstance(item, tuple) else item for item in inner)
    if not added and all(new is old for new, old in zip(statements, block.statements, strict=True)):
        return block, {}
    more = tuple(Index(name, 1) for name in added.values())
    return attrs.evolve(block, indices=(*block.indices, *more), statements=statements), added


def _filled(handed: tuple[Block, dict[str, str]], known: dict[str, str]) -> Block:
    """Return an inner block whose new indices get their values from the block around it."""
    block, added = handed
    values = {name: known[symbol] for symbol, name in added.items()}
    if not values:
        return block
    indices = tuple(
        attrs.evolve(i, affine=Affine.index(values[i.name])) if i.name in values else i for i in block.indices
    )
    return attrs.evolve(block, indices=indices)
