"""Threads of groups in a loop tree: legality of shared memory, and private registers of each thread.

Steps bind loops to threads one at a time; after each, :func:`with_threads` decides whether a device could run the tree.
At the end it gives memory in registers the axis over threads that lowering asks for.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from tileir.core.nodes import attrs
from tileir.core.targets import hardware
from tileir.poly.affine import Affine
from tileir.schedule.nest import Use, atomic_names, product
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.tree import Item, Leaf, Loop, Tree, fills, leaves, walk
from tileir.stripe import ir as stripe
from tileir.stripe.bindings import Binding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tileir.core.targets.template_expressions import Value

    Path: TypeAlias = tuple[Loop, ...]


@refusing
def with_threads(tree: Tree, facts: Mapping[str, Value]) -> Tree | Refused:
    """Return the tree with registers of each thread of a group; the tree itself where no loops are bound to threads.

    Refused where loops over threads are nested apart, exchange data in memory that is not local, or exceed
    ``GROUP_THREADS``, and where local memory exceeds ``LOCAL_BYTES``, as far as ``facts`` give these.
    """
    if not any(is_thread(loop) for loop in tree.loops()):
        return tree
    seen = list(_leaves(tree.body))
    rule_out(_against_nesting(seen) or _against_size(tree, seen, facts))
    owned: dict[str, tuple[int, ...]] = {}
    local = set()
    for memory, path in _allocations(tree):
        places = {device.name for device in memory.location or ()}
        inside = any(is_thread(loop) for loop in path)
        if _is_local(memory):
            local.add(memory.name)
            if inside:
                return refused("TR729", memory=memory.name)
        elif not inside and hardware.SCRATCH not in places:
            axes = accepted(_axes_of_threads(memory.name, seen))
            owned[memory.name] = axes
        elif inside:
            local.add(memory.name)  # each thread has it, so that nobody hands it on
    if (root := _handed_on(seen, local | owned.keys())) is not None:
        return refused("TR731", memory=root)
    return _ThreadAxes(owned).tree(tree, seen)


def unshared(tree: Tree) -> str | None:
    """Return local memory made in a loop without threads, which one thread of a group runs; None if there is none."""
    alone = (
        memory.name
        for memory, path in _allocations(tree)
        if _is_local(memory)
        and path
        and not any(isinstance(each, Loop) and is_thread(each) for each in walk(path[-1:]))
    )
    return next(alone, None)


def is_thread(loop: Loop) -> bool:
    """Return whether a loop is bound to the threads of a group."""
    return loop.binding is Binding.THREAD and loop.size > 1


def _team(path: Path) -> Path:
    return tuple(loop for loop in path if is_thread(loop))


def _leaves(items: tuple[Item, ...], path: Path = ()) -> Iterator[tuple[Leaf, Path]]:
    for item in items:
        if isinstance(item, Leaf):
            yield item, path
        else:
            yield from _leaves(item.body, (*path, item))


def _allocations(tree: Tree) -> Iterator[tuple[stripe.Refinement, Path]]:
    """Yield the memory of the kernel with the loops in which it is made."""
    yield from ((memory, ()) for memory in tree.allocations)
    pending: list[tuple[tuple[Item, ...], Path]] = [(tree.body, ())]
    while pending:
        items, path = pending.pop()
        for item in items:
            if isinstance(item, Loop):
                inner = (*path, item)
                yield from ((memory, inner) for memory in item.allocations)
                pending.append((item.body, inner))


def _against_nesting(seen: list[tuple[Leaf, Path]]) -> Refused | None:
    """Return the reason why loops over threads do not form one block, as they are not perfectly nested."""
    for _, path in seen:
        numbers = [number for number, loop in enumerate(path) if is_thread(loop)]
        for outer, inner in pairwise(numbers):
            between = path[outer]
            if inner != outer + 1 or len(between.body) != 1 or between.allocations:
                return refused("TR727", outer=path[outer].name, inner=path[inner].name)
    return None


def against_running_ahead(items: tuple[Item, ...]) -> Refused | None:
    """Return the reason why a pipelined loop cannot stage its memory ahead; None where it can.

    The loop must first fill memory that the threads of a group share, and own no other memory. Threads must run its
    copies and all users of the copies in parallel. Other pipelined loops may hold nothing but the loop.
    """
    for loop in walk(items):
        if not isinstance(loop, Loop) or loop.stages == 1:
            continue
        only = loop.body[0]
        if isinstance(only, Loop) and only.stages == loop.stages and len(loop.body) == 1 and not loop.allocations:
            continue
        filled = {use.root for leaf in leaves(loop.body[: fills(loop)]) for use in leaf.uses if use.direction.writes}
        apart = [each.name for each in loop.allocations if not _is_local(each) or each.name not in filled]
        below = [each for each in walk(loop.body) if isinstance(each, Loop)]
        if apart or not filled or loop.binding is not None or any(each.stages > 1 for each in below):
            return refused("TR739", loop=loop.name, memory=", ".join(apart))
        inner = [
            each for part in loop.body if isinstance(part, Loop) and not is_thread(part) for each in walk(part.body)
        ]
        if any(isinstance(each, Loop) and is_thread(each) for each in inner):
            return refused("TR741", loop=loop.name)
    return None


def _is_local(memory: stripe.Refinement) -> bool:
    return any(device.name == hardware.LOCAL for device in memory.location or ())


def _against_size(tree: Tree, seen: list[tuple[Leaf, Path]], facts: Mapping[str, Value]) -> Refused | None:
    threads, most = max(product(loop.size for loop in _team(path)) for _, path in seen), facts.get("GROUP_THREADS")
    if isinstance(most, int) and threads > most:
        return refused("TR728", threads=threads, most=most)
    used = sum(
        memory.shape.span * memory.shape.dtype.itemsize * (path[-1].stages if path else 1)
        for memory, path in _allocations(tree)
        if _is_local(memory)
    )
    room = facts.get("LOCAL_BYTES", None if most is None else 0)
    return refused("TR732", bytes=used, most=room) if isinstance(room, int) and used > room else None


def _axes_of_threads(root: str, seen: list[tuple[Leaf, Path]]) -> tuple[int, ...] | Refused:
    """Return the axes of memory along which the threads of a group lie, in the order of their loops."""
    found = set()
    for leaf, path in seen:
        team = _team(path)
        for use in (use for use in leaf.uses if use.root == root):
            axes = tuple(use.access.index(at) for loop in team if (at := Affine.index(loop.name)) in use.access)
            moving = {name for affine in use.access for name in affine.indices}
            others = {n for axis, affine in enumerate(use.access) if axis not in axes for n in affine.indices}
            names = {loop.name for loop in team}
            if not names <= moving or names & others:
                return refused("TR730", memory=root, threads=", ".join(names))
            found.add((axes, tuple(loop.size for loop in team)))
    if len(found) > 1:
        return refused("TR730", memory=root, threads=", ".join(sorted({str(sizes) for _, sizes in found})))
    return next((axes for axes, _ in found), ())


def _handed_on(seen: list[tuple[Leaf, Path]], apart: set[str]) -> str | None:
    """Return memory in which a thread may read or write elements that another thread wrote; None if there is none."""
    touches: dict[str, list[_ThreadAccess]] = {}
    updated: dict[str, bool] = {}  # whether every access to memory is an atomic update
    for leaf, path in seen:
        atomic = atomic_names(leaf.statements)
        first = next((number for number, loop in enumerate(path) if is_thread(loop)), None)
        phase = (*map(id, path), id(leaf)) if first is None else (*map(id, path[: first + 1]),)
        again = any(loop.binding is not Binding.GRID and loop.size > 1 for loop in path[:first])
        for use in (use for use in leaf.uses if use.root not in apart):
            team = bool(_team(path))
            updated[use.root] = updated.get(use.root, True) and use.name in atomic
            touches.setdefault(use.root, []).append(
                _ThreadAccess(phase, use.direction.writes, team, again, _own(use, path))
            )
    for root, found in touches.items():
        meets = len({touch.phase for touch in found}) > 1 or any(touch.again for touch in found)
        alone = len({touch.own for touch in found}) == 1 and found[0].own is not None
        if updated[root]:
            continue
        if meets and not alone and any(touch.writes for touch in found) and any(touch.team for touch in found):
            return root
    return None


@attrs.frozen(repr=False)
class _ThreadAccess:
    """An access to memory: its block of threads, repetition by outer loops, and each thread's position."""

    phase: tuple[int, ...]
    writes: bool
    team: bool
    again: bool
    own: tuple[int, Affine] | None


