from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.runtime.arrays import address_of
from tileir.runtime.host_memory import allocate, wrap
from tileir.semtree.transform.layout import ALIGNMENT


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 100_000])
def test_fresh_memory_is_aligned_and_writable(nbytes: int) -> None:
    buffer = allocate(nbytes)
    assert buffer.address % ALIGNMENT == 0
    assert (buffer.nbytes, buffer.host().nbytes) == (nbytes, nbytes)
    buffer.host()[:] = 7
    assert address_of(buffer.array) == buffer.address or nbytes == 0


@pytest.mark.parametrize("dtype", DType)
def test_arrays_of_every_dtype_are_wrapped_in_place(dtype: DType) -> None:
    array = np.ones((2, 3), dtype.numpy)
    buffer = wrap(array)
    assert (buffer.address, buffer.nbytes) == (array.ctypes.data, array.nbytes)
    buffer.host()[:] = 0
    assert not array.any()


def test_read_only_and_empty_arrays_have_an_address() -> None:
    array = np.arange(3)
    array.flags.writeable = False
    assert address_of(array) == array.ctypes.data
    assert wrap(np.zeros((0, 4))).nbytes == 0
