"""Every dtype: in and out, cast to every other, promoted with every other."""

from __future__ import annotations

import pytest

from tileir_testing.batches import Batches
from tileir_testing.tables import DTYPE_PROGRAMS


@pytest.mark.parametrize("index", range(len(DTYPE_PROGRAMS)), ids=[program.name for program in DTYPE_PROGRAMS])
def test_dtypes(batches: Batches, index: int) -> None:
    batches.check(DTYPE_PROGRAMS, index)
