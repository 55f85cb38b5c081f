"""Blockwise long sums, whose rounding errors grow with the logarithm of their length instead of the length itself.

An accumulator that takes one term after the other rounds at every step. NumPy adds contiguous elements in pairs
(Higham, "The accuracy of floating point summation", 1993), and BLAS libraries add up a block of a product before they
add it to the result. Here a loop that adds to accumulators in registers becomes a loop over blocks of steps: each block
has its own accumulators, which it finally adds to those of the outer loop, and the blocks of a long loop are summed in
blocks again. The length of a block depends only on the loop, so sums are identical for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import ClassVar

from tileir.core import Aggregation, NameScope, Op, attrs, rewritten
from tileir.passes.base import at_least, map_kernels, unordered
from tileir.passes.kernels import schedule as sch
from tileir.passes.regions.tile import tiled
from tileir.poly.affine import Affine
from tileir.stripe import ir as stripe

_SCHEDULED = (stripe.Binding.GRID, stripe.Binding.THREAD, stripe.Binding.LANE, stripe.Binding.UNROLL)
"""Bindings of indices that are no loops and cannot be split."""

_REGISTER_BYTES = 1024
"""Maximum size of a loop's accumulators in registers; others are in a cache."""

_MOST_BYTES = 16 * 1024
"""Maximum size of accumulators that get blocks: two sets of them must fit the nearest cache."""


@attrs.frozen
class BlockSums:
    """Sum floats blockwise: cut loops that add many terms to accumulators in registers into blocks with partial sums.

    Runs after the scheduling passes, and handles all loops, no matter which pass made them.

    Attributes:
        terms: Maximum number of terms that are added to one accumulator in sequence.
        coarse: The limit for contractions, which reuse a factor for several sums, and for accumulators in a cache:
            adding up many accumulators costs more, and NumPy and BLAS libraries block these sums coarsely or not at
            all.
    """

    name: ClassVar[str] = "block_sums"
    terms: int = attrs.field(default=16, validator=at_least(2))
    coarse: int = attrs.field(default=256, validator=at_least(2))

    def __call__(self, program: stripe.Program) -> stripe.Program:
        """Return the program with long sums in blocks."""
        return map_kernels(program, lambda kernel: self._below(kernel, frozenset()))

    def _below(self, block: stripe.Block, around: frozenset[str]) -> stripe.Block:
        """Split the loops inside ``block``, innermost first, then its own; ``around`` are views of registers there."""
        local = frozenset(
            r.name
            for r in block.refinements
            if (r.source in around if r.source else _is_register(r)) and r.shape.dtype.is_float
        )
        inner = rewritten(block.statements, lambda s: (self._below(s, local) if isinstance(s, stripe.Block) else s,))
        if inner is not block.statements:
            block = attrs.evolve(block, statements=unordered(inner))
        if not _is_loop(block):
            return block
        found = [_Sum.of(block, r) for r in block.refinements if r.source in around and _adds(r)]
        known = tuple(each for each in found if each is not None)
        if not known or len(known) < len(found):
            return block
        most = self.coarse if all(each.is_coarse for each in known) else self.terms
        while (sizes := _sizes(block, known, most)) is not None:
            block, known = _blocked(block, known, sizes)
        return block


def _is_register(refinement: stripe.Refinement) -> bool:
    return refinement.direction is stripe.Direction.NONE and refinement.location == sch.REGISTER


def _adds(refinement: stripe.Refinement) -> bool:
    return (
        refinement.aggregation is Aggregation.SUM
        and refinement.direction is stripe.Direction.INOUT
        and refinement.shape.dtype.is_float
    )


def _is_loop(block: stripe.Block) -> bool:
    """Return whether all indices of a block are plain loops, or values from its parent."""
    return not any(index.serial or index.binding in _SCHEDULED for index in block.indices)


@attrs.frozen(repr=False)
class _Sum:
    """Sums that a loop adds to accumulators.

    Attributes:
        view: The loop's view of the accumulators.
        indices: Indices that distinguish the accumulators of the adding statement.
        place: Place of the accumulator in the view.
        steps: Number of terms that one iteration adds to each accumulator.
        contracts: Whether the terms are products with a factor that several sums use.
    """

    view: stripe.Refinement
    indices: tuple[stripe.Index, ...]
    place: tuple[Affine, ...]
    steps: int
    contracts: bool

    @classmethod
    def of(cls, loop: stripe.Block, view: stripe.Refinement) -> _Sum | None:
        """Return the sums of ``loop`` in ``view``; None unless they are one store, at an affine place."""
        if any(affine.terms for affine in view.access) or view.shape.elements * view.shape.dtype.itemsize > _MOST_BYTES:
            return None
        path, name = [loop], view.name
        place = tuple(Affine() for _ in view.access)
        indices: list[stripe.Index] = []
        while True:
            users = [s for s in path[-1].statements if _uses(s, name)]
            if len(users) != 1:
                return None
            user = users[0]
            if not isinstance(user, stripe.Block):
                break
            inside = [r for r in user.refinements if r.source == name]
            if len(inside) != 1 or len(inside[0].access) != len(place) or inside[0].aggregation is not view.aggregation:
                return None
            if any(i.binding is stripe.Binding.THREAD for i in user.indices):
                return None
            place = tuple(a + b for a, b in zip(place, inside[0].access, strict=True))
            indices.extend(i for i in user.indices if i.affine is None)
            path.append(user)
            name = inside[0].name
        if not isinstance(user, stripe.Store) or user.index is not None or user.into != name:
            return None
        own = {n for affine in place for n in affine.indices}
        if len({i.name for i in indices}) < len(indices) or not own.issubset(i.name for i in indices):
            return None
        steps = prod(i.range for i in indices if i.name not in own and i.binding is not stripe.Binding.LANE)
        kept = tuple(i for i in indices if i.name in own)
        return cls(view, kept, place, steps, _contracts(path, user.source, [i.name for i in kept if i.range > 1]))

    @property
    def is_coarse(self) -> bool:
        """True if blocks should be long: it contracts, or its accumulators are in a cache.

        Any number of accumulators per loop counts: the number of adjacent accumulators may depend on the threads.
        """
        in_loop = any(index.binding is None and index.range > 1 for index in self.indices)
        return self.contracts or in_loop or self.view.shape.elements * self.view.shape.dtype.itemsize > _REGISTER_BYTES

    @property
    def shape(self) -> stripe.TensorShape:
        """Shape of an element in the memory of the accumulators."""
        return self.view.shape.element


