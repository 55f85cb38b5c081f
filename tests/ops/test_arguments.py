"""The border of the library: what every operation says of arguments that it does not take."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.operations import fault_of, run
from tileir import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.tile.builder import Tensor

OPS: Any = ops  # no type checker finds what is wrong here
ARRAY: Any = np.ones((2, 3))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda _: OPS.relu(ARRAY), "relu: x has to be a tensor, not an array"),
        (lambda x: OPS.softmax(x, dim=1, axis=0), "softmax is given axis twice, as dim and axis; drop one"),
        (lambda x: OPS.sum(x, dim=1, axis=0), "sum is given axes twice, as dim and axis; drop one"),
        (lambda x: OPS.relu(x, dim=1), "relu has no argument 'dim'"),
        (lambda x: OPS.cumsum(x, axes=(0, 1)), "cumsum: axis has to be an integer, not (0, 1)"),
        (lambda x: OPS.var(x, unbiased=True), "var has no argument 'unbiased'; here it is called correction"),
        (lambda x: OPS.gelu(x, aproximate="tanh"), "gelu has no argument 'aproximate'; did you mean approximate?"),
        (lambda x: OPS.conv(x), "conv: missing a required argument: 'w'; it is conv(x, w, bias=None, *, stride=1"),
        (lambda x: OPS.transpose(x, 0, 1), "transpose: too many positional arguments; it is transpose(x, axes=None)"),
        (lambda x: OPS.transpose(x, 1), "transpose: axes has to be a sequence of integers or None, not 1"),
        (lambda x: OPS.max(x, keepdims=1), "max: keepdims has to be True or False, not 1"),
        (lambda x: OPS.dropout(x, x, "half"), "dropout: rate has to be a number, not 'half'"),
        (lambda x: OPS.concatenate([x, ARRAY]), "concatenate: tensors has to be a sequence of tensors, not [Tensor("),
        (lambda x: OPS.einsum("ij", x, 3), "einsum: tensors has to be a tensor, not 3"),
        (lambda x: OPS.conv(x, x, padding=0.5), "conv: padding has to be a string, an integer or a sequence of"),
        (lambda x: OPS.max_pool(x, 2, layout=None), "max_pool: layout has to be a string, not None"),
        (lambda x: OPS.cast(x, np.float32), "cast: dtype has to be a DType or a string, not <class"),
        (lambda x: OPS.batch_norm(x, running=(x,)), "batch_norm: running has to be 2 tensors or None, not (Tensor("),
        (lambda x: OPS.lstm(x, OPS.RecurrentWeights(x, x)), "lstm: weights has to be a sequence of RecurrentWeights"),
    ],
)
def test_wrong_arguments_are_named_at_the_line_of_the_user(attempt: Callable[[Any], object], message: str) -> None:
    x = tileir.FunctionBuilder().input("X", "A", "B")
    code, text = fault_of(lambda: attempt(x), __file__)
    assert (code, text[: len(message)]) == ("TIL217", message)


@pytest.mark.parametrize(
    ("elsewhere", "here"),
    [
        (lambda x: OPS.softmax(x, dim=1), lambda x: ops.softmax(x, axis=1)),
        (lambda x: OPS.softmax(x, axes=0), lambda x: ops.softmax(x, axis=0)),
        (lambda x: OPS.sum(x, axis=0, keepdim=True), lambda x: ops.sum(x, axes=0, keepdims=True)),
        (lambda x: OPS.max(x, dim=(0, 1)), lambda x: ops.max(x, axes=(0, 1))),
        (lambda x: OPS.layer_norm(x, eps=0.5), lambda x: ops.layer_norm(x, epsilon=0.5)),
        (lambda x: OPS.transpose(x, dims=(1, 0)), lambda x: ops.transpose(x, axes=(1, 0))),
        (lambda x: OPS.norm(x, ord=1), lambda x: ops.norm(x, order=1)),
    ],
)
def test_names_of_numpy_and_pytorch_are_taken(elsewhere: Callable[[Any], Any], here: Callable[[Any], Any]) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(elsewhere, x), run(here, x))


def test_numbers_of_numpy_are_those_of_python() -> None:
    image = np.arange(24.0).reshape(1, 1, 4, 6)

    def pooled(x: Tensor) -> Any:
        return OPS.max_pool(x, np.int64(2), stride=(np.int32(2), np.int8(3)), padding=[np.int64(0), 0])

    np.testing.assert_array_equal(run(pooled, image), run(lambda x: OPS.max_pool(x, 2, stride=(2, 3)), image))
    np.testing.assert_array_equal(run(lambda x: OPS.sum(x, range(1, 3)), image), image.sum((1, 2)))


WRONG: Any = (None, "bogus", 2.5, [], {}, object(), ARRAY, float("inf"), 1j, b"ab", [1.5], [None], int)


@pytest.mark.sampled(51)
@pytest.mark.parametrize("name", [name for name in ops.__all__ if name != "RecurrentWeights"])
def test_whatever_is_passed_is_no_crash(name: str) -> None:
    operation = getattr(ops, name)
    parameters = inspect.signature(operation).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    for wrong in WRONG:
        f = tileir.FunctionBuilder()
        arguments = [
            f.input(f"X{place}", "A", "B") if p.annotation == "Tensor" else 1 for place, p in enumerate(needed)
        ]
        for place in range(len(needed)):
            try:
                operation(*arguments[:place], wrong, *arguments[place + 1 :])
            except tileir.TileError as error:
                span = error.diagnostics[0].span
                assert span is not None
                assert span.source.name == __file__
