"""Results of inference for correct programs: names, dtypes, shapes, and the number of operations."""

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.tile import Case, assert_equal, cases
from strategies.tile_text import polynomials
from tileir.core.dtype import DType, arithmetic_type, float_for, promote
from tileir.core.errors import TileError
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.tile import ir as tile
from tileir.tile.ir import Access, Assignment, Binary, Expr, IndexName, Input, Name, Output, Unary
from tileir.tile.text.parser import parse
from tileir.tile.traversal import index_names
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Constant, Contraction, Elementwise, Function, TensorType
from tileir.typed.verifier import verify


def typed(text: str) -> TensorType:
    dtype, _, sizes = text.rstrip("]").partition("[")
    return TensorType(DType(dtype), tuple(int(size) for size in sizes.split(",") if size))


def inferred(text: str, **arguments: str) -> Function:
    function = infer(parse(text), {name: typed(given) for name, given in arguments.items()})
    verify(function)
    return function


def result(expression: str, **arguments: str) -> TensorType:
    text = f"function ({', '.join(arguments)}) -> (O) {{ O = {expression}; }}"
    last = inferred(text, **arguments).operations[-1]
    return TensorType(last.dtype, last.shape)


@pytest.mark.sampled(103)
@pytest.mark.parametrize("left", DType)
@pytest.mark.parametrize("right", DType)
def test_promotion(left: DType, right: DType) -> None:
    arguments = {"A": f"{left.value}[3]", "B": f"{right.value}[3]"}
    if left is not right and left.is_storage and right.is_storage:
        return  # test_types_of_storage_do_not_mix
    assert result("A ? A : B", **arguments).dtype is promote(left, right)
    common = arithmetic_type(promote(left, right))
    number = DType.I32 if common.is_bool else common
    assert result("A + B", **arguments).dtype is number
    assert result("max(A, B)", **arguments).dtype is common
    assert result("A < B", **arguments).dtype is DType.BOOL
    assert result("pow(A, B)", **arguments).dtype is float_for(common)
    if not common.is_float:
        assert result("A & B", **arguments).dtype is common
        assert result("A << B", **arguments).dtype is number


@pytest.mark.parametrize(
    ("body", "underlined"),
    [
        ("O = A + B;", "A + B"),
        ("O = A < 1 ? A : B;", "A < 1 ? A : B"),
        ("O = max(as_f8e5m2(1), A) * B;", "max(as_f8e5m2(1), A)"),
        ("O = pow(A, B);", "pow(A, B)"),
        ("O[i : 3] = +(A[i] * B[i]);", "O[i : 3] = +(A[i] * B[i])"),
        ("O[i : 3] = +(A[i] == B[i] ? A[i]);", "O[i : 3] = +(A[i] == B[i] ? A[i])"),
        ("O[i : 3] = =(A[i]) default B;", "O[i : 3] = =(A[i]) default B"),
    ],
)
def test_types_of_storage_do_not_mix(body: str, underlined: str) -> None:
    with pytest.raises(TileError) as caught:
        inferred(f"function (A, B) -> (O) {{ {body} }}", A="f8e4m3fn[3]", B="f8e5m2[3]")
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.underlined.rstrip(";")) == ("TIL315", underlined)
    assert "cast one of them" in fault.message


@pytest.mark.parametrize(
    ("statement", "underlined"),
    [
        (f"O = reshape(A, {', '.join(['1'] * 64)}, 3);", "reshape("),
        (f"B = reshape(A, {', '.join(['1'] * 64)}, 3); O = reshape(B, 3);", "reshape("),
        (f"O[{'0, ' * 64}i : {'1, ' * 64}3] = +(A[i]);", "O["),
    ],
)
def test_tensors_have_as_many_axes_as_arrays_at_most(statement: str, underlined: str) -> None:
    with pytest.raises(TileError) as caught:
        inferred(f"function (A) -> (O) {{ {statement} }}", A="f32[3]")
    (fault,) = caught.value.diagnostics
    assert fault.code == "TIL316"
    assert underlined in fault.underlined
    assert "this has 65 axes" in fault.message
    fewer = inferred(f"function (A) -> (O) {{ O = reshape(A, {', '.join(['1'] * 63)}, 3); }}", A="f32[3]")
    assert len(fewer.operations[-1].shape) == 64


