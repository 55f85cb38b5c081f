from __future__ import annotations

import threading
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.processes import in_forked_child
from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.context import Context, default_context
from tileir.runtime.discovery import GROUP, Registry, installed
from tileir.runtime.interface import DeviceInfo, Options
from tileir_llvm import BACKEND

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def context() -> Iterator[Context]:
    with Context() as made:
        yield made


def test_devices_list_the_host(context: Context) -> None:
    assert "llvm.0" in [device.id for device in context.devices()]


@pytest.mark.parametrize("name", ["llvm.0", "llvm"])
def test_a_device_is_chosen_by_id_or_back_end(context: Context, name: str) -> None:
    assert context.device(name).id == "llvm.0"


def test_the_argument_beats_the_context_and_that_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIR_DEVICE", "nowhere.7")
    assert Context(device_id="llvm.0").device().id == "llvm.0"
    assert Context(device_id="nowhere").device("llvm.0").id == "llvm.0"
    with pytest.raises(BackendError, match=r"no device 'nowhere\.7'"):
        Context().device()
    monkeypatch.setenv("TILEIR_DEVICE", "")
    assert Context().device().backend


def test_an_unknown_device_is_refused_with_those_that_exist(context: Context) -> None:
    with pytest.raises(BackendError) as error:
        context.device("llvm.9")
    diagnostic = error.value.diagnostics[0]
    assert diagnostic.code == "TIL801"
    assert "llvm.0" in diagnostic.notes[0]


def test_compilers_and_executors_are_made_once_for_their_options(context: Context) -> None:
    device = context.device("llvm.0")
    assert context.compiler(device) is context.compiler(device)
    assert context.executor(device) is context.executor(device, Options())
    assert context.compiler(device, Options(fast_math=True)) is not context.compiler(device)


def test_a_closed_context_opens_again(context: Context) -> None:
    device = context.device("llvm.0")
    before = context.executor(device)
    context.close()
    assert context.executor(device) is not before


def test_there_is_one_default_context() -> None:
    assert default_context() is default_context()


def test_a_failing_back_end_is_passed_over() -> None:
    broken = EntryPoint("aaa", "no_such_module:BACKEND", GROUP)
    context = Context(registry=Registry(find=lambda: (broken, *installed())))
    assert context.device().backend == "llvm"
    with pytest.raises(BackendError, match="no device 'bbb'") as error:
        context.device("bbb")
    assert any("no_such_module" in note for note in error.value.diagnostics[0].notes)
    with pytest.raises(BackendError, match="no_such_module"):
        context.device("aaa.0")


def test_a_forked_child_does_not_wait_for_threads_of_the_parent() -> None:
    context = default_context()
    context.device()
    held, finish = threading.Event(), threading.Event()

    def hold() -> None:
        with context._lock, context.registry._lock:
            held.set()
            finish.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    try:
        assert in_forked_child(lambda: context.compiler(context.device()) is not None)
    finally:
        finish.set()
        other.join()


def test_back_ends_say_what_else_there_could_be() -> None:
    def missing() -> tuple[DeviceInfo, ...]:
        raise BackendError((Diagnostic("TIL801", "none"),))

    device = DeviceInfo("one.0", "a device", "one")
    backends = [
        attrs.evolve(BACKEND, name="one", devices=lambda: (device,), notes=lambda: ["a card is not registered"]),
        attrs.evolve(BACKEND, name="silent", devices=tuple),
        attrs.evolve(BACKEND, name="two", devices=missing, notes=lambda: ["its failure says that"]),
    ]
    assert Context(registry=Registry.of(*backends)).notes() == {"one": ("a card is not registered",)}
