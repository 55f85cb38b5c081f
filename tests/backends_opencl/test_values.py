"""Very many operands straight into the emitter of OpenCL: what no sample of special values can miss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from strategies.exhaustive import constants_only, every_half, integers_at_ties, pairs_of_bytes
from strategies.opencl_source import run
from tileir.core.dtype import DType

if TYPE_CHECKING:
    from strategies.exhaustive import Known

INTEGERS = tuple(dtype for dtype in DType if dtype.is_integer)


def check(cases: list[Known]) -> None:
    arrays = [case.arrays() for case in cases]
    run([case.kernel for case in cases], arrays)
    for case, own in zip(cases, arrays, strict=True):
        case.check(own)


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8], ids=str)
def test_every_operation_on_every_pair_of_bytes(dtype: DType) -> None:
    check(list(pairs_of_bytes(dtype)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.I16, DType.U16], ids=str)
def test_every_operation_and_conversion_of_every_half(dtype: DType) -> None:
    check(list(every_half(dtype)))


def test_integers_are_rounded_once() -> None:
    check([case for dtype in INTEGERS for case in integers_at_ties(dtype)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_operations_on_constants(dtype: DType) -> None:
    check([constants_only(dtype)])
