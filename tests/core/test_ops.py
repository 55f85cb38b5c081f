"""The table of operations is total."""

from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.numbers.arithmetic import apply, constant
from tileir.core.ops import OPS, Aggregation, Combination, Domain, Op
from tileir.core.targets.target import Target


def test_every_operation_has_a_row() -> None:
    assert set(OPS) == set(Op)
    assert all(op.info is OPS[op] for op in Op)


def test_only_copies_cost_nothing() -> None:
    assert [op for op in Op if min(op.info.weight) < 1] == [Op.IDENT]
    assert all(in_f32 <= in_f64 for in_f32, in_f64 in (op.info.weight for op in Op))
    assert [Op.ERF.info.weight_in(dtype) for dtype in (DType.F16, DType.F32, DType.F64)] == [40, 40, 65]


@pytest.mark.parametrize("op", [op for op in Op if op.info.commutes])
def test_what_commutes_does(op: Op) -> None:
    dtypes = [DType.I32] if op.info.domain is Domain.BITS else [DType.I32, DType.F32]
    for dtype in dtypes:
        for left in (-3, 0, 2, 7):
            for right in (-3, 0, 2, 7):
                one, other = constant(left, dtype), constant(right, dtype)
                assert apply(op, one, other) == apply(op, other, one)


def test_only_comparisons_give_bool() -> None:
    assert {op.value for op in Op if op.info.compares} == {op.value for op in Op if op.value.startswith("cmp_")}


def test_aggregations_name_their_operation() -> None:
    assert {a: a.op for a in Aggregation if a.op is not None} == {
        a: Op(a.value) for a in Aggregation if a is not Aggregation.ASSIGN
    }
    assert [combination.arity for combination in Combination] == [1, 2, 2, 2, 3]


def test_lanes_of_a_target() -> None:
    target = Target(vector_bytes=32)
    assert [target.lanes(dtype) for dtype in (DType.I8, DType.F32, DType.F64, DType.BOOL)] == [32, 8, 4, 32]
    assert Target(vector_bytes=4).lanes(DType.F64) == 1
