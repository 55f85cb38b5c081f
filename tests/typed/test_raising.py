"""Raised functions mean the same to the bit, print, parse, and refuse other shapes."""

from fractions import Fraction

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.differentiable import Place, places
from strategies.effort import examples
from strategies.tile import Case, assert_equal, cases
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.tile.checks.verifier import verify
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import (
    Access,
    Constant,
    Constraint,
    Contraction,
    Coordinate,
    Elementwise,
    Function,
    Operation,
    Recall,
    Scatter,
    ShapeOf,
    TensorType,
    Value,
)
from tileir.typed.raising.raising import raise_to_tile
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.text.printer import to_text as typed_text
from tileir.typed.verifier import verify as verify_typed
from tileir_testing.programs.case import Array

F32, I32, BOOL = DType.F32, DType.I32, DType.BOOL


def types_of(function: Function) -> dict[str, TensorType]:
    return {value.name: TensorType(value.dtype, value.shape) for value in function.inputs}


def again(function: Function) -> Function:
    """Raise a function, check the text, and infer it for the same types."""
    raised = raise_to_tile(function)
    verify(raised)
    assert parse(to_text(raised)) == raised
    result = infer(raised, types_of(function))
    verify_typed(result)
    return result


def inferred(text: str, **types: TensorType) -> Function:
    return infer(parse(text), types)


def raised_text(text: str, **types: TensorType) -> str:
    return to_text(raise_to_tile(simplify(inferred(text, **types))))


def assert_same_bits(left: dict[str, Array], right: dict[str, Array]) -> None:
    assert_equal(left, right)
    for name, array in left.items():
        if array.dtype.kind not in "iub":
            numbers = ~np.isnan(array.astype(np.float64))
            assert np.array_equal(np.signbit(array)[numbers], np.signbit(right[name])[numbers])


GOLDEN = """\
function (A: f16[2, 3], I: i32[2]) -> (O, P, Q, R, S) {
  X = index(A, 1) + 1;
  D = shape(A);
  O_0 = as_f16(D);
  [[pid(main)]] O[2 * i : 2] = >(A[i, j] * A[i, j]), i - j < 3 no_defract default O_0;
  P[] = +(A[i, j] == A[i, j] ? X[i, j]);
  G = gather(A, I);
  Q = scatter(G, I, A) < 2.1 ? X : as_i32(A);
  R[i : 2] = =(A[i / 2, 1] == G[2 - i, 0]);
  S = reshape(A, 3, 2);
}
"""


def test_golden() -> None:
    text = """function (A[N, M], I) -> (O, P, Q, R, S) {
      X = index(A, 1) + 1;
      D = shape(A);
      [[pid(main)]] O[2 * i : 2] = >(A[i, j] * A[i, j]), i - j < 3 no_defract default D;
      P[] = +(A[i, j] == A[i, j] ? X[i, j]);
      G = gather(A, I);
      Q = scatter(G, I, A) < 2.1 ? X : as_i32(A);
      R[i : N] = =(A[i / 2, 1] == G[N - i, 0]);
      S = reshape(A, M, N);
    }"""
    types = {"A": TensorType(DType.F16, (2, 3)), "I": TensorType(I32, (2,))}
    typed = infer(parse(text), types)
    assert to_text(raise_to_tile(typed)) == GOLDEN
    assert typed_text(again(typed)) == typed_text(typed)


@examples(100)
@given(cases(special=True, functions=True, empty=True, statements=6))
def test_meaning_stays(case: Case) -> None:
    typed = case.typed()
    assert_same_bits(interpret(again(typed), case.inputs), interpret(typed, case.inputs))
    simplified = simplify(typed)
    assert_same_bits(interpret(again(simplified), case.inputs), interpret(typed, case.inputs))


@examples(100)
@given(cases(special=True, empty=True))
def test_simplified_functions_come_back_with_as_many_operations(case: Case) -> None:
    simplified = simplify(case.typed())
    result = simplify(again(simplified))
    assert len(result.operations) <= len(simplified.operations)
    assert result.outputs == simplified.outputs


@examples(40)
@given(places(statements=4), st.booleans())
def test_gradients_come_back(place: Place, even_ties: bool) -> None:
    derived = simplify(gradient(place.case.typed(), place.wrt, place.of, even_ties=even_ties))
    assert_same_bits(interpret(again(derived), place.case.inputs), interpret(derived, place.case.inputs))


def test_loops_come_back_from_gradients() -> None:
    text = """function (H[N], Xs[T, N], W) -> (D) {
      S = scan(H; Xs; W) function (H[N], X[N], W) -> (H2, Y) { H2 = sin(H * W + X); Y = H2 * H2; };
      Y = element(S, 1);
      D = gradient(Y, H);
    }"""
    typed = inferred(text, H=TensorType(F32, (3,)), Xs=TensorType(F32, (4, 3)), W=TensorType(F32, ()))
    values = {"H": np.ones(3, np.float32), "Xs": np.full((4, 3), 0.25, np.float32), "W": np.array(0.5, np.float32)}
    derived = simplify(typed)
    assert_same_bits(interpret(again(derived), values), interpret(derived, values))


