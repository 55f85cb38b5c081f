"""Conflicts between two uses of memory, decided by integer programs over the loops around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tileir.core.nodes import attrs
from tileir.poly.affine import Affine
from tileir.poly.box import feasible
from tileir.poly.constraint import system
from tileir.schedule.nest import Use
from tileir.schedule.tree import Item, Leaf, Loop


@attrs.frozen(repr=False)
class MemoryAccess:
    """A use of memory in a leaf, and the loops around it, outermost first."""

    use: Use
    leaf: Leaf
    path: tuple[Loop, ...]


def memory_accesses(items: Iterable[Item], path: tuple[Loop, ...] = ()) -> Iterator[MemoryAccess]:
    """Yield all uses below items, in order, with the loops of a path and those around each use."""
    for item in items:
        if isinstance(item, Loop):
            yield from memory_accesses(item.body, (*path, item))
        else:
            yield from (MemoryAccess(use, item, path) for use in item.uses)


def index_of_second_use(loop: str) -> Affine:
    """Return the name of a loop's index in the iteration of the second of two uses."""
    return Affine.index(f"'{loop}")


def may_meet(
    one: MemoryAccess,
    other: MemoryAccess,
    around: Iterable[Loop],
    given: Iterable[tuple[Affine, int | None]],
    moved: Mapping[int, Affine] | None = None,
) -> bool:
    """Return whether two uses may touch one element in different iterations of their loops, with equal outer indices.

    Exact for accesses and tests with whole coefficients, by integer programming; True where that is undecided.

    Args:
        one: A use.
        other: Another use, whose iterations are named by :func:`index_of_second_use`.
        around: Loops around both.
        given: Further facts: affines of at least 0 and below a bound.
        moved: Displacement of the other use's elements, by axis, over indices of at least 0.
    """
    if one.use.root != other.use.root or len(one.use.access) != len(other.use.access):
        return True
    renamed = {loop.name: index_of_second_use(loop.name) for loop in other.path}
    sizes = {loop.name: loop.size for loop in (*around, *one.path)} | {
        f"'{each.name}": each.size for each in other.path
    }
    held = [*given, *((Affine.index(name), size) for name, size in sizes.items())]
    tests = (*one.leaf.constraints, *(test.substitute(renamed) for test in other.leaf.constraints))
    held += [(test, None) for test in tests if test.is_integral]
    free = moved or {}
    rank = len(one.use.access)
    extents = zip(one.use.sizes or (1,) * rank, other.use.sizes or (1,) * rank, strict=True)
    for axis, (mine, theirs, (size, their_size)) in enumerate(
        zip(one.use.access, other.use.access, extents, strict=True)
    ):
        further = mine - theirs.substitute(renamed) + free.get(axis, Affine()) + (their_size - 1)
        if not further.is_integral:
            return True
        held.append((further, size + their_size - 1))
    names = dict.fromkeys((*sizes, *(name for affine in free.values() for name in affine.indices)))
    found = system(names, held)
    return found is not None and feasible(found) is not False
