"""Rules of a kernel about names and types, and rules that presuppose right names.

The module also determines the statements that all threads of a group execute uniformly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, assert_never

import attrs

from tileir.core import Diagnostic, introduced, named
from tileir.semtree.analysis.effects import meets, sets, targets, writes
from tileir.semtree.check.scopes import Declared, Survey
from tileir.semtree.check.type_rules import expression_faults
from tileir.semtree.ir import (
    Assign,
    AssignLanes,
    Const,
    Declare,
    DeclareArray,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    LoopKind,
    Param,
    ParamAccess,
    Ramp,
    Region,
    Stmt,
    Subscript,
    Type,
    Var,
    WarpRole,
)
from tileir.semtree.rewrite import expressions, statements, trip_values, walk

_EXCERPT: Final = 80


def excerpt(expr: Expr, kernel: KernelFunction) -> str:
    """Return the text of an expression, cut if it is long."""
    from tileir.semtree.text.printer import expr_text  # for faults only, which are rare

    text = expr_text(expr, kernel.index)
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


def check_unique_names(survey: Survey) -> Iterator[Diagnostic]:
    """No name is declared where it is still visible."""
    params: set[str] = set()
    for param in survey.kernel.params:
        if param.name in params:
            yield Diagnostic("TIL202", f"parameter {param.name!r} is declared twice")
        params.add(param.name)
    for place in survey.scoped:
        if place.hidden is not None:
            (name,) = introduced(place.stmt)
            yield Diagnostic("TIL202", f"{name!r} is declared again where it is still visible")


def check_declared(survey: Survey) -> Iterator[Diagnostic]:
    """Variables and arrays are declared before their use, with the type of the use."""
    for place in survey.scoped:
        for node, known in place.uses:
            if known is None:
                name = node.name if isinstance(node, Var) else node.array
                yield Diagnostic("TIL201", f"{name!r} is used where it is not declared")
            else:
                yield from _use_faults(node, known)


def _use_faults(node: Var | Subscript, known: Declared) -> Iterable[Diagnostic]:
    match known:
        case Param() | DeclareArray():
            if isinstance(node, Var):
                return (Diagnostic("TIL552", f"{known.name!r} is an array: subscript it"),)
            if node.type.dtype is not known.dtype:
                used = node.type.dtype.value
                message = f"array {known.name!r} of {known.dtype.value} is read or written as {used}"
                return (Diagnostic("TIL552", message),)
        case Declare(variable=variable) | For(counter=variable):
            if isinstance(node, Subscript):
                return (Diagnostic("TIL552", f"{variable.name!r} is a variable, and has no subscripts"),)
            if node.type is not variable.type and node.type != variable.type:
                return (Diagnostic("TIL552", f"{node.name!r} is declared as {variable.type} and used as {node.type}"),)
        case _:
            assert_never(known)
    return ()


def check_types(survey: Survey) -> Iterator[Diagnostic]:
    """Every expression has operands of the types that it takes."""
    kernel = survey.kernel
    for node in survey.nodes:
        for message in expression_faults(node, kernel):
            yield Diagnostic("TIL552", f"in {excerpt(node, kernel)}: {message}")


def check_assignments(survey: Survey) -> Iterator[Diagnostic]:
    """Values have the type of their target."""
    for stmt in survey.statements:
        if isinstance(stmt, Assign) and stmt.value.type != stmt.target.type:
            target = f"{excerpt(stmt.target, survey.kernel)} of type {stmt.target.type}"
            yield Diagnostic("TIL552", f"{target} cannot hold a value of type {stmt.value.type}")


def check_loops(survey: Survey) -> Iterator[Diagnostic]:
    """Loops count scalar integers forwards, and unrolled loops have constant bounds."""
    for stmt in survey.statements:
        if not isinstance(stmt, For):
            continue
        name, kind = stmt.counter.name, stmt.counter.type
        if kind.lanes != 1 or not kind.dtype.is_integer:
            yield Diagnostic("TIL552", f"the counter {name!r} is a scalar integer, not {kind}")
        for bound in (stmt.begin, stmt.end):
            if bound.type != kind:
                yield Diagnostic("TIL552", f"a bound of the counter {name!r} is {kind}, not {bound.type}")
        if stmt.step < 1:
            yield Diagnostic("TIL551", f"the step of loop {name!r} is at least 1, not {stmt.step}")
        elif stmt.kind is LoopKind.UNROLL and trip_values(stmt) is None:
            yield Diagnostic("TIL551", f"the bounds of the unrolled loop {name!r} are constants")


def check_stores(survey: Survey) -> Iterator[Diagnostic]:
    """Loop counters and read-only parameters are not written."""
    for place in survey.scoped:
        for target in targets(place.stmt):
            match place.meaning(target):
                case For(counter=counter):
                    yield Diagnostic("TIL554", f"the loop counter {counter.name!r} cannot be assigned")
                case Param(name=name, access=ParamAccess.READ):
                    message = f"{name!r} is only read by the kernel: make it out or inout to store there"
                    yield Diagnostic("TIL554", message)


def check_bounds(survey: Survey) -> Iterator[Diagnostic]:
    """Constant offsets of elements that are read or written are inside their array."""
    for place in (each for each in survey.scoped if not isinstance(each.stmt, AssignLanes)):
        skipped = tuple(map(id, named(place.stmt)))
        for node, known in place.uses:
            if not isinstance(node, Subscript) or not isinstance(known, Param | DeclareArray) or id(node) in skipped:
                continue
            touched = _touched(node)
            if touched is not None and (min(touched) < 0 or max(touched) >= known.size):
                what = excerpt(node, survey.kernel)
                yield Diagnostic("TIL553", f"{what} is outside {known.name!r}, which has {known.size} elements")


def _touched(node: Subscript) -> tuple[int, int] | None:
    match node.offset:
        case Const(value=value, type=Type(lanes=1)):
            return int(value), int(value) + node.type.lanes - 1
        case Const(value=value):
            return int(value), int(value)
        case Ramp(base=Const(value=value), stride=stride, lanes=lanes):
            return int(value), int(value) + stride * (lanes - 1)
        case _:
            return None


def check_barriers(survey: Survey) -> Iterator[Diagnostic]:
    """Require that all threads of a group reach each barrier equally often, if groups have several."""
    for reason in divergent_barriers(survey.kernel):
        yield Diagnostic("TIL555", f"a barrier stands under {reason}, which may differ between threads of a group")


def divergent_barriers(kernel: KernelFunction) -> tuple[str, ...]:
    """Return, for each barrier or product of matrices that threads may miss, the condition or loop around it."""
    if math.prod(kernel.group) == 1 or not any(map(meets, statements(kernel.body))):
        return ()
    private = {
        stmt.name
        for stmt in statements(kernel.body)
        if isinstance(stmt, DeclareArray) and stmt.region is Region.PRIVATE
    }
    analysis = _Divergence(kernel, frozenset(private))
    size = -1
    while size != len(analysis.varying):
        size = len(analysis.varying)
        analysis.reasons.clear()
        analysis.body(kernel.body, None)
    return tuple(analysis.reasons)


@attrs.define(eq=False, repr=False)
class _Divergence:
    """Data-flow analysis of the variables and private arrays whose content may differ between threads."""

    kernel: KernelFunction
    private: frozenset[str]
    varying: set[str] = attrs.field(factory=set)
    reasons: list[str] = attrs.field(factory=list)

    def body(self, stmts: tuple[Stmt, ...], reason: str | None) -> None:
        """Visit statements under the divergent condition ``reason``, or under none."""
        for stmt in stmts:
            match stmt:
                case For(counter=counter, begin=begin, end=end, body=body):
                    varies = self._varies(begin) or self._varies(end)
                    self._write((counter.name,), varies)
                    self.body(body, f"loop {counter.name!r}" if varies else reason)
                case If(condition=condition, then=then, otherwise=otherwise):
                    inner = self._condition(condition) if self._varies(condition) else reason
                    self.body(then, inner)
                    self.body(otherwise, inner)
                case WarpRole(body=body):  # its threads are a group of their own
                    self.body(body, reason)
                case _:
                    # Each thread holds a part of a collective result.
                    varies = reason is not None or meets(stmt) or any(map(self._varies, expressions(stmt)))
                    self._write((*sets(stmt), *(p.array for p in writes(stmt) if p.array in self.private)), varies)
                    if reason is not None and meets(stmt):
                        self.reasons.append(reason)

    def _condition(self, condition: Expr) -> str:
        from tileir.semtree.text.printer import expr_text  # for faults only, which are rare

        return f"if ({expr_text(condition, self.kernel.index)})"

    def _write(self, names: tuple[str, ...], varies: bool) -> None:
        if varies:
            self.varying.update(names)

    def _varies(self, expr: Expr) -> bool:
        for node in walk(expr):
            match node:
                case GridIndex(level=GridLevel.LOCAL):
                    return True
                case Var(name=name) | Subscript(array=name) if name in self.varying:
                    return True
        return False