def test_philox_comes_back() -> None:
    text = """function (S) -> (X, T) {
      P = prng_step(S, 3, 5);
      X = prng_value(P);
      T = prng_state(P);
    }"""
    typed = inferred(text, S=TensorType(DType.U32, (4,)))
    state = np.array([1, 2**32 - 1, 2**31, 7], np.uint32)
    assert_same_bits(interpret(again(typed), {"S": state}), interpret(typed, {"S": state}))


MARKED = """\
function (X: f32[3], W: f32[3]) -> (C, S) {
  R = round(X * W);
  Q = override_gradient(R, X, upstream(R) * W, W, upstream(R) * X);
  C = checkpoint(override_gradient(Q, Q, max(min(upstream(Q), 1.0), -1.0)));
  S = exp(stop_gradient(C));
}
"""


def test_markers_are_functions_of_tile() -> None:
    types = dict.fromkeys("XW", TensorType(F32, (3,)))
    typed = inferred(MARKED, **types)
    assert to_text(raise_to_tile(typed)) == MARKED
    verify_typed(again(typed))


def test_recalls_are_what_they_recall() -> None:
    text = "function (X) -> (D) { Y = exp(checkpoint(sin(X))); D = gradient(checkpoint(Y) * Y, X); }"
    typed = inferred(text, X=TensorType(F32, (3,)))
    assert any(isinstance(operation, Recall) for operation in typed.operations)
    values = {"X": np.array([0.5, -1.0, 2.0], np.float32)}
    assert_same_bits(interpret(again(typed), values), interpret(typed, values))


def test_other_types_are_refused() -> None:
    raised = raise_to_tile(
        inferred("function (A, B) -> (O) { O = A + B; }", **dict.fromkeys("AB", TensorType(F32, (2, 3))))
    )
    with pytest.raises(TileError) as caught:
        infer(raised, {"A": TensorType(F32, (2, 3)), "B": TensorType(F32, (2, 4))})
    assert [d.code for d in caught.value.diagnostics] == ["TIL317"]
    with pytest.raises(TileError) as caught:
        infer(raised, {"A": TensorType(F32, (2, 3)), "B": TensorType(DType.F64, (2, 3))})
    assert [d.code for d in caught.value.diagnostics] == ["TIL317"]
    with pytest.raises(TileError) as caught:
        infer(raised, {"A": TensorType(F32, (2, 3)), "B": TensorType(F32, (3,))})
    assert [d.code for d in caught.value.diagnostics] == ["TIL305"]


@pytest.mark.parametrize(
    ("dtype", "written", "printed"),
    [
        (F32, "A * 0.1", "A * 0.1"),
        (F32, "A - (-2.5)", "A - -2.5"),
        (F32, "A + (-0.0)", "A"),
        (F32, "pow(0.5, A)", "pow(0.5, A)"),
        (F32, "max(A, 0.0 / 0.0)", "max(A, 0.0 / 0.0)"),
        (F32, "min(A, 1e999)", "min(A, 1e999)"),
        (DType.F64, "A + as_f32(0.1)", "A + 0.10000000149011612"),
        (DType.F16, "as_f32(A) + 0.1", "as_f32(A) + 0.1"),
        (DType.I8, "A + 3", "A + 3"),
        (DType.I8, "A > 0 ? 1.0 : 0.0", "A > 0 ? 1.0 : 0.0"),
        (DType.I8, "A > 0 ? as_f64(1.0) : as_f64(0.0)", "A > 0 ? as_f64(1.0) : as_f64(0.0)"),
        (DType.I8, "A > 0 ? 1 : 0", "A > 0 ? 1 : 0"),
        (DType.I8, "A > 0 ? as_u8(1) : as_u8(0)", "A > 0 ? as_u8(1) : as_u8(0)"),
        (BOOL, "A & as_bool(1)", "A & as_bool(1)"),
        (DType.U64, "A ^ 18446744073709551615", "A ^ 18446744073709551615"),
        (DType.I32, "-A / ~A", "-A / ~A"),
        (DType.I32, "as_f32(7)", "as_f32(7.0)"),
        (DType.I32, "as_i64(A) * -9223372036854775808", "as_i64(A) * -9223372036854775808"),
    ],
)
def test_literals_adapt_or_are_cast(dtype: DType, written: str, printed: str) -> None:
    text = raised_text(f"function (A) -> (O) {{ O = {written}; }}", A=TensorType(dtype, (2,)))
    assert text == f"function (A: {dtype.value}[2]) -> (O) {{\n  O = {printed};\n}}\n"
    typed = inferred(text, A=TensorType(dtype, (2,)))
    values = np.array([1, 0], dtype.numpy)
    right = interpret(inferred(f"function (A) -> (O) {{ O = {written}; }}", A=TensorType(dtype, (2,))), {"A": values})
    assert_same_bits(interpret(typed, {"A": values}), right)


