"""Arrays on devices: made of everything, exported to everybody, and never copied across a bus unasked."""

from __future__ import annotations

import gc
import pickle
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.asynchronous import DistantBuffer
from strategies.dlpack import Library
from strategies.shared_device import Interfaced, SharedDevice, with_card
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.runtime.devices.dlpack import knows_versions
from tileir.runtime.events import PendingEvent

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
READ_ONLY = MATRIX.copy()
READ_ONLY.flags.writeable = False
DEVICES = [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")] + ["shared.0"]


def bits(array: Array) -> list[Any]:
    found: list[Any] = np.ascontiguousarray(array).view(f"u{array.itemsize}").tolist()
    return found


def code_of(error: pytest.ExceptionInfo[tileir.TileError]) -> str:
    return error.value.diagnostics[0].code


LAYOUTS = {
    "plain": MATRIX,
    "strided": MATRIX[::2, 1::2],
    "reversed": MATRIX[::-1, ::-1],
    "transposed": MATRIX.T,
    "none": MATRIX[1, 2, ...],
    "empty": MATRIX[:0],
    "read-only": READ_ONLY,
    "misaligned": np.frombuffer(b"\0" + MATRIX.tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4),
    "foreign order": MATRIX.astype(">f4"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", DEVICES)
def test_arrays_of_every_layout_get_there_and_back(context: tileir.Context, device: str, layout: str) -> None:
    array = LAYOUTS[layout]
    for copy in (None, True):
        found = tileir.to_device(array, device, context=context, copy=copy)
        assert (found.shape, found.device.id) == (array.shape, device)
        assert found.dtype == np.float32
        assert (found.ndim, found.size, found.nbytes) == (array.ndim, array.size, array.nbytes)
        np.testing.assert_array_equal(found.numpy(), array.astype(np.float32))
        assert not copy or not found.size or not np.shares_memory(found.numpy(), array)


@pytest.mark.sampled(21)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
@pytest.mark.parametrize("device", DEVICES)
def test_arrays_of_every_dtype_get_there_and_back(context: tileir.Context, device: str, dtype: DType) -> None:
    array = (MATRIX % 5).astype(dtype.numpy)
    found = tileir.to_device(array, device, context=context, copy=True)
    assert repr(found) == f"DeviceArray({dtype.value}[3, 4] on {device})"
    assert found.numpy().dtype == dtype.numpy
    assert bits(found.numpy()) == bits(array)
    elsewhere = tileir.to_device(found, "shared.0", context=context)
    assert bits(tileir.to_device(elsewhere, "llvm", context=context).numpy()) == bits(array)
    if dtype not in (DType.BF16, DType.F8E4M3FN, DType.F8E5M2):
        assert bits(np.from_dlpack(found, device="cpu")) == bits(array)


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_libraries_share_memory_of_the_host(context: tileir.Context, dtype: DType, versions: bool) -> None:
    array = MATRIX.astype(dtype.numpy)
    found = tileir.to_device(Library(array, versions=versions), context=context)
    assert found.device.id == "llvm.0"
    assert np.shares_memory(found.numpy(), array)
    assert not found.read_only


@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_libraries_share_memory_of_a_device(context: tileir.Context, card: SharedDevice, dtype: DType) -> None:
    array = MATRIX.astype(dtype.numpy)
    library = Library(array, place=(2, 0), counted=True)
    look_at(tileir.to_device(library, context=context), card, array)
    assert library.asked[0]["stream"] == card.dlpack_stream
    wait_until(lambda: library.released == 1)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what other threads still have to let go of."""
    for _ in range(1000):
        gc.collect()
        if holds():
            return
        time.sleep(0.01)
    pytest.fail("it is not let go of")


def look_at(found: tileir.DeviceArray, card: SharedDevice, array: Array) -> None:
    memory = found.memory()
    assert isinstance(memory, DistantBuffer)
    assert found.device.id == "shared.0"
    assert found.home.executor is card
    assert card.address(memory) == array.ctypes.data
    assert bits(found.numpy()) == bits(array)
    assert found.__dlpack_device__() == (2, 0)


def test_nothing_moves_an_array_that_is_there(context: tileir.Context) -> None:
    found = tileir.to_device(MATRIX, "shared.0", context=context)
    assert tileir.to_device(found, "shared.0", context=context) is found
    assert tileir.to_device(found, context=context) is found
    assert tileir.to_device(found, context=context, copy=True) is not found


class Passing:
    """Memory of a device array behind DLPack alone, as the device knows it, even where the host sees it as well."""

    def __init__(self, array: tileir.DeviceArray, **changes: Any) -> None:
        self.array = array
        self.place = array.home.place
        self.changes = {"dl_device": self.place} | changes

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options | self.changes)

    def __dlpack_device__(self) -> Any:
        return self.place


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_exported_shares_memory_with_what_is_imported(context: tileir.Context, device: str) -> None:
    found = tileir.to_device(MATRIX, device, context=context, copy=True)
    for version in (None, (1, 0)):
        again = tileir.to_device(Passing(found, max_version=version), context=context)
        assert again.device.id == device
        np.testing.assert_array_equal(again.numpy(), MATRIX)
    copied = tileir.to_device(Passing(found, copy=True), context=context)
    found.free()
    np.testing.assert_array_equal(copied.numpy(), MATRIX)
    np.testing.assert_array_equal(again.numpy(), MATRIX)  # it keeps the memory


@pytest.mark.skipif(not knows_versions(), reason="this NumPy knows no versions")
@pytest.mark.parametrize("device", ["llvm.0", "shared.0"])
def test_read_only_memory_stays_so(context: tileir.Context, device: str) -> None:
    place = (1, 0) if device == "llvm.0" else (2, 0)
    found = tileir.to_device(Library(READ_ONLY, place=place), context=context)
    assert found.read_only
    assert repr(found) == f"DeviceArray(f32[3, 4] on {device}, read-only)"
    assert tileir.to_device(Passing(found), context=context).read_only
    assert not tileir.to_device(found, context=context, copy=True).read_only
    with pytest.raises(BufferError, match="max_version"):
        found.__dlpack__()


def test_streams_are_ordered(context: tileir.Context, card: SharedDevice) -> None:
    found = tileir.to_device(MATRIX, "shared.0", context=context)
    found.__dlpack__(stream=5)
    assert card.preceded == []  # nothing is to be written
    found.await_call(PendingEvent())
    found.__dlpack__(stream=5)
    found.__dlpack__(stream=None)
    found.__dlpack__(stream=-1)
    assert card.preceded == [(5, 1), (1, 1)]
    with pytest.raises(BufferError, match="stream 0"):
        found.__dlpack__(stream=0)
    host = tileir.to_device(MATRIX, "llvm", context=context)
    with pytest.raises(BufferError, match=r"llvm\.0 has no streams"):
        host.__dlpack__(stream=3)
    assert host.__dlpack__(stream=-1)


def test_libraries_of_cuda_need_no_dlpack(context: tileir.Context, card: SharedDevice) -> None:
    for array in (MATRIX, READ_ONLY, np.empty((0, 3), np.int8)):
        found = tileir.to_device(Interfaced(array, stream=9), context=context)
        assert (found.device.id, found.read_only) == ("shared.0", not array.flags.writeable)
        np.testing.assert_array_equal(found.numpy(), array)
        again = tileir.to_device(Interfaced(array, changes=dict(found.__cuda_array_interface__)), context=context)
        np.testing.assert_array_equal(again.numpy(), array)
    assert card.followed == [9, 9, 9]
    for absent in (
        tileir.to_device(MATRIX, "llvm", context=context),
        tileir.to_device(bf16(), "shared", context=context),
    ):
        assert not hasattr(absent, "__cuda_array_interface__")


def bf16() -> Array:
    return MATRIX.astype(DType.BF16.numpy)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Library(MATRIX, place=(10, 1)), r"memory of ROCm \(number 1\), which no device here shares"),
        (Library(MATRIX, place=(2, 1)), r"CUDA \(number 1\)"),
        (Library(MATRIX.T, place=(2, 0)), "make it contiguous where it is"),
        (Library(MATRIX, place=(2, 0), lanes=2), "cannot be shared with shared.0 .* in groups of 2"),
        (Interfaced(MATRIX, changes={"mask": MATRIX}), "masked elements; fill them first"),
        (Interfaced(MATRIX.astype(np.complex64)), "complex64 have no equal here"),
        (Interfaced(MATRIX.T), "make it contiguous where it is"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_advice(context: tileir.Context, value: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=text) as error:
        tileir.to_device(value, context=context)
    assert code_of(error) == "TIL714"


def test_devices_may_refuse_memory(context: tileir.Context, card: SharedDevice) -> None:
    card.refuses = True
    with pytest.raises(ArgumentError, match="in memory that it cannot use here"):
        tileir.to_device(Library(MATRIX, place=(2, 0)), context=context)


def test_nothing_is_copied_to_the_host_unasked(context: tileir.Context) -> None:
    found = tileir.to_device(MATRIX, "shared.0", context=context)
    for read in (np.asarray, lambda array: np.asarray(array, np.float64), lambda array: np.add(array, 1)):
        with pytest.raises(ArgumentError, match=r"write array\.numpy\(\)") as error:
            read(found)
        assert code_of(error) == "TIL714"
    np.testing.assert_array_equal(np.array(found, copy=True), MATRIX)
    assert np.array(found, np.float64, copy=True).dtype == np.float64
    with pytest.raises(BufferError, match="without a copy"):
        found.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match="ROCm"):
        found.__dlpack__(dl_device=(10, 0))
    # NumPy asks first where the memory is, and raises an error of another type in some of its releases.
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(found)
    with pytest.raises(ArgumentError, match="allow that"):
        tileir.to_device(found, "llvm", context=context, copy=False)
    with pytest.raises(ArgumentError, match="allow a copy"):
        tileir.to_device(MATRIX, "shared", context=context, copy=False)


def test_memory_of_the_host_is_shared_with_numpy(context: tileir.Context) -> None:
    found = tileir.to_device(MATRIX, context=context)
    for read in (np.asarray, np.from_dlpack, tileir.DeviceArray.numpy):
        assert np.shares_memory(read(found), MATRIX)
    assert not np.shares_memory(np.array(found, copy=True), MATRIX)
    assert np.asarray(found, np.float64).dtype == np.float64
    assert not np.shares_memory(tileir.to_device(found, context=context, copy=True).numpy(), MATRIX)


@pytest.mark.parametrize("device", DEVICES)
def test_freed_arrays_are_refused(context: tileir.Context, device: str) -> None:
    found = tileir.to_device(MATRIX, device, context=context, copy=True)
    memory = weakref.ref(found.memory())
    found.free()
    found.free()
    assert repr(found) == f"DeviceArray(f32[3, 4] on {device}, freed)"
    gc.collect()
    assert memory() is None
    for use in (found.numpy, found.__dlpack__, found.seen):
        with pytest.raises(ArgumentError, match="was freed") as error:
            use()
        assert code_of(error) == "TIL715"


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_outlive_their_context(card: SharedDevice, device: str) -> None:
    with tileir.Context(device_id="llvm", registry=with_card(card)) as context:
        found = tileir.to_device(MATRIX, device, context=context, copy=True)
    np.testing.assert_array_equal(found.numpy(), MATRIX)
    found.free()


@pytest.mark.parametrize("device", [each for each in DEVICES if each != "shared.0"])
def test_what_there_is_no_memory_for_is_refused(device: str) -> None:
    large = np.broadcast_to(np.float32(1), (1 << 24, 1 << 24))
    with pytest.raises(tileir.TileError, match="1125899906842624") as error:
        tileir.to_device(large, device)
    assert code_of(error) == "TIL708"


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(ArgumentError) as error:
        tileir.to_device("text")
    assert code_of(error) == "TIL702"
    with pytest.raises(tileir.BackendError) as unknown:
        tileir.to_device(MATRIX, "nowhere")
    assert code_of(unknown) == "TIL801"


@pytest.mark.parametrize("device", [each for each in DEVICES if each != "shared.0"])
def test_arrays_are_pickled_with_their_content(device: str) -> None:
    found = pickle.loads(pickle.dumps(tileir.to_device(bf16(), device)))
    assert (found.device.id, found.dtype) == (device, DType.BF16.numpy)
    assert bits(found.numpy()) == bits(bf16())


@pytest.mark.parametrize("device", [device for device in DEVICES if device != "shared.0"])
def test_results_are_seen_where_devices_work_on_the_memory_of_the_host(context: tileir.Context, device: str) -> None:
    twice = tileir.jit("function (A) -> (B) { B = A + A; }", device, context=context)
    for array in (MATRIX, MATRIX[:0]):
        found = twice(tileir.to_device(array, device, context=context, copy=True))
        assert found.__dlpack_device__() == (1, 0)
        seen = np.from_dlpack(found)
        assert not seen.size or np.shares_memory(seen, found.numpy())
        assert found.numpy() is found.numpy()
        np.testing.assert_array_equal(seen, array + array)


class Making:
    """An object that makes an array for each who asks."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.arange(3.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("value", [MATRIX.astype(">f4"), 3.0, np.float32(3), Making()], ids=lambda v: type(v).__name__)
def test_conversions_are_copies(context: tileir.Context, device: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match="has to be converted first, which takes a copy") as error:
        tileir.to_device(value, device, context=context, copy=False)
    assert code_of(error) == "TIL714"
    assert tileir.to_device(value, device, context=context).device.id == device


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_do_not_change_their_kind(context: tileir.Context, device: str) -> None:
    found = tileir.to_device(MATRIX, device, context=context)
    for name, value in (("shape", (4, 3)), ("dtype", np.dtype("i4")), ("read_only", True)):
        with pytest.raises(AttributeError):
            setattr(found, name, value)


@pytest.mark.parametrize("device", DEVICES)
def test_single_elements_are_numbers_where_the_host_sees_them(context: tileir.Context, device: str) -> None:
    zero, three = (tileir.to_device(np.float32(value), device, context=context) for value in (0, 3))
    if device == "shared.0":
        for convert in (bool, int, float):
            with pytest.raises(ArgumentError, match=r"array\.numpy\(\)") as error:
                convert(three)
            assert code_of(error) == "TIL714"
        return
    assert (bool(zero), bool(three), int(three), float(three)) == (False, True, 3, 3.0)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tileir.to_device(MATRIX, device, context=context))