@pytest.mark.parametrize("body", ["O = A + as_f8e4m3fn(B);", "O = as_f32(A) * B;", "O[i : 3] = =(A[i]) default C;"])
def test_types_of_storage_meet_after_a_cast(body: str) -> None:
    inferred(f"function (A, B, C) -> (O) {{ {body} }}", A="f8e4m3fn[3]", B="f8e5m2[3]", C="f32[3]")


@pytest.mark.parametrize("stored", ["f8e4m3fn", "f8e5m2"])
def test_what_moves_elements_of_storage_keeps_their_type(stored: str) -> None:
    for expression in ("A", "A > 0 ? A : 0.5", "gather(A, [I])", "reshape(A, 3, 1)", "stop_gradient(A)"):
        text = expression.replace("[I]", "I")
        assert result(text, A=f"{stored}[3]", I="i32[2]").dtype is DType(stored)
    for expression in ("A + 0.1", "-A", "relu(A)", "sign(A)", "exp(A)", "floor(A)", "simple_reduce(A, 1)"):
        assert result(expression, A=f"{stored}[3]").dtype is DType.F32
    for symbol, kept in (("=", True), ("+", False), ("*", False), (">", False), ("<", False)):
        last = inferred(f"function (A) -> (O) {{ O[i : 3] = {symbol}(A[i]); }}", A=f"{stored}[3]").operations[-1]
        assert last.dtype is (DType(stored) if kept else DType.F32)


def test_a_literal_beside_a_type_of_storage_is_that_of_f32() -> None:
    constant = inferred("function (A) -> (O) { O = A * 0.1; }", A="f8e4m3fn[3]").operations
    assert any(isinstance(found, Constant) and found.value == float(np.float32(0.1)) for found in constant)
    with pytest.raises(TileError, match="TIL303"):
        inferred("function (A) -> (O) { O = A > 0 ? A : 449.0 * 2; }", A="f8e4m3fn[3]")


LITERALS = [
    ("A + 3", "i8[]", "i8"),
    ("3 + A", "u16[]", "u16"),
    ("A + 3", "f16[]", "f16"),
    ("A + 0.5", "f16[]", "f16"),
    ("A + 0.5", "bf16[]", "bf16"),
    ("A + 0.1", "f64[]", "f64"),
    ("A + 0.5", "i32[]", "f32"),
    ("A + 0.5", "i64[]", "f64"),
    ("A + 0.5", "u64[]", "f64"),
    ("A + 3", "bool[]", "i32"),
    ("A + 5000000000", "bool[]", "i64"),
    ("A & 1", "bool[]", "i32"),
    ("A ? 1 : 2", "bool[]", "i32"),
    ("A ? 1 : 5000000000", "bool[]", "i64"),
    ("A ? 1 : 0.5", "bool[]", "f32"),
    ("A ? 1 : A", "bool[]", "i32"),
    ("A == 1", "bool[]", "bool"),
    ("exp(A)", "i8[]", "f32"),
    ("exp(A)", "i64[]", "f64"),
    ("exp(A)", "f16[]", "f16"),
    ("exp(A)", "bool[]", "f32"),
    ("-A", "bool[]", "i32"),
    ("relu(A)", "i8[]", "i8"),
    ("sign(A)", "u8[]", "u8"),
    ("recip(A)", "f16[]", "f16"),
    ("A * as_i64(2)", "i8[]", "i64"),
    ("A * as_like(0.25, A)", "f16[]", "f16"),
    ("as_like(exp(A), A)", "i64[]", "i64"),
    ("A + as_like(1, 2)", "f64[]", "f64"),
    ("A * exp(1)", "f64[]", "f64"),
    ("index(A, 0)", "f32[3]", "i32"),
    ("shape(A)", "f32[3,4]", "i32"),
    ("index(A, 0)", "f32[3000000000]", "i64"),
    ("shape(A)", "f32[3000000000,4]", "i64"),
]


@pytest.mark.parametrize(("expression", "argument", "dtype"), LITERALS)
def test_literals_adapt(expression: str, argument: str, dtype: str) -> None:
    assert result(expression, A=argument).dtype is DType(dtype)


