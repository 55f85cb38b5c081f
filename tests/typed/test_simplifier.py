"""Every rule keeps every value to the bit, fits where it should, and leaves alone what only looks alike."""

import re
from collections.abc import Callable

import attrs
import numpy as np
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.nodes.rewrite import Rule
from tileir.core.numbers.arithmetic import cast, rounded
from tileir.core.ops import COMPUTING, Op
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Cast, Constant, Elementwise, Function, Operation, Reshape, Scan, TensorType, Value
from tileir.typed.simplify import simplifier_rules as rules
from tileir.typed.simplify.simplifier import simplify
from tileir.typed.simplify.simplifier_rules import Site, rules_of
from tileir.typed.text.printer import to_text
from tileir.typed.verifier import check_function, verify
from tileir_testing.programs.case import Array

FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 3e38, 1e-45, float("inf"), float("-inf"), float("nan")]
INTEGERS = [0, 1, -1, 2, 7, 100, -128, 127]


def values(dtype: DType) -> Array:
    if dtype.is_float:
        return cast(np.array(FLOATS), dtype)
    return cast(np.array(INTEGERS), dtype)


def inferred(expression: str, dtype: DType) -> tuple[Function, dict[str, Array]]:
    array = values(dtype)
    types = {"A": TensorType(dtype, array.shape), "B": TensorType(dtype, array.shape)}
    function = infer(parse(f"function (A, B) -> (O) {{ O = {expression}; }}"), types)
    return function, {"A": array, "B": array[::-1].copy()}


def fired(rule: Rule[Site], function: Function) -> Function | None:
    """Apply a rule at the first place where it fits."""
    definitions: dict[str, Value | Operation] = {value.name: value for value in function.inputs}
    for position, operation in enumerate(function.operations):
        after = rule(Site(operation, definitions)) if rule in rules_of(operation) else None
        if after is not None:
            operations = list(function.operations)
            operations[position] = after.operation
            return attrs.evolve(function, operations=tuple(operations))
        definitions[operation.name] = operation
    return None


def assert_same_bits(left: dict[str, Array], right: dict[str, Array]) -> None:
    assert list(left) == list(right)
    for name, array in left.items():
        other = right[name]
        assert (array.dtype, array.shape) == (other.dtype, other.shape)
        wide = (array.astype(np.float64), other.astype(np.float64)) if array.dtype.kind not in "iub" else (array, other)
        np.testing.assert_array_equal(*wide)
        numbers = ~np.isnan(wide[0])
        assert np.array_equal(np.signbit(wide[0])[numbers], np.signbit(wide[1])[numbers])


F = (DType.F32, DType.F64, DType.F16, DType.BF16)
N = (DType.I8, DType.U16, DType.I64)
B = (DType.BOOL,)
LAWS = [
    (rules.cast_of_cast, "as_f64(as_f32(A))", (DType.F16, DType.BF16, DType.I8, DType.U16, DType.BOOL)),
    (rules.cast_of_cast, "as_i16(as_i32(A))", (DType.I8, DType.U16)),
    (rules.cast_of_cast, "as_bool(as_f64(A))", (DType.I8, DType.F32)),
    (rules.cast_of_cast, "as_i64(as_f64(A))", (DType.I8, DType.F16)),
    (rules.reshape_of_reshape, "reshape(reshape(A, 2, 4), 4, 2)", N),
    (rules.multiply_by_one, "A * 1", (*F, *N)),
    (rules.multiply_by_one, "1 * A", (*F, *N)),
    (rules.divide_by_one, "A / 1", (*F, *N)),
    (rules.add_zero, "A + (-0.0)", F),
    (rules.add_zero, "(-0.0) + A", F),
    (rules.add_zero, "A + 0", N),
    (rules.zero_on_the_right, "A - 0", (*F, *N)),
    (rules.zero_on_the_right, "A << 0", N),
    (rules.zero_on_the_right, "A >> 0", N),
    (rules.no_bits, "A | 0", N),
    (rules.no_bits, "0 ^ A", N),
    (rules.idempotent, "max(A, A)", (*F, *N, *B)),
    (rules.idempotent, "A & A", (*N, *B)),
    (rules.involution, "-(-A)", (*F, *N)),
    (rules.involution, "~(~A)", (*N, *B)),
    (rules.absolute_value, "abs(-A)", (*F, DType.I8, DType.I64)),
    (rules.absolute_value, "abs(abs(A))", (*F, DType.I8, DType.I64)),
    (rules.round_integer, "floor(A)", N),
    (rules.known_condition, "1 < 2 ? A : B", (*F, *N, *B)),
    (rules.known_condition, "0 ? A : B", (*F, *N, *B)),
    (rules.same_arms, "B ? A : A", (*F, *N, *B)),
    (rules.negated_condition, "logical_not(B) ? A : 0", (*F, *N)),
    (rules.compare_bool, "(A < B) == (1 < 2)", (*F, *N)),
    (rules.compare_bool, "(A < B) != (2 < 1)", (*F, *N)),
    (rules.small_power, "pow(A, 1)", F),
    (rules.small_power, "pow(A, 2)", F),
]
MORE = ["ceil(A)", "round(A)", "trunc(A)", "0 + A", "0 | A", "A ^ 0", "min(A, A)", "A | A", "1 > 2 ? A : B"]
PAIRS = [(rule, text, dtype) for rule, text, dtypes in LAWS for dtype in dtypes]


