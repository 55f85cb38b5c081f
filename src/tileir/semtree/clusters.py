"""Clusters: groups that run at the same time and share copies; and their replacement on other devices."""

from __future__ import annotations

from math import prod

from tileir.core import Op, attrs
from tileir.semtree.ir import (
    Apply,
    Barrier,
    BulkCopy,
    Cast,
    Const,
    Expr,
    GridIndex,
    GridLevel,
    KernelFunction,
    Scope,
    Stmt,
    Type,
)
from tileir.semtree.rewrite import rewrite_stmts, statements, with_body


def axis_of_parts(stmt: BulkCopy, cluster: int) -> int | None:
    """Return the axis along which a box is split for ``cluster`` groups; None without equal parts.

    Folded rows are split along the row, if parts have equally many pieces; others along the first axis with more than
    one element.
    """
    piece, row, rows = stmt.fold
    if piece and row == stmt.box[-1] and row * rows == prod(stmt.box) and row // piece % cluster == 0:
        return len(stmt.box) - 1
    axis = next((n for n, side in enumerate(stmt.box) if side > 1), 0)
    return None if stmt.box[axis] % cluster else axis


def part_of(stmt: BulkCopy, kernel: KernelFunction) -> BulkCopy | None:
    """Return a group's own copy of a part of its cluster's box; None if the box has no equal parts."""
    if stmt.scope is Scope.GROUP or kernel.cluster == 1:
        return stmt
    axis = axis_of_parts(stmt, kernel.cluster)
    if axis is None:
        return None
    side = stmt.box[axis] // kernel.cluster
    index = Type(kernel.index)
    rank = Apply(Op.MOD, (GridIndex(GridLevel.GROUP, 0, index), Const(kernel.cluster, index)))

    def moved(place: Expr, distance: int) -> Expr:
        step: Expr = Apply(Op.MUL, (rank, Const(distance, index)))
        return Apply(Op.ADD, (place, step if place.type == index else Cast(step, place.type)))

    offset = moved(stmt.target.offset, prod(stmt.box) // kernel.cluster)
    at = (*stmt.at[:axis], moved(stmt.at[axis], side * stmt.every[axis]), *stmt.at[axis + 1 :])
    box = (*stmt.box[:axis], side, *stmt.box[axis + 1 :])
    fold = stmt.fold
    if any(fold) and axis == len(stmt.box) - 1:
        fold = (fold[0], side, fold[2])
    return attrs.evolve(stmt, target=attrs.evolve(stmt.target, offset=offset), box=box, at=at, fold=fold)


def with_parts(kernel: KernelFunction) -> KernelFunction:
    """Return the kernel with each group's own copies in place of those of whole boxes for a cluster."""

    def parted(stmt: Stmt) -> tuple[Stmt, ...]:
        own = part_of(stmt, kernel) if isinstance(stmt, BulkCopy) else stmt
        assert own is not None  # the verifier saw to it
        return (own,)

    return with_body(kernel, rewrite_stmts(parted, kernel.body))


def channels_of_clusters(kernel: KernelFunction) -> frozenset[str]:
    """Return the channels whose messages all groups of a cluster send and release."""
    copies = (stmt for stmt in statements(kernel.body) if isinstance(stmt, BulkCopy))
    return frozenset(stmt.channel.array for stmt in copies if stmt.scope is Scope.CLUSTER)


def clustered(kernel: KernelFunction, cluster: int) -> KernelFunction:
    """Return the kernel with clusters of ``cluster`` groups, which meet at its end, if it copies boxes for clusters."""
    if not channels_of_clusters(kernel):
        return kernel
    return attrs.evolve(kernel, body=(*kernel.body, Barrier(Scope.CLUSTER)), cluster=cluster)


def without_clusters(kernel: KernelFunction) -> KernelFunction:
    """Return an equal kernel whose groups copy whole boxes themselves; itself without clusters."""

    def alone(stmt: Stmt) -> tuple[Stmt, ...]:
        match stmt:
            case BulkCopy(scope=Scope.CLUSTER):
                return (attrs.evolve(stmt, scope=Scope.GROUP),)
            case Barrier(scope=Scope.CLUSTER):
                return (Barrier(),)
            case _:
                return (stmt,)

    kernel = kernel if kernel.cluster == 1 else attrs.evolve(kernel, cluster=1)
    return with_body(kernel, rewrite_stmts(alone, kernel.body))
