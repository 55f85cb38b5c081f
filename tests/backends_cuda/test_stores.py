"""Stores of boxes as PTX, and the tensor maps that the host has to pass; no card is needed."""

from __future__ import annotations

import re

import pytest

import tileir
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.boxes import TensorMap, copies_boxes, tensor_maps
from tileir_cuda.emit.emitter import emit, has_maps
from tileir_cuda.emit.ptx import ptx

STORE = """
kernel store(out f16 O[65536] align(256)) grid(1) group(64) index(i32) {
  local f16 tile[4096] align(64);
  for (i32 e = local_id(0); e < 4096; e += 64) {
    tile[e ^ ((e >> 3) & 56)] = 1.0;
  }
  barrier();
  bulk_store O[8] = tile[0] box(1, 64, 64) of(4, 40, 200) by(8000, 200, 1) at(1, 3, -8) swizzle(3, 56);
  bulk_wait(0);
  barrier();
  for (i32 e = local_id(0); e < 4096; e += 64) {
    tile[e ^ ((e >> 3) & 56)] = 2.0;
  }
  barrier();
  bulk_store O[8] = tile[0] box(1, 64, 64) of(4, 40, 200) by(8000, 200, 1) at(2, 3, -8) swizzle(3, 56);
}
""".replace("= 1.0", "= f16(1.0)").replace("= 2.0", "= f16(2.0)")

TEAMS = """
kernel teams(out f16 O[16384] align(256)) grid(1) group(288) index(i32) {
  i32 t = local_id(0);
  local f16 tile[16384] align(64);
  role(1, 4) teams(2) {
    tile[t] = f16(1.0);
    barrier();
    bulk_store O[0] = tile[t / 160 * 8192] box(64, 64) of(128, 64) by(64, 1) at(t / 160 * 64, 0);
  }
}
"""


def code(text: str, name: str = "sm_90a") -> str:
    return ptx([emit(parse_kernel(text), ARCHITECTURES[name])], ARCHITECTURES[name])


def test_one_thread_stores_a_box_and_all_see_to_it_that_it_may() -> None:
    found = code(STORE)
    kernel = parse_kernel(STORE)
    assert tensor_maps(kernel) == (TensorMap("O", 8, 2, (200, 40, 4), (400, 16000), (64, 64, 1), 128, (1, 1, 1)),)
    order = r"fence\.proxy\.async|bar(?:rier)?\.(?:cta\.)?sync|bulk_group \[|commit_group|wait_group(?:\.read)? \d"
    words = [each.split(".")[0] if "bar" in each else each for each in re.findall(order, found)]
    meet, store = ["fence.proxy.async", "bar"], ["bulk_group [", "commit_group"]
    assert words == [*meet, *store, "wait_group.read 0", *meet, *meet, *store, "wait_group 0"]
    assert re.search(r"\.param \.align 64 \.b8 \S+\[128\]", found)


def test_the_first_thread_of_each_team_stores() -> None:
    found = code(TEAMS)
    assert "cp.async.bulk.tensor.2d.global.shared::cta" in found
    assert re.search(r"add\.s32\s+(%r\d+), %r\d+, -32;", found)  # the place among those with a role


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("old", "new", "boxes"),
    [
        ("align(256)", "align(8)", False),
        ("O[8]", "O[4]", False),
        ("by(8000, 200, 1)", "by(8004, 200, 1)", False),
        ("swizzle(3, 56)", "", True),
        ("swizzle(3, 56)", "swizzle(4, 56)", False),
        ("swizzle(3, 56)", "swizzle(3, 24) fold(32, 64, 64)", True),
        ("swizzle(3, 56)", "swizzle(3, 24) fold(32, 64, 32)", False),
    ],
)
def test_what_no_map_can_say_is_stored_by_threads(old: str, new: str, boxes: bool) -> None:
    assert old in STORE
    text = STORE.replace(old, new)
    assert copies_boxes(parse_kernel(text)) == boxes
    assert ("cp.async.bulk" in code(text)) == boxes


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_architectures_store_by_threads(name: str) -> None:
    assert has_maps(parse_kernel(STORE), ARCHITECTURES[name]) == (name == "sm_90a")
    assert ("cp.async.bulk" in code(STORE, name)) == (name == "sm_90a")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dtype", "size", "stores", "copies"),
    [
        ("f16", 4096, True, True),
        ("bf16", 5120, True, True),
        ("f8e4m3fn", 4096, True, True),
        ("f16", 2048, False, False),  # each group has one tile
        ("f16", 6000, False, True),  # rows do not begin where lines of the cache do: pairs of groups copy
    ],
)
def test_products_store_boxes_beside_a_warp_that_copies(dtype: str, size: int, stores: bool, copies: bool) -> None:
    text = "function (A[M, K], B[N, K]) -> (R) { C[i, j : M, N] = +(A[i, k] * B[j, k]); R = as_bf16(C); }"
    shapes = [f"{dtype}[{size}, {size}]"] * 2
    listing = tileir.compile(text, shapes, device="cuda.sm_90a").listing("ptx")
    assert ("cp.async.bulk.commit_group" in listing) == stores
    assert ("setmaxnreg" in listing) == copies
    assert "cp.async.bulk.tensor" in listing


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "columns"), [(1536, 160), (3072, 192), (5120, 224)])
def test_bytes_have_instructions_as_wide_as_their_tiles(size: int, columns: int) -> None:
    text = "function (A[M, K], B[N, K]) -> (R) { C[i, j : M, N] = +(A[i, k] * B[j, k]); R = as_bf16(C); }"
    options = tileir.Options(fast_math=True)
    executable = tileir.compile(text, [f"f8e4m3fn[{size}, {size}]"] * 2, device="cuda.sm_90a", options=options)
    assert set(re.findall(r"m64n(\d+)k32", executable.listing("ptx"))) == {str(columns)}
