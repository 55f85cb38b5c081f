"""Schedules in a few numbers, and the steps of a script that they stand for.

A sketch tiles the loops over outputs, fills vectors along one of them or along the loops inside, copies tensors to
memory of their own and unrolls, as rules for sketches do in searches for schedules (Zheng and others, "Ansor:
Generating High-Performance Tensor Programs for Deep Learning", 2020). Which numbers are any good is for a search to
find out; a sketch that does not fit a kernel is refused by the step that does not.
"""

from __future__ import annotations

import math
from typing import Final

from tileir.core.nodes import attrs
from tileir.schedule import Item, Known, Loop, Refused, Size, Tail, Tree, leaves, refused, walk
from tileir.schedule.script import Parameter, Step, applied, known_values
from tileir.schedule.steps.legality import unrolled
from tileir.schedule.steps.loops import Bind, Jam, Reorder, Split
from tileir.schedule.steps.memory import RFactor, Stage
from tileir.schedule.steps.tensors import Transpose
from tileir.stripe.bindings import Binding

LANES: Final = "lanes"
"""The name of the number of lanes of a vector, in which steps and other numbers are said."""

MOST_UNROLLED: Final = 700
"""Of so many statements code may consist: more take longer to compile than a search may wait, and fill no registers."""


@attrs.frozen
class Sketch:
    """A schedule in a few numbers.

    Attributes:
        order: The loops over outputs, outermost first.
        tiles: Tile size of each of them, innermost and unrolled; 1 for none.
        vector: The loop over outputs whose tile is cut into vectors; empty for none.
        lanes: The lanes of a vector.
        parts: Number of vectors of partial results in reduction loops; 0 without lanes.
        unrolled: Number of unrolled iterations of reduction loops.
        staged: Staged tensors, each with the loop over outputs of whose iterations it is staged.
        tail: Treatment of iterations that fill no tile.
        turned: The loop over outputs along which transposed inputs are contiguous; or empty.
        grid: Number of outer loops bound to the grid, up to one whose iterations copy.
    """

    order: tuple[str, ...]
    tiles: tuple[int, ...]
    vector: str = ""
    lanes: int = 1
    parts: int = 0
    unrolled: int = 1
    staged: tuple[tuple[str, str], ...] = ()
    grid: int = 0
    tail: Tail = Tail.PEEL
    turned: str = ""

    def distance(self, other: Sketch) -> float:
        """Return in how much sketches of one kernel differ: 1 for each choice, and for each doubling of a size."""
        tiles = dict(zip(other.order, other.tiles, strict=True))
        sizes = [(tiles[name], size) for name, size in zip(self.order, self.tiles, strict=True)]
        sizes += [(self.parts + 1, other.parts + 1), (self.unrolled, other.unrolled)]
        choices = ("order", "vector", "turned", "staged", "tail")
        apart = sum(1.0 for name in choices if getattr(self, name) != getattr(other, name))
        return apart + sum(abs(math.log2(size / other_size)) for size, other_size in sizes)


def outputs_of(tree: Tree) -> tuple[Loop, ...]:
    """Return the loops over outputs that stand in one another with nothing between them, the outermost first."""
    found: list[Loop] = []
    body = tree.body
    while len(body) == 1 and isinstance(body[0], Loop) and not body[0].reduces:
        found.append(body[0])
        body = () if body[0].allocations else body[0].body
    return tuple(found)


def inner_of(tree: Tree) -> tuple[str, ...]:
    """Return the names of the loops inside of those over outputs, each once."""
    outputs = {loop.name for loop in outputs_of(tree)}
    return tuple(dict.fromkeys(loop.name for loop in tree.loops() if loop.name not in outputs))


@attrs.frozen
class SketchSteps:
    """The steps that a sketch stands for, the numbers that they name, and the tree that they make."""

    steps: tuple[Step, ...]
    parameters: tuple[Parameter, ...]
    tree: Tree


