from __future__ import annotations

import copy
import logging
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

import tileir
from strategies.opencl_device import device as opencl_device
from tileir import Context, Options
from tileir.core.errors import BackendError, Diagnostic
from tileir.driver import compilation
from tileir.driver.compiler import passes_of
from tileir.passes.schedules.vectors.thread import Thread
from tileir.runtime.caches.disk_cache import DiskCache
from tileir.runtime.interface import DeviceInfo
from tileir.stripe.ir import Program

TEXT = """function (A[M, K], B[K, N]) -> (C, S) {
    T[i, j : M, N] = +(A[i, k] * B[k, j]);
    C = tanh(T) + 0.5;
    S[i : M] = >(C[i, j]);
}"""
TYPES = {"A": (7, 5), "B": (5, 9)}


@attrs.frozen
class Label:
    """A pass of a stranger."""

    name: ClassVar[str] = "label"

    def __call__(self, program: Program) -> Program:
        return program


@pytest.fixture(autouse=True)
def _sources_that_nobody_edits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "source_digest", lambda package: f"the sources of {package}")


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "tileir.cache")
    return caplog


def _compile(disk: DiskCache | None, text: str = TEXT, **options: Any) -> tileir.Executable:
    return tileir.compile(text, TYPES, context=Context(disk_cache=disk), **options)


def _events(log: pytest.LogCaptureFixture) -> list[str]:
    """Return what happened since the last call, such as ``hit program``, but for notes, which all processes share."""
    told = (message for message in log.messages if ": note-" not in message)
    events = [" ".join(message.split("-")[0].split(": ")) for message in told]
    log.clear()
    return events


def _forbid(*_: object, **__: object) -> None:
    raise AssertionError("this was to come from the cache")


MISSED = ["miss program", "stored program", "miss library", "stored library"]
FOUND = ["hit program", "hit library"]


