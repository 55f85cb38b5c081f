"""Tensors of PyTorch by DLPack's C functions: what they are, where they are, and which are left to ``__dlpack__``."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from strategies.peer_arrays import LAYOUTS, TORCH, bits, sample
from tileir.core.dtype import DType
from tileir.runtime.devices.exchange import ATTRIBUTE, Exchange, Format

torch: Any = pytest.importorskip("torch")
if not hasattr(torch.Tensor, ATTRIBUTE):
    pytest.skip("this PyTorch has no such functions", allow_module_level=True)


def functions(value: Any) -> Exchange:
    found = Exchange.of(value)
    assert found is not None
    return found


def tensor_of(dtype: DType) -> Any:
    array = sample(dtype)
    if dtype.is_bool:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, TORCH[dtype.value]))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_memory_is_shared(dtype: DType, layout: str) -> None:
    value = LAYOUTS[layout](tensor_of(dtype))
    exchange = functions(value)
    assert exchange.place(value) == (1, 0)
    found = exchange.array(value)
    assert found is not None
    assert (found.dtype, found.shape) == (dtype.numpy, tuple(value.shape))
    assert bits(found) == bits(LAYOUTS[layout](sample(dtype)))
    if found.size:
        assert found.__array_interface__["data"][0] == value.data_ptr()


def uses(value: Any) -> int:
    found: int = torch._C._storage_Use_Count(value.untyped_storage()._cdata)
    return found


def test_memory_lives_as_long_as_somebody_uses_it() -> None:
    value = torch.arange(1000.0)
    before = uses(value)
    found = functions(value).array(value)
    assert found is not None
    other = value.detach()
    del value
    gc.collect()
    assert found.sum() == 499500
    del found
    gc.collect()
    assert uses(other) == before


def test_what_is_not_taken_is_given_back() -> None:
    value = torch.ones(100, dtype=torch.complex64)
    before = uses(value)
    for _ in range(3):
        with pytest.raises(BufferError, match="complex of 64 bits"):
            functions(value).array(value)
    gc.collect()
    assert uses(value) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch.ones(3, requires_grad=True) * 2,
        lambda: torch._neg_view(torch.ones(3)),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.ones(3, device="meta"),
    ],
    ids=["leaf", "result", "negative", "sparse", "meta"],
)
def test_others_are_left_to_python(make: Any) -> None:
    value = make()
    assert functions(value).array(value) is None


def test_subclasses_speak_for_themselves() -> None:
    assert Exchange.of(torch.nn.Parameter(torch.ones(3))) is None
    assert Exchange.of(np.ones(3)) is None


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_addresses_are_told_of_what_is_as_wanted(dtype: DType) -> None:
    value = tensor_of(dtype).reshape(-1)[:24].reshape(2, 3, 4).contiguous()
    exchange, wanted = functions(value), Format.of(dtype, (2, 3, 4), (1, 0))
    assert exchange.address(value, wanted) == value.data_ptr()
    assert exchange.address(value[1:].expand(2, 3, 4), wanted) is None
    assert exchange.address(value.transpose(0, 1).contiguous().transpose(0, 1), wanted) is None
    assert exchange.address(value.reshape(4, 3, 2), wanted) is None
    assert exchange.address(value, Format.of(dtype, (2, 3, 4), (2, 0))) is None
    assert exchange.address(value, Format.of(dtype, (2, 12), (1, 0))) is None
    for other in DType:
        if other is not dtype:
            assert exchange.address(value, Format.of(other, (2, 3, 4), (1, 0))) is None
    assert exchange.is_writable(value)
    scalar = value[0, 0, 0]
    assert exchange.address(scalar, Format.of(dtype, (), (1, 0))) == value.data_ptr()


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(3, requires_grad=True),
        lambda: torch._neg_view(torch.ones(3)),
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.ones(3, device="meta"),
        lambda: torch.ones(0),
    ],
    ids=["gradients", "negative", "sparse", "meta", "empty"],
)
def test_addresses_are_told_of_nothing_else(make: Any) -> None:
    value = make()
    assert functions(value).address(value, Format.of(DType.F32, tuple(value.shape), (1, 0))) is None


def test_looking_at_an_address_keeps_nothing_alive() -> None:
    value = torch.arange(24.0)
    before = uses(value)
    for _ in range(3):
        functions(value).address(value, Format.of(DType.F32, (24,), (1, 0)))
        functions(value).is_writable(value)
    gc.collect()
    assert uses(value) == before
