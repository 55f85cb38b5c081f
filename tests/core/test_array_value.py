"""Arrays as immutable values."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from tileir.core.array_value import ArrayValue
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import content_hash, from_json, identity, to_json

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_arrays_of_all_dtypes_come_back(dtype: DType, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype.numpy)
    value = ArrayValue.of(array)
    back = value.numpy()
    assert (value.dtype, back.dtype, back.shape) == (dtype, array.dtype, shape)
    assert back.tobytes() == array.tobytes()
    assert not back.flags.writeable
    assert from_json(to_json(value), ArrayValue) == value


def test_later_changes_do_not_show() -> None:
    array = np.ones(3, np.float32)
    value = ArrayValue.of(array)
    digest, hashed = value.digest, hash(value)
    array[:] = 2
    assert value == ArrayValue.of(np.ones(3, np.float32))
    assert (value.digest, hash(value)) == (ArrayValue.of(np.ones(3, np.float32)).digest, hashed)
    assert value.digest == digest


def test_equality_is_that_of_bits_and_types() -> None:
    zero, negative = np.zeros(1, np.float32), -np.zeros(1, np.float32)
    quiet = np.array([0x7FC00000], np.uint32).view(np.float32)
    payload = np.array([0x7FC00001], np.uint32).view(np.float32)
    arrays = (zero, negative, quiet, payload, zero.view(np.int32), zero.reshape(1, 1), zero.astype(np.float64))
    values = [ArrayValue.of(array) for array in arrays]
    assert len(set(values)) == len({value.digest for value in values}) == len(values)
    assert values == [ArrayValue.of(array.copy()) for array in arrays]


@pytest.mark.parametrize("dtype", ["<i4", ">i4", ">f8", "<f2", ">u8"])
def test_strides_and_byte_order_do_not_show(dtype: str) -> None:
    array = np.arange(24).reshape(4, 6).astype(dtype)
    views = (array[::2, ::-1], array.T, np.broadcast_to(array[0], (2, 6)), array[1:, 2:5])
    for view in views:
        plain = np.ascontiguousarray(view, view.dtype.newbyteorder("="))
        assert ArrayValue.of(view) == ArrayValue.of(plain)
        assert np.array_equal(ArrayValue.of(view).numpy(), view)


def test_bools_are_0_or_1() -> None:
    strange = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    assert ArrayValue.of(strange).data == b"\0\1\1\1"
    strided = np.array([[0, 7], [255, 7]], np.uint8).view(np.bool_)[:, 0]
    assert ArrayValue.of(strided).data == b"\0\1"


@pytest.mark.parametrize(
    ("dtype", "shape", "data", "words"),
    [
        (DType.F32, (2,), b"\0" * 7, "has 8 bytes, not 7"),
        (DType.F32, (-1, -1), b"\0" * 4, "no negative sizes"),
        (DType.BOOL, (2,), b"\0\2", "the bytes 0 and 1"),
    ],
)
def test_bytes_have_to_be_those_of_the_array(dtype: DType, shape: tuple[int, ...], data: bytes, words: str) -> None:
    with pytest.raises(TileError, match=words) as caught:
        ArrayValue(dtype, shape, data)
    assert caught.value.diagnostics[0].code == "TIL702"


LARGE = 1 << 20


@pytest.mark.sampled(5)
@pytest.mark.parametrize("dtype", DType)
def test_large_arrays_are_what_small_ones_are(dtype: DType) -> None:
    count = LARGE // dtype.itemsize
    array = (np.arange(count) % 2).astype(dtype.numpy)
    large, plain = ArrayValue.of(array), ArrayValue(dtype, (count,), array.tobytes())
    assert isinstance(large.data, memoryview)
    assert large.data.readonly
    assert large.numpy().ctypes.data % 64 == 0
    assert not large.numpy().flags.writeable
    assert (large, hash(large), large.digest) == (plain, hash(plain), plain.digest)
    assert to_json(large) == to_json(plain)
    array[0] = 1
    assert large == plain
    for copied in (pickle.loads(pickle.dumps(large)), copy.deepcopy(large), from_json(to_json(large), ArrayValue)):
        assert copied == large


@pytest.mark.parametrize(("count", "in_place"), [(1023, False), (1024, True), (5000, True)])
def test_arrays_of_a_page_are_aligned_so_that_devices_read_them_in_place(count: int, in_place: bool) -> None:
    array = np.arange(2 * count, dtype=np.float32)[::-2]
    value = ArrayValue.of(array)
    assert isinstance(value.data, memoryview) is in_place
    assert not in_place or value.numpy().ctypes.data % 64 == 0
    assert not value.numpy().flags.writeable
    np.testing.assert_array_equal(value.numpy(), array)
    kept = array.copy()
    array[:] = 0
    np.testing.assert_array_equal(value.numpy(), kept)


def test_strides_of_large_arrays_do_not_show() -> None:
    array = np.arange(LARGE, dtype=np.float32).reshape(1024, 1024)
    for view in (array.T, array[::2, ::-1], array.astype(">f4")):
        assert np.array_equal(ArrayValue.of(view).numpy(), view)


def test_memory_that_nobody_can_write_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.arange(LARGE, dtype=np.float32).tofile(path)
    read = np.memmap(path, np.float32, "r")
    value = ArrayValue.of(read[LARGE // 2 :].reshape(512, -1))
    assert value.numpy().ctypes.data == read.ctypes.data + 2 * LARGE
    assert np.array_equal(value.numpy(), read[LARGE // 2 :].reshape(512, -1))


@pytest.mark.parametrize("mode", ["r+", "c"])
def test_memory_that_somebody_can_write_is_copied(tmp_path: Path, mode: Literal["r+", "c"]) -> None:
    path = tmp_path / "weights"
    np.arange(LARGE, dtype=np.float32).tofile(path)
    file = np.memmap(path, np.float32, mode)
    view = file.view()
    view.flags.writeable = False  # which the file's owner is free to write
    value = ArrayValue.of(view)
    file[0] = 7
    assert value.numpy()[0] == 0


def test_memory_that_devices_cannot_read_in_place_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    np.arange(LARGE, dtype=np.float32).tofile(path)
    read = np.memmap(path, np.float32, "r")
    for view in (read[1:], read[::-1], read[::2]):
        value = ArrayValue.of(view)
        assert value.numpy().ctypes.data % 64 == 0
        assert not np.shares_memory(value.numpy(), read)
        assert np.array_equal(value.numpy(), view)


@pytest.mark.parametrize("array", [np.zeros(2, complex), np.array(["a"]), np.array([None]), np.zeros(2, "M8[s]")])
def test_other_elements_are_refused(array: np.ndarray) -> None:
    with pytest.raises(TileError, match="TIL702"):
        ArrayValue.of(array)


def test_identities_hold_digests_instead_of_elements() -> None:
    value = ArrayValue.of(np.zeros(1 << 20, np.uint8))
    assert len(identity(value)) < 300
    assert value.digest.encode() in identity(value)
    assert content_hash(value) != content_hash(ArrayValue.of(np.ones(1 << 20, np.uint8)))
    assert from_json(to_json(value), ArrayValue) == value


@pytest.mark.parametrize("text", ["AAA", "A=AA", "AAAB====", "AB==", "ÄÄÄÄ", "AA A", "AAAA\\n"])
def test_spoilt_bytes_are_refused(text: str) -> None:
    document = to_json(ArrayValue.of(np.zeros(3, np.uint8))).replace(b'"AAAA"', f'"{text}"'.encode())
    with pytest.raises(TileError, match="TIL602"):
        from_json(document, ArrayValue)
