"""Simplified kernels compute the same, and are as small as expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.simplify.simplifier import simplify
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text

if TYPE_CHECKING:
    from strategies.semtree import KernelCase


@examples(150)
@given(case=kernel_cases(depth=2))
def test_simplified_kernels_compute_the_same(case: KernelCase) -> None:
    simple = simplify(case.kernel)
    verify(simple)
    assert simplify(simple) is simple
    expected, actual = case.arrays(), case.arrays()
    run(case.kernel, expected)
    run(simple, actual)
    assert all(map(same_content, actual, expected))


@examples(50)
@given(case=kernel_cases(depth=1, threads=True))
def test_simplified_kernels_with_threads_compute_the_same(case: KernelCase) -> None:
    expected, actual = case.arrays(), case.arrays()
    run(case.kernel, expected)
    run(simplify(case.kernel), actual)
    assert all(map(same_content, actual, expected))


HEADER = "kernel k(\n    in f32 A[64],\n    out f32 B[64]\n) grid(4) {\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("f32 x = 1.0; B[0] = x;", "  B[0] = 1.0;\n"),
        ("f32 x = A[0]; B[0] = 1.0;", "  B[0] = 1.0;\n"),
        ("f32 x = A[0]; f32 y = x; f32 z = y; B[0] = z;", "  f32 x = A[0];\n  B[0] = x;\n"),
        ("f32 x = 1.0; x = x + 1.0;", ""),
        ("private f32 p[4] align(64); p[0] = A[0]; p[1] = p[0];", ""),
        ("f32 x = A[0]; f32 y = x; x = 2.0; B[0] = y;", "  f32 x = A[0];\n  f32 y = x;\n  x = 2.0;\n  B[0] = y;\n"),
        ("i64 g = group_id(0); B[g + 1 + 2] = 1.0;", "  i64 g = group_id(0);\n  B[g + 3] = 1.0;\n"),
        ("for (i64 i = 3; i < 3; i += 1) { B[i] = 1.0; }", ""),
        ("for (i64 i = 3; i < 4; i += 1) { B[i] = A[i]; }", "  B[3] = A[3];\n"),
        ("for (i64 i = 0; i < 4; i += 8) { B[i * 2 + 1] = 1.0; }", "  B[1] = 1.0;\n"),
        ("for (i64 i = 0; i < 4; i += 1) { f32 x = A[i]; }", ""),
        ("if (1 < 2) { B[0] = 1.0; } else { B[0] = 2.0; }", "  B[0] = 1.0;\n"),
        ("if (1 > 2) { B[0] = 1.0; } else { B[0] = 2.0; }", "  B[0] = 2.0;\n"),
        ("if (A[0] > 0.0) { } else { }", ""),
        ("if (group_id(0) < 2) { } else { B[0] = 2.0; }", "  if (group_id(0) >= 2) {\n    B[0] = 2.0;\n  }\n"),
        (
            "for (i64 i = 0; i < 1; i += 1) { f32 x = A[i]; B[i] = x + x; }"
            "for (i64 i = 1; i < 2; i += 1) { f32 x = A[i]; B[i] = x + x; }",
            "  f32 x_0 = A[0];\n  B[0] = x_0 + x_0;\n  f32 x_1 = A[1];\n  B[1] = x_1 + x_1;\n",
        ),
        ("for (i64 i = 0; i < 1; i += 1) { f32 x = A[i]; B[i] = x + x; }", "  f32 x = A[0];\n  B[0] = x + x;\n"),
        (
            "i64 g = group_id(0); i64 n = 8; for (i64 i = g; i < n; i += 1) { B[i] = 1.0; }",
            "  i64 g = group_id(0);\n  for (i64 i = g; i < 8; i += 1) {\n    B[i] = 1.0;\n  }\n",
        ),
        ("B[0] = cast<f32>(cast<f64>(A[0]));", "  B[0] = A[0];\n"),
        ("f32x4 v = broadcast<4>(0.0) + f32x4(1.0); B[0 : 4] = v;", "  B[0 : 4] = f32x4(1.0);\n"),
        (
            "i64 g = group_id(0); B[ramp<4>(g, 2) + broadcast<4>(3) : 4] = A[0 : 4];",
            "  i64 g = group_id(0);\n  B[ramp<4>(g + 3, 2)] = A[0 : 4];\n",
        ),
    ],
)
def test_simplified_text(body: str, expected: str) -> None:
    kernel = parse_kernel(f"{HEADER}{body}\n}}\n")
    verify(kernel)
    simple = simplify(kernel)
    verify(simple)
    assert to_text(simple) == f"{HEADER}{expected}}}\n"


def test_nothing_to_do_keeps_identity() -> None:
    kernel = parse_kernel(f"{HEADER}for (i64 i = 0; i < 64; i += 1) {{ B[i] = A[i] + 1.0; }}\n}}\n")
    assert simplify(kernel) is kernel


def test_long_chains_take_few_rounds() -> None:
    chain = "".join(f"f32 x{n} = x{n - 1} + 1.0;" for n in range(1, 2000))
    kernel = parse_kernel(f"{HEADER}f32 x0 = A[0];{chain}\n}}\n")
    assert simplify(kernel).body == ()
