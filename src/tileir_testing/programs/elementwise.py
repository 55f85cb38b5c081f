"""Elementwise programs: dtypes, promotion, casts, broadcasting, functions, random numbers.

Constants: arrays of all dtypes in a program, as operands, tables, windows, results, and in loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tileir.core import FUNCTIONS, ArrayValue, DType
from tileir.core.numbers.arithmetic import apply, cast
from tileir.tile.text.printer import value_text
from tileir_testing.programs.case import Array, Conformance, as_array, halves, integers
from tileir_testing.programs.convolutions import correlate


def _arithmetic() -> Iterator[Conformance]:
    text = "function (A, B) -> (S, D, P) { S = A + B; D = A - B; P = A * B; }"
    for size in (32, 1024, 16384):
        a, b = halves("f4", size), halves("f4", size, seed=1)
        yield Conformance(f"arithmetic_{size}", text, {"A": a, "B": b}, {"S": a + b, "D": a - b, "P": a * b})
    for dtype in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
        a, b = integers(dtype, 9), integers(dtype, 9, seed=1)
        yield Conformance(f"arithmetic_{a.dtype}", text, {"A": a, "B": b}, {"S": a + b, "D": a - b, "P": a * b})
    a, b = as_array([1, 2, 3], "u1"), as_array([200, 200, 200], "i4")
    yield Conformance("u8_times_i32", "function (A, B) -> (O) { O = A * B; }", {"A": a, "B": b},
                      {"O": as_array([200, 400, 600], "i4")})  # fmt: skip
    a, b = as_array([7, -7, 7, -7, 7, -128, -128], "i1"), as_array([2, 2, -2, -2, 0, -1, 0], "i1")
    text = "function (A, B) -> (Q, R) { Q = A / B; R = mod(A, B); }"
    results = {"Q": as_array([3, -3, -3, 3, 0, -128, 0], "i1"), "R": as_array([1, -1, 1, -1, 0, 0, 0], "i1")}
    yield Conformance("integer_division", text, {"A": a, "B": b}, results)
    a, b = as_array([1, 0, -0.0, -1], "f4"), as_array([0, 0, 2, -0.0], "f4")
    text = "function (A, B) -> (O) { O = A / B; }"
    yield Conformance("float_division", text, {"A": a, "B": b}, {"O": as_array([np.inf, np.nan, -0.0, np.inf], "f4")})
    a = as_array([0x0F, -1, -128], "i1")
    text = """function (A) -> (N, O, X, L, R, S) {
      N = A & 6; O = A | 6; X = A ^ 6; L = A << 1; R = A >> 1; S = ~A << 9;
    }"""
    results = {"N": a & 6, "O": a | 6, "X": a ^ 6, "L": a << 1, "R": a >> 1, "S": np.zeros(3, "i1")}
    yield Conformance("bits", text, {"A": a}, results)
    a = as_array([1.5, np.nan, np.inf, -2.0], "f4")
    text = """function (A) -> (M, L, E, N, C, R) {
      M = max(A, 1.0); L = min(A, 1.0); E = A == A; N = A != A; C = A > 1 ? 1 : A < 0 ? 2 : 3; R = relu(A);
    }"""
    results = {
        "M": np.maximum(a, np.float32(1)), "L": np.minimum(a, np.float32(1)), "E": a == a, "N": a != a,
        "C": as_array([1, 3, 1, 2], "i4"), "R": as_array([1.5, np.nan, np.inf, 0], "f4"),
    }  # fmt: skip
    yield Conformance("comparisons_with_nan", text, {"A": a}, results)


def _booleans() -> Iterator[Conformance]:
    a, b = as_array([True, True, False, False], "?"), as_array([True, False, True, False], "?")
    text = """function (A, B) -> (S, P, N, O, X, I, M, L) {
      S = A + B; P = A * B; N = A & B; O = A | B; X = A ^ B; I = ~A; M = max(A, B); L = min(A, B);
    }"""
    results = {
        "S": as_array([2, 1, 1, 0], "i4"), "P": as_array([1, 0, 0, 0], "i4"), "N": a & b, "O": a | b, "X": a ^ b,
        "I": ~a, "M": a | b, "L": a & b,
    }  # fmt: skip
    yield Conformance("bool_logic", text, {"A": a, "B": b}, results)
    text = """function (A, B) -> (N, O, I, C) {
      N = logical_and(A, B); O = logical_or(A, B); I = logical_not(A); C = A ? B : 7;
    }"""
    x, y = as_array([0, 2, 0.5, np.nan], "f4"), as_array([0, 0, 3, 4], "i4")
    results = {
        "N": as_array([False, False, True, True], "?"), "O": as_array([False, True, True, True], "?"),
        "I": as_array([True, False, False, False], "?"), "C": as_array([7, 0, 3, 4], "i4"),
    }  # fmt: skip
    yield Conformance("truth_of_numbers", text, {"A": x, "B": y}, results)
    text = "function (A[N]) -> (S, M) { S[] = +(A[i]); M[] = >(A[i]); }"
    yield Conformance("sum_of_bool", text, {"A": a}, {"S": np.int32(2), "M": np.bool_(True)})


def _dtypes() -> Iterator[Conformance]:
    values = as_array([0, 1, -1, 2.5, -2.5, 300.25, -70000, 3e9, 1e20, np.inf, -np.inf, np.nan], "f8")
    for source in DType:
        given = cast(values, source)
        names = [f"R{target.value}".upper() for target in DType]
        body = " ".join(f"{name} = as_{target.value}(A);" for name, target in zip(names, DType, strict=True))
        text = f"function (A) -> ({', '.join(names)}) {{ {body} }}"
        results = {name: cast(given, target) for name, target in zip(names, DType, strict=True)}
        yield Conformance(f"casts_from_{source.value}", text, {"A": given}, results)
    given = as_array([1.75, -1.75, 300], "f4")
    text = "function (A) -> (H, B, U, W, Q) {"
    text += " H = as_float(A, 16); B = as_int(A, 8); U = as_uint(A, 8); W = as_bool(A, 1); Q = quantize(A); }"
    results = {
        "H": given.astype("f2"), "B": as_array([1, -1, 127], "i1"), "U": as_array([1, 0, 255], "u1"),
        "W": as_array([True, True, True], "?"), "Q": as_array([1, -1, 127], "i1"),
    }  # fmt: skip
    yield Conformance("casts_by_width", text, {"A": given}, results)
    inputs = {
        "A": as_array([100], "i1"), "B": as_array([0.5], "f8"), "C": as_array([3], "i4"), "D": as_array([3], "u4"),
        "E": as_array([3], "i8"), "F": as_array([0.5], "f2"), "G": as_array([True], "?"),
    }  # fmt: skip
    text = """function (A, B, C, D, E, F, G) -> (P, Q, R, S, T, U, V, W) {
      P = A + 100; Q = B + 0.1; R = C * 0.5; S = C + D; T = D + C; U = E * F; V = G + A; W = A * 2 + F;
    }"""
    results = {
        "P": as_array([-56], "i1"), "Q": as_array([0.5 + 0.1], "f8"), "R": as_array([1.5], "f4"),
        "S": as_array([6], "i4"), "T": as_array([6], "u4"), "U": as_array([1.5], "f2"), "V": as_array([101], "i1"),
        "W": as_array([-55.5], "f2"),
    }  # fmt: skip
    yield Conformance("promotion", text, inputs, results)
    text = "function () -> (I, J, F, D) { I = 3; J = 3000000000; F = 0.5; D = as_f64(0.1); }"
    results = {
        "I": as_array(3, "i4"), "J": as_array(3000000000, "i8"), "F": as_array(0.5, "f4"), "D": as_array(0.1, "f8")
    }  # fmt: skip
    yield Conformance("literals", text, {}, results)
    a, b = as_array([1.0], "f2"), as_array([0.0004883], "f2")
    yield Conformance("f16_rounds", "function (A, B) -> (O) { O = A + B; }", {"A": a, "B": b}, {"O": a + b})


def _shapes() -> Iterator[Conformance]:
    text = "function (A, B) -> (O) { O = A * B; }"
    pairs = [((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), ()), ((1,), (3, 1, 2)), ((2, 0), (1, 1)), ((), ())]
    for left, right in pairs:
        a, b = halves("f4", *left), halves("f4", *right, seed=1)
        name = f"broadcast_{'x'.join(map(str, left)) or 'scalar'}_{'x'.join(map(str, right)) or 'scalar'}"
        yield Conformance(name, text, {"A": a, "B": b}, {"O": np.asarray(a * b)})
    text = "function (A[M, N], B[N]) -> (O, P) { X = M * N; O = A / N + X; P = B - M / 2; }"
    a, b = halves("f4", 3, 4), halves("f4", 4, seed=1)
    yield Conformance("dimensions_as_numbers", text, {"A": a, "B": b}, {"O": a / 4 + 12, "P": b - 1})
    text = """function (A[M, N], B[N]) -> (O, P) {
      X = match(N, 4) * broadcast(M, 1); O = A * X; P = element(tuple(B, A), 1) + element(tuple(B, A), 0);
    }"""
    yield Conformance("constants_and_tuples", text, {"A": a, "B": b}, {"O": a * 12, "P": a + b})
    text = "function (A[N]) -> (B, C) { B = A; C = B; }"
    v = integers("i4", 3)
    yield Conformance("outputs_that_are_inputs", text, {"A": v}, {"B": v, "C": v})


def _functions() -> Iterator[Conformance]:
    x = np.linspace(0.05, 0.95, 19).astype("f4")
    table: dict[str, Callable[[Array], Array]] = {
        **{op.value: partial(apply, op) for op in FUNCTIONS},
        "sqrt": np.sqrt,
        "abs": np.abs,
        "recip": lambda v: 1 / v,
    }
    for dtype, tolerance in (("f4", 4e-7), ("f8", 1e-14), ("f2", 1e-3)):
        given = x.astype(dtype)
        for name, function in table.items():
            result = function(given.astype("f8")).astype(dtype)
            text = f"function (A) -> (O) {{ O = {name}(A); }}"
            yield Conformance(f"{name}_{given.dtype}", text, {"A": given}, {"O": result}, tolerance)
    n = as_array([0, 1, 4], "i4")
    text = "function (A) -> (E, S, P) { E = exp(A); S = sqrt(as_i64(A)); P = pow(A, 2); }"
    results = {"E": np.exp(n).astype("f4"), "S": np.sqrt(n).astype("f8"), "P": (n * n).astype("f4")}
    yield Conformance("functions_of_integers", text, {"A": n}, results, 1e-6)
    text = "function (A) -> (F, C, R, T, S) { F = floor(A); C = ceil(A); R = round(A); T = trunc(A); S = sign(A); }"
    v = as_array([-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, np.nan], "f4")
    results = {"F": np.floor(v), "C": np.ceil(v), "R": np.rint(v), "T": np.trunc(v), "S": np.sign(v)}
    yield Conformance("rounding", text, {"A": v}, results)
    a = halves("f4", 3, 5)
    powers = np.exp(a.astype("f8") - a.max(axis=1, keepdims=True))
    soft = powers / powers.sum(axis=1, keepdims=True)
    text = "function (A[R, C]) -> (S, L) { S = builtin_softmax(A, R, C); L = builtin_logsoftmax(A, R, C); }"
    results = {"S": soft.astype("f4"), "L": np.log(soft).astype("f4")}
    yield Conformance("softmax", text, {"A": a}, results, 1e-6)
    p, t = as_array([0.25, 0.5], "f4"), as_array([0, 1], "f4")
    text = "function (P, T) -> (O) { O = builtin_binary_crossentropy(P, T, 1); }"
    result = -t * np.log(p) - (1 - t) * np.log(1 - p)
    yield Conformance("binary_crossentropy", text, {"P": p, "T": t}, {"O": result}, 1e-6)
    text = """function (A) -> (O, S, C) {
      R = round(A); O = override_gradient(R, A, upstream(R) * 2); S = stop_gradient(A); C = checkpoint(A);
    }"""
    yield Conformance("overrides", text, {"A": v}, {"O": np.rint(v), "S": v, "C": v})


def _random() -> Iterator[Conformance]:
    text = """function (S) -> (A, B, T) {
      P = prng_step(S, 4, 5); A = prng_value(P);
      Q = prng_step(prng_state(P), 3); B = prng_value(Q); T = prng_state(Q);
    }"""
    state = as_array([0x243F6A88, 0x85A308D3, 0xFFFFFFF8, 7], "u4")
    counter = 0xFFFFFFF8 | 7 << 32
    words = [philox(counter + element, int(state[0]), int(state[1])) for element in range(23)]
    numbers = (np.array(words, np.uint32) >> 8).astype("f4") * np.float32(2.0**-24)
    after = as_array([state[0], state[1], (counter + 23) & 0xFFFFFFFF, (counter + 23) >> 32], "u4")
    results = {"A": numbers[:20].reshape(4, 5), "B": numbers[20:], "T": after}
    yield Conformance("random_numbers", text, {"S": state}, results)


def philox(counter: int, key0: int, key1: int) -> int:
    """Return the first word of a block of Philox4x32-10, in Python integers."""
    mask = 0xFFFFFFFF
    c0, c1, c2, c3 = counter & mask, counter >> 32 & mask, 0, 0
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ key0, p1 & mask, p0 >> 32 ^ c3 ^ key1, p0 & mask
        key0, key1 = key0 + 0x9E3779B9 & mask, key1 + 0xBB67AE85 & mask
    return c0


ELEMENTWISE: tuple[Conformance, ...] = (
    *_arithmetic(), *_booleans(), *_dtypes(), *_shapes(), *_functions(), *_random(),
)  # fmt: skip


def _constant(name: str, array: Array) -> str:
    """Return the statement of a constant."""
    return f"constant {name} = {value_text(ArrayValue.of(array), array.size)};"


def _operands() -> Iterator[Conformance]:
    for dtype in DType:
        table = np.array([[1, 0, 3], [2, 1, 0]]).astype(dtype.numpy)
        x = integers("i1", 2, 3, seed=3).astype(dtype.numpy)
        text = f"function (X[N, M]) -> (O, K) {{ {_constant('K', table)} O = X == K; }}"
        yield Conformance(f"constant_{dtype.value}", text, {"X": x}, {"O": x == table, "K": table})
    special = as_array([np.inf, -np.inf, np.nan, -0.0, 0.0], "f4")
    text = f"function (X[N]) -> (O, K) {{ {_constant('K', special)} O = X * K; }}"
    ones = np.ones(5, np.float32)
    yield Conformance("constant_special", text, {"X": ones}, {"O": special, "K": special})
    text = "function (X[N]) -> (O, P) { constant S = 0.5; constant T = i32[](3); O = X * S; P = index(X, 0) * T; }"
    x = halves("f4", 6)
    yield Conformance("constant_scalars", text, {"X": x}, {"O": x / 2, "P": 3 * np.arange(6, dtype=np.int32)})
    table = integers("i4", 40, 300)
    text = f"function (X[N]) -> (O) {{ {_constant('K', table)} O[i : N] = +(X[i] * K[i, j]); }}"
    x4 = integers("i4", 40, seed=1)
    yield Conformance("constant_large", text, {"X": x4}, {"O": x4 * table.sum(1, dtype=np.int32)})


def _uses() -> Iterator[Conformance]:
    table, at = halves("f4", 7, 3), as_array([6, 0, 3, 3], "i4")
    text = f"function (I) -> (O) {{ {_constant('T', table)} O = gather(T, I); }}"
    yield Conformance("constant_table", text, {"I": at}, {"O": table[at]})
    text = f"function () -> (O) {{ {_constant('T', table)} O[i : 7] = +(T[i, j]); }}"
    yield Conformance("constants_alone", text, {}, {"O": table.sum(1)})
    fill = halves("f4", 8, seed=2)
    x = halves("f4", 3)
    text = f"function (X[N]) -> (O) {{ {_constant('D', fill)} O[2 * i : 8] = =(X[i]) default D; }}"
    partly = fill.copy()
    partly[:6:2] = x
    yield Conformance("constant_default", text, {"X": x}, {"O": partly})
    weights = halves("f4", 4, seed=5)
    step = f"function (S) -> (S2, O) {{ {_constant('K', weights)} S2 = S * 0.5 + K; O = S2 * K; }}"
    text = f"function (H) -> (F) {{ R = scan(H) 3 times {step}; F = element(R, 0); }}"
    state = halves("f4", 4, seed=6)
    after = state
    for _ in range(3):
        after = after / 2 + weights
    yield Conformance("constant_in_a_loop", text, {"H": state}, {"F": after})


def _windows() -> Iterator[Conformance]:
    source = """function (I[H, W]) -> (O) {{
      {} {}O[y, x : H - 2, W - 2] = {}(I[y + j, x + i] {} K[j, i]), j < 3, i < 3;
    }}"""
    sobel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]])
    for dtype in ("f4", "f8", "i4", "i2"):
        image, kernel = integers(dtype, 20, 37), sobel.astype(dtype)
        for mark in ("", "[[finite]] "):
            text = source.format(_constant("K", kernel), mark, "+", "*")
            name = f"constant_window_{'finite_' if mark else ''}{dtype}"
            yield Conformance(name, text, {"I": image}, {"O": correlate(image, kernel)})
    image = halves("f4", 20, 37)
    image[4, 5], image[11, 20] = np.inf, np.nan
    with np.errstate(all="ignore"):
        expected = correlate(image, sobel.astype("f4"))
    text = source.format(_constant("K", sobel.astype("f4")), "", "+", "*")
    yield Conformance("constant_window_not_finite", text, {"I": image}, {"O": expected})
    cross = np.where([[0, 1, 0], [1, 1, 1], [0, 1, 0]], 0, -np.inf).astype("f4")
    plain = halves("f4", 9, 20)
    text = source.format(_constant("K", cross), "[[finite]] ", ">", "+")
    views = [plain[1 + j : 8 + j, 1 + i : 19 + i] for j, i in ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))]
    yield Conformance("constant_dilation", text, {"I": plain}, {"O": np.maximum.reduce(views)})


CONSTANTS = (*_operands(), *_uses(), *_windows())
