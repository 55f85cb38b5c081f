"""Advice for wrong names, wherever they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.tile_parts import Parts
from tileir import ops
from tileir.core.text.advice import ELSEWHERE, meant
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

COPY = "function (A) -> (B) { B = A; }"


def body(text: str) -> Callable[[Parts], object]:
    return lambda _: tileir.parse(f"function (A[M, N]) -> (B) {{ {text} }}")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (body("B = sum(A);"), "O[i : M] = +(A[i, j])"),
        (body("B = max(A);"), "O[i : M] = >(A[i, j])"),
        (body("B = min(A);"), "O[i : M] = <(A[i, j])"),
        (body("B = mean(A);"), "O = S / N"),
        (body("B = tranpose(A);"), "there is no function 'tranpose'"),
        (body("B = matmul(A, A);"), "+(A[i, k] * B[k, j])"),
        (body("B = tanhh(A);"), "did you mean 'tanh'?"),
        (body("B[i : MM] = +(A[i, j]);"), "did you mean 'M'?"),
        (body("B[i : m] = +(A[i, j]);"), "'m'"),
        (body("B[i : M] = +(Aa[i, j]);"), "did you mean 'A'?"),
        (body("Bb = A;"), "did you mean 'Bb'?"),
        (lambda _: tileir.compile(COPY, [(3,)], device="lvm.0"), "did you mean llvm.0?"),
        (lambda _: tileir.compile(COPY, [(3,)], device="LLVM"), "did you mean llvm?"),
        (lambda _: tileir.compile(COPY, {"a": (3,)}), "did you mean 'A'?"),
        (lambda _: tileir.compile(COPY, ["f33[3]"]), "did you mean 'f32'?"),
        (lambda _: tileir.compile(COPY, ["float64[3]"]), "did you mean 'f64'?"),
        (lambda p: tf.cast(p.x, "float32"), "did you mean 'f32'?"),
        (lambda p: np.linalg.svd(p.x), "compute them on arrays before"),
        (lambda p: np.nonzero(p.x), "count_nonzero"),
        (lambda p: p.f.build(p.b[p.i]), "an element"),
    ],
)
def test_mistakes_are_told_what_to_write(wrong: Callable[[Any], object], said: str) -> None:
    with pytest.raises(tileir.TileError) as caught:
        wrong(Parts())
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda p: p.x.numpy(), "run the function"),
        (lambda p: p.x.relu(), "ops.relu(X)"),
        (lambda p: p.x.transpos(), "did you mean transpose"),
    ],
)
def test_missing_attributes_are_told_what_to_write(wrong: Callable[[Any], object], said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        wrong(Parts())
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("module", "name", "near"),
    [
        (ops, "avg_pool", "average_pool"),
        (ops, "conv2d", "conv"),
        (ops, "sofmax", "softmax"),
        (tileir, "grad", "gradient"),
        (tileir, "complie", "compile"),
    ],
)
def test_names_that_modules_lack(module: ModuleType, name: str, near: str) -> None:
    with pytest.raises(AttributeError, match=f"did you mean '{near}'"):
        getattr(module, name)


@pytest.mark.parametrize("number", [np.float32(2), np.int64(3), np.True_])
def test_numbers_of_numpy_stand_on_both_sides_of_operators(number: Any) -> None:
    f = tileir.FunctionBuilder()
    x = f.input("X")
    y = (number + x, x + number, np.multiply(number, x), np.multiply(x, number), number < x, number - x)
    values = f.build(**{f"Y{n}": each for n, each in enumerate(y)})
    given = np.array([1.0, 5.0], np.float32)
    found = tileir.evaluate(values, [given])
    other = float(number)
    expected = (other + given, given + other, other * given, given * other, other < given, other - given)
    for left, right in zip(found, expected, strict=True):
        assert (np.asarray(left) == right).all()


def test_what_other_libraries_call_so_exists_here() -> None:
    known = {*dir(ops), *dir(tileir), *(dtype.value for dtype in tileir.DType)}
    assert set(ELSEWHERE.values()) <= known
    assert not set(ELSEWHERE) & set(dir(ops))


def test_nothing_is_suggested_for_what_resembles_nothing() -> None:
    assert meant("Q", ["A", "Beta"]) is None
    assert meant("", ["A"]) is None
