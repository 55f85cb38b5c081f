"""Move temporaries into the one kernel that uses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from tileir.core import attrs, grouped, rewritten
from tileir.passes.analysis import is_element, roots
from tileir.passes.base import map_kernels, means_all, selected_kernel, unordered, with_temporaries
from tileir.passes.kernels.schedule import REGISTER
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Block,
    Dim,
    Direction,
    Program,
    Refinement,
    Statement,
    TensorShape,
    views_read,
    views_written,
)


@attrs.frozen
class Localise:
    """Contract temporaries that only one kernel uses to the elements that one point accesses.

    The kernel must access the temporary through a single view of direction OUT: a point then reads only elements that
    it has written itself. Temporaries of one element become registers.

    Attributes:
        reqs: Tags that a kernel, or ``main``, must carry.
        sink: Whether to continue inside kernels: an allocation of a block moves into the only inner block that uses it.
    """

    name: ClassVar[str] = "localise"
    aliases: ClassVar[tuple[str, ...]] = ("localize",)
    reqs: tuple[str, ...] = ()
    sink: bool = False

    def __call__(self, program: Program) -> Program:
        """Return the program with temporaries moved into the kernels, if these or ``main`` carry all of ``reqs``."""
        owned = _owned(program)
        everywhere = means_all(self.reqs)
        kernels: list[Block] = []
        gone: set[str] = set()
        for number, kernel in enumerate(program.main.blocks):
            mine = owned.get(number, frozenset())
            local = _localisable(kernel, mine) if everywhere or selected_kernel(kernel, self.reqs) else {}
            gone.update(kernel.refinement(name).source for name in local)
            kernels.append(_allocating(kernel, local) if local else kernel)
        program = with_temporaries(program, tuple(kernels), (), gone) if gone else program
        return map_kernels(program, _sunk, self.reqs) if self.sink else program


def _sunk(block: Block) -> Block:
    """Return a block with allocations moved as far inwards as their uses; nesting is bounded."""
    allocated = {r.name for r in block.refinements if r.direction is Direction.NONE}
    users = Counter(name for s in block.statements for name in {*views_read(s), *views_written(s)} & allocated)
    sinking = frozenset(name for name, count in users.items() if count == 1)
    gone: set[str] = set()

    def sink(statement: Statement) -> tuple[Statement, ...]:
        if not isinstance(statement, Block):
            return (statement,)
        local = _localisable(statement, sinking)
        gone.update(statement.refinement(name).source for name in local)
        return (_sunk(_allocating(statement, local) if local else statement),)

    statements = rewritten(block.statements, sink)
    if statements is block.statements:
        return block
    kept = tuple(r for r in block.refinements if r.name not in gone)
    return attrs.evolve(block, refinements=kept, statements=unordered(statements))


def _owned(program: Program) -> dict[int, frozenset[str]]:
    """Return, by kernel number, the views of ``main`` that show temporaries of that kernel alone."""
    behind = roots(program)
    shared = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
    if len(set(behind.values())) < len(behind):
        counts = Counter(behind.values())
        shared.update(root for root, count in counts.items() if count > 1)
    owner: dict[str, int] = {}
    for number, kernel in enumerate(program.main.blocks):
        for refinement in kernel.refinements:
            if refinement.direction is not Direction.NONE and owner.setdefault(refinement.source, number) != number:
                shared.add(behind[refinement.source])
    owned = grouped((number, source) for source, number in owner.items() if behind[source] not in shared)
    return {number: frozenset(sources) for number, sources in owned.items()}


def _localisable(kernel: Block, temporaries: frozenset[str]) -> dict[str, Refinement]:
    """Return the allocations that can replace views of ``temporaries``, by name."""
    views = Counter(r.source for r in kernel.refinements if r.direction is not Direction.NONE)
    blocks = kernel.blocks
    return {
        r.name: _allocation(r)
        for r in kernel.refinements
        if r.source in temporaries and views[r.source] == 1 and _is_private(r) and _same_rank(blocks, r)
    }


def _is_private(refinement: Refinement) -> bool:
    return refinement.direction is Direction.OUT and not refinement.merges


def _allocation(view: Refinement) -> Refinement:
    """Return an allocation for the elements that one point accesses through ``view``."""
    shape = view.shape if is_element(view) else TensorShape.dense(view.shape.dtype, view.shape.sizes)
    return attrs.evolve(
        view,
        direction=Direction.NONE,
        source="",
        access=(Affine(),) * len(shape.dims),
        shape=shape,
        aggregation=None,
        location=REGISTER if is_element(view) else (),
    )


def _same_rank(blocks: tuple[Block, ...], view: Refinement) -> bool:
    return all(
        len(r.shape.dims) == len(view.shape.dims) and _same_rank(inner.blocks, r)
        for inner in blocks
        for r in inner.refinements
        if r.direction is not Direction.NONE and r.source == view.name
    )


def _allocating(block: Block, local: Mapping[str, Refinement]) -> Block:
    """Return ``block`` with allocations in place of views, and nested views with their strides."""
    refinements = tuple(local.get(r.name, r) for r in block.refinements)
    return restrided(attrs.evolve(block, refinements=refinements), local)


def restrided(block: Block, parents: Mapping[str, Refinement]) -> Block:
    """Give the views inside ``block`` of its refinements ``parents`` the strides of their sources."""
    statements: list[Statement] = []
    for statement in block.statements:
        if isinstance(statement, Block):
            fitted = {
                r.name: attrs.evolve(r, shape=_with_strides(r.shape, parents[r.source].shape))
                for r in statement.refinements
                if r.direction is not Direction.NONE and r.source in parents
            }
            views = tuple(fitted.get(r.name, r) for r in statement.refinements)
            statements.append(restrided(attrs.evolve(statement, refinements=views), fitted) if fitted else statement)
        else:
            statements.append(statement)
    return attrs.evolve(block, statements=tuple(statements))


def _with_strides(shape: TensorShape, outer: TensorShape) -> TensorShape:
    dims = tuple(Dim(own.size, of.stride) for own, of in zip(shape.dims, outer.dims, strict=True))
    return attrs.evolve(shape, dims=dims)
