"""Types of storage as integers in kernels."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz.semtree.kernel_case import kernel
from tileir.core.dtype import DType
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.text.printer import to_text
from tileir_emit.storage import stored_as_bits
from tileir_testing.generated.choices import Seeded

STORED = tuple(dtype for dtype in DType if dtype.is_storage)


def test_kernels_without_such_types_are_left_alone() -> None:
    case = kernel(Seeded("storage"), (DType.F32, DType.I8, DType.BF16))
    assert stored_as_bits(case.kernel) is case.kernel


@pytest.mark.sampled(9)
@pytest.mark.parametrize("number", range(60))
def test_generated_kernels_compute_the_same_on_bits(number: int) -> None:
    case = kernel(Seeded(f"storage {number}"), (*STORED, *STORED, *DType), threads=number % 3 == 2)
    made = stored_as_bits(case.kernel)
    verify(made)
    assert not any(dtype.value in to_text(made) for dtype in STORED)
    arrays = case.arrays()
    run(made, [array.view(np.uint8) if is_stored(array) else array for array in arrays])
    case.check(arrays)


def is_stored(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bool:
    dtype = DType.of(array.dtype)
    return dtype is not None and dtype.is_storage
