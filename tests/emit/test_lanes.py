"""Splitting vectors keeps what a kernel computes, by the interpreter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.core.dtype import DType
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import Assign, Const, Shuffle, Subscript, Type
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import expressions, statements, walk, with_body
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.expansions import EXPANDED, expand_kernel
from tileir_emit.lanes import WIDTHS, register_bits, split_lanes

if TYPE_CHECKING:
    from strategies.semtree import KernelCase
    from tileir.semtree.ir import KernelFunction

LIMITS = [(1, 128), (2, 128), (4, 128), (16, 16)]
"""Most lanes and bytes of a vector."""


def lanes_of(kernel: KernelFunction) -> set[int]:
    """Return the numbers of lanes that occur."""
    found: set[int] = set()
    for stmt in statements(kernel.body):
        roots = (*expressions(stmt), stmt.target) if isinstance(stmt, Assign) else expressions(stmt)
        found.update(node.type.lanes for root in roots for node in walk(root))
    return found


@examples(100)
@given(case=kernel_cases(), limits=st.sampled_from(LIMITS))
def test_split_kernels_compute_the_same(case: KernelCase, limits: tuple[int, int]) -> None:
    plain = without_instructions(case.kernel)
    split = split_lanes(expand_kernel(plain, EXPANDED), *limits)  # without dot products
    verify(split)
    assert all(lanes in WIDTHS and lanes <= limits[0] for lanes in lanes_of(split))
    expected, actual = case.arrays(), case.arrays()
    interpreter.run(case.kernel, expected)
    interpreter.run(split, actual)
    for param, ours, theirs in zip(case.kernel.params, actual, expected, strict=True):
        assert same_content(ours, theirs), param.name


def body_of(text: str, most_lanes: int) -> list[str]:
    """Return the lines of the body of a split kernel over ``P`` and ``Q``."""
    params = "inout f32 P[64] align(64) noalias, in f32 Q[64] align(64) noalias"
    kernel = parse_kernel(f"kernel k({params}) {{ {text} }}")
    verify(kernel)
    return [line.strip() for line in to_text(split_lanes(kernel, most_lanes, 128)).splitlines()[4:-1]]


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("P[0 : 8] = fma(Q[0 : 8], Q[8 : 8], P[0 : 8]);", 0),
        ("P[0 : 8] = P[1 : 8];", 2),
        ("P[0 : 8] = f32x8(1.0) * broadcast<8>(reduce<add>(P[0 : 8]));", 1),
        ("P[ramp<8>(0, 2)] = Q[0 : 8];", 2),
    ],
)
def test_values_that_depend_on_other_lanes_are_computed_first(text: str, declared: int) -> None:
    lines = body_of(text, 4)
    assert sum(line.startswith("f32") for line in lines) == declared


def test_a_kernel_without_wide_vectors_is_returned_itself() -> None:
    kernel = parse_kernel("kernel k(out f32 P[8]) { P[0 : 8] = f32x8(1.0); }")
    assert split_lanes(kernel, 16, 128) is kernel
    assert split_lanes(kernel, 4, 128) is not kernel


def test_one_wide_type_splits_all_vectors_of_its_lanes() -> None:
    text = "kernel k(out f64 P[8], in f32 Q[8]) { P[0 : 8] = cast<f64x8>(Q[0 : 8]); }"
    assert lanes_of(split_lanes(parse_kernel(text), 16, 32)) == {1, 4}


def test_lanes_that_no_vector_has_become_several_vectors() -> None:
    assert body_of("P[0 : 7] = Q[0 : 7];", 16)[-2:] == ["P[0 : 4] = Q[0 : 4];", "P[0 + 4 : 3] = Q[0 + 4 : 3];"]


def test_narrow_floats_are_held_as_those_of_32_bits() -> None:
    assert [register_bits(dtype) for dtype in (DType.F16, DType.BOOL, DType.I64)] == [32, 8, 64]
    text = "kernel k(out f16 P[16], in f16 Q[16]) { P[0 : 16] = Q[0 : 16]; }"
    assert lanes_of(split_lanes(parse_kernel(text), 16, 32)) == {1, 8}


@pytest.mark.parametrize(
    "order", [(0, 4, 1, 5, 2, 6, 3, 7), (7, 6, 5, 4, 3, 2, 1, 0), (3, 3, 4, 4, 0, 7, 7, 0)], ids=str
)
def test_lanes_are_picked_from_the_vectors_that_have_them(order: tuple[int, ...]) -> None:
    params = "inout f32 P[64] align(64) noalias, in f32 Q[64] align(64) noalias"
    kernel = parse_kernel(f"kernel k({params}) {{ P[0 : 8] = Q[0 : 8]; }}")
    whole = Subscript("Q", Const(0, Type(DType.I64)), Type(DType.F32, 8))
    target = Subscript("P", Const(0, Type(DType.I64)), Type(DType.F32, 8))
    split = split_lanes(with_body(kernel, (Assign(target, Shuffle((whole,), order)),)), 4, 128)
    verify(split)
    given, found = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    interpreter.run(split, [found, given])
    np.testing.assert_array_equal(found[:8], given[list(order)])
