"""Sizes and dtypes that signatures declare: text, JSON, builder, calls of functions, verifier."""

from __future__ import annotations

import pytest

import tileir
from strategies.tile_parts import Parts
from tileir.core.dtype import DType
from tileir.core.errors import TileError, VerifyError
from tileir.core.json.codec import content_hash, from_json, to_json
from tileir.tile import builder_functions as tf
from tileir.tile.builder import FunctionBuilder
from tileir.tile.ir import Function, Input, IntLiteral, Name, Output
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.tensor_type import TensorType

TYPED = """\
function (A: f32[N, 3], B[N], S: f32, I: i64[], X[1, 2]) -> (C: f32[N], D: bf16, E[3 * N, 2]) {
  C[i : N] = +(A[i, j] * B[i]);
  D = as_bf16(X * S) + as_bf16(I);
  E[i, j : 3 * N, 2] = +(B[i - j]);
}
"""


def test_signatures_read_back() -> None:
    function = parse(TYPED)
    assert function.inputs == (
        Input("A", (Name("N"), IntLiteral(3)), DType.F32),
        Input("B", (Name("N"),)),
        Input("S", None, DType.F32),
        Input("I", (), DType.I64),
        Input("X", (IntLiteral(1), IntLiteral(2))),
    )
    assert function.outputs[:2] == (Output("C", (Name("N"),), DType.F32), Output("D", None, DType.BF16))
    assert to_text(function) == TYPED
    assert from_json(to_json(function), Function) == function
    assert tileir.parse(to_json(function).decode()) == function


def test_a_text_without_types_is_as_it_was() -> None:
    plain = "function (A[N], B) -> (C) {\n  C = A + B;\n}\n"
    function = parse(plain)
    assert to_text(function) == plain
    for word in (b"dtype", b'"dims":null,"name":"C"'):
        assert word not in to_json(function)


def test_declarations_tell_functions_apart() -> None:
    plain, typed = (parse(f"function (A{kind}) -> (C) {{ C = A; }}") for kind in ("", ": f32"))
    assert plain != typed
    assert content_hash(plain) != content_hash(typed)


def test_texts_of_fixed_types_are_not_taken_for_typed_ones() -> None:
    text = "function (A: f32[4, 16], B: i8[]) -> (C: f32[4, 16]) {\n  [[pid(main)]] C = A + B;\n}\n"
    assert isinstance(tileir.parse(text, stage="any"), Function)
    typed = tileir.to_text(infer(parse(text), {"A": TensorType("f32", (4, 16)), "B": TensorType("i8", ())}))
    assert tileir.to_text(tileir.parse(typed, stage="any")) == typed


def test_the_builder_declares_sizes_and_dtypes() -> None:
    f = FunctionBuilder()
    x = f.input("X", 1, 3, "H", "W", dtype="f32")
    s = f.scalar("S", DType.F16)
    n, c, h, w = x.dims
    assert (n.value, c.value, h.value) == (1, 3, None)
    y = f.tensor("Y", n, c * 2, h, w)
    i, j, k, m = f.indices("i j k m")
    y[i, j, k, m] += x[i, j, k, m]
    f.result(y, 1, 6, h, w, dtype="f32")
    z = f.result(y * s, dtype=DType.F32)
    function = f.build(y, Z=z)
    assert to_text(function) == (
        "function (X: f32[1, 3, H, W], S: f16[]) -> (Y: f32[1, 6, H, W], Z: f32) {\n"
        "  Y[i, j, k, m : 1, 6, H, W] = +(X[i, j, k, m]);\n"
        "  Z = Y * S;\n"
        "}\n"
    )
    assert parse(to_text(function)) == function


