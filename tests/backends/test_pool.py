from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from strategies.devices import buffers, compiler
from strategies.processes import in_forked_child
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.core.ops import Op
from tileir.runtime.interface import Options
from tileir.semtree.ir import (
    Apply,
    Assign,
    Cast,
    Const,
    DeclareArray,
    For,
    GridIndex,
    GridLevel,
    KernelFunction,
    Param,
    ParamAccess,
    Region,
    Subscript,
    Type,
    Var,
)
from tileir_llvm.compiler import LARGE_OPERATIONS, SMALL_OPERATIONS
from tileir_llvm.run import team
from tileir_llvm.run.executor import LLVMExecutor
from tileir_llvm.run.sharing import Costs
from tileir_llvm.run.team import PythonTeam

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir_llvm.run.executor import LLVMKernel
    from tileir_llvm.run.sequence import LLVMSequence

INDEX = Type(DType.I64)
I32 = Type(DType.I32)
GROUPS = 257


def counting_kernel(groups: int = GROUPS, scratch: bool = False) -> KernelFunction:
    """Return a kernel whose group ``g`` adds ``g + 1`` to element ``g``, through scratch memory if asked."""
    group = GridIndex(GridLevel.GROUP, 0, INDEX)
    element = Subscript("out", group, I32)
    amount = Apply(Op.ADD, (Cast(group, I32), Const(1, I32)))
    counter = Var("i", INDEX)
    own = Subscript("own", counter, I32)
    fill = For(counter, Const(0, INDEX), Const(2000, INDEX), 1, (Assign(own, amount),))
    read = Subscript("own", Const(1999, INDEX), I32)
    body = (DeclareArray("own", DType.I32, 2000, Region.SCRATCH), fill) if scratch else ()
    store = Assign(element, Apply(Op.ADD, (element, read if scratch else amount)))
    params = (Param("out", DType.I32, groups, ParamAccess.READ_WRITE, 4),)
    return KernelFunction("count", params, (*body, store), (groups,), operations=LARGE_OPERATIONS)


def opened(threads: int) -> LLVMExecutor:
    device = compiler().device
    wide = attrs.evolve(device, target=attrs.evolve(device.target, threads=threads))
    return LLVMExecutor(wide, Options())


@pytest.fixture(params=[2, 3, 8])
def executor(request: pytest.FixtureRequest) -> Iterator[LLVMExecutor]:
    made = opened(request.param)
    yield made
    made.close()


def ready(executor: LLVMExecutor, kernel: KernelFunction) -> LLVMKernel:
    return executor.prepare(compiler().build([kernel]), 0)


def expected(launches: int, groups: int = GROUPS) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return launches * np.arange(1, groups + 1, dtype=np.int32)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("groups", [2, 3, 257])
def test_every_group_runs_once(executor: LLVMExecutor, groups: int, scratch: bool) -> None:
    kernel = ready(executor, counting_kernel(groups, scratch))
    assert kernel.share
    out = np.zeros(groups, np.int32)
    for _ in range(200):
        kernel.launch(buffers([out]))
    np.testing.assert_array_equal(out, expected(200, groups))


def test_launches_after_a_pause_wake_sleeping_workers(executor: LLVMExecutor) -> None:
    kernel = ready(executor, counting_kernel())
    out = np.zeros(GROUPS, np.int32)
    for _ in range(20):
        kernel.launch(buffers([out]))
        time.sleep(0.002)
    np.testing.assert_array_equal(out, expected(20))


def test_several_threads_launch_at_once(executor: LLVMExecutor) -> None:
    kernel = ready(executor, counting_kernel(scratch=True))

    def work(_: int) -> bool:
        out = np.zeros(GROUPS, np.int32)
        for _ in range(100):
            kernel.launch(buffers([out]))
        return np.array_equal(out, expected(100))

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(work, range(8)))


def several(executor: LLVMExecutor) -> LLVMSequence:
    """Return four launches that count: two that are shared, one that is tried both ways, and one that is alone."""
    count, own = counting_kernel(), counting_kernel(scratch=True)
    kernels = (count, attrs.evolve(own, operations=SMALL_OPERATIONS), attrs.evolve(count, operations=1), own)
    library = compiler().build(kernels)
    return executor.sequence([(executor.prepare(library, number), [0]) for number in range(len(kernels))])


def test_several_threads_launch_sequences_at_once(executor: LLVMExecutor) -> None:
    sequence = several(executor)

    def work(_: int) -> bool:
        out = np.zeros(GROUPS, np.int32)
        for _ in range(50):
            assert sequence.launch([out])
        return np.array_equal(out, expected(200))

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(work, range(8)))