SHAPES = [
    ("A + B", "f32[3,4]", "f32[4]", (3, 4)),
    ("A + B", "f32[3,1]", "f32[1,4]", (3, 4)),
    ("A + B", "f32[0]", "f32[1]", (0,)),
    ("A + B", "f32[]", "f32[2,3]", (2, 3)),
    ("A ? B : 0", "bool[5,1]", "f32[2]", (5, 2)),
    ("gather(A, B)", "f32[5,2]", "i32[3,4]", (3, 4, 2)),
    ("gather(A, 1)", "f32[5,2]", "i32[]", (2,)),
    ("scatter(A, B, A)", "f32[5,2]", "i64[5]", (5, 2)),
    ("scatter(A, 2, A)", "f32[5,2]", "i64[5]", (5, 5, 2)),
    ("reshape(A, 2, 5)", "f32[10]", "f32[]", (2, 5)),
    ("reshape(A)", "f32[1]", "f32[]", ()),
    ("reshape(A, 0, 7)", "f32[0]", "f32[]", (0, 7)),
    ("as_like(A, B)", "f32[2,1]", "i8[3]", (2, 1)),
    ("index(A, -1)", "f32[2,3]", "f32[]", (2, 3)),
    ("builtin_softmax(A)", "f32[2,3,4]", "f32[]", (2, 3, 4)),
    ("simple_reduce(A, 1, 4)", "f32[2,3,4]", "f32[]", (1, 4)),
    ("prng_value(prng_step(A, 2, 3))", "u32[4]", "f32[]", (2, 3)),
    ("prng_value(prng_step(A))", "u32[4]", "f32[]", ()),
    ("prng_value(prng_step(A, 0))", "u32[4]", "f32[]", (0,)),
]


@pytest.mark.parametrize(("expression", "a", "b", "shape"), SHAPES)
def test_shapes(expression: str, a: str, b: str, shape: tuple[int, ...]) -> None:
    assert result(expression, A=a, B=b).shape == shape


SIZES = [
    ("N", 5),
    ("N / 2", 2),
    ("(0 - N) / 2 + N", 3),
    ("mod(N, 3)", 2),
    ("N * M - 1", 34),
    ("max(N, M)", 7),
    ("N < M ? N : 1", 5),
    ("ceil(N / 2.0)", 3),
    ("abs(3 - N) << 2", 8),
    ("broadcast(N, 1)", 5),
    ("match(N, 5)", 5),
    ("N - 5", 0),
    ("where(N == 5, M, 1)", 7),
    ("H + 1", 4),
]


@pytest.mark.parametrize(("size", "expected"), SIZES)
def test_size_arithmetic(size: str, expected: int) -> None:
    text = f"function (A[N, M]) -> (O) {{ H = M / 2; O[i : {size}] = +(A[i, j]); }}"
    assert inferred(text, A="f32[5,7]").operations[-1].shape == (expected,)


COMBINATIONS = [
    ("+(A[i])", "bool", ("bool", "i32", "i32")),
    (">(A[i])", "bool", ("bool", "bool", "bool")),
    ("+(A[i])", "f16", ("f16", "f32", "f16")),
    (">(A[i])", "bf16", ("bf16", "f32", "bf16")),
    ("+(A[i] * A[i])", "f16", ("f32", "f32", "f16")),
    ("+(A[i] * B[i])", "i8", ("i64", "i64", "i64")),
    (">(A[i] + A[i])", "bool", ("i32", "i32", "i32")),
    ("+(A[i] == B[i])", "i8", ("i64", "i32", "i32")),
    (">(A[i] == B[i])", "f32", ("f32", "bool", "bool")),
    ("+(A[i] == B[i] ? A[i])", "f16", ("f16", "f32", "f16")),
    ("*(B[i] == B[i] ? A[i])", "bool", ("i64", "i32", "i32")),
]


@pytest.mark.parametrize(("aggregate", "dtype", "expected"), COMBINATIONS)
def test_dtypes_of_contractions(aggregate: str, dtype: str, expected: tuple[str, str, str]) -> None:
    text = f"function (A, B) -> (O) {{ O[] = {aggregate}; }}"
    last = inferred(text, A=f"{dtype}[3]", B="i64[3]").operations[-1]
    assert isinstance(last, Contraction)
    assert tuple(d.value for d in (last.operand_dtype, last.accumulator, last.dtype)) == expected


