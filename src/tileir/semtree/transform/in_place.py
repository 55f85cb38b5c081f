"""In-place results: kernels that write a temporary over another one that they read for the last time.

A kernel may do so if it reads each element before it writes that place of the result. That is proved for
accesses whose offsets are sums of coordinates of the launch and counters of loops, for each pair of a load and a store.
If both move by equal strides in the coordinates and in their common loops, and these strides exceed the reach of all
others, only one iteration of these loops can access an element: in it the two are apart, or the load is before the
store.

The module also merges kernels that differ only in names, so that a chain of equal layers is compiled once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from tileir.core import DType, NameScope, Op, attrs
from tileir.semtree.analysis.constant_works import constant_works, made_by
from tileir.semtree.analysis.effects import assigned_variables, is_plain, reads, writes
from tileir.semtree.ir import (
    Apply,
    BufferRole,
    Cast,
    Const,
    Declare,
    Expr,
    For,
    GridIndex,
    GridLevel,
    KernelFunction,
    Launch,
    ParamAccess,
    Program,
    Ramp,
    Stmt,
    Subscript,
    Var,
    Work,
)
from tileir.semtree.launches import launches, used_buffers, with_buffers, with_launches
from tileir.semtree.rewrite import (
    bodies,
    declared_names,
    kernel_names,
    mentions,
    renamed,
    statements,
    trip_values,
    walk,
)

Loops: TypeAlias = tuple[For, ...]
Term: TypeAlias = str | tuple[GridLevel, int]
"""A counter or a coordinate, in a sum of these."""
Source: TypeAlias = int | tuple[GridLevel, int] | tuple[int, int]
"""Anything that moves an access: a loop, by its identity, an axis of the launch, or the stride and number of lanes."""
Access: TypeAlias = tuple[Subscript, Loops, bool]
"""An array's elements, the enclosing loops, outermost first, and whether the access is a plain load or store."""


