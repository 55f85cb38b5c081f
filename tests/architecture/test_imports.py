"""What ``import tileir`` does, and does not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEAVY: Final = (
    "tileir.core.targets.target_file",
    "networkx",
    "cattrs",
    "orjson",
    "llvmlite",
    "click",
    "rich",
    "ml_dtypes",
    "islpy",
    "mpmath",
    "PIL",
    "tileir_cuda",
    "cuda",
    "tileir_llvm",
    "tileir_opencl",
    "pyopencl",
)


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=60)
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    script = f"import sys, tileir; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run(script) == "[]"


def test_import_starts_no_thread_and_makes_no_context() -> None:
    script = (
        "import threading, tileir, gc; from tileir import Context;"
        "print(threading.active_count(), [o for o in gc.get_objects() if isinstance(o, Context)])"
    )
    assert run(script) == "1 []"


def test_import_makes_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIR_CACHE_DIR", str(tmp_path / "cache"))
    run("import tileir; tileir.default_context()")
    assert list(tmp_path.iterdir()) == []


def test_import_opens_nothing_for_writing() -> None:
    script = (
        "import sys; sys.dont_write_bytecode = True; opened = [];"
        "sys.addaudithook(lambda event, args: opened.append(args[0])"
        " if event == 'open' and set(str(args[1])) & set('wax+') else None);"
        "import tileir; print(opened)"
    )
    assert run(script) == "[]"
