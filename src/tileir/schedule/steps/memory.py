"""Steps over memory: stage, accumulate, rfactor, place, and pipeline, which overlaps staging with computation."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import pairwise
from typing import ClassVar, Final

from tileir.core import DType, attrs
from tileir.core.targets import hardware
from tileir.poly.affine import Affine, exact
from tileir.schedule.block_writer import identity_of
from tileir.schedule.conflicts import memory_accesses
from tileir.schedule.nest import Use, atomic_names, product
from tileir.schedule.remarks import Refused, accepted, refused, refusing, rule_out
from tileir.schedule.steps.legality import taken
from tileir.schedule.tree import (
    Item,
    Known,
    Leaf,
    Loop,
    Replaced,
    Rewrite,
    Size,
    Tree,
    chain_of,
    changed,
    leaves,
    map_uses,
    nested,
    sizes_of,
    untested,
    with_loops_replaced,
)
from tileir.stripe import ir as stripe


class Level(enum.Enum):
    """Place of a kernel's memory."""

    REGISTER = "register"
    LOCAL = "local"
    SCRATCH = "scratch"

    @property
    def location(self) -> stripe.Location:
        """The device name in Stripe."""
        names = {Level.REGISTER: hardware.REGISTER, Level.LOCAL: hardware.LOCAL, Level.SCRATCH: hardware.SCRATCH}
        return (stripe.Device(names[self]),)


class Outside(enum.Enum):
    """Treatment of elements of a copy beyond the end of the tensor."""

    TEST = "test"  # a constraint keeps them from being copied
    CLAMP = "clamp"  # the nearest element of the tensor is copied instead, so that nothing is tested
    ZERO = "zero"  # zeros are stored instead, as where padded loops leave points out; asynchronous copies can do it


