"""Which statements all threads of a group run alike."""

from __future__ import annotations

import math

import attrs

from tileir.semtree.analysis.effects import meets, sets, writes
from tileir.semtree.ir import (
    DeclareArray,
    Expr,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    Region,
    Stmt,
    Subscript,
    Var,
)
from tileir.semtree.rewrite import expressions, statements, walk


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


@attrs.define(repr=False)
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
                case For(counter=counter, begin=begin, end=end, body=body):
                    varies = self._varies(begin) or self._varies(end)
                    self._write((counter.name,), varies)
                    self.body(body, f"loop {counter.name!r}" if varies else reason)
                case If(condition=condition, then=then, otherwise=otherwise):
                    inner = self._condition(condition) if self._varies(condition) else reason
                    self.body(then, inner)
                    self.body(otherwise, inner)
                case _:
                    # What threads compute together, each of them holds a part of.
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
                case _:
                    pass
        return False
