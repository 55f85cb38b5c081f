"""Devices that code is made for without a card; and what is told where cards, the driver or packages are missing."""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

import tileir
from tileir.core.errors import ArgumentError, BackendError, TileError
from tileir.runtime.caches.disk_cache import DiskCache
from tileir.runtime.context import Context
from tileir.semtree.text.printer import to_text
from tileir_cli.main import commands
from tileir_cuda import BACKEND
from tileir_cuda.devices import described, known
from tileir_cuda.library import CudaLibrary

if TYPE_CHECKING:
    from pathlib import Path

TWICE = "function (A[N]) -> (B) { B = A * 2; }"


def test_an_architecture_is_a_device_that_is_not_listed() -> None:
    context = Context(disk_cache=None)
    device = context.device("cuda.sm_90a")
    assert device.name == "H200 (sm_90a), to compile for only"
    assert device.id not in [each.id for each in context.devices()]
    with pytest.raises(BackendError, match=r"TIL80[12]"):
        context.device("cuda.sm_12345")
    assert described("sm_90a") is None
    assert described("cuda.0") is None


def test_programs_are_compiled_and_looked_at_and_refuse_to_run() -> None:
    executable = tileir.compile(TWICE, ["f32[100]"], device="cuda.sm_90a")
    assert executable.listings == ("ptx", "llvm")
    assert ".target sm_90a" in executable.listing()
    assert "define ptx_kernel void @k0_" in executable.listing("llvm")
    with pytest.raises(BackendError, match=r"TIL801.*for listings only"):
        executable(np.ones(100, np.float32))
    with pytest.raises(BackendError, match="TIL806"):
        executable.listing("asm")


SEVERAL = """function (A[N], B[N], D[M], E[M], P[I, K], Q[K, J]) -> (C, F, R) {
    C = mod(A, B);
    F = mod(D, E);
    R[i, j : I, J] = +(P[i, k] * Q[k, j]);
}"""


def test_modules_of_several_kernels_are_one_listing() -> None:
    """Each module has a function for remainders; the one with products of bytes needs a later version than others."""
    types = ["f32[70]", "f32[70]", "f32[30]", "f32[30]", "f8e4m3fn[64, 64]", "f8e4m3fn[64, 64]"]
    texts = []
    for threads in (1, 3):
        context = Context(options=tileir.Options(threads=threads), disk_cache=None)
        texts.append(tileir.compile(SEVERAL, types, device="cuda.sm_89", context=context).listing("ptx"))
    assert texts[0] == texts[1]
    versions = [line for line in texts[0].splitlines() if line.startswith((".version", ".target", ".address_size"))]
    assert versions == [".version 8.4", ".target sm_89", ".address_size 64"]
    assert texts[0].count(".visible .entry") == 3
    assert re.findall(r"^\.func .*\) (\S+)\($", texts[0], re.MULTILINE) == ["remainder0_$_f32", "remainder1_$_f32"]


def test_a_program_without_kernels_has_a_listing() -> None:
    text = tileir.compile("function (A[N]) -> (B) { B = A; }", ["f32[0]"], device="cuda.sm_89").listing("ptx")
    assert ".target sm_89" in text
    assert ".entry" not in text


def test_the_command_prints_code_without_a_card(tmp_path: Path) -> None:
    file = tmp_path / "twice.tile"
    file.write_text(TWICE)
    for arguments in (["--target", "nvptx:sm_90a"], ["--stage", "code", "--device", "cuda.sm_90a"]):
        done = CliRunner().invoke(commands, ["print", str(file), "A=f32[100]", *arguments])
        assert done.exit_code == 0, done.output
        assert ".target sm_90a" in done.output
    done = CliRunner().invoke(commands, ["print", str(file), "A=f32[100]", "--target", "nvptx:sm_1"])
    assert done.exit_code != 0


