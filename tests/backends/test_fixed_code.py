"""Native code that each process needs: made once, then found on disk, and right whoever made it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tileir.core.errors import BackendError
from tileir_llvm.device.host import device
from tileir_llvm.run import fixed_code as module
from tileir_llvm.run.fixed_code import fixed_code
from tileir_llvm.run.modules import object_code
from tileir_llvm.run.python_functions import python_function, through_table

if TYPE_CHECKING:
    from pathlib import Path

FEATURES = device().features

TEXT = "define i64 @twice(i64 %x) { %y = add i64 %x, %x ret i64 %y }\ndefine i64 @seven() { ret i64 7 }\n"

CALLING = """\
define ptr @sum(ptr %self, ptr %given, i64 %count) {
  %place = getelementptr ptr, ptr %given, i64 1
  %left_object = load ptr, ptr %given
  %right_object = load ptr, ptr %place
  %left = call i64 @PyLong_AsLongLong(ptr %left_object)
  %right = call i64 @PyLong_AsLongLong(ptr %right_object)
  %both = add i64 %left, %right
  %made = call ptr @PyLong_FromLongLong(i64 %both)
  ret ptr %made
}
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the cache be one of the test's own."""
    monkeypatch.setenv("TILEIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEIR_CACHE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts of which code was generated."""
    texts: list[str] = []
    generate = object_code

    def noted(text: str, *arguments: Any, **options: Any) -> bytes:
        texts.append(text)
        return generate(text, *arguments, **options)

    monkeypatch.setattr(module, "object_code", noted)
    return texts


def _twice(features: tuple[str, ...] = FEATURES) -> None:
    code = fixed_code(TEXT, ("seven", "twice"), features)  # the functions live as long
    seven, twice = code.addresses
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(seven)() == 7
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(twice)(21) == 42


def test_code_is_made_once(made: list[str]) -> None:
    for _ in range(3):
        _twice()
    assert made == [TEXT]


def test_other_texts_and_features_are_other_code(made: list[str]) -> None:
    _twice()
    _twice(())
    other = fixed_code(TEXT.replace("i64 7", "i64 8"), ("seven",), FEATURES)
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(*other.addresses)() == 8
    assert len(made) == 3


@pytest.mark.parametrize("word", ["0", "off"])
def test_without_a_cache_it_is_made_each_time(word: str, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIR_CACHE", word)
    _twice()
    _twice()
    assert made == [TEXT, TEXT]


def test_an_entry_that_was_changed_is_made_again(directory: Path, made: list[str]) -> None:
    _twice()
    (entry,) = directory.glob("note-*")
    broken = bytearray(entry.read_bytes())
    broken[-5] ^= 1
    entry.write_bytes(bytes(broken))
    _twice()
    _twice()
    assert made == [TEXT, TEXT]


def test_functions_of_python_are_found_in_each_process(made: list[str]) -> None:
    for _ in range(2):
        code = fixed_code(CALLING, ("sum",), FEATURES)
        assert len(code.addresses) == 1
        total = python_function("sum", code.addresses[0], 0, code)
        assert [total(20, 22), total(-1, 2**62)] == [42, 2**62 - 1]
    assert len(made) == 1
    program = (
        "import tileir_llvm.run.fixed_code as fixed\n"
        "from tileir_llvm.run.python_functions import python_function\n"
        "fixed.object_code = None  # nothing is generated\n"
        f"code = fixed.fixed_code({CALLING!r}, ('sum',), {FEATURES!r})\n"
        "print(python_function('sum', code.addresses[0], 0, code)(20, 22))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_a_table_has_each_function_once() -> None:
    text, names = through_table(CALLING, "table")
    assert names == ("PyLong_AsLongLong", "PyLong_FromLongLong")
    assert text.startswith("@table = global [2 x ptr] zeroinitializer\n")
    assert "@Py" not in text
    assert through_table(TEXT, "table") == (TEXT, ())


def test_wrong_text_is_refused_and_not_kept(directory: Path) -> None:
    with pytest.raises(BackendError, match="TIL805"):
        fixed_code("define i32 @f() { ret void }", ("f",), FEATURES)
    assert not list(directory.glob("note-*"))
