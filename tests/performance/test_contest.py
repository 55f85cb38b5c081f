from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tileir
from tileir.core.errors import BackendError
from tileir.driver.compilation import Request
from tileir.driver.compiler import passes_of
from tileir.driver.programs import function_of
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir_performance.tuning import contest
from tileir_performance.tuning.contest import Contest

SCALE = "function (X[N]) -> (Y, Z) { Y = X * 2.0; Z = X + 1.0; }"
SLOW = parse_pipeline("accumulate,thread")


@pytest.fixture
def ring(tmp_path: Path) -> Contest:
    context = tileir.Context(disk_cache=tileir.DiskCache(tmp_path / "cache"))
    device = context.device("llvm")
    types = {"X": tileir.TensorType(tileir.DType.F32, (1000,))}
    request = Request(function_of(SCALE), types, device.target, passes_of(None, device.target))
    return Contest.of(request, context, device)


def test_finals_time_the_best_and_the_usual_pipeline(ring: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "ROUND_SECONDS", 0.0)
    assert ring.enter(SLOW) > 0
    ring.expect(parse_pipeline("accumulate"), 1e9)
    found = ring.finals(1, 0.0)
    assert found[parse_pipeline("accumulate")] == float("inf")
    assert 0 < found[SLOW] < float("inf")
    assert 0 < found[ring.request.pipeline] < float("inf")


def test_results_must_be_those_of_the_usual_pipeline(ring: Contest) -> None:
    ring.expected[1] = ring.expected[1] + 1
    with pytest.raises(BackendError) as caught:
        ring.enter(SLOW)
    assert [each.code for each in caught.value.diagnostics] == ["TIL808"]
    assert ring.entrants == []


@pytest.mark.parametrize(
    ("actual", "expected", "agree"),
    [
        (np.array([1.0, 2.0], np.float32), np.array([1.00001, 2.0], np.float32), True),
        (np.array([1.0, 2.0], np.float32), np.array([1.01, 2.0], np.float32), False),
        (np.array([np.nan, np.inf], np.float32), np.array([np.nan, np.inf], np.float32), True),
        (np.array([np.nan, 1.0], np.float32), np.array([1.0, 1.0], np.float32), False),
        (np.array([1, 2]), np.array([1, 2]), True),
        (np.array([1, 2]), np.array([1, 3]), False),
        (np.zeros(0, np.float32), np.zeros(0, np.float32), True),
    ],
)
def test_sums_in_other_orders_agree(
    actual: np.ndarray[tuple[int], np.dtype[np.generic]],
    expected: np.ndarray[tuple[int], np.dtype[np.generic]],
    agree: bool,
) -> None:
    assert contest._agree(actual, expected) is agree


def test_what_is_much_slower_than_the_fastest_is_timed_once(ring: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([5.0, 4.0])
    ring.expect(parse_pipeline("accumulate"), 1.0)
    monkeypatch.setattr(Contest, "_run", lambda *_: next(runs))
    monkeypatch.setattr(Contest, "_check", lambda _: None)
    assert ring.enter(SLOW) == 4.0
    assert next(runs, None) is None


def test_the_first_calls_of_a_small_kernel_do_not_decide(ring: Contest, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = iter([2e-4, 1.5e-4])
    ring.expect(parse_pipeline("accumulate"), 4e-5)
    monkeypatch.setattr(Contest, "_run", lambda *_: next(runs, 3e-5))
    monkeypatch.setattr(Contest, "_check", lambda _: None)
    assert ring.enter(SLOW) == 3e-5
