"""Run blocks that meet at the same elements as one, so that what passes between them stays near."""

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

    A kernel joins those whose results it reads element by element: elementwise kernels each other, and the
    contraction that feeds them. With ``siblings`` also kernels join that read one tensor at the same elements and
    write results of the same layout. Without ``perfect``, it is enough that kernels share some indices, such as that of
    rows: the others run in blocks inside, one kernel's after the other's. Nothing is computed twice. A tensor that is
    still needed elsewhere is stored as before; others are left to the passes localise and scalarise.

    Attributes:
        parent_reqs: Where blocks are joined: in the blocks inside kernels that carry these tags; kernels if there are
            none.
        a_reqs: Tags that the earlier of two blocks must carry.
        b_reqs: Tags that the later one must carry.
        exclude: Tags that neither may carry.
        fused_set: Tags that a joined block gets, beside those of its parts.
        a_inner_set: Tags of the block that is made inside for the indices that only the earlier one has.
        b_inner_set: Tags of that for the later one.
        inner_remove_set: Tags that these blocks do not take over from what they are made of.
        perfect: Whether boxes must correspond as a whole.
        output_match: Whether both must write results of the same layout.
        no_inner: Whether to leave blocks alone that hold others.
        no_constraints: Whether to leave blocks alone that have constraints.
        max_refs: Most tensors that a joined block touches, not counting those that only it needs.
        max_statements: Most computations (statements other than loads, stores and constants) of a joined block.
        max_reductions: Most nested blocks of the blocks that are joined.
        siblings: Whether to join blocks that depend on each other in no way.
        sibling_reductions: Whether such blocks may have blocks inside; and whether, with ``parent_reqs``, what must
            not stand between them is moved to the front.
        far: From how many statements apart on blocks are joined only where no more memory is then in use between them.
        rows: Whether indices are only shared where the others run along memory, in kernels without blocks inside; and
            products of matrices, whose tiles have a schedule of their own, are joined with no other block that reduces.
        products: Whether, where ``rows``, products of matrices are joined with each other.
        shorten: Whether, where ``rows``, the innermost shared indices stay with the rows where these are short else.
        least_points: Fewest points of shared indices.
        few_bytes: Where points are fewer, the bytes that one of them may take at most; 0: they are never enough. Other
            than 0, a group of threads shares each row: kernels that write one tensor in two orders stay apart.
        beside_bytes: Where ``rows``, rows may also lie side by side in memory, as columns do. So many bytes of such are
            taken together, and count as one point. 0: they may not.
        least_row: Fewest points inside, where ``rows``.
        most_bytes: Most bytes of one tensor inside, where ``rows``.
        local_bytes: Other than 0, rows may be longer, as long as all that nothing else needs of one has so many bytes
            at most: what several loops read of memory is read again.
        costly: Other than 0, large products of narrow matrices, whose threads do nothing else while they compute with
            results, are not joined with kernels that read these where they are stored anyway, and that begin more
            operations on each, by their weights, than so many.

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
        """Join blocks in each block that carries ``parent_reqs``, the outermost ones of those inside each other."""
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
    """Return the block with statements that depend on no block inside in front of the blocks; itself where they are.

    Two sums, each set to 0 just before its loop, are set to 0 before both loops then.
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
