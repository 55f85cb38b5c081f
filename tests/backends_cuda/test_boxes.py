"""Channels and copies of boxes as PTX, and the tensor maps that the host has to pass; no card is needed."""

from __future__ import annotations

import re

import pytest

import tileir
from tileir.core.errors import BackendError
from tileir.semtree.ir import MatrixMultiply
from tileir.semtree.rewrite import statements
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.boxes import TensorMap, copies_boxes, tensor_maps
from tileir_cuda.emit.emitter import emit, has_maps
from tileir_cuda.emit.ptx import ptx

HOPPER = ARCHITECTURES["sm_90a"]
COPY = """
kernel copy(out f16 O[4096], in f16 A[65536] align(256)) grid(1) group(64) index(i32) {
  local u64 ready[4] align(64);
  local f16 tile[4096] align(64);
  channel acquire ready[0];
  bulk_copy ready[0] tile[0] = A[8] box(1, 64, 64) of(4, 40, 200) by(8000, 200, 1) at(1, 3, -8) swizzle(3, 56);
  channel send ready[0];
  channel receive ready[0];
  for (i32 e = local_id(0); e < 4096; e += 64) {
    O[e] = tile[e ^ ((e >> 3) & 56)];
  }
  channel release ready[0];
}
"""


def code(text: str, name: str = "sm_90a") -> str:
    return ptx([emit(parse_kernel(text), ARCHITECTURES[name])], ARCHITECTURES[name])


def test_one_thread_asks_for_a_box_and_all_wait() -> None:
    found = code(COPY)
    assert tensor_maps(parse_kernel(COPY)) == (
        TensorMap("A", 8, 2, (200, 40, 4), (400, 16000), (64, 64, 1), 128, (1, 1, 1)),
    )
    assert found.count("cp.async.bulk.tensor.3d") == 1
    assert re.findall(r"mbarrier\.init\S+ \[%r\d+\+(\d+)\], (\d+);", found) == [
        ("0", "1"),
        ("8", "1"),
        ("16", "2"),
        ("24", "2"),
    ]
    assert "expect_tx.relaxed.cta.shared::cta.b64" in found
    assert re.search(r"expect_tx\S+ \[%r\d+\], 8192;", found)
    assert found.count("mbarrier.try_wait.parity") == 2
    assert re.search(r"\.param \.align 64 \.b8 \S+\[128\]", found)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("old", "new", "boxes"),
    [
        ("align(256)", "align(8)", False),
        ("A[8]", "A[4]", False),
        ("by(8000, 200, 1)", "by(8004, 200, 1)", False),
        ("swizzle(3, 56)", "", True),
        ("swizzle(3, 56)", "swizzle(4, 56)", False),
        ("box(1, 64, 64)", "box(1, 128, 32)", False),
        ("swizzle(3, 56)", "swizzle(3, 56) fold(64, 64, 64)", True),
        ("swizzle(3, 56)", "swizzle(3, 24) fold(32, 64, 64)", True),
        ("swizzle(3, 56)", "swizzle(3, 24) fold(32, 64, 32)", False),
        ("swizzle(3, 56)", "every(1, 4, 1) swizzle(3, 56)", True),
        ("swizzle(3, 56)", "every(1, 5, 1) swizzle(3, 56)", False),
        ("swizzle(3, 56)", "every(9, 1, 1) swizzle(3, 56)", False),
        ("swizzle(3, 56)", "every(1, 1, 2) swizzle(3, 56)", False),
    ],
)
def test_what_no_map_can_say_is_copied_by_threads(old: str, new: str, boxes: bool) -> None:
    assert old in COPY
    text = COPY.replace(old, new)
    kernel = parse_kernel(text)
    assert copies_boxes(kernel) == boxes
    found = code(text)
    assert ("cp.async.bulk.tensor" in found) == boxes
    assert ("mbarrier" in found) == boxes


def test_boxes_of_every_other_row_span_twice_as_many() -> None:
    text = COPY.replace("swizzle(3, 56)", "every(1, 2, 1) swizzle(3, 56)")
    ((found,), code_of_it) = tensor_maps(parse_kernel(text)), code(text)
    assert (found.box, found.steps) == ((64, 128, 1), (1, 2, 1))
    assert re.search(r"expect_tx\S+ \[%r\d+\], 8192;", code_of_it)


def test_pieces_of_a_row_are_copies_of_their_own() -> None:
    found = code(COPY.replace("swizzle(3, 56)", "swizzle(3, 24) fold(32, 64, 64)"))
    assert found.count("cp.async.bulk.tensor.3d") == 2


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_architectures_copy_by_threads(name: str) -> None:
    kernel = parse_kernel(COPY)
    assert has_maps(kernel, ARCHITECTURES[name]) == (name == "sm_90a")
    assert ("cp.async.bulk" in code(COPY, name)) == (name == "sm_90a")


PRODUCTS = {
    "A[M, K], B[K, N]": "A[i, k] * B[k, j]",
    "A[M, K], B[N, K]": "A[i, k] * B[j, k]",
    "A[K, M], B[K, N]": "A[k, i] * B[k, j]",
    "A[K, M], B[N, K]": "A[k, i] * B[j, k]",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("inputs", "terms"), PRODUCTS.items())
@pytest.mark.parametrize("size", [3000, 4096, 6000, 6004])
def test_large_products_copy_boxes(inputs: str, terms: str, size: int) -> None:
    text = f"function ({inputs}) -> (C) {{ C[i, j : M, N] = +({terms}); }}"
    executable = tileir.compile(text, [f"f16[{size}, {size}]"] * 2, device="cuda.sm_90a")
    *copies, kernel = executable.sem.kernels
    # Rows that do not lie on whole lines of the cache are copied before, where they are not whole pieces.
    assert bool(copies) == (size == 6004)
    assert kernel.cluster == 1 + (size in (3000, 6000))
    found = {each.array for each in tensor_maps(kernel)} - {"C"}
    assert found == ({"A_laid", "B_laid"} if copies else {"A", "B"})
    listing = executable.listing("ptx")
    assert "wgmma.mma_async" in listing
    assert "cp.async.bulk.tensor.2d" in listing
    assert "cp.async.c" not in listing


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("size", "columns"), [(1496, 192), (2504, 256), (3000, 192), (5000, 256)])
def test_tiles_of_pairs_are_wide_where_all_groups_read_less_so(size: int, columns: int) -> None:
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    (kernel,) = tileir.compile(text, [f"f16[{size}, {size}]"] * 2, device="cuda.sm_90a").sem.kernels
    (product,) = (stmt for stmt in statements(kernel.body) if isinstance(stmt, MatrixMultiply))
    assert (kernel.cluster, product.tile[1]) == (2, columns)


def test_shared_memory_is_bounded() -> None:
    text = COPY.replace("tile[4096]", "tile[200000]")
    with pytest.raises(BackendError) as caught:
        code(text)
    assert [fault.code for fault in caught.value.diagnostics] == ["TIL804"]
