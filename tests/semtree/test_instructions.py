"""Asynchronous copies and products of matrices: meaning, text, JSON, rules, and how threads do without them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from tileir import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS, NO_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.matrices import without_instructions
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.threads import one_thread

PRODUCT: Final = """
kernel product(
    inout f32 C[512],
    in {dtype} A[{a}],
    in {dtype} B[{b}]
) grid(1) group(64) index(i32) {{
  i32 t = local_id(0);
  local {dtype} left[{a}] align(64);
  local {dtype} right[{b}] align(64);
  private f32 sums[8] align(64);
  for (i32 i = t * {lanes}; i < {a}; i += {stride}) {{
    async left[{left} : {lanes}] = A[i : {lanes}];
  }}
  async_commit();
  for (i32 j = t * {lanes}; j < {b}; j += {stride}) {{
    async right[j : {lanes}] = B[j : {lanes}];
  }}
  async_commit();
  for (i32 e = 0; e < 8; e += 1) {{
    sums[e] = 0.0;
  }}
  async_wait(0);
  barrier();
  i32 warp = t / 32;
  multiply({fragment}) tile(16, 16, {depth}) sums[0] += left[warp * {half}] strides({depth}, 1){swizzle} * right[0] strides(16, 1);
  i32 row = warp * 16 + t % 32 / 4;
  i32 column = t % 4 * 2;
  for (i32 n = 0; n < 2; n += 1) {{
    for (i32 h = 0; h < 2; h += 1) {{
      C[(row + h * 8) * 16 + n * 8 + column : 2] = sums[n * 4 + h * 2 : 2];
    }}
  }}
}}
"""  # noqa: E501


def product(dtype: str, *, swizzled: bool = False) -> KernelFunction:
    depth = 16 if dtype == "f32" else 32
    lanes = 4 if dtype == "f32" else 8
    mask = 3 * lanes if swizzled else 0
    return parse_kernel(
        PRODUCT.format(
            dtype=dtype, a=32 * depth, b=16 * depth, lanes=lanes, stride=64 * lanes, depth=depth, half=16 * depth,
            fragment="mma_m16n8k8_f32" if dtype == "f32" else f"mma_m16n8k16_{dtype}",
            left=f"i ^ (i >> 3) & {mask}" if swizzled else "i",
            swizzle=f" swizzle(3, {mask})" if swizzled else "",
        )
    )  # fmt: skip


def operands(kernel: KernelFunction, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    sums, *matrices = (np.zeros(param.size, param.dtype.numpy) for param in kernel.params)
    return [sums, *(generator.integers(-4, 5, matrix.size).astype(matrix.dtype) for matrix in matrices)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("swizzled", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_products_are_those_of_matrices(dtype: str, swizzled: bool) -> None:
    kernel = product(dtype, swizzled=swizzled)
    for variant, checks in ((kernel, ALL_CHECKS), (without_instructions(kernel), NO_CHECKS)):
        arrays = operands(kernel, 1)
        run(variant, arrays, checks)
        left, right = arrays[1].reshape(32, -1).astype(np.float32), arrays[2].reshape(-1, 16).astype(np.float32)
        np.testing.assert_array_equal(arrays[0].reshape(32, 16), left @ right)


@pytest.mark.parametrize("swizzled", [False, True])
def test_text_and_json_are_read_back(swizzled: bool) -> None:
    kernel = product("f16", swizzled=swizzled)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("  barrier();\n", "", "TIL557", "nothing has written"),
        ("  async_wait(0);\n", "", "TIL557", "nothing has written"),
        ("async_wait(0)", "async_wait(1)", "TIL557", "nothing has written"),
    ],
)
def test_copies_must_be_waited_for(old: str, new: str, code: str, message: str) -> None:
    text = to_text(product("f16"))
    assert old in text
    kernel = parse_kernel(text.replace(old, new))
    with pytest.raises(TileError, match=message) as caught:
        run(kernel, operands(kernel, 0), ALL_CHECKS)
    assert [fault.code for fault in caught.value.diagnostics] == [code]


def test_what_was_copied_is_not_there_before_the_wait() -> None:
    kernel = parse_kernel("""
