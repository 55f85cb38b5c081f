"""Functions of several examples: the same numbers as a loop over the examples, for every statement and function."""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tileir
from strategies.differentiable import places
from strategies.examples import Arrays, assert_each, checked, drawn_axes, interpreted, looped, several, with_dims
from strategies.loops import arguments, functions
from strategies.operations import all_cases, sample
from strategies.tile import cases
from tileir.tile.batching import batched
from tileir.tile.checks.integers import sizing_inputs
from tileir.tile.ir import Scan
from tileir.typed.raising.raising import raise_to_tile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tileir.typed.ir import Function as Typed

CASES = all_cases()
X = sample(3, 4, 5)
V = sample(3, 5, seed=1)
S = sample(3, seed=2)


def texts(text: str, axes: Sequence[int | None], out_axes: Any = 0) -> list[str]:
    """Return the statements of a function of several examples."""
    made = batched(tileir.parse(text), axes, out_axes)
    assert tileir.parse(tileir.to_text(made)) == made
    return [line.strip() for line in tileir.to_text(made).splitlines()][:-1]


def matches(text: str, arrays: Arrays, axes: Sequence[int | None], compute: Callable[..., Any]) -> None:
    """Compare results with those of NumPy, and of the function itself, for one example at a time."""
    function = tileir.parse(text)
    assert_each(function, arrays, axes, 1e-12)
    results = tileir.evaluate(batched(function, axes), arrays)
    found = results if isinstance(results, tuple) else (results,)

    def each(row: Arrays) -> list[np.ndarray[Any, Any]]:
        made = compute(*row.values())
        return [np.asarray(part) for part in (made if isinstance(made, tuple) else (made,))]

    for result, right in zip(found, looped(each, arrays, axes), strict=True):
        assert result.shape == right.shape
        np.testing.assert_allclose(result, right, rtol=1e-12, atol=1e-12)


def test_contractions_carry_an_index_along() -> None:
    text = "function (X[M, K], W[K, N], Bias[N]) -> (Y) { S[i, j : M, N] = +(X[i, k] * W[k, j]); Y = relu(S + Bias); }"
    assert texts(text, [0, None, None]) == [
        "function (X[B, M, K], W[K, N], Bias[N]) -> (Y) {",
        "S[b, i, j : B, M, N] = +(X[b, i, k] * W[k, j]);",
        "Y = relu(S + Bias);",
    ]
    assert texts(text, [2, 1, None])[1] == "S[b, i, j : B, M, N] = +(X[i, k, b] * W[k, b, j]);"
    assert texts(text, [-1, -2, None])[1] == "S[b, i, j : B, M, N] = +(X[i, k, b] * W[k, b, j]);"


def test_names_that_are_taken_are_left() -> None:
    text = "function (X[N, B]) -> (Y) { Y[b : B] = +(X[i, b]); }"
    assert texts(text, [0]) == ["function (X[B_0, N, B]) -> (Y) {", "Y[b_0, b : B_0, B] = +(X[b_0, i, b]);"]
    assert "function (X[Pictures, N, B]) -> (Y) {" in tileir.to_text(batched(tileir.parse(text), [0], name="Pictures"))


def test_operands_of_fewer_axes_stay_aligned() -> None:
    text = "function (X[M, K], V[K], C[]) -> (Y) { Y = X * V + C; }"
    arrays = {"X": X, "V": V, "C": S}
    for axes in itertools.product((0, 2, None), (0, 1, None), (0, None)):
        given = {
            name: array[0] if axis is None else np.moveaxis(array, 0, axis)
            for (name, array), axis in zip(arrays.items(), axes, strict=True)
        }
        if any(axis is not None for axis in axes):
            matches(text, given, axes, lambda x, v, c: x * v + c)
    assert texts(text, [None, 0, None])[1:] == ["Y = X * reshape(V, B, 1, K) + C;"]
    assert texts("function (X[M, K]) -> (Y) { Y = X * X; }", [2], 2)[1:] == ["Y = X * X;"], "nothing is moved"


