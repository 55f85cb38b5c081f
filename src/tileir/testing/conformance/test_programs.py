"""Named programs against what NumPy gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tileir.testing.programs.catalog import CASES

if TYPE_CHECKING:
    from tileir.testing.batches import Batches


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.name for case in CASES])
def test_program(batches: Batches, index: int) -> None:
    batches.check(CASES, index)
