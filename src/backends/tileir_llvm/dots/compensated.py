"""Dot products of equally signed bytes by instructions for unsigned times signed bytes.

Flipping the highest bit of the left factors changes their signedness, and adds or subtracts 128. The error of a sum,
its compensation, is a sum of the right factors alone. If these are a panel shared by rows of left factors, it is
computed once, before the loop over rows; other products stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from types import MappingProxyType
from typing import Final

from tileir.core import DType, NameScope, Op, attrs, rewritten
from tileir.semtree.analysis.effects import census, introduces, writes
from tileir.semtree.dots import fragment_of
from tileir.semtree.ir import (
    Apply,
    Assign,
    Bitcast,
    Const,
    DeclareArray,
    Dot,
    Expr,
    For,
    KernelFunction,
    Stmt,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.rewrite import (
    bodies,
    freshened,
    kernel_names,
    map_bodies,
    statements,
    substitute,
    trip_values,
    variables_of,
    walk,
    with_body,
)
from tileir.semtree.simplify.simplifier import simplify_expr

_OTHER: Final[Mapping[DType, DType]] = MappingProxyType({DType.I8: DType.U8, DType.U8: DType.I8})
_HIGHEST: Final[Mapping[DType, int]] = MappingProxyType({DType.I8: -128, DType.U8: 128})
"""Highest bit as a number of each type, and the change of a value when it is flipped to the other type."""


def compensated_dots(kernel: KernelFunction, native: Collection[str]) -> KernelFunction:
    """Return a kernel with sums of equally signed bytes replaced; the kernel itself if it has none.

    Args:
        kernel: Any kernel.
        native: Fragments with instructions, from :func:`tileir.semtree.dots.fragment_of`.
    """
    if not any(name.endswith(("k4_i8", "k4_u8")) and "u8_i8" not in name for name in census(kernel).dots & {*native}):
        return kernel
    return with_body(kernel, _Compensating(frozenset(native), NameScope.of(kernel_names(kernel))).body(kernel.body))


@attrs.frozen
class _Sum:
    """Loop over dot products of equally signed bytes; ``nests`` are the unrolled loops inside it around each."""

    loop: For
    nests: tuple[tuple[tuple[For, ...], Assign], ...]

    @property
    def dots(self) -> Iterator[Dot]:
        """The products, one of each statement."""
        for _, stmt in self.nests:
            assert isinstance(stmt.value, Dot)  # checked when it was found
            yield stmt.value


@attrs.frozen
class _Compensating:
    """State of the transformation of one kernel."""

    native: frozenset[str]
    names: NameScope

    def body(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Return a list of statements with compensations before the outermost loops that repeat them."""

        def visit(stmt: Stmt) -> tuple[Stmt, ...]:
            before: list[Stmt] = []
            changed = stmt
            for found in self._sums(stmt) if _repeats(stmt) else ():
                if self._is_shared(found, stmt):
                    own, changed = self._compensated(found, changed)
                    before += own
            return (*before, changed) if before else (map_bodies(self.body, stmt),)

        return rewritten(stmts, visit)

    def _sums(self, stmt: Stmt) -> Iterator[_Sum]:
        """Yield the loops inside a statement that only add dot products of equally signed bytes."""
        for inner in (each for body in bodies(stmt) for each in body):
            nests = tuple(_nests(inner.body)) if isinstance(inner, For) else ()
            if isinstance(inner, For) and nests and all(self._adds(inner, each) for _, each in nests):
                yield _Sum(inner, tuple((loops, each) for loops, each in nests if isinstance(each, Assign)))
            else:
                yield from self._sums(inner)

    def _adds(self, loop: For, stmt: Stmt) -> bool:
        """Return whether a statement adds a dot product of equally signed bytes, with right factors in an array."""
        match stmt:
            case Assign(target=Subscript() as target, value=Dot(right=Subscript(type=kind) as right) as dot):
                alike = dot.left.type == kind and kind.dtype in _OTHER and fragment_of(dot) in self.native
                moves = loop.counter.name in variables_of(target.offset)
                return alike and dot.total == target and not moves and right.array != target.array
            case _:
                return False

    def _is_shared(self, found: _Sum, stmt: Stmt) -> bool:
        """Return whether all iterations of a statement share the right factors of a sum inside it."""
        own = {found.loop.counter.name, *(loop.counter.name for loops, _ in found.nests for loop in loops)}
        inside = {name for each in statements((stmt,)) for name in introduces(each)} - own
        written = {target.array for each in statements((stmt,)) for target in writes(each)}
        used = {name for dot in found.dots for name in variables_of(dot.right)}
        arrays = {node.array for dot in found.dots for node in walk(dot.right) if isinstance(node, Subscript)}
        return trip_values(found.loop) is not None and inside.isdisjoint(used | arrays) and written.isdisjoint(arrays)

    def _compensated(self, found: _Sum, stmt: Stmt) -> tuple[tuple[Stmt, ...], Stmt]:
        """Return the computation of the compensation of a sum, and an enclosing statement that subtracts it."""
        name = self.names.fresh("compensation")
        sums, subtractions, size = list[Stmt](), list[Stmt](), 0
        for loops, each in found.nests:
            dot = each.value
            assert isinstance(dot, Dot)
            assert isinstance(each.target, Subscript)
            told = tuple(loop for loop in loops if loop.counter.name in variables_of(dot.right))
            place, last = _place(dot.right, told)
            part = Subscript(name, place, dot.total.type)
            size = max(size, last + part.type.lanes)
            highest = Const(_HIGHEST[_OTHER[dot.left.type.dtype]], _turned_type(dot.left))
            sums.append(_nest(told, Assign(part, _unlike(highest, dot.right, part))))
            rest = Apply(Op.SUB, (each.target, part))
            subtractions.append(_nest(loops, Assign(each.target, rest)))
        (kind,) = {dot.total.type for dot in found.dots}
        zero = Const(0, Type(kind.dtype))
        place = Var(self.names.fresh("place"), found.loop.counter.type)
        cleared = Assign(Subscript(name, place, zero.type), zero)
        first, end = Const(0, place.type), Const(size, place.type)
        array = DeclareArray(name, kind.dtype, size)
        whole = attrs.evolve(found.loop, body=tuple(dict.fromkeys(sums)))
        before = (array, For(place, first, end, 1, (cleared,)), *freshened((whole,), self.names))
        turned = attrs.evolve(found.loop, body=tuple(_nest(loops, _turned(each)) for loops, each in found.nests))
        every = (*freshened(tuple(subtractions), self.names), turned)

        def replaced(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
            return tuple(n for each in stmts for n in (every if each is found.loop else (map_bodies(replaced, each),)))

        return before, map_bodies(replaced, stmt)


def _repeats(stmt: Stmt) -> bool:
    """Return whether a statement is a loop of several, or an unknown number of, iterations."""
    return isinstance(stmt, For) and len(trip_values(stmt) or (0, 0)) > 1


def _nests(stmts: tuple[Stmt, ...], around: tuple[For, ...] = ()) -> Iterator[tuple[tuple[For, ...], Stmt]]:
    """Yield statements other than loops with constant trip counts, with these loops around them."""
    for stmt in stmts:
        if isinstance(stmt, For) and trip_values(stmt) is not None:
            yield from _nests(stmt.body, (*around, stmt))
        else:
            yield around, stmt


def _nest(loops: tuple[For, ...], stmt: Stmt) -> Stmt:
    for loop in reversed(loops):
        stmt = attrs.evolve(loop, body=(stmt,))
    return stmt


def _place(right: Expr, loops: tuple[For, ...]) -> tuple[Expr, int]:
    """Return the offset of right factors' compensation, in terms of the loops that determine it, and the last one."""
    assert isinstance(right, Subscript)
    counters = {loop.counter.name for loop in loops}
    others = {name: Const(0, right.offset.type) for name in variables_of(right.offset) if name not in counters}
    offset = simplify_expr(substitute(right.offset, others))
    values = [trip_values(loop) or () for loop in loops]
    places = []
    for each in product(*values):
        known = {loop.counter.name: Const(value, loop.counter.type) for loop, value in zip(loops, each, strict=True)}
        found = simplify_expr(substitute(offset, known))
        assert isinstance(found, Const)
        places.append(int(found.value))
    first = min(places)
    return simplify_expr(Apply(Op.SUB, (offset, Const(first, offset.type)))), max(places) - first


def _turned_type(factor: Expr) -> Type:
    return factor.type.with_dtype(_OTHER[factor.type.dtype])


def _turned(stmt: Stmt) -> Stmt:
    """Return a statement with the highest bit of the left factors flipped."""
    assert isinstance(stmt, Assign)
    assert isinstance(stmt.value, Dot)
    left = stmt.value.left
    highest = Const(_HIGHEST[left.type.dtype], left.type)
    turned = Bitcast(Apply(Op.BIT_XOR, (left, highest)), _turned_type(left))
    return attrs.evolve(stmt, value=_unlike(turned, stmt.value.right, stmt.value.total))


def _unlike(left: Expr, right: Expr, total: Expr) -> Dot:
    """Return a dot product with the unsigned factor on the left, as instructions require."""
    return Dot(left, right, total) if left.type.dtype is DType.U8 else Dot(right, left, total)
