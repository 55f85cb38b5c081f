"""Every aggregation with every combination, on every dtype."""

from __future__ import annotations

import pytest

from tileir_testing.batches import Batches
from tileir_testing.tables import CONTRACTION_PROGRAMS

NAMES = [program.name for program in CONTRACTION_PROGRAMS]


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
def test_contractions(batches: Batches, index: int) -> None:
    batches.check(CONTRACTION_PROGRAMS, index)
