"""A few graphs of many that are drawn at random: node by node as others compute them, and alike in all forms."""

from __future__ import annotations

from random import Random

import pytest

from drawing import drawn
from graphs import check, draw, examine
from makers import MAKERS


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore")  # of the reference
@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_graphs(seed: int) -> None:
    found = [each for _, _, findings in (examine(at, 40, None, 0) for at in range(seed, seed + 4)) for each in findings]
    assert [each for each in found if "refused" not in each.kind] == []


@pytest.mark.filterwarnings("ignore")
def test_a_graph_that_is_compiled() -> None:
    assert [each for each in check(draw(3, 12), None, compiled=True) if "refused" not in each.kind] == []


@pytest.mark.filterwarnings("ignore")
def test_the_same_seed_draws_the_same_graph() -> None:
    first, second = (drawn(Random(5), 20, MAKERS) for _ in range(2))
    assert [each.SerializeToString() for each in first.nodes] == [each.SerializeToString() for each in second.nodes]
    assert len(first.nodes) >= 20