def test_values_read_twice_and_long_ones_get_statements() -> None:
    text = "function (A) -> (O) { O = (A + 1.5) * (A + 1.5) + exp(A * A * A * A * A * A * A * A * A); }"
    assert raised_text(text, A=TensorType(F32, ())).splitlines()[1:-1] == [
        "  O_1 = A + 1.5;",
        "  O_9 = A * A * A * A * A * A * A;",
        "  O = O_1 * O_1 + exp(O_9 * A * A);",
    ]


def build(*operations: Operation, inputs: tuple[Value, ...] = ()) -> Function:
    function = Function(inputs, (operations[-1].name,), operations)
    verify_typed(function)
    return function


def test_names_stay_but_those_of_indices_that_tile_cannot_spell() -> None:
    function = Function(
        (Value("x y", F32, (2,)), Value("B'", F32, ())),
        ("o'",),
        (
            Contraction(
                "2nd",
                (Affine.index("i'"),),
                (Access("x y", (Affine.index("i'"),)),),
                Aggregation.SUM,
                Combination.NONE,
                F32,
                F32,
                F32,
                (2,),
                (Constraint(Affine.index("i'"), 1),),
            ),
            Elementwise("o'", Op.ADD, ("2nd", "B'"), F32, (2,)),
        ),
    )
    verify_typed(function)
    raised = raise_to_tile(function)
    verify(raised)
    assert to_text(raised) == (
        "function (\"x y\": f32[2], B': f32[]) -> (#o') {\n"
        '  "2nd"[i : 2] = +("x y"[i]), i < 1;\n'
        "  #o' = \"2nd\" + B';\n"
        "}\n"
    )


def test_shapes_without_a_tensor_are_made() -> None:
    function = Function(
        (Value("I", I32, (2,)),),
        ("C", "S", "T"),
        (
            Coordinate("C", 1, I32, (3, 4)),
            ShapeOf("S", (5, 6), I32, (2,)),
            Scatter("T", "I", "I", I32, I32, (9,)),
        ),
    )
    verify_typed(function)
    inputs = {"I": np.array([1, 7], np.int32)}
    assert_same_bits(interpret(again(function), inputs), interpret(function, inputs))
    assert to_text(raise_to_tile(function)).splitlines()[1:4] == [
        "  Zero = as_bool(0);",
        "  Like[i0, i1 : 3, 4] = =(Zero[]);",
        "  C = index(Like, 1);",
    ]


@pytest.mark.parametrize("default", [False, True])
def test_contractions_without_points_are_filled(default: bool) -> None:
    x = Value("X", F32, (2,))
    whole = Affine.index("i")
    plain = Contraction("O", (whole,), (Access("X", (whole,)),), Aggregation.MAX, Combination.NONE, F32, F32, F32, (2,))
    plain = attrs.evolve(plain, default="X" if default else None)
    values = {"X": np.array([1.5, -2.5], np.float32)}
    for operation in (
        attrs.evolve(plain, constraints=(Constraint(Affine.constant(3), 3),)),
        attrs.evolve(plain, output=(whole + Fraction(1, 2),)),
    ):
        function = build(operation, inputs=(x,))
        assert_same_bits(interpret(again(function), values), interpret(function, values))


def test_constants_can_be_outputs_and_contracted() -> None:
    function = Function(
        (),
        ("C", "O"),
        (
            Constant("C", DType.F16, 0.5),
            Contraction(
                "O",
                (Affine.index("i"),),
                (Access("C", ()),),
                Aggregation.SUM,
                Combination.NONE,
                DType.F16,
                F32,
                DType.F16,
                (3,),
            ),
        ),
    )
    verify_typed(function)
    assert_same_bits(interpret(again(function), {}), interpret(function, {}))


def test_what_tile_cannot_say_is_named() -> None:
    a = Value("A", F32, ())
    function = Function(
        (a,),
        ("P",),
        (
            Elementwise("O", Op.FMA, ("A", "A", "A"), F32, ()),
            Elementwise("P", Op.FMA, ("A", "A", "O"), F32, ()),
        ),
    )
    with pytest.raises(TileError) as caught:
        raise_to_tile(function)
    assert [d.code for d in caught.value.diagnostics] == ["TIL532", "TIL532"]
    assert "'O' is a multiplication" in caught.value.diagnostics[0].message
