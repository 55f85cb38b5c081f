"""Files of arrays of every dtype, and what NumPy makes of those that it has no name for."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.runtime.array_files import REGISTERED, as_saved, declared, is_nameless, loaded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tileir.runtime.arrays import Array

VALUES = [[0, 1, 2], [3, 1, 0]]


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("shape", [(2, 3), (6,), (1, 6, 1), ()])
def test_files_give_back_what_was_saved(dtype: DType, shape: tuple[int, ...], tmp_path: Path) -> None:
    array: Array = np.resize(np.array(VALUES), shape).astype(dtype.numpy)
    for number, written in enumerate((array, as_saved(array))):  # as NumPy writes it, and as we do
        file = tmp_path / f"{number}.npy"
        np.save(file, written, allow_pickle=False)
        found = declared(loaded(file), dtype)
        assert found.dtype == array.dtype
        assert found.shape == array.shape
        assert found.tobytes() == array.tobytes()


REFUSED = (OSError, ValueError, EOFError)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nothing",
        b"PK\x03\x04nothing",
        b"\x93NUMPY\x01\x00\x16\x00{'descr': '<f1', 'shape': nonsense}",
        b"\x93NUMPY\x01\x00\x08\x00{'descr'",
        b"\x93NUMPY\x01\x00\x90\x01" + b"(" * 400,
        b"\x93NUMPY\x01\x00\x44\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824, 1e9)}",
        b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 50, 1 << 50),}",
        b"\x93NUMPY\x01\x00\x44\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,)} ",
    ],
)
def test_files_of_something_else_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    file.write_bytes(content)
    for mapped in (False, True):
        with pytest.raises(REFUSED):
            loaded(file, mapped=mapped)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F8E5M2])
def test_damaged_files_are_read_or_refused(dtype: DType, tmp_path: Path) -> None:
    file, rng = tmp_path / "a.npy", np.random.default_rng(0)
    np.save(file, np.array(VALUES).astype(dtype.numpy))
    whole = file.read_bytes()
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        file.write_bytes(damaged[: rng.integers(1, len(whole) + 1)] if rng.integers(2) else damaged)
        with suppress(*REFUSED):
            loaded(file)


def test_a_declaration_changes_nothing_that_has_a_type() -> None:
    for array in (np.zeros(3, np.float16), np.zeros(3, np.uint16), np.zeros(2, "V3"), np.zeros(2, [("x", "V2")])):
        assert not is_nameless(array)
        assert declared(array, DType.BF16) is array
    two = np.zeros(3, "V2")
    assert declared(two, DType.F8E5M2) is two
    assert declared(two, DType.F16) is two


@pytest.mark.parametrize("dtype", REGISTERED)
def test_programs_that_declare_their_inputs_take_bytes(dtype: DType) -> None:
    array: Array = np.array([0.5, 1, 2]).astype(dtype.numpy)
    text = "function (A) -> (B) { B = as_float(A, 32) * 2.0; }"
    compiled = tileir.compile(text, {"A": f"{dtype.value}[3]"})
    np.testing.assert_array_equal(compiled(as_saved(array)), compiled(array))
    np.testing.assert_array_equal(compiled(as_saved(array)), [1, 2, 4])
    np.testing.assert_array_equal(compiled.submit(as_saved(array)).result(), [1, 2, 4])


@pytest.mark.parametrize(
    ("size", "views"), [(1, "float8_e4m3fn) or view(ml_dtypes.float8_e5m2)"), (2, "bfloat16)")], ids=str
)
def test_what_nobody_declares_is_told_how_to(size: int, views: str) -> None:
    array = np.zeros(3, f"V{size}")
    text = "function (A) -> (B) { B = A; }"
    calls: list[Callable[[Array], object]] = [partial(tileir.evaluate, text), tileir.jit(text)]
    for call in calls:
        with pytest.raises(tileir.TileError) as caught:
            call(array)
        (fault,) = caught.value.diagnostics
        assert (fault.code, fault.message) == (
            "TIL702",
            f"'A' has elements of {size} bytes and no type, as numpy.load returns them: say what they are, by "
            f"view(ml_dtypes.{views}",
        )
