"""Typed operations of each function, operator and statement of Tile: dtypes, shapes, and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tileir.core.combines import Combine
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.tile.functions import BUILTINS
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable

TYPES: Final = {
    "A": TensorType(DType.F32, (2, 3)),
    "B": TensorType(DType.I8, (3,)),
    "C": TensorType(DType.BOOL, (2, 1)),
    "D": TensorType(DType.U32, (4,)),
    "E": TensorType(DType.F16, (2, 3)),
    "I": TensorType(DType.I64, ()),
    "N": TensorType(DType.F64, (), weak=True),
    "K": TensorType(DType.I32, (), weak=True),
}
OPERATORS: Final = [
    *(f"A {operator} {other}" for operator in ("+", "-", "*", "/", "<", "==") for other in ("B", "E", "2", "I")),
    *(f"B {operator} {other}" for operator in ("&", "|", "^", "<<", ">>") for other in ("C", "3", "I")),
    *(f"{left} + {right}" for left in ("C", "D", "E", "I") for right in ("C", "1", "1.5", "I", "C * 2.5")),
    *(
        "C + C",
        "C < C",
        "C << C",
        "C & 1",
        "-C",
        "~C",
        "-B",
        "~B",
        "mod(B, C)",
        "max(A, E)",
        "2 * 3 + A",
        "1 / 2 * A",
        "7 / 2 + B",
    ),
    *("C ? A : B", "A ? 1 : B", "B ? 1 : 2.5", "I ? C : C", "1 ? A : B", "0.0 ? A : B", "C ? 1 : 0", "2.5 ? 1 : A"),
    *("2", "2.5", "3000000000", "1 < 2", "A", "2 < 1 ? 3 : 4.5"),
]
CALLS: Final = {
    "recip": ("recip(A)", "recip(B)", "recip(4)"),
    "relu": ("relu(A)", "relu(B)", "relu(-2)"),
    "sign": ("sign(A)", "sign(D)", "sign(C)", "sign(-2.5)"),
    "logical_and": ("logical_and(A, C)", "logical_and(B, 2)"),
    "logical_or": ("logical_or(A, C)", "logical_or(0.0, C)"),
    "logical_not": ("logical_not(A)", "logical_not(C)", "logical_not(3)"),
    "where": ("where(C, A, E)",),
    "as_bool": ("as_bool(A)", "as_bool(B, 1)", "as_bool(2)"),
    "as_float": ("as_float(B, 16)", "as_float(2, 64)"),
    "as_int": ("as_int(A, 8)",),
    "as_uint": ("as_uint(A, 64)",),
    "as_like": ("as_like(A, B)", "as_like(2, E)", "as_like(A, 2)"),
    "quantize": ("quantize(A)",),
    "size": ("reshape(A, size(A, 1), size(A, -2))", "size(A, 0) + B", "size(A, 2)", "size(2, 0)"),
    "expect_sizes": ("expect_sizes(A, 2, 3)", "expect_sizes(A, 3, 2)", "expect_sizes(2)"),
    "bits_as_i32": ("bits_as_i32(A)", "bits_as_i32(2.5)", "bits_as_i32(as_f16(A))"),
    "widen": ("widen(A)", "widen(as_f16(A))", "widen(2)"),
    "match": ("reshape(A, match(6, 6))",),
    "broadcast": ("reshape(A, broadcast(1, 6))", "reshape(A, broadcast(6, 1))", "reshape(A, broadcast(6, 6))"),
    "stop_gradient": ("stop_gradient(A)", "stop_gradient(2) * A"),
    "checkpoint": ("checkpoint(A * 2)", "checkpoint(2) * A"),
    "reverse_grad": ("reverse_grad(A, 2)", "reverse_grad(B, 2)", "reverse_grad(A, E)"),
    "builtin_binary_crossentropy": (
        "builtin_binary_crossentropy(A, E, 2)",
        "builtin_binary_crossentropy(A, 1, 6.0)",
        "builtin_binary_crossentropy(gather(A, 0), A, 1)",
    ),
    "override_gradient": ("override_gradient(A * 2, A, E, E, 1)", "override_gradient(A, E, gather(E, 0))"),
    "builtin_softmax": ("builtin_softmax(A)", "builtin_softmax(B)", "builtin_softmax(E, 2, 3)"),
    "builtin_logsoftmax": ("builtin_logsoftmax(A)",),
    "index": ("index(A, 1)", "index(A, -2)", "index(B, 0)"),
    "shape": ("shape(A)", "shape(I)"),
    "reshape": ("reshape(A, 3, 2)", "reshape(I)", "reshape(A, 2, 3)", "reshape(2)"),
    "argsort": ("argsort(A, 1)", "argsort(A, -2, 1)", "argsort(B, 0, 0, 2)"),
    "gather": ("gather(A, B)", "gather(A, 1)", "gather(B, D)"),
    "scatter": ("scatter(A, reshape(as_i32(I), 1) * 0 + shape(A), E)", "scatter(D, as_i32(D), B)"),
    "scatter_mul": ("scatter_mul(D, as_i32(D), B)", "scatter_mul(B, as_i32(B), B)"),
    "scatter_max": ("scatter_max(D, as_i32(D), B)",),
    "scatter_min": ("scatter_min(D, as_i32(D), B)",),
    "scatter_assign": ("scatter_assign(B, as_i32(B), B)", "scatter_assign(D, as_i32(D), B)"),
    "scatter_last": ("scatter_last(B, as_i32(B), B)", "scatter_last(D, as_i32(D), B)"),
    "simple_reduce": ("simple_reduce(A, 1, 3)", "simple_reduce(A)", "simple_reduce(E, 3)", "simple_reduce(A, 2, 3)"),
    "prng_state": ("prng_state(prng_step(D, 3))",),
    "element": ("element(tuple(A, B), 1)",),
}
ELSEWHERE: Final = {"prng_step", "prng_value", "tuple", "upstream", "gradient", "vjp", "jvp"} | {
    f"reduce_{combine.value}" for combine in Combine
}
STATEMENTS: Final = [
    "O[i : 2] = +(A[i, j]);",
    "O[i, k : 2, 2] = +(A[i, j] * E[k, j]);",
    "O[i, k : 2, 2] = >(A[i, j] + B[j]), j + k < 3;",
    "O[i, j : 2, 3] = =(C[i, 0] == E[i, j] ? A[i, j]);",
    "O[i : 4] = +(B[i / 2]) default D;",
    "O[2 * i + 1 : 7] = =(B[i]) no_defract;",
    "X = 2; O[i : X + 1] = +(B[i * X - X]);",
    "O[] = *(B[i]);",
    "O[i : 3] = <(B[i]);",
    "X = exp(A); Y = X; O = Y;",
    "[[pid(first)]] X = A + 1; [[ties(even)]] Y[i : 2] = >(X[i, j]); O = Y;",
    "Y = A * 2; O = override_gradient(Y, A, upstream(Y) * upstream(Y));",
    "O = scan(B; A) function (X, Y) -> (Z) { Z = X + as_i8(Y); };",
    "M = as_i16(2); O = scan(M; D) function (X, Y) -> (Z) { Z = X + as_i16(Y); };",
    "M = 2; O = scan(M; D) function (X, Y) -> (Z) { Z = X + as_i8(Y); };",
    "O = scan(N; D) function (X, Y) -> (Z) { Z = X + Y; };",
    "O = override_gradient(A * N, N, simple_reduce(A));",
    "O = override_gradient(A * K, K, simple_reduce(A));",
    "O = A * N + B * K;",
    "P = scan(B; A) reverse function (X, Y) -> (Z, W) { Z = X + as_i8(Y); W = Y; }; O = element(P, 1);",
]


def described(statements: str) -> str:
    text = f"function (A, B, C, D, E, I, N, K) -> (O) {{ {statements} }}"
    try:
        function = infer(parse(text), TYPES)
    except TileError as error:
        return "".join((f"{statements}\n", *(f"    {found.code} {found.message}\n" for found in error.diagnostics)))
    places = {operation.name: operation.span for operation in function.operations}
    lines = [statements]
    for line in to_text(function).split(" -> (O) {\n", 1)[1].splitlines()[:-1]:
        name = line.strip().partition(":")[0]
        place = places.get(name) if line.startswith("  ") and not line.startswith("   ") else None
        lines.append(f"  {line}" + (f"    # {place.text}" if place is not None else ""))
    lines += [f"    label {name} {label}" for name, label in function.labels]
    return "\n".join(lines) + "\n"


def test_operators(golden: Callable[[str], None]) -> None:
    golden("".join(described(f"O = {text};") for text in OPERATORS))


def test_functions(golden: Callable[[str], None]) -> None:
    golden("".join(described(f"O = {text};") for texts in CALLS.values() for text in texts))


def test_statements(golden: Callable[[str], None]) -> None:
    golden("".join(map(described, STATEMENTS)))


def test_every_function_has_a_row() -> None:
    known = {
        name for name, row in BUILTINS.items() if row.op is None and not name.startswith(("as_", "bits_as_", "expect_"))
    }
    assert known <= {*CALLS, *ELSEWHERE}
