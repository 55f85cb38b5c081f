"""Tensors of PyTorch as arguments: parameters, those of a recorded computation, and calls that mix them with arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileir
from strategies.peer_arrays import LAYOUTS, TORCH, bits, sample
from tileir.core.dtype import DType
from tileir.runtime.devices.torch_tensors import host_array, quicker, values_of

torch: Any = pytest.importorskip("torch")

SUM = "function (A[N], B[N]) -> (Y) { Y = A + B; }"
X, Y = np.arange(12, dtype=np.float32), np.linspace(-1, 2, 12, dtype=np.float32)


def tensor_of(dtype: DType) -> Any:
    array = sample(dtype)
    if dtype.is_bool:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, TORCH[dtype.value]))


def parameter(array: np.ndarray[Any, Any]) -> Any:
    return torch.nn.Parameter(torch.from_numpy(array.copy()))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_memory_is_shared(dtype: DType, layout: str) -> None:
    value = LAYOUTS[layout](tensor_of(dtype))
    found = host_array(value)
    assert found is not None
    assert (found.dtype, found.shape) == (dtype.numpy, tuple(value.shape))
    assert bits(found) == bits(LAYOUTS[layout](sample(dtype)))
    if found.size:
        assert found.__array_interface__["data"][0] == value.data_ptr()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_parameters_are_their_values(dtype: str) -> None:
    value = torch.nn.Parameter(torch.arange(6).to(getattr(torch, dtype)))
    found = tileir.jit("function (A) -> (B) { B = A; }", "llvm")(value)
    np.testing.assert_array_equal(found.astype(np.float64), np.arange(6))
    seen = host_array(value)
    assert seen is not None
    assert seen.__array_interface__["data"][0] == value.data_ptr()
    assert value.requires_grad
    assert value.grad_fn is None


@pytest.mark.parametrize("device", ["llvm", "opencl"])
def test_parameters_go_to_a_device(device: str) -> None:
    np.testing.assert_array_equal(tileir.to_device(parameter(X), device).numpy(), X)


def test_a_record_ends_only_where_nothing_is_recorded() -> None:
    add = tileir.jit(SUM, "llvm")
    computed = parameter(X) * 2
    for call in (lambda: add(computed, Y), lambda: add(X, computed), lambda: tileir.to_device(computed, "llvm")):
        with pytest.raises(tileir.ArgumentError, match=r"tensor\.detach\(\).*or do this under torch\.no_grad") as error:
            call()
        assert error.value.diagnostics[0].code == "TIL702"
        with torch.no_grad():
            call()
    np.testing.assert_array_equal(add(computed.detach(), Y), X * 2 + Y)


def test_parameters_are_written_only_where_nothing_is_recorded() -> None:
    add, room = tileir.jit(SUM, "llvm"), parameter(X * 0)
    executable = add.specialise(X, Y)
    for call in (add, executable):
        with pytest.raises(tileir.ArgumentError, match=r"not Parameter: .* use tensor\.detach\(\)"):
            call(X, Y, out=room)
    with torch.no_grad():
        assert add(X, Y, out=room) is room
    np.testing.assert_array_equal(room.detach().numpy(), X + Y)


KINDS: dict[str, Any] = {
    "array": lambda array: array,
    "tensor": lambda array: torch.from_numpy(array.copy()),
    "parameter": parameter,
    "gaps": lambda array: torch.from_numpy(np.repeat(array, 2))[::2],
    "negative": lambda array: torch._neg_view(torch.from_numpy(-array)),
    "subclass": lambda array: torch.from_numpy(array.copy()).as_subclass(type("Own", (torch.Tensor,), {})),
    "list of one axis": lambda array: tileir.to_device(array, "llvm"),
}


@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("first", KINDS)
def test_calls_mix_arrays_and_tensors(first: str, second: str) -> None:
    add = tileir.jit(SUM, "llvm", options=tileir.Options(threads=1))
    a, b, room = KINDS[first](X), KINDS[second](Y), torch.zeros(12)
    executable = add.specialise(X, Y)
    for call in (add, executable, add, executable):
        np.testing.assert_array_equal(np.asarray(call(a, b)), X + Y)
        np.testing.assert_array_equal(np.asarray(call(B=b, A=a)), X + Y)
        room.zero_()
        assert call(a, b, out=room) is room
        np.testing.assert_array_equal(room.numpy(), X + Y)
        np.testing.assert_array_equal(np.asarray(call.submit(a, b).result()), X + Y)


@pytest.mark.parametrize("device", ["llvm", "opencl"])
def test_elements_of_the_other_sign_than_their_memory_are_read_and_not_written(device: str) -> None:
    value = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert value.is_neg()
    copied = tileir.jit("function (A) -> (B) { B = A; }", device)
    for given in (value, tileir.to_device(value, device), torch.nn.Parameter(value)):
        np.testing.assert_array_equal(np.asarray(copied(given)), [-2, 4])
    with pytest.raises(tileir.ArgumentError, match=r"TIL703.*pass tensor\.resolve_neg\(\)"):
        copied(np.ones(2, np.float32), out=value)


def test_a_result_shares_no_memory_with_the_tensors() -> None:
    add, value = tileir.jit(SUM, "llvm"), torch.from_numpy(X.copy())
    found = add(value, value)
    value.zero_()
    np.testing.assert_array_equal(found, X + X)
    value.copy_(torch.from_numpy(X))
    assert add(value, Y, out=value) is value
    np.testing.assert_array_equal(value.numpy(), X + Y)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.ones(12, dtype=torch.float64), "elements of type f64"),
        (lambda: torch.ones(3, 4), "has 2 dimensions"),
        (lambda: torch.ones(12).to_sparse(), r"to_dense\(\)"),
        (lambda: torch.ones(12, device="meta"), "make it on the host"),
    ],
    ids=["dtype", "shape", "sparse", "meta"],
)
def test_what_does_not_fit_is_refused(make: Any, words: str) -> None:
    executable = tileir.jit(SUM, "llvm").specialise(X, Y)
    for arguments in ((make(), Y), (torch.from_numpy(X), make())):
        with pytest.raises(tileir.ArgumentError, match=words):
            executable(*arguments)
    with pytest.raises(tileir.ArgumentError, match="TIL70"):
        executable(X, Y, out=make())


def test_nothing_is_quicker_for_what_is_no_tensor() -> None:
    assert host_array(X) is None
    assert host_array(2.0) is None
    assert quicker((X, Y)) is None
    assert quicker((torch.ones(2), 2.0)) is None
    assert quicker((torch.ones(2, device="meta"),)) is None
    assert values_of(X) is X
