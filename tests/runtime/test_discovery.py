from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from tileir.core.errors import BackendError
from tileir.runtime import discovery
from tileir.runtime.context import Context
from tileir.runtime.discovery import GROUP, Registry
from tileir.runtime.interface import API_VERSION

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.interface import Backend, DeviceInfo

def refuse():
    raise BackendError((Diagnostic("TIL802", "the driver is too old"),))

def crash():
    raise ZeroDivisionError("oops")

good = Backend("good", lambda: [DeviceInfo("good.0", "A device", "good")], None, None)
old = Backend("old", lambda: [], None, None, api_version=0)
refusing = Backend("refusing", refuse, None, None)
crashing = Backend("crashing", crash, None, None)
other = 7
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the path whose distributions ``install`` makes."""
    (tmp_path / "fake_backend.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "fake_backend", raising=False)
    return tmp_path


def install(folder: Path, name: str, entries: dict[str, str]) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "\n".join(f"{key} = {value}" for key, value in entries.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
    importlib.invalidate_caches()


def code_of(error: pytest.ExceptionInfo[BackendError]) -> str:
    return error.value.diagnostics[0].code


def test_the_llvm_back_end_is_installed() -> None:
    assert "llvm" in Registry().names()


def test_a_strangers_back_end_is_found_and_loaded_late(distribution: Path) -> None:
    install(distribution, "stranger", {"good": "fake_backend:good"})
    registry = Registry()
    assert "good" in registry.names()
    assert "fake_backend" not in sys.modules
    assert [device.id for device in registry.devices("good")] == ["good.0"]
    assert registry.backend("good").api_version == API_VERSION


def test_entries_are_sorted(distribution: Path) -> None:
    install(distribution, "stranger", {"zz": "fake_backend:good", "aa": "fake_backend:good"})
    names = [entry.name for entry in discovery.installed()]
    assert names == sorted(names)


def test_a_clash_names_both_distributions(distribution: Path) -> None:
    install(distribution, "first", {"good": "fake_backend:good"})
    install(distribution, "second", {"good": "fake_backend:good"})
    with pytest.raises(BackendError, match=r"first 1\.0 .* and second 1\.0") as error:
        Registry().backend("good")
    assert code_of(error) == "TIL803"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("fake_backend:missing", "AttributeError"),
        ("no_such_module:BACKEND", "ModuleNotFoundError"),
        ("fake_backend:other", "of type int, not Backend"),
        ("fake_backend:old", "interface version 0"),
        ("fake_backend:refusing", "the driver is too old"),
        ("fake_backend:crashing", "ZeroDivisionError: oops"),
    ],
)
def test_a_broken_back_end_is_reported_and_skipped(distribution: Path, value: str, reason: str) -> None:
    install(distribution, "stranger", {"broken": value, "good": "fake_backend:good"})
    context = Context()
    assert "good.0" in [device.id for device in context.devices()]
    failure = context.failures()["broken"]
    assert failure.diagnostics[0].code == "TIL802"
    assert reason in str(failure)
    with pytest.raises(BackendError, match=r"broken|driver|other|oops"):
        context.registry.devices("broken")


def test_an_unknown_back_end_is_named() -> None:
    with pytest.raises(BackendError, match=r"no back end 'nothing'; installed are .*llvm") as error:
        Registry().backend("nothing")
    assert code_of(error) == "TIL801"


def test_without_any_back_end() -> None:
    context = Context(registry=Registry(find=lambda: ()))
    assert context.devices() == ()
    with pytest.raises(BackendError, match="no back end offers a device") as error:
        context.device()
    assert code_of(error) == "TIL801"
