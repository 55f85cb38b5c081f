from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tileir.runtime.caches import source_digest as module
from tileir.runtime.caches.source_digest import source_digest

OLD = module._STARTED - 100


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder of a package that was imported as ``digested``."""
    folder = tmp_path / "digested"
    folder.mkdir()
    _write(folder / "__init__.py", "x = 1\n")
    _write(folder / "inner" / "part.py", "y = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("digested")
    yield folder
    del sys.modules["digested"]


def _write(path: Path, text: str, time: float = OLD) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (time, time))


def _digest(package: str = "digested") -> str | None:
    source_digest.cache_clear()
    return source_digest(package)


def test_the_same_sources_have_one_digest_whatever_their_times(package: Path) -> None:
    before = _digest()
    assert before is not None
    _write(package / "__init__.py", "x = 1\n", OLD - 5)
    assert _digest() == before


@pytest.mark.parametrize("name", ["__init__.py", "inner/part.py", "inner/more.py"])
def test_other_sources_have_another_digest(package: Path, name: str) -> None:
    before = _digest()
    _write(package / name, "z = 3\n")
    assert _digest() not in (before, None)


def test_a_file_that_moved_changes_the_digest(package: Path) -> None:
    before = _digest()
    (package / "inner" / "part.py").rename(package / "part.py")
    assert _digest() not in (before, None)


def test_native_code_counts_by_its_time(package: Path) -> None:
    _write(package / "fast.so", "native", OLD)
    before = _digest()
    _write(package / "fast.so", "native", OLD - 5)
    assert _digest() not in (before, None)


def test_sources_newer_than_the_process_have_none(package: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tileir.cache")
    _write(package / "inner" / "part.py", "y = 2\n", module._STARTED + 1)
    assert _digest() is None
    assert "part.py is newer" in caplog.text


def test_a_module_of_one_file_has_one(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys.modules["digested"], "__path__")
    assert _digest() is not None


def test_a_package_that_is_not_imported_has_the_one_that_it_has_later(package: Path) -> None:
    _write(package.parent / "alone.py", "x = 1\n")
    later = _digest()
    del sys.modules["digested"]
    assert _digest() == later
    assert _digest("alone") not in (None, later)
    assert sys.modules.keys().isdisjoint({"digested", "alone"})
    importlib.import_module("digested")


def test_what_has_no_source_has_none() -> None:
    assert _digest("sys") is None
    assert _digest("no_such_module") is None


def test_data_behind_the_sources_count_too(package: Path) -> None:
    _write(package / "zones.json", "{}", OLD)
    before = _digest()
    assert before is not None
    _write(package / "zones.json", "[]", OLD)
    assert _digest() not in (before, None)
