from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from strategies.devices import compiler, launch
from tileir.semtree.interpret import interpreter
from tileir.semtree.ir import Barrier, GridIndex, GridLevel
from tileir.semtree.rewrite import expressions, statements, walk
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.transform.threads import one_thread

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction

TREE_SUM = """
kernel tree_sum(in i32 A[192], out i32 B[3]) grid(3) group(8, 8) {
  local i32 part[64] align(64);
  private i32 own[2] align(64);
  i64 me = local_id(1) * 8 + local_id(0);
  i32x2 twice = broadcast<2>(A[group_id(0) * 64 + me]);
  own[0 : 2] = twice;
  part[me] = own[0];
  barrier();
  for (i64 step = 0; step < 6; step += 1) {
    i64 width = i64(32) >> step;
    i32 other = i32(0);
    if (me < width) {
      other = part[me + width];
    }
    barrier();
    if (me < width) {
      part[me] = part[me] + other;
    }
    if (width > 0) {
      barrier();
    } else {
      barrier();
    }
  }
  if (me == 0) {
    B[group_id(0)] = part[0] + own[1] - own[0];
  }
}
"""


@pytest.fixture
def tree_sum() -> KernelFunction:
    return parse_kernel(TREE_SUM)


def test_a_tree_sum_over_local_memory(tree_sum: KernelFunction) -> None:
    values = np.random.default_rng(0).integers(-1000, 1000, 192).astype(np.int32)
    expected, actual = np.zeros(3, np.int32), np.zeros(3, np.int32)
    interpreter.run(tree_sum, [values, expected])
    launch(tree_sum, [values, actual])
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(actual, values.reshape(3, 64).sum(1))


def test_one_thread_has_no_barriers_and_no_coordinates(tree_sum: KernelFunction) -> None:
    single = one_thread(tree_sum)
    assert single.group == (1,)
    for stmt in statements(single.body):
        assert not isinstance(stmt, Barrier)
        for expr in expressions(stmt):
            for node in walk(expr):
                assert not (isinstance(node, GridIndex) and node.level is GridLevel.LOCAL)
    assert one_thread(single) is single


def test_a_thread_that_is_alone_meets_nobody_at_barriers() -> None:
    kernel = parse_kernel("kernel k(out i32 A[4]) { for (i64 i = 0; i < 4; i += 1) { A[i] = i32(1); barrier(); } }")
    single = one_thread(kernel)
    assert not any(isinstance(stmt, Barrier) for stmt in statements(single.body))
    values = np.zeros(4, np.int32)
    launch(kernel, [values])
    np.testing.assert_array_equal(values, 1)


def test_the_result_is_a_legal_kernel(tree_sum: KernelFunction) -> None:
    values = np.arange(192, dtype=np.int32)
    result = np.zeros(3, np.int32)
    interpreter.run(one_thread(tree_sum), [values, result])
    np.testing.assert_array_equal(result, values.reshape(3, 64).sum(1))


def test_copies_for_each_thread_count_as_scratch(tree_sum: KernelFunction) -> None:
    large = parse_kernel(
        "kernel k(out f32 B[8]) grid(1) group(8) {"
        "  private f32 own[8192] align(64);"
        "  own[0] = 1.0; barrier(); B[local_id(0)] = own[0];"
        "}"
    )
    library = compiler().build([tree_sum, large])
    assert [each.scratch_bytes for each in library.needs] == [256, 8 * 8192 * 4]
    result = np.zeros(8, np.float32)
    launch(large, [result])
    assert result.all()
