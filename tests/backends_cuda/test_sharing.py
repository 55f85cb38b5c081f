"""Arrays in the memory of a card, shared by DLPack and the interface of CUDA. Skipped where there is none."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.shared_device import Interfaced
from tileir.core.dtype import DType

A = np.arange(24, dtype=np.float32).reshape(4, 6)
ADD = "function (A, B) -> (S) { S = A + B; }"


@pytest.fixture(scope="module")
def card() -> str:
    for device in tileir.devices():
        if device.backend == "cuda":
            return device.id
    pytest.skip("there is no card of NVIDIA's")


class Passing:
    """Memory of a card behind DLPack alone."""

    def __init__(self, array: tileir.DeviceArray) -> None:
        self.array = array
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_elements_of_every_dtype_are_shared(card: str, dtype: DType) -> None:
    array = (A % 5).astype(dtype.numpy)
    found = tileir.to_device(array, card)
    assert found.__dlpack_device__()[0] == 2
    other = Passing(found)
    again = tileir.to_device(other)
    assert again.device.id == card
    assert other.asked[0]["stream"] > 2
    assert again.numpy().tolist() == array.tolist()
    found.free()
    gc.collect()
    fresh = [tileir.to_device(np.zeros_like(array), card) for _ in range(4)]
    assert again.numpy().tolist() == array.tolist()  # the memory was not given to somebody else
    assert len(fresh) == 4


def test_calls_work_on_memory_of_others(card: str) -> None:
    add = tileir.jit(ADD)
    a = tileir.to_device(A, card)
    for value in (a, Passing(a), Interfaced(A, stream=1, changes=dict(a.__cuda_array_interface__) | {"stream": 1})):
        found = add(value, A)
        assert found.device.id == card
        np.testing.assert_array_equal(found.numpy(), A + A)
    room = tileir.to_device(np.zeros_like(A), card)
    out = Passing(room)
    assert add(a, a, out=out) is out
    np.testing.assert_array_equal(room.numpy(), A + A)
    assert type(add.specialise(a, a)(A, A)) is np.ndarray


def test_streams_of_others_wait(card: str) -> None:
    a = tileir.to_device(np.ones((2048, 2048), np.float32), card)
    product = tileir.compile(
        "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }", [a, a], device=card
    )
    for stream in (None, 1, 2, -1):
        found = product.submit(a, a).pending_results
        assert found.__dlpack__(stream=stream)
        np.testing.assert_array_equal(found.numpy(), np.full((2048, 2048), 2048, np.float32))
    with pytest.raises(BufferError, match="stream 0"):
        a.__dlpack__(stream=0)


def test_less_aligned_memory_is_copied(card: str) -> None:
    whole = tileir.to_device(np.arange(1025, dtype=np.float32), card)
    described: dict[str, Any] = dict(whole.__cuda_array_interface__)
    part = {"shape": (1024,), "data": (described["data"][0] + 4, False)}
    value = Interfaced(A, changes=described | part)
    found = tileir.jit(ADD)(value, value)
    np.testing.assert_array_equal(found.numpy(), np.arange(1, 1025) * 2)


def test_state_stays_on_the_card(card: str) -> None:
    step = tileir.stepper("function (W, X) -> (W2, O) { W2 = W + X; O = W * 2; }", {"W": "W2"}, {"W": A}, card)
    for turn in range(3):
        np.testing.assert_array_equal(step(A), A * (turn + 1) * 2)
    np.testing.assert_array_equal(step.state["W"], A * 4)


def test_arrays_outlive_their_context(card: str) -> None:
    with tileir.Context() as context:
        found = tileir.to_device(A, card, context=context)
    np.testing.assert_array_equal(found.numpy(), A)
    found.free()
