"""Clusters: what groups copy for each other, what the verifier refuses, and what the interpreter finds in a run."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.warp_roles import ROWS
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.clusters import part_of, without_clusters
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import BulkCopy, KernelFunction, Scope
from tileir.semtree.lower.lowering import beside
from tileir.semtree.matrices import without_instructions
from tileir.semtree.rewrite import statements
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.threads import one_thread

SUMS: Final = """
kernel sums(out f32 O[16], in f32 A[32], in f32 B[40]) grid(4) group(4) cluster(2) index(i32) {
  i32 g = group_id(0);
  i32 t = local_id(0);
  i32 r = g / 2 * 2;
  local u64 ready[4] align(64);
  local f32 left[16] align(64);
  local f32 right[32] align(64);
  private f32 s[1] align(64);
  s[0] = 0.0;
  for (i32 k = 0; k < 6; k += 1) {
    if (k < 5) {
      i32 n = k % 2;
      channel acquire ready[0];
      bulk_copy ready[0] left[n * 4] = A[0] box(1, 4) of(4, 8) by(8, 1) at(g, k * 2);
      bulk_copy ready[0] right[n * 16] = B[0] box(4, 4) of(5, 8) by(8, 1) at(r, k * 2 - 3) swizzle(2, 3) to cluster;
      channel send ready[0];
    }
    if (k > 0) {
      i32 m = (k - 1) % 2;
      channel receive ready[0];
      for (i32 j = 0; j < 4; j += 1) {
        s[0] = s[0] + left[m * 4 + j] * right[m * 16 + ((t * 4 + j) ^ (((t * 4 + j) >> 2) & 3))];
      }
      channel release ready[0];
    }
  }
  O[g * 4 + t] = s[0];
  barrier() of cluster;
}
"""
FOLDED: Final = SUMS.replace("swizzle(2, 3) to", "fold(2, 4, 4) to").replace(
    "((t * 4 + j) ^ (((t * 4 + j) >> 2) & 3))", "(j / 2 * 8 + t * 2 + j % 2)"
)
ONE_PIECE: Final = SUMS.replace("swizzle(2, 3) to", "fold(4, 4, 4) to").replace(
    "((t * 4 + j) ^ (((t * 4 + j) >> 2) & 3))", "(t * 4 + j)"
)
A: Final = np.random.default_rng(0).integers(0, 9, 32).astype(np.float32)
B: Final = np.random.default_rng(1).integers(0, 9, 40).astype(np.float32)


def wanted() -> np.ndarray:
    left, right = np.zeros((4, 20), np.float32), np.zeros((12, 20), np.float32)
    left[:, :8], right[:5, 3:11] = A.reshape(4, 8), B.reshape(5, 8)
    result = np.zeros((4, 4), np.float32)
    for g in range(4):
        for k in range(5):
            result[g] += right[g // 2 * 2 : g // 2 * 2 + 4, 2 * k : 2 * k + 4] @ left[g, 2 * k : 2 * k + 4]
    return result.reshape(-1)


def result_of(kernel: KernelFunction) -> np.ndarray:
    result = np.zeros(16, np.float32)
    run(kernel, [result, A, B], ALL_CHECKS)
    return result


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", [SUMS, FOLDED, ONE_PIECE, SUMS.replace("cluster(2)", "cluster(1)")])
def test_each_group_copies_a_part_for_all_of_its_cluster(text: str) -> None:
    kernel = parse_kernel(text)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    assert without_instructions(kernel, channels=False) is kernel
    for variant in (kernel, without_clusters(kernel), without_instructions(kernel), one_thread(kernel)):
        verify(variant)
        np.testing.assert_array_equal(result_of(variant), wanted())


def test_kernels_do_without_clusters() -> None:
    kernel = parse_kernel(SUMS)
    plain = without_clusters(kernel)
    assert plain.cluster == 1
    assert "cluster" not in to_text(plain)
    assert without_clusters(plain) is plain
    assert "cluster" not in to_text(without_instructions(kernel))
    bare = parse_kernel("kernel bare(out f32 O[4]) grid(4) cluster(2) { O[group_id(0)] = 1.0; barrier() of cluster; }")
    assert without_instructions(bare).cluster == 1
    result = np.zeros(4, np.float32)
    run(bare, [result], ALL_CHECKS)
    np.testing.assert_array_equal(result, np.ones(4))


def test_kernels_of_clusters_share_no_launch() -> None:
    kernel = parse_kernel(SUMS)
    assert beside(kernel, kernel, (None, None, None), 1 << 16) is None
    plain = without_clusters(kernel)
    assert beside(plain, plain, (None, None, None), 1 << 16) is not None


@pytest.mark.parametrize(("box", "fold", "part", "pieces"), [
    ("1, 4, 6", "", (1, 2, 6), (0, 0, 0)),
    ("4, 1, 6", "", (2, 1, 6), (0, 0, 0)),
    ("1, 1, 6", "", (1, 1, 3), (0, 0, 0)),
    ("1, 4, 8", "fold(2, 8, 4)", (1, 4, 4), (2, 4, 4)),
    ("1, 4, 6", "fold(2, 6, 4)", (1, 2, 6), (2, 6, 4)),
])  # fmt: skip
def test_boxes_are_cut_by_pieces_of_rows_or_by_rows(
    box: str, fold: str, part: tuple[int, ...], pieces: tuple[int, ...]
) -> None:
    text = f"bulk_copy ready[0] right[16] = B[0] box({box}) of(2, 4, 5) by(20, 5, 1) at(0, 1, g) {fold} to cluster;"
    kernel = parse_kernel(re.sub(r"bulk_copy ready\[0\] right.*", text, SUMS).replace("right[32]", "right[64]"))
    stmt = next(each for each in statements(kernel.body) if isinstance(each, BulkCopy) and each.scope is Scope.CLUSTER)
    found = part_of(stmt, kernel)
    assert found is not None
    assert (found.box, found.fold) == (part, pieces)


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("  barrier() of cluster;\n", "", "TIL555", "none leaves before"),
        ("  barrier() of cluster;\n", "  barrier();\n", "TIL555", "end the kernel with"),
        ("cluster(2)", "cluster(3)", "TIL551", "whole clusters along its first axis"),
        ("cluster(2)", "cluster(0)", "TIL551", "one group or more"),
        ("box(4, 4) of(5, 8)", "box(3, 4) of(5, 8)", "TIL551", "no equal parts for 2 groups"),
    ],
)
def test_what_the_verifier_refuses(old: str, new: str, code: str, said: str) -> None:
    assert old in SUMS
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(SUMS.replace(old, new)))
    assert [each.code for each in caught.value.diagnostics] == [code]
    assert said in caught.value.diagnostics[0].message


IN_ROLES: Final = (
    ROWS.replace("group(384)", "group(384) cluster(2)")
    .replace("at(g * 5 + n, 0)", "at(n, 0) to cluster")
    .replace("O[g * 128 + t] = back[127 - t]", "O[g * 128 + t] = back[127 - t] + cast<f32>(g)")[: -len("}\n")]
    + "  barrier() of cluster;\n}\n"
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        ("n < 5;", "n < 5 - g;", "the role of warps 0 to 3 of group 0 waits to receive"),
        ("k < 5;", "k < 5 - g;", "receive the last messages"),
    ],
)
def test_roles_of_groups_of_a_cluster(old: str, new: str, said: str) -> None:
    kernel, found = parse_kernel(IN_ROLES.replace(old, new) if old else IN_ROLES), np.zeros(256, np.float32)
    given = np.random.default_rng(2).integers(0, 9, 640).astype(np.float32)
    verify(kernel)
    assert parse_kernel(to_text(kernel)) == kernel
    if said:
        with pytest.raises(TileError, match=said):
            run(kernel, [found, given], ALL_CHECKS)
        return
    run(kernel, [found, given], ALL_CHECKS)
    sums = [sum(given[k * 64 + (t + k) % 64] for k in range(5)) for t in range(127, -1, -1)]
    np.testing.assert_array_equal(found, np.array([*sums, *(each + 1 for each in sums)], np.float32))


RELEASE: Final = "      channel release ready[0];\n"
ACQUIRE: Final = "      channel acquire ready[0];\n"
RECEIVE: Final = "      channel receive ready[0];\n"


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        (RECEIVE, "", "TIL558", "receive the message before"),
        (RELEASE, "", "TIL555", "group 0 waits to acquire the channel 'ready', and group 1 waits to"),
        (RELEASE, RELEASE.replace("channel", "if (g % 2 == 0) { channel").replace(";", "; }"), "TIL555", "to acquire"),
        ("if (k < 5) {", "if (k < 5 - g % 2) {", "TIL555", "group 0 waits to receive the channel"),
        ("  barrier() of", "  if (g > 0) { barrier() of cluster; }\n  barrier() of", "TIL555", "group 1 waits to meet"),
        ("i32 r = g / 2 * 2;", "i32 r = g;", "TIL555", "different boxes"),
        ("right[n * 16] =", "right[(n + g % 2) % 2 * 16] =", "TIL555", "different boxes"),
        ("i32 n = k % 2;", "i32 n = 0;", "TIL558", "receive the message before"),
        ("  O[g * 4 + t] = s[0];\n", "  O[g / 2 * 4 + t] = s[0];\n", "TIL558", "groups are unordered"),
    ],
)
def test_what_the_interpreter_finds(old: str, new: str, code: str, said: str) -> None:
    assert old in SUMS
    kernel = parse_kernel(SUMS.replace(old, new))
    with pytest.raises(TileError) as caught:
        result_of(kernel)
    assert [each.code for each in caught.value.diagnostics] == [code]
    assert said in caught.value.diagnostics[0].message


BEFORE: Final = """
kernel before(out f32 O[2], in f32 A[4]) grid(2) cluster(2) {
  local u64 ready[2] align(8);
  local f32 tile[4] align(8);
  tile[0] = 1.0;
  O[group_id(0)] = tile[0];
  barrier() of cluster;
  channel acquire ready[0];
  bulk_copy ready[0] tile[0] = A[0] box(4) of(4) by(1) at(0) to cluster;
  channel send ready[0];
  channel receive ready[0];
  O[group_id(0)] = O[group_id(0)] + tile[3];
  channel release ready[0];
  barrier() of cluster;
}
"""


def test_what_a_group_does_before_all_meet_is_done_when_others_write_there() -> None:
    result = np.zeros(2, np.float32)
    run(parse_kernel(BEFORE), [result, np.arange(4, dtype=np.float32)], ALL_CHECKS)
    np.testing.assert_array_equal(result, [4, 4])
    for less in ("barrier();", ""):
        kernel = parse_kernel(BEFORE.replace("barrier() of cluster;", less, 1))
        with pytest.raises(TileError) as caught:
            run(kernel, [result, np.arange(4, dtype=np.float32)], ALL_CHECKS)
        assert [each.code for each in caught.value.diagnostics] == ["TIL558"]
        assert "element 0 of 'tile'" in caught.value.diagnostics[0].message


PLACES: Final = (("swizzle(3, 7)", "e ^ ((e >> 3) & 7)"), ("fold(2, 8, 4)", "e % 8 / 2 * 8 + e / 8 * 2 + e % 2"))


@given(
    cluster=st.sampled_from((2, 4)),
    clusters=st.integers(1, 3),
    places=st.integers(1, 3),
    steps=st.integers(1, 7),
    moved=st.sampled_from(PLACES),
)
@examples(20)
def test_clusters_mean_what_groups_alone_do(
    cluster: int, clusters: int, places: int, steps: int, moved: tuple[str, str]
) -> None:
    fold, place = moved
    size = cluster * clusters * steps * 32
    text = f"""
kernel copies(out f32 O[{size}], in f32 A[100]) grid({cluster * clusters}) group(2) cluster({cluster}) {{
  i64 g = group_id(0);
  local u64 ready[{2 * places}] align(8);
  local f32 tile[{32 * places}] align(8);
  for (i64 k = 0; k < {steps}; k += 1) {{
    channel acquire ready[0];
    bulk_copy ready[0] tile[k % {places} * 32] = A[0] box(4, 8) of(10, 10) by(10, 1) at(g / {cluster} - 1, 2 * k - 1) {fold} to cluster;
    channel send ready[0];
    channel receive ready[0];
    for (i64 e = local_id(0); e < 32; e += 2) {{
      O[(g * {steps} + k) * 32 + e] = tile[k % {places} * 32 + ({place})];
    }}
    channel release ready[0];
  }}
  barrier() of cluster;
}}
"""  # noqa: E501
    kernel, source = parse_kernel(text), np.arange(100, dtype=np.float32)
    results = []
    for variant in (kernel, without_clusters(kernel), without_instructions(kernel)):
        results.append(np.zeros(size, np.float32))
        run(variant, [results[-1], source], ALL_CHECKS)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
