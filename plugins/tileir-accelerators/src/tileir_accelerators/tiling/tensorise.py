"""Tensorisation: blocks cut into pieces that a micro-kernel computes, by stencil matching.

The inner block carries the tag ``stencil`` and the name of the matching stencil; its indices carry ``stencil_<name>``
for their roles. Passes and lowerings that know the micro-kernel find all they need there; for all others it is an
ordinary block.

Matching determines the indices of a block that can take the roles of a micro-kernel's loops, and the cost of a choice.

A stencil describes the loops of a micro-kernel: the number of points of each, and its stride through each result and
each input. This is the stencil matching of PlaidML's Stripe, with its cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.base import at_least, free_tags, map_blocks
from tileir.passes.regions.tile import tiled
from tileir.stripe.ir import Block, Direction, Program, Tags

MOST_INDICES: Final = 8
"""Maximum number of indices of a stencil: all assignments of them are tried."""


def _sizes(_: object, __: attrs.Attribute[int], size: int) -> None:
    if size < 1 and size != -1:
        raise ValueError("the size of a stencil's index must be at least 1, or -1 for the whole range")


def _rules(_: object, attribute: attrs.Attribute[tuple[int, ...]], rules: tuple[int, ...]) -> None:
    if any(rule < -1 for rule in rules):
        raise ValueError(f"{attribute.name} of a stencil's index must be strides, or -1 for any but 0")


@attrs.frozen
class StencilIndex:
    """One loop of a micro-kernel.

    Attributes:
        name: Name of the loop in the micro-kernel; the index that matches it gets the tag ``stencil_<name>``.
        size: Number of points; -1 for the whole range of the index.
        outs: Stride of the loop in each result, in their order, in elements: -1 for any, 0 for none. Further results
            are ignored.
        ins: Stride of the loop in each input, in elements: -1 for any, 0 for none.
    """

    name: str = ""
    size: int = attrs.field(default=-1, validator=_sizes)
    outs: tuple[int, ...] = attrs.field(default=(), validator=_rules)
    ins: tuple[int, ...] = attrs.field(default=(), validator=_rules)


def _few(_: object, __: attrs.Attribute[tuple[StencilIndex, ...]], idxs: tuple[StencilIndex, ...]) -> None:
    if len(idxs) > MOST_INDICES:
        raise ValueError(f"a stencil has at most {MOST_INDICES} idxs")


@attrs.frozen
class Stencil:
    """A micro-kernel's loops.

    Attributes:
        idxs: The loops.
        name: A further tag for matched blocks: the name of the micro-kernel, for lowerings.
        startup_cost: Cost of starting the micro-kernel, in points; -1 for that of the pass.
    """

    idxs: tuple[StencilIndex, ...] = attrs.field(default=(), validator=_few)
    name: str = ""
    startup_cost: int = -1


@attrs.frozen
class Match:
    """Indices of a block by their part in a stencil, and the number of points of each that a micro-kernel covers."""

    stencil: Stencil
    roles: tuple[tuple[str, StencilIndex], ...]  # index of the block, and its part; in the stencil's order
    sizes: tuple[int, ...]  # of a tile, for each index of the block
    cost: int


def best_match(block: Block, stencils: Iterable[Stencil], startup_cost: int, *, strict: bool) -> Match | None:
    """Return the cheapest match of ``block``, the first among equals; None if no stencil fits.

    The cost is the number of points, including wasted points of tiles, and ``startup_cost`` for each tile. With
    ``strict``, sizes must divide the ranges.
    """
    best: Match | None = None
    for match in matches(block, stencils, startup_cost, strict=strict):
        if best is None or match.cost < best.cost:
            best = match
    return best


def matches(block: Block, stencils: Iterable[Stencil], startup_cost: int, *, strict: bool) -> Iterator[Match]:
    """Yield all matches of ``block``; see :func:`best_match`."""
    table = _Strides.of(block)
    for stencil in stencils:
        start = startup_cost if stencil.startup_cost < 0 else stencil.startup_cost
        for names in table.assignments(stencil.idxs):
            roles = tuple(zip(names, stencil.idxs, strict=True))
            sizes = {name: block.index(name).range if role.size < 0 else role.size for name, role in roles}
            if strict and any(block.index(name).range % size for name, size in sizes.items()):
                continue
            cost = _cost(block, sizes, start)
            yield Match(stencil, roles, tuple(sizes.get(i.name, 1) for i in block.indices), cost)


def _cost(block: Block, sizes: Mapping[str, int], startup_cost: int) -> int:
    points = tiles = 1
    for index in block.indices:
        size = sizes.get(index.name, 1)
        count = -(-index.range // size)
        points *= count * size
        tiles *= count
    return points + startup_cost * tiles


@attrs.frozen(repr=False)
class _Strides:
    """Strides of each index of a block through its results and its inputs."""

    outs: Mapping[str, tuple[int, ...]]
    ins: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, block: Block) -> _Strides:
        views = [r for r in block.refinements if r.direction is not Direction.NONE]
        outs = [address(r) for r in views if r.direction.writes]
        ins = [address(r) for r in views if not r.direction.writes]
        names = [index.name for index in block.indices if index.affine is None]
        return cls(
            {name: tuple(int(a.coefficient(name)) for a in outs) for name in names},
            {name: tuple(int(a.coefficient(name)) for a in ins) for name in names},
        )

    def assignments(self, roles: Sequence[StencilIndex]) -> Iterator[tuple[str, ...]]:
        """Yield each assignment of all roles to different indices, in the order of the block's."""
        able = [[name for name in self.outs if self._fits(name, role)] for role in roles]
        partial: list[tuple[str, ...]] = [()]
        for names in able:
            partial = [(*chosen, name) for chosen in partial for name in names if name not in chosen]
        yield from partial if roles else ()

    def _fits(self, name: str, role: StencilIndex) -> bool:
        outs, ins = self.outs[name], self.ins[name]
        if len(role.outs) > len(outs) or len(role.ins) > len(ins):
            return False
        pairs = (*zip(outs, role.outs, strict=False), *zip(ins, role.ins, strict=False))
        return all(stride != 0 if rule < 0 else abs(stride) == rule for stride, rule in pairs)