def test_results_have_examples_where_they_are_asked_for() -> None:
    text = "function (X[M, K], V[K]) -> (Y, Z, W) { Y[i, k : M, K] = +(X[i, k]); Z = V * 2; W = V; }"
    function = tileir.parse(text)
    made = batched(function, [0, None], (2, None, -1))
    y, z, w = tileir.evaluate(made, [X, V[0]])
    np.testing.assert_array_equal(y, np.moveaxis(X, 0, -1))
    np.testing.assert_array_equal(z, V[0] * 2)
    np.testing.assert_array_equal(w, np.stack([V[0]] * 3, -1))
    assert [output.name for output in made.outputs] == ["Y", "Z", "W"]


def test_an_input_may_be_a_result() -> None:
    made = batched(tileir.parse("function (X[N]) -> (X, Y) { Y = X; }"), [1])
    x, y = tileir.evaluate(made, [V])
    np.testing.assert_array_equal(x, V.T)
    np.testing.assert_array_equal(y, V.T)


MOVES = {
    "index": ("Y = index(X, 1); Z = index(X, -2);", lambda x: (np.indices(x.shape)[1], np.indices(x.shape)[0])),
    "argsort": (
        "Y = argsort(X, 0); Z = argsort(X, -1, 1, 2); W = argsort(X, M - 3);",
        lambda x: (np.argsort(x, 0), np.argsort(-x, 1)[:, :2], np.argsort(x, 1)),
    ),
    "reshape": ("Y = reshape(X, K, M); Z = reshape(X, M * K);", lambda x: (x.reshape(5, 4), x.reshape(-1))),
    "softmax": (
        "Y = builtin_softmax(X); Z = builtin_logsoftmax(X, M, K);",
        lambda x: (_softmax(x), np.log(_softmax(x))),
    ),
    "simple_reduce": (
        "Y = simple_reduce(X, 1, K); Z = simple_reduce(X, K); W = simple_reduce(X);",
        lambda x: (x.sum(0, keepdims=True), x.sum(0), x.sum()),
    ),
    "reduce_argmax": (
        "A = reduce_argmax(X, 0); Y = element(A, 0); Z = element(A, 1); W = element(reduce_argmax(X), 1);",
        lambda x: (x.max(0), x.argmax(0), x.argmax()),
    ),
    "reduce_moments": ("Y = element(reduce_moments(X, -1), 1);", lambda x: x.mean(1)),
    "constants": (
        "constant C[P, Q] = f64[2, 5](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 0.5);"
        "Y[i, p : M, P] = +(X[i, q] * C[p, q]); Two = 2.0; Z = X * Two;",
        lambda x: (x @ np.array([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0.5]]).T, x * 2),
    ),
    "defaults": (
        "Zero = X * 0 + 7; Y[i + 1, k : M, K] = =(X[i, k]) default Zero; One = index(X, 0) * 0.0 + 1.0;"
        "Z[2 * i, k : M, K] = +(X[i, k]), i < 2 default One;",
        lambda x: (np.concatenate([np.full((1, 5), 7.0), x[:-1]]), np.stack([x[0], x[0] * 0 + 1, x[1], x[0] * 0 + 1])),
    ),
}


def _softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", MOVES)
def test_functions_with_axes_of_their_own(name: str) -> None:
    body, compute = MOVES[name]
    outputs = ", ".join(each for each in "YZW" if f"{each} =" in body or f"{each}[" in body)
    for axis in (0, 1, 2):
        arrays = {"X": np.moveaxis(X, 0, axis)}
        matches(f"function (X[M, K]) -> ({outputs}) {{ {body} }}", arrays, [axis], compute)


def test_shapes_are_those_of_one_example() -> None:
    text = "function (X[M, K], C[]) -> (Y, Z) { Y = shape(X); Z = shape(C); }"
    y, z = tileir.evaluate(batched(tileir.parse(text), [1, 0]), [np.moveaxis(X, 0, 1), S])
    assert (y.tolist(), z.shape) == ([[4, 5]] * 3, (3, 0))


def test_reductions_of_single_elements() -> None:
    text = (
        "function (C[]) -> (Y, Z, W) { Y = element(reduce_argmax(C), 0); Z = reshape(C, 1, 1); W = simple_reduce(C); }"
    )
    matches(text, {"C": S}, [0], lambda c: (c, c.reshape(1, 1), c))


