"""Guards for bf16 dot product instructions, which flush denormals, that make their results exact.

The processor adds products of bf16 in f32, but flushes denormal factors and sums to zero. Factors that are zero or at
least :data:`LEAST` in magnitude never produce denormals: their products are multiples of a number in f32, and so are
sums of these, however they are rounded. So the minimum of all factors is computed before a loop over dot products
begins, that of a panel when it is packed, and that of an input of sliding windows when the kernel begins. If it is
smaller, which is rare, a copy of the loop with ordinary instructions runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Final

from tileir.core import DType, NameScope, Op, attrs
from tileir.semtree.analysis.effects import census, writes
from tileir.semtree.dots import fragment_of, plain_dot
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Broadcast,
    Const,
    Declare,
    DeclareArray,
    Dot,
    Expr,
    For,
    If,
    KernelFunction,
    Param,
    ParamAccess,
    Reduce,
    Region,
    Shuffle,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import (
    bodies,
    distinct_nodes,
    expressions,
    freshened,
    kernel_names,
    map_bodies,
    map_expr,
    map_stmts,
    statements,
    substitute,
    summands,
    trip_values,
    variables_of,
    walk,
    with_body,
)

LEAST: Final = 2.0**-55
"""Minimum magnitude of safe factors: products of two are multiples of 2**-124, as their last bits are 2**-62."""

_WIDTHS: Final = (32, 8, 1)
"""Numbers of neighbours checked together; the rest of the first in eights, then one by one."""

_WORD: Final = DType.U16
_ZERO: Final = (1 << 16) - 1
_LEAST_WORD: Final = 2 * ((127 - 55) << 7) - 1
"""Values of :func:`_size` at zero and at :data:`LEAST`."""


def checked_dots(kernel: KernelFunction, flushing: Collection[str]) -> KernelFunction:
    """Return a kernel with exact dot products by the fragments ``flushing``; the kernel itself if it has none.

    Dot products beside other work in a loop, or added to a value other than 0, are expanded.
    """
    if census(kernel).dots.isdisjoint(flushing):
        return kernel
    checking = _Checking(frozenset(flushing), NameScope.of(kernel_names(kernel)), _panels(kernel, flushing))
    before = [stmt for param in _read_often(kernel, flushing) for stmt in checking.whole(param, kernel.index)]
    return with_body(kernel, (*before, *checking.checked(kernel.body)))


@attrs.frozen
class _Checking:
    """State of the transformation of one kernel."""

    flushing: frozenset[str]
    names: NameScope
    panels: Mapping[str, Type]
    """Arrays of the kernel that only dot products read, with the type of all writes."""

    sizes: dict[str, Var] = attrs.field(factory=dict)
    """Minimum of the values written to each of ``panels``, and of inputs that were checked as a whole."""

    def whole(self, param: Param, index: DType) -> Iterator[Stmt]:
        """Yield the check of a whole input at the start of the kernel."""
        width, kind = _WIDTHS[0], Type(index)
        self.sizes[param.name] = least = Var(self.names.fresh("least"), Type(_WORD, width))
        yield _started(least)
        done = param.size - param.size % width
        for begin, end, lanes in ((0, done, width), (done, param.size, 1)):
            counter = Var(self.names.fresh("place"), kind)
            part = Subscript(param.name, counter, Type(param.dtype, lanes))
            note = _noted(least, part if lanes > 1 else Broadcast(part, width))
            if begin < end:
                yield For(counter, Const(begin, kind), Const(end, kind), lanes, (note,))

    def checked(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return a list of statements with checks, in its own and in nested loops."""
        result: list[Stmt] = []
        for place, stmt in enumerate(stmts):
            if isinstance(stmt, DeclareArray) and stmt.name in self.panels:
                self.sizes[stmt.name] = least = Var(self.names.fresh("least"), self.panels[stmt.name])
                result += [stmt, _started(least)]
            elif (isinstance(stmt, For) or _is_test(stmt)) and self._is_sum(stmt, stmts[:place]):
                result += self._sum(stmt)
            else:
                result += self._others(stmt)
        return tuple(result)

    def _others(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """Return a statement that is not a loop of only dot products."""
        stmt = map_bodies(self.checked, stmt)
        if isinstance(stmt, Assign) and isinstance(stmt.target, Subscript) and stmt.target.array in self.sizes:
            return (stmt, _noted(self.sizes[stmt.target.array], stmt.value))
        return self._plain((stmt,)) if self._dots(expressions(stmt)) else (stmt,)

    def _dots(self, roots: Collection[Expr]) -> list[Dot]:
        nodes = (node for root in roots for node in walk(root) if isinstance(node, Dot))
        return [node for node in nodes if fragment_of(node) in self.flushing]

    def _plain(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        def spelt_out(expr: Expr) -> Expr:
            return plain_dot(expr) if isinstance(expr, Dot) and fragment_of(expr) in self.flushing else expr

        return map_stmts(lambda expr: map_expr(spelt_out, expr), stmts)

    def _is_sum(self, loop: Stmt, before: Sequence[Stmt]) -> bool:
        """Return whether a loop, possibly guarded, only adds dot products to arrays that earlier statements cleared."""
        inside = [stmt for stmt in statements((loop,)) if not isinstance(stmt, For) and not _is_test(stmt)]
        if not inside or not all(map(self._adds, inside)):
            return False
        sums = {target.array for stmt in inside for target in writes(stmt)}
        declared = {stmt.name for stmt in before if isinstance(stmt, DeclareArray)}
        return sums <= declared and all(
            _clears(stmt) for stmt in statements(before) if sums.intersection(t.array for t in writes(stmt))
        )

    def _adds(self, stmt: Stmt) -> bool:
        """Return whether a statement adds a dot product of elements to elements of an array."""
        if not isinstance(stmt, Assign) or not isinstance(stmt.target, Subscript) or not isinstance(stmt.value, Dot):
            return False
        dot = stmt.value
        if fragment_of(dot) not in self.flushing or dot.total != stmt.target:
            return False
        factors = [f.operands[0] if isinstance(f, Shuffle) else f for f in (dot.left, dot.right)]
        return all(isinstance(factor, Subscript) for factor in factors)

    def _sum(self, loop: Stmt) -> Iterator[Stmt]:
        """Yield the check of the factors of a loop over dot products, and both versions of it."""
        own: dict[Type, Var] = {}
        notes = tuple(dict.fromkeys(self._notes(loop, (), own)))
        yield from map(_started, own.values())
        yield from freshened(notes, self.names)
        panels = dict.fromkeys(node.array for node in self._factors(loop) if node.array in self.sizes)
        least = (*(self.sizes[panel] for panel in panels), *own.values())
        found: list[Expr] = [Reduce(Op.MIN, each) for each in least]
        smallest = reduce(lambda one, other: Apply(Op.MIN, (one, other)), found)
        tiny = Apply(Op.CMP_LT, (smallest, Const(_LEAST_WORD, Type(_WORD))))
        yield If(tiny, freshened(self._plain((loop,)), self.names), (loop,))

    def _notes(self, stmt: Stmt, around: tuple[For | If, ...], own: dict[Type, Var]) -> Iterator[Stmt]:
        """Yield loops that check the factors of a statement, each inside the loops that determine its place."""
        if isinstance(stmt, For | If):
            for inner in stmt.body if isinstance(stmt, For) else stmt.then:
                yield from self._notes(inner, (*around, stmt), own)
            return
        for factor in self._factors(stmt):
            if factor.array not in self.sizes:
                yield from self._looked_through(factor, _telling(factor, around), own)

    def _looked_through(self, factor: Subscript, loops: tuple[For | If, ...], own: dict[Type, Var]) -> Iterator[Stmt]:
        """Yield loops that check a factor, in vectors of neighbours if possible."""
        run = next((loop for loop in loops if isinstance(loop, For) and _runs(loop, factor, loops)), None)
        if run is None:
            yield self._nest(factor, loops, own)
            return
        done, index = 0, run.counter.type
        for count in (max(1, width // factor.type.lanes) for width in _WIDTHS):
            steps = (len(trip_values(run) or ()) - done) // count
            if steps:
                place = Apply(Op.ADD, (Apply(Op.MUL, (run.counter, Const(count, index))), Const(done, index)))
                moved = substitute(factor.offset, {run.counter.name: place})
                wide = Subscript(factor.array, moved, Type(factor.type.dtype, factor.type.lanes * count))
                part = attrs.evolve(run, end=Const(steps, index))
                yield self._nest(wide, tuple(part if loop is run else loop for loop in loops), own)
                done += steps * count

    def _nest(self, factor: Subscript, loops: tuple[For | If, ...], own: dict[Type, Var]) -> Stmt:
        kind = factor.type.with_dtype(_WORD)
        if kind not in own:
            own[kind] = Var(self.names.fresh("least"), kind)
        note: Stmt = _noted(own[kind], factor)
        for loop in reversed(loops):
            note = attrs.evolve(loop, body=(note,)) if isinstance(loop, For) else If(loop.condition, (note,))
        return note

    def _factors(self, stmt: Stmt) -> Iterator[Subscript]:
        """Yield the array elements that dot products inside a statement read."""
        for each in statements((stmt,)):
            yield from _read(self._dots(expressions(each)))


def _read(dots: Collection[Dot]) -> Iterator[Subscript]:
    return (n for dot in dots for part in (dot.left, dot.right) for n in walk(part) if isinstance(n, Subscript))


def _read_often(kernel: KernelFunction, flushing: Collection[str]) -> Iterator[Param]:
    """Yield the inputs whose elements loops over dot products would check twice or more, as for windows."""
    looked: dict[str, int] = {}

    def count(stmts: tuple[Stmt, ...], around: tuple[For, ...]) -> None:
        for stmt in stmts:
            nodes = (node for root in expressions(stmt) for node in walk(root))
            for factor in dict.fromkeys(_read([n for n in nodes if isinstance(n, Dot) and fragment_of(n) in flushing])):
                loops = (loop for loop in around if loop.counter.name in variables_of(factor))
                turns = (len(trip_values(loop) or (0,)) for loop in loops)
                looked[factor.array] = looked.get(factor.array, 0) + prod(turns, start=factor.type.lanes)
            for body in bodies(stmt):
                count(body, (*around, stmt) if isinstance(stmt, For) else around)

    count(kernel.body, ())
    inputs = (param for param in kernel.params if param.access is ParamAccess.READ)
    yield from (param for param in inputs if looked.get(param.name, 0) >= 2 * param.size)


def _panels(kernel: KernelFunction, flushing: Collection[str]) -> dict[str, Type]:
    """Return scratch arrays that are only written in vectors of one type, unconditionally."""
    written: dict[str, set[Type]] = {}
    for stmt in statements(kernel.body):
        for target in writes(stmt):
            kind = target.type if isinstance(stmt, Assign) else Type(DType.BOOL)
            written.setdefault(target.array, set()).add(kind)
    dots = [node for node in distinct_nodes(kernel) if isinstance(node, Dot) and fragment_of(node) in flushing]
    read = {factor.array for factor in _read(dots)}
    own = {s.name for s in statements(kernel.body) if isinstance(s, DeclareArray) and s.region is Region.SCRATCH}
    return {
        array: kind.with_dtype(_WORD)
        for array in sorted(read & own)
        for kind in written.get(array, ())
        if len(written[array]) == 1 and kind.dtype is DType.BF16
    }


def _telling(factor: Subscript, around: Sequence[For | If]) -> tuple[For | If, ...]:
    """Return the statements around a factor that determine its place, and whether it is read."""
    result: list[For | If] = []
    needed = set(variables_of(factor))
    for stmt in reversed(around):
        if isinstance(stmt, If) or stmt.counter.name in needed:
            result.insert(0, stmt)
            needed.update(name for root in expressions(stmt) for name in variables_of(root))
    return tuple(result)


def _runs(loop: For, factor: Subscript, loops: Sequence[For | If]) -> bool:
    """Return whether a loop reads neighbours, one after the other, and other loops do not depend on it."""
    told = {name for each in loops for root in expressions(each) for name in variables_of(root)}
    whole = trip_values(loop)
    plain = whole is not None and whole.start == 0 and loop.step == 1 and loop.counter.name not in told
    return plain and _step(factor.offset, loop.counter) == factor.type.lanes


def _step(offset: Expr, counter: Var) -> int:
    """Return the stride of an offset in a counter that occurs once, in a product; 0 otherwise."""
    found = [term for term in summands(offset) if counter.name in variables_of(term)]
    match found:
        case [Apply(op=Op.MUL, args=(variable, Const(value=step)))] if variable == counter:
            return int(step)
        case _:
            return int(found == [counter])


def _is_test(stmt: Stmt) -> bool:
    return isinstance(stmt, If) and not stmt.otherwise


def _clears(stmt: Stmt) -> bool:
    value = stmt.value if isinstance(stmt, Assign) else None
    value = value.operand if isinstance(value, Broadcast) else value
    return isinstance(value, Const) and value.value == 0


def _size(factor: Expr) -> Expr:
    """Return words that increase with the magnitude of factors, with the maximum for zero: twice the bits, less 1."""
    kind = factor.type.with_dtype(_WORD)
    bits = Bitcast(factor, kind)
    return Apply(Op.SUB, (Apply(Op.ADD, (bits, bits)), Const(1, kind)))


def _started(least: Var) -> Stmt:
    return Declare(least, Const(_ZERO, least.type))


def _noted(least: Var, factor: Expr) -> Stmt:
    return Assign(least, Apply(Op.MIN, (least, _size(factor))))
