"""The tiles that a pass such as autotile chooses among, as a table: sizes, bytes, cache lines, cost and time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from tileir.core import Target, attrs, fail
from tileir.core.text.quantities import count_text, seconds_text, size_text
from tileir.driver.compiler import stripe_of
from tileir.driver.programs import Source, described, refuse_semtree
from tileir.driver.targets import Named
from tileir.passes.base import Pass, applied, label_of, map_blocks, run, unnamed
from tileir.passes.regions.tile import tiled
from tileir.runtime import Context, DeviceInfo, owner_of
from tileir.stripe.ir import Block, Program, Tags
from tileir_performance.explain.explanation import asked, explain_program


class Choice(Protocol):
    """A candidate tile: its size along each index, its cost, and the bytes and cache lines it touches."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Points along each index."""

    @property
    def cost(self) -> float:
        """Points of work for each point of the block."""

    @property
    def footprint(self) -> int:
        """Bytes."""

    @property
    def lines(self) -> tuple[float, float]:
        """Cache lines of inputs and of results, on average."""


@runtime_checkable
class Tiling(Pass, Protocol):
    """A pass that splits blocks into tiles that it chooses, as ``autotile`` of the wheel tileir-accelerators does."""

    @property
    def reqs(self) -> tuple[str, ...]:
        """Tags of the blocks that it splits."""

    @property
    def outer_set(self) -> tuple[str, ...]:
        """Tags that it adds to blocks over tiles."""

    @property
    def inner_set(self) -> tuple[str, ...]:
        """Tags of the blocks over points of a tile."""

    @property
    def memory_name(self) -> str:
        """The memory that tiles are to fit; empty where it has no name."""

    @property
    def room(self) -> int:
        """The size of that memory in bytes; 0 for no end."""

    @property
    def pipeline_depth(self) -> int:
        """The tiles that are in it at a time."""

    def choices(self, block: Block, count: int) -> Sequence[Choice]:
        """Return up to ``count`` tiles of a block, the cheapest first."""


@attrs.frozen
class Tile:
    """One way to split a block.

    Attributes:
        sizes: Along each index.
        count: How many tiles there are.
        points: Points of a tile.
        nbytes: Bytes that a tile touches.
        lines: Cache lines that a tile touches, of inputs and of results, on average over where it starts.
        cost: Points of work for each point of the block, by which the pass chooses: a point counts 1, cache lines as
            many as the options of the pass say.
        seconds: The predicted time of the kernel when it is split so, and no further pass has run.

    """

    sizes: tuple[int, ...]
    count: int
    points: int
    nbytes: int
    lines: tuple[float, float]
    cost: float
    seconds: float


