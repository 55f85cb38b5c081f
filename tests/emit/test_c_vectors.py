"""The base of languages like C with vectors: masks, lanes, scalars beside vectors, and the tables of a dialect."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import (
    Apply,
    Assign,
    Broadcast,
    Cast,
    Const,
    Expr,
    KernelFunction,
    Ramp,
    Shuffle,
    Subscript,
    Type,
    Var,
)
from tileir_emit.c_like import Value
from tileir_emit.c_vectors import CVectors, Place

I16, I32, I32X4, F64X4 = Type(DType.I16), Type(DType.I32), Type(DType.I32, 4), Type(DType.F64, 4)
s, t = Var("s", I32), Var("t", I16)
v, w, x = Var("v", I32X4), Var("w", I32X4), Var("x", F64X4)
BELOW = Apply(Op.CMP_LT, (v, w))


class C(CVectors):
    """Types with names of their own."""

    TYPES = MappingProxyType({**CVectors.TYPES, DType.I16: "short", DType.I32: "int"})


class Metal(C):
    """A dialect by its tables alone."""

    PARTS = "{type}({parts})"
    LANES = "lanes<{lanes}>({vector})"
    HALVES = ("low({vector})", "high({vector})")
    CONVERT = "to<{type}>"
    SELECT = "pick"


def spelt(expr: Expr, writer: type[CVectors] = C) -> str:
    return writer(KernelFunction("k", (), ()), {name: name for name in "stvwx"}).value(expr).text


def chosen(then: Expr, otherwise: Expr) -> Expr:
    return Apply(Op.COND, (BELOW, then, otherwise))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Apply(Op.ADD, (v, Broadcast(s, 4))), "v + s"),
        (Apply(Op.BIT_LEFT, (Broadcast(s, 4), v)), "(int4)(s) << v"),
        (Apply(Op.ADD, (Broadcast(s, 4), Broadcast(s, 4))), "(int4)(s) + (int4)(s)"),
        (Apply(Op.MUL, (v, Const(1, I32X4))), "v"),
        (Apply(Op.ADD, (t, t)), "(short)(t + t)"),
        (Ramp(s, 2, 4), "s + (int4)(0, 2, 4, 6)"),
        (Ramp(Const(0, I32), 1, 2), "(int2)(0, 1)"),
        (Shuffle((v,), (2, 3)), "v.hi"),
        (Shuffle((v,), (0, 2)), "v.s02"),
        (Shuffle((v,), (3,)), "v.s3"),
        (Shuffle((v, w), (3, 4)), "(int2)(v.s3, w.s0)"),
        (chosen(v, w), "select(w, v, v < w)"),
        (chosen(x, x), "select(x, x, convert_long4(v < w))"),
        (Apply(Op.BIT_AND, (BELOW, Apply(Op.CMP_EQ, (x, x)))), "(v < w) & convert_int4(x == x)"),
        (Apply(Op.BIT_NOT, (BELOW,)), "~(v < w)"),
        (Broadcast(Apply(Op.CMP_LT, (s, Const(3, I32))), 2), "(char2)((s < 3) ? -1 : 0)"),
        (Apply(Op.BIT_AND, (BELOW, Const(True, Type(DType.BOOL, 4)))), "v < w"),
    ],
)
def test_vectors(expr: Expr, text: str) -> None:
    assert spelt(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Ramp(s, 2, 4), "s + int4(0, 2, 4, 6)"),
        (Shuffle((v,), (2, 3)), "high(v)"),
        (Shuffle((v, w), (3, 4)), "int2(lanes<3>(v), lanes<0>(w))"),
        (chosen(x, x), "pick(x, x, to<long4>(v < w))"),
    ],
)
def test_a_dialect_is_tables(expr: Expr, text: str) -> None:
    assert spelt(expr, Metal) == text


def test_masks_are_declared_with_lanes_of_8_bits() -> None:
    mask = Type(DType.BOOL, 4)
    assert C.type(mask) == "char4"
    assert C.canonical(Value("v < w", mask, mask=32)).text == "convert_char4(v < w)"
    assert C.lane(Value("m", mask), 2).text == "(m.s2 != 0)"
    assert C.lane(Value("v", Type(DType.I32, 16)), 10).text == "v.sa"


def test_what_the_base_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match="legalise"):
        C(KernelFunction("k", (), ()), {}).vector(Cast(s, I32))


@pytest.mark.parametrize(
    ("offset", "dtype", "read", "written"),
    [
        (Const(8, I32), DType.I32, "*(device int4 *)(a + 8)", "*(device int4 *)(a + 8) = {};"),
        (Const(2, I32), DType.I32, "load4(a + 2)", "store4({}, a + 2);"),
        (s, DType.I32, "load4(a + s)", "store4({}, a + s);"),
        (Ramp(s, 1, 4), DType.I32, "load4(a + s)", "store4({}, a + s);"),
        (Const(0, I32), DType.BOOL, "*(device uint8_t4 *)a != 0", "*(device uint8_t4 *)a = (uint8_t4)-{};"),
        (
            Ramp(Const(0, I32), 2, 4),
            DType.I32,
            "int4(a[0], a[2], a[4], a[6])",
            "a[0] = lanes<0>({0}); a[2] = lanes<1>({0}); a[4] = lanes<2>({0}); a[6] = lanes<3>({0});",
        ),
        (v, DType.I32, "int4(a[lanes<0>(v)], a[lanes<1>(v)], a[lanes<2>(v)], a[lanes<3>(v)])", None),
    ],
)
def test_memory(offset: Expr, dtype: DType, read: str, written: str | None) -> None:
    class Device(Metal):
        LOAD = "load{lanes}({pointer})"
        STORE = "store{lanes}({value}, {pointer})"

    def writer() -> Device:
        kernel = KernelFunction("k", (), ())
        arrays = {"A": Place("a", "device ", dtype, 16)}
        return Device(kernel, {name: name for name in "stvwx"}, ranges=Ranges.of(kernel), arrays=arrays)

    place, value = Subscript("A", offset, Type(dtype, 4)), Var("w", Type(dtype, 4))
    assert writer().value(place).text == read
    if written is not None:
        found = writer()
        found.statement(Assign(place, value))
        assert found.out.text().replace("\n", " ").strip() == written.format("w")
