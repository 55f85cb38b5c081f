"""Normalisation: what is refused, and where two passes matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.golden_kernels import compiled
from strategies.operations import fault_of, run
from tileir import ops
from tileir.core.dtype import DType
from tileir.tile.builder import FunctionBuilder
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor

OTHER: Any = "another kind of value"


@pytest.mark.parametrize(
    ("attempt", "code", "message"),
    [
        (lambda x, _: ops.layer_norm(x, axes=3), "TIL314", "the axis is 3, but the tensor has axes 0 to 2"),
        (lambda x, _: ops.layer_norm(x, axes=(1, -2)), "TIL217", "an axis stands twice"),
        (lambda x, _: ops.layer_norm(x, x), "TIL305", "what is given for 1 axes has as many axes, not 3"),
        (lambda x, v: ops.layer_norm(x, v, axes=(1, 2)), "TIL305", "what is given for 2 axes has as many axes, not 1"),
        (lambda x, _: ops.batch_norm(x, axis=5), "TIL314", "the axis is 5"),
        (lambda x, v: ops.batch_norm_inference(x, v, x), "TIL305", "what is given for 1 axes has as many axes, not 3"),
        (lambda x, _: ops.group_norm(x, 0), "TIL217", "groups is an integer from 1 on"),
        (lambda x, _: ops.group_norm(x, 2, axis=0), "TIL217", "groups is an integer from 1 on, and axis is not"),
        (lambda x, _: ops.instance_norm(x, axis=0), "TIL217", "axis is that of the channels"),
        (lambda x, _: ops.local_response_norm(x, OTHER), "TIL217", "local_response_norm: size has to be an integer"),
        (lambda x, _: ops.mean_variance_norm(x, epsilon_mode="on"), "TIL217", "epsilon_mode is one of 'inside', "),
        (lambda x, _: ops.l2_normalise(x, epsilon_mode="on"), "TIL217", "epsilon_mode is one of 'max', 'add'"),
    ],
)
def test_wrong_arguments(attempt: Callable[[Tensor, Tensor], object], code: str, message: str) -> None:
    f = tileir.FunctionBuilder()
    x, v = f.input("X", "N", "C", "H"), f.input("V", "C")
    found, text = fault_of(lambda: attempt(x, v), __file__)
    assert (found, text[: len(message)]) == (code, message)


def test_groups_divide_the_channels() -> None:
    assert fault_of(lambda: run(lambda x: ops.group_norm(x, 2), np.zeros((1, 3, 2))), __file__)[0] == "TIL310"


def test_variance_of_large_values_does_not_cancel() -> None:
    x = (1e4 + np.arange(8)).astype(np.float32)[None]
    centred = np.arange(8) - 3.5
    expected = centred / np.sqrt((centred**2).mean() + 1e-5)
    np.testing.assert_allclose(run(ops.layer_norm, x)[0], expected, rtol=1e-5)


NORMALISATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "batch": lambda x, w, b: ops.batch_norm(x, w, b)[0],
    "layer": lambda x, w, b: ops.layer_norm(x, w, b, axes=1),
    "root mean square": lambda x, w, _: ops.rms_norm(x, w, axes=1),
    "group": lambda x, w, b: ops.group_norm(x, 3, w, b),
    "instance": ops.instance_norm,
}


@pytest.mark.parametrize("name", NORMALISATIONS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), DType.BF16.numpy])
@pytest.mark.parametrize("wide", [False, True], ids=["same", "f32"])
def test_narrow_results_are_rounded_once(name: str, dtype: np.dtype[Any], wide: bool) -> None:
    """They are those of f32, whatever dtype weights and biases have."""
    generator, norm = np.random.default_rng(1), NORMALISATIONS[name]
    x, *given = (generator.standard_normal(shape).astype(dtype) for shape in ((4, 6, 50), (6,), (6,)))
    if wide:
        given = [each.astype(np.float32) for each in given]
    found, exact = run(norm, x, *given), run(norm, *(each.astype(np.float32) for each in (x, *given)))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float32), exact.astype(dtype).astype(np.float32))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", ["nvidia-hopper", "amd-cdna3"])
@pytest.mark.parametrize("name", [name for name in NORMALISATIONS if name != "batch"])
def test_a_card_normalises_narrow_tensors_in_one_kernel(name: str, target: str) -> None:
    builder = FunctionBuilder()
    x, w, b = builder.input("X", "N", "C", "L"), builder.input("W", "C"), builder.input("B", "C")
    function = builder.build(NORMALISATIONS[name](x, w, b))
    types = {name: TensorType(DType.F16, shape) for name, shape in (("X", (4, 6, 50)), ("W", (6,)), ("B", (6,)))}
    assert len(compiled(function, types, target).kernels) == 1


def test_equal_elements_have_the_gradient_of_their_distance_from_the_mean() -> None:
    f = FunctionBuilder()
    function = f.build(O=ops.mean_variance_norm(f.input("X", "N"), epsilon=0.5, epsilon_mode="outside"))
    found = tileir.vjp(function, {"X": np.full(4, 3.0)}, {"O": np.array([1.0, 2, 3, 6])}, wrt=["X"])["X"]
    np.testing.assert_allclose(np.asarray(found), [-4, -2, 0, 6], atol=1e-12)
