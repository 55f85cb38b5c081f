"""Wrong programs: the code of each fault and the text that it underlines."""

from collections.abc import Callable

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import Diagnostic, TileError
from tileir.core.ops import Combination
from tileir.tile.ir import Assignment, Call, FloatLiteral, Function, IndexName, Input, Name, Output
from tileir.tile.text.parser import parse, parse_contraction, parse_expression
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

V = "function (A, B) -> (O) {{ O = {}; }}"
C = "function (A[M, N], B[K]) -> (O) {{ {} }}"

F23, F24, F3, S = "f32[2,3]", "f32[2,4]", "f32[3]", "f32[]"


def typed(text: str) -> TensorType:
    dtype, _, sizes = text.rstrip("]").partition("[")
    return TensorType(DType(dtype), tuple(int(size) for size in sizes.split(",") if size))


def diagnostics(text: str, *arguments: str) -> tuple[Diagnostic, ...]:
    function = parse(text)
    types = {parameter.name: typed(given) for parameter, given in zip(function.inputs, arguments, strict=True)}
    with pytest.raises(TileError) as caught:
        infer(function, types)
    return caught.value.diagnostics


def faults(text: str, *arguments: str) -> list[tuple[str, str]]:
    return [(diagnostic.code, diagnostic.underlined) for diagnostic in diagnostics(text, *arguments)]


ELEMENTWISE = [
    # shapes
    ("A + B", F23, F24, "TIL301", "A + B"),
    ("2 * (A - B)", F23, F24, "TIL301", "A - B"),
    ("A < B", F3, "f32[2]", "TIL301", "A < B"),
    ("A ? B : 1", F23, "i8[2]", "TIL301", "A ? B : 1"),
    ("max(A, B)", F3, "f32[4]", "TIL301", "max(A, B)"),
    ("A + B", "f32[0]", F3, "TIL301", "A + B"),
    ("A + B", "f32[4294967296,1]", "f32[4294967296]", "TIL405", "A + B"),
    # dtypes
    ("A & B", F3, "i32[3]", "TIL302", "A & B"),
    ("~A + B", F3, F3, "TIL302", "~A"),
    ("A << 1.5", "i8[3]", F3, "TIL302", "A << 1.5"),
    ("gather(A, B)", F3, F3, "TIL302", "B"),
    ("gather(A, B)", F3, "u64[3]", "TIL302", "B"),
    ("gather(A, B)", F3, "bool[3]", "TIL302", "B"),
    ("scatter(A, B, A)", F3, F3, "TIL302", "B"),
    ("prng_value(prng_step(A, 3))", F3, F3, "TIL302", "A"),
    # literals
    ("A + 128", "i8[3]", F3, "TIL303", "128"),
    ("A + (-1)", "u8[3]", F3, "TIL303", "-1"),
    ("A * 70000.0", "f16[3]", F3, "TIL303", "70000.0"),
    ("A == 256", "u8[3]", F3, "TIL303", "256"),
    ("A + B * 0 + 18446744073709551615", "i64[3]", "i64[3]", "TIL303", "18446744073709551615"),
    ("18446744073709551615", S, S, "TIL303", "O"),
    # constants
    ("A + 1 / 0", "i32[3]", F3, "TIL308", "1 / 0"),
    ("A + mod(5, 0)", "i32[3]", F3, "TIL308", "mod(5, 0)"),
    ("A + 4294967296 * 4294967297", "i64[3]", F3, "TIL308", "4294967296 * 4294967297"),
    ("A + (1 << 70)", "i64[3]", F3, "TIL308", "1 << 70"),
    ("A + assert_small(2 < 1)", F3, F3, "TIL312", "assert_small(2 < 1)"),
    ("A + match(2, 3)", F3, F3, "TIL312", "match(2, 3)"),
    ("A + broadcast(2, 3)", F3, F3, "TIL301", "broadcast(2, 3)"),
    # casts and tuples
    ("as_int(A, 12)", F3, F3, "TIL313", "12"),
    ("as_float(A, 8)", F3, F3, "TIL313", "8"),
    ("as_uint(A, 1)", F3, F3, "TIL313", "1"),
    ("as_bool(A, 8)", F3, F3, "TIL313", "8"),
    ("tuple(A, B) + 1", F3, F3, "TIL309", "tuple(A, B)"),
    ("tuple(A, B)", F3, F3, "TIL309", "O"),
    ("element(A, 0)", F3, F3, "TIL309", "A"),
    ("element(tuple(A, B), 2)", F3, F3, "TIL314", "2"),
    ("prng_step(A, 3)", "u32[4]", F3, "TIL309", "O"),
    ("prng_step(A, 3) * 2", "u32[4]", F3, "TIL309", "prng_step(A, 3)"),
    ("prng_value(A)", "u32[4]", F3, "TIL309", "A"),
    ("prng_value(prng_step(A, 3))", "u32[5]", F3, "TIL310", "A"),
    # shapes of functions
    ("index(A, 2)", F23, F3, "TIL314", "2"),
    ("index(A, 0)", S, F3, "TIL314", "0"),
    ("reshape(A, 2, 2)", F23, F3, "TIL310", "reshape(A, 2, 2)"),
    ("reshape(A, 0 - 6, 0 - 1)", F23, F3, "TIL307", "0 - 6"),
    ("argsort(A, 0)", S, F3, "TIL305", "A"),
    ("argsort(A, 2)", F23, F3, "TIL314", "2"),
    ("argsort(A, 1, 0, 4)", F23, F3, "TIL310", "argsort(A, 1, 0, 4)"),
    ("gather(A, B)", S, "i32[3]", "TIL305", "A"),
    ("gather(A, B)", "f32[0,2]", "i32[3]", "TIL310", "A"),
    ("scatter(A, B, A)", F23, "i32[3]", "TIL310", "A"),
    ("scatter_assign(B, B, A)", F23, "i32[3]", "TIL310", "A"),
    ("scatter(A, B, 1)", F3, "i32[3]", "TIL305", "1"),
    ("scatter(A, B, reshape(B, 0, 3))", F3, "i32[3]", "TIL310", "reshape(B, 0, 3)"),
    ("scatter(A, B, A)", "f32[0]", "f32[0]", "TIL302", "B"),
    ("simple_reduce(A, 2)", F23, F3, "TIL310", "simple_reduce(A, 2)"),
    ("simple_reduce(B, 1, 3, 1)", F23, F3, "TIL310", "simple_reduce(B, 1, 3, 1)"),
    ("builtin_softmax(A, 2, 4)", F23, F3, "TIL310", "4"),
    ("builtin_softmax(A)", S, F3, "TIL305", "A"),
    ("builtin_softmax(A, 3)", F23, F3, "TIL310", "3"),
    ("builtin_softmax(A, 0 - 2)", F23, F3, "TIL307", "0 - 2"),
    ("B + assert_known(A)", F3, F3, "TIL305", "A"),
    # gradients
    ("override_gradient(A, B)", F3, F3, "TIL328", "B"),
    ("override_gradient(A, B, B)", F3, "i32[3]", "TIL321", "B"),
    ("override_gradient(A, 2, B)", F3, F3, "TIL321", "2"),
    ("override_gradient(A, B, A)", F23, F3, "TIL329", "A"),
    ("override_gradient(A, B, A)", F24, F3, "TIL329", "A"),
    ("builtin_binary_crossentropy(A, 1, B)", F3, F23, "TIL329", "B"),
    ("upstream(A) + B", F3, F3, "TIL326", "upstream(A)"),
]


