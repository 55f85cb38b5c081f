"""Interleaved vectors as whole vectors of memory and shuffles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.semtree import kernel_cases
from strategies.semtree_values import same_content
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.ir import Assign, Declare, Ramp, Shuffle, Subscript
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.semtree.simplify.simplifier import simplify
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.interleaving import interleave

if TYPE_CHECKING:
    from strategies.semtree import KernelCase
    from tileir.semtree.ir import KernelFunction


def strided(kernel: KernelFunction) -> int:
    """Return how many loads and stores have lanes that are apart."""
    roots = (root for stmt in statements(kernel.body) for root in expressions(stmt))
    found = {node for root in roots for node in walk(root) if isinstance(node, Subscript)}
    targets = (s.target for s in statements(kernel.body) if isinstance(s, Assign) and isinstance(s.target, Subscript))
    return sum(isinstance(node.offset, Ramp) for node in {*found, *targets})


@examples(150)
@given(case=kernel_cases(depth=2))
def test_kernels_compute_the_same(case: KernelCase) -> None:
    kernel = simplify(case.kernel)
    whole = interleave(kernel)
    verify(whole)
    expected, actual = case.arrays(), case.arrays()
    run(kernel, expected)
    run(whole, actual)
    assert all(map(same_content, actual, expected))


@st.composite
def pixel_kernels(draw: st.DrawFn) -> tuple[str, int]:
    """Kernels that load and store lanes that are apart, in any order, at any distances; and how many elements."""
    lanes, stride = draw(st.sampled_from((2, 4, 8, 16))), draw(st.integers(2, 8))
    size = stride * lanes + 3 * stride
    lines: list[str] = []
    names: list[str] = []
    for number in range(draw(st.integers(1, 6))):
        array = draw(st.sampled_from("XYZ"))
        distance = draw(st.integers(0, 2 * stride))
        place = f"{array}[ramp<{lanes}>(i + {distance}, {stride})]"
        writes = draw(st.booleans())
        if writes and names:
            lines.append(f"{place} = {draw(st.sampled_from(names))};")
        else:
            names.append(f"v{number}")
            lines.append(f"i32x{lanes} v{number} = {place};")
        if draw(st.integers(0, 5)) == 0:
            lines.append("i = i + 1;")
    shared = draw(st.sampled_from(("", " noalias")))
    params = ", ".join(f"inout i32 {array}[{size + 8}]{shared}" for array in "XYZ")
    body = " ".join(lines)
    return f"kernel k({params}) {{ i64 i = 1; i = 0; {body} }}", size + 8


@examples(200)
@given(case=pixel_kernels())
def test_lanes_that_are_apart_meet_the_same_elements(case: tuple[str, int]) -> None:
    text, size = case
    kernel = parse_kernel(text)
    verify(kernel)
    whole = interleave(kernel)
    verify(whole)
    shared = "noalias" not in text
    made = []
    for each in (kernel, whole):
        memory = [np.arange(size, dtype=np.int32) * (1 if shared else 100**n) for n in range(3)]
        arrays = [memory[0], memory[0], memory[2]] if shared else memory
        run(each, arrays)
        made.append(arrays)
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)


PIXELS = """
kernel k(out f32 Y[48] noalias, in f32 X[48] noalias) {{
  f32x16 a = X[ramp<16>(0, 3)];
  f32x16 b = X[ramp<16>(1, 3)];
  f32x16 c = X[ramp<16>(2, 3)];
  {}
}}
"""


def test_all_channels_are_whole_vectors() -> None:
    body = "".join(f"Y[ramp<16>({n}, 3)] = {v};" for n, v in enumerate("cab"))
    kernel = interleave(parse_kernel(PIXELS.format(body)))
    assert strided(kernel) == 0
    loads = [s for s in kernel.body if isinstance(s, Declare) and isinstance(s.value, Subscript)]
    stores = [s for s in kernel.body if isinstance(s, Assign)]
    assert (len(loads), len(stores)) == (3, 3)
    x = np.arange(48, dtype=np.float32)
    y = np.zeros(48, np.float32)
    run(kernel, [y, x])
    np.testing.assert_array_equal(y.reshape(16, 3), x.reshape(16, 3)[:, [2, 0, 1]])


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("Y[ramp<16>(0, 3)] = a; Y[ramp<16>(1, 3)] = b;", 2),  # a gap
        ("Y[ramp<16>(0, 3)] = a; Y[ramp<16>(1, 3)] = b; Y[ramp<16>(0, 3)] = c; Y[ramp<16>(2, 3)] = c;", 3),
    ],
)
def test_stores_with_gaps_stay(body: str, left: int) -> None:
    assert strided(interleave(parse_kernel(PIXELS.format(body)))) == left


@pytest.mark.parametrize(("promise", "loaded"), [("", 4), (" noalias", 2)])
def test_loads_are_not_moved_past_stores_to_what_may_overlap(promise: str, loaded: int) -> None:
    text = (
        f"kernel k(inout i32 X[16]{promise}, inout i32 Y[16]{promise}, out i32 Z[8]{promise}) {{"
        " i32x4 a = X[ramp<4>(0, 2)]; Y[0 : 4] = a + a; i32x4 b = X[ramp<4>(1, 2)]; Z[0 : 4] = a; Z[4 : 4] = b; }"
    )
    kernel = parse_kernel(text)
    whole = interleave(kernel)
    loads = [s for s in whole.body if isinstance(s, Declare) and isinstance(s.value, Subscript)]
    assert len(loads) == loaded  # two vectors for each of two groups, or for one
    if not promise:
        expected, actual = np.zeros(8, np.int32), np.zeros(8, np.int32)
        for each, result in ((kernel, expected), (whole, actual)):
            shared = np.arange(16, dtype=np.int32)
            run(each, [shared, shared, result])
        np.testing.assert_array_equal(actual, expected)


def test_one_channel_is_read_up_to_its_last_element() -> None:
    text = "kernel k(out f32 Y[16] noalias, in f32 X[46] noalias) { f32x16 a = X[ramp<16>(0, 3)]; Y[0 : 16] = a; }"
    kernel = interleave(parse_kernel(text))
    verify(kernel)
    assert "X[30 : 16]" in to_text(kernel)
    y = np.zeros(16, np.float32)
    run(kernel, [y, np.arange(46, dtype=np.float32)])
    np.testing.assert_array_equal(y, np.arange(0, 46, 3))


@pytest.mark.parametrize(
    ("lanes", "stride", "left"), [(16, 6, 0), (16, 8, 0), (16, 9, 1), (8, 4, 0), (8, 5, 1), (4, 4, 0)]
)
def test_lanes_may_be_half_as_many_elements_apart_as_there_are(lanes: int, stride: int, left: int) -> None:
    size = stride * (lanes - 1) + 1
    load = f"f32x{lanes} a = X[ramp<{lanes}>(0, {stride})]; Y[0 : {lanes}] = a;"
    kernel = interleave(parse_kernel(f"kernel k(out f32 Y[{lanes}] noalias, in f32 X[{size}] noalias) {{ {load} }}"))
    verify(kernel)
    assert strided(kernel) == left
    y = np.zeros(lanes, np.float32)
    run(kernel, [y, np.arange(size, dtype=np.float32)])
    np.testing.assert_array_equal(y, np.arange(0, size, stride))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_channels_are_chosen_in_place_and_moved_once(lanes: int) -> None:
    stride = 3
    ramps = [f"ramp<{lanes}>(i + {channel}, {stride})" for channel in range(stride)]
    loads = " ".join(f"f32x{lanes} v{n} = X[{ramp}];" for n, ramp in enumerate(ramps))
    stores = " ".join(f"Y[{ramp}] = v{stride - 1 - n};" for n, ramp in enumerate(ramps))
    params = f"in f32 X[{lanes * stride}] noalias, out f32 Y[{lanes * stride}] noalias"
    kernel = parse_kernel(f"kernel k({params}) {{ i64 i = 1; i = 0; {loads} {stores} }}")
    whole = interleave(kernel)
    verify(whole)
    roots = (root for stmt in statements(whole.body) for root in expressions(stmt))
    shuffles = [node for root in roots for node in walk(root) if isinstance(node, Shuffle)]
    assert sum(any(lane % lanes != at for at, lane in enumerate(s.lanes)) for s in shuffles) == 2 * stride
    picture = np.arange(lanes * stride, dtype=np.float32)
    out = np.zeros_like(picture)
    run(whole, [picture, out])
    np.testing.assert_array_equal(out.reshape(-1, stride), picture.reshape(-1, stride)[:, ::-1])
