"""Test of whether a kernel reads each element of one array before it writes the same place of another.

The two may have one memory then. This is proved for accesses whose offsets are sums of coordinates of the launch and
counters of loops, for each load and each store together. Where both move by the same strides in the coordinates and in
the loops around both, and these strides pass over all that the two reach otherwise, only one pass over the body of
these loops can touch an element: in it the two are apart, or the load is before the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from tileir.core import DType, Op, attrs
from tileir.semtree.analysis.effects import assigned_variables, is_plain, reads, writes
from tileir.semtree.ir import (
    Apply,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    GridIndex,
    GridLevel,
    KernelFunction,
    Ramp,
    Stmt,
    Subscript,
    Var,
)
from tileir.semtree.rewrite import bodies, declared_names, statements, trip_values

Loops: TypeAlias = tuple[For, ...]
Term: TypeAlias = str | tuple[GridLevel, int]
"""A counter or a coordinate, in a sum of such."""
Source: TypeAlias = int | tuple[GridLevel, int] | tuple[int, int]
"""Whatever moves an access: a loop, by its identity, an axis of the launch, or the distance and number of lanes."""
Access: TypeAlias = tuple[Subscript, Loops, bool]
"""An array's elements, the loops around, outermost first, and whether the access is a plain load or store."""


@attrs.frozen(eq=False)
class ElementOrder:
    """The places at which a kernel reads and writes each of its parameters, in the order of the text.

    ``None`` stands for a place of which nothing is known.
    """

    kernel: KernelFunction
    loads: Mapping[str, Sequence[_Site | None]]
    stores: Mapping[str, Sequence[_Site | None]]

    @classmethod
    def of(cls, kernel: KernelFunction) -> ElementOrder:
        """Collect them in one walk."""
        found: tuple[dict[str, list[_Site | None]], dict[str, list[_Site | None]]] = ({}, {})
        variables, names = _constant_variables(kernel), {param.name for param in kernel.params}
        for number, (stores, (node, loops, plain)) in enumerate(_accesses(kernel.body, ())):
            if node.array in names:
                site = _site(kernel, node, loops, variables, number) if plain else None
                found[stores].setdefault(node.array, []).append(site)
        return cls(kernel, *found)

    def first_store(self, written: int) -> int:
        """Return the number of the first access that writes a parameter; -1 where none does or nothing is known."""
        sites = self.stores.get(self.kernel.params[written].name, ())
        return sites[0].number if sites and sites[0] is not None else -1

    def reads_before_it_writes(self, read: int, written: int) -> bool:
        """Return whether parameter ``written`` may have the memory of parameter ``read``, which is only read.

        What is not proved is False.
        """
        loads = self.loads.get(self.kernel.params[read].name, ())
        stores = self.stores.get(self.kernel.params[written].name, ())
        if not stores:
            return False
        # The last load is the soonest to come after a store.
        pairs = product(reversed(loads), stores)
        return all(load is not None and store is not None and _in_order(load, store) for load, store in pairs)


@attrs.frozen(eq=False, repr=False)
class _Site:
    """Elements ``base + sum(stride * pass)`` of an array, of as many passes as each source of these has.

    Attributes:
        number: The place of the access in the text.
        base: The offset of lane 0 in the first pass.
        strides: The stride of each source that makes more than one pass, in elements for each.
        extents: How many passes it makes.
        dtype: The type of the offset.

    """

    number: int
    base: int
    strides: Mapping[Source, int]
    extents: Mapping[Source, int]
    dtype: DType

    def reach(self, without: set[Source]) -> tuple[int, int]:
        """Return the least and the greatest offset, where some sources stay in their first pass."""
        spans = [stride * (self.extents[key] - 1) for key, stride in self.strides.items() if key not in without]
        return self.base + sum(min(0, span) for span in spans), self.base + sum(max(0, span) for span in spans)


def _in_order(load: _Site, store: _Site) -> bool:
    """Return whether no element is stored by ``store`` before ``load`` has read it, wherever and whenever they run."""
    both = load.strides.keys() & store.strides.keys()
    alike = {key for key in both if load.strides[key] == store.strides[key]}
    (low, high), (least, most) = load.reach(alike), store.reach(alike)
    window = max(high, most) - min(low, least) + 1
    spans = [(1, window), *((abs(load.strides[key]), load.extents[key]) for key in alike)]
    if not _distinct(spans, load.dtype):
        return False
    # A loop or an axis around both that moves them differently may make a pass with the store before one with the load.
    return high < least or most < low or (both == alike and load.number < store.number)