@pytest.mark.parametrize(("rule", "text", "dtype"), PAIRS, ids=lambda value: getattr(value, "law", value))
def test_law(rule: Rule[Site], text: str, dtype: DType) -> None:
    function, inputs = inferred(text, dtype)
    after = fired(rule, function)
    assert after is not None
    verify(after)
    assert_same_bits(interpret(function, inputs), interpret(after, inputs))


def constants(op: Op, dtype: DType, numbers: tuple[float, ...]) -> Function:
    """Build an operation on constants; the first of a condition is bool."""
    dtypes = [DType.BOOL if op is Op.COND and position == 0 else dtype for position in range(op.info.arity)]
    operands = [Constant(f"C{k}", d, rounded(numbers[k], d)) for k, d in enumerate(dtypes)]
    result = DType.BOOL if op.info.compares else dtype
    return Function((), ("R",), (*operands, Elementwise("R", op, tuple(c.name for c in operands), result, ())))


@pytest.mark.sampled(155)
@pytest.mark.parametrize("op", [op for op in COMPUTING if op is not Op.IDENT])
@pytest.mark.parametrize("dtype", DType)
def test_constants_fold_to_what_running_gives(op: Op, dtype: DType) -> None:
    for numbers in ((0.0, -0.0, 1.5), (-2.5, 2.0, 0.0), (100.0, 100.0, 1.0), (float("nan"), 1.0, float("inf"))):
        function = constants(op, dtype, numbers if dtype.is_float else tuple(map(np.nan_to_num, numbers)))
        if list(check_function(function)):
            continue  # not in the domain of the operation
        after = fired(rules.fold_constants, function)
        assert after is not None
        verify(after)
        assert_same_bits(interpret(function, {}), interpret(after, {}))
        assert isinstance(simplify(function).operations[0], Constant)


def test_casts_of_constants_fold() -> None:
    for source in DType:
        for target in DType:
            constant = Constant("C", source, rounded(-2.75, source))
            function = Function((), ("R",), (constant, Cast("R", "C", target, ())))
            after = fired(rules.fold_cast, function)
            assert after is not None
            verify(after)
            assert_same_bits(interpret(function, {}), interpret(after, {}))


def test_operations_without_effect_go() -> None:
    value = Value("A", DType.F32, (2, 3))
    for operation in (Cast("R", "A", DType.F32, (2, 3)), Reshape("R", "A", DType.F32, (2, 3))):
        last = Elementwise("O", Op.NEG, ("R",), DType.F32, (2, 3))
        function = simplify(Function((value,), ("O",), (operation, last)))
        assert function.operations == (attrs.evolve(last, inputs=("A",)),)


