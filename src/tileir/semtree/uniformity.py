"""Which statements all threads of a group run alike."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, assert_never

import attrs

from tileir.semtree.ir import (
    Assign,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Declare,
    DeclareArray,
    For,
    GridIndex,
    GridLevel,
    If,
    MatrixMultiply,
    Prefetch,
    Region,
    Subscript,
    Var,
)
from tileir.semtree.printer import expr_text
from tileir.semtree.rewrite import statements, walk

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr, KernelFunction, Stmt


def divergent_barriers(kernel: KernelFunction) -> tuple[str, ...]:
    """Return, for each barrier or product of matrices that threads may miss, the condition or loop around it."""
    meeting = (Barrier, MatrixMultiply)
    if math.prod(kernel.group) == 1 or not any(isinstance(stmt, meeting) for stmt in statements(kernel.body)):
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


@attrs.define
class _Divergence:
    """Grows the set of variables and private arrays whose content may differ between threads."""

    kernel: KernelFunction
    private: frozenset[str]
    varying: set[str] = attrs.field(factory=set)
    reasons: list[str] = attrs.field(factory=list)

    def body(self, stmts: tuple[Stmt, ...], reason: str | None) -> None:
        """Visit statements that run under the divergent condition ``reason``, or under none."""
        for stmt in stmts:
            match stmt:
                case Declare(variable=variable, value=value):
                    self._write(variable.name, reason is not None or self._varies(value))
                case Assign(target=target, value=value):
                    varies = reason is not None or self._varies(value)
                    if isinstance(target, Var):
                        self._write(target.name, varies)
                    else:
                        self._write(
                            target.array, target.array in self.private and (varies or self._varies(target.offset))
                        )
                case For(counter=counter, begin=begin, end=end, body=body):
                    varies = self._varies(begin) or self._varies(end)
                    self._write(counter.name, varies)
                    self.body(body, f"loop {counter.name!r}" if varies else reason)
                case If(condition=condition, then=then, otherwise=otherwise):
                    inner = self._condition(condition) if self._varies(condition) else reason
                    self.body(then, inner)
                    self.body(otherwise, inner)
                case Barrier():
                    if reason is not None:
                        self.reasons.append(reason)
                case MatrixMultiply(accumulators=sums):
                    self._write(sums.array, varies=True)
                    if reason is not None:
                        self.reasons.append(reason)
                case DeclareArray() | AsyncCopy() | AsyncCommit() | AsyncWait() | Prefetch():
                    pass
                case _:
                    assert_never(stmt)

    def _condition(self, condition: Expr) -> str:
        return f"if ({expr_text(condition, self.kernel.index)})"

    def _write(self, name: str, varies: bool) -> None:
        if varies:
            self.varying.add(name)

    def _varies(self, expr: Expr) -> bool:
        for node in walk(expr):
            match node:
                case GridIndex(level=GridLevel.LOCAL):
                    return True
                case Var(name=name) | Subscript(array=name) if name in self.varying:
                    return True
                case _:
                    pass
        return False
