"""Programs made at random, against the typed interpreter; each is determined by the seed and its number."""

from __future__ import annotations

import pytest

from tileir_testing.batches import Batches
from tileir_testing.generated.case import Case, program


@pytest.fixture(scope="module")
def programs(request: pytest.FixtureRequest) -> list[Case]:
    option = request.config.getoption
    numbers = range(option("--start"), option("--start") + option("--programs"))
    return [program(option("--seed"), number) for number in numbers]


def test_generated(batches: Batches, programs: list[Case], position: int) -> None:
    batches.check(programs, position)
