"""The processor that the environment names, and that the host can stand in for."""

from __future__ import annotations

import platform
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tileir.core.errors import BackendError
from tileir.runtime.interface import Options
from tileir_llvm.compiler import LLVMCompiler
from tileir_llvm.device import host, processor as module
from tileir_llvm.device.processor import PROCESSORS, VARIABLE, Processor, host_processor, processor
from tileir_llvm.emit.dots import native_dots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.runtime.interface import DeviceInfo

WIDE = Processor("znver4", tuple(sorted(PROCESSORS["znver4"])))
CODE = """
import numpy as np, tileir
with tileir.Context(device_id="llvm", disk_cache=None) as context:
    run = tileir.jit("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }", context=context)
    one = np.arange(12 * 20).reshape(12, 20) % 7.0
    two = np.arange(20 * 33).reshape(20, 33) % 5.0
    np.testing.assert_array_equal(run(one, two), one @ two)
    halve = tileir.jit("function (A) -> (B) { B = as_float(A * 0.5, 16); }", context=context)
    np.testing.assert_array_equal(halve(one), (one * 0.5).astype(np.float16))
    print(context.device().target.name, context.device().target.vector_bytes)
"""


@pytest.fixture(autouse=True)
def wide_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(module, "host_processor", lambda: WIDE)
    monkeypatch.setattr(host, "host_processor", lambda: WIDE)
    processor.cache_clear()
    host.device.cache_clear()
    yield
    processor.cache_clear()
    host.device.cache_clear()


def device(monkeypatch: pytest.MonkeyPatch, name: str) -> DeviceInfo:
    """Return the device with the processor of that name."""
    monkeypatch.setenv(VARIABLE, name)
    processor.cache_clear()
    host.device.cache_clear()
    return host.device()


def test_without_a_name_it_is_the_hosts() -> None:
    assert processor() == WIDE
    assert host.device().features == WIDE.features


@pytest.mark.parametrize(
    ("name", "width", "registers"),
    [("x86-64-v2", 16, 16), ("x86-64-v3", 32, 16), ("x86-64-v4", 64, 32), ("znver4", 64, 32)],
)
def test_passes_see_what_code_may_use(monkeypatch: pytest.MonkeyPatch, name: str, width: int, registers: int) -> None:
    found = device(monkeypatch, name).target
    assert (found.name, found.vector_bytes) == (f"llvm-{name}", width)
    assert found.vector_registers == registers
    assert set(found.fragments) == native_dots(PROCESSORS[name])
    assert processor().features == tuple(sorted(PROCESSORS[name]))


def test_what_the_host_lacks_is_an_error_that_says_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "emeraldrapids")
    with pytest.raises(
        BackendError, match=r"lacks avx512fp16, avxvnni; choose .*x86-64-v4, znver4, or unset"
    ) as caught:
        processor()
    assert caught.value.diagnostics[0].code == "TIL801"


def test_an_unknown_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "v3")
    with pytest.raises(BackendError, match=r"'v3', which is not among x86-64-v2, .*unset it") as caught:
        processor()
    assert caught.value.diagnostics[0].code == "TIL801"


def test_libraries_of_one_processor_are_not_those_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    compilers = [LLVMCompiler(device(monkeypatch, name), Options()) for name in PROCESSORS if name != "emeraldrapids"]
    assert len({compiler.identity for compiler in compilers}) == len(compilers)


def test_a_lesser_processor_has_less() -> None:
    names = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4"]
    for lesser, greater in pairwise(names):
        assert PROCESSORS[lesser] < PROCESSORS[greater]


POSSIBLE = [name for name, features in PROCESSORS.items() if features <= set(host_processor().features)]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("name", POSSIBLE)
def test_programs_run_on_each_that_this_machine_can_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, name)
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == f"llvm-{name}"


def test_who_compiles_for_a_wrong_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "pentium")
    monkeypatch.delenv("TILEIR_DEVICE", raising=False)
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "TIL801" in done.stderr
    assert "'pentium'" in done.stderr
