"""Partitioning of a block's work over several units, and of memory over several banks.

Also passes indices of blocks down to inner blocks, where they are not visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

from tileir.core import NameScope, attrs
from tileir.passes.base import at_least, free_tags, map_blocks
from tileir.passes.kernels.walk import choice, rewrite_blocks
from tileir.passes.regions.tile import tiled
from tileir.poly.affine import Affine
from tileir.schedule.reindex import reindexed
from tileir.stripe.aliases import Aliases
from tileir.stripe.check.scope import Scope, enter
from tileir.stripe.flattening import with_entry
from tileir.stripe.ir import KERNEL, MAIN, Block, Direction, Index, Location, Program, Refinement, Statement, Tags
from tileir_accelerators.placement.locate import Place, location


@attrs.frozen
class PartitionCompute:
    """Split blocks into parts for several units: an outer block over the parts, around a block over one of them.

    The split index moves all results, so that parts write disjoint elements. An index that divides evenly is preferred,
    then the longest. A block without a suitable index is left alone.

    Attributes:
        reqs: Tags that a block must carry; the outermost matching blocks of a kernel are split.
        num_parts: Maximum number of parts; with 1, the pass does nothing.
        set_tags: Tags to add to the blocks over parts.
        inner_set: Tags of the blocks over one part.
        idx_tag: A tag for the index over parts, by which locations can refer to it.
        only_multiple_of: Divisor of the number of points of each part along the index, except perhaps the last part.
        loc: Location of parts, such as ``{name=CONV,units="#part"}``; if empty, the unit of the part's number if the
            block's location has no units.
    """

    name: ClassVar[str] = "partition_compute"
    reqs: tuple[str, ...] = (KERNEL,)
    num_parts: int = attrs.field(default=1, validator=at_least(1))
    set_tags: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    idx_tag: str = "part"
    only_multiple_of: int = attrs.field(default=1, validator=at_least(1))
    loc: tuple[Place, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with the selected blocks split into parts.

        Raises:
            TileError: TIL505, a unit of ``loc`` names a tag that not exactly one index of the block carries.
        """
        return map_blocks(program, self._split, self.reqs) if self.num_parts > 1 else program

    def _split(self, block: Block) -> Block:
        if any(self.idx_tag in index.words for index in block.indices):
            return block
        candidates = [index for index in block.indices if self._parts(index) > 1 and _owns_results(block, index.name)]
        if not candidates:
            return block
        chosen = max(candidates, key=lambda index: (index.range % self._size(index) == 0, index.range))
        sizes = [self._size(index) if index is chosen else index.range for index in block.indices]
        outer = tiled(block, sizes, self.set_tags, Tags.of(*self.inner_set))
        return self._located(_without_idle(outer, chosen.name, self.idx_tag), block.location)

    def _size(self, index: Index) -> int:
        """Return the number of points of a part."""
        size = -(-index.range // self.num_parts)
        return -(-size // self.only_multiple_of) * self.only_multiple_of

    def _parts(self, index: Index) -> int:
        return 1 if index.affine is not None else -(-index.range // self._size(index))

    def _located(self, outer: Block, where: Location) -> Block:
        if self.loc:
            return attrs.evolve(outer, location=location(self.loc, outer))
        if not where or where[-1].units:
            return outer
        (number,) = (Affine.index(index.name) for index in outer.indices if self.idx_tag in index.words)
        return attrs.evolve(outer, location=(*where[:-1], attrs.evolve(where[-1], units=(number,))))


def _owns_results(block: Block, name: str) -> bool:
    """Return whether points of a block with different values of an index write different elements."""
    return all(moves_apart(r, name) for r in block.refinements if r.direction.writes)


def moves_apart(view: Refinement, name: str) -> bool:
    """Return whether different values of an index select different elements, by an axis that only it moves."""
    return any(
        affine.indices == (name,) and abs(int(affine.coefficient(name))) >= dim.size
        for affine, dim in zip(view.access, view.shape.dims, strict=True)
    )


def _without_idle(outer: Block, chosen: str, tag: str) -> Block:
    """Return a block of parts over the chosen index, which gets a tag; the other indices have one value."""
    kept = tuple(
        index.worded(tag) if index.name == chosen else index
        for index in outer.indices
        if index.name == chosen or index.affine is not None
    )
    names = {index.name for index in kept}
    idle = {index.name: Affine() for index in outer.indices if index.name not in names}
    block = reindexed(outer, kept, idle)
    (inner,) = block.blocks
    zero = {i.name: Affine() for i in inner.indices if i.range == 1 and i.affine == Affine()}
    left = tuple(index for index in inner.indices if index.name not in zero)
    return attrs.evolve(block, statements=(attrs.evolve(reindexed(inner, left, zero), location=()),))


@attrs.frozen
class PartitionMemory:
    """Spread refinements of the selected blocks over banks, or units, of memory: each gets a bank axis.

    The bank axis is the axis along which parts of the work move, if :class:`PartitionCompute` has made parts, so that
    units find their data in their own banks; otherwise, the first axis that divides evenly. The pass ``schedule``
    allocates an equal number of bytes in each bank.

    Attributes:
        reqs: Tags that a block must carry.
        ref_reqs: Tags that a refinement must carry.
        num_parts: Number of banks; with 1, the pass does nothing.
        idx_tag: The tag of indices over parts.
        skip_tags: Refinements with one of these tags are left alone.
    """

    name: ClassVar[str] = "partition_memory"
    reqs: tuple[str, ...] = (MAIN,)
    ref_reqs: tuple[str, ...] = ()
    num_parts: int = attrs.field(default=1, validator=at_least(1))
    idx_tag: str = "part"
    skip_tags: tuple[str, ...] = ()

    def __call__(self, program: Program) -> Program:
        """Return the program with bank axes."""
        if self.num_parts == 1:
            return program
        return rewrite_blocks(program, self._partitioned, self.reqs, entry=True)

    def _partitioned(self, scope: Scope) -> Block:
        block = scope.block
        refinements = tuple(self._banked(r, block) for r in block.refinements)
        return block if refinements == block.refinements else attrs.evolve(block, refinements=refinements)

    def _banked(self, refinement: Refinement, block: Block) -> Refinement:
        tags = refinement.tags
        if refinement.bank_dim is not None or not tags.has_all(self.ref_reqs) or any(t in tags for t in self.skip_tags):
            return refinement
        dims = refinement.shape.dims
        fitting = [axis for axis, dim in enumerate(dims) if dim.size and dim.size % self.num_parts == 0]
        moved = next(_axes_of_parts(block, refinement.name, self.idx_tag), None)
        axis = moved if moved is not None else next(iter(fitting), None)
        return refinement if axis is None else attrs.evolve(refinement, bank_dim=axis)


def _axes_of_parts(block: Block, name: str, tag: str) -> Iterator[int]:
    """Yield the axes of a refinement that the part index of inner blocks moves."""
    pending = [(inner, name) for inner in block.blocks]
    while pending:
        current, source = pending.pop()
        parts = {index.name for index in current.indices if tag in index.tags}
        for view in current.refinements:
            if view.direction is Direction.NONE or view.source != source:
                continue
            yield from (axis for axis, affine in enumerate(view.access) if parts & set(affine.indices))
            pending.extend((inner, view.name) for inner in current.blocks)


def hand_down(program: Program, needed: Callable[[Aliases], Iterable[str]], reqs: tuple[str, ...]) -> Program:
    """Return the program with all indices visible that the selected blocks need; the program itself if they are.

    ``needed`` names them ``depth:index``, like :class:`tileir.stripe.aliases.Aliases`.
    """
    entry, missing = _handed(Aliases(enter(program.entry, None, 0)), needed, choice(program, reqs))
    if missing:
        raise KeyError(f"no block has the indices {sorted(missing)}")
    return with_entry(program, entry)


def visible(aliases: Aliases) -> dict[str, str]:
    """Return the local name of each visible index, named ``depth:index``, of a block or its ancestors."""
    found: dict[str, str] = {}
    for name, value in aliases.values.items():
        if value.offset == 0 and len(value.terms) == 1 and value.terms[0][1] == 1:
            found.setdefault(value.terms[0][0], name)
    return found


def _handed(
    aliases: Aliases, needed: Callable[[Aliases], Iterable[str]], chosen: Callable[[Block], bool]
) -> tuple[Block, dict[str, str]]:
    """Return a block with added indices, and their names by ``depth:index``; all still start at 0."""
    block = aliases.scope.block
    asked = dict.fromkeys(needed(aliases)) if chosen(block) else {}
    inner: list[tuple[Block, dict[str, str]] | Statement] = []
    for number, statement in enumerate(block.statements):
        if not isinstance(statement, Block):
            inner.append(statement)
            continue
        handed = _handed(Aliases(enter(statement, aliases.scope, number), aliases), needed, chosen)
        asked.update(dict.fromkeys(handed[1]))
        inner.append(handed)
    known = visible(aliases)
    names = NameScope.of(index.name for index in block.indices)
    added = {symbol: names.fresh(symbol.partition(":")[2]) for symbol in asked if symbol not in known}
    known.update(added)
    statements = tuple(_filled(item, known) if isinstance(item, tuple) else item for item in inner)
    if not added and all(new is old for new, old in zip(statements, block.statements, strict=True)):
        return block, {}
    more = tuple(Index(name, 1) for name in added.values())
    return attrs.evolve(block, indices=(*block.indices, *more), statements=statements), added


def _filled(handed: tuple[Block, dict[str, str]], known: dict[str, str]) -> Block:
    """Return an inner block whose new indices get their values from the enclosing block."""
    block, added = handed
    values = {name: known[symbol] for symbol, name in added.items()}
    if not values:
        return block
    indices = tuple(
        attrs.evolve(i, affine=Affine.index(values[i.name])) if i.name in values else i for i in block.indices
    )
    return attrs.evolve(block, indices=indices)