def _own(use: Use, path: Path) -> tuple[int, Affine] | None:
    """Return the distance between neighbouring threads and the position of the first, if each has its own elements."""
    address = use.address
    steps, threads = set(), 1
    for loop in reversed(_team(path)):
        steps.add(divmod(int(address.coefficient(loop.name)), threads))
        threads *= loop.size
    rest = address.substitute({loop.name: Affine() for loop in _team(path)})
    grid = {loop.name for loop in path if loop.binding is Binding.GRID}
    if len(steps) != 1 or not set(rest.indices) <= grid:
        return None
    step, left = steps.pop()
    return None if left or not step else (step, rest)


@attrs.frozen(eq=False, repr=False)
class _ThreadAxes:
    """Replacement of the axes of memory along threads by one axis for the thread's number."""

    owned: Mapping[str, tuple[int, ...]]

    def tree(self, tree: Tree, seen: list[tuple[Leaf, Path]]) -> Tree:
        """Return the tree with each thread's memory addressed by the thread's number."""
        if not self.owned:
            return tree
        sizes = {
            use.root: product(loop.size for loop in _team(path))
            for leaf, path in seen
            for use in leaf.uses
            if use.root in self.owned
        }
        shapes = {memory.name: self._numbered(memory, sizes) for memory, _ in _allocations(tree)}
        return attrs.evolve(
            tree,
            body=self._items(tree.body, (), shapes),
            allocations=tuple(shapes[memory.name] for memory in tree.allocations),
        )

    def _numbered(self, memory: stripe.Refinement, threads: Mapping[str, int]) -> stripe.Refinement:
        if memory.name not in self.owned:
            return memory
        sizes = (threads.get(memory.name, 1), *self._others(memory.name, memory.shape.sizes))
        return stripe.allocation(memory.name, memory.shape.dtype, sizes, memory.location)

    def _others(self, root: str, axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(each for axis, each in enumerate(axes) if axis not in self.owned[root])

    def _items(self, items: tuple[Item, ...], path: Path, shapes: Mapping[str, stripe.Refinement]) -> tuple[Item, ...]:
        result: list[Item] = []
        for item in items:
            if isinstance(item, Loop):
                memory = tuple(shapes[each.name] for each in item.allocations)
                body = self._items(item.body, (*path, item), shapes)
                result.append(item.around(body, memory))
            else:
                result.append(item.with_uses(lambda use: self._use(use, path, shapes)))
        return tuple(result)

    def _use(self, use: Use, path: Path, shapes: Mapping[str, stripe.Refinement]) -> Use:
        if use.root not in self.owned:
            return use
        number = Affine()
        for loop in _team(path):
            number = number * loop.size + Affine.index(loop.name)
        axes = self.owned[use.root]
        access = tuple(affine for axis, affine in enumerate(use.access) if axis not in axes)
        sizes = (1, *self._others(use.root, use.sizes)) if use.sizes else ()
        return attrs.evolve(use, access=(number, *access), strides=shapes[use.root].shape.strides, sizes=sizes)
