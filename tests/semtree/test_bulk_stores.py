"""Stores of boxes: what they mean, what the verifier refuses, and what the interpreter finds in a run."""

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

DOUBLED: Final = """
kernel doubled(out f32 O[31], in f32 A[60]) grid(2) group(4) index(i32) {
  i32 g = group_id(0);
  i32 t = local_id(0);
  local f32 one[16] align(64);
  local f32 other[16] align(64);
  for (i32 k = 0; k < 2; k += 1) {
    bulk_wait(1);
    barrier();
    for (i32 j = 0; j < 4; j += 1) {
      one[(t * 4 + j) ^ (((t * 4 + j) >> 2) & 3)] = A[t * 7 + j + k * 3] * 2.0;
    }
    barrier();
    bulk_store O[1] = one[0] box(4, 4) of(5, 6) by(6, 1) at(g * 4 - 1, k * 8 - 2) swizzle(2, 3);
    bulk_wait(1);
    barrier();
    for (i32 j = 0; j < 4; j += 1) {
      other[t * 4 + j] = A[t * 5 + j + k + g];
    }
    barrier();
    bulk_store O[1] = other[0] box(4, 4) of(5, 6) by(6, 1) at(g * 4 - 1, k * 8 + 2);
  }
}
"""
GIVEN: Final = np.random.default_rng(0).integers(0, 9, 60).astype(np.float32)

MEET: Final = "    barrier();\n    for (i32 j = 0; j < 4; j += 1) {\n      one"
"""Statements before elements are written again."""


def stored() -> np.ndarray:
    around = np.zeros((20, 30), np.float32)
    row, column = np.mgrid[:4, :4]
    for group in range(2):
        for k in range(2):
            rows = slice(5 + group * 4 - 1, 5 + group * 4 + 3)
            around[rows, 5 + k * 8 - 2 : 5 + k * 8 + 2] = GIVEN[row * 7 + column + k * 3] * 2
            around[rows, 5 + k * 8 + 2 : 5 + k * 8 + 6] = GIVEN[row * 5 + column + k + group]
    return np.concatenate([np.zeros(1, np.float32), around[5:10, 5:11].reshape(-1)])


