from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.core.errors import fail
from tileir.driver.tuned_pipelines import TUNING, WINNER
from tileir_performance.tuning import candidates, contest, search as tuning
from tileir_performance.tuning.contest import Contest
from tileir_performance.tuning.search import Progress

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
SHAPES = {"A": (48, 40), "B": (40, 64)}
QUICK: Mapping[str, Any] = {"time_limit": 300.0, "top": 2}
FEW = {"register_tile": ({"rows": (2, 7), "columns": (1, 2)},)}


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tileir.Context:
    """Return a context with an empty cache, where searching and timing take little."""
    monkeypatch.setattr(candidates, "SPACES", FEW)
    monkeypatch.setattr(contest, "TRIAL_SECONDS", 0.001)
    monkeypatch.setattr(contest, "WARM_SECONDS", 0.0)
    monkeypatch.setattr(contest, "ROUND_SECONDS", 0.0)
    return tileir.Context(disk_cache=tileir.DiskCache(tmp_path / "cache"))


def kinds(context: tileir.Context) -> set[str]:
    assert context.disk_cache is not None
    return {entry.kind for entry in context.disk_cache.entries()}


def times_of(monkeypatch: pytest.MonkeyPatch, faster: str) -> list[str]:
    """Let the pipelines whose text contains ``faster`` win; return the texts that are compiled, in order."""
    compiled: list[str] = []
    original = Contest._compiled

    def notes(self: Contest, passes: tuple[Any, ...]) -> Any:
        compiled.append(", ".join(map(str, passes)))
        return original(self, passes)

    def time(_: Contest, entrant: contest.Entrant, __: float) -> float:
        entrant.executable(*_.inputs.values(), out=_.outputs)  # type: ignore[misc]
        return 1.0 if faster in str(entrant.passes) else 2.0

    monkeypatch.setattr(Contest, "_compiled", notes)
    monkeypatch.setattr(Contest, "_time", time)
    return compiled


@pytest.mark.sampled(0)
@pytest.mark.parametrize("device", ["llvm", "opencl"])
def test_devices_are_tuned(context: tileir.Context, device: str) -> None:
    if device not in {each.backend for each in context.devices()}:
        pytest.skip("there is no such device")
    steps: list[Progress] = []
    found = tileir.tune(MATMUL, SHAPES, device=device, context=context, progress=steps.append, **QUICK)
    assert found.device == f"{device}.0"
    assert 0 < found.seconds <= found.default_seconds
    assert found.gain >= 1
    assert any(trial.seconds is not None for trial in found.trials)
    assert [step.phase for step in steps][-1] == "deciding"
    assert found.device in str(found)
    outcome, *passes = str(found).split("\n")
    assert f"{len(found.trials)} trial" in outcome
    assert tileir.parse("\n".join(passes), stage="pipeline") == found.passes
    assert all(len(line) <= 100 or line.count(",") <= 1 or "{" in line for line in passes)
    assert len(passes) > 1
    assert (WINNER in kinds(context)) == found.stored
    assert TUNING not in kinds(context)


def test_winners_are_used_from_then_on(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    times_of(monkeypatch, "rows=7")
    product = tileir.jit(MATMUL, context=context)
    a, b = (np.ones(shape, np.float32) for shape in SHAPES.values())
    before = product.specialise(a, b)
    found = tileir.tune(MATMUL, SHAPES, context=context, time_limit=300.0, top=60)
    assert found.stored
    assert found.gain == 2.0
    assert "rows=7" in str(found.passes)
    after = product.specialise(a, b)
    assert after.scheduled != before.scheduled
    np.testing.assert_array_equal(after(a, b), before(a, b))
    explained = tileir.explain(MATMUL, SHAPES, context=context)
    assert explained.kernels != tileir.explain(MATMUL, SHAPES, context=context, passes="cpu").kernels


def test_the_usual_pipeline_stays_where_nothing_beats_it(
    context: tileir.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_of(monkeypatch, "no such options")
    found = tileir.tune(MATMUL, SHAPES, context=context, **QUICK)
    assert not found.stored
    assert found.gain == 1.0
    assert WINNER not in kinds(context)


def test_killed_searches_go_on(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = times_of(monkeypatch, "rows=7")
    reports: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        reports.append(progress)
        if progress.phase == "timing" and progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tileir.tune(MATMUL, SHAPES, context=context, time_limit=300.0, top=3, progress=interrupt)
    assert TUNING in kinds(context)
    before = list(compiled)
    found = tileir.tune(MATMUL, SHAPES, context=context, time_limit=300.0, top=3, resume=True)
    again = compiled[len(before) :]
    timed = [trial for trial in found.trials if trial.seconds is not None]
    assert len(timed) == 4
    finals = again[-4:]
    assert len([text for text in again[:-4] if text in before]) <= 1  # the standard of comparison
    assert set(finals) <= {*again[:-4], *before, finals[0]}
    assert TUNING not in kinds(context)


def test_candidates_that_fail_are_skipped(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Contest._compiled

    def picky(self: Contest, passes: tuple[Any, ...]) -> Any:
        if passes != self.request.passes:
            raise fail("TIL805", "the compiler has had enough")
        return original(self, passes)

    monkeypatch.setattr(Contest, "_compiled", picky)
    found = tileir.tune(MATMUL, SHAPES, context=context, **QUICK)
    assert [("had enough" in trial.fault) for trial in found.trials] == [False, True, True]
    assert not found.stored


def test_wrong_results_are_found(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "_agree", lambda _, __: False)
    found = tileir.tune(MATMUL, SHAPES, context=context, **QUICK)
    assert ["computes something else" in trial.fault for trial in found.trials] == [False, True, True]


@pytest.mark.parametrize("limits", [{"time_limit": 0}, {"time_limit": -1.0}, {"top": 0}])
def test_limits_are_positive(limits: dict[str, Any]) -> None:
    with pytest.raises(tileir.ArgumentError) as caught:
        tileir.tune(MATMUL, SHAPES, **limits)
    assert [each.code for each in caught.value.diagnostics] == ["TIL707"]


def test_limits_have_defaults() -> None:
    assert tuning.TIME_LIMIT > 0
    assert tuning.TOP > 0


def test_winners_belong_to_the_target_that_was_named(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    times_of(monkeypatch, "rows=7")
    usual = tileir.compile(MATMUL, SHAPES, context=context).scheduled
    assert tileir.tune(MATMUL, SHAPES, context=context, target="cpu:ROWS=2", time_limit=300.0, top=60).stored
    assert tileir.compile(MATMUL, SHAPES, context=context).scheduled == usual
    assert tileir.compile(MATMUL, SHAPES, context=context, target="cpu:ROWS=2").scheduled != usual
