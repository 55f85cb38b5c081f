"""Random sketches and mutations of them: the moves of a search over schedules.

Drawing is deterministic: generators with equal seeds give equal sketches on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.nodes import attrs
from tileir.schedule.script import Pattern, Script
from tileir.schedule.tree import Loop, Tail, Tree, leaves, own_memory
from tileir_performance.tuning.sketches import LANES, Sketch, SketchSteps, inner_of, outputs_of

if TYPE_CHECKING:
    from random import Random


_ROWS: Final = (1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 6, 8, 12, 16, 32, 64)
_VECTORS: Final = (1, 1, 2, 2, 3, 4, 4, 6, 8, 12, 16)
_PARTS: Final = (1, 2, 2, 4, 4, 8)
_UNROLLED: Final = (1, 1, 2, 4, 8)


@attrs.frozen
class Room:
    """Choices that sketches for a kernel are drawn from.

    Attributes:
        order: The loops over outputs, the outermost first.
        sizes: Their sizes.
        inner: The loops inside of them.
        vectors: The loops over outputs along which the kernel writes neighbours.
        turns: Those along which it reads neighbours that lie apart along one of these, where it has no loops inside.
        read: The tensors that it reads and does not write.
        lanes: The lanes of a vector.
        itemsize: The bytes of each: those of the widest element that the kernel touches.
    """

    order: tuple[str, ...]
    sizes: tuple[int, ...]
    inner: tuple[str, ...]
    vectors: tuple[str, ...]
    turns: tuple[str, ...]
    read: tuple[str, ...]
    lanes: int
    itemsize: int = 4

    @classmethod
    def of(cls, tree: Tree, vector_bytes: int) -> Room:
        """Return the room of a kernel; its order is empty where it has no loops over outputs."""
        outputs = outputs_of(tree)
        uses = [use for leaf in tree.leaves for use in leaf.uses]
        written = {use.root for use in uses if use.direction.writes}
        itemsize = max((use.dtype.itemsize for use in uses), default=1)
        inner, vectors = inner_of(tree), [loop.name for loop in outputs if _writes_neighbours(loop)]
        crossing = [
            loop.name
            for loop in outputs
            if not inner and any(use.crosses(loop.name, vector) for use in uses for vector in vectors)
        ]
        return cls(
            tuple(loop.name for loop in outputs),
            tuple(loop.size for loop in outputs),
            inner,
            tuple(vectors),
            tuple(crossing),
            tuple(dict.fromkeys(use.root for use in uses if use.root not in written)),
            max(1, vector_bytes // itemsize),
            itemsize,
        )

    def script(self, found: SketchSteps, match: Pattern) -> Script:
        """Return a script for all sizes of a kernel, and for vectors of all widths."""
        lanes = f"max(1, VECTOR_BYTES // {self.itemsize})"
        parameters = (attrs.evolve(each, value=lanes) if each.name == LANES else each for each in found.parameters)
        return Script(found.steps, match, tuple(parameters))

    def draw(self, random: Random) -> Sketch:
        """Return a sketch at random."""
        vector = random.choice(self.vectors) if self.vectors and random.random() < _OFTEN else ""
        sketch = Sketch(self.order, (1,) * len(self.order), vector, self.lanes)
        for change in (self._order, self._turned, self._inside, self._staged, self._grid, self._tail):
            sketch = change(sketch, random)
        return sketch

    def changed(self, sketch: Sketch, random: Random) -> Sketch:
        """Return a sketch with some of its numbers drawn again; itself where they come out as they were."""
        changes = [self._order, self._vector, *(self._tile,) * 3, self._inside, self._staged, self._grid, self._tail]
        changes += [self._turned] if self.turns else []
        new = sketch
        for _ in range(_CHANGES):
            new = random.choice(changes)(new, random)
            if new != sketch and random.random() < _HALF:
                break
        return new

    def crossed(self, one: Sketch, other: Sketch, random: Random) -> Sketch:
        """Return a sketch with some numbers of one, and the rest of another."""
        names = ("parts", "unrolled", "staged", "grid")
        new = attrs.evolve(one, **{name: getattr(other, name) for name in names if random.random() < _HALF})
        return self._fitting(new)

    def _order(self, sketch: Sketch, random: Random) -> Sketch:
        sizes = dict(zip(sketch.order, sketch.tiles, strict=True))
        order = list(sketch.order)
        if random.random() < _HALF:
            random.shuffle(order)
        return attrs.evolve(sketch, order=tuple(order), tiles=tuple(sizes[name] for name in order))

    def _vector(self, sketch: Sketch, random: Random) -> Sketch:
        vector = random.choice(("", *self.vectors))
        return self._tiles(attrs.evolve(sketch, vector=vector), random)

    def _turned(self, sketch: Sketch, random: Random) -> Sketch:
        turned = random.choice(("", *self.turns)) if self.turns and sketch.vector else ""
        return self._tiles(attrs.evolve(sketch, turned=turned), random)

    def _tiles(self, sketch: Sketch, random: Random) -> Sketch:
        tiles = tuple(self._size(name, sketch, random) for name in sketch.order)
        return self._fitting(attrs.evolve(sketch, tiles=tiles))

    def _tile(self, sketch: Sketch, random: Random) -> Sketch:
        place = random.randrange(len(sketch.order))
        size = self._size(sketch.order[place], sketch, random)
        tiles = (*sketch.tiles[:place], size, *sketch.tiles[place + 1 :])
        return self._fitting(attrs.evolve(sketch, tiles=tiles))

    def _size(self, name: str, sketch: Sketch, random: Random) -> int:
        size = dict(zip(self.order, self.sizes, strict=True))[name]
        if name in (sketch.vector, sketch.turned):
            return min(random.choice(_VECTORS) * self.lanes, -(-size // self.lanes) * self.lanes)
        return min(random.choice(_ROWS), size)

    def _inside(self, sketch: Sketch, random: Random) -> Sketch:
        parts = random.choice(_PARTS) if self.inner else 0
        unrolled = random.choice(_UNROLLED) if self.inner else 1
        return self._fitting(attrs.evolve(sketch, parts=parts, unrolled=unrolled))

    def _staged(self, sketch: Sketch, random: Random) -> Sketch:
        count = random.choice((0, 0, 0, 1, 1, 2))
        tensors = random.sample(self.read, min(count, len(self.read)))
        return attrs.evolve(sketch, staged=tuple((name, random.choice(self.order)) for name in sorted(tensors)))

    def _grid(self, sketch: Sketch, random: Random) -> Sketch:
        return attrs.evolve(sketch, grid=random.randint(0, min(2, len(self.order))))

    def _tail(self, sketch: Sketch, random: Random) -> Sketch:
        return attrs.evolve(sketch, tail=random.choice((Tail.PEEL, Tail.SHIFT, Tail.PAD, Tail.MASK)))

    def _fitting(self, sketch: Sketch) -> Sketch:
        """Return the sketch with lanes in one place, and numbers that nothing is made of at their usual values."""
        parts = 0 if sketch.vector else sketch.parts
        turned = sketch.turned if sketch.vector not in ("", sketch.turned) else ""
        return attrs.evolve(sketch, parts=parts, unrolled=1 if parts else sketch.unrolled, turned=turned)


def _writes_neighbours(loop: Loop) -> bool:
    """Return whether each write to memory from outside of a loop moves by one element along it."""
    own = own_memory(loop)
    written = [use for leaf in leaves(loop.body) for use in leaf.uses if use.direction.writes and use.root not in own]
    return all(use.stride(loop.name) == 1 for use in written)


_OFTEN: Final = 0.9
_HALF: Final = 0.5
_CHANGES: Final = 5
