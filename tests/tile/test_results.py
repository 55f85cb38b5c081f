from __future__ import annotations

import numpy as np
import pytest

import tileir
from tileir import ArgumentError, ops

TEXT = """function (X[N, M], W[M, K], V[J, L]) -> (Sum, Product, Wide) {
    constant Scale[S] = f32[2](2.0, 3.0);
    T = X * 2.0;
    Product[i, k : N, K] = +(T[i, j] * W[j, k]);
    Checked[i, k : N, L] = +(Product[i, j] * V[j, k]), j < match(K, J);
    Sum[i : N] = +(T[i, j]);
    Wide[i, s : N, S] = =(Sum[i] * Scale[s]);
}"""


def test_what_other_outputs_need_is_not_computed() -> None:
    function = tileir.parse(TEXT)
    assert [each.name for each in function.returning("Sum").statements] == ["T", "Sum"]
    assert [each.name for each in function.returning("Wide").statements] == ["Scale", "T", "Sum", "Wide"]
    chosen = function.returning("Wide", "Sum")
    assert [output.name for output in chosen.outputs] == ["Wide", "Sum"]
    assert chosen.inputs == function.inputs
    assert tileir.parse(tileir.to_text(chosen)) == chosen
    assert function.returning("Sum", "Product", "Wide") is function


def test_results_are_those_of_the_whole() -> None:
    random = np.random.default_rng(0)
    x, w = random.random((3, 4)), random.random((4, 5))
    fits, does_not = random.random((5, 2)), random.random((6, 2))
    wide, sums = tileir.jit(tileir.parse(TEXT).returning("Wide", "Sum"))(x, w, does_not)  # nobody asks for what fails
    np.testing.assert_allclose(sums, 2 * x.sum(1))
    np.testing.assert_allclose(wide, np.outer(2 * x.sum(1), [2, 3]))
    np.testing.assert_allclose(tileir.jit(tileir.parse(TEXT).returning("Product"))(x, w, fits), 2 * x @ w)


def test_loops_that_nobody_needs_are_gone() -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X", "N", "M")
    function = f.build(Y=ops.cumsum(x, 0), Z=ops.relu(x))
    assert len(function.returning("Z").statements) == 1
    array = np.random.default_rng(1).standard_normal((4, 5))
    np.testing.assert_array_equal(tileir.jit(function.returning("Z"))(array), np.maximum(array, 0))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("Sun",), "there is no output 'Sun'; did you mean "),
        (("X",), "there is no output 'X'; known are Product, Sum, Wide"),
        (("T",), "there is no output 'T'"),
        ((), "name some of the outputs Sum, Product, Wide, each once"),
        (("Sum", "Sum"), "each once"),
    ],
)
def test_what_is_no_output_cannot_be_chosen(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tileir.parse(TEXT).returning(*names)
    assert caught.value.diagnostics[0].code == "TIL710"
    assert words in str(caught.value)