MATRIX_MULTIPLY: Final = Stencil(
    (
        StencilIndex("m", 4, (-1,), (-1, 0)),
        StencilIndex("n", 16, (-1,), (0, -1)),
        StencilIndex("k", -1, (0,), (-1, -1)),
    ),
    "matrix_multiply_accumulate",
)
"""An outer product for each value of ``k``: rows of the first input, columns of the second."""


@attrs.frozen
class Tensorise:
    """Split blocks by the sizes of the cheapest stencil that matches.

    Attributes:
        reqs: Tags that a block must carry; the outermost matching blocks of a kernel are matched.
        outer_set: Tags to add to the blocks over tiles.
        inner_set: Tags of the blocks that a micro-kernel computes, in addition to ``stencil`` and the name of the
            stencil.
        stencils: The micro-kernels to choose from; see :class:`Stencil`.
        startup_cost: Cost of starting a micro-kernel, in points of a block.
        strict: Whether sizes must divide the ranges.
    """

    name: ClassVar[str] = "tensorise"
    aliases: ClassVar[tuple[str, ...]] = ("tensorize",)
    reqs: tuple[str, ...] = ("agg_op_add", "comb_op_mul")
    outer_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    stencils: tuple[Stencil, ...] = (MATRIX_MULTIPLY,)
    startup_cost: int = attrs.field(default=32, validator=at_least(0))
    strict: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks split where a stencil matches."""
        return map_blocks(program, self._block, self.reqs)

    def _block(self, block: Block) -> Block:
        if any("stencil" in inner.tags for inner in block.blocks):
            return block
        match = best_match(block, self.stencils, self.startup_cost, strict=self.strict)
        return block if match is None else _split(block, match, self)


def _split(block: Block, match: Match, options: Tensorise) -> Block:
    tags = Tags.of("stencil", *options.inner_set).add(*filter(None, (match.stencil.name,)))
    outer = tiled(block, match.sizes, options.outer_set, tags)
    (inner,) = outer.blocks
    parts = {name: f"stencil_{role.name}" for name, role in match.roles if role.name}
    indices = tuple(
        attrs.evolve(index, tags=index.tags.add(parts[index.name])) if index.name in parts else index
        for index in inner.indices
    )
    return attrs.evolve(outer, statements=(attrs.evolve(inner, indices=indices),))
