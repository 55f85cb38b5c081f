"""Fusion of blocks that access corresponding elements, so that intermediate values stay near."""

from __future__ import annotations

from typing import ClassVar

from tileir.core import attrs, rewritten
from tileir.passes.base import NOT_MEANT, at_least, free_tags, selected, selected_kernel, with_kernels
from tileir.passes.fusion.scan import FusionScan
from tileir.passes.kernels.expansion import called_block, left
from tileir.schedule.remarks import listener, refused, remark
from tileir.stripe.ir import (
    KERNEL,
    Block,
    Direction,
    Program,
    Statement,
    scalar_inputs,
    scalar_output,
    views_read,
    views_written,
)


@attrs.frozen
class Fuse:
    """Fuse kernels over corresponding index boxes, in one scan with an index of last writers.

    A kernel joins the producers of the elements that it reads: elementwise kernels join each other, and the contraction
    that feeds them. With ``siblings``, kernels that read one tensor at equal elements and write results of equal layout
    are joined, too. Without ``perfect``, common outer indices, such as those of rows, are sufficient: the inner loops
    run one after the other in nested blocks. Nothing is recomputed. A tensor with other readers is still stored;
    temporaries are left to the passes ``localise`` and ``scalarise``.

    Attributes:
        parent_reqs: Tags of kernels inside which blocks are joined; without tags, kernels are joined.
        a_reqs: Tags that the earlier of two blocks must carry.
        b_reqs: Tags that the later block must carry.
        exclude: Tags that neither block may carry.
        fused_set: Tags that a joined block gets in addition to those of its parts.
        a_inner_set: Tags of the inner block over indices of the earlier block only.
        b_inner_set: Tags of the inner block over indices of the later block only.
        inner_remove_set: Tags that these inner blocks do not inherit.
        perfect: Whether index boxes must correspond completely.
        output_match: Whether both blocks must write results of equal layout.
        no_inner: Whether to exclude blocks with inner blocks.
        no_constraints: Whether to exclude blocks with constraints.
        max_refs: Maximum number of tensors that a joined block accesses, not counting its own temporaries.
        max_statements: Maximum number of computations (statements except loads, stores and constants) in a joined
            block.
        max_reductions: Maximum number of nested blocks in a joined block.
        siblings: Whether to join independent blocks.
        sibling_reductions: Whether independent blocks may have inner blocks; with ``parent_reqs``, statements that must
            not stand between them are moved to the front.
        far: Distance, in statements, from which blocks are joined only if this does not increase the memory that is
            live between them.
        rows: Whether to share outer indices only if the inner ones run along memory, in kernels without inner blocks.
            Matrix products, which have their own tiling, are then not joined with other reductions.
        products: Whether to join matrix products with each other, with ``rows``.
        shorten: Whether, with ``rows``, the innermost shared indices become inner ones if rows are short otherwise.
        least_points: Minimum number of points of the shared indices.
        few_bytes: Maximum bytes of one shared point if there are fewer than ``least_points``; 0: never join these. If
            it is positive, a group of threads shares each row, and kernels that write one tensor in two orders are not
            joined.
        beside_bytes: With ``rows``, bytes of rows that lie side by side in memory, like columns, that are taken
            together and count as one point; 0 excludes such rows.
        least_row: Minimum number of inner points, with ``rows``.
        most_bytes: Maximum inner bytes of one tensor, with ``rows``.
        local_bytes: Maximum bytes per row of temporaries of a joined block whose rows exceed ``most_bytes``; inputs are
            read again by each loop. 0 for no such rows.
        costly: Maximum operations, weighted by cost, that a reader starts on each result of a large product of narrow
            matrices if the result is stored anyway: more would stall the product's threads. 0 for no limit.
    """

    name: ClassVar[str] = "fuse"
    parent_reqs: tuple[str, ...] = ()
    a_reqs: tuple[str, ...] = ()
    b_reqs: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ("copies",)
    fused_set: tuple[str, ...] = attrs.field(default=("fused",), validator=free_tags)
    a_inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    b_inner_set: tuple[str, ...] = attrs.field(default=(), validator=free_tags)
    inner_remove_set: tuple[str, ...] = ()
    perfect: bool = True
    output_match: bool = False
    no_inner: bool = False
    no_constraints: bool = False
    max_refs: int = attrs.field(default=64, validator=at_least(1))
    max_statements: int = attrs.field(default=128, validator=at_least(1))
    max_reductions: int = attrs.field(default=1, validator=at_least(0))
    siblings: bool = True
    sibling_reductions: bool = False
    far: int = attrs.field(default=8, validator=at_least(0))
    rows: bool = False
    products: bool = False
    shorten: bool = False
    least_points: int = attrs.field(default=2, validator=at_least(1))
    few_bytes: int = attrs.field(default=0, validator=at_least(0))
    beside_bytes: int = attrs.field(default=0, validator=at_least(0))
    least_row: int = attrs.field(default=32, validator=at_least(1))
    most_bytes: int = attrs.field(default=256 * 1024, validator=at_least(1))
    local_bytes: int = attrs.field(default=0, validator=at_least(0))
    costly: int = attrs.field(default=0, validator=at_least(0))

    def __call__(self, program: Program) -> Program:
        """Return the program with blocks joined."""
        if self.parent_reqs:
            return with_kernels(program, rewritten(program.main.statements, self._in_kernel))
        if KERNEL in self.exclude:
            return left(program, NOT_MEANT)
        options = attrs.evolve(self, a_reqs=_but_kernel(self.a_reqs), b_reqs=_but_kernel(self.b_reqs))
        kept = {*program.inputs, *program.outputs, *(buffer.name for buffer in program.buffers)}
        constants = frozenset(buffer.name for buffer in program.buffers)
        scan = FusionScan(options, program.main, frozenset(kept), constants)
        statements = scan.statements()
        for number, block, why in scan.outcomes() if listener() is not None else ():
            remark(called_block(block), why, number=number)
        return with_kernels(program, statements)

    def _in_kernel(self, kernel: Statement) -> tuple[Statement, ...]:
        """Join blocks in each outermost block that carries ``parent_reqs``."""
        here = isinstance(kernel, Block) and selected_kernel(kernel, self.parent_reqs)
        after = self._inside(kernel, here=here)
        if isinstance(kernel, Block):
            remark(called_block(kernel), refused("TR680") if after is kernel else None)
        return (after,)

    def _inside(self, statement: Statement, *, here: bool) -> Statement:
        if not isinstance(statement, Block):
            return statement
        if here:
            kept = frozenset(r.source for r in statement.refinements if r.direction is not Direction.NONE)
            ready = _hoisted(statement) if self.sibling_reductions else statement
            inner = FusionScan(self, ready, kept).statements()
            if inner is ready.statements:
                return statement
            return attrs.evolve(statement, statements=inner, deps=())

        def joined(inner: Statement) -> tuple[Statement, ...]:
            return (self._inside(inner, here=isinstance(inner, Block) and selected(inner, self.parent_reqs)),)

        inner = rewritten(statement.statements, joined)
        return statement if inner is statement.statements else attrs.evolve(statement, statements=inner, deps=())


