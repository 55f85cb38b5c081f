from __future__ import annotations

import attrs
import numpy as np
import pytest

from strategies.kernels import stripe_program
from tileir_accelerators.tiling.autotile import Autotile
from tileir_accelerators.tiling.search import TileCosts

PRODUCT = stripe_program("matmul").main.blocks[0]  # i:19, j:37, k:11 over A[i, k] B[k, j] C[i, j], four bytes each
FREE = Autotile(memory_bytes=0, input_cost=0.0, output_cost=0.0)


def cost(options: Autotile, *sizes: int) -> float:
    return float(TileCosts.of(PRODUCT, options).costs(np.asarray([sizes], np.float64))[0])


def test_a_point_costs_its_share_of_a_tile() -> None:
    assert cost(FREE, 1, 1, 1) == 1
    assert cost(FREE, 19, 37, 11) == pytest.approx(1 / (19 * 37 * 11))


def test_points_behind_the_end_are_waste() -> None:
    assert cost(FREE, 10, 37, 11) == pytest.approx(20 / 19 / (10 * 37 * 11))


def test_lines_of_inputs_and_results_cost() -> None:
    inputs = cost(attrs.evolve(FREE, input_cost=1.0), 1, 16, 1)
    # A: one element, one line; B: a row of 16 elements, 64 bytes, which begin anywhere in a line
    assert inputs == pytest.approx((48 / 37) * (1 + 1 + (1 + 60 / 64)) / 16)
    results = cost(attrs.evolve(FREE, output_cost=2.0), 2, 1, 1)
    assert results == pytest.approx((20 / 19) * (1 + 2 * 2) / 2)


def test_small_tiles_cost_more_where_larger_ones_are_wanted() -> None:
    assert cost(attrs.evolve(FREE, min_size=22), 1, 1, 11) == pytest.approx(2 / 11)
    assert cost(attrs.evolve(FREE, min_out_size=4), 1, 1, 11) == pytest.approx(4 / 11)
    assert cost(attrs.evolve(FREE, min_count=4), 19, 37, 11) == pytest.approx(4 / (19 * 37 * 11))
    assert cost(attrs.evolve(FREE, min_out_count=2), 19, 37, 1) == pytest.approx(2 / (19 * 37))


def test_many_tiles_and_many_factors() -> None:
    assert cost(attrs.evolve(FREE, split_factor=0.5), 19, 37, 6) == pytest.approx(12 / 11 / (19 * 37 * 6) + 0.5)
    assert cost(attrs.evolve(FREE, factor_bound=3), 6, 4, 5) == pytest.approx(cost(FREE, 6, 4, 5) / 5)


@pytest.mark.parametrize(
    "limit",
    [
        {"memory_bytes": 4 * 3 - 1},
        {"memory_bytes": 4 * 3, "pipeline_depth": 2},
        {"max_total_size": 11},
        {"max_input_size": 7},
        {"max_output_size": 3},
        {"max_count": 19 * 37 * 11 - 1},
    ],
    ids=str,
)
def test_limits(limit: dict[str, int]) -> None:
    assert cost(attrs.evolve(FREE, **limit), 1, 1, 1) == np.inf  # type: ignore[arg-type]
    assert cost(attrs.evolve(FREE, max_sizes_product=3), 2, 2, 1) == np.inf


def test_footprints_hold_windows_once() -> None:
    block = stripe_program("convolution").main.blocks[-1]
    costs = TileCosts.of(block, FREE)
    sizes = {"c": 3, "d": 20, "i": 3, "j": 2, "x": 4, "y": 5}
    row = np.asarray([[sizes[index.name] for index in block.indices]], np.float64)
    window, weights, result = (5 + 2) * (4 + 1) * 3, 3 * 2 * 3 * 20, 5 * 4 * 20
    assert costs.footprints(row)[0] == 4 * (window + weights + result)