@pytest.mark.parametrize(
    "axes", [axes for axes in itertools.product((0, 1, None), (0, None)) if any(a is not None for a in axes)]
)
def test_gathers(axes: tuple[int | None, int | None]) -> None:
    places = np.array([[3, 0, 9], [-1, 2, 2], [1, 1, 0]], np.int8)
    given = {
        "X": X[0] if axes[0] is None else np.moveaxis(X, 0, axes[0]),
        "I": places[0] if axes[1] is None else places,
    }
    matches("function (X[M, K], I[P]) -> (Y) { Y = gather(X, I); }", given, axes, lambda x, i: x[np.clip(i, 0, 3)])


SCATTERED = {
    "scatter": np.add,
    "scatter_max": np.maximum,
    "scatter_min": np.minimum,
}


@pytest.mark.sampled(19)
@pytest.mark.parametrize(
    "axes", [axes for axes in itertools.product((0, None), repeat=3) if any(a is not None for a in axes)]
)
@pytest.mark.parametrize("name", [*SCATTERED, "scatter_assign", "scatter_last"])
def test_scatters(name: str, axes: tuple[int | None, ...]) -> None:
    second = [3, 0, 9] if name == "scatter_last" else [0, 2, 9]  # places that meet
    places = np.stack([[3, -1, 1], second], 1)
    arrays = {"U": sample(3, 2, 5, seed=3), "I": places, "X": X}
    given = {n: a if axis is not None else a[0] for (n, a), axis in zip(arrays.items(), axes, strict=True)}

    def compute(u: Any, i: Any, x: Any) -> Any:
        rows = np.clip(i, 0, 3)
        if name in ("scatter_assign", "scatter_last"):
            made = x.copy()
            for place, update in zip(rows, u, strict=True):
                made[place] = update
            return made
        made = np.full(x.shape, {"scatter": 0.0, "scatter_max": -np.inf, "scatter_min": np.inf}[name])
        SCATTERED[name].at(made, rows, u)
        return made

    matches(f"function (U[P, K], I[P], X[M, K]) -> (Y) {{ Y = {name}(U, I, X); }}", given, axes, compute)


def test_states_of_random_numbers_are_stepped_one_by_one() -> None:
    states = np.random.default_rng(0).integers(0, 1 << 32, (3, 4), np.uint32)
    text = (
        "function (S[W], X[M, K]) -> (R, N) "
        "{ P = prng_step(S, M, 2, K); V = prng_value(P); R = V + reshape(X, M, 1, K); N = prng_state(P); }"
    )
    function = tileir.parse(text)
    for axes in ((0, None), (None, 0), (0, 0), (1, 2)):
        arrays = {
            name: array[0] if axis is None else np.moveaxis(array, 0, axis)
            for (name, array), axis in zip({"S": states, "X": X}.items(), axes, strict=True)
        }
        assert_each(function, arrays, axes, 1e-12)
    value, state = tileir.evaluate(batched(function, [0, None]), [states, X[0]])
    for number in range(3):
        alone = tileir.evaluate(function, [states[number], X[0]])
        np.testing.assert_array_equal(value[number], alone[0])
        np.testing.assert_array_equal(state[number], alone[1])


def test_declared_sizes_and_dtypes_are_those_of_one_example() -> None:
    text = (
        "function (X: f64[2, N], W[N], L: f64[]) -> (Y: f64[N, 2], S[]) { Y[n, m : N, 2] = +(X[m, n] * W[n]);"
        " Z = 0.0; S = scan(Z; W; L) function (H: f64[], W: f64[], L) -> (N: f64[]) { N = H + W * L; }; }"
    )
    lines = texts(text, [1, 0, None], (2, 0))
    assert lines[0] == "function (X: f64[2, B, N], W[B, N], L: f64[]) -> (Y: f64[N, 2, B], S[B]) {"
    x, w = sample(3, 2, 5), V
    for axes in ((1, 0, None), (None, 0, 0), (0, None, None)):
        arrays = {"X": x, "W": w, "L": S}
        given = {
            name: array[0] if axis is None else np.moveaxis(array, 0, axis)
            for (name, array), axis in zip(arrays.items(), axes, strict=True)
        }
        given = {name: np.asarray(array) for name, array in given.items()}
        matches(text, given, axes, lambda x, w, limit: ((x * w).T, (w * limit).sum()))
    with pytest.raises(tileir.TileError, match="f32"):
        tileir.evaluate(batched(tileir.parse(text), [0, None, None]), [x.astype(np.float32), w[0], S[0]])


