"""Kernels that write a temporary over one that they read for the last time.

A kernel may do so where every element is read only by the pass over the body that writes it, and before that. This is
proved for kernels that access both arrays at one offset only, which takes different values in all passes: a sum of
coordinates and counters, each with a stride at least as large as all that the smaller ones reach.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

import attrs

from tileir.core.names import NameScope
from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    BufferRole,
    Cast,
    Const,
    Declare,
    DeclareArray,
    For,
    GridIndex,
    GridLevel,
    If,
    MatrixMultiply,
    ParamAccess,
    Prefetch,
    Ramp,
    Repeat,
    Subscript,
    Var,
)
from tileir.semtree.launches import launches, with_launches
from tileir.semtree.rewrite import declared_names, expressions, statements, trip_values, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tileir.core.dtype import DType
    from tileir.semtree.ir import Expr, KernelFunction, Launch, Program, Stmt, Work

Loops: TypeAlias = tuple[For, ...]
Term: TypeAlias = str | tuple[GridLevel, int]
Pair: TypeAlias = tuple[int, int]
"""A parameter that is read, and one that is written and may replace it."""
Variant: TypeAlias = tuple[int, tuple[Pair, ...]]
"""A kernel, and which parameters alias in it."""


def reuse_in_place(program: Program) -> Program:
    """Return a program in which temporaries take the place of others that die where they are born, as kernels allow.

    Such a kernel gets a variant in which they may alias. A program that cannot be improved is returned itself.
    """
    kernels = list(program.kernels)
    scope = NameScope.of(kernel.name for kernel in kernels)
    variants: dict[tuple[int, tuple[Pair, ...]], Variant] = {}
    places: dict[str, str] = {}
    works: list[Work] = []
    for launch, pairs in zip(program.launches, _dying_and_born(program), strict=True):
        if isinstance(launch, Repeat):
            works.extend(with_launches((launch,), partial(_in_places, places)))
            continue
        key = (launch.kernel, tuple(pairs))
        if key not in variants:
            variants[key] = _variant(kernels, launch.kernel, pairs, scope)
        chosen, aliases = variants[key]
        for read, written in aliases:
            before = launch.arguments[read]
            places[launch.arguments[written]] = places.get(before, before)
        works.append(_in_places(places, attrs.evolve(launch, kernel=chosen)))
    return _compacted(program, kernels, tuple(works), places) if places else program


def _in_places(places: Mapping[str, str], launch: Launch) -> Launch:
    return attrs.evolve(launch, arguments=tuple(places.get(name, name) for name in launch.arguments))


def _dying_and_born(program: Program) -> list[list[Pair]]:
    """Return, for each launch, the parameters that are read and written of which one could replace the other.

    What a repetition uses is in use throughout it, so there is nothing to return for its launches.
    """
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, work in enumerate(program.launches):
        for used in launches((work,)):
            for name in used.arguments:
                first.setdefault(name, number)
                last[name] = number
    temporaries = {buffer.name for buffer in program.buffers if buffer.role is BufferRole.TEMPORARY}
    result: list[list[Pair]] = []
    for number, launch in enumerate(program.launches):
        if isinstance(launch, Repeat):
            result.append([])
            continue
        uses = [
            (at, param, name)
            for at, (param, name) in enumerate(
                zip(program.kernels[launch.kernel].params, launch.arguments, strict=True)
            )
            if name in temporaries and launch.arguments.count(name) == 1
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
    """Add the kernel in which some pairs may alias, each parameter in one pair only; itself where there are none.

    Results are looked at in the order in which they are first written: what one may replace, later ones may, too.
    """
    kernel = kernels[number]
    facts = _Facts.of(kernel) if pairs else None
    aliases: list[Pair] = []
    taken: set[int] = set()
    if facts is not None:
        for read, written in sorted(pairs, key=lambda pair: facts.first_store(kernel.params[pair[1]].name)):
            if taken.isdisjoint((read, written)) and facts.may_alias(
                kernel.params[read].name, kernel.params[written].name
            ):
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
    """Return the program without kernels and buffers that are not used any more."""
    used = sorted({launch.kernel for launch in launches(works)})
    numbers = {number: position for position, number in enumerate(used)}
    return attrs.evolve(
        program,
        kernels=tuple(kernels[number] for number in used),
        buffers=tuple(buffer for buffer in program.buffers if buffer.name not in places),
        launches=with_launches(works, lambda launch: attrs.evolve(launch, kernel=numbers[launch.kernel])),
    )


def reads_before_it_writes(kernel: KernelFunction, read: int, written: int) -> bool:
    """Return whether parameter ``written`` may have the memory of parameter ``read``; what is not proved is False."""
    return _Facts.of(kernel).may_alias(kernel.params[read].name, kernel.params[written].name)


@attrs.frozen(eq=False)
class _Facts:
    """The accesses of a kernel to each array, with their numbers in the order of the text, and its fixed variables."""

    kernel: KernelFunction
    accesses: Mapping[str, Sequence[tuple[int, _Access]]]
    variables: Mapping[str, Expr]

    @classmethod
    def of(cls, kernel: KernelFunction) -> _Facts:
        """Collect them in one walk."""
        found: dict[str, list[tuple[int, _Access]]] = {}
        for number, access in enumerate(_accesses(kernel.body, ())):
            found.setdefault(access.node.array, []).append((number, access))
        return cls(kernel, found, _constant_variables(kernel))

    def first_store(self, array: str) -> int:
        """Return the number of the first access that writes ``array``, or -1."""
        return next((number for number, access in self.accesses.get(array, ()) if access.stores), -1)

    def may_alias(self, read: str, written: str) -> bool:
        """Return whether ``written`` may have the memory of ``read``, which the kernel only reads."""
        loads, others = self.accesses.get(read, ()), self.accesses.get(written, ())
        start = self.first_store(written)
        if start < 0 or (loads and loads[-1][0] > start):
            return False
        _, first = min((*loads[:1], *others[:1]), key=lambda numbered: numbered[0])
        alike = all(access.is_like(first) for _, access in (*loads, *others))
        return alike and _differs_everywhere(self.kernel, first, self.variables)


@attrs.frozen
class _Access:
    """A read or write of one of the two arrays, and the loops around it, outermost first."""

    node: Subscript
    loops: Loops
    stores: bool

    def is_like(self, other: _Access) -> bool:
        """Return whether both are at one offset in each pass."""
        same_place = (self.node.offset, self.node.type) == (other.node.offset, other.node.type)
        return same_place and list(map(id, self.loops)) == list(map(id, other.loops))


def _accesses(stmts: tuple[Stmt, ...], loops: Loops) -> Iterator[_Access]:
    """Yield the accesses in the order of the text; a statement reads before it writes."""
    for stmt in stmts:
        for root in expressions(stmt):
            for node in walk(root):
                if isinstance(node, Subscript):
                    yield _Access(node, loops, stores=False)
        match stmt:
            case Assign(target=Subscript() as target) | AsyncCopy(target=target):
                yield _Access(target, loops, stores=True)
            case For(body=body):
                yield from _accesses(body, (*loops, stmt))
            case If(then=then, otherwise=otherwise):
                yield from _accesses(then, loops)
                yield from _accesses(otherwise, loops)
            case Assign() | Declare() | DeclareArray() | Barrier() | AsyncCommit() | AsyncWait() | MatrixMultiply():
                pass
            case Prefetch():
                pass
            case _:
                assert_never(stmt)


def _differs_everywhere(kernel: KernelFunction, access: _Access, variables: Mapping[str, Expr]) -> bool:
    """Return whether no two passes over the body access one element through ``access``."""
    whole, lanes = access.node.offset, access.node.type.lanes
    offset, step = (whole.base, whole.stride) if isinstance(whole, Ramp) else (whole, 1)
    if offset.type.lanes > 1:
        return False
    strides = _strides(offset, variables)
    if strides is None:
        return False
    spans = [(abs(step), lanes)]
    for level, extents in ((GridLevel.GROUP, kernel.grid), (GridLevel.LOCAL, kernel.group)):
        for axis, extent in enumerate(extents):
            spans.append((abs(strides.pop((level, axis), 0)), extent))
    for loop in access.loops:
        values = trip_values(loop)
        if values is None:
            return False
        spans.append((abs(strides.pop(loop.counter.name, 0)) * loop.step, len(values)))
    return not strides and _distinct(spans, offset.type.dtype)


def _constant_variables(kernel: KernelFunction) -> dict[str, Expr]:
    """Return the values of the variables that are introduced once and never assigned."""
    introduced = Counter(declared_names(kernel.body))
    values: dict[str, Expr] = {}
    assigned: set[str] = set()
    for stmt in statements(kernel.body):
        if isinstance(stmt, Declare) and introduced[stmt.variable.name] == 1:
            values[stmt.variable.name] = stmt.value
        elif isinstance(stmt, Assign) and isinstance(stmt.target, Var):
            assigned.add(stmt.target.name)
    return {name: value for name, value in values.items() if name not in assigned}


def _distinct(spans: list[tuple[int, int]], dtype: DType) -> bool:
    """Return whether a sum of counters with these strides and extents takes no value twice, and does not wrap."""
    reach = 0
    for stride, extent in sorted(spans):
        if extent > 1 and stride <= reach:
            return False
        reach += stride * max(0, extent - 1)
    return reach <= dtype.maximum


def _holds(wide: DType, narrow: DType) -> bool:
    """Return whether a conversion keeps all integers as they are."""
    integers = wide.is_integer and narrow.is_integer
    return integers and wide.minimum <= narrow.minimum and narrow.maximum <= wide.maximum


def _strides(offset: Expr, values: Mapping[str, Expr]) -> dict[Term, int] | None:
    """Return the factor of each counter and coordinate in a sum; None where it is something else."""
    found: dict[Term, int] = {}
    pending = [(offset, 1)]
    while pending:
        expr, factor = pending.pop()
        match expr:
            case Const():
                pass
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
    return found
