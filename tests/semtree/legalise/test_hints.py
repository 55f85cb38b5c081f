"""Hints reach back ends that name them, and no others: emitters need not know what changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pytest

from tileir.core.nodes import schema
from tileir.core.text.writer import Writer
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import (
    Apply,
    Assign,
    Const,
    Declare,
    For,
    Hint,
    If,
    KernelFunction,
    Prefetch,
    Subscript,
    Var,
)
from tileir.semtree.legalise.capabilities import C_LIKE
from tileir.semtree.legalise.legaliser import legalise
from tileir.semtree.rewrite import rewrite_stmts, statements, with_body
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.transform.expansions import expand_kernel
from tileir.semtree.transform.threads import one_thread
from tileir_emit.repeated import with_parts_named
from tileir_emit.scalariser import scalarised
from tileir_emit.storage import stored_as_bits

if TYPE_CHECKING:
    from tileir.semtree.ir import Expr, Stmt

KERNEL = parse_kernel("""
kernel k(out i32 O[40] align(4) noalias, in i32 A[40] align(4) noalias) grid(4) index(i64) {
  prefetch A[group_id(0)];
  for (i64 i = 0; i < 10; i += 1) {
    prefetch A[group_id(0) * 10 + i + 4];
    if (i < 5) { prefetch A[i]; } else { O[group_id(0) * 10 + i] = A[group_id(0) * 10 + i] + i32(1); }
    for (i64 j = 0; j < 3; j += 1) { prefetch A[j]; }
    if (i < 5) { i32 n = A[group_id(0) * 10 + i]; O[group_id(0) * 10 + i] = n * i32(3); }
  }
}""")


@attrs.frozen(cache_hash=True)
class Later(Hint):
    """A hint of a later tileir."""

    form: ClassVar[str] = "later {target}"
    target: Subscript = attrs.field(metadata=schema.OPERAND)


def with_later_hints(kernel: KernelFunction) -> KernelFunction:
    """Put a hint that nobody knows in front of each prefetch."""

    def both(stmt: Stmt) -> tuple[Stmt, ...]:
        later: tuple[Any, ...] = (Later(stmt.target),) if isinstance(stmt, Prefetch) else ()
        return (*later, stmt)

    return with_body(kernel, rewrite_stmts(both, kernel.body))


def hints(kernel: KernelFunction) -> list[type]:
    return [type(stmt) for stmt in statements(kernel.body) if isinstance(stmt, Hint)]


class Emitter:
    """Kernels as Python, by the recipe of the manual: nothing in it knows of hints."""

    def __init__(self) -> None:
        self.out = Writer()

    def emit(self, kernel: KernelFunction) -> str:
        self.out.line(f"def kernel(group, {', '.join(param.name for param in kernel.params)}):")
        kernel = with_parts_named(legalise(scalarised(expand_kernel(one_thread(kernel), frozenset())), C_LIKE))
        with self.out.indented():
            self.body(kernel.body)
        return self.out.text()

    def body(self, stmts: tuple[Stmt, ...]) -> None:
        self.out.line("pass")
        for stmt in stmts:
            match stmt:
                case Declare(variable=Var(name=name), value=value):
                    self.out.line(f"{name} = {self.value(value)}")
                case Assign(target=target, value=value):
                    self.out.line(f"{self.value(target)} = {self.value(value)}")
                case For(counter=counter, begin=begin, end=end, step=step, body=body):
                    self.out.line(f"for {counter.name} in range({self.value(begin)}, {self.value(end)}, {step}):")
                    self.inside(body)
                case If(condition=condition, then=then, otherwise=otherwise):
                    self.out.line(f"if {self.value(condition)}:")
                    self.inside(then)
                    self.out.line("else:")
                    self.inside(otherwise)
                case _:
                    raise NotImplementedError(stmt)

    def inside(self, stmts: tuple[Stmt, ...]) -> None:
        with self.out.indented():
            self.body(stmts)

    def value(self, expr: Expr) -> str:
        match expr:
            case Const(value=value):
                return str(value)
            case Var(name=name):
                return name
            case Subscript(array=array, offset=offset):
                return f"{array}[{self.value(offset)}]"
            case Apply(op=op, args=args) if op.value in SIGNS:
                return f"({SIGNS[op.value].join(map(self.value, args))})"
            case _:
                return "group" if type(expr).__name__ == "GridIndex" else str(self.value(expr.operand))  # type: ignore[union-attr]


SIGNS = {"add": " + ", "mul": " * ", "cmp_lt": " < "}


@pytest.mark.parametrize("kernel", [KERNEL, with_later_hints(KERNEL)], ids=["prefetches", "hints of a later tileir"])
def test_a_back_end_that_knows_no_hints_computes_the_same(kernel: KernelFunction) -> None:
    names: dict[str, object] = {}
    exec(Emitter().emit(kernel), names)
    a = np.arange(40, dtype=np.int32)
    found, expected = np.zeros(40, np.int32), np.zeros(40, np.int32)
    for group in range(4):
        names["kernel"](group, found, a)  # type: ignore[operator]
    run(KERNEL, [expected, a])
    np.testing.assert_array_equal(found, expected)


def test_the_hints_that_are_named_stay() -> None:
    both = with_later_hints(KERNEL)
    assert hints(legalise(both, C_LIKE)) == []
    assert hints(legalise(both, attrs.evolve(C_LIKE, hints=(Prefetch,)))) == [Prefetch] * 4
    assert hints(legalise(both, attrs.evolve(C_LIKE, hints=(Hint,)))) == [Later, Prefetch] * 4


def test_storage_keeps_hints() -> None:
    small = parse_kernel("""
    kernel k(out f32 O[8] align(4) noalias, in f8e5m2 A[8] align(1) noalias) grid(8) index(i64) {
      prefetch A[group_id(0)];
      O[group_id(0)] = cast<f32>(A[group_id(0)]);
    }""")
    assert hints(stored_as_bits(small)) == [Prefetch]