def _but_kernel(reqs: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in reqs if name != KERNEL)


@attrs.frozen
class Fusion(Fuse):
    """Fuse blocks that share some of their indices: the pass :class:`Fuse` with other defaults."""

    name: ClassVar[str] = "fusion"
    perfect: bool = False
    max_refs: int = attrs.field(default=1024, validator=at_least(1))
    max_statements: int = attrs.field(default=1024, validator=at_least(1))
    max_reductions: int = attrs.field(default=1024, validator=at_least(0))


def _hoisted(block: Block) -> Block:
    """Return the block with statements that depend on no nested block moved to the front; itself if they are there.

    Two sums, each initialised just before its loop, are then initialised before both loops.
    """
    roots = {r.name: r.source or r.name for r in block.refinements}
    front: list[Statement] = []
    rest: list[Statement] = []
    scalars: set[str | None] = set()  # that the rest defines
    read: set[str] = set()  # by the rest
    written: set[str] = set()
    for statement in block.statements:
        reads = {roots[name] for name in views_read(statement)}
        writes = {roots[name] for name in views_written(statement)}
        free = scalars.isdisjoint(scalar_inputs(statement)) and written.isdisjoint(reads | writes)
        if free and read.isdisjoint(writes) and not isinstance(statement, Block):
            front.append(statement)
            continue
        rest.append(statement)
        scalars.add(scalar_output(statement))
        read |= reads
        written |= writes
    statements = (*front, *rest)
    same = all(new is old for new, old in zip(statements, block.statements, strict=True))
    return block if same else attrs.evolve(block, statements=statements, deps=())
