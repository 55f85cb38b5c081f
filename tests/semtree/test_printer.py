"""The text of kernels: stable, readable, and never ambiguous."""

from __future__ import annotations

import math

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import COMPUTING, Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    Barrier,
    Bitcast,
    Broadcast,
    Cast,
    Const,
    Declare,
    DeclareArray,
    For,
    GridIndex,
    GridLevel,
    If,
    KernelFunction,
    LoopKind,
    Param,
    ParamAccess,
    Ramp,
    Reduce,
    Region,
    Subscript,
    Type,
    Var,
)
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import expr_text, to_text
from tileir.semtree.text.syntax import CALLS, OPERATORS, PREFIX

I64 = Type(DType.I64)
F32 = Type(DType.F32)
F32X16 = Type(DType.F32, 16)

MATMUL = """\
// C[i, j] = +(A[i, k] * B[k, j]);
kernel matmul(
    in f32 A[16384] align(64) noalias,
    in f32 B[16384],
    out f32 C[16384] align(64) noalias
) grid(8, 4) group(2) index(i32) operations(123) {
  private f32 acc[64] align(64);
  local f32 tile[2] align(64);
  i32 row = group_id(0) * 16 + local_id(0);
  for (i32 k = 0; k < 512; k += 1) unroll {
    f32x16 x = fma(broadcast<16>(A[row + k]), B[k * 16 : 16], acc[0 : 16]);
    acc[ramp<16>(0, 2)] = x;
  }
  barrier();
  if (row < 4 & k_is_even) {
    C[row] = reduce<add>(acc[0 : 16]) - (1.0 - cast<f32>(row)) * -0.5;
  } else {
    C[row] = bitcast<f32>(cast<u32>(row)) > f32(inf) ? -(1.0) : f32(nan);
  }
}
"""


def matmul() -> KernelFunction:
    i32 = Type(DType.I32)
    row, k, x = Var("row", i32), Var("k", i32), Var("x", F32X16)

    def integer(value: int) -> Const:
        return Const(value, i32)

    def real(value: float) -> Const:
        return Const(value, F32)

    row_value = Apply(
        Op.ADD, (Apply(Op.MUL, (GridIndex(GridLevel.GROUP, 0, i32), integer(16))), GridIndex(GridLevel.LOCAL, 0, i32))
    )
    acc = Subscript("acc", integer(0), F32X16)
    a = Broadcast(Subscript("A", Apply(Op.ADD, (row, k)), F32), 16)
    b = Subscript("B", Apply(Op.MUL, (k, integer(16))), F32X16)
    body = (
        Declare(x, Apply(Op.FMA, (a, b, acc))),
        Assign(Subscript("acc", Ramp(integer(0), 2, 16), F32X16), x),
    )
    target = Subscript("C", row, F32)
    rest = Apply(Op.MUL, (Apply(Op.SUB, (real(1.0), Cast(row, F32))), real(-0.5)))
    then = Assign(target, Apply(Op.SUB, (Reduce(Op.ADD, acc), rest)))
    test = Apply(Op.CMP_GT, (Bitcast(Cast(row, Type(DType.U32)), F32), real(math.inf)))
    otherwise = Assign(target, Apply(Op.COND, (test, Apply(Op.NEG, (real(1.0),)), real(math.nan))))
    condition = Apply(Op.BIT_AND, (Apply(Op.CMP_LT, (row, integer(4))), Var("k_is_even", Type(DType.BOOL))))
    return KernelFunction(
        "matmul",
        (
            Param("A", DType.F32, 16384, ParamAccess.READ, 64),
            Param("B", DType.F32, 16384, ParamAccess.READ, no_alias=False),
            Param("C", DType.F32, 16384, ParamAccess.WRITE, 64),
        ),
        (
            DeclareArray("acc", DType.F32, 64),
            DeclareArray("tile", DType.F32, 2, Region.LOCAL),
            Declare(row, row_value),
            For(k, integer(0), integer(512), 1, body, LoopKind.UNROLL),
            Barrier(),
            If(condition, (then,), (otherwise,)),
        ),
        (8, 4),
        (2,),
        DType.I32,
        123,
        ("C[i, j] = +(A[i, k] * B[k, j]);",),
    )


def test_whole_kernel() -> None:
    assert to_text(matmul()) == MATMUL


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (3, DType.I64, "3"),
        (-3, DType.I64, "-3"),
        (3, DType.I32, "i32(3)"),
        (True, DType.BOOL, "true"),
        (0.5, DType.F32, "0.5"),
        (-0.0, DType.F32, "-0.0"),
        (float.fromhex("0x1.99999ap-4"), DType.F32, "0.1"),
        (1e30, DType.F64, "f64(1e+30)"),
        (0.1, DType.F64, "f64(0.1)"),
        (1.0, DType.BF16, "bf16(1.0)"),
        (2.0**-24, DType.F16, "f16(6e-08)"),
        (math.inf, DType.F32, "f32(inf)"),
        (-math.inf, DType.F32, "f32(-inf)"),
        (math.nan, DType.F64, "f64(nan)"),
    ],
)
def test_constants(value: float, dtype: DType, expected: str) -> None:
    assert expr_text(Const(value, Type(dtype))) == expected


def test_vector_constants_name_their_type() -> None:
    assert expr_text(Const(0.5, F32X16)) == "f32x16(0.5)"
    assert expr_text(Const(False, Type(DType.BOOL, 2))) == "boolx2(false)"
    assert expr_text(Const(1, Type(DType.I64, 2))) == "i64x2(1)"


def test_every_operation_is_spelt_once() -> None:
    spelt = [*OPERATORS.known, *PREFIX, *CALLS.values(), Op.COND]
    assert sorted(op.value for op in spelt) == sorted(op.value for op in COMPUTING)


@pytest.mark.sampled(92)
@pytest.mark.parametrize("inner", [*OPERATORS.known, *PREFIX, Op.COND, Op.MAX])
@pytest.mark.parametrize("outer", [*OPERATORS.known, *PREFIX, Op.COND, Op.MAX])
def test_nested_operations_parse_back(outer: Op, inner: Op) -> None:
    kind = Type(DType.BOOL) if Op.COND in (outer, inner) or outer.info.compares or inner.info.compares else I64
    names = ("a", "b", "c")
    leaves = tuple(Var(name, kind) for name in names)
    for position in range(outer.info.arity):
        args = list(leaves[: outer.info.arity])
        args[position] = Apply(inner, leaves[: inner.info.arity])  # type: ignore[call-overload]
        value = Apply(outer, tuple(args))
        bool_only = (Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MOD, Op.NEG, Op.BIT_LEFT, Op.BIT_RIGHT)
        if kind.dtype.is_bool and (outer in bool_only or inner in bool_only):
            continue
        declared = tuple(Declare(leaf, Subscript("A", Const(0, I64), kind)) for leaf in leaves)
        result = Declare(Var("r", value.type), value)
        kernel = KernelFunction("k", (Param("A", kind.dtype, 1, ParamAccess.READ),), (*declared, result))
        assert parse_kernel(to_text(kernel)) == kernel


@pytest.mark.parametrize("name", ["for", "f32", "f32x16", "in", "a b", "é", "a.b", "1x", "$", "nan", "exp"])
def test_any_printable_name_parses_back(name: str) -> None:
    array = Param(name, DType.F32, 1, ParamAccess.READ_WRITE)
    element = Subscript(name, Const(0, I64), F32)
    kernel = KernelFunction(name, (array,), (Assign(element, element),))
    assert parse_kernel(to_text(kernel)) == kernel
