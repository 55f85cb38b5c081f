from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from tileir.core.errors import BackendError, Diagnostic
from tileir.runtime.context import Context
from tileir.runtime.discovery import Registry
from tileir.runtime.interface import Backend, DeviceInfo
from tileir_cli.devices import as_json, as_table

NOTHING: Any = None


def small() -> list[DeviceInfo]:
    return [DeviceInfo("small.0", "A chip", "small", 3 * 1024**3 // 2, tuple(f"f{n}" for n in range(12)))]


def absent() -> list[DeviceInfo]:
    fault = Diagnostic("TIL802", "there is no driver; install one", notes=("the vendor has it",))
    raise BackendError((fault,))


def plain() -> list[DeviceInfo]:
    return [DeviceInfo("plain.0", "Another chip", "plain")]


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.delenv("TILEIR_DEVICE", raising=False)
    backends = [Backend(f.__name__, f, NOTHING, NOTHING) for f in (small, absent, plain)]
    return Context(registry=Registry.of(*backends))


def shown(context: Context) -> str:
    console = Console(file=io.StringIO(), width=100)
    for part in as_table(context):
        console.print(part)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_people_see_memory_features_and_what_is_missing(context: Context) -> None:
    text = shown(context)
    assert "1.5 GiB" in text
    assert "f7 … and 4 more" in text
    assert "f8" not in text
    assert "default: plain.0" in text
    assert "back end absent is missing: there is no driver; install one\n  note: the vendor has it" in text


def test_programs_see_everything(context: Context) -> None:
    document = json.loads(as_json(context))
    assert [device["id"] for device in document["devices"]] == ["plain.0", "small.0"]
    assert [device["default"] for device in document["devices"]] == [True, False]
    assert document["devices"][1]["memory_bytes"] == 3 * 1024**3 // 2
    assert len(document["devices"][1]["features"]) == 12
    message = "there is no driver; install one"
    missing = {"backend": "absent", "code": "TIL802", "message": message, "notes": ["the vendor has it"]}
    assert document["missing"] == [missing]


def test_the_variable_decides_what_the_default_is(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIR_DEVICE", "small")
    assert "default: small.0" in shown(context)
    monkeypatch.setenv("TILEIR_DEVICE", "nothing")
    assert "default:" not in shown(context)


@pytest.mark.parametrize(
    ("size", "words"),
    [(None, ""), (512, "0.5 KiB"), (1 << 20, "1 MiB"), (139 << 30, "139 GiB")],
)
def test_sizes_in_words(size: int | None, words: str) -> None:
    device = DeviceInfo("one.0", "One", "one", size)
    context = Context(registry=Registry.of(Backend("one", lambda: [device], NOTHING, NOTHING)))
    assert words in shown(context)
