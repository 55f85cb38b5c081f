"""Typed text is stable and shows everything that two functions can differ in."""

from hypothesis import given

from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.core.json.codec import from_json, to_json
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.text.printer import to_text

GOLDEN = """\
function (
  A: f16[2, 3],
  I: i32[2],
) -> (O, P, Q, R, S) {
  X_0: i32[2, 3] = coordinate(1)
  X_1: i32[] = constant(1)
  X: i32[2, 3] = add(X_0, X_1)
  D: i32[2] = shape(2, 3)
  O_0: f16[2] = cast(D)
  [[pid(main)]] O: f16[2] = [2*i] >(A[i, j] * A[i, j]), i - j < 3 combine f32 aggregate f32 no_defract default O_0
  P: i32[] = [] +(A[i, j] == A[i, j] ? X[i, j]) combine f16 aggregate i32
  G: f16[2, 3] = gather(A, I)
  Q_0: f16[2, 3] = scatter(G, I) in f32
  Q_1: f16[] = constant(2.5)
  Q_2: bool[2, 3] = cmp_lt(Q_0, Q_1)
  Q_3: i32[2, 3] = cast(A)
  Q: i32[2, 3] = cond(Q_2, X, Q_3)
  R: bool[2] = [i] =(A[1/2*i, 1] == G[2 - i, 0]) combine f16 aggregate bool
  S: f16[3, 2] = reshape(A)
}
"""


def test_golden() -> None:
    text = """function (A[N, M], I) -> (O, P, Q, R, S) {
      X = index(A, 1) + 1;
      D = shape(A);
      [[pid(main)]] O[2 * i : 2] = >(A[i, j] * A[i, j]), i - j < 3 no_defract default D;
      P[] = +(A[i, j] == A[i, j] ? X[i, j]);
      G = gather(A, I);
      Q = scatter(G, I, A) < 2.5 ? X : as_i32(A);
      R[i : N] = =(A[i / 2, 1] == G[N - i, 0]);
      S = reshape(A, M, N);
    }"""
    types = {"A": TensorType(DType.F16, (2, 3)), "I": TensorType(DType.I32, (2,))}
    assert to_text(infer(parse(text), types)) == GOLDEN


def test_markers() -> None:
    text = """function (A) -> (O) {
      B = round(A);
      C = checkpoint(override_gradient(B, A, upstream(B) * 2));
      O = gradient(exp(C), A) * stop_gradient(A);
    }"""
    function = infer(parse(text), {"A": TensorType(DType.F32, (2,))})
    assert from_json(to_json(function), type(function)) == function
    assert (
        to_text(function)
        == """\
function (
  A: f32[2],
) -> (O) {
  B: f32[2] = round(A)
  C_0: f32[2] = upstream()
  C_1: f32[] = constant(2.0)
  C_2: f32[2] = mul(C_0, C_1)
  C_3: f32[2] = override_gradient(B, A gets C_2) from C_0
  C: f32[2] = checkpoint(C_3)
  O_0: f32[2] = exp(C)
  O_1: f32[] = constant(1.0)
  DA: f32[2] = mul(O_0, C_1)
  O_2: f32[2] = override_gradient(A)
  O: f32[2] = mul(DA, O_2)
}
"""
    )


@examples(50)
@given(cases(), cases())
def test_texts_are_equal_exactly_if_functions_are(left: Case, right: Case) -> None:
    one, other = left.typed(), right.typed()
    assert (to_text(one) == to_text(other)) == (one == other)
    assert to_text(one) == to_text(left.typed())


def test_numbers_are_shown_with_what_is_made_of_them() -> None:
    types = {"A": TensorType(DType.F16, (2,)), "K": TensorType(DType.F64, (), weak=True)}
    function = infer(parse("function (A, K) -> (O) { O = A * (1 - K); }"), types)
    assert to_text(function) == (
        "function (\n  A: f16[2],\n  O_1_0: f16[] = O_1,\n) -> (O) {\n"
        "  O_0: number = 1\n  O_1: number = sub(O_0, K)\n  O: f16[2] = mul(A, O_1_0)\n}\n"
    )