def test_fixed_sizes_stay_numbers_while_building() -> None:
    f = FunctionBuilder()
    x, y, z = f.input("X", 1, 3, "H"), f.input("Y", "N", "M", 1), f.input("Z", 4, 3, 1)
    assert [dim.value for dim in (x + z).dims] == [4, 3, None]
    assert [dim.value for dim in (y + z).dims] == [4, 3, 1]
    assert (x.dims[1] * 2 + 1).value == 7
    assert (x + y).dims[1].value == 3


def test_dimensions_of_other_inputs_may_be_numbers() -> None:
    f = FunctionBuilder()
    x = f.input("X", 3)
    y = f.input("Y", x.dims[0], "N")
    assert f.build(O=x + y).inputs[1] == Input("Y", (IntLiteral(3), Name("N")))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("function (A[2, 3]) -> (C[3]) { C = A; }", ["TIL209"]),
        ("function (A[N]) -> (C[A]) { C = A; }", ["TIL204"]),
        ("function (A[N]) -> (C[exp(N)]) { C = A; }", ["TIL204"]),
        ("function (A[N]) -> (C[K]) { K = 2 * N; C[i : K] = +(A[i]); }", []),
        ("function (A[N], K: i32[]) -> (C[K]) { C[i : K] = +(A[i]); }", []),
        ("function (A[4]) -> (C) { C[i : 2] = +(A[i, 1]); }", ["TIL209"]),
        ("function (A) -> (C) { constant K[2, M] = f32[2, 1](1, 2); C = A * K * M; }", []),
        ("function (A) -> (C) { constant K[3, M] = f32[2, 1](1, 2); C = A * K * M; }", ["TIL304"]),
    ],
)
def test_rules(text: str, codes: list[str]) -> None:
    if codes:
        with pytest.raises(VerifyError) as caught:
            parse(text)
        assert [fault.code for fault in caught.value.diagnostics] == codes
    else:
        assert parse(to_text(parse(text))) == parse(text)


def test_sizes_of_results_are_read() -> None:
    function = parse("function (A[N], B[K]) -> (C[K]) { C[i : 2] = +(A[i]); }")
    assert [warning.code for warning in function.warnings] == []


def test_calls_check_what_is_declared() -> None:
    inner = parse("function (A: f32[N, 3], S: f32) -> (C: f32[N]) { C[i : N] = +(A[i, j]); }")
    f = FunctionBuilder()
    x, y = f.input("X", "M", 3), f.input("Y", "M", "K")
    assert to_text(f.build(O=inner(x, 2), P=inner(y, 2.5))) == (
        "function (X[M, 3], Y[M, K]) -> (O, P) {\n"
        "  T = expect_f32(X);\n"
        "  C[i : M] = +(T[i, j]);\n"
        "  O = expect_f32(C);\n"
        "  T_0 = expect_sizes(expect_f32(Y), M, 3);\n"
        "  C_0[i : M] = +(T_0[i, j]);\n"
        "  P = expect_f32(C_0);\n"
        "}\n"
    )


def test_calls_refuse_other_sizes_at_once() -> None:
    inner = parse("function (A[N, 3]) -> (C) { C = A; }")
    p = Parts()
    with pytest.raises(TileError, match="axis 1 of 'A' is declared as 3, but is 4 here") as caught:
        inner(p.f.input("Z", 2, 4))
    assert caught.value.diagnostics[0].code == "TIL317"
    assert caught.value.diagnostics[0].underlined == 'inner(p.f.input("Z", 2, 4))'


def test_declared_results_tell_sizes_to_callers() -> None:
    inner = parse("function (A[N], B) -> (C[2 * N]) { C = B; }")
    f = FunctionBuilder()
    made = inner(f.input("X", 4), f.input("Y"))
    assert [dim.value for dim in made.dims] == [8]


def test_expectations() -> None:
    p = Parts()
    assert p.value(tf.expect(p.x, "f32") + tf.expect_sizes(p.x, p.n, 3)) == "expect_f32(X) + expect_sizes(X, N, 3)"
    with pytest.raises(TileError, match="did you mean 'f32'"):
        tf.expect(p.x, "float32")
