"""The base of languages like C: where brackets stand, what constants are, and what tables of a dialect change."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.core.text.names import NameScope
from tileir.semtree.analysis.ranges import Ranges
from tileir.semtree.ir import Apply, Barrier, Broadcast, Const, Expr, KernelFunction, LoopKind, Shuffle, Type, Var
from tileir.semtree.rewrite import kernel_names
from tileir.semtree.text.parser import parse_kernel
from tileir_emit.c_like import LOOSE, PRODUCT, SUM, UNARY, CLike, Helpers, Infix, Value, comment, scalar_c

I32 = Type(DType.I32)


def written(body: str, writer: type[CLike] = CLike, *, ranges: bool = False) -> list[str]:
    """Return the lines of the body of a kernel over arrays ``O`` and ``A`` of i32."""
    params = "out i32 O[64] align(64) noalias, in i32 A[64] align(64) noalias"
    kernel = parse_kernel(f"kernel k({params}) grid(4, 2) index(i64) {{ {body} }}")
    names = {name: name for name in kernel_names(kernel)}
    found = writer(kernel, names, NameScope.of(names), ranges=Ranges.of(kernel) if ranges else None)
    found.write(kernel.body)
    return found.out.text().splitlines()


def spelt(expr: Expr, writer: type[CLike] = CLike) -> str:
    return writer(KernelFunction("k", (), ()), {name: name for name in "abc"}).value(expr).text


a, b, c = (Var(name, I32) for name in "abc")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Apply(Op.ADD, (Apply(Op.SUB, (a, b)), Apply(Op.MUL, (b, c)))), "a - b + b * c"),
        (Apply(Op.SUB, (a, Apply(Op.SUB, (b, c)))), "a - (b - c)"),
        (Apply(Op.MUL, (a, Apply(Op.MUL, (b, c)))), "a * (b * c)"),
        (Apply(Op.ADD, (Apply(Op.DIV, (a, b)), c)), "(a / b) + c"),
        (Apply(Op.BIT_AND, (Apply(Op.BIT_OR, (a, b)), c)), "(a | b) & c"),
        (Apply(Op.NEG, (Apply(Op.NEG, (a,)),)), "-(-a)"),
        (Apply(Op.NEG, (Const(-1, I32),)), "-(-1)"),
        (Apply(Op.COND, (Apply(Op.CMP_LT, (a, b)), a, Apply(Op.ADD, (b, c)))), "(a < b) ? a : (b + c)"),
    ],
)
def test_brackets_stand_where_operators_bind_less_tightly(expr: Expr, text: str) -> None:
    assert spelt(expr) == text


def test_a_dialect_says_how_its_operators_bind() -> None:
    class Plain(CLike):
        INFIX = MappingProxyType({**CLike.INFIX, Op.DIV: Infix("div", PRODUCT, PRODUCT, UNARY)})

    assert spelt(Apply(Op.ADD, (Apply(Op.DIV, (Apply(Op.DIV, (a, b)), c)), c)), Plain) == "a div b div c + c"
    assert CLike.INFIX[Op.ADD] == Infix("+", SUM, SUM, PRODUCT)
    assert Value("a ? b : c", I32, LOOSE).at(SUM) == "(a ? b : c)"


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (True, DType.BOOL, "true"),
        (7, DType.I8, "7"),
        (7, DType.U32, "7u"),
        (-(2**31), DType.I32, "INT32_MIN"),
        (-(2**63), DType.I64, "INT64_MIN"),
        (2**64 - 1, DType.U64, "UINT64_C(18446744073709551615)"),
        (1.5, DType.F16, "0x3e00"),
        (3.0, DType.F32, "3.0f"),
        (0.1, DType.F64, "0.1"),
        (float("-inf"), DType.F64, "-(double)INFINITY"),
        (float("nan"), DType.F32, "NAN"),
    ],
)
def test_constants(value: bool | int | float, dtype: DType, text: str) -> None:
    assert CLike.literal(value, dtype) == text


def test_bounds_of_loops_stay_as_they_were_at_first() -> None:
    lines = written("i64 n = cast<i64>(A[0]); for (i64 i = 0; i < n; i += 1) { n = 3; } O[0] = i32(1);")
    assert lines[:3] == [
        "int64_t n = (int64_t)A[0];",
        "const int64_t i_end = n;",
        "for (int64_t i = 0; i < i_end; ++i) {",
    ]


def test_counters_do_not_wrap() -> None:
    (loop, *_) = written("for (i64 i = 0; i < cast<i64>(A[0]); i += 3) { O[i] = i32(1); }")[1:]
    assert loop.endswith("i = (uint64_t)(i_end) - (uint64_t)i > INT64_C(3) ? (int64_t)(i + INT64_C(3)) : i_end) {")
    assert written("for (i64 i = 0; i < 9; i += 3) { O[i] = i32(1); }")[0].endswith("; i += 3) {")


def test_groups_are_numbered_axis_0_fastest() -> None:
    assert written("O[group_id(1)] = cast<i32>(group_id(0));") == [
        "O[(int64_t)(group / 4 % 2)] = (int32_t)(int64_t)(group / 1 % 4);"
    ]


def test_a_dialect_says_where_braces_stand_and_what_loops_are_told() -> None:
    class Below(CLike):
        OPENING = ""
        CONST = ""
        HINTS = MappingProxyType({LoopKind.UNROLL: "#pragma unroll"})

    lines = written("for (i64 i = 0; i < 2; i += 1) unroll { i32 x = A[i]; O[i] = x; }", Below)
    assert lines[:4] == ["#pragma unroll", "for (int64_t i = 0; i < 2; ++i)", "{", "  int32_t x = A[i];"]


def test_what_has_one_value_is_a_constant_where_ranges_are_known() -> None:
    body = "i64 n = 2; O[n * 3] = i32(1);"
    assert written(body)[-1] == "O[n * INT64_C(3)] = 1;"
    assert written(body, ranges=True)[-1] == "O[6] = 1;"


def test_what_a_language_lacks_is_no_text() -> None:
    writer = CLike(KernelFunction("k", (), ()), {"a": "a"})
    for expr in (Broadcast(a, 4), Shuffle((a, a), (0, 1)), Const(1, Type(DType.I32, 4))):
        with pytest.raises(TypeError, match="in this language"):
            writer.value(expr)
    with pytest.raises(TypeError, match="there is no Barrier"):
        writer.statement(Barrier())
    assert writer.value(Broadcast(a, 1)).text == "a"


def test_any_kernel_becomes_one_that_can_be_written() -> None:
    kernel = parse_kernel(
        "kernel k(out f16 O[32] align(64) noalias, in f16 A[32] align(64) noalias) grid(2) group(4) index(i32) {"
        "  local f16 L[4] align(64); L[local_id(0)] = exp(A[local_id(0)]); barrier();"
        "  O[group_id(0) * 16 : 16] = broadcast<16>(reduce<max>(L[0 : 4])); }"
    )
    legal = scalar_c(kernel)
    writer = CLike(legal, {name: f"v{n}" for n, name in enumerate(kernel_names(legal))})
    writer.write(legal.body)
    assert legal.group == (1,)
    assert "tile" not in writer.out.text()


def test_helpers_stand_in_the_order_of_their_use() -> None:
    helpers = Helpers()
    for name in ("one", "two", "one"):
        assert helpers.use(name, f"text of {name}".__str__) == name
    assert helpers.texts == ("text of one", "text of two")


def test_comments_cannot_become_code() -> None:
    assert comment("a\nb \\\nü ??/") == "// a\n// b \\ .\n// \\xfc ??/ .\n"
