"""Semantics of dot products, and their expansion."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import ParseError
from tileir.core.ops import Op
from tileir.semtree.dots import fragment_of, plain_dot
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import Dot, KernelFunction, Type, Var
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import expr_text, to_text
from tileir.semtree.transform.expansions import expand_kernel

BYTES = """kernel k(out i32 O[4] align(4) noalias, in u8 A[16] align(1) noalias, in i8 B[16] align(1) noalias) grid(1) {
  O[0 : 4] = dot_add<4>(A[0 : 16], B[0 : 16], i32x4(7));
}
"""


def dots(kernel: KernelFunction) -> list[Dot]:
    nodes = (node for stmt in statements(kernel.body) for root in expressions(stmt) for node in walk(root))
    return [node for node in nodes if isinstance(node, Dot)]


def run(kernel: KernelFunction) -> list[int]:
    random = np.random.default_rng(1)
    a, b = random.integers(0, 256, 16, np.uint8), random.integers(-128, 128, 16, np.int8)
    out = np.zeros(4, np.int32)
    interpreter.run(kernel, (out, a, b))
    wanted = 7 + (a.astype(np.int32) * b.astype(np.int32)).reshape(4, 4).sum(1)
    assert out.tolist() == wanted.tolist()
    return [int(value) for value in out]


def test_each_lane_adds_the_products_of_its_neighbours() -> None:
    run(parse_kernel(BYTES))


def test_text_goes_there_and_back() -> None:
    kernel = parse_kernel(BYTES)
    assert parse_kernel(to_text(kernel)) == kernel
    (found,) = dots(kernel)
    assert (fragment_of(found), found.terms, found.type) == ("dot_m1n4k4_u8_i8", 4, Type(DType.I32, 4))


def test_a_count_of_terms_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ParseError, match="terms is 4 for these operands, not 2"):
        parse_kernel(BYTES.replace("dot_add<4>", "dot_add<2>"))


def test_fragments_that_a_processor_lacks_are_spelt_out() -> None:
    kernel = parse_kernel(BYTES)
    assert expand_kernel(kernel, frozenset(), frozenset({"dot_m1n4k4_u8_i8"})) is kernel
    plain = expand_kernel(kernel, frozenset(), frozenset({"dot_m1n8k4_u8_i8", "dot_m1n4k2_i16"}))
    assert dots(plain) == []
    assert run(plain) == run(kernel)


def test_floats_are_added_by_fused_multiplications() -> None:
    pair = Type(DType.BF16, 2)
    dot = Dot(Var("a", pair), Var("b", pair), Var("c", Type(DType.F32)))
    assert expr_text(plain_dot(dot)).count("fma(") == 2
    assert Op.MUL not in {getattr(node, "op", None) for node in walk(plain_dot(dot))}
