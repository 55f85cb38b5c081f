"""Two kernels in one launch: the first groups run the one, the others run the other one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeGuard

from tileir.core import DType, NameScope, Op, attrs
from tileir.semtree import ir as sem
from tileir.semtree.rewrite import freshened, kernel_names, map_expr, map_stmts, renamed
from tileir.semtree.roles import roles


def beside(
    one: sem.KernelFunction, other: sem.KernelFunction, same: Sequence[int | None], local_bytes: int
) -> sem.KernelFunction | None:
    """Return the kernel that does what two do; None where their groups or indices differ, or memory does not suffice.

    Args:
        one: The kernel of the first groups, whose parameters come first.
        other: The kernel of the groups behind.
        same: For each parameter of the other kernel, which one of the first is the same array, or None.
        local_bytes: Memory that the threads of a group share.

    """
    if one.group != other.group or one.index is not other.index or max(one.cluster, other.cluster) > 1:
        return None
    if roles(one) or roles(other):  # these stand in no condition
        return None
    names = NameScope.of(kernel_names(one))
    params = list(one.params)
    called = {}
    for param, place in zip(other.params, same, strict=True):
        if place is None:
            params.append(attrs.evolve(param, name=names.fresh(param.name)))
            called[param.name] = params[-1].name
        else:
            params[place] = _both(params[place], param)
            called[param.name] = params[place].name
    first, count = prod(one.grid), prod(other.grid)
    shared, body = _sharing(one.body, renamed(freshened(other.body, names), called))
    if sum(array.size * array.dtype.itemsize for array in shared) > local_bytes:
        return None
    group = sem.GridIndex(sem.GridLevel.GROUP, 0, sem.Type(one.index))
    start = sem.Const(first, group.type)
    then = _placed(_without(one.body), one.grid, group)
    otherwise = _placed(body, other.grid, sem.Apply(Op.SUB, (group, start)))
    return attrs.evolve(
        one,
        params=tuple(params),
        body=(*shared, sem.If(sem.Apply(Op.CMP_LT, (group, start)), then, otherwise)),
        grid=(first + count,),
        operations=one.operations + other.operations,
        comments=tuple(dict.fromkeys((*one.comments, *other.comments))),
    )


def _sharing(
    one: Sequence[sem.Stmt], other: tuple[sem.Stmt, ...]
) -> tuple[list[sem.DeclareArray], tuple[sem.Stmt, ...]]:
    """Return the local arrays of two kernels, of which a group runs one, and the second one with those of the first.

    They take turns by size, the largest first; but channels, of which each has a number of messages of its own.
    """
    arrays, more = sorted(filter(_is_local, one), key=_size), []
    places: dict[str, str] = {}
    for array in sorted(filter(_is_local, other), key=_size):
        free = [n for n, each in enumerate(arrays) if each.dtype is array.dtype and each.name not in places.values()]
        if not free or array.dtype is DType.U64:
            more.append(array)
            continue
        size, alignment = max(arrays[free[0]].size, array.size), max(arrays[free[0]].alignment, array.alignment)
        arrays[free[0]] = attrs.evolve(arrays[free[0]], size=size, alignment=alignment)
        places[array.name] = arrays[free[0]].name
    return [*arrays, *more], renamed(_without(other), places)


def _is_local(stmt: sem.Stmt) -> TypeGuard[sem.DeclareArray]:
    return isinstance(stmt, sem.DeclareArray) and stmt.region is not sem.Region.PRIVATE


def _size(array: sem.DeclareArray) -> int:
    return -array.size


def _without(body: Iterable[sem.Stmt]) -> tuple[sem.Stmt, ...]:
    """Return statements without local arrays, which stand at the beginning of a kernel."""
    return tuple(stmt for stmt in body if not _is_local(stmt))


def _both(one: sem.Param, other: sem.Param) -> sem.Param:
    access = one.access if one.access is other.access else sem.ParamAccess.READ_WRITE
    no_alias = one.no_alias and other.no_alias
    return attrs.evolve(one, access=access, no_alias=no_alias, alignment=max(one.alignment, other.alignment))


def _placed(body: tuple[sem.Stmt, ...], grid: tuple[int, ...], place: sem.Expr) -> tuple[sem.Stmt, ...]:
    """Return statements for the group that is at a place of a grid, axis 0 fastest."""
    axes: list[sem.Expr] = []
    left = place
    for extent in grid:
        size = sem.Const(extent, place.type)
        axes.append(left if len(axes) + 1 == len(grid) else sem.Apply(Op.MOD, (left, size)))
        left = sem.Apply(Op.DIV, (left, size))

    def at(node: sem.Expr) -> sem.Expr:
        match node:
            case sem.GridIndex(level=sem.GridLevel.GROUP, axis=axis):
                return axes[axis]
            case _:
                return node

    return map_stmts(lambda expr: map_expr(at, expr), body)