def test_the_second_context_compiles_nothing(
    disk: DiskCache, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _compile(disk)
    assert _events(log) == MISSED
    a, b = np.random.default_rng(1).random((7, 5), np.float32), np.random.default_rng(2).random((5, 9), np.float32)
    with monkeypatch.context() as patched:
        patched.setattr("tileir.driver.compiler.compile_stages", _forbid)
        patched.setattr("tileir_llvm.compiler.LLVMCompiler.build", _forbid)
        second = _compile(disk)
        assert _events(log) == FOUND
        assert second.sem == first.sem
        assert (second.inputs, second.outputs) == (("A", "B"), ("C", "S"))
        assert second.listing() == first.listing()
        for one, other in zip(first(a, b), second(a, b), strict=True):
            np.testing.assert_array_equal(one, other)
    for stage in ("tile", "typed", "stripe", "scheduled"):
        assert getattr(second, stage) == getattr(first, stage)


def test_calls_of_what_comes_from_the_cache_decode_no_body_of_a_kernel(
    disk: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _compile(disk)
    a, b = np.random.default_rng(1).random((7, 5), np.float32), np.random.default_rng(2).random((5, 9), np.float32)
    with monkeypatch.context() as patched:
        patched.setattr("tileir.semtree.node.from_json", _forbid)
        second = _compile(disk)
        for one, other in zip(second(a, b), first(a, b), strict=True):
            np.testing.assert_array_equal(one, other)
    kernels = pickle.loads(pickle.dumps(second.sem.kernels))
    assert kernels == copy.deepcopy(second.sem.kernels) == second.sem.kernels == first.sem.kernels
    assert [hash(kernel) for kernel in second.sem.kernels] == [hash(kernel) for kernel in first.sem.kernels]
    with pytest.raises(AttributeError, match="no attribute 'bodies'"):
        _ = second.sem.kernels[0].bodies  # type: ignore[attr-defined]


def test_remarks_are_the_same_for_what_comes_from_the_cache(disk: DiskCache) -> None:
    first, second = _compile(disk), _compile(disk)
    assert second.remarks == first.remarks == _compile(None).remarks
    assert {remark.step for remark in first.remarks if remark.fired} >= {"register_tile"}
    assert second.remarks is second.remarks


def test_remarks_tell_of_passes_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object, __: Program) -> Program:
        raise RuntimeError("no")

    monkeypatch.setattr(Thread, "__call__", fail)
    with pytest.warns(tileir.SkippedPassWarning):
        compiled = _compile(None)
    (failed,) = [remark for remark in compiled.remarks if remark.code == "TR004"]
    assert failed.step == "thread"
    assert "RuntimeError: no" in str(dict(failed.facts)["problem"])


def test_numbers_are_converted_alike_by_what_comes_from_the_cache(
    disk: DiskCache, log: pytest.LogCaptureFixture
) -> None:
    text, array = "function (A[N], S) -> (B) { B = A * S; }", np.ones(4, np.float64)
    for events in (MISSED, FOUND):
        scale = tileir.jit(text, context=Context(disk_cache=disk))
        assert scale(array, 0.1).tolist() == [0.1] * 4
        assert _events(log) == events


def test_jit_uses_it_behind_the_one_in_memory(disk: DiskCache, log: pytest.LogCaptureFixture) -> None:
    a, b = np.ones((7, 5), np.float32), np.ones((5, 9), np.float32)
    for events in (MISSED, FOUND):
        function = tileir.jit(TEXT, context=Context(disk_cache=disk))
        function(a, b)
        function(a, b)
        assert _events(log) == events


def test_without_a_cache_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIR_CACHE_DIR", str(tmp_path / "cache"))
    _compile(None)
    monkeypatch.setenv("TILEIR_CACHE", "0")
    tileir.compile(TEXT, TYPES, context=Context())
    assert list(tmp_path.iterdir()) == []


def test_what_is_compiled_quickly_has_passes_of_its_own_and_is_not_stored(
    disk: DiskCache, log: pytest.LogCaptureFixture
) -> None:
    executable = _compile(disk, options=Options(quick=True))
    assert _events(log) == []
    assert executable.scheduled == _compile(None, passes="quick").scheduled != _compile(None).scheduled
    quick = Options(quick=True)
    asked = _compile(disk, options=quick, passes="plain"), _compile(disk, options=quick, target="gpu")
    wanted = _compile(None, passes="plain"), _compile(None, target="gpu")
    assert [each.scheduled for each in asked] == [each.scheduled for each in wanted], "who names passes gets them"
    assert executable.listing("asm") != _compile(None, passes="quick").listing("asm"), "LLVM did less"


@pytest.mark.sampled(0)
def test_what_decides_kernels_or_code_is_part_of_the_key(disk: DiskCache, log: pytest.LogCaptureFixture) -> None:
    _compile(disk)
    _events(log)
    _compile(disk, TEXT.replace("0.5", "0.25"))
    assert _events(log) == MISSED
    _compile(disk, passes="plain")
    assert _events(log) == MISSED
    _compile(disk, options=Options(fast_math=True))  # which lets passes use instructions that round
    assert _events(log) == MISSED
    tileir.compile(TEXT, {"A": (7, 6), "B": (6, 9)}, context=Context(disk_cache=disk))
    assert _events(log) == MISSED
    tileir.compile(TEXT, {"A": ("f64", (7, 5)), "B": ("f64", (5, 9))}, context=Context(disk_cache=disk))
    assert _events(log) == MISSED
    _compile(disk, TEXT.replace("    ", "\t"), passes=Context().device().target.pipeline)
    assert _events(log) == FOUND, "white space and the spelling of the pipeline change nothing"


def test_libraries_tell_processors_of_one_name_apart(disk: DiskCache) -> None:
    class Forgetful:
        identity = "the same for all devices"

    executable = _compile(disk)
    other = attrs.evolve(executable.device, features=("avx-what",))
    keys = {
        compilation._library_key(executable._compilation, Forgetful(), device)  # type: ignore[arg-type]
        for device in (executable.device, other)
    }
    assert len(keys - {None}) == 2


def test_functions_with_equal_kernels_share_a_library(disk: DiskCache, log: pytest.LogCaptureFixture) -> None:
    tileir.compile("function (A) -> (B) { B = A + 1.0; }", [(8,)], context=Context(disk_cache=disk))
    _events(log)
    tileir.compile("function (A) -> (B) { T = A * 2.0; B = A + 1.0; }", [(8,)], context=Context(disk_cache=disk))
    assert _events(log) == ["miss program", "stored program", "hit library"]


def test_other_sources_find_nothing(
    disk: DiskCache, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compile(disk)
    _events(log)
    monkeypatch.setattr(compilation, "source_digest", lambda package: f"new {package}")
    _compile(disk)
    assert _events(log) == MISSED
    monkeypatch.setattr(compilation, "source_digest", lambda _: None)
    _compile(disk)
    assert _events(log) == []


def test_passes_of_strangers_are_not_stored(disk: DiskCache, log: pytest.LogCaptureFixture) -> None:
    passes = (Label(), *passes_of("plain", tileir.Target()))
    for events in (["miss library", "stored library"], ["hit library"]):
        assert _compile(disk, passes=passes).outputs == ("C", "S")
        assert _events(log) == events


def test_a_library_that_cannot_be_loaded_is_built_again(
    disk: DiskCache, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BackendError((Diagnostic("TIL806", "made for another processor"),))

    _compile(disk)
    _events(log)
    with monkeypatch.context() as patched:
        patched.setattr("tileir_llvm.compiler.LLVMCompiler.load", refuse)
        _compile(disk)
    assert "made for another processor" in log.text
    assert _events(log)[:2] == FOUND
    _compile(disk)
    assert _events(log) == FOUND


def test_code_that_cannot_be_linked_is_built_again(disk: DiskCache, log: pytest.LogCaptureFixture) -> None:
    _compile(disk)
    (entry,) = (entry for entry in disk.entries() if entry.kind == "library")
    parts = disk.get("library", entry.key)
    assert parts is not None
    disk.put("library", entry.key, {**parts, "object": parts["object"][:100]}, {})
    _events(log)
    executable = _compile(disk)
    assert "cannot be loaded" in log.text
    c, _ = executable(np.ones((7, 5), np.float32), np.ones((5, 9), np.float32))
    np.testing.assert_allclose(c, np.tanh(5) + 0.5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", ["frame", "kernels"])
@pytest.mark.parametrize("content", [None, b"[1]", b"not JSON"])
def test_a_program_that_cannot_be_decoded_is_compiled_again(
    disk: DiskCache, log: pytest.LogCaptureFixture, part: str, content: bytes | None
) -> None:
    _compile(disk)
    (entry,) = (entry for entry in disk.entries() if entry.kind == "program")
    parts = dict(disk.get("program", entry.key) or {})
    parts.pop(part)
    disk.put("program", entry.key, parts if content is None else {**parts, part: content}, {})
    _events(log)
    assert _compile(disk).sem.kernels
    assert "cannot be decoded" in log.text
    assert _events(log)[-2:] == ["stored program", "hit library"]


def test_a_library_that_cannot_be_saved_still_runs(
    disk: DiskCache, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Mapping[str, bytes]:
        raise ValueError("a fault of somebody else")

    monkeypatch.setattr("tileir_llvm.run.library.LLVMLibrary.save", fail)
    assert _compile(disk).outputs == ("C", "S")
    assert "a fault of somebody else" in log.text
    assert [entry.kind for entry in disk.entries()] == ["program"]


def test_entries_say_what_they_hold(disk: DiskCache) -> None:
    _compile(disk, passes="plain")
    about = {entry.kind: entry.about for entry in disk.entries()}
    names = [kernel.name for kernel in _compile(None, passes="plain").sem.kernels]
    shown = f"{', '.join(names[:3])} and {len(names) - 3} more"
    assert about["library"]["kernels"] == about["program"]["kernels"] == shown
    assert about["library"]["device"].startswith("llvm: ")


def _run(script: str, arguments: Sequence[object]) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.sampled(0)
def test_processes_share_programs(tmp_path: Path) -> None:
    script = (
        "import logging, sys, tileir\n"
        "from pathlib import Path\n"
        "from tileir.driver import compilation\n"
        "from tileir.runtime.caches.disk_cache import DiskCache\n"
        "compilation.source_digest = lambda package: package\n"
        "logging.basicConfig(level=logging.INFO, stream=sys.stdout, format='%(message)s')\n"
        "context = tileir.Context(disk_cache=DiskCache(Path(sys.argv[1])))\n"
        "add = tileir.compile('function (A, B) -> (C) { C = A + B; }', {'A': (3,), 'B': (3,)}, context=context)\n"
        "import numpy; print(*add(numpy.ones(3, 'f4'), numpy.ones(3, 'f4')))\n"
    )
    told = [_run(script, [tmp_path / "cache"]).splitlines() for _ in range(2)]
    outputs = [[line for line in lines if ": note" not in line] for lines in told]  # what all processes share
    assert [line.split("-")[0] for line in outputs[0]] == [
        "miss: program",
        "stored: program",
        "miss: library",
        "stored: library",
        "2.0 2.0 2.0",
    ]
    assert [line.split("-")[0] for line in outputs[1]] == ["hit: program", "hit: library", "2.0 2.0 2.0"]


# Results of works that depend on constants alone


def _with_weights(rows: int = 64, seed: int = 0) -> tuple[tileir.Function, np.ndarray[Any, Any]]:
    """Return a product of an input with factors made of weights, and these factors in f64."""
    weights = np.random.default_rng(seed).standard_normal((96, 300), np.float32)
    f = tileir.FunctionBuilder()
    function = f.build(Y=tileir.ops.matmul(f.input("X", rows, 96), f.constant(weights) * 3.0 - 1.0))
    return function, 3 * weights.astype(np.float64) - 1


def _check_weights(
    disk: DiskCache, device: str | DeviceInfo = "llvm", rows: int = 64, seed: int = 0
) -> tileir.Executable:
    function, exact = _with_weights(rows, seed)
    x = np.random.default_rng(rows).standard_normal((rows, 96), np.float32)
    executable = tileir.compile(function, [x], device=device, context=Context(disk_cache=disk))
    for _ in range(2):
        np.testing.assert_allclose(executable(x), x @ exact, rtol=1e-3, atol=1e-3)
    return executable


def _results(disk: DiskCache) -> set[str]:
    return {entry.key for entry in disk.entries() if entry.kind == "results"}


@pytest.mark.parametrize("device", ["llvm", "opencl"])
def test_results_of_constants_are_kept_for_other_contexts(
    disk: DiskCache, log: pytest.LogCaptureFixture, device: str
) -> None:
    chosen = opencl_device() if device == "opencl" else device
    _check_weights(disk, chosen)
    (key,) = _results(disk)
    (about,) = [entry.about for entry in disk.entries() if entry.key == key]
    assert about["kernels"]
    assert about["device"].startswith(device)
    log.clear()
    _check_weights(disk, chosen)
    assert f"hit: results-{key}" in log.text
    assert "stored" not in log.text
    _check_weights(disk, chosen, seed=1)
    assert len(_results(disk)) == 2


def test_programs_share_results_of_equal_works(disk: DiskCache) -> None:
    _check_weights(disk)
    executable = _check_weights(disk, rows=128)
    assert len(executable.sem.works) > 1
    assert len(_results(disk)) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("content", [b"", b"\0" * 300 * 96 * 4, b"\0" * 64])
def test_damaged_results_are_computed_again(disk: DiskCache, content: bytes) -> None:
    _check_weights(disk)
    (key,) = _results(disk)
    path = disk.directory / f"results-{key}"
    path.write_bytes(content)
    _check_weights(disk)
    assert path.stat().st_size > 300 * 96 * 4


def test_results_of_another_size_are_computed_again(disk: DiskCache, log: pytest.LogCaptureFixture) -> None:
    _check_weights(disk)
    (key,) = _results(disk)
    disk.put_mapped("results", key, [bytes(64)], {})
    _check_weights(disk)
    assert "64 bytes of results" in log.text


def test_few_results_are_not_kept(disk: DiskCache) -> None:
    f = tileir.FunctionBuilder()
    weights = f.constant(np.ones((64, 64), np.float32))
    function = f.build(Y=tileir.ops.matmul(f.input("X", 8, 64), tileir.ops.softmax(weights, 0)))
    executable = tileir.compile(function, [(8, 64)], context=Context(disk_cache=disk))
    assert len(executable.sem.works) > 1
    np.testing.assert_allclose(executable(np.ones((8, 64), np.float32)), np.ones((8, 64)), rtol=1e-5)
    assert _results(disk) == set()
