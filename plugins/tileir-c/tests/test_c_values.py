"""Very many operands straight into the emitter of C: what no sample of special values can miss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from c_devices import launch_all
from strategies.exhaustive import constants_only, every_half, integers_at_ties, pairs_of_bytes, wrapped_and_compared
from tileir.core.dtype import DType

if TYPE_CHECKING:
    from strategies.exhaustive import Known

INTEGERS = tuple(dtype for dtype in DType if dtype.is_integer)


def check(cases: list[Known]) -> None:
    arrays = [case.arrays() for case in cases]
    launch_all([case.kernel for case in cases], arrays)
    for case, own in zip(cases, arrays, strict=True):
        case.check(own)


def test_every_operation_on_every_pair_of_bytes() -> None:
    check([case for dtype in (DType.I8, DType.U8) for case in pairs_of_bytes(dtype)])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.I16, DType.U16], ids=str)
def test_every_operation_and_conversion_of_every_half(dtype: DType) -> None:
    check(list(every_half(dtype)))


def test_what_wraps_is_compared() -> None:
    check([case for dtype in INTEGERS for case in wrapped_and_compared(dtype)])


def test_integers_are_rounded_once() -> None:
    check([case for dtype in INTEGERS for case in integers_at_ties(dtype)])


@pytest.mark.sampled(0)
def test_operations_on_constants() -> None:
    check([constants_only(dtype) for dtype in INTEGERS])