@pytest.mark.parametrize(("expression", "a", "b", "code", "underlined"), ELEMENTWISE)
def test_expression(expression: str, a: str, b: str, code: str, underlined: str) -> None:
    assert faults(V.format(expression), a, b) == [(code, underlined)]


CONTRACTIONS = [
    ("O[i : M] = +(A[i, j + k]);", "TIL401", "k"),
    ("O[i - i : M] = +(B[k]);", "TIL401", "i"),
    ("O[i + 0 * k : M] = +(A[i, j]);", "TIL401", "k"),
    ("O[i : M] = +(A[i, j]), 5 < 3;", "TIL404", "5 < 3"),
    ("O[i : M] = +(A[i, j]), M < 2;", "TIL404", "M < 2"),
    ("O[i : M] = =(A[i, j]);", "TIL406", "O[i : M] = =(A[i, j])"),
    ("O[i + j : 8] = =(A[i, j]);", "TIL406", "O[i + j : 8] = =(A[i, j])"),
    ("O[0 : 1] = =(B[k]);", "TIL406", "O[0 : 1] = =(B[k])"),
    ("O[i : M] = +(A[i, (2 * j + 1) / 2]);", "TIL407", "(2 * j + 1) / 2"),
    ("O[i : M] = +(B[i + (2 * k - K) / 2]), k < K;", "TIL407", "i + (2 * k - K) / 2"),
    ("O[i : M] = +(A[i, j]), (2 * j + 1) / 2 < M;", "TIL407", "(2 * j + 1) / 2"),
    ("O[i : M] = +(A[i, j]), (j + 1) / 2 - j / 2 < M;", "TIL407", "(j + 1) / 2 - j / 2"),
    ("O[i : M] = +(B[i + 4 / (M - M)]);", "TIL308", "4 / (M - M)"),
    ("O[i : M] = +(B[i / (M / 9)]);", "TIL402", "i / (M / 9)"),
    ("O[i : M - 5] = +(A[i, j]);", "TIL307", "M - 5"),
    ("O[i : N / 2.0] = +(B[i]);", "TIL307", "N / 2.0"),
    ("O[i : 1 / 0] = +(B[i]);", "TIL308", "1 / 0"),
    ("O[i : M * 4294967296 * 2147483648] = +(B[i]);", "TIL307", "M * 4294967296 * 2147483648"),
    ("O[i : M * 4294967296 * 4294967296] = +(B[i]);", "TIL308", "M * 4294967296 * 4294967296"),
    ("O[i, j : 2147483648, 1073741824] = +(A[i, j]);", "TIL405", "O[i, j : 2147483648, 1073741824] = +(A[i, j])"),
    ("O[i : M] = +(A[i, j]), j < N / 0.0;", "TIL307", "N / 0.0"),
    ("O[i : M] = +(A[i, j / (M - 2)]);", "TIL402", "j / (M - 2)"),
    ("X = 2.5; O[i : M] = +(A[i, X * j]);", "TIL307", "X"),
    ("X = gather(A, 0); O[i : M] = +(B[i]) default X;", "TIL310", "X"),
    ("X = A + 1; Y = shape(A); O[i : M + 1] = +(B[i]) default Y;", "TIL310", "Y"),
    ("X = gather(A, 0); O[i : M] = +(X[i, j]);", "TIL209", "X[i, j]"),
]