def _distinct(spans: list[tuple[int, int]], dtype: DType) -> bool:
    """Return whether a sum of counters with these strides and extents takes no value twice, and does not wrap."""
    reach = 0
    for stride, extent in sorted(spans):
        if extent > 1 and stride <= reach:
            return False
        reach += stride * max(0, extent - 1)
    return reach <= dtype.maximum


def _accesses(stmts: tuple[Stmt, ...], loops: Loops) -> Iterator[tuple[bool, Access]]:
    """Yield loads (False) and stores (True) in the order of the text; a statement reads before it writes."""
    for stmt in stmts:
        plain = is_plain(stmt)
        yield from ((False, (node, loops, plain)) for node in reads(stmt))
        yield from ((True, (node, loops, plain)) for node in writes(stmt))
        within = (*loops, stmt) if isinstance(stmt, For) else loops
        for body in bodies(stmt):
            yield from _accesses(body, within)


def _site(
    kernel: KernelFunction, node: Subscript, loops: Loops, variables: Mapping[str, Expr], number: int
) -> _Site | None:
    """Return where an access is; None where its offset is no sum, or a loop has bounds that are not constant."""
    whole, lanes = node.offset, node.type.lanes
    offset, step = (whole.base, whole.stride) if isinstance(whole, Ramp) else (whole, 1)
    form = _linear(offset, variables) if offset.type.lanes == 1 else None
    if form is None:
        return None
    base, strides = form
    moved: dict[Source, int] = {}
    extents: dict[Source, int] = {}
    if lanes > 1:
        moved[step, lanes], extents[step, lanes] = step, lanes
    for level, sizes in ((GridLevel.GROUP, kernel.grid), (GridLevel.LOCAL, kernel.group)):
        for axis, size in enumerate(sizes):
            stride = strides.pop((level, axis), 0)
            if size > 1:
                moved[level, axis], extents[level, axis] = stride, size
    for loop in loops:
        values = trip_values(loop)
        if values is None:
            return None
        stride = strides.pop(loop.counter.name, 0)
        base += stride * values.start
        if len(values) > 1:
            moved[id(loop)], extents[id(loop)] = stride * loop.step, len(values)
    return None if strides else _Site(number, base, moved, extents, offset.type.dtype)


def _constant_variables(kernel: KernelFunction) -> dict[str, Expr]:
    """Return the values of the variables that are introduced once and never assigned."""
    introduced = Counter(declared_names(kernel.body))
    assigned = assigned_variables(kernel.body)
    declared = ((s.variable.name, s.value) for s in statements(kernel.body) if isinstance(s, Declare))
    return {name: value for name, value in declared if introduced[name] == 1 and name not in assigned}


def _holds(wide: DType, narrow: DType) -> bool:
    """Return whether a conversion keeps all integers as they are."""
    integers = wide.is_integer and narrow.is_integer
    return integers and wide.minimum <= narrow.minimum and narrow.maximum <= wide.maximum


def _linear(offset: Expr, values: Mapping[str, Expr]) -> tuple[int, dict[Term, int]] | None:
    """Return the constant of a sum, and the factor of each counter and coordinate; None where it is something else."""
    constant = 0
    found: dict[Term, int] = {}
    pending = [(offset, 1)]
    while pending:
        expr, factor = pending.pop()
        match expr:
            case Const(value=value):
                constant += factor * int(value)
            case Var(name=name) if name in values:
                pending.append((values[name], factor))
            case Var(name=name):
                found[name] = found.get(name, 0) + factor
            case GridIndex(level=level, axis=axis):
                found[level, axis] = found.get((level, axis), 0) + factor
            case Cast(operand=operand, type=kind) if _holds(kind.dtype, operand.type.dtype):
                pending.append((operand, factor))
            case Apply(op=Op.ADD, args=(left, right)):
                pending += [(left, factor), (right, factor)]
            case Apply(op=Op.SUB, args=(left, right)):
                pending += [(left, factor), (right, -factor)]
            case (
                Apply(op=Op.MUL, args=(Const(value=value), other)) | Apply(op=Op.MUL, args=(other, Const(value=value)))
            ):
                pending.append((other, factor * int(value)))
            case _:
                return None
    return constant, found
