"""Finding a C compiler, what is said where there is none, and that nothing is left behind."""

from __future__ import annotations

import os
import shlex
import tempfile
from typing import TYPE_CHECKING

import pytest

import tileir
from tileir.core.errors import BackendError
from tileir.runtime.discovery import Registry
from tileir_c import BACKEND
from tileir_c.device import target
from tileir_c.toolchain import find_toolchain

if TYPE_CHECKING:
    from pathlib import Path


def code_and_message(caught: pytest.ExceptionInfo[BackendError]) -> tuple[str, str]:
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.code, diagnostic.message


def test_without_a_compiler_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BackendError) as caught:
        BACKEND.devices()
    assert code_and_message(caught) == (
        "TIL802",
        "there is no C compiler (cc, gcc, clang); install gcc or clang, or set the environment variable CC",
    )
    context = tileir.Context(registry=Registry.of(BACKEND))
    assert context.devices() == ()
    assert list(context.failures()) == ["c"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no-such-compiler -m32", "the environment variable CC names 'no-such-compiler', which is not found"),
        ("gcc 'unbalanced", "cannot be split into words"),
        ("false", "false is no C compiler that works like GCC or Clang"),
    ],
)
def test_a_wrong_variable_is_named(value: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", value)
    with pytest.raises(BackendError) as caught:
        find_toolchain()
    code, said = code_and_message(caught)
    assert code == "TIL802"
    assert message in said


def test_something_that_cannot_be_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\1\2\3")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(BackendError) as caught:
        find_toolchain()
    assert "cannot be run" in code_and_message(caught)[1]


def test_the_variable_decides_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    command = find_toolchain().command
    monkeypatch.setenv("CC", f"{shlex.join(command)} -DTILEIR_TEST=7")
    found = find_toolchain()
    assert found.command == (*command, "-DTILEIR_TEST=7")
    assert found.macros["TILEIR_TEST"] == "7"
    assert found.version in found.identity


def test_windows_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(BackendError) as caught:
        find_toolchain()
    assert "on Windows" in code_and_message(caught)[1]


def test_a_source_that_is_refused_is_an_error_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    toolchain = find_toolchain()
    with pytest.raises(BackendError) as caught:
        toolchain.compile("int main(void) { return x; }", toolchain.flags(fast_math=False))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "TIL805"
    assert toolchain.version in diagnostic.message
    assert any(
        "kernels.c:1:" in note and "'x'" in note.replace("‘", "'").replace("’", "'") for note in diagnostic.notes
    )
    assert not any(str(tmp_path) in note for note in diagnostic.notes)
    assert list(tmp_path.iterdir()) == []


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(BackendError) as caught:
        find_toolchain().compile("", ())
    assert code_and_message(caught)[0] == "TIL805"


def test_flags() -> None:
    toolchain = find_toolchain()
    precise, fast = toolchain.flags(fast_math=False), toolchain.flags(fast_math=True)
    assert "-ffp-contract=off" in precise
    assert not any("fast-math" in flag or "associative" in flag for flag in (*precise, *fast))
    assert set(toolchain.native) <= set(precise)


@pytest.mark.parametrize(
    ("macros", "width", "registers"),
    [
        ({}, 16, 16),
        ({"__AVX__": "1"}, 32, 16),
        ({"__AVX__": "1", "__AVX512F__": "1"}, 64, 32),
        ({"__aarch64__": "1"}, 16, 32),
    ],
)
def test_macros_tell_of_vectors(macros: dict[str, str], width: int, registers: int) -> None:
    facts = target(macros, 3)
    assert (facts.vector_bytes, facts.vector_registers, facts.threads) == (width, registers, 3)


def test_the_device() -> None:
    (device,) = BACKEND.devices()
    assert device.id == "c.0"
    assert find_toolchain().version in device.name
    assert device.memory_bytes is None or device.memory_bytes > 1 << 20
    assert device.target.threads <= (os.cpu_count() or 1)