def sketched(sketch: Sketch, tree: Tree) -> SketchSteps | Refused:
    """Return the steps that a sketch stands for, or why one of them refuses the tree."""
    writer = _Writer(tree, parameters_of(sketch))
    outer, tile = _tiles(sketch, writer)
    lanes = [name for loop in inner_of(tree) for name in _inside(sketch, writer, loop)]
    if tile:
        writer.add(Jam(tuple(tile), tuple(lanes)))
    for tensor, at in sketch.staged:
        _copied(sketch, writer, tensor, outer[at])
    for loop in tile:
        writer.bind(loop, Binding.LANE if loop == tile[-1] and sketch.vector else Binding.UNROLL)
    copying = {at for _, at in sketch.staged}
    for name in sketch.order[: sketch.grid]:
        writer.bind(outer[name], Binding.GRID)
        if name in copying:
            break  # groups stand outside of all else
    if writer.refusal is None and (copies := unrolled(writer.tree.body)) > MOST_UNROLLED:
        return refused("TR755", statements=copies, most=MOST_UNROLLED)
    return writer.refusal or SketchSteps(tuple(writer.steps), writer.parameters, writer.tree)


def parameters_of(sketch: Sketch) -> tuple[Parameter, ...]:
    """Return the numbers that steps of a sketch name: its lanes, and others in lanes where these fill vectors."""
    found = [Parameter(LANES, sketch.lanes)] if sketch.vector or sketch.parts or sketch.staged else []
    for name, size in zip(sketch.order, sketch.tiles, strict=True):
        if size > 1:
            whole = name in (sketch.vector, sketch.turned) and size % sketch.lanes == 0
            found.append(Parameter(_by(name), f"{size // sketch.lanes} * {LANES}" if whole else size))
    if sketch.parts:
        found.append(Parameter(_PARTS, f"{sketch.parts} * {LANES}"))
    if sketch.unrolled > 1:
        found.append(Parameter(_UNROLLED, sketch.unrolled))
    return tuple(found)


def _by(loop: str) -> str:
    """Return the name of the number of iterations of a loop that stay together."""
    return f"{loop}_by"


_PARTS: Final = "parts"
_UNROLLED: Final = "unrolled"


@attrs.define(eq=False, repr=False)
class _Writer:
    """Steps so far, and their tree; no step is added after a refusal."""

    tree: Tree
    parameters: tuple[Parameter, ...]
    steps: list[Step] = attrs.field(factory=list)
    refusal: Refused | None = None
    known: Known = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        values = known_values(self.parameters, self.tree)
        self.refusal, self.known = (values, Known()) if isinstance(values, Refused) else (None, Known(values))

    def add(self, step: Step) -> None:
        new = self.refusal or applied(step, self.tree, self.known)
        if isinstance(new, Refused):
            self.refusal = new
        else:
            self.tree = new
            self.steps.append(step)

    def fresh(self, stem: str) -> str:
        return self.tree.names().fresh(stem)

    def split(self, loop: str, by: Size, outer: str, inner: str, tail: Tail = Tail.PEEL) -> tuple[str, str]:
        """Split a loop, and return the names of the two."""
        names = self.tree.names()
        into = (names.fresh(f"{loop}_{outer}"), names.fresh(f"{loop}_{inner}"))
        self.add(Split(loop, by, into, tail))
        return into

    def bind(self, loop: str, to: Binding) -> None:
        """Bind a loop, if it has not been left out for having a single iteration."""
        if any(each.name == loop for each in self.tree.loops()):
            self.add(Bind(loop, to))

    def lanes(self, loop: str) -> tuple[str, str]:
        """Cut a loop into vectors, unrolled, and return the names of the loops over vectors and lanes."""
        vector, lane = self.split(loop, LANES, "vector", "lane")
        self.add(Bind(lane, Binding.LANE))
        self.add(Bind(vector, Binding.UNROLL))
        return vector, lane


def _tiles(sketch: Sketch, writer: _Writer) -> tuple[dict[str, str], list[str]]:
    """Split the loops over outputs; return the outer loop of each, and the loops of a tile, that over lanes last."""
    outer, inner = {name: name for name in sketch.order}, dict[str, str]()
    for name, size in zip(sketch.order, sketch.tiles, strict=True):
        if size > 1:
            outer[name], inner[name] = writer.split(name, _by(name), "block", "tile", sketch.tail)
    tile = [inner[name] for name in sketch.order if name in inner and name != sketch.vector]
    if sketch.vector in inner:
        tile.append(inner[sketch.vector])
    if len(sketch.order) > 1:
        writer.add(Reorder((*(outer[name] for name in sketch.order), *tile)))
    if sketch.vector in inner:
        tile[-1:] = writer.split(tile[-1], LANES, "vector", "lane")
    return outer, _turned(tile, inner[sketch.turned], writer) if sketch.turned in inner else tile


