"""Scripts that tuning looks for: seeded, resumed, kept, and used from then on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileir
from tileir.driver.tuned_pipelines import TUNING
from tileir.passes.pipelines.catalog import load_pipeline
from tileir.passes.pipelines.pipeline import to_json
from tileir.passes.schedules.scripted import Scripted, with_scripts
from tileir_performance.tuning import contest, drawn_scripts
from tileir_performance.tuning.contest import Contest
from tileir_performance.tuning.search import Progress

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
SHAPES = {"A": (24, 40), "B": (40, 48)}
TWO = """function (A[M, K], B[K, N]) -> (C, D) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]); D[j : N] = >(B[k, j]);
}"""


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tileir.Context:
    """Return a context with an empty cache, where drawing and timing take little."""
    for name in ("TRIAL_SECONDS", "WARM_SECONDS", "ROUND_SECONDS"):
        monkeypatch.setattr(contest, name, 0.0)
    monkeypatch.setattr(drawn_scripts, "FIRST_DRAWN", 12)
    monkeypatch.setattr(drawn_scripts, "LATER_DRAWN", 6)
    monkeypatch.setattr(drawn_scripts, "ROUND", 4)
    return tileir.Context(disk_cache=tileir.DiskCache(tmp_path / "cache"))


def scripts_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a script win by its text: the longest one is the fastest."""

    def time(self: Contest, entrant: contest.Entrant, _: float) -> float:
        entrant.executable(*self.inputs.values(), out=self.outputs)  # type: ignore[misc]
        return 1.0 / len(str(entrant.passes))

    monkeypatch.setattr(Contest, "_time", time)


def tune(context: tileir.Context, text: str = MATMUL, **options: Any) -> tileir.Tuned:
    return tileir.tune(text, SHAPES, context=context, time_limit=300.0, scripts=True, **{"top": 10, **options})


@pytest.mark.sampled(0)
def test_trials_are_scripts_and_compute_the_same(context: tileir.Context) -> None:
    found = tune(context)
    assert len(found.trials) == 11
    usual, *others = found.trials
    assert '"script"' not in usual.passes
    assert all('"script"' in trial.passes and trial.predicted > 0 for trial in others)
    assert not [trial.fault for trial in found.trials if trial.fault]
    assert len({trial.passes for trial in found.trials}) == 11
    assert all("register_tile" not in trial.passes for trial in others)  # nothing but the steps schedules the kernel


@pytest.mark.sampled(0)
def test_a_winner_is_kept_and_used(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts_win(monkeypatch)
    product = tileir.jit(MATMUL, context=context)
    a, b = (np.ones(shape, np.float32) for shape in SHAPES.values())
    before = product.specialise(a, b)
    found = tune(context)
    assert found.stored
    assert any(step.name == "script" for step in found.passes)
    after = product.specialise(a, b)
    assert after.scheduled != before.scheduled
    assert [remark.fired for remark in after.remarks if remark.step == "script"] == [True]
    np.testing.assert_array_equal(after(a, b), before(a, b))


@pytest.mark.sampled(0)
def test_what_won_serves_other_sizes(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts_win(monkeypatch)
    found = tune(context)
    (script,) = (step for step in found.passes if step.name == "script")
    (read,) = load_pipeline(to_json([script]))
    assert isinstance(read, Scripted)
    passes = with_scripts(context.device().target, read)
    for rows, terms, columns in ((24, 40, 48), (7, 5, 9), (50, 33, 70)):
        a, b = (np.ones(shape, np.float32) for shape in ((rows, terms), (terms, columns)))
        product = tileir.compile(MATMUL, {"A": a, "B": b}, context=context, passes=passes)
        assert [remark.fired for remark in product.remarks if remark.step == "script"] == [True]
        np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.sampled(0)
def test_the_same_seed_tries_the_same(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts_win(monkeypatch)
    first, second, other = tune(context), tune(context), tune(context, seed=1)
    assert first.trials == second.trials
    assert first.trials != other.trials


@pytest.mark.sampled(0)
def test_killed_searches_go_on(context: tileir.Context, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts_win(monkeypatch)
    whole = tune(context)

    def interrupt(progress: Progress) -> None:
        if progress.phase == "timing" and progress.done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(context, progress=interrupt)
    entered: list[object] = []
    original = Contest.enter

    def enter(self: Contest, passes: tuple[Any, ...], share: float) -> float:
        entered.append(passes)
        return original(self, passes, share)

    monkeypatch.setattr(Contest, "enter", enter)
    assert tune(context, resume=True).trials == whole.trials
    assert len(entered) == 4
    assert context.disk_cache is not None
    assert TUNING not in {entry.kind for entry in context.disk_cache.entries()}


@pytest.mark.sampled(0)
def test_kernels_without_a_script_are_left_to_the_target(context: tileir.Context) -> None:
    found = tune(context, TWO)
    assert not [trial.fault for trial in found.trials if trial.fault]
    names = [
        [step["options"]["match"]["kernel"] for step in json.loads(trial.passes) if step["name"] == "script"]
        for trial in found.trials[1:]
    ]
    assert {each for held in names for each in held} == {"kernel_0", "kernel_1"}
    assert any("register_tile" in trial.passes for trial in found.trials[1:])


def test_programs_without_loops_have_no_scripts(context: tileir.Context) -> None:
    found = tileir.tune("function (A) -> (B) { B = A + 1.0; }", {"A": ()}, context=context, scripts=True)
    assert len(found.trials) == 1
    assert found.gain == 1.0
    assert not found.stored
