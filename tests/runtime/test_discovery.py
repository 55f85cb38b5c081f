from __future__ import annotations

import contextlib
import gc
import importlib
import sys
import weakref
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, cast

import pytest

from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime import discovery
from tileir.runtime.context import Context
from tileir.runtime.discovery import GROUP, Registry
from tileir.runtime.interface import API_VERSION, Backend, DeviceInfo

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.interface import Backend, DeviceInfo

def refuse():
    raise BackendError((Diagnostic("TIL802", "the driver is too old"),))

def crash():
    raise ZeroDivisionError("oops")

def devices(name):
    return lambda: [DeviceInfo(f"{name}.0", "A device", name)]

good = Backend("good", lambda: [DeviceInfo("good.0", "A device", "good")], None, None)
old = Backend("broken", lambda: [], None, None, api_version=0)
new = Backend("broken", lambda: [], None, None, api_version=1000)
refusing = Backend("broken", refuse, None, None)
crashing = Backend("broken", crash, None, None)
misnamed = Backend("broken", devices("good"), None, None)
numbers = Backend("broken", lambda: [7], None, None)
exiting = Backend("broken", exit, None, None)
wordless = Backend("broken", lambda: wordlessly(), None, None)
text_version = Backend("broken", lambda: [], None, None, api_version="1")
text_rank = Backend("broken", lambda: [], None, None, rank="high")
number_id = Backend("broken", lambda: [DeviceInfo(7, "A device", "broken")], None, None)
other = 7

class Wordless(BaseException):
    def __str__(self):
        raise ValueError

def wordlessly():
    raise Wordless