@pytest.mark.parametrize(("statements", "code", "underlined"), CONTRACTIONS)
def test_contraction(statements: str, code: str, underlined: str) -> None:
    assert faults(C.format(statements), F23, F3) == [(code, underlined)]


INPUTS = [
    ("function (A[N], B) -> (O) { O[i : B] = +(A[i]); }", (F3, F3), [("TIL305", "B")]),
    ("function (A[N], B) -> (O) { O[i : B] = +(A[i]); }", (F3, S), [("TIL302", "B")]),
    ("function (A[N], B) -> (O) { O[i : B] = +(A[i]); }", (F3, "i32[]"), [("TIL306", "B")]),
    ("function (A, B) -> (O) { [[ties(odd)]] O = A; }", (F3, F3), [("TIL323", "[[ties(odd)]]")]),
    ("function (A[N, M], B[M]) -> (O) { O = A; }", (F23, "f32[4]"), [("TIL304", "M")]),
    ("function (A[N, N], B[N]) -> (O) { O = A; }", (F23, "f32[4]"), [("TIL304", "N"), ("TIL304", "N")]),
    ("function (A[N], B) -> (O) { O = A + B; }", (F23, F24), [("TIL305", "A[N]")]),
    ("function (A[], B) -> (O) { O = A + B; }", (F3, F24), [("TIL305", "A[]")]),
    ("function (A, B) -> (O) { O = B; }", ("i8[9223372036854775808]", F24), [("TIL405", "A")]),
    (
        "function (A, B) -> (O) { O = reshape(A, 0, 4611686018427387904, 4); }",
        ("f32[0]", F24),
        [("TIL405", "reshape(A, 0, 4611686018427387904, 4)")],
    ),
]


@pytest.mark.parametrize(("text", "arguments", "expected"), INPUTS)
def test_inputs(text: str, arguments: tuple[str, ...], expected: list[tuple[str, str]]) -> None:
    assert faults(text, *arguments) == expected


def test_messages(golden: Callable[[str], None]) -> None:
    rows = [
        *((V.format(expression), (a, b)) for expression, a, b, _, _ in ELEMENTWISE),
        *((C.format(statements), (F23, F3)) for statements, _, _ in CONTRACTIONS),
        *((text, arguments) for text, arguments, _ in INPUTS),
    ]
    lines = []
    for text, arguments in rows:
        lines.append(f"{' '.join(text.split())}    A: {arguments[0]}, B: {arguments[1]}\n")
        lines += [f"    {found.code} {found.message}\n" for found in diagnostics(text, *arguments)]
    golden("".join(lines))


def test_missing_and_unknown_arguments() -> None:
    function = parse("function (A, B) -> (O) { O = A + B; }")
    with pytest.raises(TileError) as caught:
        infer(function, {"A": typed(S), "X": typed(S), "Y": typed(S)})
    assert [(d.code, d.message) for d in caught.value.diagnostics] == [
        ("TIL311", "there is no input 'X'; the inputs are: A, B"),
        ("TIL311", "there is no input 'Y'; the inputs are: A, B"),
        ("TIL311", "input 'B' has no argument"),
    ]
    assert [d.underlined for d in caught.value.diagnostics][2] == "B"