@pytest.mark.parametrize(
    ("command", "words", "shown"),
    [
        ("print", ["--stage", "scheduled"], "#thread"),
        ("print", ["--after", "fusion"], ": fusion"),
        ("print", ["--stage", "sem"], "kernel "),
        ("emit", [], ".target sm_90a"),
        ("graph", ["--stage", "scheduled"], "digraph"),
        ("explain", [], "kernel_0"),
        ("check", [], ""),
    ],
)
def test_all_commands_know_cards_as_targets(command: str, words: list[str], shown: str, tmp_path: Path) -> None:
    file = tmp_path / "twice.tile"
    file.write_text(TWICE)
    arguments = [command, str(file), "A=f32[100]", "--target", "nvptx:sm_90a", *words]
    done = CliRunner().invoke(commands, arguments)
    assert done.exit_code == 0, done.output
    assert shown in done.output
    with pytest.raises(TileError, match=r"leave --device cuda\.sm_80 out"):
        CliRunner().invoke(commands, [*arguments, "--device", "cuda.sm_80"], catch_exceptions=False)


def test_code_comes_from_the_disk_again(tmp_path: Path) -> None:
    texts = []
    for _ in range(2):
        context = Context(disk_cache=DiskCache(tmp_path))
        texts.append(tileir.compile(TWICE, ["f32[100]"], device="cuda.sm_80", context=context).listing("ptx"))
        context.close()
    assert texts[0] == texts[1]


def test_saved_code_is_checked() -> None:
    device = Context(disk_cache=None).device("cuda.sm_90a")
    compiler = BACKEND.compiler(device, tileir.Options())
    kernels = tileir.compile(TWICE, ["f32[100]"], device="cuda.sm_90a").sem.kernels
    library = compiler.build(kernels)
    saved = dict(library.save())
    assert CudaLibrary.load(kernels, saved).listing("ptx") == library.listing("ptx")
    with pytest.raises(BackendError, match="TIL806"):
        compiler.load(kernels, {**saved, "ptx": saved["ptx"][:-9]})
    with pytest.raises(BackendError, match="TIL806"):
        compiler.load(kernels, {})


def test_a_closed_context_and_wrong_sizes_are_told() -> None:
    context = Context(disk_cache=None)
    executor = context.executor(context.device("cuda.sm_90a"))
    with pytest.raises(ArgumentError, match="TIL707"):
        executor.allocate(-1)
    context.close()
    with pytest.raises(BackendError, match="TIL807"):
        executor.prepare(None, 0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.delitem(sys.modules, "tileir_cuda.run.driver", raising=False)
    known.cache_clear()
    with pytest.raises(BackendError, match=r"TIL802.*install tileir\[cuda\]"):
        BACKEND.devices()
    known.cache_clear()


def test_a_missing_driver_is_named() -> None:
    """A machine without a driver, as most that run tests."""
    pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed", exc_type=ImportError)
    context = Context(disk_cache=None)
    listed = [device.id for device in context.devices() if device.backend == "cuda"]
    if not listed:
        assert re.match(r"error\[TIL80[12]\].*NVIDIA", str(context.failures()["cuda"]))


def test_threads_of_bordered_convolutions_have_rows_along_the_batch_and_weights_without_tests() -> None:
    text = """function (A[N, Y, X, C], B[F, P, Q, C]) -> (R) {
        R[n, y, x, f : N, Y, X, F] = +(A[n, y + p - 1, x + q - 1, c] * B[f, p, q, c]);
    }"""
    types = ["f32[32,28,28,128]", "f32[128,3,3,128]"]
    (kernel,) = tileir.compile(text, types, device="cuda.sm_90a").sem.kernels
    shown = to_text(kernel)
    assert math.prod(kernel.group) >= 64
    assert "private f32 R_acc[64]" in shown
    assert re.search(r"async A_stage\[.*\] = A\[min\(", shown)
    assert not re.search(r"async B_stage\[.*\] = B\[min\(", shown)
