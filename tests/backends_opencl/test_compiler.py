"""Building through the driver: programs, binaries, logs, listings."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pyopencl as cl
import pytest

from strategies.opencl_device import ADD_ONE, BROKEN, NUMBERS, SIZE, by_hand, compiler, device
from tileir.core.dtype import DType
from tileir.core.errors import BackendError, VerifyError
from tileir.core.ops import Op
from tileir.semtree.ir import (
    Apply,
    Assign,
    Const,
    GridIndex,
    GridLevel,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
)
from tileir_opencl.run import kernels
from tileir_opencl.run.compiler import KERNELS
from tileir_opencl.run.kernels import built, handle_of, named_lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tileir_opencl.run.executor import OpenCLExecutor
    from tileir_opencl.run.kernels import NativeProgram
    from tileir_opencl.run.library import OpenCLLibrary

F32 = Type(DType.F32)
PLACE = GridIndex(GridLevel.GROUP, 0, Type(DType.I64))


def scaling(factor: float) -> KernelFunction:
    value = Apply(Op.MUL, (Subscript("a", PLACE, F32), Const(float(factor), F32)))
    params = (Param("a", DType.F32, SIZE, ParamAccess.READ), Param("b", DType.F32, SIZE, ParamAccess.WRITE))
    return KernelFunction("scale", params, (Assign(Subscript("b", PLACE, F32), value),), grid=(SIZE,))


def results(executor: OpenCLExecutor, library: OpenCLLibrary) -> list[np.ndarray]:
    """Return what each kernel of a library makes of :data:`NUMBERS`."""
    source, destination = executor.allocate(NUMBERS.nbytes), executor.allocate(NUMBERS.nbytes)
    executor.copy(NUMBERS, source).wait()
    found = []
    for index in range(len(library.kernels)):
        executor.prepare(library, index).launch([source, destination])
        found.append(np.empty_like(NUMBERS))
        executor.copy(destination, found[-1]).wait()
    return found


def test_many_kernels_run_from_several_programs(executor: OpenCLExecutor) -> None:
    count = KERNELS + 2
    library = compiler().build([scaling(factor) for factor in range(count)])
    assert [len(part.kernels) for part in library.parts] == [KERNELS, 2]
    for factor, result in enumerate(results(executor, library)):
        np.testing.assert_array_equal(result, NUMBERS * factor)
    with pytest.raises(IndexError):
        library.entry(count)


def test_a_saved_library_runs_from_its_binaries(executor: OpenCLExecutor) -> None:
    kernels = [scaling(2.0), scaling(3.0)]
    saved = compiler().build(kernels).save()
    assert sorted(saved) == ["0.bin", "0.cl"]
    assert saved["0.bin"]
    loaded = compiler().load(kernels, {**saved, "0.cl": b"this is not built"})
    np.testing.assert_array_equal(results(executor, loaded), [NUMBERS * 2, NUMBERS * 3])


def test_a_build_that_a_signal_spoils_is_repeated(executor: OpenCLExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    build, spoilt = kernels._build, [cl.RuntimeError("a file is gone")]

    def built_but_once(program: NativeProgram, options: Sequence[str]) -> None:
        if spoilt:
            raise spoilt.pop()
        build(program, options)

    monkeypatch.setattr(kernels, "_build", built_but_once)
    program = built(executor.commands.context, "kernel void k(global int *a) { a[0] = 1; }", [])
    assert not spoilt
    assert handle_of(program, "k").function_name == "k"


@pytest.mark.parametrize("binary", [b"", b"of another driver"])
def test_binaries_that_the_driver_refuses_are_built_again(executor: OpenCLExecutor, binary: bytes) -> None:
    kernels = [scaling(2.0)]
    saved = compiler().build(kernels).save()
    loaded = compiler().load(kernels, {**saved, "0.bin": binary})
    np.testing.assert_array_equal(results(executor, loaded), [NUMBERS * 2])


@pytest.mark.parametrize("parts", [{}, {"0.cl": b"x"}, {"0.cl": b"\xff", "0.bin": b""}])
def test_parts_that_are_no_library(parts: dict[str, bytes]) -> None:
    with pytest.raises(BackendError, match="compile again") as caught:
        compiler().load([scaling(1.0)], parts)
    assert [d.code for d in caught.value.diagnostics] == ["TIL806"]


@pytest.mark.sampled(0)
def test_what_the_driver_says_about_wrong_code_reaches_whoever_needs_it(executor: OpenCLExecutor) -> None:
    library = by_hand(BROKEN)
    for use in (lambda: executor.prepare(library, 0), library.wait, library.save):
        with pytest.raises(BackendError, match="refused the code") as caught:
            use()
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "TIL805"
        assert "undeclared" in diagnostic.notes[0]
        assert diagnostic.notes[1:] == (f"line 3: {BROKEN}",)
    assert BROKEN in library.listing("opencl")


def test_lines_are_found_in_the_words_of_several_drivers() -> None:
    source = "one\ntwo\nthree\n"
    assert named_lines(source, "<kernel>:2:5: error: bad\n1:3:4: error: worse\nx.cl:2:9: note: y") == [
        "line 2: two",
        "line 3: three",
    ]
    assert named_lines(source, "<kernel>:9:1: error: beyond; no line at all") == []


def test_illegal_kernels_are_refused() -> None:
    with pytest.raises(VerifyError):
        compiler().build([KernelFunction("wrong", (), (Assign(Subscript("x", PLACE, F32), Const(0.0, F32)),))])


def test_building_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("tileir_opencl.run.compiler.built", lambda *args: gate.wait(60) and built(*args))
    library = compiler().build([scaling(5.0)])
    assert library.listing("opencl")
    gate.set()
    library.wait()


@pytest.mark.sampled(0)
def test_programs_run_where_pyopencl_cannot_keep_anything(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    variables = {"XDG_CACHE_HOME": str(tmp_path / "file" / "cache"), "TILEIR_CACHE": "off"}
    text = f"import tileir; print(tileir.jit('function (A) -> (B) {{ B = A * 3; }}', {device().id!r})(2))"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **variables, "POCL_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr


def test_a_kernel_that_a_program_lacks(executor: OpenCLExecutor) -> None:
    program, _ = by_hand(ADD_ONE).entry(0)
    with pytest.raises(BackendError, match="no kernel nothing; compile again") as caught:
        handle_of(program, "nothing")
    assert [d.code for d in caught.value.diagnostics] == ["TIL806"]


def test_listings(executor: OpenCLExecutor) -> None:
    library = compiler().build([scaling(2.0)])
    assert "__kernel" in library.listing("opencl")
    for form, words in (("asm", "not 'asm'"), ("ptx", "no PTX")):
        if form == "ptx" and "NVIDIA" in device().name:
            continue
        with pytest.raises(BackendError, match=words) as caught:
            library.listing(form)
        assert [d.code for d in caught.value.diagnostics] == ["TIL806"]


def test_identity_tells_what_binaries_depend_on() -> None:
    precise, fast = compiler(), compiler(fast_math=True)
    assert precise.identity != fast.identity
    assert "pyopencl-" in precise.identity
    assert "-cl-std=CL1.2" in precise.identity
    assert "-cl-mad-enable" in fast.build_options
    assert "-cl-mad-enable" not in precise.build_options


def test_groups_that_are_too_large_for_the_device(executor: OpenCLExecutor) -> None:
    most = device().target.group_threads
    kernel = scaling(1.0)
    oversized = KernelFunction("oversized", kernel.params, kernel.body, grid=(SIZE,), group=(2 * most,))
    with pytest.raises(BackendError) as caught:
        executor.prepare(compiler().build([oversized]), 0)
    assert {d.code for d in caught.value.diagnostics} <= {"TIL804", "TIL805"}


@pytest.mark.sampled(0)
def test_many_threads_compile() -> None:
    libraries: list[OpenCLLibrary] = []

    def build(number: int) -> None:
        library = compiler().build([scaling(number)])
        library.wait()
        libraries.append(library)

    threads = [threading.Thread(target=build, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(libraries) == 16
