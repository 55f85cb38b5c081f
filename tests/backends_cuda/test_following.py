"""Order of the launches of a graph, beside all pairs of launches; no card is needed."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.card_driver import without_a_card
from tileir.runtime.plans.dependencies import GRAPH_LAUNCHES, ancestors
from tileir_cuda.run.following import Use, following

TREE = """
function (A[N, N], B[N, N], W[N, N]) -> (C, D, E) {
  C[i, j : N, N] = +(A[i, k] * W[k, j]);
  D[i, j : N, N] = +(B[i, k] * W[k, j]);
  E[i, j : N, N] = +(C[i, k] * D[k, j]);
}
"""


def generated(rng: np.random.Generator, launches: int) -> list[list[Use]]:
    """Return launches that use arrays and overlapping pieces of memory."""

    def use() -> Use:
        writes = bool(rng.integers(3) == 0)
        if rng.integers(2):
            return Use(int(rng.integers(4)), 0, 1, writes)
        begin = int(rng.integers(12))
        return Use(-1, begin, begin + int(rng.integers(1, 5)), writes)

    return [[use() for _ in range(rng.integers(1, 4))] for _ in range(launches)]


def conflict(first: list[Use], second: list[Use]) -> bool:
    return any(
        (a.writes or b.writes) and a.array == b.array and a.begin < b.end and b.begin < a.end
        for a in first
        for b in second
    )


@pytest.mark.parametrize("seed", range(40))
def test_launches_follow_those_whose_memory_they_need(seed: int) -> None:
    rng = np.random.default_rng(seed)
    launches = generated(rng, int(rng.integers(1, 30)))
    after = following(launches)
    before = ancestors(after)
    for early, late in combinations(range(len(launches)), 2):
        if conflict(launches[early], launches[late]):
            assert before[late] >> early & 1, (early, late)
    for late, direct in enumerate(after):
        assert list(direct) == sorted(set(direct))
        for early in direct:
            assert conflict(launches[early], launches[late])
            assert not any(before[other] >> early & 1 for other in direct)


def test_many_launches_run_in_order() -> None:
    after = following([[Use(number, 0, 1, True)] for number in range(GRAPH_LAUNCHES + 1)])
    assert after == ((), *((number,) for number in range(GRAPH_LAUNCHES)))


def test_graphs_have_what_launches_follow() -> None:
    """The driver runs the later of two products first where neither needs the other."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(3)]
    with without_a_card() as (driver, context):
        a, b, w = (tileir.to_device(each, context=context) for each in given)
        run = tileir.compile(TREE, [a, b, w], context=context)
        for _ in range(3):
            found = run(a, b, w)
            for mine, exact in zip(found, tileir.evaluate(TREE, given), strict=True):
                np.testing.assert_array_equal(mine.numpy(), exact)
        assert [[], [], [1, 2]] in driver.before.values()


def test_kernels_whose_groups_wait_for_each_other_run_one_after_the_other() -> None:
    with without_a_card():
        from tileir_cuda.run.queue import Runs, _Records

        kernel = SimpleNamespace(name="k", params=())
        launched: list[Any] = [
            (SimpleNamespace(kernel=kernel, shape=(1, 1, 1, 1, 1, 1, 0), function=1, maps=None, awaits=awaits), ())
            for awaits in (True, False, True)
        ]
        records = _Records(0, 8)
        records.add_runs(Runs.of(launched))
        assert records.after == [(), (), (0,)]


def test_kernels_that_fill_the_card_run_one_after_the_other() -> None:
    """By the groups along all axes of the grid; others overlap with them."""
    with without_a_card():
        from tileir_cuda.run.queue import Runs, _Records

        kernel = SimpleNamespace(name="k", params=())
        launched: list[Any] = [
            (SimpleNamespace(kernel=kernel, shape=(*grid, 64, 1, 1, 0), function=1, maps=None, awaits=False), ())
            for grid in ((2, 2, 2), (7, 1, 1), (1, 1, 9), (8, 1, 1))
        ]
        records = _Records(0, 8)
        records.add_runs(Runs.of(launched))
        assert records.after == [(), (), (0,), (2,)]
