"""Libraries, loaded code and launches."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import tileir
from c_devices import compiler, executor
from tileir.core.errors import ArgumentError, BackendError, TileError
from tileir.runtime.interface import BindingKernel, Options
from tileir.semtree.text.parser import parse_kernel
from tileir_c import BACKEND
from tileir_c.compiler import CCompiler
from tileir_c.executor import SPLIT_OPERATIONS, CExecutor, CKernel
from tileir_c.loader import load_code
from tileir_c.toolchain import find_toolchain

DOUBLE = parse_kernel(
    "// O = A + A\n"
    "kernel double(out f32 O[64] noalias, in f32 A[64] noalias) grid(64) {"
    "  O[group_id(0)] = A[group_id(0)] + A[group_id(0)]; }"
)
LARGE = parse_kernel(
    f"kernel large(out i64 O[64] noalias, in i64 A[64] noalias) grid(8, 8) operations({SPLIT_OPERATIONS}) {{"
    "  scratch i64 own[64] align(64);"
    "  i64 me = group_id(0) + group_id(1) * 8;"
    "  for (i64 i = 0; i < 64; i += 1) { own[i] = A[i] * me; }"
    "  i64 sum = 0;"
    "  for (i64 j = 0; j < 64; j += 1) { sum = sum + own[j]; }"
    "  O[me] = sum; }"
)


def code_of(caught: pytest.ExceptionInfo[TileError]) -> str:
    return caught.value.diagnostics[0].code


def test_the_source_is_stable_and_readable() -> None:
    library = compiler().build([DOUBLE])
    assert library.listing("c") == compiler().build([DOUBLE]).source
    expected = """\
// O = A + A
TILE_KERNEL void tile_kernel_0_double_(
    float *restrict O,
    const float *restrict A,
    unsigned char *restrict scratch, int64_t begin, int64_t end) {
  (void)scratch;
  for (int64_t group = begin; group < end; ++group) {
    const int64_t group0 = group;
    O[group0] = A[group0] + A[group0];
  }
}
"""
    assert expected in library.source


@pytest.mark.sampled(0)
def test_the_source_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "import tileir; from tileir_c.aot.lowering import lower; from tileir_c.aot.program import ahead;"
        "p = lower('function (A[N, M], B) -> (O, P) { O[n: N] = +(A[n, m]); P = tanh(A) * sin(B) + A; }',"
        " {'A': tileir.TensorType(tileir.DType.F32, (9, 70)), 'B': tileir.TensorType(tileir.DType.F64, ())}, 32);"
        "print(ahead(p, 'p').source)"
    )
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, check=True, text=True
        )
        texts.add(done.stdout)
    assert len(texts) == 1


def test_comments_cannot_end_where_they_should_not() -> None:
    kernel = parse_kernel("// a \\\n// b ??/\nkernel k(out i32 O[1]) grid(1) { O[0] = i32(7); }")
    library = compiler().build([kernel])
    result = np.zeros(1, np.int32)
    buffer = executor().wrap(result)
    assert buffer is not None
    executor().prepare(library, 0).launch([buffer])
    assert result[0] == 7


def test_other_forms_and_broken_parts_are_refused() -> None:
    library = compiler().build([DOUBLE])
    with pytest.raises(BackendError) as caught:
        library.listing("llvm")
    assert code_of(caught) == "TIL806"
    parts = library.save()
    assert compiler().load([DOUBLE], parts).code == library.code
    for broken in ({}, {**parts, "scratch": b"x"}, {**parts, "object": parts["object"][:-9]}, {**parts, "c": b"\xff"}):
        with pytest.raises(BackendError) as caught:
            compiler().load([DOUBLE], broken)
        assert code_of(caught) == "TIL806"
    with pytest.raises(BackendError):
        compiler().load([DOUBLE, DOUBLE], parts)


def test_code_that_is_none_and_code_without_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BackendError) as caught:
        load_code(b"no shared object", ["k"])
    assert code_of(caught) == "TIL806"
    with pytest.raises(BackendError) as caught:
        load_code(compiler().build([DOUBLE]).code, ["no_such_kernel"])
    assert code_of(caught) == "TIL806"
    assert list(tmp_path.iterdir()) == []


def mapped_files() -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count("tileir-c-")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is loaded")
def test_code_is_given_back() -> None:
    gc.collect()
    before = mapped_files()
    own = CExecutor(1)
    library = compiler().build([DOUBLE])
    kernel = own.prepare(library, 0)
    assert mapped_files() > before
    alive = weakref.ref(library)
    del kernel, library
    gc.collect()
    assert alive() is None
    assert mapped_files() == before


def test_threads_share_the_groups() -> None:
    values = np.arange(64)
    for threads in (1, 2, 3):
        own = CExecutor(threads)
        kernel = own.prepare(compiler().build([LARGE]), 0)
        assert kernel.threads == threads
        target, source = own.allocate(512), own.wrap(values)
        assert source is not None
        kernel.run([target, source]).wait()
        assert target.host().view(np.int64).tolist() == (np.arange(64) * values.sum()).tolist()
        own.close()


def test_one_bound_kernel_in_many_threads() -> None:
    values = np.arange(64)
    kernel = executor().prepare(compiler().build([LARGE]), 0)
    assert isinstance(kernel, BindingKernel)
    source = executor().wrap(values)
    assert source is not None
    targets = [executor().allocate(512) for _ in range(8)]
    threads = [threading.Thread(target=kernel.bind([target, source]).launch) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(target.host().view(np.int64)[3] == 3 * values.sum() for target in targets)


def test_buffers_that_do_not_fit_and_a_closed_executor() -> None:
    own = CExecutor(1)
    kernel = own.prepare(compiler().build([DOUBLE]), 0)
    small = own.allocate(16)
    with pytest.raises(ArgumentError) as caught:
        kernel.launch([small, small])
    assert code_of(caught) == "TIL706"
    own.close()
    with pytest.raises(BackendError) as closed:
        kernel.launch([own.allocate(256), own.allocate(256)])
    assert code_of(closed) == "TIL807"


def test_a_forked_child_launches_too() -> None:
    executor().copy(np.ones(4), np.zeros(4)).wait()
    script = (
        "import os, numpy as np, tileir;"
        "f = tileir.jit('function (A) -> (B) { B = A + A; }', 'c.0');"
        "a = np.ones(4, np.float32); f(a);"
        "child = os.fork();"
        "result = f(a).tolist();"
        "os._exit(0 if result == [2.0] * 4 else 1) if child == 0 else None;"
        "print(os.waitpid(child, 0)[1])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "0"


def test_identities_differ_where_code_does() -> None:
    plain, fast = (CCompiler(find_toolchain(), Options(fast_math=fast)) for fast in (False, True))
    assert plain.identity != fast.identity
    assert find_toolchain().version in plain.identity
    assert "-march" in plain.identity or not find_toolchain().native


def test_fast_math_keeps_infinities_and_nan() -> None:
    source = "function (A[N]) -> (O, M) { O = A * 2.0 + 1.0; M[] = >(A[i]); }"
    values = np.array([1.0, np.inf, -np.inf, np.nan, 0.5], np.float32)
    results = tileir.jit(source, "c.0", options=Options(fast_math=True))(values)
    for ours, theirs in zip(results, tileir.evaluate(source, (values,)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_options_limit_threads() -> None:
    (device,) = BACKEND.devices()
    kernel = BACKEND.executor(device, Options(threads=1)).prepare(compiler().build([LARGE]), 0)
    assert isinstance(kernel, CKernel)
    assert kernel.threads == 1