SUMS = (
    "function (X[T, K], C[K], W[K, K]) -> (Last, All) {"
    " R = scan(C; X; W) function (H[K], X[K], W[K, K]) -> (N, O) {"
    " M[j : K] = +(H[k] * W[k, j]); N = M * 0.1 + X; O = N * N; };"
    " Last = element(R, 0); All = element(R, 1); }"
)


@pytest.mark.parametrize(
    "axes", [axes for axes in itertools.product((0, None), repeat=3) if any(a is not None for a in axes)]
)
def test_scans(axes: tuple[int | None, ...]) -> None:
    arrays = {"X": X, "C": V, "W": sample(3, 5, 5, seed=4)}
    given = {n: a if axis is not None else a[0] for (n, a), axis in zip(arrays.items(), axes, strict=True)}

    def compute(x: Any, c: Any, w: Any) -> Any:
        rows = []
        for row in x:
            c = c @ w * 0.1 + row
            rows.append(c * c)
        return c, np.stack(rows)

    matches(SUMS, given, axes, compute)


def test_scans_in_a_row_move_nothing_between_them() -> None:
    step = "scan(C; {0}) function (H[K], X[K]) -> (N, O) {{ N = H + X; O = N * 2; }}"
    text = (
        f"function (X[T, K], C[K]) -> (Y) {{ A = {step.format('X')}; U = element(A, 1); V = U * U; "
        f"R = {step.format('V')}; Y = element(R, 0); }}"
    )
    lines = texts(text, [1, None])
    assert sum("=(" in line for line in lines) == 1, "the carry is repeated; X has its examples behind the steps"
    matches(text, {"X": np.moveaxis(X, 0, 1), "C": V[0]}, [1, None], _twice)


def _twice(x: Any, c: Any) -> Any:
    made = (c + np.cumsum(x, 0)) * 2
    return c + (made * made).sum(0)


@pytest.mark.parametrize("start", ["0", "0.0", "Start"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.int64])
def test_numbers_that_become_carries_of_examples_take_the_dtype_of_the_step(start: str, dtype: type[Any]) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)
    text = (
        f"function (X[T], Start) -> (Y) {{ Z = {start}; Y = scan(Z; X) function (H[], X[]) -> (N) {{ N = H + X; }}; }}"
    ).replace(", Start)", ", Start[])" if start == "Start" else ")")
    function = tileir.parse(text)
    given: list[Any] = [2] if start == "Start" else []
    wanted = [tileir.evaluate(function, [row, *given]) for row in x]
    result = tileir.evaluate(batched(function, [0, *[None] * len(given)]), [x, *given])
    assert result.dtype == wanted[0].dtype
    np.testing.assert_array_equal(result, np.stack(wanted))


def test_carries_that_differ_after_some_steps_do_from_the_beginning() -> None:
    text = (
        "function (X[], N[]) -> (Y) { R = scan(N, N, N; ; X) 3 times function (P[], Q[], R[], X[]) -> (P1, Q1, R1) {"
        " P1 = Q + 0.0; Q1 = R + 0.0; R1 = R + X; }; Y = element(R, 0); }"
    )
    matches(text, {"X": S, "N": np.array(1.5)}, [0, None], lambda x, n: n + x)


def test_scans_inside_of_scans() -> None:
    text = (
        "function (X[T, K], W[K]) -> (Y) { Z = 0.0; R = scan(Z; X; W) function (H[], X[K], W[K]) -> (N) {"
        " I = 1.0; P = scan(I; X, W) function (H[], X[], W[]) -> (N) { N = H * X + W; }; N = H + P; }; Y = R; }"
    )

    def compute(x: Any, w: Any) -> Any:
        total = 0.0
        for row in x:
            part = 1.0
            for a, b in zip(row, w, strict=True):
                part = part * a + b
            total += part
        return total

    for axes in ((0, None), (0, 0), (None, 0)):
        given = {"X": X if axes[0] == 0 else X[0], "W": V if axes[1] == 0 else V[0]}
        matches(text, given, axes, compute)


