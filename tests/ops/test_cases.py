"""Every case of the library: its values, by interpretation and on LLVM, against NumPy's in f64."""

from __future__ import annotations

from typing import Final

import pytest

import tileir
from strategies.operations import all_cases

CASES: Final = all_cases()
TYPED: Final = [(name, dtype) for name, case in CASES.items() for dtype in case.dtypes]
COMPILED: Final = [(name, dtype) for number, (name, dtype) in enumerate(TYPED) if dtype == "f32" or number % 5 == 0]
"""Every case in f32, and some in f64: the code is made by the same rules."""


@pytest.mark.sampled(23)
@pytest.mark.parametrize(("name", "dtype"), TYPED)
def test_values_by_interpretation(name: str, dtype: str) -> None:
    case = CASES[name]
    arrays = case.arrays(dtype)
    case.check(tileir.evaluate(case.function(), arrays), case.expected(arrays), dtype)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "dtype"), COMPILED)
def test_values_on_llvm(name: str, dtype: str) -> None:
    case = CASES[name]
    arrays = case.arrays(dtype)
    case.check(tileir.jit(case.function(), "llvm")(**arrays), case.expected(arrays), dtype)


@pytest.mark.sampled(34)
@pytest.mark.parametrize("name", CASES)
def test_texts_read_back(name: str) -> None:
    function = CASES[name].function()
    assert tileir.parse(tileir.to_text(function)) == function
