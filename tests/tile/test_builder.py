from __future__ import annotations

import doctest
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile import builder
from tileir.tile import builder_functions as tf
from tileir.tile.builder import Dim, FunctionBuilder, Index, Tensor
from tileir.tile.building.indices import Polynomial
from tileir.tile.functions import BUILTINS
from tileir.tile.parser import parse, parse_expression, parse_polynomial
from tileir.tile.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.ir import Function


def body(function: Function) -> list[str]:
    """Return the statements of a function that reads back as it was built."""
    text = to_text(function)
    assert parse(text) == function
    return [line.strip() for line in text.splitlines()[1:-1]]


class Parts:
    """A builder with a tensor, dimensions and indices to work with."""

    def __init__(self) -> None:
        self.f = FunctionBuilder()
        self.a = self.f.input("A", "M", "N")
        self.b = self.f.input("B", "N")
        self.x = self.f.input("X")
        self.m, self.n = self.a.dims
        self.i, self.j, self.k = self.f.indices("i j k")

    def value(self, value: Tensor) -> str:
        """Return the right side of an output."""
        return body(self.f.build(O=value))[-1].removeprefix("O = ").removesuffix(";")


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
    return name.startswith((*operators, "as_", "prng_")) or name in NAMED


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


def test_spans_are_the_lines_of_the_user(p: Parts) -> None:
    c = p.f.tensor("C", p.n)
    c[p.i] += p.b[p.i]  # this very line
    d = c + 1  # and this one
    function = p.f.build(D=d)
    lines = [statement.span.text for statement in function.statements if statement.span is not None]
    assert lines == ["c[p.i] += p.b[p.i]  # this very line", "d = c + 1  # and this one"]


def test_kinds_of_objects(p: Parts) -> None:
    assert (type(p.n), type(p.i), type(p.i + 1)) == (Dim, Index, Polynomial)
    assert p.i.name == "i"
    assert {p.x: 1}[p.x] == 1


def _twice(f: FunctionBuilder) -> None:
    c = f.tensor("C", 3)
    i = f.index("i")
    c[i] += f.scalar("S")[()]
    c[i] += f.scalar("R")[()]


