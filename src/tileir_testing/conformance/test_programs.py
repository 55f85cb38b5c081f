"""Named programs against NumPy."""

from __future__ import annotations

import pytest

from tileir_testing.batches import Batches
from tileir_testing.programs.catalog import CASES


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.name for case in CASES])
def test_program(batches: Batches, index: int) -> None:
    batches.check(CASES, index)
