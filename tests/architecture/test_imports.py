"""Side effects of ``import tileir``."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

HEAVY: Final = (
    "tileir.core.targets.target_file",
    "tileir.core.text.lexing",
    "tileir.tile.text.parser",
    "logging",
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
    "tileir_emit",
    "cuda",
    "tileir_llvm",
    "tileir_opencl",
    "pyopencl",
)

STAGES: Final = (
    "tileir.driver.compiler",
    "tileir.passes",
    "tileir.schedule",
    "tileir.semtree.check",
    "tileir.semtree.interpret",
    "tileir.semtree.legalise",
    "tileir.semtree.lower",
    "tileir.semtree.simplify",
    "tileir.stripe.check",
    "tileir.stripe.interpret",
    "tileir.stripe.lower.lowering",
    "tileir.typed.inference.inference",
    "tileir.typed.interpreter",
    "tileir.typed.simplify",
)
"""Only who compiles pays for these, and for the back ends among those above."""

COMPILES: Final = tuple(name for name in STAGES if "interpret" not in name)
"""Those that compiling needs: a name of a module that is gone would let anything through."""


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=60)
    return done.stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    script = f"import sys, tileir; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert run(script) == "[]"


def test_import_loads_no_stage_of_the_compiler() -> None:
    script = f"import sys, tileir; print([name for name in {STAGES!r} if name in sys.modules])"
    assert run(script) == "[]"


def test_import_looks_for_no_garbage_of_its_own() -> None:
    script = (
        "import gc, numpy; gc.collect(); ages = []\n"
        "gc.callbacks.append(lambda phase, facts: phase == 'start' and ages.append(facts['generation']))\n"
        "import tileir; print(len(ages) <= 2, gc.isenabled())"  # one is for what others left behind
    )
    assert run(script) == "True True"


def test_compiling_loads_the_stages() -> None:
    script = (
        "import os; os.environ['TILEIR_CACHE'] = '0'\n"  # kernels from disk are there without some of the stages
        "import sys, tileir; compiled = tileir.compile('function (A[N]) -> (B) { B = A + 1; }', ['f32[4]']);"
        f"compiled.scheduled; print([name for name in {COMPILES!r} if name not in sys.modules])"
    )
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
