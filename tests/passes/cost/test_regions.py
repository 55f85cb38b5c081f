"""Address sets of accesses, against sets of addresses."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings, strategies as st

from tileir_performance.cost.regions import distinct, lines_of, region_of

STEPS = st.lists(st.tuples(st.integers(-12, 12), st.integers(1, 5)), max_size=4)


def addresses(offset: int, steps: list[tuple[int, int]]) -> set[int]:
    walks = product(*(range(size) for _, size in steps))
    return {offset + sum(x * step for x, (step, _) in zip(walk, steps, strict=True)) for walk in walks}


@settings(max_examples=200)
@given(st.integers(-20, 20), STEPS)
def test_region_is_the_set_of_addresses(offset: int, steps: list[tuple[int, int]]) -> None:
    region, found = region_of(offset, steps), addresses(offset, steps)
    assert region.offset == min(found)
    assert region.offset + region.reach - 1 == max(found)
    assert region.elements == len(found) if region.exact else region.elements >= len(found)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(-20, 20), STEPS), min_size=1, max_size=4))
def test_union_counts_every_address_once(accesses: list[tuple[int, list[tuple[int, int]]]]) -> None:
    elements, exact = distinct([region_of(offset, steps) for offset, steps in accesses])
    union = set().union(*(addresses(offset, steps) for offset, steps in accesses))
    assert elements == len(union) if exact else elements >= len(union)


def test_windows_of_convolutions_are_exact() -> None:
    rows, columns = 56, 64
    window = region_of(0, [(columns, rows - 2), (columns, 3), (1, columns - 4), (2, 3)])
    assert (window.elements, window.exact) == (rows * columns, True)


def test_stencils_are_exact() -> None:
    points = [region_of(offset, [(64, 8), (1, 16)]) for offset in (1, 64, 65, 66, 129)]
    assert distinct(points) == (10 * 18 - 4, True)


def test_lines_follow_the_runs_of_addresses() -> None:
    assert lines_of(region_of(0, [(1, 64)]), 4, 64) == 4
    assert lines_of(region_of(8, [(1, 16)]), 4, 64) == 2
    assert lines_of(region_of(0, [(1024, 8)]), 4, 64) == 8
    assert lines_of(region_of(0, [(1024, 8), (1, 32)]), 4, 64) == 16
    assert lines_of(region_of(0, [(3, 16)]), 4, 64) == 3