@pytest.mark.parametrize("known", [1e-6, 1.0])
def test_sequences_are_the_same_bits_whatever_a_trial_finds(executor: LLVMExecutor, known: float) -> None:
    executor.pool.costs = Costs(known, known)
    sequence, out = several(executor), np.zeros(GROUPS, np.int32)
    for _ in range(300):
        assert sequence.launch([out])
    np.testing.assert_array_equal(out, expected(1200))


def workers_beside(before: set[threading.Thread]) -> int:
    """Count workers that were not there; threads of other tests, idle ones too, end when they like."""
    return sum(re.fullmatch(r"tileir-\d+", thread.name) is not None for thread in {*threading.enumerate()} - before)


def test_workers_start_late_and_stop() -> None:
    before = {*threading.enumerate()}
    executor = opened(4)
    kernel = ready(executor, counting_kernel())
    assert workers_beside(before) == 0
    kernel.launch(buffers([np.zeros(GROUPS, np.int32)]))
    assert workers_beside(before) == 3
    executor.close()
    assert workers_beside(before) == 0
    with pytest.raises(BackendError) as error:
        kernel.launch(buffers([np.zeros(GROUPS, np.int32)]))
    assert error.value.diagnostics[0].code == "TIL807"


def test_workers_go_with_the_executor() -> None:
    before = {*threading.enumerate()}
    executor = opened(3)
    ready(executor, counting_kernel()).launch(buffers([np.zeros(GROUPS, np.int32)]))
    assert workers_beside(before) == 2
    del executor
    gc.collect()
    assert workers_beside(before) == 0


def test_small_kernels_and_single_threads_are_not_split() -> None:
    executor = opened(4)
    small = attrs.evolve(counting_kernel(), operations=SMALL_OPERATIONS - 1)
    assert not ready(executor, small).share
    assert not ready(executor, counting_kernel(groups=1)).share
    assert not ready(opened(1), counting_kernel()).share
    limited = LLVMExecutor(executor.device, Options(threads=1))
    assert not ready(limited, counting_kernel()).share


def test_a_forked_child_starts_workers_of_its_own(executor: LLVMExecutor) -> None:
    kernel = ready(executor, counting_kernel())
    kernel.launch(buffers([np.zeros(GROUPS, np.int32)]))

    def child() -> bool:
        out = np.zeros(GROUPS, np.int32)
        kernel.launch(buffers([out]))
        executor.close()
        return np.array_equal(out, expected(1))

    assert in_forked_child(child)
    out = np.zeros(GROUPS, np.int32)
    kernel.launch(buffers([out]))
    np.testing.assert_array_equal(out, expected(1))


@pytest.mark.sampled(2)
def test_a_child_forked_during_launches_works(executor: LLVMExecutor) -> None:
    kernel = ready(executor, counting_kernel())
    stop = threading.Event()

    def keep_launching() -> None:
        own = np.zeros(GROUPS, np.int32)
        while not stop.is_set():
            kernel.launch(buffers([own]))

    def child() -> bool:
        out = np.zeros(GROUPS, np.int32)
        kernel.launch(buffers([out]))
        return np.array_equal(out, expected(1))

    other = threading.Thread(target=keep_launching)
    other.start()
    try:
        assert all(in_forked_child(child) for _ in range(5))
    finally:
        stop.set()
        other.join()


@pytest.mark.sampled(0)
def test_the_interpreter_ends_while_workers_sleep_or_spin() -> None:
    script = (
        "import importlib.util, sys, numpy as np\n"
        f"sys.path.insert(0, {str(sys.modules['strategies.devices'].__file__).rsplit('/', 2)[0]!r})\n"
        f"spec = importlib.util.spec_from_file_location('pool_tests', {__file__!r})\n"
        "tests = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(tests)\n"
        "executor = tests.opened(4)\n"
        "kernel = tests.ready(executor, tests.counting_kernel())\n"
        "kernel.launch(tests.buffers([np.zeros(257, np.int32)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_posix_threads_python_shares_out_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: tuple[str, ...]) -> None:
        raise BackendError(())

    monkeypatch.setattr(team, "_native", missing)
    executor = opened(3)
    kernel = ready(executor, counting_kernel(scratch=True))
    out = np.zeros(GROUPS, np.int32)
    for _ in range(20):
        kernel.launch(buffers([out]))
    np.testing.assert_array_equal(out, expected(20))
    for _ in range(20):
        assert several(executor).launch([out])
    np.testing.assert_array_equal(out, expected(100))
    assert isinstance(team.start_team(1, executor.device.features), PythonTeam)
    executor.close()
