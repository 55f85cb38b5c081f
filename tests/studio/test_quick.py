"""Preview before the optimised program is there; nothing depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from tileir.core.errors import BackendError, Diagnostic
from tileir.driver import executable, jit
from tileir.runtime.context import default_context
from tileir_studio.design import previews as shown
from tileir_studio.serve.jobs import answer
from tileir_studio.serve.session import Event, Session

if TYPE_CHECKING:
    from pathlib import Path

UPLOAD: Final = "0" * 32
LEVELS: Final = np.random.default_rng(4).integers(0, 256, (48, 64, 3), np.uint8)
SIGMA: Final = "steps[0].arguments.sigma"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Return a worker's memory where nothing is compiled yet."""
    monkeypatch.setattr(default_context(), "disk_cache", None)
    default_context().programs.clear()
    with (tmp_path / UPLOAD).open("wb") as file:
        np.save(file, LEVELS)
    return Session(tmp_path)


def previews(session: Session, text: str, **more: Any) -> list[Event]:
    return list(answer(session, {"job": "formula.preview", "text": text, "inputs": {"image": UPLOAD}, **more}))


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def picture(event: Event) -> np.ndarray[Any, Any]:
    return np.frombuffer(event.pictures["preview"], np.uint8).reshape(*event.view["size"], 4)[..., :3].astype(int)


@pytest.mark.sampled(0)
@pytest.mark.parametrize("text", ["gaussian(sigma=2)", "median(size=5)", "sobel\nmedian\nbox(size=7)", "flip"])
def test_the_quick_picture_is_the_optimised_one_but_for_a_level(session: Session, text: str) -> None:
    first, last = previews(session, text)
    assert (first.name, last.name) == ("quick", "preview")
    assert first.view.keys() == last.view.keys()
    wanted = tileir.craft(text)(LEVELS)
    wanted = wanted[..., None] if wanted.ndim == 2 else wanted
    assert np.abs(picture(first) - wanted).max() <= 1
    np.testing.assert_array_equal(picture(last if last.pictures else first), np.broadcast_to(wanted, LEVELS.shape))
    (again,) = previews(session, text)
    assert again.name == "preview"
    np.testing.assert_array_equal(picture(again), np.broadcast_to(wanted, LEVELS.shape))


def test_a_picture_that_is_the_same_is_not_sent_again(session: Session) -> None:
    first, last = previews(session, "invert")
    assert first.pictures
    assert not last.pictures


def test_another_picture_takes_its_place(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = np.zeros_like(LEVELS)
    monkeypatch.setattr("tileir_studio.design.previews.quick_results", lambda *_: (None, (wrong,)))
    first, last = previews(session, "invert")
    np.testing.assert_array_equal(picture(first), wrong)
    np.testing.assert_array_equal(picture(last), 255 - LEVELS.astype(int))


@pytest.mark.sampled(0)
def test_a_newer_value_ends_the_compilation_of_the_optimised_program(session: Session) -> None:
    request = {"job": "formula.preview", "text": "gaussian(sigma=3)", "inputs": {"image": UPLOAD}}
    events = answer(session, request)
    assert next(events).name == "quick"
    session.given_up = session.request
    assert names(list(events)) == ["stale"]
    assert not session.bench.crafted("gaussian(sigma=3)", None).is_compiled(LEVELS)
    session.request += 1
    (first, *_, last) = previews(session, "gaussian(sigma=3)")
    assert (first.name, last.name) == ("quick", "preview")
    assert session.bench.crafted("gaussian(sigma=3)", None).is_compiled(LEVELS)


def test_it_ends_the_quick_compilation_too(session: Session) -> None:
    session.given_up = session.request
    assert names(previews(session, "gaussian(sigma=3)")) == ["stale"]
    assert len(default_context().programs) == 0


def compiling_fails_where(monkeypatch: pytest.MonkeyPatch, *, is_quick: bool) -> None:
    def compile_for(*arguments: Any) -> executable.Executable:
        if getattr(arguments[4], "quick", False) == is_quick:
            raise BackendError((Diagnostic("TIL805", "no code for you"),))
        return executable.compile_for(*arguments)

    monkeypatch.setattr(jit, "compile_for", compile_for)


def test_a_fault_of_the_optimised_program_is_told_behind_the_quick_picture(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling_fails_where(monkeypatch, is_quick=False)
    first, last = previews(session, "invert")
    np.testing.assert_array_equal(picture(first), 255 - LEVELS.astype(int))
    assert last.name == "faults"
    assert last.view[0]["code"] == "TIL805"


def test_a_fault_of_the_quick_program_is_none(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    compiling_fails_where(monkeypatch, is_quick=True)
    (only,) = previews(session, "invert")
    np.testing.assert_array_equal(picture(only), 255 - LEVELS.astype(int))


def test_faults_of_the_formula_are_told_once(session: Session) -> None:
    assert names(previews(session, "blurr")) == ["faults"]


def test_what_would_run_too_long_waits_for_the_optimised_program(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "LONGEST", 0.0)
    assert names(previews(session, "gaussian(sigma=2)")) == ["preview"]


@pytest.mark.sampled(0)
def test_moves_that_follow_closely_come_to_the_optimised_program(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "SMOOTH", 0.0)
    dragged = {"job": "formula.preview", "text": "gaussian(sigma=2)", "inputs": {"image": UPLOAD}, "path": SIGMA}
    for value, names_of_events in (("2.0", ["quick", "stale"]), ("2.05", ["preview"]), ("2.1", ["preview"])):
        session.request += 1
        events = []
        for event in answer(session, {**dragged, "value": value}):
            events.append(event)
            session.given_up = session.request
        assert names(events) == names_of_events


@pytest.mark.sampled(0)
def test_a_control_that_rests_shows_what_its_last_move_computed(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = previews(session, "gaussian(sigma=2)", path=SIGMA, value="2.0")
    assert names(moved) == ["quick", "preview"]
    assert names(previews(session, "gaussian(sigma=2.0)", path=SIGMA, value="2.05")) == ["preview"]
    compiling_fails_where(monkeypatch, is_quick=True)
    first, last = previews(session, "gaussian(sigma=2.05)")
    assert (first.name, last.name) == ("quick", "preview")
    wanted = tileir.craft("gaussian(sigma=2.05)")(LEVELS)
    np.testing.assert_array_equal(picture(last if last.pictures else first), wanted)


def test_kernels_on_disk_need_no_quick_program(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(default_context(), "disk_cache", tileir.DiskCache(tmp_path / "cache"))
    assert names(previews(session, "sobel")) == ["quick", "preview"]
    default_context().programs.clear()
    assert names(previews(session, "sobel")) == ["preview"]