def test_assignments_do_not_widen() -> None:
    last = inferred("function (A[N]) -> (O) { O[i : N] = =(A[i]); }", A="f16[3]").operations[-1]
    assert isinstance(last, Contraction)
    assert last.operand_dtype is last.accumulator is DType.F16


def test_a_contraction_keeps_what_was_written() -> None:
    text = """function (A[N], D) -> (O) {
      O[2 * i + 1 : 2 * N] = >(A[(i - N) / 2] == A[N - i] ? A[3]), i - 1 < N / 2 no_defract default D;
    }"""
    *casts, last = inferred(text, A="f16[5]", D="f32[10]").operations
    assert isinstance(last, Contraction)
    i = Affine.index("i")
    assert last.output == (i * 2 + 1,)
    assert [access.indices for access in last.inputs] == [((i - 5) / 2,), (5 - i,), (Affine.constant(3),)]
    assert [(c.polynomial, c.bound) for c in last.constraints] == [(i - 1, 2)]
    assert (last.aggregation, last.combination) == (Aggregation.MAX, Combination.COND)
    assert (last.reduce, last.default) == (False, casts[0].name)


@pytest.mark.parametrize(
    ("polynomial", "seven", "eight"),
    [
        ("2 * (N / 2) + i", "6 + i", "8 + i"),
        ("i + N / 2", "3 + i", "4 + i"),
        ("N / 2 * 2 - i", "6 - i", "8 - i"),
        ("(N - 1) / 2 * i", "3*i", "3*i"),
        ("(1 - N) / 2 + i", "-3 + i", "-3 + i"),
        ("-(N / 2) + i", "-3 + i", "-4 + i"),
        ("N / 2 / 2 + i / 2", "1 + 1/2*i", "2 + 1/2*i"),
        ("(N + i) / 2", "7/2 + 1/2*i", "4 + 1/2*i"),
        ("i / (N / 2)", "1/3*i", "1/4*i"),
        ("(i * N) / 2", "7/2*i", "4*i"),
        ("i + N - Half * 2", "1 + i", "i"),
        ("N / 2", "3", "4"),
        ("i / 2 - (N - 10) / 2", "1 + 1/2*i", "1 + 1/2*i"),
    ],
)
def test_what_has_no_index_is_a_size_in_a_polynomial(polynomial: str, seven: str, eight: str) -> None:
    body = f"Half = N / 2; O[i : N] = +(A[{polynomial}]), {polynomial} < N;"
    for size, wanted in ((7, seven), (8, eight)):
        last = inferred(f"function (A[N]) -> (O) {{ {body} }}", A=f"f32[{size}]").operations[-1]
        assert isinstance(last, Contraction)
        assert [str(last.inputs[0].indices[0]), str(last.constraints[0].polynomial)] == [wanted, wanted]


@examples(200)
@given(polynomial=polynomials(("i",), ("N", "M")), first=st.integers(0, 9), second=st.integers(0, 9))
def test_parts_without_index_mean_what_they_mean_as_sizes(polynomial: Expr, first: int, second: int) -> None:
    """Each largest part without an index is put into a statement of its own, which changes nothing."""
    statements: list[Assignment] = []

    def pulled_out(expr: Expr) -> Expr:
        if isinstance(expr, IndexName):
            return expr
        if not any(index_names(expr)):
            statements.append(Assignment(f"Part{len(statements)}", expr))
            return Name(statements[-1].name)
        if isinstance(expr, Binary):
            return attrs.evolve(expr, lhs=pulled_out(expr.lhs), rhs=pulled_out(expr.rhs))
        assert isinstance(expr, Unary)
        return attrs.evolve(expr, operand=pulled_out(expr.operand))

    apart = pulled_out(polynomial)
    results: list[object] = []
    for before, index in (((), polynomial), (tuple(statements), apart)):
        access = Access("A", (index, IndexName("i")))
        target = tile.Contraction("O", (IndexName("i"),), (Name("N"),), Aggregation.SUM, Combination.NONE, (access,))
        function = tile.Function((Input("A", (Name("N"), Name("M"))),), (Output("O"),), (*before, target))
        try:
            results.append(infer(function, {"A": TensorType(DType.F32, (first, second))}).operations)
        except TileError as error:
            results.append({diagnostic.code for diagnostic in error.diagnostics})
    whole, pulled = results
    if isinstance(whole, set) and isinstance(pulled, set):
        assert whole <= pulled  # statements have faults of their own beside those of the contraction
    else:
        assert whole == pulled


