"""Thread groups for tiled kernels: the threads divide the points of each piece."""

from __future__ import annotations

from typing import ClassVar

from tileir.core.nodes import attrs
from tileir.passes.analysis.accesses import address
from tileir.passes.base import KernelPass, at_least
from tileir.passes.kernels import schedule as sch
from tileir.passes.schedules.vectors.thread import independent_indices, shared_out
from tileir.schedule.reindex import reindexed
from tileir.stripe.ir import Binding, Block, Direction, Refinement


@attrs.frozen
class ThreadInner(KernelPass):
    """Assign a grid to kernels that only hold blocks, and the threads of a group to each of these blocks.

    Memory between the blocks becomes local memory of the group; a kernel whose memory does not fit is left alone, and
    kernels without blocks are left to ``distribute``. All threads run a block with its own copies, and divide its
    contents. Neighbouring threads take neighbouring elements of a block's stores.

    Attributes:
        reqs: Tags that a kernel must carry.
        threads: Threads in a group.
        local_bytes: Local memory of a group, in bytes.
    """

    name: ClassVar[str] = "thread_inner"
    reqs: tuple[str, ...] = ()
    threads: int = attrs.field(default=256, validator=at_least(1))
    local_bytes: int = attrs.field(default=32 * 1024, validator=at_least(0))

    def _kernel(self, kernel: Block) -> Block:
        if sch.is_scheduled(kernel) or not _holds_pieces(kernel) or _local_bytes(kernel) > self.local_bytes:
            return kernel
        inside = self._pieces(kernel)
        if inside is kernel:
            return kernel
        allowed = independent_indices(kernel)
        grid = [i for i in kernel.indices if i.name in allowed and i.range > 1 and i.affine is None]
        marked = [i.bound(Binding.GRID) for i in grid]
        return attrs.evolve(inside, indices=(*marked, *(i for i in kernel.indices if i not in grid)))

    def _pieces(self, block: Block) -> Block:
        """Return a uniform block of all threads, with its pieces distributed; the block itself if there are none."""
        pieces = tuple(self._pieces(piece) if _has_copies(piece) else self._shared_out(piece) for piece in block.blocks)
        if all(piece is old for piece, old in zip(pieces, block.blocks, strict=True)):
            return block
        own = {r.name: attrs.evolve(r, location=sch.LOCAL) for r in block.refinements if r.direction is Direction.NONE}
        return attrs.evolve(
            block,
            refinements=tuple(own.get(r.name, r) for r in block.refinements),
            statements=tuple(_seeing(piece, own) for piece in pieces),
            deps=(),
        )

    def _shared_out(self, block: Block) -> Block:
        """Return a block whose points the threads share."""
        shares = shared_out(block, self.threads, lambda name: _distance(block, name))
        if not shares.team:
            return block
        left = [shares.rest.get(i.name, i) for i in block.indices]
        kept = (i for i in left if i.name not in shares.rest or i.range > 1)
        inside = reindexed(block, (*shares.team, *kept), shares.values)
        return attrs.evolve(inside, constraints=(*inside.constraints, *shares.tests), deps=())


def _holds_pieces(block: Block) -> bool:
    """Return whether a block only holds blocks."""
    return bool(block.statements) and len(block.blocks) == len(block.statements)


def _has_copies(block: Block) -> bool:
    """Return whether a block only holds blocks, some of which copy to its own memory."""
    return _holds_pieces(block) and any("cache" in inner.tags for inner in block.blocks)


def _local_bytes(block: Block) -> int:
    """Return the bytes that blocks run by all threads allocate."""
    own = [r.shape for r in block.refinements if r.direction is Direction.NONE]
    inside = sum(_local_bytes(inner) for inner in block.blocks if _has_copies(inner))
    return sum(shape.span * shape.dtype.itemsize for shape in own) + inside


def _distance(block: Block, index: str) -> tuple[int, int]:
    """Return the stride of ``index`` in a block's writes, then in its reads."""
    steps = [(r.direction.writes, abs(int(address(r).coefficient(index)))) for r in block.refinements]
    written = min((step for writes, step in steps if writes and step), default=1 << 62)
    return written, min((step for writes, step in steps if not writes and step), default=1 << 62)


def _seeing(block: Block, memories: dict[str, Refinement]) -> Block:
    """Return a block whose views have the locations of the enclosing memories."""
    views = tuple(
        attrs.evolve(r, location=memories[r.source].location)
        if r.direction is not Direction.NONE and r.source in memories
        else r
        for r in block.refinements
    )
    return attrs.evolve(block, refinements=views)