def _turned(tile: list[str], along: str, writer: _Writer) -> list[str]:
    """Turn squares of a tile in registers; return the loops of the tile that are still to be moved and bound: none."""
    *others, vector, lane = tile
    square, row = writer.split(along, LANES, "square", "row")
    writer.add(Reorder((*(name for name in others if name != along), square, vector, row, lane)))
    writer.add(Transpose((row, lane)))
    return []


def _inside(sketch: Sketch, writer: _Writer, loop: str) -> list[str]:
    """Give a loop inside lanes, or unroll it; return the names of the loops that are over lanes then."""
    if sketch.parts:
        return _partial(sketch, writer, loop)
    if sketch.unrolled > 1:
        _, inner = writer.split(loop, _UNROLLED, "step", "unrolled")
        writer.bind(inner, Binding.UNROLL)
    return []


def _partial(sketch: Sketch, writer: _Writer, loop: str) -> list[str]:
    """Split a reduction loop over lanes, with partial results for each lane."""
    step, part = writer.split(loop, _PARTS, "step", "part")
    memory = _merged(writer.tree, part)
    own: list[str] = []
    for each in memory:
        own += _apart(sketch, writer, each, step, part)
    vector, lane = writer.split(part, LANES, "vector", "lane")
    writer.add(Bind(vector, Binding.UNROLL))
    writer.add(Bind(lane, Binding.LANE))
    return [lane, *own]


def _apart(sketch: Sketch, writer: _Writer, memory: str, step: str, part: str) -> list[str]:
    """Give iterations of an inner loop elements to merge into, and merge vectors of these, at last their lanes."""
    into, several = writer.fresh(f"{memory}_parts"), sketch.parts > 1
    writer.add(RFactor(memory, part, into, through=(LANES,) * several, around=step))
    merging = (f"{into}_merge", *[f"{into}_left_0"] * several)
    found = [writer.lanes(f"{into}_start")[1], *merging]
    writer.add(Bind(merging, Binding.LANE))
    if several:
        writer.add(Bind(f"{into}_more_0", Binding.UNROLL))
    return found


def _merged(tree: Tree, part: str) -> list[str]:
    """Return memory that all iterations of the loops of a name merge into."""
    uses = [use for loop in tree.loops() if loop.name == part for leaf in leaves(loop.body) for use in leaf.uses]
    return list(dict.fromkeys(use.root for use in uses if use.merges and not _moves(use.access, part)))


def _moves(access: tuple[object, ...], loop: str) -> bool:
    return any(loop in getattr(affine, "indices", ()) for affine in access)


def _copied(sketch: Sketch, writer: _Writer, tensor: str, at: str) -> None:
    """Stage the inputs of an iteration of a loop, so that vectors find neighbours in the copy."""
    inner = {each.name for loop in writer.tree.loops() if loop.name == at for each in _below(loop.body)}
    uses = [use for leaf in leaves(writer.tree.body) for use in leaf.uses if use.root == tensor]
    axes = len(uses[0].access) if uses else 0
    lane = next((name for name in inner if name.endswith("_lane") and name.startswith(f"{sketch.vector}_")), "")
    moved = [axis for axis in range(axes) if sketch.vector and lane and lane in uses[0].access[axis].indices]
    order = (*(axis for axis in range(axes) if axis not in moved), *moved)
    into = writer.fresh(f"{tensor}_copy")
    writer.add(Stage(tensor, at, into, order=order if list(order) != sorted(order) else ()))
    last = f"{into}_{order[-1]}" if order else ""
    if any(loop.name == last for loop in writer.tree.loops()):
        writer.lanes(last)


def _below(items: tuple[Item, ...]) -> list[Loop]:
    return [item for item in walk(items) if isinstance(item, Loop)]
