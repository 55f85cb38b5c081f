"""Derivatives of contractions against finite differences, and their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.derivatives import Problem, accept, assert_gradients, gradients, problems, pulled, types_of
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Contraction, Elementwise, TensorType
from tileir.typed.text.printer import to_text

if TYPE_CHECKING:
    from collections.abc import Callable


def derivative(text: str, wrt: str, of: tuple[int, ...], **shapes: tuple[int, ...]) -> str:
    """Return the text of the derivative of O, with cotangents of the shape ``of``, in f32."""
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    function = infer(parse(text), types)
    return to_text(pulled(function, wrt.split(), {"O": TensorType(DType.F32, of)}))


@given(problems("+="))
def test_sums_and_assignments_agree_with_finite_differences(problem: Problem) -> None:
    accept(problem)
    assert_gradients(problem.text, problem.inputs, problem.wrt, problem.cotangents)


MATMUL = "function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }"
DILATED = """
function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {
    O[n, y, x, co : N, H/3, W/3, CO] = +(I[n, 3*y + 2*j, 3*x + 2*i, ci] * K[j, i, ci, co]);
}"""
POOL = "function (A[N, W, C]) -> (O) { O[n, x, c : N, W/2, C] = >(A[n, 2*x + i, c]), i < 2; }"
CUMSUM = "function (A[N]) -> (O) { O[i : N] = +(A[i - k]), k < N; }"


def test_matrix_product(golden: Callable[[str], None]) -> None:
    golden(derivative(MATMUL, "A B", (2, 4), A=(2, 3), B=(3, 4)))


def test_matrix_product_with_one_cotangent_for_all(golden: Callable[[str], None]) -> None:
    golden(derivative(MATMUL, "A B", (), A=(2, 3), B=(3, 4)))


def test_strided_dilated_convolution(golden: Callable[[str], None]) -> None:
    golden(derivative(DILATED, "I K", (2, 3, 4, 5), I=(2, 9, 12, 3), K=(3, 3, 3, 5)))


def test_max_pooling(golden: Callable[[str], None]) -> None:
    golden(derivative(POOL, "A", (2, 4, 3), A=(2, 8, 3)))


def test_running_sum(golden: Callable[[str], None]) -> None:
    golden(derivative(CUMSUM, "A", (8,), A=(8,)))


def test_sums_of_rows_pass_on_what_arrives_without_work() -> None:
    text = "function (A[N, M]) -> (O) { O[i : N] = +(A[i, j]); }"
    assert "+(" not in derivative(text, "A", (), A=(3, 4))
    rows = np.array([1.0, 2.0, 3.0])
    found = gradients(text, {"A": np.ones((3, 4))}, ["A"], {"O": rows})
    np.testing.assert_array_equal(found["A"], np.repeat(rows[:, None], 4, axis=1))


def test_factors_that_do_not_vary_leave_the_sum() -> None:
    text = "function (A[N], B[N]) -> (O) { O[i : N] = +(A[k] * B[k]), i - k < N; }"
    function = infer(parse(text), {name: TensorType(DType.F32, (5,)) for name in "AB"})
    found = pulled(function, ["A", "B"], {"O": TensorType(DType.F32, (5,))})
    sums = [o for o in found.operations if isinstance(o, Contraction)]
    assert len(sums) == 1
    assert len(sums[0].inputs) == 1
    assert sum(isinstance(o, Elementwise) for o in found.operations) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("O[i : N] = +(A[i] + B[i, j])", 3.0),  # the number of j
        ("O[i : N] = +(A[i] + B[i, 2*j])", 2.0),
        ("O[i : N] = +(A[i] + B[i, j]), j < 2", 2.0),
        ("O[i : N] = +(A[i] + B[j/2, j])", 2.0),  # even j only
        ("O[i, j : N, 7] = +(A[i])", 7.0),
        ("O[i, j : N, 7] = +(A[i] * A[i])", 14.0),
    ],
)
def test_dropped_operands_leave_their_points(text: str, expected: float) -> None:
    inputs = {"A": np.ones(3), "B": np.ones((3, 3))}
    found = gradients(f"function (A[N], B[M, L]) -> (O) {{ {text}; }}", inputs, ["A"])
    np.testing.assert_array_equal(found["A"], np.full(3, expected))


def test_defaults_get_what_arrives_where_nothing_is_written() -> None:
    text = "function (A[N], Z[M]) -> (O) { O[2*i : M] = =(A[i]) default Z; }"
    inputs = {"A": np.ones(2), "Z": np.ones(6)}
    cotangent = np.arange(6.0) + 1
    found = gradients(text, inputs, ["A", "Z"], {"O": cotangent})
    np.testing.assert_array_equal(found["A"], [1, 3])
    np.testing.assert_array_equal(found["Z"], [0, 2, 0, 4, 5, 6])


def test_defaults_of_what_is_written_throughout_get_nothing() -> None:
    text = "function (A[N], Z[N]) -> (O) { O[i : N] = =(A[i]) default Z; }"
    found = gradients(text, {"A": np.ones(2), "Z": np.ones(2)}, ["A", "Z"])
    np.testing.assert_array_equal(found["Z"], [0, 0])


def test_compared_operands_get_nothing() -> None:
    text = "function (A[N], B[M], C[M]) -> (O) { O[i : N] = +(A[i] == B[j] ? C[j]); }"
    inputs = {"A": np.array([1.0, 2.0]), "B": np.array([2.0, 1.0, 2.0]), "C": np.ones(3)}
    found = gradients(text, inputs, ["A", "B", "C"], {"O": np.array([3.0, 5.0])})
    np.testing.assert_array_equal(found["C"], [5, 3, 5])
    assert not found["A"].any()
    assert not found["B"].any()


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_narrow_floats_are_summed_in_f32(dtype: DType) -> None:
    text = "function (A[N], B[M, N]) -> (O) { O[j : M] = +(A[i] * B[j, i]); }"
    inputs = {"A": np.ones(1, dtype.numpy), "B": np.ones((4096, 1), dtype.numpy)}
    function = infer(parse(text), types_of(inputs))
    backward = pulled(function, ["A"], {"O": TensorType(dtype, (4096,))})
    sums = [o for o in backward.operations if isinstance(o, Contraction) and o.aggregation is Aggregation.SUM]
    assert [o.accumulator for o in sums] == [DType.F32]
    found = gradients(text, inputs, ["A"], {"O": np.ones(4096, dtype.numpy)})
    assert found["A"].dtype == dtype.numpy
    assert float(found["A"][0]) == 4096.0


@pytest.mark.parametrize(("dtype", "value"), [(np.bool_, 1), (np.uint8, 200), (np.int8, -100), (np.int32, 2**31 - 1)])
def test_integers_beside_floats_are_added_up_as_floats(dtype: type[np.generic], value: int) -> None:
    """A cotangent that is the same for all terms is taken out of the sum, which must not wrap around then."""
    data = np.full(4, value, dtype)
    text = "function (C[N], A) -> (R) { R[i : N] = =(A[] * C[i]); }"
    found = tileir.vjp(text, (data, np.array(1.0)), np.array(0.5), "A")["A"]
    assert found == 0.5 * 4 * value


@pytest.mark.parametrize("passes", ["cpu", "gpu"])
def test_sums_of_integers_that_no_access_bounds_compile(passes: str) -> None:
    """An index that only the result has is kept by a tensor of ones."""
    text = "function (C[N], A) -> (R) { R[(k - j + 1) / 2 : 3] = +(A[] * C[l / 2]), j < 2, k < 4, l < 8; }"
    inputs = {"C": np.arange(4, dtype=np.int32), "A": np.array(2.0)}
    compiled = tileir.compile(tileir.gradient(text, "A"), inputs, passes=passes)
    assert compiled(**inputs) == tileir.evaluate(tileir.gradient(text, "A"), inputs)