@attrs.frozen
class TileTable:
    """The cheapest tiles of a block, the cheapest first; ``str`` of it is a table for people.

    Attributes:
        step: The name of the step of the pipeline.
        block: The name of the block.
        indices: The names of its indices.
        ranges: How far these go.
        memory: The memory that tiles are to fit; empty where it has no name.
        room: Its size in bytes; 0 for no end.
        held: How many tiles are in it at a time.
        tiles: None where no tile fits.

    """

    step: str
    block: str
    indices: tuple[str, ...]
    ranges: tuple[int, ...]
    memory: str
    room: int
    held: int
    tiles: tuple[Tile, ...]

    def __str__(self) -> str:
        """Return the table, with units."""
        box = ", ".join(f"{name}:{extent}" for name, extent in zip(self.indices, self.ranges, strict=True))
        room = f"{size_text(self.room)}{f' of {self.memory}' if self.memory else ''}" if self.room else "no limit"
        held = f", {self.held} tiles at a time" if self.held > 1 else ""
        heads = (*self.indices, "tiles", "points", "bytes", "lines in", "lines out", "cost", "time")
        rows = [tuple(heads), *(tuple(_cells(tile)) for tile in self.tiles)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(
            (f"{self.step}: {self.block} [{box}] in {room}{held}", *(lines if self.tiles else ["no tile fits"]))
        )


def _cells(tile: Tile) -> Iterable[str]:
    yield from map(str, tile.sizes)
    yield from (count_text(tile.count), count_text(tile.points), size_text(tile.nbytes))
    yield from (f"{lines:.1f}" for lines in tile.lines)
    yield from (f"{tile.cost:.4g}", seconds_text(tile.seconds))


def tile_tables(
    source: Source,
    arguments: Any = (),
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    target: Named | None = None,
    passes: tuple[Pass, ...] | str | None = None,
    count: int = 5,
) -> tuple[TileTable, ...]:
    """Return the cheapest tiles of each block that a step such as ``autotile`` considers.

    Args:
        source: The program to tile, in the forms that :func:`tileir.compile` takes; no program of the semtree.
        arguments: Description of the inputs, as for :func:`tileir.compile`.
        device: A device or its id; by default the context's choice.
        context: Owner of devices; by default the process-wide one.
        target: Target of passes instead of the device; as for :func:`tileir.compile`.
        passes: Stripe passes instead of those of the target; or the text, JSON or name of a pipeline.
        count: Number of tiles for each block.

    Raises:
        TileError: The function is wrong, or does not fit the arguments; TIL902, no step chooses tiles.
        BackendError: There is no such device.
    """
    source, arguments = described(source, arguments)
    refuse_semtree(source)
    request, _ = asked(source, arguments, owner_of(context), device=device, target=target, passes=passes)
    modelled = request.scheduling or request.target
    if not any(isinstance(unnamed(step), Tiling) for step in request.pipeline):
        message = "no step of this pipeline chooses tiles; name autotile, as in --passes 'autotile{memory_bytes=32768}'"
        raise fail("TIL902", message)
    program = stripe_of(request.program, request.types, modelled)
    tables: list[TileTable] = []
    for step in request.pipeline:
        options = unnamed(step)
        if isinstance(options, Tiling):
            seen = _Blocks(options)
            applied(seen, program)
            tables += (_table(label_of(step), block, options, program, modelled, count) for block in seen.blocks)
        program = run((step,), program, verify_first=False)
    return tuple(tables)


@attrs.frozen(repr=False)
class _Blocks:
    """A pass that changes nothing and records the blocks that a pass with equal options considers."""

    name: ClassVar[str] = "tiles"
    options: Tiling
    blocks: list[Block] = attrs.field(factory=list)

    def __call__(self, program: Program) -> Program:
        def keep(block: Block) -> Block:
            if block.indices:
                self.blocks.append(block)
            return block

        return map_blocks(program, keep, self.options.reqs)


@attrs.frozen(repr=False)
class _Split:
    """A pass that splits one block in a given way."""

    name: ClassVar[str] = "tiles"
    options: Tiling
    block: Block
    sizes: tuple[int, ...]

    def __call__(self, program: Program) -> Program:
        def split(block: Block) -> Block:
            if block is not self.block:
                return block
            return tiled(block, self.sizes, self.options.outer_set, Tags.of(*self.options.inner_set))

        return map_blocks(program, split, self.options.reqs)


def _table(step: str, block: Block, options: Tiling, program: Program, target: Target, count: int) -> TileTable:
    before = explain_program(program, target)

    def seconds(sizes: tuple[int, ...]) -> float:
        """Return the time of the kernels that splitting the block changes."""
        after = explain_program(applied(_Split(options, block, sizes), program), target)
        pairs = zip(after.kernels, before.kernels, strict=True)
        return sum(new.seconds for new, old in pairs if new != old) or after.seconds

    return TileTable(
        step,
        block.name,
        tuple(index.name for index in block.indices),
        tuple(index.range for index in block.indices),
        options.memory_name,
        options.room,
        options.pipeline_depth,
        tuple(_tile(choice, block, seconds) for choice in options.choices(block, count)),
    )


def _tile(choice: Choice, block: Block, seconds: Callable[[tuple[int, ...]], float]) -> Tile:
    count = points = 1
    for size, index in zip(choice.sizes, block.indices, strict=True):
        count, points = count * -(-index.range // size), points * size
    return Tile(choice.sizes, count, points, choice.footprint, choice.lines, choice.cost, seconds(choice.sizes))


def tables_json(tables: Iterable[TileTable]) -> str:
    """Return tables as JSON: bytes and seconds as numbers."""
    return json.dumps([attrs.asdict(table) for table in tables], indent=2)
