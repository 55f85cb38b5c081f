"""Walks see everything in order, and rewrites keep what they do not change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.core.dtype import DType
from tileir.core.nodes.rewrite import rewritten
from tileir.core.text.names import NameScope
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import Assign, Const, For, Type, Var
from tileir.semtree.rewrite import (
    children,
    declared_names,
    freshened,
    kernel_names,
    map_expr,
    map_stmts,
    rewrite_stmts,
    statements,
    substitute_stmts,
    trip_values,
    unrolled,
    walk,
    with_body,
    with_children,
)
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text

if TYPE_CHECKING:
    from strategies.semtree import KernelCase
    from tileir.semtree.ir import Stmt

TEXT = """\
kernel k(
    in f32 A[16] noalias,
    out f32 B[16] noalias
) grid(1) {
  i64 n = 4;
  for (i64 i = 0; i < n; i += 1) {
    f32 x = A[i];
    if (x > 0.0) {
      private f32 p[1] align(64);
      p[0] = x;
      B[i] = p[0];
    }
  }
  for (i64 j = 0; j < 6; j += 2) {
    f32 y = A[j];
    B[j] = y;
  }
}
"""
KERNEL = parse_kernel(TEXT)


@examples(50)
@given(case=kernel_cases())
def test_identity_rewrites_keep_identity(case: KernelCase) -> None:
    body = case.kernel.body
    assert map_stmts(lambda expr: map_expr(lambda node: node, expr), body) is body
    assert rewrite_stmts(lambda stmt: (stmt,), body) is body
    assert substitute_stmts(body, {}) is body
    assert with_body(case.kernel, body) is case.kernel


@examples(50)
@given(case=kernel_cases())
def test_children_can_be_put_back(case: KernelCase) -> None:

    for stmt in statements(case.kernel.body):
        if isinstance(stmt, Assign):
            for node in walk(stmt.value):
                assert with_children(node, children(node)) is node


def test_statements_come_in_the_order_of_the_text() -> None:
    assert list(declared_names(KERNEL.body)) == ["n", "i", "x", "p", "j", "y"]
    assert list(kernel_names(KERNEL)) == ["A", "B", "n", "i", "x", "p", "j", "y"]


def test_trip_values_need_constant_bounds() -> None:
    first, second = KERNEL.body[1:]
    assert isinstance(first, For)
    assert isinstance(second, For)
    assert trip_values(first) is None
    assert trip_values(second) == range(0, 6, 2)


def unroll_all(body: tuple[Stmt, ...], scope: NameScope) -> tuple[Stmt, ...]:
    def unroll(stmt: Stmt) -> tuple[Stmt, ...]:
        values = trip_values(stmt) if isinstance(stmt, For) else None
        return unrolled(stmt, values, scope) if isinstance(stmt, For) and values is not None else (stmt,)

    return rewrite_stmts(unroll, body)


def test_unrolled_text() -> None:
    body = unroll_all(KERNEL.body[2:], NameScope.of(kernel_names(KERNEL)))
    text = to_text(with_body(KERNEL, body))
    assert text.splitlines()[4:-1] == [
        "  f32 y_0 = A[0];",
        "  B[0] = y_0;",
        "  f32 y_1 = A[2];",
        "  B[2] = y_1;",
        "  f32 y_2 = A[4];",
        "  B[4] = y_2;",
    ]


@examples(50)
@given(case=kernel_cases())
def test_unrolled_kernels_compute_the_same(case: KernelCase) -> None:
    kernel = with_body(case.kernel, unroll_all(case.kernel.body, NameScope.of(kernel_names(case.kernel))))
    verify(kernel)
    expected, actual = case.arrays(), case.arrays()
    run(case.kernel, expected)
    run(kernel, actual)
    assert all(map(same_content, actual, expected))


def test_freshened_names_can_stand_side_by_side() -> None:
    scope = NameScope.of(kernel_names(KERNEL))
    verify(with_body(KERNEL, (*KERNEL.body, *freshened(KERNEL.body, scope), *freshened(KERNEL.body, scope))))


def test_arrays_can_be_renamed() -> None:
    body = substitute_stmts(KERNEL.body[2:], {}, {"A": "C"})
    assert "f32 y = C[j];" in to_text(with_body(KERNEL, body))


def test_assigned_variables_can_only_become_variables() -> None:
    kind = Type(DType.F32)
    stmts = (Assign(Var("x", kind), Const(1.0, kind)),)
    assert substitute_stmts(stmts, {"x": Var("y", kind)}) == (Assign(Var("y", kind), Const(1.0, kind)),)
    with pytest.raises(TypeError, match="replaced by Var or Subscript"):
        substitute_stmts(stmts, {"x": Const(1.0, kind)})


def test_rewritten_is_shared_with_the_other_stages() -> None:
    assert rewritten(KERNEL.body, lambda stmt: (stmt,)) is KERNEL.body