aaa = Backend("aaa", devices("aaa"), None, None)
zzz = Backend("zzz", devices("zzz"), None, None, rank=50)
modest = Backend("modest", devices("modest"), None, None, rank=-1)
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on the path whose distributions ``install`` makes."""
    (tmp_path / "fake_backend.py").write_text(MODULE)
    (tmp_path / "exiting_backend.py").write_text("raise SystemExit(3)")
    (tmp_path / "cancelling_backend.py").write_text("import asyncio; raise asyncio.CancelledError")
    (tmp_path / "interrupted_backend.py").write_text("raise KeyboardInterrupt")
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


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("fake_backend:missing", "AttributeError"),
        ("no_such_module:BACKEND", "ModuleNotFoundError"),
        ("fake_backend:other", "of type int, not Backend"),
        ("fake_backend:old", "interface version 0, and this tileir has 1; upgrade it"),
        ("fake_backend:new", "interface version 1000, and this tileir has 1; upgrade tileir"),
        ("fake_backend:good", "calls itself 'good'"),
        ("fake_backend:misnamed", "whose id is broken.0"),
        ("fake_backend:numbers", "lists 7"),
        ("fake_backend:refusing", "the driver is too old"),
        ("fake_backend:crashing", "ZeroDivisionError: oops"),
        ("fake_backend:exiting", "cannot list its devices: SystemExit"),
        ("fake_backend:wordless", "Wordless: it cannot be shown"),
        ("fake_backend:text_version", "has api_version of type str, not int"),
        ("fake_backend:text_rank", "has rank of type str, not int"),
        ("fake_backend:number_id", "whose id is broken.0"),
        ("exiting_backend:BACKEND", "cannot be loaded: SystemExit: 3"),
        ("cancelling_backend:BACKEND", "cannot be loaded: CancelledError"),
    ],
)
def test_a_broken_back_end_is_reported_and_skipped(distribution: Path, value: str, reason: str) -> None:
    install(distribution, "stranger", {"broken": value, "good": "fake_backend:good"})
    context = Context()
    assert "good.0" in [device.id for device in context.devices()]
    failure = context.failures()["broken"]
    assert failure.diagnostics[0].code == "TIL802"
    assert reason in str(failure)
    assert context.notes().keys() <= {"opencl"}  # whose drivers may be too old for the processor
    with pytest.raises(BackendError, match=r"broken|driver|other|oops"):
        context.registry.devices("broken")


def test_an_interrupt_gets_through_and_leaves_nothing_behind(distribution: Path) -> None:
    install(distribution, "stranger", {"good": "interrupted_backend:BACKEND"})
    context = Context()
    with pytest.raises(KeyboardInterrupt):
        context.failures()
    (distribution / "interrupted_backend.py").write_text("from fake_backend import good as BACKEND  # done this time\n")
    importlib.invalidate_caches()
    assert "good" not in context.failures()
    assert context.device("good").id == "good.0"


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


def test_a_failure_is_logged_once(distribution: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(distribution, "stranger", {"broken": "no_such_module:BACKEND"})
    context = Context()
    context.devices()
    context.devices()
    context.failures()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no_such_module" in caplog.text


def test_what_says_why_it_has_no_device_is_not_logged(distribution: Path, caplog: pytest.LogCaptureFixture) -> None:
    install(distribution, "stranger", {"broken": "fake_backend:refusing"})
    assert "broken" in Context().failures()
    assert caplog.records == []


def registry_of(*names: str) -> Registry:
    return Registry(find=lambda: [EntryPoint(name, f"fake_backend:{name}", GROUP) for name in names])


def test_the_default_goes_by_rank_and_not_by_name(distribution: Path) -> None:
    default = registry_of("aaa", "modest", "zzz").default()
    assert default is not None
    assert default.id == "zzz.0"
    by_name = registry_of("good", "aaa").default()
    assert by_name is not None
    assert by_name.id == "aaa.0"


def test_a_back_end_of_negative_rank_must_be_named(distribution: Path) -> None:
    context = Context(registry=registry_of("modest"))
    with pytest.raises(BackendError, match="name a device") as error:
        context.device()
    assert error.value.diagnostics[0].notes == ("devices are modest.0",)
    assert context.device("modest").id == "modest.0"


def test_what_is_installed_beside_llvm_is_not_loaded_for_the_default(distribution: Path) -> None:
    install(distribution, "stranger", {"aaa": "fake_backend:aaa"})
    context = Context()
    assert context.device().backend == "llvm"
    assert "fake_backend" not in sys.modules
    assert "aaa.0" in [device.id for device in context.devices()]


def backend(name: str = "mine", **changes: Any) -> Backend[Any]:
    refuse: Any = None
    return Backend(name, lambda: [DeviceInfo(f"{name}.0", "Mine", name)], refuse, refuse, **changes)


def test_an_embedder_registers_back_ends() -> None:
    context = Context(registry=Registry.of(backend()))
    assert [device.id for device in context.devices()] == ["mine.0"]
    assert context.device().id == "mine.0"
    context.register(backend("other", rank=1))
    assert context.device().id == "other.0"
    with pytest.raises(BackendError, match="registered before") as error:
        context.register(backend())
    assert code_of(error) == "TIL803"


def test_what_is_registered_comes_before_what_is_installed() -> None:
    context = Context()
    context.register(backend("llvm"))
    assert context.device("llvm").name == "Mine"
    used = Context()
    used.device("llvm")
    with pytest.raises(BackendError, match="in use already") as error:
        used.register(backend("llvm"))
    assert code_of(error) == "TIL803"


def test_only_back_ends_can_be_registered() -> None:
    wrong: Any = "llvm"
    for value in (wrong, backend(api_version=0)):
        with pytest.raises(BackendError) as error:
            Context().register(value)
        assert code_of(error) == "TIL802"


def test_failures_that_are_kept_keep_nothing_else() -> None:
    class Held:
        pass

    def ask(registry: Registry) -> weakref.ref[Held]:
        held = Held()
        for _ in range(2):
            with contextlib.suppress(BackendError):
                registry.devices("failing")
        return weakref.ref(held)

    def fail() -> list[DeviceInfo]:
        raise BackendError((Diagnostic("TIL801", "there is none"),))

    registry = Registry.of(Backend("failing", fail, cast("Any", None), cast("Any", None)))
    held = ask(registry)
    gc.collect()
    assert held() is None