def _uses(statement: stripe.Statement, name: str) -> bool:
    return name in stripe.views_read(statement) or name in stripe.views_written(statement)


def _contracts(path: Sequence[stripe.Block], scalar: str, indices: Iterable[str]) -> bool:
    """Return whether a scalar of the last block of ``path`` is a product that shares a factor along some index."""
    block = path[-1]
    made = next((s for s in block.statements if stripe.scalar_output(s) == scalar), None)
    if not isinstance(made, stripe.Intrinsic) or made.op is not Op.MUL:
        return False
    loads = {s.into: s.source for s in block.statements if isinstance(s, stripe.Load)}
    converts = {s.into: s.input for s in block.statements if isinstance(s, stripe.Convert)}
    factors = {loads.get(converts.get(name, name)) for name in made.inputs}
    if None in factors or len(factors) < len(made.inputs):
        return False
    moving = [_moving(path, name) for name in factors if name is not None]
    return any(index not in moves for moves in moving for index in indices)


def _moving(path: Sequence[stripe.Block], name: str) -> frozenset[str]:
    """Return the indices of the blocks of ``path`` that move a view of the last one."""
    found: set[str] = set()
    for block in reversed(path):
        view = next((r for r in block.refinements if r.name == name), None)
        if view is None:
            break
        found.update(index for affine in view.access for index in affine.indices)
        name = view.source
    return frozenset(found)


def _sizes(loop: stripe.Block, sums: Sequence[_Sum], most: int) -> tuple[int, ...] | None:
    """Return the number of values of each index of a loop in a block; None if the loop is short enough."""
    left = max(1, most // max(each.steps for each in sums))
    if prod(i.range for i in loop.indices if i.affine is None) <= 2 * left:
        return None
    sizes: list[int] = []
    for index in reversed(loop.indices):
        if index.affine is not None:
            sizes.append(1)
            continue
        blocks = -(-index.range // left)
        sizes.append(-(-index.range // blocks))
        left = max(1, left // sizes[-1])
    return tuple(reversed(sizes))


def _blocked(loop: stripe.Block, sums: Sequence[_Sum], sizes: Sequence[int]) -> tuple[stripe.Block, tuple[_Sum, ...]]:
    """Return a loop over blocks of ``sizes``, each with its own accumulators, and their addition."""
    outer = tiled(loop, sizes, (), loop.tags)
    (inner,) = outer.blocks
    names = NameScope.of(r.name for r in outer.refinements)
    before: list[stripe.Statement] = []
    after: list[stripe.Statement] = []
    allocations: list[stripe.Refinement] = []
    blocks: dict[str, str] = {}
    for each in sums:
        name = blocks[each.view.name] = names.fresh(f"{each.view.name}_block")
        zero = tuple(Affine() for _ in each.view.access)
        allocations.append(
            stripe.Refinement(name, stripe.Direction.NONE, "", zero, each.view.shape, location=sch.REGISTER)
        )
        sum_of_block = stripe.Refinement("block", stripe.Direction.OUT, name, each.place, each.shape)
        constant = stripe.Constant("zero", each.view.shape.dtype, 0.0)
        before.append(_over(each.indices, (sum_of_block,), (constant, stripe.Store("zero", "block"))))
        read = attrs.evolve(sum_of_block, direction=stripe.Direction.IN)
        total = attrs.evolve(each.view, name="total", source=each.view.name, access=each.place, shape=each.shape)
        statements = (stripe.Load("block", "value"), stripe.Store("value", "total"))
        after.append(_over(each.indices, (read, total), statements))
    views = tuple(attrs.evolve(r, source=blocks.get(r.source, r.source)) for r in inner.refinements)
    inner = attrs.evolve(inner, refinements=views)
    outer = attrs.evolve(
        outer,
        constraints=tuple(_of_blocks(constraint, loop, sizes) for constraint in loop.constraints),
        refinements=(*outer.refinements, *allocations),
        statements=(*before, inner, *after),
        comments=(),
    )
    return outer, tuple(attrs.evolve(each, steps=1) for each in sums)


def _of_blocks(constraint: Affine, loop: stripe.Block, sizes: Sequence[int]) -> Affine:
    """Relax a loop's constraint to the blocks of ``sizes`` in which some step may satisfy it."""
    most = constraint
    for index, size in zip(loop.indices, sizes, strict=True):
        if index.affine is None:
            ahead = max(0, int(constraint.coefficient(index.name)) * (size - 1))
            most = most.substitute({index.name: Affine.of({index.name: size})}) + ahead
    return most


def _over(
    indices: Iterable[stripe.Index], views: tuple[stripe.Refinement, ...], statements: tuple[stripe.Statement, ...]
) -> stripe.Block:
    return stripe.Block(indices=tuple(indices), refinements=views, statements=statements)
