"""Channels and copies of boxes: what they mean, what the verifier refuses, and what the interpreter finds in a run."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.matrices import without_instructions
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.threads import one_thread

SUMS: Final = """
kernel sums(out f32 O[8], in f32 A[31]) grid(2) group(4) index(i32) {
  i32 g = group_id(0);
  i32 t = local_id(0);
  local u64 ready[4] align(64);
  local f32 tile[32] align(64);
  private f32 s[1] align(64);
  s[0] = 0.0;
  channel acquire ready[0];
  bulk_copy ready[0] tile[0] = A[1] box(4, 4) of(5, 6) by(6, 1) at(g * 3 - 1, -2) swizzle(2, 3);
  channel send ready[0];
  for (i32 k = 0; k < 3; k += 1) {
    channel receive ready[0];
    for (i32 j = 0; j < 4; j += 1) {
      s[0] = s[0] + tile[k % 2 * 16 + ((t * 4 + j) ^ (((t * 4 + j) >> 2) & 3))];
    }
    if (k < 2) {
      channel acquire ready[0];
      i32 n = (k + 1) % 2 * 16;
      bulk_copy ready[0] tile[n] = A[1] box(4, 4) of(5, 6) by(6, 1) at(g * 3 - 1, k * 3 + 2) swizzle(2, 3);
      channel send ready[0];
    }
    channel release ready[0];
  }
  O[g * 4 + t] = s[0];
}
"""
GIVEN: Final = np.random.default_rng(0).integers(0, 9, 31).astype(np.float32)


def wanted() -> np.ndarray:
    around = np.zeros((20, 30), np.float32)
    around[5:10, 5:11] = GIVEN[1:].reshape(5, 6)
    rows = [(5 + 3 * group - 1 + thread) for group in range(2) for thread in range(4)]
    return np.array([sum(around[row, 5 + first : 9 + first].sum() for first in (-2, 2, 5)) for row in rows])


def test_boxes_arrive_with_zeros_around_the_tensor() -> None:
    kernel = parse_kernel(SUMS)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    assert without_instructions(kernel, channels=False) is kernel
    plain = without_instructions(kernel)
    verify(plain)
    assert not any(word in to_text(plain) for word in ("channel ", "bulk_copy"))
    for variant in (kernel, plain, one_thread(kernel)):
        result = np.zeros(8, np.float32)
        run(variant, [result, GIVEN], ALL_CHECKS)
        np.testing.assert_array_equal(result, wanted())


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("{\n    channel receive ready[0];", "{", "TIL558", "receive the message before"),
        ("    channel release ready[0];\n", "", "TIL555", "wait for ever"),
        ("local u64 ready[4]", "local u64 ready[2]", "TIL555", "wait for ever"),
        ("(k + 1) % 2 * 16", "k % 2 * 16", "TIL558", "have released"),
        ("local u64 ready[4]", "local u64 ready[6]", "TIL558", "have released"),
        ("      channel acquire ready[0];\n", "", "TIL555", "has not acquired"),
        ("  channel send ready[0];\n  for", "  for", "TIL555", "nobody sends"),
        ("    channel release ready[0];\n", "    channel release ready[0];\n" * 2, "TIL555", "has not received"),
        ("tile[n]", "tile[k + 17]", "TIL553", "touches element"),
    ],
)
def test_what_goes_wrong_in_a_run(old: str, new: str, code: str, said: str) -> None:
    assert old in SUMS
    with pytest.raises(TileError) as caught:
        run(parse_kernel(SUMS.replace(old, new)), [np.zeros(8, np.float32), GIVEN], ALL_CHECKS)
    assert [fault.code for fault in caught.value.diagnostics] == [code]
    assert said in str(caught.value)


def test_threads_that_released_may_be_ahead_of_others() -> None:
    """Writes of a thread after its release are not ordered with reads of others before theirs."""
    behind = SUMS.replace("    channel release ready[0];", "    channel release ready[0];\n    tile[k % 2 * 16] = 0.0;")
    with pytest.raises(TileError, match=r"TIL558|TIL557"):
        run(parse_kernel(behind), [np.zeros(8, np.float32), GIVEN], ALL_CHECKS)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("local u64 ready", "local i64 ready", "TIL554"),
        ("local u64 ready", "private u64 ready", "TIL554"),
        ("local u64 ready[4]", "local u64 ready[3]", "TIL551"),
        ("channel receive ready[0]", "channel receive ready[1]", "TIL551"),
        ("  s[0] = 0.0;", "  s[0] = 0.0;\n  u64 r = ready[0];", "TIL554"),
        ("local f32 tile", "private f32 tile", "TIL554"),
        ("local f32 tile[32]", "local f32 tile[8]", "TIL553"),
        ("in f32 A", "inout f32 A", "TIL554"),
        ("of(5, 6)", "of(6, 6)", "TIL553"),
        ("by(6, 1)", "by(6, 2)", "TIL551"),
        ("box(4, 4)", "box(4, 0)", "TIL551"),
        ("box(4, 4)", "box(4, 4, 1)", "TIL551"),
        ("-2) swizzle", "-2) every(1, 0) swizzle", "TIL551"),
        ("-2) swizzle", "-2) every(2) swizzle", "TIL551"),
        ("A[1] box", "A[t] box", "TIL553"),
        ("in f32 A", "in f16 A", "TIL552"),
        ("at(g * 3 - 1, -2)", "at(g * 3 - 1, 0.5)", "TIL552"),
        ("swizzle(2, 3)", "swizzle(1, 3)", "TIL551"),
        ("swizzle(2, 3)", "fold(2, 4, 3)", "TIL551"),
        ("swizzle(2, 3)", "fold(2, 5, 4)", "TIL551"),
        ("    channel release ready[0];", "    if (t < 2) { channel release ready[0]; }", "TIL555"),
        ("if (k < 2)", "if (k + t < 2)", "TIL555"),
    ],
)
def test_channels_are_of_all_threads_and_copies_of_tensors(old: str, new: str, code: str) -> None:
    assert old in SUMS
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(SUMS.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


@given(
    extents=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    data=st.data(),
)
def test_any_box_is_that_of_the_tensor(extents: list[int], data: st.DataObject) -> None:
    box = [data.draw(st.integers(1, 4)) for _ in extents]
    at = [data.draw(st.integers(-3, 6)) for _ in extents]
    steps = [data.draw(st.integers(1, 3)) for _ in extents]
    gaps = [data.draw(st.integers(0, 2)) for _ in extents[1:]]
    strides, stride = [1], 1
    for extent, gap in zip(extents[:0:-1], gaps, strict=True):
        stride *= extent + gap
        strides.insert(0, stride)
    size = 1 + sum((extent - 1) * step for extent, step in zip(extents, strides, strict=True))
    count = int(np.prod(box))
    listed = [", ".join(map(str, each)) for each in (box, extents, strides, at)]
    every = f" every({', '.join(map(str, steps))})" if max(steps) > 1 else ""
    kernel = parse_kernel(f"""
kernel copy(out f32 O[{count}], in f32 A[{size}]) grid(1) group(8) index(i32) {{
  local u64 ready[2] align(64);
  local f32 tile[{count}] align(64);
  channel acquire ready[0];
  bulk_copy ready[0] tile[0] = A[0] box({listed[0]}) of({listed[1]}) by({listed[2]}) at({listed[3]}){every};
  channel send ready[0];
  channel receive ready[0];
  for (i32 e = local_id(0); e < {count}; e += 8) {{
    O[e] = tile[e];
  }}
  channel release ready[0];
}}
""")
    given = np.arange(1, size + 1, dtype=np.float32)
    places = np.lib.stride_tricks.as_strided(given, extents, [4 * step for step in strides])
    around = np.pad(places, 20)
    sides = zip(at, box, steps, strict=True)
    want = around[tuple(slice(20 + first, 20 + first + side * step, step) for first, side, step in sides)].reshape(-1)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    for variant in (kernel, without_instructions(kernel), one_thread(kernel)):
        result = np.zeros(count, np.float32)
        run(variant, [result, given], ALL_CHECKS)
        np.testing.assert_array_equal(result, want)