def test_every_rule_is_tested() -> None:
    known = {value for value in vars(rules).values() if isinstance(value, Rule)}
    elsewhere = {rules.fold_constants, rules.fold_cast, rules.same_cast, rules.same_reshape}
    assert known == {rule for rule, _, _ in LAWS} | elsewhere


LOOK_ALIKES = [
    ("A + 0.0", DType.F32),  # -0.0 + 0.0 is 0.0
    ("0.0 + A", DType.F32),
    ("A - (-0.0)", DType.F32),
    ("0.0 - A", DType.F32),
    ("A * 0", DType.F32),
    ("A - A", DType.F32),
    ("A / A", DType.F32),
    ("A == A", DType.F32),
    ("A + (-1)", DType.I8),
    ("A * (-1)", DType.I8),
    ("max(A, B)", DType.I8),
    ("-(~A)", DType.I8),
    ("as_i8(as_f32(A))", DType.F32),
    ("as_f32(as_f16(A))", DType.F32),
    ("as_i32(as_u32(A))", DType.I32),
    ("as_i64(as_i16(A))", DType.I32),
    ("pow(A, 3)", DType.F32),
    ("abs(-A)", DType.U16),
    ("floor(A)", DType.F32),
    ("A < B ? A : B", DType.F32),
    ("A < B ? B : 0", DType.I8),
    ("A == B", DType.BOOL),
    ("(A < B) == (2 < 1)", DType.I8),
    ("(A < B) != (1 < 2)", DType.I8),
    ("A == 1", DType.I8),
    ("1 / A", DType.F32),
    ("A << 1", DType.I8),
    ("A & 0", DType.I8),
    ("A ^ A", DType.I8),
    ("~(-A)", DType.I8),
    ("abs(~A)", DType.I8),
    ("reshape(A, 2, 4)", DType.I8),
]


def outcomes(text: str) -> list[str]:
    """Return what becomes of an expression, T being the dtype of its operands, with the dtypes for which it does."""
    found: dict[str, list[str]] = {}
    for dtype in DType:
        try:
            function, _ = inferred(text, dtype)
        except TileError:
            continue
        lines = to_text(simplify(function)).splitlines()[4:-1]
        after = "; ".join(re.sub(rf"\b{dtype.value}\b", "T", line.strip()) for line in lines)
        found.setdefault(after, []).append(dtype.value)
    return [f"    {after}    ({' '.join(dtypes)})\n" for after, dtypes in found.items()]


@pytest.mark.sampled(0)
def test_rules_fit_where_they_did(golden: Callable[[str], None]) -> None:
    casts = [f"as_{outer}(as_{inner}(A))" for inner in ("f16", "f32", "i16") for outer in ("i8", "u32", "i64", "f64")]
    texts = dict.fromkeys((*(text for _, text, _ in LAWS), *MORE, *(text for text, _ in LOOK_ALIKES), *casts))
    golden("".join(f"{text}\n{''.join(outcomes(text))}" for text in texts))


@pytest.mark.parametrize(("text", "dtype"), LOOK_ALIKES)
def test_look_alikes_stay(text: str, dtype: DType) -> None:
    function, inputs = inferred(text, dtype)
    after = simplify(function)
    assert len(after.operations) == len(function.operations) or text.startswith("as_f32(as_f16")
    assert_same_bits(interpret(function, inputs), interpret(after, inputs))


def test_integers_that_a_float_holds_still_wrap_afterwards() -> None:
    function, inputs = inferred("as_i8(as_f32(A))", DType.I16)
    inputs["A"] = np.array([300, -300, 5, 0, 0, 0, 0, 0], np.int16)
    after = simplify(function)
    assert len(after.operations) == 2
    assert interpret(after, inputs)["O"].tolist()[:3] == [127, -128, 5]


def simplified(text: str, **types: TensorType) -> str:
    return to_text(simplify(infer(parse(text), types)))