MISTAKES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "an index as a tensor": ("TIL203", lambda p: p.x + p.i),
    "an index as a tensor, on the left": ("TIL203", lambda p: p.i * p.x),
    "an index as an argument": ("TIL203", lambda p: tf.exp(p.i)),
    "an index in a combination": ("TIL203", lambda p: p.b[p.i] * p.i),
    "a dimension in a combination": ("TIL205", lambda p: p.b[p.i] * p.n),
    "a number in a combination": ("TIL215", lambda p: p.b[p.i] * 2),
    "a number before a combination": ("TIL215", lambda p: 2 * p.b[p.i]),
    "a tensor in a combination": ("TIL215", lambda p: p.b[p.i] * p.x),
    "a combination with an array": ("TIL215", lambda p: p.b[p.i] * np.ones(3)),
    "an element in an operator": ("TIL215", lambda p: p.x + p.b[p.i]),
    "an element as an argument": ("TIL215", lambda p: tf.exp(p.b[p.i])),
    "a difference of elements": ("TIL215", lambda p: p.b[p.i] - p.b[p.j]),
    "a negated element": ("TIL215", lambda p: -p.b[p.i]),
    "three elements": ("TIL210", lambda p: p.b[p.i] * p.b[p.j] * p.b[p.k]),
    "an element of an element": ("TIL215", lambda p: p.b[p.i][p.j]),
    "the truth of an element": ("TIL215", lambda p: bool(p.b[p.i] == p.b[p.j])),
    "a condition that is no equality": ("TIL210", lambda p: tf.where(p.b[p.i] * p.b[p.j], p.b[p.k])),
    "a conditional of two elements": ("TIL210", lambda p: tf.where(p.b[p.i] == p.b[p.j], p.b[p.k] * p.b[p.i])),
    "an else in a contraction": ("TIL210", lambda p: tf.where(p.b[0] == p.b[1], p.b[2], p.b[3])),
    "no else": ("TIL207", lambda p: tf.where(p.x, p.x)),
    "a product of indices": ("TIL402", lambda p: p.i * p.j),
    "a quotient of indices": ("TIL402", lambda p: p.i / p.j),
    "a number by an index": ("TIL402", lambda p: 3 // p.i),
    "an index by zero": ("TIL402", lambda p: p.i / 0),
    "a remainder of an index": ("TIL402", lambda p: p.i % 2),
    "a float index": ("TIL214", lambda p: p.b[0.5]),
    "a float factor of an index": ("TIL214", lambda p: p.i * 0.5),
    "a text as an index": ("TIL215", lambda p: p.b["i"]),
    "a truth value as an index": ("TIL215", lambda p: p.b[True]),
    "a slice": ("TIL215", lambda p: p.b[1:3]),
    "an ellipsis": ("TIL215", lambda p: p.b[...]),
    "a tensor as an index": ("TIL204", lambda p: p.b[p.x]),
    "a fractional dimension as an index": ("TIL215", lambda p: p.b[p.i + p.n * 0.5]),
    "too few indices": ("TIL209", lambda p: p.a[p.i]),
    "too many indices": ("TIL209", lambda p: p.b[p.i, p.j]),
    "another number of indices than before": ("TIL209", lambda p: (p.x[p.i], p.x[p.i, p.j])),
    "a bound with an index": ("TIL402", lambda p: p.i < p.j),
    "a tensor as a bound": ("TIL204", lambda p: p.i < p.x),
    "another comparison of an index": ("TIL214", lambda p: p.i >= 3),
    "no constraint": ("TIL215", lambda p: p.b[p.i].given(True)),
    "the truth of a tensor": ("TIL215", lambda p: p.x if p.x > 0 else -p.x),
    "the truth of an index": ("TIL215", lambda p: bool(p.i)),
    "the truth of a dimension": ("TIL215", lambda p: bool(p.n)),
    "an iterated tensor": ("TIL215", lambda p: list(p.x)),
    "an iterated index": ("TIL215", lambda p: list(p.i)),
    "an iterated dimension": ("TIL205", lambda p: list(p.n)),
    "the length of a tensor": ("TIL215", lambda p: len(p.x)),
    "an element of a dimension": ("TIL205", lambda p: p.n[p.i]),
    "a range of a dimension": ("TIL215", lambda p: range(p.n)),
    "a range of an index": ("TIL215", lambda p: range(p.i)),
    "an array of a tensor": ("TIL215", lambda p: np.asarray(p.x)),
    "a tensor with an array": ("TIL215", lambda p: p.x + np.ones(3)),
    "an array with a tensor": ("TIL215", lambda p: np.ones(3) + p.x),
    "a tensor with a text": ("TIL215", lambda p: p.x + "1"),
    "a tensor with nothing": ("TIL215", lambda p: p.x == None),  # noqa: E711
    "a tensor with NaN": ("TIL212", lambda p: p.x + float("nan")),
    "a tensor with a huge integer": ("TIL104", lambda p: p.x + 2**64),
    "an integer quotient of tensors": ("TIL215", lambda p: p.x // 2),
    "an integer quotient by a tensor": ("TIL215", lambda p: 2 // p.x),
    "a function that there is not": ("TIL206", lambda p: tf.call("exo", p.x)),
    "too few arguments": ("TIL207", lambda p: tf.call("pow", p.x)),
    "arguments without a tensor": ("TIL215", lambda _: tf.exp(2)),
    "a tensor as an axis": ("TIL204", lambda p: tf.index(p.x, p.x)),
    "no element type": ("TIL206", lambda p: tf.cast(p.x, "f8")),
    "a name that is taken": ("TIL202", lambda p: p.f.input("A")),
    "a tensor called as a dimension": ("TIL202", lambda p: p.f.tensor("N", 3)),
    "a dimension called as a tensor": ("TIL202", lambda p: p.f.input("C", "A")),
    "a name of blanks": ("TIL211", lambda p: p.f.input("a b")),
    "a name that is no text": ("TIL211", lambda p: p.f.input(3)),
    "a dimension that is no name": ("TIL211", lambda p: p.f.input("C", 3)),
    "a dimension that is computed": ("TIL215", lambda p: p.f.input("C", p.n + 1)),
    "an index with a bad name": ("TIL211", lambda p: p.f.indices("i 2j")),
    "an attribute with a bad name": ("TIL211", lambda p: p.f.label("a b")),
    "a tensor as a size": ("TIL204", lambda p: p.f.tensor("C", p.x)),
    "an index as a size": ("TIL204", lambda p: p.f.tensor("C", p.i)),
    "a float as a size": ("TIL215", lambda p: p.f.tensor("C", 2.0)),
    "a text as a size": ("TIL215", lambda p: p.f.tensor("C", "N")),
    "a default of another rank": ("TIL209", lambda p: p.f.tensor("C", p.n, default=p.a)),
    "a number as a default": ("TIL205", lambda p: p.f.tensor("C", p.n, default=0)),
    "an undefined tensor in an operator": ("TIL201", lambda p: p.f.tensor("C", p.n) + 1),
    "an undefined tensor in a combination": ("TIL201", lambda p: p.f.sum(p.f.tensor("C", 3)[p.i], [], [])),
    "an undefined default": ("TIL201", lambda p: p.f.tensor("D", p.n, default=p.f.tensor("C", p.n))),
    "another number of indices than sizes": ("TIL208", lambda p: p.f.sum(p.b[p.i], [p.i], [])),
    "a tensor to aggregate": ("TIL215", lambda p: p.f.sum(p.x, [p.i], [p.n])),
    "a tensor defined twice": ("TIL202", lambda p: _twice(p.f)),
    "an aggregation onto an input": ("TIL202", lambda p: p.b[p.i].sum(p.b[p.i])),
    "a comparison of elements": ("TIL202", lambda p: p.b[p.i] >= p.b[p.j]),
    "an assignment to an input": ("TIL202", lambda p: operator.setitem(p.b, p.i, p.a[p.i, p.j])),
    "an aggregation of another tensor": (
        "TIL215",
        lambda p: operator.setitem(p.b, p.i, p.f.tensor("C", 3)[p.i].__iadd__(p.b[p.i])),
    ),
    "a chain of comparisons": ("TIL215", lambda p: p.f.tensor("C", 3)[p.i] >= p.b[p.i] == p.b[p.j]),
    "a subtraction onto a tensor": ("TIL215", lambda p: p.f.tensor("C", 3)[p.i].__isub__(p.b[p.i])),
    "sizes that were not declared": ("TIL209", lambda p: p.x.dims),
    "a dimension of another builder": ("TIL216", lambda p: p.f.tensor("C", Parts().n)),
    "a dimension of another builder in arithmetic": ("TIL216", lambda p: p.n + Parts().m),
    "an index of another builder": ("TIL216", lambda p: p.b[Parts().i]),
    "indices of two builders": ("TIL216", lambda p: p.i + Parts().i),
    "a tensor of another builder": ("TIL216", lambda p: p.x + Parts().x),
    "an element of another builder": ("TIL216", lambda p: p.b[p.i] * Parts().b[0]),
    "a dimension name of another builder": ("TIL216", lambda p: p.f.input("C", Parts().n)),
    "an output of another builder": ("TIL216", lambda p: p.f.build(Parts().x)),
    "no output": ("TIL213", lambda p: p.f.build()),
    "a dimension as an output": ("TIL205", lambda p: p.f.build(p.n)),
    "an undefined output": ("TIL201", lambda p: p.f.build(p.f.tensor("C", p.n))),
    "a tensor that no contraction defines": ("TIL201", lambda p: (p.f.tensor("C", p.n), p.f.build(p.x))),
    "a value after the end": ("TIL216", lambda p: (p.f.build(p.x), p.x + 1)),
    "an input after the end": ("TIL216", lambda p: (p.f.build(p.x), p.f.input("C"))),
    "a second end": ("TIL216", lambda p: (p.f.build(p.x), p.f.build(p.x))),
    "a contraction after the end": ("TIL216", lambda p: (p.f.build(p.x), p.f.sum(p.b[p.i], [], []))),
    "an index that is only bounded": ("TIL403", lambda p: p.f.build(p.f.sum(p.b[p.i].given(p.j < 3), [], []))),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(p: Parts, name: str) -> None:
    code, make = MISTAKES[name]
    with pytest.raises(TileError) as caught:
        make(p)
    (fault,) = caught.value.diagnostics
    assert fault.code == code
    assert fault.span is not None
    assert fault.span.source.name == __file__


def test_a_mistake_shows_the_line() -> None:
    f = FunctionBuilder()
    a = f.input("A", "N")
    i, j = f.indices("i j")
    with pytest.raises(TileError) as caught:
        a[i * j]  # type: ignore[operator]
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.underlined) == ("TIL402", "a[i * j]  # type: ignore[operator]")


def test_a_polynomial_without_end_is_refused(p: Parts) -> None:
    def doubled(polynomial: Polynomial, times: int) -> Polynomial:
        return polynomial if times == 0 else doubled(polynomial + polynomial, times - 1)

    assert doubled(p.i, 5).size == 63
    with pytest.raises(TileError) as caught:
        doubled(p.i, 100)
    assert [d.code for d in caught.value.diagnostics] == ["TIL103"]


def test_many_statements(p: Parts) -> None:
    value = p.x
    for number in range(2000):
        value = p.f.let(f"V{number}", value * 2 + p.b)
    assert len(p.f.build(value).statements) == 2000


def test_the_example_of_the_documentation_works() -> None:
    assert doctest.testmod(builder).failed == 0