kernel early(out f32 O[4], in f32 A[4]) grid(1) {
  local f32 stage[4] align(16);
  stage[0 : 4] = f32x4(1.0);
  async stage[0 : 4] = A[0 : 4];
  async_commit();
  O[0 : 4] = stage[0 : 4];
  async_wait(0);
}
""")
    with pytest.raises(TileError) as caught:
        run(kernel, [np.zeros(4, np.float32), np.ones(4, np.float32)], ALL_CHECKS)
    assert caught.value.diagnostics[0].code == "TIL557"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("group(64)", "group(48)", "TIL551"),
        ("mma_m16n8k16_f16", "mma_m16n8k16_bf16", "TIL552"),
        ("mma_m16n8k16_f16", "mma_m16n8k16_f17", "TIL552"),
        ("mma_m16n8k16_f16", "xmx_m8n16k16_f16", "TIL553"),
        ("mma_m16n8k16_f16", "wgmma_m64n32k16_f16", "TIL551"),
        ("tile(16, 16, 32)", "tile(16, 12, 32)", "TIL551"),
        ("sums[0] +=", "sums[4] +=", "TIL553"),
        ("private f32 sums", "local f32 sums", "TIL554"),
        ("local f16 right", "private f16 right", "TIL554"),
        ("strides(32, 1) *", "strides(32, 1) swizzle(1, 6) *", "TIL551"),
        ("async_wait(0)", "async_wait(-1)", "TIL551"),
        ("async left[i : 8] = A[i : 8]", "async left[i] = A[i]", "TIL551"),
        ("async left[i : 8] = A[i : 8]", "async left[i : 8] = C[i : 8]", "TIL552"),
        ("async left[i : 8] = A[i : 8]", "async left[i : 8] = right[i : 8]", "TIL554"),
        ("  multiply", "  if (t < 32) { multiply", "TIL555"),
    ],
)
def test_rules(old: str, new: str, code: str) -> None:
    text = to_text(product("f16"))
    assert old in text
    text = text.replace(old, new)
    if code == "TIL555":
        text = text.replace("right[0] strides(16, 1);", "right[0] strides(16, 1); }")
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(text))
    assert code in [fault.code for fault in caught.value.diagnostics]


def test_faults_in_the_text() -> None:
    text = to_text(product("f16"))
    for old, new in (
        ("tile(16, 16, 32)", "tile(16, 16)"),
        ("sums[0] +=", "t +="),
        ("async left[i : 8] =", "async t ="),
    ):
        assert old in text
        with pytest.raises(TileError) as caught:
            parse_kernel(text.replace(old, new))
        assert caught.value.diagnostics[0].code == "TIL102"


EXCHANGE: Final = """
kernel trade(out f32 O[64], in f32 A[64]) grid(1) group(32) index(i32) {
  i32 t = local_id(0);
  private f32 own[4] align(64);
  private f32 other[2] align(64);
  own[2 : 2] = A[t * 2 : 2];
  exchange(5) other[0 : 2] = own[2 : 2];
  exchange(2) own[0] = other[1];
  O[t * 2] = other[0];
  O[t * 2 + 1] = own[0];
}
"""


def test_threads_exchange_what_they_hold() -> None:
    kernel = parse_kernel(EXCHANGE)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    assert without_instructions(kernel, exchanges=False) is kernel
    plain = without_instructions(kernel)
    verify(plain)
    assert "exchange(" not in to_text(plain)
    given = np.arange(64, dtype=np.float32)
    numbers = np.arange(32)
    wanted = np.stack([given[2 * (numbers ^ 5)], given[2 * (numbers ^ 7) + 1]], axis=1).reshape(-1)
    for variant in (kernel, plain, one_thread(kernel)):
        result = np.zeros(64, np.float32)
        run(variant, [result, given], ALL_CHECKS)
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("exchange(5)", "exchange(0)", "TIL551"),
        ("exchange(5)", "exchange(32)", "TIL551"),
        ("group(32)", "group(4)", "TIL551"),
        ("other[0 : 2] = own[2 : 2]", "other[0] = own[2 : 2]", "TIL552"),
        ("other[0 : 2] = own[2 : 2]", "other[0 : 2] = A[2 : 2]", "TIL554"),
        ("private f32 other", "local f32 other", "TIL554"),
        ("  exchange(2) own[0] = other[1];", "  if (t < 7) { exchange(2) own[0] = other[1]; }", "TIL555"),
    ],
)
def test_exchanges_are_between_all_threads_of_a_warp(old: str, new: str, code: str) -> None:
    assert old in EXCHANGE
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(EXCHANGE.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


MASKED: Final = """
kernel part(out f32 O[13], inout f32 S[13], in f32 A[13]) grid(1) {
  private f32 own[8] align(64);
  own[0 : 8] = f32x8(7.0);
  for (i64 i = 0; i < 2; i += 1) {
    f32x8 x = f32x8(1.0);
    masked(0, 13 - i * 8) x = A[i * 8 : 8];
    masked(2, 5) own[0 : 8] = x;
    masked(1 - i, 13 - i * 8) O[ramp<8>(i * 8, 1)] = own[0 : 8];
    masked(3, 8) S[i * 8 - 3 : 8] = x;
    masked(5, 5) S[100 : 8] = x;
  }
}
"""


def test_lanes_that_are_not_set_stay_and_may_be_nowhere() -> None:
    kernel = parse_kernel(MASKED)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    assert without_instructions(kernel, masks=False) is kernel
    plain = without_instructions(kernel)
    verify(plain)
    assert "masked(" not in to_text(plain)
    given = np.arange(13, dtype=np.float32)
    for variant in (kernel, plain, one_thread(kernel), one_thread(kernel, masks=False)):
        result, updated = np.full((2, 13), -1, np.float32)
        run(variant, [result, updated, given], ALL_CHECKS)
        np.testing.assert_array_equal(result, [-1, 7, 2, 3, 4, 7, 7, 7, 7, 7, 10, 11, 12])
        np.testing.assert_array_equal(updated, [3, 4, 5, 6, 7, -1, -1, -1, 11, 12, 1, 1, 1])


def run_verified(kernel: KernelFunction, arrays: list[Any]) -> None:
    verify(kernel)
    run(kernel, arrays, ALL_CHECKS)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("masked(2, 5) own[0 : 8] = x", "masked(2, 5) own[0 : 4] = x", "TIL552"),
        ("masked(2, 5) own[0 : 8] = x", "masked(2, 5) own[0] = 1.0", "TIL552"),
        ("masked(2, 5) own", "masked(i32(2), i32(5)) own", "TIL552"),
        ("masked(3, 8) S", "masked(2, 8) S", "TIL553"),
        ("masked(3, 8) S[i * 8 - 3 : 8]", "masked(3, 8) A[i * 8 - 3 : 8]", "TIL554"),
    ],
)
def test_lanes_are_set_inside_of_arrays(old: str, new: str, code: str) -> None:
    assert old in MASKED
    kernel = parse_kernel(MASKED.replace(old, new))
    with pytest.raises(TileError) as caught:
        run_verified(kernel, [np.zeros(13, np.float32) for _ in range(3)])
    assert code in [fault.code for fault in caught.value.diagnostics]


def test_lanes_of_what_is_no_variable_are_not_set() -> None:
    with pytest.raises(TileError) as caught:
        parse_kernel(MASKED.replace("masked(2, 5) own[0 : 8]", "masked(2, 5) exp(x)"))
    assert caught.value.diagnostics[0].code == "TIL102"