def test_loops_go_on_while_the_condition_holds_for_any_example() -> None:
    """Collatz counts of some numbers, and halvings until a limit: each example has a number of steps of its own."""
    text = (
        "function (N[]) -> (Last, Count) { Zero = 0; L = while(N, Zero) function (N[], I[]) -> (C) { C = N != 1; } do "
        "function (N[], I[]) -> (M, J) { M = mod(N, 2) == 0 ? N / 2 : 3 * N + 1; J = I + 1; };"
        " Last = element(L, 0); Count = element(L, 1); }"
    )

    def count(n: Any) -> Any:
        steps = 0
        while n != 1:
            n, steps = n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1
        return n, steps

    matches(text, {"N": np.array([1, 27, 6, 97])}, [0], count)
    text = (
        "function (X[K], Limit[]) -> (Y, I) { Zero = 0; L = while(X, Zero; Limit) function (X[K], I, Limit) -> (C) "
        "{ M[] = >(X[k]); C = M > Limit; } do function (X[K], I, Limit) -> (Y, J) { Y = X / 2.0; J = I + 1; };"
        " Y = element(L, 0); I = element(L, 1); }"
    )

    def halved(x: Any, limit: Any) -> Any:
        steps = 0
        while x.max() > limit:
            x, steps = x / 2, steps + 1
        return x, steps

    for axes in ((0, None), (None, 0), (0, 0), (1, 0)):
        x, limits = np.abs(V) * [[1], [300], [0.01]], np.array([0.1, 1.0, 7.0])
        given = {
            "X": x[1] if axes[0] is None else np.moveaxis(x, 0, axes[0]),
            "Limit": limits if axes[1] == 0 else limits[0],
        }
        matches(text, given, axes, halved)


def test_loops_of_shared_conditions_repeat_what_differs_alone() -> None:
    text = (
        "function (X[K]) -> (Y, J) { Zero = 0; L = while(X, Zero; X) function (Y[K], I, X[K]) -> (C) { C = I < 3; } do "
        "function (Y[K], I, X[K]) -> (Z, J) { Z = Y * X; J = I + 1; }; Y = element(L, 0); J = element(L, 1); }"
    )
    matches(text, {"X": V}, [0], lambda x: (x**4, 3))
    assert not any("?" in line for line in texts(text, [0]))


def test_gradients_are_those_of_each_example() -> None:
    """Of weights that all examples share, too: the gradient of the sum over all would be their sum."""
    text = (
        "function (X[K], W[K]) -> (DX, DW, DV) { Y[] = +(X[k] * W[k]); Z = Y * Y; DX = gradient(Z, X);"
        " G = gradient(tuple(Z, Y), W, X); DW = element(G, 0); DV = element(G, 1); }"
    )

    def compute(x: Any, w: Any) -> Any:
        y = x @ w
        return 2 * y * w, 2 * y * x + x, 2 * y * w + w

    for axes in ((0, None), (None, 0), (0, 0)):
        given = {"X": V if axes[0] == 0 else V[0], "W": V[::-1] if axes[1] == 0 else V[2]}
        matches(text, given, axes, compute)


def test_gradients_by_what_is_computed_of_shared_weights() -> None:
    text = (
        "function (X[K], W[K]) -> (D, E, F) { U = W * W; A = U; Y[] = +(X[k] * U[k]); Z = Y * Y;"
        " D = gradient(Z, A); E = gradient(Z, as_f64(U)); F = gradient(Z, W * W); }"
    )

    def compute(x: Any, w: Any) -> Any:
        made = 2 * (x @ (w * w)) * x
        return made, made, made * 0

    matches(text, {"X": V, "W": V[0]}, [0, None], compute)


def test_cotangents_and_tangents_of_examples() -> None:
    text = (
        "function (X[K], W[K], D[K], E[]) -> (P, Q, R, S) { Y = X * W * W; P = vjp(Y, D, W); Q = vjp(Y, E, X);"
        " R = jvp(Y, W, D); T = jvp(tuple(Y, X), tuple(X, W), tuple(E, D)); S = element(T, 0); }"
    )

    def compute(x: Any, w: Any, d: Any, e: Any) -> Any:
        return 2 * x * w * d, w * w * e, 2 * x * w * d, w * w * e + 2 * x * w * d

    arrays = {"X": V, "W": V[::-1], "D": V * 2, "E": S}
    for axes in itertools.product((0, None), repeat=4):
        if any(axis is not None for axis in axes):
            given = {n: a if axis == 0 else a[1] for (n, a), axis in zip(arrays.items(), axes, strict=True)}
            matches(text, {n: np.asarray(a) for n, a in given.items()}, axes, compute)


