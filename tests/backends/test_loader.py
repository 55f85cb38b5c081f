from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from strategies import far_apart
from tileir.core.errors import BackendError
from tileir_llvm.device.host import device
from tileir_llvm.run.loader import Code, load_code
from tileir_llvm.run.modules import object_code

TEXT = "define i64 @twice(i64 %x) { %y = add i64 %x, %x ret i64 %y }\ndefine i64 @seven() { ret i64 7 }"
FEATURES = device().features


def loaded(*symbols: str) -> Code:
    return load_code((object_code(TEXT, FEATURES),), symbols, FEATURES)


def test_functions_are_found_in_the_order_of_the_request() -> None:
    code = loaded("seven", "twice")
    seven, twice = code.addresses
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(seven)() == 7
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(twice)(21) == 42


def test_the_same_names_may_be_loaded_again() -> None:
    first, second = loaded("seven"), loaded("seven")
    assert first.addresses != second.addresses


def test_a_library_is_unloaded_outside_the_main_thread_which_signals_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = loaded("seven")
    loaded("seven")  # unloads those of other tests
    threads: list[threading.Thread] = []
    dispose = vars(llvm.ResourceTracker)["_dispose"]

    def recorded(tracker: llvm.ResourceTracker) -> None:
        threads.append(threading.current_thread())
        dispose(tracker)

    monkeypatch.setattr(llvm.ResourceTracker, "_dispose", recorded)
    del code
    assert not threads
    loaded("twice")
    assert len(threads) == 2
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("code", [b"", b"not an object", b"\x7fELF" + bytes(100)])
def test_broken_code_is_refused(code: bytes) -> None:
    with pytest.raises(BackendError) as caught:
        load_code((code,), ("seven",), FEATURES)
    assert [d.code for d in caught.value.diagnostics] == ["TIL806"]


def test_a_missing_symbol_is_refused() -> None:
    with pytest.raises(BackendError):
        loaded("eight")


@pytest.mark.sampled(0)
@pytest.mark.skipif(sys.platform != "linux", reason="the layout of the address space is made for Linux")
def test_code_and_constants_stay_together_wherever_there_is_room() -> None:
    program = Path(far_apart.__file__)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
