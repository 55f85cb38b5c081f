"""Kernels that do the same to different tensors: which they are, and what is made of one made of another.

Kernels count as twins where they hold the very same statements, as the pass ``share_names`` lets them, and what they
see outside is laid out alike. What looks at one kernel at a time, and at names only to tell them apart, then needs to
look at the first of them only: passes, the verifier and the lowering do so.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from tileir.stripe.ir import Block, Refinement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tileir.stripe.ir import Statement


def getter(kind: type[attrs.AttrsInstance], *without: str) -> Callable[[object], object]:
    """Return a function that gives all fields of a node but some."""
    return attrgetter(*(field.name for field in attrs.fields(kind) if field.name not in without))


_head: Final = getter(Block, "name", "comments", "refinements", "statements")
_view: Final = getter(Refinement, "source")
_layout: Final = getter(Refinement, "name", "source")


def twins(block: Block) -> dict[int, Block]:
    """Return the first of its twins for each later one, by the :func:`id` of that.

    Args:
        block: The main block, or the body of a loop. It costs next to nothing where no kernels share statements.

    """
    kernels = [statement for statement in block.statements if isinstance(statement, Block)]
    counts = Counter(id(kernel.statements) for kernel in kernels)
    if len(counts) == len(kernels):
        return {}
    views = {view.name: view for view in block.refinements}
    firsts: dict[object, Block] = {}
    found: dict[int, Block] = {}
    for kernel in kernels:
        if counts[id(kernel.statements)] > 1:
            first = firsts.setdefault(_key(kernel, views), kernel)
            if first is not kernel:
                found[id(kernel)] = first
    return found


def _key(kernel: Block, views: Mapping[str, Refinement]) -> object:
    """Return what twins have in common."""
    own = tuple(map(_view, kernel.refinements))
    return id(kernel.statements), _head(kernel), own, outside(kernel, views)


def outside(kernel: Block, views: Mapping[str, Refinement]) -> object:
    """Return what a kernel sees of the views around it: which of its own see the same, and how those are laid out."""
    sources: dict[str, int] = {}
    numbers = tuple(sources.setdefault(view.source, len(sources)) for view in kernel.refinements)
    memory: dict[str, int] = {}
    seen = (views.get(source) for source in sources)
    layouts = tuple(
        None if view is None else (memory.setdefault(view.source, len(memory)), _layout(view)) for view in seen
    )
    return numbers, layouts


def as_twin(made: Statement, first: Block, twin: Block) -> Statement:
    """Return what becomes of ``twin`` where ``made`` is what became of ``first``."""
    if made is first or not isinstance(made, Block):
        return twin if made is first else made
    sources = {old.source: new.source for old, new in zip(first.refinements, twin.refinements, strict=True)}
    derived = bool(first.name) and made.name.startswith(first.name)
    return attrs.evolve(
        made,
        name=twin.name + made.name.removeprefix(first.name) if derived else made.name,
        comments=twin.comments if made.comments == first.comments else made.comments,
        refinements=tuple(
            attrs.evolve(view, source=sources[view.source]) if view.source in sources else view
            for view in made.refinements
        ),
    )
