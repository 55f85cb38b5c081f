"""Very many operands straight into LLVM's emitter: what no sample of special values can miss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.devices import buffers, compiler, executor
from strategies.exhaustive import (
    constants_only,
    conversions,
    every_half,
    floats_at_the_ends,
    integers_at_ties,
    pairs_of_bytes,
    wrapped_and_compared,
)
from tileir.core.dtype import DType
from tileir.runtime.interface import Options
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.device.host import device
from tileir_llvm.device.processor import PROCESSORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strategies.exhaustive import Known

INTEGERS = tuple(dtype for dtype in DType if dtype.is_integer)


def check(cases: Iterable[Known]) -> None:
    known = list(cases)
    library = compiler().build([case.kernel for case in known])
    for number, case in enumerate(known):
        arrays = case.arrays()
        executor().prepare(library, number).launch(buffers(arrays))
        case.check(arrays)


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8], ids=str)
def test_every_operation_on_every_pair_of_bytes(dtype: DType) -> None:
    check(pairs_of_bytes(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.I16, DType.U16], ids=str)
def test_every_operation_and_conversion_of_every_half(dtype: DType) -> None:
    check(every_half(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [DType.F16, DType.F32, DType.F64], ids=str)
def test_halves_need_no_instructions_nor_functions_of_the_process(dtype: DType) -> None:
    own = device()
    plain = attrs.evolve(own, features=tuple(sorted(PROCESSORS["x86-64-v2"] & set(own.features))))
    cases = list(every_half(dtype) if dtype is DType.F16 else conversions(dtype, [DType.F16]))
    library = LLVMCompiler(plain, Options()).build([case.kernel for case in cases])
    assert not any(b"hfsf2" in code or b"fhf2" in code for code in library.save().values())
    for number, case in enumerate(cases):
        arrays = case.arrays()
        executor().prepare(library, number).launch(buffers(arrays))
        case.check(arrays)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_rounded_once(dtype: DType) -> None:
    check(integers_at_ties(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_operations_on_constants(dtype: DType) -> None:
    check([constants_only(dtype)])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_that_wrap_are_compared_as_they_are(dtype: DType) -> None:
    check(wrapped_and_compared(dtype))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_floats_beyond_an_integer_type_become_its_ends(dtype: DType) -> None:
    check(floats_at_the_ends(dtype))
