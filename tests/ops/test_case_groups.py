"""Cases of the library by groups of threads, as cards run them: kernels of the pipeline ``gpu``, on the processor."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

import tileir
from strategies import means
from strategies.operations import DTYPES, all_cases

CASES: Final = dict(list(all_cases().items())[::3])
DIFFERENTIATED: Final = [name for name, case in CASES.items() if case.differentiated]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in CASES if name not in DIFFERENTIATED])
def test_values_by_groups_of_threads(name: str) -> None:
    case = CASES[name]
    dtype = case.dtypes[0]
    arrays = case.arrays(dtype)
    found = means.on_device(means.stages(case.function(), arrays, "groups", "gpu"), arrays)
    case.check(tuple(found.values()), case.expected(arrays), dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_by_groups_of_threads(name: str) -> None:
    """Compare with the interpreter of the Tile language: other tests compare that one with differences."""
    case = CASES[name]
    function = case.backward()
    random = np.random.default_rng(1)
    dtype = case.dtypes[0]
    arrays = case.arrays(dtype)
    floats = [result for result in case.expected(arrays) if np.issubdtype(result.dtype, np.floating)]
    arriving: list[np.ndarray] = [np.asarray(random.standard_normal(each.shape), DTYPES[dtype]) for each in floats]
    arrays = {**arrays, **{f"W{number}": each for number, each in enumerate(arriving)}}
    stages = means.stages(function, arrays, "groups", "gpu")
    wanted = dict(zip(stages.typed.outputs, _tuple(tileir.evaluate(function, arrays)), strict=True))
    for output, found in means.on_device(stages, arrays).items():
        largest = np.max(np.abs(wanted[output]), initial=1.0, where=np.isfinite(wanted[output]))
        tolerance = 2e-4 * case.tolerance
        np.testing.assert_allclose(found, wanted[output], rtol=tolerance, atol=tolerance * largest)


def _tuple(results: object) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, results if isinstance(results, tuple) else (results,)))