def test_common_values_are_computed_once() -> None:
    text = """function (A, B) -> (O, P) {
      X = A + B; Y = B + A; O = X * 2 + exp(Y); P[i : 3] = +(X[i] * Y[i]);
    }"""
    types = {name: TensorType(DType.F32, (3,)) for name in "AB"}
    assert simplified(text, **types) == (
        "function (\n  A: f32[3],\n  B: f32[3],\n) -> (O, P) {\n"
        "  X: f32[3] = add(A, B)\n"
        "  O_0: f32[] = constant(2.0)\n"
        "  O_1: f32[3] = mul(X, O_0)\n"
        "  O_2: f32[3] = exp(X)\n"
        "  O: f32[3] = add(O_1, O_2)\n"
        "  P: f32[3] = [i] +(X[i] * X[i])\n"
        "}\n"
    )


def test_outputs_name_what_they_copy() -> None:
    text = "function (A) -> (O, P, Q) { X = A + 1; O = X; P = X; Q = A; [[pid(dead)]] D = X * X; }"
    function = infer(parse(text), {"A": TensorType(DType.F32, (3,))})
    assert function.labels == (("D", "dead"),)
    after = simplify(function)
    assert [operation.name for operation in after.operations] == ["X_0", "O", "P", "Q"]
    assert after.labels == ()
    verify(after)


def test_operations_stay_apart_without_merging() -> None:
    text = """function (S[N], A[N, M]) -> (F, O, P) {
      F = scan(S; A) function (X[N], Y[N]) -> (Z) { L = exp(Y); R = exp(Y); Z = X + L * R; };
      O = exp(S); P = exp(S);
    }"""
    types = {"S": TensorType(DType.F32, (3,)), "A": TensorType(DType.F32, (3, 3))}
    function = infer(parse(text), types)
    apart = simplify(function, merge=False)
    assert apart is function
    merged = simplify(function)
    scan = merged.operations[0]
    assert isinstance(scan, Scan)
    assert [operation.name for operation in scan.body.operations] == ["L", "Z_0", "Z"]
    assert merged.operations[-1] == Elementwise("P", Op.IDENT, ("O",), DType.F32, (3,))


def test_copies_keep_the_place_of_what_they_stand_for() -> None:
    text = "function (A) -> (O, P, Q) { O = exp(A); P = exp(A); Q = A * 1; }"
    function = infer(parse(text), {"A": TensorType(DType.F32, (3,))})
    spans = {operation.name: operation.span for operation in function.operations}
    after = simplify(function)
    assert [operation.span for operation in after.operations] == [spans[name] for name in "OPQ"]
    assert len(set(spans.values()) - {None}) >= 3


def test_folded_constants_keep_the_place_of_their_operation() -> None:
    span = parse("function (A) -> (O) { O = A + 1; }").statements[0].span
    assert span is not None
    constant = Constant("C", DType.F32, 2.0)
    for operation in (Elementwise("R", Op.NEG, ("C",), DType.F32, ()), Cast("R", "C", DType.I32, ())):
        function = Function((), ("R",), (constant, attrs.evolve(operation, span=span)))
        (folded,) = simplify(function).operations
        assert isinstance(folded, Constant)
        assert folded.span == span


def test_labels_follow_their_value() -> None:
    text = "function (A) -> (O) { [[pid(first)]] X = A + 1; [[pid(second)]] Y = 1 + A; O = Y; }"
    function = simplify(infer(parse(text), {"A": TensorType(DType.I32, (3,))}))
    assert function.labels == (("O", "first"), ("O", "second"))


def test_signs_of_zero_and_nan_do_not_merge() -> None:
    text = "function (A) -> (O, P) { O = A * 0.0; P = A * (-0.0); }"
    function = simplify(infer(parse(text), {"A": TensorType(DType.F32, ())}))
    result = interpret(function, {"A": np.array(1, np.float32)})
    assert [bool(np.signbit(result[name])) for name in "OP"] == [False, True]


@examples(150)
@given(cases(special=True, functions=True))
def test_simplified_functions_mean_the_same(case: Case) -> None:
    function = case.typed()
    after = simplify(function)
    verify(after)
    assert simplify(after) is after
    assert len(after.operations) <= len(function.operations)
    assert_same_bits(interpret(function, case.inputs), interpret(after, case.inputs))
