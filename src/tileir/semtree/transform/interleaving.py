"""Interleaved accesses: vectors with small strides, as whole vectors of memory and shuffles.

Examples are the channels of channels-last pictures, and those of every other pixel. The loads of all channels become
loads of the whole range from the first element of the first lane to the last one of the last lane, and stores of all
channels become stores of whole vectors. No further elements are accessed, except those between elements that are read.
"""

from __future__ import annotations

from math import gcd
from typing import Final, TypeAlias

from tileir.core import NameScope, Op, attrs
from tileir.semtree.analysis.effects import assigns, is_plain, reads, writes
from tileir.semtree.ir import (
    Apply,
    Assign,
    Const,
    Declare,
    Expr,
    KernelFunction,
    Ramp,
    Shuffle,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import (
    bodies,
    kernel_names,
    map_bodies,
    variables_of,
    with_body,
)
from tileir.semtree.simplify.simplifier import simplify_expr

_STRIDE: Final = 4
"""Maximum stride of lanes; also at most half of their number."""
_LEAST_LANES: Final = 4

_Key: TypeAlias = tuple[str, "Expr", int, Type]


def interleave(kernel: KernelFunction) -> KernelFunction:
    """Return the kernel with accesses by whole vectors in place of interleaved vectors; itself if there are none."""
    shared = frozenset(param.name for param in kernel.params if not param.no_alias)
    body = _Bodies(NameScope.of(kernel_names(kernel)), shared).rewritten(kernel.body)
    return with_body(kernel, body)


@attrs.frozen(repr=False)
class _Access:
    """An access to an array: the position of a statement, and the distance of its first element from others."""

    position: int
    distance: int


@attrs.frozen(repr=False)
class _Group:
    """Accesses to one array with known distances between their first elements.

    Attributes:
        key: The array, the common part of the offsets, their stride, and the type of each access.
        stores: Whether they write.
        accesses: The accesses.
    """

    key: _Key
    stores: bool
    accesses: list[_Access] = attrs.field(factory=list)

    @property
    def first(self) -> int:
        """The least distance."""
        return min(access.distance for access in self.accesses)

    @property
    def is_worthwhile(self) -> bool:
        """True if whole vectors can replace the accesses: stores must leave no gaps."""
        return not self.stores or {a.distance - self.first for a in self.accesses} == set(range(self.key[2]))

    def takes(self, key: _Key, distance: int, *, stores: bool) -> bool:
        """Return whether an access belongs to the group, within its range of elements."""
        if (key, stores) != (self.key, self.stores):
            return False
        others = [access.distance for access in self.accesses]
        again = stores and distance in others
        return not again and max(*others, distance) - min(*others, distance) < key[2]


@attrs.frozen(repr=False)
class _Bodies:
    """Rewriter of the bodies of one kernel; ``shared`` are the arrays that may overlap each other."""

    names: NameScope
    shared: frozenset[str]

    def rewritten(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return statements with interleaved vectors as whole ones, including nested statements."""
        stmts = tuple([map_bodies(self.rewritten, stmt) for stmt in stmts])
        made: dict[int, tuple[Stmt, ...]] = {}
        for group in self._groups(stmts):
            if group.is_worthwhile:
                (self._stores if group.stores else self._loads)(group, stmts, made)
        if not made:
            return stmts
        return tuple(new for position, stmt in enumerate(stmts) for new in made.get(position, (stmt,)))

    def _groups(self, stmts: tuple[Stmt, ...]) -> list[_Group]:
        """Return groups of accesses that can be moved past all statements between them."""
        done: list[_Group] = []
        waiting: list[_Group] = []
        for position, stmt in enumerate(stmts):
            stays = [group for group in waiting if not self._separates(stmt, group)]
            done += [group for group in waiting if group not in stays]
            waiting = stays
            found = _strided(stmt)
            if found is not None:
                key, distance = found
                stores = isinstance(stmt, Assign)
                group = next((g for g in waiting if g.takes(key, distance, stores=stores)), None)
                if group is None:
                    group = _Group(key, stores)
                    waiting.append(group)
                group.accesses.append(_Access(position, distance))
        return [*done, *waiting]

    def _separates(self, stmt: Stmt, group: _Group) -> bool:
        """Return whether accesses of a group cannot be moved past a statement."""
        array, base = group.key[:2]
        if bodies(stmt) or not is_plain(stmt) or not set(variables_of(base)).isdisjoint(assigns(stmt)):
            return True
        found = _strided(stmt) if group.stores and isinstance(stmt, Assign) else None
        joins = found is not None and group.takes(*found, stores=True)
        touched = () if joins else writes(stmt)
        if group.stores:
            touched += reads(stmt)
        return any(array == place.array or {array, place.array} <= self.shared for place in touched)

    def _loads(self, group: _Group, stmts: tuple[Stmt, ...], made: dict[int, tuple[Stmt, ...]]) -> None:
        """Load whole vectors at the first load of the group, and shuffle the lanes of each."""
        array, base, stride, kind = group.key
        distances = [access.distance for access in group.accesses]
        count = max(distances) - group.first + stride * (kind.lanes - 1) + 1
        starts = [min(start, count - kind.lanes) for start in range(0, count, kind.lanes)]
        vectors = [Var(self.names.fresh(f"{array}_run"), kind) for _ in starts]
        loads = [
            Declare(vector, Subscript(array, _moved(base, group.first + start), kind))
            for vector, start in zip(vectors, starts, strict=True)
        ]
        for number, access in enumerate(group.accesses):
            stmt = stmts[access.position]
            assert isinstance(stmt, Declare)  # that is where loads are
            places = [access.distance - group.first + stride * lane for lane in range(kind.lanes)]
            lanes = tuple(_lane(place, starts, kind.lanes) for place in places)
            steps, picked = self._picked(tuple(vectors), lanes)
            made[access.position] = (*(() if number else loads), *steps, Declare(stmt.variable, picked))

    def _stores(self, group: _Group, stmts: tuple[Stmt, ...], made: dict[int, tuple[Stmt, ...]]) -> None:
        """Store whole vectors at the last store of the group."""
        array, base, stride, kind = group.key
        channels: dict[int, Var] = {}
        for access in group.accesses:
            stmt = stmts[access.position]
            assert isinstance(stmt, Assign)  # that is where stores are
            channels[access.distance - group.first] = channel = Var(self.names.fresh(f"{array}_channel"), kind)
            made[access.position] = (Declare(channel, stmt.value),)
        operands = tuple(channels[number] for number in range(stride))
        stores: list[Stmt] = []
        in_place = gcd(stride, kind.lanes) == 1
        if in_place:  # each lane goes to its final place; stores then only select between channels
            stores, operands = self._turned(operands)
        for start in range(0, stride * kind.lanes, kind.lanes):
            places = range(start, start + kind.lanes)
            lanes = tuple(
                place % stride * kind.lanes + (place - start if in_place else place // stride) for place in places
            )
            steps, picked = self._picked(operands, lanes)
            stores += [*steps, Assign(Subscript(array, _moved(base, group.first + start), kind), picked)]
        last = group.accesses[-1].position
        made[last] = (*made[last], *stores)

    def _turned(self, channels: tuple[Var, ...]) -> tuple[list[Stmt], tuple[Var, ...]]:
        """Return channels with lanes in their final places in the vectors of memory, and the statements for that."""
        stride, count = len(channels), channels[0].type.lanes
        turned = tuple(Var(self.names.fresh(channel.name), channel.type) for channel in channels)
        steps: list[Stmt] = []
        for number, (channel, there) in enumerate(zip(channels, turned, strict=True)):
            lanes = {(stride * lane + number) % count: lane for lane in range(count)}
            steps.append(Declare(there, Shuffle((channel,), tuple(lanes[place] for place in range(count)))))
        return steps, turned

    def _picked(self, vectors: tuple[Var, ...], lanes: tuple[int, ...]) -> tuple[list[Stmt], Shuffle]:
        """Return as many lanes as each vector has, by shuffles of two vectors, as processors have them.

        A lane to be filled by a later step meanwhile has any value. Of three vectors or more, lanes with distinct
        places are first selected in place, which takes no shuffle, and then put in order.
        """
        count = len(lanes)
        places = [divmod(lane, count) for lane in lanes]
        first, *others = sorted({number for number, _ in places})
        steps: list[Stmt] = []
        order = [lane for _, lane in places]
        if len(others) > 1 and order != sorted(order) and len(set(order)) == count:
            steps, chosen_in_place = self._picked(vectors, tuple(sorted(lanes, key=lambda lane: lane % count)))
            chosen = Var(self.names.fresh("chosen"), vectors[first].type)
            return [*steps, Declare(chosen, chosen_in_place)], Shuffle((chosen,), tuple(order))
        if not others:
            return steps, Shuffle((vectors[first],), tuple(lane for _, lane in places))
        before, done = (
            vectors[first],
            tuple(lane if number == first else at for at, (number, lane) in enumerate(places)),
        )
        while others:
            second = others.pop(0)
            taken = tuple(
                count + lane if number == second else held for (number, lane), held in zip(places, done, strict=True)
            )
            picked = Shuffle((before, vectors[second]), taken)
            if others:
                before, done = Var(self.names.fresh("picked"), before.type), tuple(range(count))
                steps.append(Declare(before, picked))
        return steps, picked


def _strided(stmt: Stmt) -> tuple[_Key, int] | None:
    """Return the elements and the stride of a strided load or store; None for other statements."""
    access = stmt.value if isinstance(stmt, Declare) else stmt.target if isinstance(stmt, Assign) else None
    if not isinstance(access, Subscript) or not isinstance(access.offset, Ramp):
        return None
    ramp, kind = access.offset, access.type
    near = 2 <= ramp.stride <= max(_STRIDE, kind.lanes // 2)
    if not near or kind.lanes < _LEAST_LANES or kind.dtype.is_bool:
        return None
    match ramp.base:
        case Apply(op=Op.ADD, args=(base, Const(value=distance))):
            return (access.array, base, ramp.stride, kind), int(distance)
        case Apply(op=Op.SUB, args=(base, Const(value=distance))):
            return (access.array, base, ramp.stride, kind), -int(distance)
        case Const(value=distance):
            return (access.array, Const(0, ramp.base.type), ramp.stride, kind), int(distance)
        case base:
            return (access.array, base, ramp.stride, kind), 0


def _moved(base: Expr, distance: int) -> Expr:
    return simplify_expr(Apply(Op.ADD, (base, Const.of(distance, base.type))))


def _lane(place: int, starts: list[int], lanes: int) -> int:
    """Return the lane, among all vectors, of an element; ``starts`` are the first elements of the vectors."""
    number = next(n for n, start in enumerate(starts) if start <= place < start + lanes)
    return number * lanes + place - starts[number]