def test_what_lies_in_the_tensor_is_stored() -> None:
    kernel = parse_kernel(DOUBLED)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    assert without_instructions(kernel, channels=False) is kernel
    plain = without_instructions(kernel)
    verify(plain)
    assert "bulk_" not in to_text(plain)
    for variant in (kernel, plain, one_thread(kernel)):
        result = np.zeros(31, np.float32)
        run(variant, [result, GIVEN], ALL_CHECKS)
        np.testing.assert_array_equal(result, stored())


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        (f"bulk_wait(1);\n{MEET}", MEET, "TIL558", "being stored as a box"),
        (f"bulk_wait(1);\n{MEET}", MEET.replace(";", ";\n    bulk_wait(1);", 1), "TIL558", "meet at a barrier behind"),
        (f"bulk_wait(1);\n{MEET}", f"bulk_wait(2);\n{MEET}", "TIL558", "being stored as a box"),
        ("    barrier();\n    bulk_store O[1] = one", "    bulk_store O[1] = one", "TIL557", "nothing has written"),
        ("g * 4 - 1, k * 8 + 2", "g * 3 - 1, k * 8 + 2", "TIL558", "groups are unordered"),
        ("other[0] box", "other[1] box", "TIL553", "touches element"),
    ],
)
def test_what_goes_wrong_in_a_run(old: str, new: str, code: str, said: str) -> None:
    assert old in DOUBLED
    with pytest.raises(TileError) as caught:
        run(parse_kernel(DOUBLED.replace(old, new)), [np.zeros(31, np.float32), GIVEN], ALL_CHECKS)
    assert [fault.code for fault in caught.value.diagnostics] == [code]
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("local f32 other", "private f32 other", "TIL554"),
        ("local f32 other[16]", "local f32 other[8]", "TIL553"),
        ("out f32 O", "inout f32 O", "TIL554"),
        ("  bulk_wait(1);", "  O[0] = 1.0;\n    bulk_wait(1);", "TIL554"),
        ("  bulk_wait(1);", "  bulk_wait(-1);", "TIL551"),
        ("of(5, 6)", "of(6, 6)", "TIL553"),
        ("by(6, 1)", "by(6, 2)", "TIL551"),
        ("box(4, 4)", "box(4, 0)", "TIL551"),
        ("box(4, 4)", "box(4, 4, 1)", "TIL551"),
        ("O[1] = one", "O[t] = one", "TIL553"),
        ("out f32 O", "out f16 O", "TIL552"),
        ("swizzle(2, 3)", "swizzle(1, 3)", "TIL551"),
        ("swizzle(2, 3)", "fold(2, 5, 4)", "TIL551"),
        ("    bulk_store O[1] = other", "    if (t < 2) { bulk_wait(0); }\n    bulk_store O[1] = other", "TIL555"),
    ],
)
def test_what_the_verifier_refuses(old: str, new: str, code: str) -> None:
    assert old in DOUBLED
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(DOUBLED.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


TEAMS: Final = """
kernel teams(out f32 O[128]) grid(1) group(128) index(i32) {
  i32 t = local_id(0);
  local f32 one[128] align(64);
  role(0, 2) teams(2) {
    for (i32 k = 0; k < 2; k += 1) {
      bulk_wait(0);
      barrier();
      one[t] = cast<f32>(t + k);
      barrier();
      bulk_store O[0] = one[t / 64 * 64] box(2, 32) of(4, 32) by(32, 1) at(t / 64 * 2, k * 16);
    }
  }
}
"""


def test_each_team_of_a_role_stores_for_itself() -> None:
    result = np.zeros(128, np.float32)
    run(parse_kernel(TEAMS), [result], ALL_CHECKS)
    numbers = np.arange(128).reshape(4, 32)
    wanted = np.concatenate([numbers[:, :16], numbers[:, :16] + 1], axis=1)
    np.testing.assert_array_equal(result.reshape(4, 32), wanted)
    with pytest.raises(TileError, match="being stored as a box"):
        run(parse_kernel(TEAMS.replace("bulk_wait(0);", "bulk_wait(1);")), [result], ALL_CHECKS)


@given(extents=st.lists(st.integers(1, 6), min_size=1, max_size=4), data=st.data())
def test_any_box_is_that_of_the_tensor(extents: list[int], data: st.DataObject) -> None:
    axes = len(extents)
    box = [data.draw(st.integers(1, 4)) for _ in range(axes)]
    at = [data.draw(st.integers(-3, extent + 1)) for extent in extents]
    strides = [1] * axes
    for axis in reversed(range(axes - 1)):
        strides[axis] = strides[axis + 1] * extents[axis + 1] + data.draw(st.integers(0, 2))
    count, size = int(np.prod(box)), 1 + sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
    places = ", ".join(f"t * 0 + {place}" for place in at)
    said = "box({}) of({}) by({})".format(*(", ".join(map(str, each)) for each in (box, extents, strides)))
    kernel = parse_kernel(f"""
kernel one(out f32 O[{size}]) grid(1) group(2) index(i32) {{
  i32 t = local_id(0);
  local f32 tile[{count}] align(64);
  for (i32 n = t; n < {count}; n += 2) {{
    tile[n] = cast<f32>(n + 1);
  }}
  barrier();
  bulk_store O[0] = tile[0] {said} at({places});
}}""")
    expected = np.zeros(size, np.float32)
    for number, point in enumerate(np.ndindex(*box)):
        place = np.add(point, at)
        if np.all((place >= 0) & (place < extents)):
            expected[int(place @ strides)] = number + 1
    for variant in (kernel, without_instructions(kernel), one_thread(kernel)):
        result = np.zeros(size, np.float32)
        run(variant, [result], ALL_CHECKS)
        np.testing.assert_array_equal(result, expected)
