"""Scopes: blocks with the facts about enclosing blocks that checks need."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine, Rational
from tileir.stripe.ir import Block, Refinement


@attrs.frozen(eq=False)
class Scope:
    """A block, the scope of its parent, and facts derived from both.

    Attributes:
        block: The block itself.
        parent: The scope of its parent; None for an entry block.
        number: Its position among the statements of the parent.
        depth: 1 for an entry block, and one more for each level of nesting.
        views: Its refinements by name; of two with one name, the later.
        values: Least and greatest value of each index.
        guarded: Whether this or an enclosing block has constraints, so that not all points of the box run.
    """

    block: Block
    parent: Scope | None
    number: int
    depth: int
    views: dict[str, Refinement]
    values: dict[str, tuple[Rational, Rational]]
    guarded: bool

    @property
    def place(self) -> str:
        """Place of the block for messages: the names from the outside in, or positions where there is no name."""
        names: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            names.append(scope.block.name or f"block {scope.number}")
            scope = scope.parent
        return " / ".join(reversed(names))

    def source(self, refinement: Refinement) -> Refinement | None:
        """Return the refinement of the parent that ``refinement`` views; None if there is none."""
        return None if self.parent is None else self.parent.views.get(refinement.source)

    def bounds(self, affine: Affine) -> tuple[Rational, Rational]:
        """Return the least and greatest value of ``affine`` over the box; unknown indices count as 0."""
        return _bounds(affine, self.values)


def scopes(block: Block, max_depth: int, known: Container[int] = ()) -> Iterator[Scope]:
    """Yield the scope of ``block`` and of all nested blocks, in text order, down to ``max_depth`` levels.

    Blocks whose :func:`id` is in ``known`` are left out. Without recursion, so that unbounded nesting does no harm.
    """
    pending = [enter(block, None, 0)]
    while pending:
        scope = pending.pop()
        yield scope
        if scope.depth < max_depth:
            statements = enumerate(scope.block.statements)
            inner = [(n, s) for n, s in statements if isinstance(s, Block) and id(s) not in known]
            pending.extend(enter(nested, scope, number) for number, nested in reversed(inner))


def enter(block: Block, parent: Scope | None, number: int) -> Scope:
    """Return the scope of ``block``, statement ``number`` of ``parent``."""
    return Scope(
        block,
        parent,
        number,
        1 if parent is None else parent.depth + 1,
        {refinement.name: refinement for refinement in block.refinements},
        _values(block, parent),
        bool(block.constraints) or (parent is not None and parent.guarded),
    )


def _values(block: Block, parent: Scope | None) -> dict[str, tuple[Rational, Rational]]:
    values: dict[str, tuple[Rational, Rational]] = {}
    for index in block.indices:
        low, high = (0, 0) if index.affine is None or parent is None else parent.bounds(index.affine)
        values[index.name] = (low, high + index.range - 1)
    return values


def _bounds(affine: Affine, values: dict[str, tuple[Rational, Rational]]) -> tuple[Rational, Rational]:
    low = high = affine.offset
    for name, coefficient in affine.terms:
        least, greatest = values.get(name, (0, 0))
        if coefficient > 0:
            low, high = low + coefficient * least, high + coefficient * greatest
        else:
            low, high = low + coefficient * greatest, high + coefficient * least
    return low, high