@attrs.frozen(repr=False)
class _Footprint:
    """The part of a tensor that the uses below a loop touch in one iteration of it.

    Attributes:
        first: Its start along each axis, over the loops around.
        sizes: Its extent along each axis.
    """

    first: tuple[Affine, ...]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, uses: list[Use], inner: Mapping[str, int]) -> _Footprint | Refused:
        """Return the bounding box of the elements of a tensor that ``uses`` touch while the loops in ``inner`` run."""
        first, sizes = [], []
        for axis in range(len(uses[0].access)):
            outside = {_outside(use.access[axis], inner) for use in uses}
            if len(outside) != 1:
                return refused("TR711", tensor=uses[0].root, axis=axis)
            reach = [(use.access[axis] - _outside(use.access[axis], inner)).bounds(inner) for use in uses]
            low = min(low for low, _ in reach)
            first.append(next(iter(outside)) + low)
            seen = (use.sizes[axis] if use.sizes else 1 for use in uses)
            sizes.append(int(max(high + size for (_, high), size in zip(reach, seen, strict=True)) - low))
        return cls(tuple(first), tuple(sizes))

    def within(self, access: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """Return an access relative to the start of the footprint."""
        return tuple(affine - first for affine, first in zip(access, self.first, strict=True))

    def left_out(self, reading: Sequence[Leaf], places: Sequence[Affine]) -> tuple[tuple[Affine, ...], bool]:  # noqa: ARG002
        """Return no tests: all elements of the tensor are copied, whatever loops leave out."""
        return (), False

    def at(self, places: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the access of the element at a place in the footprint."""
        return tuple(first + place for first, place in zip(self.first, places, strict=True))


@attrs.frozen(repr=False)
class _Points:
    """The elements of a tensor at the points of some loops, with one axis for each loop.

    Attributes:
        access: The access of all uses of the tensor.
        loops: The names of the loops.
        sizes: Their sizes.
        inner: The names of all loops that run at these points.
    """

    access: tuple[Affine, ...]
    loops: tuple[str, ...]
    sizes: tuple[int, ...]
    inner: frozenset[str]

    @classmethod
    def of(cls, uses: list[Use], loops: tuple[str, ...], inner: Mapping[str, int]) -> _Points | Refused:
        """Return the points of ``loops``, which must be all loops among ``inner`` that move the tensor."""
        moving = {name for use in uses for affine in use.access for name in affine.indices if name in inner}
        if not moving <= {*loops} <= inner.keys() or len({use.access for use in uses}) != 1:
            return refused("TR762", tensor=uses[0].root, loops=", ".join(name for name in inner if name in moving))
        return cls(uses[0].access, loops, tuple(inner[name] for name in loops), frozenset(inner))

    def left_out(self, reading: Sequence[Leaf], places: Sequence[Affine]) -> tuple[tuple[Affine, ...], bool]:
        """Return the tests by which padded loops leave points out, and whether no other element is outside."""
        values = dict(zip(self.loops, places, strict=True))
        outer = self.inner - values.keys()
        groups = [{test for test in leaf.padded if not values.keys().isdisjoint(test.indices)} for leaf in reading]
        common = [t for t in reading[0].padded if all(t in each for each in groups) and outer.isdisjoint(t.indices)]
        safe = not any(leaf.constraints for leaf in reading) and all(len(each) == len(common) for each in groups)
        return tuple(test.substitute(values) for test in common), safe

    def within(self, access: tuple[Affine, ...]) -> tuple[Affine, ...]:  # noqa: ARG002  # a footprint has it
        """Return the place of the element that a use touches."""
        return tuple(map(Affine.index, self.loops))

    def at(self, places: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the access of the element at a place."""
        values = dict(zip(self.loops, places, strict=True))
        return tuple(affine.substitute(values) for affine in self.access)


def _outside(affine: Affine, inner: Mapping[str, int]) -> Affine:
    return Affine(tuple(term for term in affine.terms if term[0] not in inner), exact(0))


@attrs.frozen
class Stage:
    """Copy the part of a tensor that one iteration of a loop reads to its own memory, and read it there.

    The copy runs over loops named ``into``, ``_`` and the number of the axis, which further steps may split and bind.
    If loops that move the tensor are padded, loops named ``into``, ``_start_`` and the number of the axis clear the
    memory first.

    Attributes:
        tensor: A tensor that the kernel reads and does not write.
        at: The loop.
        into: The name of the memory.
        level: The level of the memory.
        order: Axes of the tensor in the order of the memory, the last one contiguous; if empty, the tensor's order.
        over: Loops that become axes of the memory, in place of the tensor's axes: all loops inside that move it.
        pad: Padding of the last axis of the memory in elements, against bank conflicts.
        lanes: Number of neighbours that are copied at once, by a loop over lanes named ``into`` and ``_lane``.
        outside: Treatment of elements beyond the end of the tensor.
    """

    name: ClassVar[str] = "stage"
    tensor: str
    at: str
    into: str
    level: Level = Level.SCRATCH
    order: tuple[int, ...] = ()
    over: tuple[str, ...] = ()
    pad: int = 0
    lanes: Size = 1
    outside: Outside = Outside.TEST

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with a copy at the beginning of the loop."""
        uses = [use for leaf in tree.leaves for use in leaf.uses if use.root == self.tensor]
        if any(use.direction.writes for use in uses):
            return refused("TR712", tensor=self.tensor)
        if not uses:
            return refused("TR738", tensor=self.tensor, known=", ".join(tree.bounds))
        rule_out(taken(known, tree, (*_names(self.into, len(self.over) or len(uses[0].access)), f"{self.into}_lane")))
        lanes = accepted(known.size(self.lanes, tree))
        return with_loops_replaced(tree, self.at, lambda loop, _: self._staged(tree, loop, lanes))

    @refusing
    def _staged(self, tree: Tree, loop: Loop, lanes: int) -> Replaced | Refused:
        reading = [leaf for leaf in leaves(loop.body) if any(use.root == self.tensor for use in leaf.uses)]
        uses = [use for leaf in reading for use in leaf.uses if use.root == self.tensor]
        if not uses or any(size > 1 for use in uses for size in use.sizes):
            return refused("TR713", loop=loop.name, tensor=self.tensor)
        inner = sizes_of(loop.body)
        box: _Footprint | _Points
        box = accepted(_Points.of(uses, self.over, inner)) if self.over else accepted(_Footprint.of(uses, inner))
        axes = self.order or tuple(range(len(box.sizes)))
        if sorted(axes) != list(range(len(box.sizes))) or self.pad < 0:
            return refused("TR714", order=", ".join(map(str, self.order)), axes=len(box.sizes))
        extents = [box.sizes[axis] for axis in axes]
        extents[-1:] = [width + self.pad for width in extents[-1:]]
        found = stripe.allocation(self.into, uses[0].dtype, extents, self.level.location)

        def staged(use: Use) -> Use:
            if use.root != self.tensor:
                return use
            inside = box.within(use.access)
            return attrs.evolve(
                use, root=self.into, access=tuple(inside[axis] for axis in axes), strides=found.shape.strides, sizes=()
            )

        pads = self.outside is Outside.TEST and any(leaf.padded for leaf in reading)
        copy = accepted(self._copy(tree, reading, box, axes, found, lanes))
        clear = (self._clear(uses[0], box.sizes, axes, found),) if pads else ()
        body = (*clear, copy, *map_uses(loop.body, staged))
        return Replaced((attrs.evolve(loop, body=body, allocations=(*loop.allocations, found)),))

    def _clear(self, use: Use, sizes: tuple[int, ...], axes: tuple[int, ...], found: stripe.Refinement) -> Item:
        """Return the loops that fill the memory with zeros."""
        names = [f"{self.into}_start_{axis}" for axis in axes]
        zero = False if use.dtype.is_bool else 0.0 if use.dtype.is_float else 0
        places = tuple(_part(name, sizes[axis]) for name, axis in zip(names, axes, strict=True))
        statements = (stripe.Constant("zero", use.dtype, zero), stripe.Store("zero", self.into))
        loops = [(name, sizes[axis]) for name, axis in zip(names, axes, strict=True)]
        return _around(loops, Leaf(statements, (self._target(use, places, found),)))

    def _target(self, use: Use, places: tuple[Affine, ...], found: stripe.Refinement) -> Use:
        return Use(self.into, self.into, places, found.shape.strides, use.dtype, stripe.Direction.OUT)

    def _copy(
        self,
        tree: Tree,
        reading: Sequence[Leaf],
        box: _Footprint | _Points,
        axes: tuple[int, ...],
        found: stripe.Refinement,
        lanes: int,
    ) -> Item | Refused:
        """Return the loops that copy what some leaves read, without reading beyond the end of the tensor."""
        use = next(use for use in reading[0].uses if use.root == self.tensor)
        names = [f"{self.into}_{axis}" for axis in range(len(box.sizes))]
        sizes, places = [*box.sizes], [_part(name, size) for name, size in zip(names, box.sizes, strict=True)]
        plain = attrs.evolve(use, access=box.at(places), sizes=(), aggregation=None, direction=stripe.Direction.IN)
        lane = f"{self.into}_lane"
        if lanes > 1:
            axis = next((n for n, name in enumerate(names) if plain.stride(name) == 1), None)
            if axis is None or sizes[axis] % lanes:
                return refused("TR763", tensor=self.tensor, lanes=lanes)
            sizes[axis] //= lanes
            places[axis] = _part(names[axis], sizes[axis]) * lanes + Affine.index(lane)
        source = attrs.evolve(plain, access=box.at(places))
        ranges = {**dict(zip(names, sizes, strict=True)), lane: lanes}
        tests = past_the_end(tree, use.root, source.access, ranges)
        statements: tuple[stripe.Statement, ...] = (stripe.Load(source.name, "copied"),)
        if tests and self.outside is Outside.CLAMP:
            source, place = accepted(_clamped(tree, source, lane, lanes))
            statements, tests = (place, stripe.Load(source.name, "copied", place.into)), ()
        zeros: tuple[Affine, ...] = ()
        if self.outside is Outside.ZERO:
            left_out, safe = box.left_out(reading, places)
            zeros, tests = tuple(dict.fromkeys((*left_out, *(() if safe else tests)))), ()
        target = self._target(use, tuple(places[axis] for axis in axes), found)
        statements = (*statements, stripe.Store("copied", self.into))
        copy = untested(Leaf(statements, (source, target), tests, zeros=zeros), lane, lanes)
        if any(lane in test.indices for test in copy.zeros):
            return refused("TR763", tensor=self.tensor, lanes=lanes)
        item: Item = copy
        if lanes > 1:
            item = Loop(lane, lanes, (item,), stripe.Binding.LANE)
        return _around([(names[axis], sizes[axis]) for axis in axes], item)


def _clamped(tree: Tree, use: Use, lane: str, lanes: int) -> tuple[Use, stripe.LoadIndex] | Refused:
    """Return a use of all elements of a tensor that a kernel reads, and an element's place among them, clamped.

    Places count vectors of ``lanes`` elements; those outside are clamped to the first and the last vector.
    """
    first, size = reach_of(tree, use)
    address = use.address - first
    within = Affine.index(lane) if lanes > 1 else Affine()
    place = (address - within) / lanes
    if size % lanes or first % lanes or not place.is_integral:
        return refused("TR763", tensor=use.root, lanes=lanes)
    access = (Affine.constant(first // lanes), within)
    whole = attrs.evolve(use, access=access, strides=(lanes, 1), sizes=(size // lanes, lanes))
    return whole, stripe.LoadIndex(place, "place", DType.I32 if size < _FAR else DType.I64)


def reach_of(tree: Tree, use: Use) -> tuple[int, int]:
    """Return the start of the kernel's touched part of a use's memory, and the number of its elements."""
    ends = [
        (stride * low, stride * high)
        for stride, (low, high) in zip(use.strides, bounds_of(tree, use.root), strict=True)
    ]
    first = sum(map(min, ends))
    return first, sum(map(max, ends)) - first + 1


_FAR: Final = 1 << 30
"""Elements of a tensor from which on 32 bits do not count them all."""


@attrs.frozen(repr=False)
class Partial:
    """Memory into which items merge in place of other memory.

    Attributes:
        memory: The memory.
        first: The item that clears it.
        body: The items.
        last: The item that merges it into the other memory.
    """

    memory: stripe.Refinement
    first: Item
    body: tuple[Item, ...]
    last: Item


@attrs.frozen
class Accumulate:
    """Accumulate the sums of one loop iteration in private memory, which is merged at its end.

    Sums over a part of a long reduction have smaller errors, and may stay in registers. If several loops have the name,
    those that use the memory are meant.

    Attributes:
        memory: The target of the loop: a tensor that the kernel writes, or memory of the kernel.
        at: The loop, whose iterations merge into shared elements.
        into: The name of the memory of one iteration.
        level: The level of the memory.
        over: Inner loops whose iterations, numbered together, have private elements, which loops named ``into`` and
            ``_start`` or ``_merge`` clear and merge. Statements in only some of these loops belong to iteration 0 of
            the others; statements in none merge as before.
    """

    name: ClassVar[str] = "accumulate"
    memory: str
    at: str
    into: str
    level: Level = Level.REGISTER
    over: tuple[str, ...] = ()

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with memory for each iteration."""
        rule_out(taken_for(tree, known, (self.into,)))

        @refusing
        def accumulated(loop: Loop, around: tuple[Loop, ...]) -> Replaced | Refused:
            part = accepted(self.apart(tree, around, loop.body))
            body = (part.first, *part.body, part.last)
            return Replaced((attrs.evolve(loop, body=body, allocations=(*loop.allocations, part.memory)),))

        return with_touching_replaced(tree, self.at, (self.memory,), accumulated)

    @refusing
    def apart(self, tree: Tree, around: tuple[Loop, ...], body: tuple[Item, ...]) -> Partial | Refused:
        """Return items that merge into memory of their own, and that memory."""
        found, inner = [each for each in memory_accesses(body) if each.use.root == self.memory], sizes_of(body)
        if missing := [name for name in self.over if name not in inner]:
            return refused("TR701", loop=missing[0], loops=", ".join(inner))
        over = {name: inner[name] for name in self.over}
        uses = [each.use for each in found if not over or any(loop.name in over for loop in each.path)]
        if not uses or len({each.use.aggregation for each in found}) != 1 or not all(e.use.merges for e in found):
            return refused("TR715", loop=self.at, memory=self.memory)
        footprint = accepted(_Footprint.of(uses, inner))
        sizes = (*([product(over.values())] if over else []), *footprint.sizes)
        memory = stripe.allocation(self.into, uses[0].dtype, sizes, self.level.location)

        def own(use: Use, places: Mapping[str, Affine]) -> Use:
            if use.root != self.memory:
                return use
            number = Affine()
            for name, size in over.items():
                number = number * size + places.get(name, Affine())
            access = (*((number,) if over else ()), *footprint.within(use.access))
            return attrs.evolve(use, root=self.into, access=access, strides=memory.shape.strides)

        held = {each.name for each in around}
        tests = frozenset[Affine].intersection(*(frozenset(each.leaf.constraints) for each in found))
        common = tuple(test for test in found[0].leaf.constraints if test in tests and held.issuperset(test.indices))
        first, last = self._first_and_last(tree, uses[0], footprint, memory, held, common)
        return Partial(memory, first, _inside(body, over, own, {}), last)

    def _first_and_last(
        self,
        tree: Tree,
        use: Use,
        footprint: _Footprint,
        memory: stripe.Refinement,
        around: Set[str],
        common: tuple[Affine, ...],
    ) -> tuple[Item, Item]:
        """Return the items that set the memory to the identity, and that merge it into defined elements.

        Nothing is merged where ``common`` tests fail.
        """
        inner = {f"{self.into}_{axis}": size for axis, size in enumerate(footprint.sizes)}
        places = tuple(map(_part, inner, footprint.sizes))
        ends = [f"{self.into}_start", f"{self.into}_merge"]
        own, part = (
            Use(self.into, self.into, (*at, *places), memory.shape.strides, use.dtype, direction)
            for at, direction in zip(
                [(Affine.index(end),) if self.over else () for end in ends],
                (stripe.Direction.OUT, stripe.Direction.IN),
                strict=True,
            )
        )
        start = Leaf((identity_of(use, "identity"), stripe.Store("identity", self.into)), (own,), common)
        target = attrs.evolve(
            use,
            access=tuple(a + b for a, b in zip(footprint.first, places, strict=True)),
            direction=stripe.Direction.INOUT,
            sizes=(),
        )
        tests = past_the_end(tree, use.root, target.access, inner)
        touching = [(leaf, use) for leaf in tree.leaves for use in leaf.uses if use.root == self.memory]
        known = {*around, *inner}
        cut = _where_defined(touching, target, known, lambda leaf: leaf.constraints)
        padded = _where_defined(touching, target, known, lambda leaf: leaf.padded)
        beside = any(each.name in atomic_names(leaf.statements) for leaf, each in touching)  # other threads' updates
        tags = stripe.Tags.of(stripe.ATOMIC) if beside else stripe.Tags()
        end = Leaf(
            (stripe.Load(self.into, "part"), stripe.Store("part", target.name, tags=tags)),
            (part, target),
            tuple(dict.fromkeys((*tests, *common, *cut))),
            padded=padded,
        )
        first, last = (_around([*inner.items()], each) for each in (start, end))
        if not self.over:
            return first, last
        count = memory.shape.sizes[0]
        return Loop(ends[0], count, (first,)), Loop(ends[1], count, (last,), reduces=True)


def with_touching_replaced(
    tree: Tree, name: str, memory: tuple[str, ...], rewrite: Rewrite, inner: str = ""
) -> Tree | Refused:
    """Return the tree with each loop of a name replaced that uses a memory, and has an inner loop if that is named."""
    named = [loop for loop in tree.loops() if loop.name == name]
    found = [loop for loop in named if inner in loop.names] if inner else named
    if named and not found:
        return refused("TR701", loop=inner, loops=", ".join(loop.name for loop in tree.loops() if loop.name != inner))
    meant = {id(loop) for loop in found if any(use.root in memory for leaf in loop.leaves for use in leaf.uses)}
    if found and not meant:
        return refused("TR715", loop=name, memory=", ".join(memory))
    return with_loops_replaced(
        tree, name, lambda loop, around: rewrite(loop, around) if id(loop) in meant else Replaced((loop,))
    )


def _inside(
    items: tuple[Item, ...],
    over: Mapping[str, int],
    change: Callable[[Use, Mapping[str, Affine]], Use],
    places: Mapping[str, Affine],
) -> tuple[Item, ...]:
    """Return items with uses inside of loops ``over`` replaced, by position along these; all uses without loops."""
    done: list[Item] = []
    for item in items:
        if isinstance(item, Leaf):
            done.append(item.with_uses(lambda use: change(use, places)) if places or not over else item)
        elif item.name in over:
            body = _inside(item.body, over, change, {**places, item.name: Affine.index(item.name)})
            done.append(attrs.evolve(item, body=body, reduces=False))
        else:
            done.append(item.around(_inside(item.body, over, change, places)))
    return changed(items, done)


@attrs.frozen
class RFactor:
    """Factor a reduction into partial reductions, one per iteration of a loop, and merge their results after it.

    The target of the loop becomes an array over its iterations, so that these may be lanes or threads. The loop that
    clears the array is named ``into`` and ``_start``, and the loop that merges it ``into`` and ``_merge``. Levels of a
    tree, such as for many threads, have loops named after the first array, with ``_more_`` or ``_left_`` and the number
    of the level; they merge elements at a stride.

    Attributes:
        memory: The target of the loop, or several: tensors that the kernel writes, or memory of the kernel.
        loop: The loop, or several whose iterations are numbered together: the others are inside the first one.
        into: The name of the array, or one for each memory.
        level: The level of the memory.
        through: Number of elements after each level of a tree, before the last merge.
        stores: Whether iterations store elements, since each merges into an element only once: no loop clears the
            array.
        around: A loop around the first one: the array is cleared before it, and merged after it. If empty, the first
            one.
    """

    name: ClassVar[str] = "rfactor"
    memory: str | tuple[str, ...]
    loop: str | tuple[str, ...]
    into: str | tuple[str, ...]
    level: Level = Level.REGISTER
    through: tuple[Size, ...] = ()
    stores: bool = False
    around: str = ""

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with an array of partial results."""
        through = accepted(known.sizes(self.through, tree))
        memory, loops, arrays = (n if isinstance(n, tuple) else (n,) for n in (self.memory, self.loop, self.into))
        if not memory or not loops or len(memory) != len(arrays):
            return refused("TR708", loops=", ".join((*loops, *memory, *arrays)))
        levels = (f"{arrays[0]}_{what}_{level}" for level in range(len(through)) for what in ("more", "left"))
        rule_out(taken_for(tree, known, arrays, *levels))
        if any(use.sizes and use.merges and use.root in memory for leaf in tree.leaves for use in leaf.uses):
            return refused("TR761", loop=loops[0], memory=memory[0])
        at, inner = self.around or loops[0], loops[0] if self.around else ""
        apart = [Accumulate(*each, self.level, loops) for each in zip(memory, [at] * len(memory), arrays, strict=True)]
        return with_touching_replaced(
            tree, at, memory, lambda loop, around: self._factored(tree, apart, loop, around, through), inner
        )

    @refusing
    def _factored(
        self, tree: Tree, apart: Sequence[Accumulate], loop: Loop, around: tuple[Loop, ...], through: Sequence[int]
    ) -> Replaced | Refused:
        """Return the loops that clear, fill and merge memory of a loop's iterations, in place of the loop."""
        if loop.bound:
            return refused("TR707", loop=loop.name, binding=loop.bound)
        body: tuple[Item, ...] = (loop,)
        parts: list[Partial] = []
        for each in apart:
            parts.append(accepted(each.apart(tree, around, body)))
            body = accepted(_stored(parts[-1], each.over)) if self.stores else parts[-1].body
        size = parts[0].memory.shape.sizes[0]
        levels = [*pairwise((size, *through))]
        if uneven := [(size, left) for size, left in levels if size % left or size == left]:
            return refused("TR706", loop=loop.name, size=uneven[0][0], factor=uneven[0][1])
        first = () if self.stores else [part.first for part in parts]
        fewer = [_level(parts, number, *sizes) for number, sizes in enumerate(levels)]
        merges = [attrs.evolve(end, size=(size, *through)[-1]) for part in parts if isinstance(end := part.last, Loop)]
        return Replaced((*first, *body, *fewer, *merges), tuple(part.memory for part in parts))


def _stored(part: Partial, over: tuple[str, ...]) -> tuple[Item, ...] | Refused:
    """Return items that store elements in place of merging; refused where they do not merge once into each."""
    found = [each for each in memory_accesses(part.body) if each.use.root == part.memory.name]
    (merge,), (one, *others) = leaves((part.last,)), found
    across, along = ([loop for loop in one.path if (loop.name in over) == each] for each in (True, False))
    places = sorted(((loop.name, 1),) for loop in along if loop.size > 1)
    whole = product(loop.size for loop in across) == part.memory.shape.sizes[0]
    tested = {*one.leaf.constraints} <= {*merge.constraints} and {*one.leaf.padded} <= {*merge.padded}
    alone = places == sorted(place.terms for place in one.use.access[1:] if place.terms)
    if others or not (whole and tested and alone) or atomic_names(one.leaf.statements):
        return refused("TR765", loop=over[0], memory=part.memory.name)
    plain = attrs.evolve(one.use, direction=stripe.Direction.OUT, aggregation=None)
    return map_uses(part.body, lambda use: plain if use is one.use else use)


def _level(parts: Sequence[Partial], number: int, size: int, left: int) -> Item:
    """Return loops that merge ``size`` elements of arrays into ``left`` of them."""
    more, first = (f"{parts[0].memory.name}_{what}_{number}" for what in ("more", "left"))
    place = Affine.index(first)
    body = tuple(item for part in parts for item in _merging(part, Affine.of({more: left, first: 1}, left), place))
    return Loop(more, size // left - 1, (Loop(first, left, body),), reduces=True)


def _merging(part: Partial, source: Affine, place: Affine) -> tuple[Item, ...]:
    """Return the item that merges an element of an array into another of its elements."""
    assert isinstance(part.last, Loop)
    (own,) = [use for leaf in part.last.leaves for use in leaf.uses if use.root == part.memory.name]
    read, target = (own.substitute({part.last.name: each}) for each in (source, place))

    def moved(use: Use) -> Use:
        place = attrs.evolve(use, root=target.root, access=target.access, strides=target.strides)
        return read if use is own else place

    return map_uses(part.last.body, moved)


@attrs.frozen
class Place:
    """Choose the memory level of an allocation of the kernel.

    Attributes:
        memory: The allocation.
        level: Its level.
    """

    name: ClassVar[str] = "place"
    memory: str
    level: Level

    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:  # noqa: ARG002
        """Return the tree with the memory at its level."""
        return with_memory(tree, self.memory, lambda found: attrs.evolve(found, location=self.level.location))


def with_memory(tree: Tree, name: str, change: Callable[[stripe.Refinement], stripe.Refinement]) -> Tree | Refused:
    """Return the tree with the kernel's allocation of a name replaced; refused if there is none."""
    names = [a.name for a in (*tree.allocations, *(a for loop in tree.loops() for a in loop.allocations))]
    if name not in names:
        return refused("TR716", memory=name, known=", ".join(names))

    def moved(found: tuple[stripe.Refinement, ...]) -> tuple[stripe.Refinement, ...]:
        return tuple(change(each) if each.name == name else each for each in found)

    def within(items: tuple[Item, ...]) -> tuple[Item, ...]:
        return tuple(
            item.around(within(item.body), moved(item.allocations)) if isinstance(item, Loop) else item
            for item in items
        )

    return attrs.evolve(tree, body=within(tree.body), allocations=moved(tree.allocations))


def past_the_end(tree: Tree, root: str, access: tuple[Affine, ...], own: Mapping[str, int]) -> tuple[Affine, ...]:
    """Return constraints that keep an access within the kernel's part of a tensor, or within its own memory.

    ``own`` are the sizes of loops that are about to be made.
    """
    ranges = {**tree.loop_sizes(), **own} if any(affine.terms for affine in access) else {}
    tests: list[Affine] = []
    for affine, (first, last) in zip(access, bounds_of(tree, root), strict=False):
        low, high = affine.bounds(ranges)
        tests += [affine - first] if low < first else []
        tests += [last - affine] if high > last else []
    return tuple(tests)


def bounds_of(tree: Tree, root: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last element along each axis, of the kernel's memory or of a tensor's touched part."""
    made = (*tree.allocations, *(each for loop in tree.loops() for each in loop.allocations))
    held = [each for each in made if each.name == root]  # memory may have grown since the first step
    return tuple((0, size - 1) for size in held[-1].shape.sizes) if held else tree.bounds.get(root, ())


def _elements(use: Use, access: tuple[Affine, ...]) -> dict[str, Affine]:
    """Return the values of indices that move ``use`` along one axis only, where it touches element ``access``."""
    alone = zip(use.access, access, strict=True)
    return {own.indices[0]: other - own.offset for own, other in alone if [c for _, c in own.terms] == [1]}


def _where_defined(
    touching: list[tuple[Leaf, Use]], use: Use, known: Set[str], tests: Callable[[Leaf], tuple[Affine, ...]]
) -> tuple[Affine, ...]:
    """Return the tests of all overwrites of a memory, as tests of the element that ``use`` touches.

    Tests with indices other than ``known`` are left out.
    """
    found = [
        [test.substitute(_elements(each, use.access)) for test in tests(leaf)]
        for leaf, each in touching
        if each.direction is stripe.Direction.OUT and not each.merges
    ]
    first, *others = found or [[]]
    return tuple(test for test in first if {*test.indices} <= known and all(test in each for each in others))


def _names(into: str, rank: int) -> tuple[str, ...]:
    """Return the names of memory, and of the loops over it, by the number of its axes."""
    axes = range(rank)
    return (into, *(f"{into}_{axis}" for axis in axes), *(f"{into}_start_{axis}" for axis in axes))


def taken_for(tree: Tree, known: Known, arrays: tuple[str, ...], *others: str) -> Refused | None:
    """Return the reason why memory, its loops, and others cannot have these names; None where they can."""
    if known.trusted:
        return None
    rank = max(len(use.access) for leaf in tree.leaves for use in leaf.uses)
    own = (name for into in arrays for name in (*_names(into, rank), f"{into}_start", f"{into}_merge"))
    return taken(known, tree, (*own, *others))


def _part(name: str, size: int) -> Affine:
    return Affine.index(name) if size > 1 else Affine()


def _around(loops: list[tuple[str, int]], item: Item) -> Item:
    for name, size in reversed(loops):
        if size > 1:
            item = Loop(name, size, (item,))
    return item


@attrs.frozen
class Pipeline:
    """Pipeline a loop (software pipelining): copy what later iterations stage while earlier ones compute.

    The staged memory is allocated ``stages`` times, so that copies run ``stages - 1`` iterations ahead on devices with
    asynchronous copies.

    Attributes:
        loop: A loop that begins by staging in local memory, or several perfectly nested ones, the outermost first,
            whose iterations are numbered together and of which the last one does so.
        stages: Number of iterations that have memory at a time.
    """

    name: ClassVar[str] = "pipeline"
    loop: str | tuple[str, ...]
    stages: Size = 2

    @refusing
    def __call__(self, tree: Tree, known: Known) -> Tree | Refused:
        """Return the tree with the loop pipelined."""
        stages, loops = (
            accepted(known.size(self.stages, tree)),
            self.loop if isinstance(self.loop, tuple) else (self.loop,),
        )
        if stages < 2:
            return refused("TR740", loop=", ".join(loops), stages=stages)
        if not loops:
            return refused("TR708", loops="")

        @refusing
        def ahead(loop: Loop, _: tuple[Loop, ...]) -> Replaced | Refused:
            chain = accepted(chain_of(loop, loops))
            rule_out(next((refused("TR707", loop=each.name, binding=each.bound) for each in chain if each.bound), None))
            items, last = chain[-1].body, chain[-1]
            return Replaced(nested([attrs.evolve(each, stages=stages) for each in chain], items, last.allocations))

        return with_loops_replaced(tree, loops[0], ahead)