def test_values_are_named_after_their_statement() -> None:
    function = inferred("function (A) -> (B) { B = exp(A * 2) + A; }", A="f32[3]")
    assert [operation.name for operation in function.operations] == ["B_0", "B_1", "B_2", "B"]


def test_names_of_the_program_are_not_taken() -> None:
    function = inferred("function (A[B_0]) -> (B, B_1) { B_1 = A; B = A * A + A; }", A="f32[3]")
    assert [operation.name for operation in function.operations] == ["B_2", "B", "B_1"]


def test_aliases_and_constants_emit_nothing_until_they_are_results() -> None:
    text = "function (A[N]) -> (O) { B = A; X = N / 2 + 1; C = B; Y = X; O = C * Y; }"
    function = inferred(text, A="i8[4]")
    assert [type(operation) for operation in function.operations] == [Constant, Elementwise]


def test_outputs_that_are_aliases_are_copies() -> None:
    function = inferred("function (A) -> (B, C, D) { B = A; C = A + 1; D = C; K = 7; }", A="i8[4]")
    assert function.outputs == ("B", "C", "D")
    copies = [o for o in function.operations if isinstance(o, Elementwise) and o.op is Op.IDENT]
    assert [(copy.name, copy.inputs) for copy in copies] == [("B", ("A",)), ("D", ("C",))]


def test_an_output_that_is_an_input_has_a_name_of_its_own() -> None:
    function = inferred("function (A) -> (A) { }", A="i8[4]")
    assert function.outputs == ("A_0",)


def test_repeated_literals_and_casts_are_emitted_once() -> None:
    text = "function (A, B) -> (O) { X = A * 2.5 + B; Y = A - 2.5 + B; O = X * Y; }"
    function = inferred(text, A="i8[4]", B="f32[4]")
    assert len(function.operations) == 1 + 1 + 5


def test_labels() -> None:
    text = "function (A) -> (O) { [[pid(first)]] X = A * 2; [[other]] [[pid(last)]] O = X + 1; [[pid(none)]] K = 3; }"
    assert inferred(text, A="f32[]").labels == (("X", "first"), ("O", "last"))


def test_tuples_disappear() -> None:
    text = "function (A, B) -> (O) { T = tuple(A, tuple(B, 3)); O = element(element(T, 1), 0) * element(T, 0); }"
    assert len(inferred(text, A="f32[]", B="f32[]").operations) == 1


def test_deep_expressions_need_no_recursion() -> None:
    depth = 190
    text = f"function (A) -> (O) {{ O = {'(' * depth}A{' * 2)' * depth}; }}"
    assert len(inferred(text, A="f32[]").operations) == depth + 1


def test_long_programs_are_linear() -> None:
    lines = "".join(f"A{n + 1} = A{n} * A{n};" for n in range(3000))
    function = inferred(f"function (A0) -> (A3000) {{ {lines} }}", A0="f32[2]")
    assert len(function.operations) == 3000


def test_reuse_of_a_dimension_name_demands_equality() -> None:
    text = "function (A[N, N], B[N]) -> (O) { O[i : N] = +(A[i, j] * B[j]); }"
    assert inferred(text, A="f32[3,3]", B="f32[3]").operations[-1].shape == (3,)


@examples(100)
@given(cases(empty=True))
def test_generated_functions_verify(case: Case) -> None:
    function = case.typed()
    verify(function)
    assert infer(case.function, case.types) == function
    actual = case.expected()
    for name, array in actual.items():
        assert isinstance(array, np.ndarray)
        assert name in function.outputs
    assert_equal(actual, case.expected(), case.tolerance)