OVERRIDDEN = (
    "function (X[K], W[K]) -> (Y) { U = W * 1.0; P = X * U; "
    "Z = override_gradient(P, U, upstream(P) * X * 2.0, X, upstream(P)); Y = Z * Z; }"
)


def test_overridden_gradients() -> None:
    function = tileir.parse(OVERRIDDEN)
    inside = tileir.gradient(function, ["X", "W"])
    for axes in ((0, None), (None, 0), (0, 0)):
        given = {"X": V if axes[0] == 0 else V[0], "W": V[::-1].copy() if axes[1] == 0 else V[2]}
        assert_each(inside, given, axes, 1e-12)
        outside = interpreted(tileir.gradient(batched(function, axes), ["X", "W"]), given)
        wanted = looped(lambda row: list(interpreted(inside, row).values()), given, axes)
        for name, found, axis in zip("XW", outside.values(), axes, strict=True):
            right = wanted["XW".index(name)]
            np.testing.assert_allclose(found, right if axis == 0 else right.sum(0), rtol=1e-12)


def test_gradients_that_are_reversed_and_cross_entropies() -> None:
    text = (
        "function (X[K], S[], T[K]) -> (D, E, F) { R = reverse_grad(X, S); D = gradient(R * R, X);"
        " P = 1.0 / (1.0 + exp(-X)); C = builtin_binary_crossentropy(P, T, S); E = C * 1.0; F = gradient(C, P); }"
    )
    arrays = {"X": V, "S": S + 3, "T": sample(3, 5, low=0.1, high=0.9)}
    for axes in itertools.product((0, None), repeat=3):
        if any(axis is not None for axis in axes):
            given = {n: np.asarray(a if axis == 0 else a[1]) for (n, a), axis in zip(arrays.items(), axes, strict=True)}
            assert_each(tileir.parse(text), given, axes, 1e-12)


def test_several_axes_of_examples() -> None:
    text = "function (X[K], W[K]) -> (Y, D) { S[] = +(X[k] * W[k]); Y = tanh(S); D = gradient(Y, W); }"
    inner = batched(tileir.parse(text), [None, 0], name="Right")
    pairs = checked(inner, [0, None])
    x, w = V, sample(4, 5, seed=7)
    y, d = tileir.evaluate(pairs, [x, w])
    wanted = np.tanh(x @ w.T)
    np.testing.assert_allclose(y, wanted, rtol=1e-12)
    np.testing.assert_allclose(d, (1 - wanted**2)[:, :, None] * x[:, None, :], rtol=1e-12)


def test_gradients_of_functions_of_examples_are_sums_over_them() -> None:
    function = batched(tileir.parse("function (X[K], W[K]) -> (Y) { Y[] = +(X[k] * W[k]); }"), [0, None])
    dx, dw = tileir.evaluate(tileir.gradient(function), [V, V[0]])
    np.testing.assert_allclose(dx, np.stack([V[0]] * 3))
    np.testing.assert_allclose(dw, V.sum(0))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_operations_of_the_library(name: str) -> None:
    case, random = CASES[name], np.random.default_rng(zlib.crc32(name.encode()))
    _assert_case(case.function(), case.arrays("f64"), random)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.differentiated])
def test_derivatives_of_operations_of_the_library(name: str) -> None:
    case, random = CASES[name], np.random.default_rng(zlib.crc32(name.encode()))
    arrays = case.arrays("f64")
    _assert_case(case.backward(), {**arrays, **case.arriving("f64")}, random)
    tangents = {f"V{name}": sample(*arrays[name].shape, seed=5) for name in case.differentiated}
    _assert_case(case.forward(), {**arrays, **tangents}, random)


def _assert_case(function: tileir.Function, arrays: Arrays, random: np.random.Generator) -> None:
    axes = drawn_axes(function, arrays, random)
    if any(axis is not None for axis in axes):
        rows = {name: several(array, axis, random) for (name, array), axis in zip(arrays.items(), axes, strict=True)}
        assert_each(function, rows, axes, 1e-10)


@given(case=cases(functions=True), seed=st.integers(0, 99))
def test_generated_programs(case: Any, seed: int) -> None:
    _assert_drawn(case.function, case.inputs, seed)


