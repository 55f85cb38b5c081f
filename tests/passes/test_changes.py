"""Each pass and each step of schedules has an example in the manual, which is what it does."""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING

import numpy as np
import pytest

from strategies.catalogue import PASSES
from strategies.changes import FOLDER, change_of
from strategies.passes import arrays_for
from tileir.passes.base import run
from tileir.passes.schedules.scripted import Scripted
from tileir.schedule.script import Step
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "passes": [kind.name for kind in PASSES],
    "steps": sorted(kind.name for group in typing.get_args(Step) for kind in typing.get_args(group) or (group,)),
}
FILES = [FOLDER / kind / f"{name}.diff" for kind, names in NAMES.items() for name in names]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_manual_shows_what_it_changes(path: Path, request: pytest.FixtureRequest) -> None:
    assert path.exists(), f"write {path}: a program, its inputs, passes; and call pytest --update-golden"
    change = change_of(path)
    last = change.passes[-1]
    shown = last.steps[-1] if path.parent.name == "steps" and isinstance(last, Scripted) else last
    assert shown.name == path.stem
    found = change.found()
    if request.config.getoption("--update-golden"):
        path.write_text("".join(f"{line}\n" for line in (*change.header, *found)), encoding="utf-8")
    assert found, "the example shows nothing"
    assert change_of(path).lines == found
    after = run(change.passes, change.before)
    verify(after)
    arrays = arrays_for(change.before)
    results = interpret(after, arrays)
    for name, expected in interpret(change.before, arrays).items():  # attention in f16 is rounded elsewhere
        np.testing.assert_allclose(results[name], expected, rtol=0.01 if expected.dtype == np.float16 else 1e-6)


def test_no_file_is_about_something_that_is_gone() -> None:
    assert sorted(FOLDER.glob("*/*")) == sorted(FILES)
