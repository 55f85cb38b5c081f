from __future__ import annotations

import doctest
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from strategies.tile_parts import Parts, body
from tileir.core.dtype import DType
from tileir.tile import builder, builder_functions as tf
from tileir.tile.builder import Dim, FunctionBuilder, Index, Tensor
from tileir.tile.building.indices import Polynomial
from tileir.tile.functions import BUILTINS
from tileir.tile.text.parser import parse, parse_expression, parse_polynomial
from tileir.tile.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def p() -> Parts:
    return Parts()


def test_matrix_product() -> None:
    f = FunctionBuilder()
    a, b = f.input("A", "M", "K"), f.input("B", "K", "N")
    i, j, k = f.indices("i j k")
    c = f.tensor("C", a.dims[0], b.dims[1])
    c[i, j] += a[i, k] * b[k, j]
    function = f.build(c)
    assert function == parse("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }")


def test_every_aggregation(p: Parts) -> None:
    a, b, i, j, n = p.a, p.b, p.i, p.j, p.n
    c = [p.f.tensor(f"C{number}", n) for number in range(5)]
    c[0][j] += a[i, j]
    c[1][j] *= a[i, j] + b[j]
    c[2][j] >= a[i, j] * b[j]  # noqa: B015  a statement
    c[3][j] <= (a[i, j] == b[j])  # noqa: B015
    c[4][j] = tf.where(a[0, j] == b[j], b[0])
    statements = [
        "C0[j : N] = +(A[i, j]);",
        "C1[j : N] = *(A[i, j] + B[j]);",
        "C2[j : N] = >(A[i, j] * B[j]);",
        "C3[j : N] = <(A[i, j] == B[j]);",
        "C4[j : N] = =(A[0, j] == B[j] ? B[0]);",
    ]
    assert body(p.f.build(*c)) == statements


def test_every_aggregation_by_name(p: Parts) -> None:
    a, i, j, n = p.a, p.i, p.j, p.n
    forms = (p.f.sum, p.f.prod, p.f.max, p.f.min, p.f.assign)
    results = [form(a[i, j], [j], [n], name=f"C{number}") for number, form in enumerate(forms)]
    targets = [p.f.tensor(f"D{number}", n) for number in range(5)]
    targets[0][j].sum(a[i, j])
    targets[1][j].prod(a[i, j])
    targets[2][j].max(a[i, j])
    targets[3][j].min(a[i, j])
    targets[4][j].assign(a[i, j])
    signs = "+*><="
    statements = [f"{name}{number}[j : N] = {signs[number]}(A[i, j]);" for name in "CD" for number in range(5)]
    assert body(p.f.build(*results, *targets)) == statements


