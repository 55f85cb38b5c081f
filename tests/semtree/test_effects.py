"""Reads, writes and assignments of statements, beside the interpreter's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.observed import observe
from strategies.semtree import kernel_cases
from tileir.semtree import ir
from tileir.semtree.analysis.effects import is_plain, meets, reads, sets, writes
from tileir.semtree.rewrite import bodies, statements
from tileir.semtree.text.parser import parse_kernel

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

    from strategies.observed import Touched

INSTRUCTIONS: Final = """
kernel product(inout f32 C[256], in f32 A[256], in f32 B[256], in i64 P[4], out f32 D[256], inout u32 F[1])
    grid(1) group(32) {
  local f32 left[256] align(64);
  local f32 right[256] align(1024);
  local u64 ready[2] align(64);
  private f32 sums[8] align(64);
  private bool seen[1] align(64);
  private u32 before[1] align(64);
  for (i64 i = local_id(0); i < 256; i += 32) {
    async left[i] = A[i];
    prefetch A[P[i % 4] + 300];
  }
  async_commit();
  turn take 32;
  for (i64 e = 0; e < 8; e += 1) {
    sums[e] = 0.0;
  }
  f32 kept = 0.0;
  async_wait(0);
  barrier();
  channel acquire ready[0];
  bulk_copy ready[0] right[0] = B[0] box(16, 16) of(16, 16) by(16, 1) at(P[2], 0);
  channel send ready[0];
  channel receive ready[0];
  multiply(mma_m16n8k8_f32) tile(16, 16, 16) sums[0] += left[P[0]] strides(16, 1) * right[0] strides(16, 1);
  channel release ready[0];
  bulk_wait(0);
  bulk_store D[0] = left[0] box(8, 32) of(8, 32) by(32, 1) at(P[2], 0);
  exchange(4) sums[1] = sums[0];
  vote any seen[0] = sums[1] > kept;
  arrive before[0] = F[0];
  await F[0] until u32(1);
  update max C[2] by sums[1];
  masked(P[0], 3) sums[0 : 4] = A[0 : 4];
  kept = kept + sums[1];
  if (kept < 1.0) {
    C[P[1]] = kept;
  }
}
"""


def check(touched: list[Touched]) -> None:
    """A loop or condition has the effects of its own expressions; what is deferred is written where it is awaited."""
    deferred = {place.array for each in touched for place in writes(each.stmt) if isinstance(each.stmt, ir.Deferred)}
    for each in touched:
        stmt = each.stmt
        assert each.reads <= {place.array for place in reads(stmt)}, stmt
        if isinstance(stmt, ir.AsyncWait):
            assert each.writes <= deferred, stmt
        else:
            assert each.writes <= {place.array for place in writes(stmt)}, stmt
        if not bodies(stmt):
            assert each.sets <= set(sets(stmt)), stmt


@pytest.mark.parametrize("threads", [False, True])
@given(data=st.data())
@examples(200)
def test_nothing_else_is_touched(data: DataObject, threads: bool) -> None:
    case = data.draw(kernel_cases(threads=threads))
    check(observe(case.kernel, case.arrays()))


def test_each_kind_touches_what_it_says() -> None:
    kernel = parse_kernel(INSTRUCTIONS)
    found = observe(kernel, [np.zeros(param.size, param.dtype.numpy) for param in kernel.params])
    check(found)
    ran = [each for each in found if each.reads or each.writes or each.sets]
    assert {type(each.stmt) for each in ran} >= {ir.Declare, ir.Assign, ir.AsyncCopy, ir.MatrixMultiply, ir.AsyncWait}
    for each in ran:
        if not isinstance(each.stmt, ir.AsyncWait):
            assert each.reads == {place.array for place in reads(each.stmt)}
            assert each.writes == {place.array for place in writes(each.stmt)}


def test_kinds_of_statements() -> None:
    kernel = parse_kernel(INSTRUCTIONS)
    found = {type(stmt): stmt for stmt in statements(kernel.body)}
    found[ir.WarpRole] = ir.WarpRole(0, 1, kernel.body)  # no kernel has both roles and turns
    assert found.keys() == set(get_args(ir.Stmt))
    assert {kind for kind, stmt in found.items() if meets(stmt)} == {
        ir.Barrier,
        ir.MatrixMultiply,
        ir.Exchange,
        ir.Vote,
        ir.Arrive,
        ir.Await,
        ir.Channel,
        ir.BulkCopy,
        ir.BulkStore,
        ir.BulkWait,
        ir.Turn,
    }
    assert {kind for kind, stmt in found.items() if not is_plain(stmt)} == {
        ir.Barrier,
        ir.MatrixMultiply,
        ir.Exchange,
        ir.Vote,
        ir.Arrive,
        ir.Await,
        ir.Channel,
        ir.BulkCopy,
        ir.BulkStore,
        ir.BulkWait,
        ir.AsyncCopy,
        ir.Turn,
    }
    assert all(not writes(stmt) and not sets(stmt) for stmt in found.values() if isinstance(stmt, ir.Hint))
