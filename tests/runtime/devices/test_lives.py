"""Release of device memory: at the end of the last array, of the context, of a child, and of the process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tileir
from strategies.dlpack import Library
from tileir.core.dtype import DType

DEVICES = [each.id for each in tileir.devices() if each.backend in ("llvm", "opencl")]
A = np.arange(8, dtype=np.float32)

AT_THE_END = """
import sys
import numpy as np
import tileir
from tileir.runtime.events import PendingEvent

device = sys.argv[1]
a = np.ones(1 << 16, np.float32)
kept = [tileir.to_device(a, device, copy=True) for _ in range(3)]
seen = np.from_dlpack(kept[0], device="cpu")
add = tileir.jit("function (A, B) -> (S) { S = A + B; }", device)
kept.append(add(*kept[:2]))
call = add.specialise(*kept[:2]).submit(*kept[1:3])
step = tileir.stepper("function (W) -> (V) { V = W + 1; }", {"W": "V"}, {"W": kept[0]}, device)
step()
with tileir.Context() as context:
    kept.append(tileir.to_device(a, device, context=context, copy=True))
kept.append(kept)
print(call.result().numpy().sum())
"""


@pytest.mark.sampled(0)
@pytest.mark.parametrize("device", DEVICES)
def test_processes_end_with_arrays_in_use(device: str) -> None:
    done = subprocess.run([sys.executable, "-c", AT_THE_END, device], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["131072.0"], "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("device", DEVICES)
def test_children_read_memory_of_the_host_only(device: str) -> None:
    seen = tileir.to_device(A, device, copy=True)
    room = seen.home.executor.allocate(A.nbytes)
    seen.home.executor.copy(A, room).wait()
    found = tileir.DeviceArray.of(room, seen.home, DType.F32, A.shape)
    child = os.fork()
    if child == 0:
        try:
            right = (seen.numpy() == A).all() and (found.numpy() == A).all() and device.startswith("llvm")
        except tileir.BackendError as error:
            right = error.diagnostics[0].code == "TIL809" and device.startswith("opencl")
        except BaseException:  # the child of a test must not go on with the tests
            right = False
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(found.numpy(), A)


@pytest.mark.parametrize("device", DEVICES)
def test_results_that_there_is_no_memory_for_are_told_with_their_size(device: str) -> None:
    outer = tileir.jit("function (A[N], B[M]) -> (O) { O[i, j : N, M] = +(A[i] * B[j]); }", device)
    a = tileir.to_device(np.ones(1 << 23, np.float32), device)
    # That is more than addresses reach: no system can promise it.
    with pytest.raises(tileir.TileError, match=rf"256\.0? TiB|{1 << 48}") as error:
        outer(a, a)
    assert error.value.diagnostics[0].code == "TIL708"


@pytest.mark.skipif("opencl.0" not in DEVICES, reason="there is no OpenCL")
def test_memory_that_was_lent_or_comes_late_is_not_given_to_others() -> None:
    with tileir.Context(device_id="opencl") as context:
        kept, lent = (tileir.to_device(A, context=context, copy=True) for _ in range(2))
        executor: Any = context.executor(context.device())
        spare = len(executor.pool._returned)
        assert np.from_dlpack(lent, device="cpu").shape == (8,)  # a copy: nothing is lent
        lent.__dlpack__()
        lent.free()
        assert len(executor.pool._returned) == spare
    kept.free()
    assert len(executor.pool._returned) == spare == executor.pool.spare_bytes == 0


def test_what_others_share_lives_as_long_as_the_array() -> None:
    library = Library(A, counted=True)
    found = tileir.to_device(library)
    view = found.numpy()
    found.free()
    assert library.released == 0  # somebody looks at it
    assert view[1] == 1
    del view
    assert library.released == 1


@pytest.mark.parametrize("device", DEVICES)
def test_arrays_of_a_closed_context_are_copied_into_another(device: str) -> None:
    with tileir.Context() as context:
        found = tileir.jit("function (A) -> (B) { B = A; }", device, context=context)(
            tileir.to_device(A, device, context=context)
        )
    for copied in (tileir.to_device(found, copy=True), tileir.to_device(found, device, copy=True)):
        assert copied.device.id == device
        np.testing.assert_array_equal(copied.numpy(), A)
        assert not np.shares_memory(copied.numpy(), found.numpy())
