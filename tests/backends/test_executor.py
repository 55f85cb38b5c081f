from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import attrs
import numpy as np
import pytest

from strategies.devices import buffers, compiler
from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, BackendError
from tileir.core.ops import Op
from tileir.runtime.arrays import address_of
from tileir.runtime.events import PendingEvent
from tileir.runtime.interface import Options
from tileir.semtree.ir import (
    Apply,
    Assign,
    Const,
    For,
    KernelFunction,
    Param,
    ParamAccess,
    Subscript,
    Type,
    Var,
)
from tileir_llvm.run.executor import LLVMExecutor
from tileir_llvm.run.loader import load_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir_llvm.run.executor import LLVMKernel

SIZE = 64
INDEX = Type(DType.I64)
F32 = Type(DType.F32)


def doubling() -> KernelFunction:
    counter = Var("i", INDEX)
    value = Subscript("a", counter, F32)
    store = Assign(Subscript("b", counter, F32), Apply(Op.ADD, (value, value)))
    loop = For(counter, Const(0, INDEX), Const(SIZE, INDEX), 1, (store,))
    params = (Param("a", DType.F32, SIZE, ParamAccess.READ), Param("b", DType.F32, SIZE, ParamAccess.WRITE))
    return KernelFunction("double", params, (loop,))


@pytest.fixture
def executor() -> Iterator[LLVMExecutor]:
    made = LLVMExecutor(compiler().device, Options())
    yield made
    made.close()


@pytest.fixture
def kernel(executor: LLVMExecutor) -> LLVMKernel:
    return executor.prepare(compiler().build([doubling()]), 0)


def pair() -> tuple[np.ndarray[tuple[int], np.dtype[np.float32]], np.ndarray[tuple[int], np.dtype[np.float32]]]:
    return np.arange(SIZE, dtype=np.float32), np.zeros(SIZE, np.float32)


def test_a_launch_writes_its_outputs(kernel: LLVMKernel) -> None:
    a, b = pair()
    kernel.launch(buffers([a, b]))
    np.testing.assert_array_equal(b, 2 * a)


def test_independent_work_runs_at_the_same_time() -> None:
    device = compiler().device
    executor = LLVMExecutor(attrs.evolve(device, target=attrs.evolve(device.target, threads=2)), Options())
    meeting = threading.Barrier(2)
    for event in [executor.scheduler.submit(lambda: meeting.wait(60)) for _ in range(2)]:
        event.wait()
    executor.close()


def test_runs_wait_for_events_and_copies(executor: LLVMExecutor, kernel: LLVMKernel) -> None:
    a, b = pair()
    gate = PendingEvent()
    device_a, device_b = executor.allocate(a.nbytes), executor.allocate(b.nbytes)
    copied = executor.copy(a, device_a, [gate])
    ran = kernel.run([device_a, device_b], [copied])
    back = executor.copy(device_b, b, [ran])
    assert not ran.done
    gate.complete()
    back.wait()
    np.testing.assert_array_equal(b, 2 * a)
    assert ran.duration is not None


def test_a_failed_event_keeps_a_kernel_from_running(kernel: LLVMKernel) -> None:
    a, b = pair()
    gate = PendingEvent()
    ran = kernel.run(buffers([a, b]), [gate])
    gate.fail(OSError("no data"))
    with pytest.raises(OSError, match="no data"):
        ran.wait()
    assert not b.any()


@pytest.mark.parametrize("sizes", [(SIZE,), (SIZE, SIZE, SIZE), (SIZE, SIZE - 1)])
def test_buffers_must_fit_the_parameters(kernel: LLVMKernel, sizes: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="kernel double takes buffers of") as error:
        kernel.launch(buffers([np.zeros(size, np.float32) for size in sizes]))
    assert error.value.diagnostics[0].code == "TIL706"


def test_copies_refuse_what_they_cannot_write(executor: LLVMExecutor) -> None:
    array, frozen = np.zeros(8), np.zeros(8)
    frozen.flags.writeable = False
    for source, destination in ((array, frozen), (array, np.zeros(16)[::2])):
        with pytest.raises(ArgumentError) as error:
            executor.copy(source, destination)
        assert error.value.diagnostics[0].code == "TIL706"
    executor.copy(array, np.zeros(2)).wait()


def test_memory_is_aligned_and_shared(executor: LLVMExecutor) -> None:
    for nbytes in (0, 1, 63, 10_000):
        buffer = executor.allocate(nbytes)
        assert buffer.address % 64 == 0
        assert (buffer.nbytes, buffer.host().nbytes) == (nbytes, nbytes)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    wrapped = executor.wrap(array)
    assert wrapped is not None
    wrapped.host()[:] = 0
    assert not array.any()
    assert executor.wrap(array[:, ::2]) is None
    assert executor.wrap(np.zeros(9, np.uint8)[1:].view(np.float32)) is None


def test_addresses_of_all_kinds_of_arrays() -> None:
    for array in (np.zeros(3), np.zeros(0), np.zeros(()), np.zeros(3, DType.BF16.numpy), np.zeros((2, 2), np.bool_)):
        assert address_of(array) == array.ctypes.data
        array.flags.writeable = False
        assert address_of(array) == array.ctypes.data


def test_a_library_is_loaded_once(executor: LLVMExecutor) -> None:
    library = compiler().build([doubling(), doubling()])
    first, again = executor.prepare(library, 0), executor.prepare(library, 0)
    assert first.address == again.address
    assert executor.prepare(library, 1).address != first.address


def test_a_closed_executor_refuses_everything(executor: LLVMExecutor, kernel: LLVMKernel) -> None:
    executor.close()
    executor.close()
    a, b = pair()
    for action in (
        lambda: kernel.launch(buffers([a, b])),
        lambda: kernel.run(buffers([a, b])),
        lambda: executor.copy(a, b),
        lambda: executor.prepare(compiler().build([doubling()]), 0),
    ):
        with pytest.raises(BackendError) as error:
            action()
        assert error.value.diagnostics[0].code == "TIL807"


@pytest.mark.parametrize("code", [b"", b"garbage", "cut"])
def test_broken_object_code_is_refused(code: bytes | str) -> None:
    library = compiler().build([doubling()])
    broken = library.codes[0][:200] if isinstance(code, str) else code
    with pytest.raises(BackendError) as error:
        load_code((broken,), library.symbols, compiler().device.features)
    assert error.value.diagnostics[0].code == "TIL806"


def test_kernels_are_compiled_and_run_in_several_threads(executor: LLVMExecutor) -> None:
    failures: list[int] = []

    def work(number: int) -> None:
        a, b = pair()
        executor.prepare(compiler().build([doubling()]), 0).launch(buffers([a, b]))
        if not np.array_equal(b, 2 * a):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