@given(place=places(), seed=st.integers(0, 99))
def test_gradients_of_generated_programs(place: Any, seed: int) -> None:
    function = tileir.gradient(place.case.function, place.wrt, place.of)
    _assert_drawn(function, place.case.inputs, seed)


def _assert_drawn(function: tileir.Function, arrays: Arrays, seed: int) -> None:
    random = np.random.default_rng(seed)
    function = with_dims(function, {name: array.ndim for name, array in arrays.items()})
    assume(set(arrays) - sizing_inputs(function))
    axes = drawn_axes(function, arrays, random)
    rows = {
        name: array
        if axis is None
        else np.stack([random.permutation(array.reshape(-1)).reshape(array.shape) for _ in range(3)], axis)
        for (name, array), axis in zip(arrays.items(), axes, strict=True)
    }
    assert_each(function, rows, axes, 1e-5)


@given(typed=functions(), seed=st.integers(0, 99))
def test_generated_loops(typed: Typed, seed: int) -> None:
    function = raise_to_tile(typed)
    assume(any(isinstance(statement, Scan) for statement in function.statements))
    arrays = {parameter.name: arguments(typed, seed)[parameter.name] for parameter in function.inputs}
    _assert_drawn(function, arrays, seed)


def test_what_cannot_be_computed_for_several_examples() -> None:
    def fault(text: str, axes: Sequence[int | None], out_axes: Any = 0) -> str:
        with pytest.raises(tileir.TileError) as caught:
            batched(tileir.parse(text), axes, out_axes)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "TIL220"
        assert diagnostic.span is not None
        return f"{diagnostic.span.text}: {diagnostic.message}"

    plain = "function (X[N], M[]) -> (Y, Z) { Y[i : M] = =(X[i]); Z = M; }"
    assert (
        fault(plain, [0, 0])
        == "M[]: sizes are computed from the input 'M', so it is the same for all examples: give it None"
    )
    assert "2 inputs, but there are 1 axes" in fault(plain, [0])
    assert "2 outputs, but there are 1 axes" in fault(plain, [0, None], [0])
    assert "no input has examples" in fault(plain, [None, None])
    assert "'X' has 2 axes with that of the examples, which is not 2" in fault(plain, [2, None])
    assert "'Y' has 2 axes with that of the examples, which is not -3" in fault(plain, [0, None], [-3, 0])
    assert "'Y' differs among examples" in fault(plain, [0, None], None)
    assert fault("function (X) -> (Y) { Y = X; }", [0]) == (
        "X: the input 'X' has examples, so declare a dimension for each of its axes, as in X[N]"
    )
    assert "the sizes of a tensor here are not declared" in fault("function (X[N], W) -> (Y) { Y = X + W; }", [0, None])
    assert "written as a number" in fault("function (X[N]) -> (Y) { T = tuple(X, X); Y = element(T, N - N); }", [0])


@pytest.mark.sampled(0)
def test_many_statements_take_time_in_proportion() -> None:
    lines = " ".join(f"Y{n + 1} = Y{n} + X;" for n in range(5000))
    made = batched(
        tileir.parse(f"function (X[N], W[N]) -> (D) {{ Y0 = X * W; {lines} D = gradient(Y5000, W); }}"), [0, None]
    )
    assert len(made.statements) == 5003


def test_declarations_stay() -> None:
    text = """function (X: f32[N, 3], S: f32[]) -> (Y: f32[2 * N], Z[N, 3], W: f32[K]) {
      K = 2 * N;
      Y[i : K] = =(X[i - N, 0]);
      Z = expect_sizes(expect_f32(X * S), N, 3);
      W = Y;
    }"""
    made = batched(tileir.parse(text), [0, None], name="B")
    declared = "(X: f32[B, N, 3], S: f32[]) -> (Y: f32[B, 2 * N], Z[B, N, 3], W: f32)"
    assert tileir.to_text(made).splitlines()[0] == f"function {declared} {{"
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    rows = np.concatenate([np.zeros((2, 4), np.float32), x[:, :, 0]], axis=1)
    y, z, w = tileir.evaluate(made, [x, np.float32(2)])
    np.testing.assert_array_equal(y, rows)
    np.testing.assert_array_equal(z, x * 2)
    np.testing.assert_array_equal(w, rows)
