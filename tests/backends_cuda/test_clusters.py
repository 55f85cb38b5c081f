"""Clusters as PTX: parts of boxes that come to the memory of several groups; no card is needed."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pytest

from strategies.card_driver import Result, without_a_card
from tileir.semtree.clusters import without_clusters
from tileir.semtree.text.parser import parse_kernel
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.boxes import tensor_maps
from tileir_cuda.emit.emitter import emit, has_maps, settled
from tileir_cuda.emit.ptx import ptx

HOPPER = ARCHITECTURES["sm_90a"]
COPY: Final = """
kernel copy(out f16 O[16384], in f16 A[65536] align(256)) grid(4) group(64) cluster(2) index(i32) {
  local u64 ready[4] align(64);
  local f16 tile[4096] align(64);
  channel acquire ready[0];
  bulk_copy ready[0] tile[0] = A[8] box(64, 64) of(40, 200) by(200, 1) at(3, -8) swizzle(3, 56) to cluster;
  channel send ready[0];
  channel receive ready[0];
  for (i32 e = local_id(0); e < 4096; e += 64) {
    O[group_id(0) * 4096 + e] = tile[e ^ ((e >> 3) & 56)];
  }
  channel release ready[0];
  barrier() of cluster;
}
"""
GIVEN: Final = np.random.default_rng(0).integers(0, 9, 65536).astype(np.float16)


def code(text: str, name: str = "sm_90a") -> str:
    return ptx([emit(parse_kernel(text), ARCHITECTURES[name])], ARCHITECTURES[name])


def test_each_group_asks_for_its_part_and_all_get_it() -> None:
    found = code(COPY)
    (tensor,) = tensor_maps(settled(parse_kernel(COPY), HOPPER))
    assert tensor.box == (64, 32)
    copies = re.findall(r"cp\.async\.bulk\.tensor\.2d\S+ \[[^;]*;", found)
    assert len(copies) == 1
    assert ".multicast::cluster" in copies[0]
    assert copies[0].endswith(", m;")
    assert "mov.b16 m, 3;" in found
    assert re.search(r"expect_tx\S+ \[%r\d+\], 8192;", found)  # what comes from the other group counts
    counts = re.findall(r"mbarrier\.init\S+ \[%r\d+\+(\d+)\], (\d+);", found)
    assert counts == [("0", "1"), ("8", "1"), ("16", "4"), ("24", "4")]  # the warps of both groups release
    assert "mapa.shared::cluster.u32" in found
    assert "mbarrier.arrive.shared::cluster.b64" in found
    assert re.search(r"\.reqnctapercluster 2", found)
    assert (
        found.count("barrier.cluster.arrive") == found.count("barrier.cluster.wait") == 2
    )  # barriers made, and at the end


@pytest.mark.parametrize(("columns", "rows", "copies"), [(128, 64, 1), (192, 32, 3), (256, 64, 2)])
def test_rows_that_are_folded_are_parted_by_pieces_if_these_are_even(columns: int, rows: int, copies: int) -> None:
    text = COPY.replace("tile[4096]", f"tile[{64 * columns}]").replace("box(64, 64) of", f"box(64, {columns}) of")
    text = text.replace("swizzle(3, 56) to", f"swizzle(3, 56) fold(64, {columns}, 64) to")
    (tensor,) = tensor_maps(settled(parse_kernel(text), HOPPER))
    assert tensor.box == (64, rows)
    found = code(text)
    assert found.count("cp.async.bulk.tensor.2d") == copies
    apart = [int(distance) for distance in re.findall(r"add.u32 d, %r\d+, (\d+);", found)]
    assert apart == [8192 * piece for piece in range(copies)]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_other_architectures_copy_by_groups_alone(name: str) -> None:
    kernel = parse_kernel(COPY)
    found = code(COPY, name)
    joint = name == "sm_90a"
    assert ("cluster.arrive" in found) == ("multicast" in found) == ("nctapercluster" in found) == joint
    own = settled(kernel, ARCHITECTURES[name])
    assert (own.cluster, has_maps(own, ARCHITECTURES[name])) == ((2, True) if joint else (1, False))


@pytest.mark.parametrize(("old", "new"), [("align(256)", "align(8)"), ("grid(4)", "grid(32)")])
def test_what_cards_cannot_do_together_groups_do_alone(old: str, new: str) -> None:
    text = COPY.replace(old, new).replace("O[16384]", "O[131072]")
    text = text if old != "grid(4)" else text.replace("cluster(2)", "cluster(16)")
    kernel = parse_kernel(text)
    assert settled(kernel, HOPPER) == without_clusters(kernel)
    assert "multicast" not in code(text)


def wanted() -> np.ndarray:
    around = np.zeros((128, 256), np.float16)
    around[:40, 8:208] = GIVEN[8:8008].reshape(40, 200)
    return np.tile(around[3:67, :64].reshape(-1), 4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("clusters", "joint"), [(2, True), (1, False), (0, False), (None, False)])
def test_without_room_for_all_clusters_groups_run_alone(clusters: int | None, joint: bool) -> None:
    kernel = parse_kernel(COPY)
    with without_a_card() as (driver, context):
        driver.clusters = clusters or 0
        if clusters is None:
            driver.refusals["cuOccupancyMaxActiveClusters"] = [Result.CUDA_ERROR_INVALID_CLUSTER_SIZE]
        device = context.device()
        alone = without_clusters(kernel)
        driver.know(ptx([emit(alone, HOPPER)], HOPPER), [alone])
        executor = context.executor(device)
        ready: Any = executor.prepare(context.compiler(device).build([kernel]), 0)
        assert ready.kernel.cluster == (2 if joint else 1)
        arrays = [np.zeros(16384, np.float16), GIVEN]
        buffers = [executor.allocate(array.nbytes) for array in arrays]
        for array, buffer in zip(arrays, buffers, strict=True):
            executor.copy(array, buffer).wait()
        ready.launch(buffers)
        executor.copy(buffers[0], arrays[0]).wait()
    np.testing.assert_array_equal(arrays[0], wanted())