def test_constraints_defaults_and_rank_0(p: Parts) -> None:
    a, b, i, j, k, n = p.a, p.b, p.i, p.j, p.k, p.n
    c = p.f.tensor("C", n, default=b, no_defract=True)
    c[2 * i] += (a[k, i] * b[j].given(k - j < 3)).given(i - j < n // 2, k < n)
    d = p.f.tensor("D")
    d[()] >= c[i]  # noqa: B015
    e = p.f.sum(a[i, j].given(i - j < n), (i,), (n,), default=c)
    assert body(p.f.build(c, d, E=e)) == [
        "C[2 * i : N] = +(A[k, i] * B[j]), k - j < 3, i - j < N / 2, k < N no_defract default B;",
        "D[] = >(C[i]);",
        "E[i : N] = +(A[i, j]), i - j < N default C;",
    ]


def test_what_is_read_once_is_nested_and_what_is_read_twice_is_not(p: Parts) -> None:
    once = tf.tanh(p.x * 2 + 1.5)
    twice = p.x + p.b
    unused = p.x * p.x
    assert isinstance(unused, Tensor)
    assert body(p.f.build(O=once - twice / twice)) == ["T = X + B;", "O = tanh(X * 2 + 1.5) - T / T;"]


def test_long_expressions_are_split_and_deep_sharing_stays_small(p: Parts) -> None:
    value = p.x
    for _ in range(300):
        value = value + value
    for _ in range(300):
        value = tf.exp(value)
    statements = body(p.f.build(O=value))
    assert len(statements) < 400
    assert max(map(len, statements)) < 120


def test_names_that_the_user_chose_are_kept(p: Parts) -> None:
    t = p.f.let("T", p.x + 1)
    alias = p.f.let("alias", t)
    three = p.f.let("Three", 3)
    size = p.f.let("Size", p.m * p.n)
    total = t * alias + three - size
    assert body(p.f.build(total, total * total)) == [
        "T = X + 1;",
        "#alias = T;",
        "Three = 3;",
        "Size = M * N;",
        "T_0 = T * #alias + Three - Size;",
        "T_1 = T_0 * T_0;",
    ]


def test_labels_and_attributes(p: Parts) -> None:
    with p.f.label("dense"), p.f.attribute("hot"):
        c = p.f.sum(p.a[p.i, p.j], [p.i], [p.m])
        d = c + 1
    assert body(p.f.build(O=-d)) == [
        "[[pid(dense)]] [[hot]] T[i : M] = +(A[i, j]);",
        "[[pid(dense)]] [[hot]] T_0 = T + 1;",
        "O = -T_0;",
    ]


def test_outputs_may_repeat_and_may_be_inputs(p: Parts) -> None:
    y = p.x + 1
    function = p.f.build(p.a, y, y, p.a, z=y)
    assert to_text(function) == (
        "function (A[M, N], B[N], X) -> (A, #z, T, T_0, T_1) {\n  #z = X + 1;\n  T = #z;\n  T_0 = A;\n  T_1 = #z;\n}\n"
    )


UNARY = [(operator.neg, "-{}"), (operator.invert, "~{}"), (operator.pos, "{}"), (abs, "abs({})")]
BINARY: list[tuple[Any, str]] = [
    (operator.add, "{} + {}"),
    (operator.sub, "{} - {}"),
    (operator.mul, "{} * {}"),
    (operator.truediv, "{} / {}"),
    (operator.mod, "mod({}, {})"),
    (operator.pow, "pow({}, {})"),
    (operator.and_, "{} & {}"),
    (operator.or_, "{} | {}"),
    (operator.xor, "{} ^ {}"),
    (operator.lshift, "{} << {}"),
    (operator.rshift, "{} >> {}"),
]
COMPARISONS: list[tuple[Any, str, str]] = [
    (operator.lt, "<", ">"),
    (operator.le, "<=", ">="),
    (operator.gt, ">", "<"),
    (operator.ge, ">=", "<="),
    (operator.eq, "==", "=="),
    (operator.ne, "!=", "!="),
]
SCALARS: list[tuple[Any, str]] = [
    (3, "3"),
    (-3, "-3"),
    (2.5, "2.5"),
    (-2.5, "-2.5"),
    (float("inf"), "1e999"),
    (True, "as_bool(1)"),
    (np.bool_(False), "as_bool(0)"),
    (np.int8(-3), "-3"),
    (np.uint64(2**64 - 1), str(2**64 - 1)),
    (np.float32(0.5), "0.5"),
    (np.float64(0.1), "0.1"),
]


@pytest.mark.parametrize(("function", "form"), UNARY)
def test_unary_operators(p: Parts, function: Callable[[Tensor], Tensor], form: str) -> None:
    assert p.value(function(p.x)) == form.format("X")


@pytest.mark.sampled(80)
@pytest.mark.parametrize(("function", "form"), BINARY)
@pytest.mark.parametrize(("scalar", "spelt"), SCALARS)
def test_operators_both_ways_round_with_numbers(p: Parts, function: Any, form: str, scalar: Any, spelt: str) -> None:
    left, right = function(p.x, scalar), function(scalar, p.x)
    assert body(p.f.build(L=left, R=right)) == [f"L = {form.format('X', spelt)};", f"R = {form.format(spelt, 'X')};"]


@pytest.mark.parametrize(("function", "sign", "mirrored"), COMPARISONS)
@pytest.mark.parametrize(("scalar", "spelt"), SCALARS)
def test_comparisons_both_ways_round(
    p: Parts, function: Any, sign: str, mirrored: str, scalar: Any, spelt: str
) -> None:
    left, right = function(p.x, scalar), function(scalar, p.x)
    assert body(p.f.build(L=left, R=right)) == [f"L = X {sign} {spelt};", f"R = X {mirrored} {spelt};"]


@pytest.mark.parametrize(("function", "form"), BINARY)
def test_operators_both_ways_round_with_dimensions_and_tensors(p: Parts, function: Any, form: str) -> None:
    values = {"L": function(p.x, p.n), "R": function(p.n, p.x), "T": function(p.x, p.b)}
    expected = [form.format(*names) for names in (("X", "N"), ("N", "X"), ("X", "B"))]
    assert body(p.f.build(**values)) == [f"{name} = {text};" for name, text in zip("LRT", expected, strict=True)]


@pytest.mark.parametrize(("function", "sign", "mirrored"), COMPARISONS)
def test_comparisons_with_dimensions(p: Parts, function: Any, sign: str, mirrored: str) -> None:
    values = {"L": function(p.x, p.n), "R": function(p.n, p.x)}
    assert body(p.f.build(**values)) == [f"L = X {sign} N;", f"R = X {mirrored} N;"]


ARITHMETIC: list[tuple[Any, str]] = [
    (operator.add, "+"),
    (operator.sub, "-"),
    (operator.mul, "*"),
    (operator.truediv, "/"),
    (operator.floordiv, "/"),
]


@pytest.mark.parametrize(("function", "sign"), ARITHMETIC)
def test_dimensions_both_ways_round(p: Parts, function: Any, sign: str) -> None:
    assert function(p.n, 3).expr == parse_expression(f"N {sign} 3")
    assert function(3, p.n).expr == parse_expression(f"3 {sign} N")
    assert function(np.int64(3), p.n).expr == parse_expression(f"3 {sign} N")
    assert function(p.n, p.m).expr == parse_expression(f"N {sign} M")


@pytest.mark.parametrize(("function", "sign"), ARITHMETIC)
def test_indices_both_ways_round(p: Parts, function: Any, sign: str) -> None:
    assert function(p.i, 3).expr == parse_polynomial(f"i {sign} 3")
    assert function(p.i, p.n).expr == parse_polynomial(f"i {sign} N")
    if sign in "+-":
        assert function(p.i, p.j).expr == parse_polynomial(f"i {sign} j")
    if sign != "/":
        assert function(3, p.i).expr == parse_polynomial(f"3 {sign} i")
        assert function(np.int32(3), p.i).expr == parse_polynomial(f"3 {sign} i")
        assert function(p.n, p.i).expr == parse_polynomial(f"N {sign} i")


def test_more_arithmetic_of_dimensions_and_indices(p: Parts) -> None:
    assert (-p.n % 2).expr == parse_expression("mod(-N, 2)")
    assert (7 % p.n).expr == parse_expression("mod(7, N)")
    assert p.n.max(3).min(p.m).expr == parse_expression("min(max(N, 3), M)")
    assert (-p.i + +p.n).expr == parse_polynomial("-i + N")
    assert +p.i is p.i
    constraint = operator.gt(3, p.i - 1)
    assert (constraint.polynomial, constraint.bound) == (parse_polynomial("i - 1"), parse_expression("3"))
    assert p.a.dims[1] == p.b.dims[0] == p.n
    assert p.n != p.m
    assert len({p.n, p.b.dims[0]}) == 1
    assert (repr(p.n), repr(p.n + 1), repr(p.i)) == ("Dim(N)", "Dim(…)", "Index(i)")


def test_sizes_that_a_polynomial_cannot_hold_become_statements(p: Parts) -> None:
    c = p.f.tensor("C", p.n.max(3))
    c[p.i + p.n % 2] += p.b[p.i]
    assert body(p.f.build(c)) == ["T = mod(N, 2);", "C[i + T : max(N, 3)] = +(B[i]);"]


def test_large_sizes_become_statements(p: Parts) -> None:
    size = p.n
    for _ in range(200):
        size = size * size + 1
    c = p.f.tensor("C", size)
    c[p.i] += p.b[p.i]
    statements = body(p.f.build(c))
    assert max(map(len, statements)) < 200


def test_a_sum_inside_a_contraction_reads_left_to_right(p: Parts) -> None:
    c = p.f.tensor("C", p.n)
    c[p.j] += p.b[p.j] + p.a[p.i, p.j]
    assert c.dims == (p.n,)
    assert body(p.f.build(c)) == ["C[j : N] = +(B[j] + A[i, j]);"]


NAMED = {"as_float", "as_int", "as_uint", "match", "broadcast", "tuple", "element", "where"}
PYTHON_NAMES = {
    "builtin_softmax": "softmax",
    "builtin_logsoftmax": "logsoftmax",
    "builtin_binary_crossentropy": "binary_crossentropy",
    "cond": "where",
}


@pytest.mark.parametrize("name", BUILTINS)
def test_every_function_can_be_called(p: Parts, name: str) -> None:
    row = BUILTINS[name]
    count = max(row.least, 2) if row.constants == 1 and row.least != 2 and row.most != 3 else row.least
    first = count if row.constants is None else row.constants
    arguments: list[Any] = [*[p.x] * first, *[p.n] * (count - first)]
    spelt = f"{name}({', '.join(['X'] * first + ['N'] * (count - first))})"
    assert p.value(tf.call(name, *arguments)) == spelt


def _is_operator(name: str) -> bool:
    operators = ("neg", "bit_", "add", "sub", "mul", "div", "cmp_")
    return name.startswith((*operators, "as_", "bits_as_", "expect_", "prng_", "reduce_")) or name in NAMED


@pytest.mark.parametrize("name", [name for name in BUILTINS if not _is_operator(name)])
def test_every_function_has_a_python_name(p: Parts, name: str) -> None:
    row = BUILTINS[name]
    function = getattr(tf, PYTHON_NAMES.get(name, name))
    count = 2 if name in ("reshape", "simple_reduce") else row.least
    first = count if row.constants is None else row.constants
    arguments: list[Any] = [*[p.x] * first, *[1] * (count - first)]
    spelt = f"{name}({', '.join(['X'] * first + ['1'] * (count - first))})"
    assert p.value(function(*arguments)) == spelt


def test_functions_with_forms_of_their_own(p: Parts) -> None:
    value, state = tf.prng(p.x, p.n, 3)
    assert body(p.f.build(V=value, S=state, C=tf.cast(p.a, DType.BF16), D=tf.cast(p.a, "u8"))) == [
        "T = prng_step(X, N, 3);",
        "V = prng_value(T);",
        "S = prng_state(T);",
        "C = as_bf16(A);",
        "D = as_u8(A);",
    ]


def test_spans_are_the_expressions_of_the_user(p: Parts) -> None:
    c = p.f.tensor("C", p.n)
    c[p.i] += p.b[p.i]
    d = c + 1
    function = p.f.build(D=d)
    lines = [statement.span.text for statement in function.statements if statement.span is not None]
    assert lines == ["c[p.i]", "c + 1"]


def test_kinds_of_objects(p: Parts) -> None:
    assert (type(p.n), type(p.i), type(p.i + 1)) == (Dim, Index, Polynomial)
    assert p.i.name == "i"
    assert {p.x: 1}[p.x] == 1


def test_many_statements(p: Parts) -> None:
    value = p.x
    for number in range(2000):
        value = p.f.let(f"V{number}", value * 2 + p.b)
    assert len(p.f.build(value).statements) == 2000


def test_the_example_of_the_documentation_works() -> None:
    assert doctest.testmod(builder).failed == 0