def test_two_sizes_of_a_dimension_name_both_places() -> None:
    function = parse("function (A[N, M], B[M]) -> (O) { O = A; }")
    with pytest.raises(TileError, match=r"'M' is 3 on axis 1 of 'A', but 4 on axis 0 of 'B'"):
        infer(function, {"A": typed(F23), "B": typed("f32[4]")})


def test_shapes_that_do_not_go_together_are_both_named() -> None:
    function = parse("function (A, B) -> (O) { O = exp(A) + B; }")
    with pytest.raises(TileError, match=r"'exp\(A\)' of shape \[2, 3\] does not go with 'B' of shape \[2, 4\]"):
        infer(function, {"A": typed(F23), "B": typed(F24)})


def test_all_faults_are_reported_and_none_follows_from_another() -> None:
    text = """function (A, B) -> (O, P, Q) {
      X = A + B;
      O = X * 2;
      P[i : 3] = =(X[i, j]);
      Y = B & 1;
      Q = Y;
      Z[i, j : 0 - 1, 5 / 0] = +(A[i, j]);
    }"""
    expected = [("TIL301", "A + B"), ("TIL302", "B & 1"), ("TIL307", "0 - 1"), ("TIL308", "5 / 0")]
    assert faults(text, F23, F24) == expected


def test_several_faults_of_one_contraction() -> None:
    text = "function (A) -> (O) { O[i + k, 0 : 2, 2] = +(A[i + k, j + j + (2 * j + 1) / 2]), 3 < 2; }"
    assert faults(text, F23) == [("TIL401", "k"), ("TIL404", "3 < 2"), ("TIL407", "j + j + (2 * j + 1) / 2")]


def contraction(text: str, **changes: object) -> Function:
    statement = attrs.evolve(parse_contraction(text), **changes)  # type: ignore[arg-type]
    return Function((Input("A", (Name("M"), Name("N"))), Input("B")), (Output("O"),), (statement,))


def assignment(*pairs: tuple[str, str]) -> Function:
    statements = tuple(Assignment(name, parse_expression(text)) for name, text in pairs)
    return Function((Input("A", (Name("M"), Name("N"))), Input("B")), (Output("O"),), statements)


NOT_VERIFIED = [
    (assignment(("O", "X + 1")), "TIL201"),
    (assignment(("O", "A"), ("O", "A")), "TIL202"),
    (assignment(("M", "A")), "TIL202"),
    (Function((Input("B"), Input("A", (Name("B"), Name("B")))), (), ()), "TIL202"),
    (Function((Input("A"), Input("B")), (Output("O"),), (Assignment("O", IndexName("i")),)), "TIL203"),
    (assignment(("X", "A")), "TIL201"),
    (Function((Input("A"), Input("B")), (Output("O"),), (Assignment("O", Call("nothing", (Name("A"),))),)), "TIL206"),
    (Function((Input("A"), Input("B")), (Output("O"),), (Assignment("O", Call("exp", (Name("A"),) * 2)),)), "TIL207"),
    (contraction("O[i : 3] = +(A[i, j])", sizes=()), "TIL208"),
    (contraction("O[i : 3] = +(B[i, j])"), "TIL209"),
    (contraction("O[i : 3] = +(A[i, j])", combination=Combination.MUL), "TIL210"),
    (contraction("O[i : 3] = +(A[i, j * i])"), "TIL402"),
    (contraction("O[i : B] = +(A[i, j])"), "TIL305"),
    (contraction("O[i : 3] = +(A[i, j]), k < 3"), "TIL403"),
    (contraction("O[i : 3] = +(A[i, j])", indices=(FloatLiteral(1.5),)), "TIL214"),
    (contraction("O[i : 3] = +(A[i, j])", indices=(parse_expression("1 << 2"),)), "TIL214"),
    (contraction("O[i : 3] = +(A[i, j])", indices=(parse_expression("~1"),)), "TIL214"),
]


def test_functions_that_nobody_verified(golden: Callable[[str], None]) -> None:
    types = {"A": typed(F23), "B": typed(F3)}
    lines = []
    for function, code in NOT_VERIFIED:
        with pytest.raises(TileError) as caught:
            infer(function, types)
        assert caught.value.diagnostics[0].code == code
        lines += [f"{found.code} {found.message}\n" for found in caught.value.diagnostics]
    golden("".join(lines))


def test_indices_of_a_wrong_type_are_told_which_types_are_right() -> None:
    function = parse("function (A, B) -> (O) { O = gather(A, B); }")
    with pytest.raises(TileError, match="'B' is u64; indices are integers of any type but u64, so cast it with as_i64"):
        infer(function, {"A": typed(F23), "B": typed("u64[4]")})
