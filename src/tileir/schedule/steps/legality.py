"""Legality of loops as a grid, threads or vector lanes, by the elements that their iterations write.

Also limits on unrolled code, and on names of loops and memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from tileir.poly.affine import Affine, movement
from tileir.schedule.nest import atomic_names, chosen_by_data
from tileir.schedule.remarks import Refused, refused
from tileir.schedule.tree import Item, Known, Leaf, Loop, Tree, sizes_of, walk
from tileir.stripe.bindings import Binding


def shared_merge(loop: Loop) -> str | None:
    """Return outer memory that several iterations of a loop may merge into without atomics; None if there is none."""
    items = walk((loop,))
    inside = [item for item in items if isinstance(item, Leaf)]
    merging = [(leaf, use) for leaf in inside for use in leaf.uses if use.merges and use.direction.writes]
    own = {each.name for item in items if isinstance(item, Loop) for each in item.allocations}
    merging = [(leaf, use) for leaf, use in merging if use.root not in own]
    if not merging:
        return None
    sizes = sizes_of(loop.body)
    for leaf, use in merging:
        axes = use.access[1:] if use.name in chosen_by_data(leaf.statements) else use.access
        apart = any(_moves_apart(axis, loop.name, sizes) for axis in axes)
        if not apart and use.name not in atomic_names(leaf.statements):
            return use.root
    return None


def _moves_apart(axis: Affine, loop: str, sizes: Mapping[str, int]) -> bool:
    """Return whether a loop's step exceeds the distance covered by the inner loops, of these sizes."""
    others = ((sizes.get(name, inf) - 1) * abs(int(each)) for name, each in axis.terms if name != loop)
    return abs(int(axis.coefficient(loop))) > sum(others)


MOST_CHANNELS: Final = 4
"""Lanes may be so many elements apart where they write: those of pixels whose channels are written in turn."""


def no_vector(loop: Loop, most: float = MOST_CHANNELS) -> Refused | None:
    """Return the reason why the iterations of a loop cannot be vector lanes; None where they can.

    Lanes merge one after the other into elements chosen by data, and at once into a single element. Elsewhere, they
    write elements at most ``most`` elements apart.
    """
    writing = ((leaf, use) for leaf in loop.leaves for use in leaf.uses if use.direction.writes)
    for leaf, use in writing:
        stride = movement(use.access, use.strides, loop.name)
        if 1 <= stride <= most:
            continue
        alone = not stride and all(each.root != use.root or each is use for each in leaf.uses)
        if not use.merges or not (alone or use.name in chosen_by_data(leaf.statements)):
            return refused("TR721", loop=loop.name, memory=use.root, stride=stride)
    return None


_MOST_UNROLLED: Final = 1 << 12
"""So many statements one after the other take back ends half a minute, and twice as many four times as long."""


def too_long(items: tuple[Item, ...]) -> Refused | None:
    """Return the reason why the code of a kernel would take too long to compile; None where it would not."""
    copies = unrolled(items)
    return refused("TR755", statements=copies, most=_MOST_UNROLLED) if copies > _MOST_UNROLLED else None


def unrolled(items: tuple[Item, ...]) -> int:
    """Return the number of statements after unrolling."""
    return sum(
        len(item.statements)
        if isinstance(item, Leaf)
        else unrolled(item.body) * (item.size if item.binding is Binding.UNROLL else 1)
        for item in items
    )


_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_OTHER: Final = re.compile("[^A-Za-z0-9_]+")


def taken(known: Known, tree: Tree, into: tuple[str, ...], *replaced: str) -> Refused | None:
    """Return the reason why loops and memory cannot have these names, given the replaced ones; None where they can."""
    if known.trusted:
        return None
    names = tree.taken()
    again = [name for at, name in enumerate(into) if name in into[:at] or (name not in replaced and name in names)]
    return refused("TR705", name=again[0]) if again else against_names(into)


def against_names(names: Iterable[str]) -> Refused | None:
    """Return the reason why names cannot be written in text; None where they can."""
    return next((refused("TR760", name=name) for name in names if not _NAME.fullmatch(name)), None)


def word(name: str) -> str:
    """Return a tensor's name for the text of steps, in quotes if it has dots."""
    return _OTHER.sub("_", name)
