"""Checkpoints: read on any mesh, replaced as a whole, and refused with a sentence where they are damaged."""

from __future__ import annotations

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from tileir import distributed
from tileir.core import ArgumentError, BackendError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CUTS: tuple[tuple[dict[str, int], tuple[Any, ...]], ...] = (
    ({"x": 2}, ("x", None)),
    ({"x": 3}, (None, "x")),
    ({"x": 2, "y": 3}, ("y", "x")),
    ({"x": 2, "y": 2}, (("y", "x"), None)),
    ({"x": 2}, (None, None)),
    ({}, (None, None)),
)
WHOLE = np.arange(35).reshape(7, 5)


def saved(folder: Path, mesh: dict[str, int], cut: tuple[Any, ...]) -> dict[str, np.ndarray[Any, Any]]:
    whole = {"U": WHOLE.astype("f4"), "B": WHOLE.astype(ml_dtypes.bfloat16), "N": np.array(3), "E": WHOLE[:0] > 0}
    cuts: dict[str, Any] = {"U": cut, "B": tuple(reversed(cut)), "N": (), "E": cut}
    distributed.save(folder, {n: distributed.array(a, mesh, cuts[n]) for n, a in whole.items()}, {"step": 3})
    return whole


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("mesh", "cut"), CUTS)
def test_checkpoints_are_read_on_any_mesh(tmp_path: Path, mesh: dict[str, int], cut: tuple[Any, ...]) -> None:
    folder = tmp_path / "new" / "folder"
    assert not distributed.saved(folder)
    whole = saved(folder, mesh, cut)
    assert distributed.saved(folder)
    for other, places in CUTS:
        found = distributed.load(folder, other, {"U": places, "E": places})
        assert found.about == {"step": 3}
        assert found.arrays["U"].sharding == distributed.Sharding(places)
        for name, right in whole.items():
            np.testing.assert_array_equal(found.arrays[name].numpy(), right, strict=True)


def test_a_checkpoint_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for mesh, cut in CUTS:
        saved(tmp_path, mesh, cut)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "parts-6-0"]


@pytest.mark.parametrize("last", range(6))
def test_a_rank_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    """Whatever is renamed, removed or flushed when a rank stops, the folder has one checkpoint."""
    saved(tmp_path, *CUTS[0])
    done: list[int] = []
    flush = os.fsync

    def stopping(descriptor: int) -> None:
        if len(done) == last:
            raise OSError("no space left")
        done.append(descriptor)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", stopping)
    u = distributed.array(WHOLE + 1, {"x": 2}, ("x", None))
    with pytest.raises(BackendError, match=r"TIL814.*rank \d failed.*TIL901.*cannot write .*: no space left"):
        distributed.save(tmp_path, {"U": u}, {"step": 4})
    monkeypatch.undo()
    found = distributed.load(tmp_path, {"x": 2}, {"U": ("x", None)})
    step = 3 if last < 5 else 4  # when the folder is flushed, the manifest has its name
    assert found.about == {"step": step}
    np.testing.assert_array_equal(found.arrays["U"].numpy(), WHOLE + (step == 4))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    distributed.save(tmp_path, {"U": u}, {"step": 5})
    assert distributed.load(tmp_path, {"x": 2}, {}).about == {"step": 5}


def truncated(folder: Path) -> None:
    (folder / "parts-1-1").write_bytes(b"0")


def mixed(folder: Path) -> None:
    """Bring a file of another run, which has its name, and a part of equal size."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        other = folder / name
        saved(other, *CUTS[0])
        (folder / "parts-1-1").write_bytes((other / "parts-1-1").read_bytes())


def edited(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        document = json.loads((folder / "manifest.json").read_bytes())
        change(document)
        (folder / "manifest.json").write_text(json.dumps(document))

    return edit


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "manifest.json").unlink(), "no checkpoint in .*: manifest.json is missing; name the"),
        (lambda folder: (folder / "parts-1-0").unlink(), "parts-1-0 is missing: it has elements of 'U', 'B', 'N'; b"),
        (mixed, "parts-1-1 is from another checkpoint: it has elements of 'U', 'B'; bring it back, or take another"),
        (truncated, "parts-1-1 has 1 bytes of 104: it has elements of 'U', 'B'"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "manifest.json is no manifest: this is not JSON"),
        (edited(lambda it: it.update(version=2)), "reads version 1 of tileir.driver.Manifest: upgrade tileir"),
        (edited(lambda it: it["node"]["arrays"][0].update(dtype="f3")), "manifest.json is no manifest: .*f3"),
        (edited(lambda it: it["node"]["arrays"][0]["pieces"].pop()), "no pieces of all of 'U'; take another"),
        (edited(lambda it: it["node"]["arrays"][0]["pieces"][0].update(file="../x")), "no pieces of all of 'U'"),
        (edited(lambda it: it["node"]["arrays"][0]["pieces"][0].update(box=[[0, 9]])), "no pieces of all of 'U'"),
        (edited(lambda it: it["node"].update(about="{")), "manifest.json is no manifest: Expecting property"),
    ],
)
def test_damaged_checkpoints(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    saved(tmp_path, *CUTS[0])
    damage(tmp_path)
    with pytest.raises(ArgumentError, match=f"TIL607.*{message}"):
        distributed.load(tmp_path, {"x": 2}, {})


def test_what_cannot_be_saved_or_loaded(tmp_path: Path) -> None:
    u = distributed.array(WHOLE, {"x": 2}, ("x", None))
    other = distributed.array(WHOLE, {"x": 3}, ("x", None))
    for arrays in ({}, {"U": u, "V": other}):
        with pytest.raises(ArgumentError, match=r"TIL352.*arrays of one mesh are saved together"):
            distributed.save(tmp_path, arrays)
    with pytest.raises(ArgumentError, match=r"TIL707.*is what JSON can hold"):
        distributed.save(tmp_path, {"U": u}, {"step": {1, 2}})
    wrong: tuple[Any, ...] = ([u], {1: u}, {"U": WHOLE})
    for arrays in wrong:
        with pytest.raises(ArgumentError, match=r"TIL707.* not a value of type"):
            distributed.save(tmp_path, arrays)
    assert list(tmp_path.iterdir()) == []
    distributed.save(tmp_path, {"U": u})
    with pytest.raises(ArgumentError, match=r"TIL707.*shardings is a mapping"):
        distributed.load(tmp_path, {"x": 2}, None)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"TIL352.*has no array 'V'; known are U"):
        distributed.load(tmp_path, {"x": 2}, {"V": ("x", None)})
    (tmp_path / "file").touch()
    with pytest.raises(BackendError, match=r"TIL814.*file"):
        distributed.save(tmp_path / "file", {"U": u})
