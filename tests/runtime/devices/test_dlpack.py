from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from strategies.dlpack import Library
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError
from tileir.runtime.arrays import to_array
from tileir.runtime.devices.dlpack import at, exported, imported, spelt

if TYPE_CHECKING:
    from collections.abc import Callable

Array = np.ndarray[Any, Any]


def matrix(dtype: DType) -> Array:
    return (np.arange(24) % 7).reshape(4, 6).astype(dtype.numpy)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda a: a,
    "strided": lambda a: a[::2, 1::3],
    "reversed": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a.T,
    "one": lambda a: a[2, 3, ...],
    "empty": lambda a: a[1:1],
    "broadcast": lambda a: np.broadcast_to(a[0], (3, 6)),
}


def bits(array: Array) -> list[Any]:
    found: list[Any] = array.view(f"u{array.itemsize}").tolist()
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_memory_of_others_is_shared_and_released(dtype: DType, layout: str) -> None:
    versions = (list(DType).index(dtype) + list(LAYOUTS).index(layout)) % 2 == 0  # of each dtype and layout, both
    whole = matrix(dtype)
    array = LAYOUTS[layout](whole)
    library = Library(array, versions=versions, counted=True)
    found = to_array("A", library)
    assert found.dtype == dtype.numpy
    assert found.shape == array.shape
    assert bits(found) == bits(array)
    assert not array.size or np.shares_memory(found, whole)
    assert library.released == 0
    del found
    gc.collect()
    assert library.released == 1


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F32], ids=lambda dtype: dtype.value)
def test_producers_may_leave_out_strides_and_give_offsets(dtype: DType) -> None:
    assert bits(imported(Library(matrix(dtype), dense=True))) == bits(matrix(dtype))
    whole = matrix(dtype)
    assert bits(imported(Library(whole[2:], offset=whole.strides[0]))) == bits(whole[2:])


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F8E5M2, DType.I16], ids=lambda dtype: dtype.value)
def test_read_only_memory_stays_so(dtype: DType) -> None:
    array = matrix(dtype)
    array.flags.writeable = False
    assert not to_array("A", Library(array)).flags.writeable
    assert to_array("A", Library(matrix(dtype))).flags.writeable


@pytest.mark.parametrize(
    ("library", "text"),
    [
        (Library(np.zeros(3, np.complex64)), "complex.*; convert it to one of bool, i8"),
        (Library(np.zeros(3, np.float32), lanes=4), "convert it to one of"),
        (Library(np.zeros(3, np.uint8), code=7), r"(type 7 of 8 bits\)|float8_e3m4); convert it"),
        (Library(np.zeros(3, np.uint8), code=99), r"type 99 of 8 bits\); convert it"),
        (Library(np.zeros(3, np.float32), major=9), "version 9\\.0 of DLPack, which is not known here"),
        (Library(np.zeros(3, np.float32), place=(2, 1)), "move it to the host's memory first"),
    ],
    ids=["complex", "lanes", "float8_e3m4", "unknown", "version", "elsewhere"],
)
def test_what_has_no_equal_is_refused(library: Library, text: str) -> None:
    if library.array.dtype.kind == "c":
        with pytest.raises(BufferError, match="complex of 64 bits"):
            imported(library)
    else:
        with pytest.raises(ArgumentError, match=text) as error:
            to_array("A", library)
        assert [diagnostic.code for diagnostic in error.value.diagnostics] == ["TIL702"]
    assert library.released == 0


def test_a_capsule_is_taken_once() -> None:
    class Again:
        capsule = exported(np.zeros(3), (1, 0))

        def __dlpack__(self, **_: object) -> Any:
            return self.capsule

    assert imported(Again()).shape == (3,)
    with pytest.raises(BufferError, match="somebody took its content already"):
        imported(Again())


@pytest.mark.parametrize("version", [None, (1, 0), (1, 9)])
@pytest.mark.parametrize("dtype", DType, ids=lambda dtype: dtype.value)
def test_what_is_exported_comes_back(dtype: DType, version: tuple[int, int] | None) -> None:
    array = matrix(dtype)[:, ::2]

    class Exporter:
        def __dlpack__(self, **_: object) -> Any:
            return exported(array, (2, 3), version=version, copied=True)

    found = imported(Exporter())
    assert found.dtype == array.dtype
    assert bits(found) == bits(array)
    assert np.shares_memory(found, array)


def test_read_only_memory_needs_a_version() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.raises(BufferError, match="ask with max_version"):
        exported(array, (1, 0))


def test_memory_is_described_without_being_read() -> None:
    owner = object()
    found = at(4096, DType.BF16, (3, 4), owner, read_only=True)
    assert found.__array_interface__["data"] == (4096, True)
    assert found.flags.c_contiguous
    assert not at(4096, DType.F32, (3, 4), owner, strides=(4, 12)).flags.c_contiguous


def test_devices_have_words() -> None:
    assert [spelt(place) for place in ((1, 0), (2, 3), (77, 1))] == [
        "the host",
        "CUDA (number 3)",
        "device type 77 (number 1)",
    ]