@attrs.frozen(eq=False)
class ElementOrder:
    """Places at which a kernel reads and writes each of its parameters, in the order of the text.

    ``None`` is an unknown place.
    """

    kernel: KernelFunction
    loads: Mapping[str, Sequence[_Site | None]]
    stores: Mapping[str, Sequence[_Site | None]]

    @classmethod
    def of(cls, kernel: KernelFunction) -> ElementOrder:
        """Collect the places in one walk."""
        found: tuple[dict[str, list[_Site | None]], dict[str, list[_Site | None]]] = ({}, {})
        variables, names = _constant_variables(kernel), {param.name for param in kernel.params}
        for number, (stores, (node, loops, plain)) in enumerate(_accesses(kernel.body, ())):
            if node.array in names:
                site = _site(kernel, node, loops, variables, number) if plain else None
                found[stores].setdefault(node.array, []).append(site)
        return cls(kernel, *found)

    def first_store(self, written: int) -> int:
        """Return the number of the first access that writes a parameter; -1 if none does or places are unknown."""
        sites = self.stores.get(self.kernel.params[written].name, ())
        return sites[0].number if sites and sites[0] is not None else -1

    def reads_before_it_writes(self, read: int, written: int) -> bool:
        """Return whether parameter ``written`` may have the memory of parameter ``read``, which is only read.

        False if that is not proved.
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
    """Elements ``base + sum(stride * pass)`` of an array, over all passes of its sources.

    Attributes:
        number: The place of the access in the text.
        base: The offset of lane 0 in the first pass.
        strides: The stride, in elements, of each source with more than one pass.
        extents: Its number of passes.
        dtype: The type of the offset.
    """

    number: int
    base: int
    strides: Mapping[Source, int]
    extents: Mapping[Source, int]
    dtype: DType

    def reach(self, without: set[Source]) -> tuple[int, int]:
        """Return the least and the greatest offset, with some sources in their first pass."""
        spans = [stride * (self.extents[key] - 1) for key, stride in self.strides.items() if key not in without]
        return self.base + sum(min(0, span) for span in spans), self.base + sum(max(0, span) for span in spans)


def _in_order(load: _Site, store: _Site) -> bool:
    """Return whether ``store`` never precedes ``load`` at an element, over all iterations."""
    both = load.strides.keys() & store.strides.keys()
    alike = {key for key in both if load.strides[key] == store.strides[key]}
    (low, high), (least, most) = load.reach(alike), store.reach(alike)
    window = max(high, most) - min(low, least) + 1
    spans = [(1, window), *((abs(load.strides[key]), load.extents[key]) for key in alike)]
    if not _distinct(spans, load.dtype):
        return False
    # A common loop or axis that moves them differently may reach the store in an iteration before the load.
    return high < least or most < low or (both == alike and load.number < store.number)


def _distinct(spans: list[tuple[int, int]], dtype: DType) -> bool:
    """Return whether a sum of counters with these strides and extents is injective, and does not wrap."""
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
    """Return the site of an access; None if its offset is no sum, or a loop bound is not constant."""
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
    """Return the values of variables that are never assigned after their introduction."""
    introduced = Counter(declared_names(kernel.body))
    assigned = assigned_variables(kernel.body)
    declared = ((s.variable.name, s.value) for s in statements(kernel.body) if isinstance(s, Declare))
    return {name: value for name, value in declared if introduced[name] == 1 and name not in assigned}


def _holds(wide: DType, narrow: DType) -> bool:
    """Return whether a conversion preserves all integers."""
    integers = wide.is_integer and narrow.is_integer
    return integers and wide.minimum <= narrow.minimum and narrow.maximum <= wide.maximum


def _linear(offset: Expr, values: Mapping[str, Expr]) -> tuple[int, dict[Term, int]] | None:
    """Return the constant of a sum, and the factor of each counter and coordinate; None for anything else."""
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


Pair: TypeAlias = tuple[int, int]
"""A read parameter, and a written one that may replace it."""
Variant: TypeAlias = tuple[int, tuple[Pair, ...]]
"""A kernel, and the pairs of parameters that alias in it."""


def reuse_in_place(program: Program) -> Program:
    """Return a program in which temporaries replace others that die in the kernel that writes them, if it allows this.

    The kernel gets a variant in which they may alias. A program that cannot be improved is returned itself.
    """
    kernels = list(program.kernels)
    scope = NameScope.of(kernel.name for kernel in kernels)
    variants: dict[tuple[int, tuple[Pair, ...]], Variant] = {}
    places: dict[str, str] = {}
    works: list[Work] = []
    for launch, pairs in zip(program.works, _dying_and_born(program), strict=True):
        if not isinstance(launch, Launch):
            works.extend(with_buffers((launch,), places))
            continue
        key = (launch.kernel, tuple(pairs))
        if key not in variants:
            variants[key] = _variant(kernels, launch.kernel, pairs, scope)
        chosen, aliases = variants[key]
        for read, written in aliases:
            before = launch.arguments[read]
            places[launch.arguments[written]] = places.get(before, before)
        works.extend(with_buffers((attrs.evolve(launch, kernel=chosen),), places))
    return _compacted(program, kernels, tuple(works), places) if places else program


def _dying_and_born(program: Program) -> list[list[Pair]]:
    """Return, for each launch, pairs of read and written parameters of which one could replace the other.

    Buffers used by a loop or a branch are live throughout it, so its launches have no pairs. Buffers written once,
    before the first run, stay live for all runs.
    """
    once = constant_works(program)
    kept = made_by(program, once)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, work in enumerate(program.works):
        for name in used_buffers((work,)):
            first.setdefault(name, number)
            last[name] = number
    temporaries = {buffer.name for buffer in program.buffers if buffer.role is BufferRole.TEMPORARY}
    result: list[list[Pair]] = []
    for number, launch in enumerate(program.works):
        if not isinstance(launch, Launch):
            result.append([])
            continue
        uses = [
            (at, param, name)
            for at, (param, name) in enumerate(
                zip(program.kernels[launch.kernel].params, launch.arguments, strict=True)
            )
            if name in temporaries and (name not in kept or number in once) and launch.arguments.count(name) == 1
        ]
        dying = [use for use in uses if use[1].access is ParamAccess.READ and last[use[2]] == number]
        born = [use for use in uses if use[1].access is ParamAccess.WRITE and first[use[2]] == number]
        result.append(
            [
                (read, written)
                for written, target, _ in born
                for read, source, _ in dying
                if (source.dtype, source.size) == (target.dtype, target.size)
            ]
        )
    return result


def _variant(kernels: list[KernelFunction], number: int, pairs: Sequence[Pair], scope: NameScope) -> Variant:
    """Add the kernel in which some pairs may alias, each parameter in one pair only; itself if there are none.

    Results are considered in the order of their first writes.
    """
    kernel = kernels[number]
    aliases: list[Pair] = []
    taken: set[int] = set()
    if pairs:
        order = ElementOrder.of(kernel)
        for read, written in sorted(pairs, key=lambda pair: order.first_store(pair[1])):
            if taken.isdisjoint((read, written)) and order.reads_before_it_writes(read, written):
                aliases.append((read, written))
                taken.update((read, written))
    if not aliases:
        return number, ()
    params = tuple(
        attrs.evolve(param, no_alias=False) if at in taken else param for at, param in enumerate(kernel.params)
    )
    kernels.append(attrs.evolve(kernel, name=scope.fresh(kernel.name), params=params))
    return len(kernels) - 1, tuple(aliases)


def _compacted(
    program: Program, kernels: Sequence[KernelFunction], works: tuple[Work, ...], places: Mapping[str, str]
) -> Program:
    """Return the program without unused kernels and buffers, kernels by their first launch."""
    used = tuple(dict.fromkeys(launch.kernel for launch in launches(works)))
    numbers = {number: position for position, number in enumerate(used)}
    return attrs.evolve(
        program,
        kernels=tuple(kernels[number] for number in used),
        buffers=tuple(buffer for buffer in program.buffers if buffer.name not in places),
        works=with_launches(works, lambda launch: attrs.evolve(launch, kernel=numbers[launch.kernel])),
    )


def share_kernels(program: Program) -> Program:
    """Return a program that runs the first of each set of equal kernels; itself if no two are equal.

    Names of kernels, parameters, variables and arrays do not count, and neither do comments.
    """
    heads = [_head(kernel) for kernel in program.kernels]
    counts = Counter(heads)
    heads = [
        head if counts[head] == 1 else (head, _integers(kernel))
        for kernel, head in zip(program.kernels, heads, strict=True)
    ]
    counts = Counter(heads)
    numbers: dict[object, int] = {}
    kept: list[KernelFunction] = []
    chosen: list[int] = []
    for kernel, head in zip(program.kernels, heads, strict=True):
        # Most kernels have unique heads, so that bodies need no comparison.
        number = numbers.setdefault(head if counts[head] == 1 else anonymous(kernel), len(kept))
        if number == len(kept):
            kept.append(kernel)
        chosen.append(number)
    if len(kept) == len(program.kernels):
        return program
    works = with_launches(program.works, lambda launch: attrs.evolve(launch, kernel=chosen[launch.kernel]))
    return attrs.evolve(program, kernels=tuple(kept), works=works)


def _head(kernel: KernelFunction) -> object:
    """Return a cheap key of a kernel, equal for all kernels that differ only in names."""
    params = tuple(attrs.evolve(param, name="") for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=(), comments=()), tuple(map(type, kernel.body))


def _integers(kernel: KernelFunction) -> tuple[int, ...]:
    """Return the integers in expressions of a kernel, which tell apart most layers of a network."""
    roots = (root for stmt in statements(kernel.body) for root in mentions(stmt))
    constants = (node.value for root in roots for node in walk(root) if isinstance(node, Const))
    return tuple([value for value in constants if isinstance(value, int)])


def anonymous(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel whose names are numbers in the order of their introduction, without comments."""
    names = {name: str(number) for number, name in enumerate(dict.fromkeys(kernel_names(kernel)))}
    params = tuple(attrs.evolve(param, name=names[param.name]) for param in kernel.params)
    return attrs.evolve(kernel, name="", params=params, body=renamed(kernel.body, names), comments=())
