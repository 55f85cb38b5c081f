"""Sums of tiles of which a condition leaves outputs out: they are not set there, so nothing may read them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.driver.compiler import compile_stages
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.tile.text.parser import parse
from tileir_testing.generated.case import Case

CARDS: Final = ("nvidia-hopper", "amd-cdna3", "intel-xe-hpc")
PROGRAMS: Final = {
    "products": ("O[i, j : N, M] = +(A[i, k] * B[k, j]), i + j < 20;", (20, 16), (16, 24)),
    "products with many terms": ("O[i, j : N, M] = +(A[i, k] * B[k, j]), i + j < 9;", (6, 200), (200, 6)),
    "greatest sums": ("O[i, j : N, M] = >(A[i, k] + B[k, j]), i - j < 9;", (10, 70), (70, 8)),
    "one column": ("O[i, j : N, M] = +(A[i, k] * B[k, j]), i - j < 3;", (5, 300), (300, 1)),
    "rows": ("O[i, j : N, 9] = +(A[i, k]), i + j < 11;", (9, 130), (1, 1)),
    "dots": ("O[i, j : N, 6] = +(A[i, 50*j + k] * B[0, 50*j + k]), k < 50, i + j < 9;", (9, 300), (1, 300)),
    "skewed": ("O[18 + 3*j - 2*k, i : 15, 16] = >(A[l, j] + A[k, j + 2*k]), l < 19, j + l < 4;", (8, 15), (1, 1)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_of_threads_are_merged_where_they_are_stored(name: str, card: str) -> None:
    statement, left, right = PROGRAMS[name]
    text = f"function (A[N, K], B[L, M]) -> (O) {{ {statement} }}"
    random = np.random.default_rng(3)
    arrays = {
        "A": random.integers(-3, 4, left).astype(np.float32),
        "B": random.integers(-3, 4, right).astype(np.float32),
    }
    case = Case(parse(text), arrays, text)
    stages = compile_stages(case.function, case.types, with_facts(Target(pipeline=card)))
    case.check(run_program(stages.sem, arrays, ALL_CHECKS))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("condition", ["3*i - 2*l < 15", "i + l < 9", "l - i < 4", "i + l < 30"])
def test_sums_are_copied_for_apart_lanes_where_they_are_stored(condition: str, lanes: int) -> None:
    """Columns that neighbours in memory are not stored from sums that a loop over the rows of a tile reads."""
    text = f"function (A[N, M]) -> (O) {{ O[l, k, i : 12, 8, 10] = +(A[l, i] + A[k, j]), {condition}; }}"
    arrays = {"A": np.arange(70).reshape(14, 5).astype(np.int8)}
    case = Case(parse(text), arrays, text)
    target = Target(vector_bytes=32, threads=4, max_lanes=lanes, shuffles=True)
    case.check(run_program(compile_stages(case.function, case.types, target).sem, arrays, ALL_CHECKS))
