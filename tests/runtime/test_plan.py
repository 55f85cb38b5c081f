from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from strategies.devices import compiler, executor
from tileir.core.dtype import DType
from tileir.core.ops import Op
from tileir.runtime.events import PendingEvent
from tileir.runtime.plan import Plan
from tileir.runtime.resources import Resources
from tileir.semtree.ir import (
    Apply,
    Assign,
    Buffer,
    BufferRole,
    Const,
    For,
    KernelFunction,
    Launch,
    Param,
    ParamAccess,
    Program,
    Subscript,
    Type,
    Var,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZE = 1000
INDEX = Type(DType.I64)
F32 = Type(DType.F32)


def binary(op: Op, alignment: int = 4) -> KernelFunction:
    """Return a kernel that stores ``a op b`` for each element."""
    counter = Var("i", INDEX)
    value = Apply(op, (Subscript("a", counter, F32), Subscript("b", counter, F32)))
    loop = For(counter, Const(0, INDEX), Const(SIZE, INDEX), 1, (Assign(Subscript("c", counter, F32), value),))
    params = (
        Param("a", DType.F32, SIZE, ParamAccess.READ, alignment),
        Param("b", DType.F32, SIZE, ParamAccess.READ, alignment),
        Param("c", DType.F32, SIZE, ParamAccess.WRITE, alignment),
    )
    return KernelFunction(op.value, params, (loop,))


def program(alignment: int = 4) -> Program:
    """Return ``out = (x + y) * (x + y) + constant`` as three launches of two kernels."""
    constant = np.arange(SIZE, dtype=np.float32)

    def buffer(name: str, role: BufferRole, data: str = "") -> Buffer:
        return Buffer(name, DType.F32, (SIZE,), role, data)

    return Program(
        (binary(Op.ADD, alignment), binary(Op.MUL, alignment)),
        (
            buffer("x", BufferRole.INPUT),
            buffer("y", BufferRole.INPUT),
            buffer("sum", BufferRole.TEMPORARY),
            buffer("square", BufferRole.TEMPORARY),
            buffer("k", BufferRole.CONSTANT, constant.tobytes().hex()),
            buffer("out", BufferRole.OUTPUT),
        ),
        (Launch(0, ("x", "y", "sum")), Launch(1, ("sum", "sum", "square")), Launch(0, ("square", "k", "out"))),
    )


def plan_of(whole: Program, device: Any = None) -> Plan:
    return Plan.of(whole, compiler().build(whole.kernels), Resources(device or executor()))


def expected(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray((x + y) * (x + y) + np.arange(SIZE, dtype=np.float32))


def test_launches_share_memory_in_order() -> None:
    plan = plan_of(program())
    x, y = np.random.default_rng(1).random((2, SIZE), np.float32)
    for _ in range(3):
        out = np.zeros(SIZE, np.float32)
        plan.run([x, y], [out])
        np.testing.assert_array_equal(out, expected(x, y))
    assert [buffer.name for buffer in (*plan.inputs, *plan.outputs)] == ["x", "y", "out"]


def test_several_threads_run_one_plan() -> None:
    plan = plan_of(program())
    failures: list[int] = []

    def work(seed: int) -> None:
        x, y = np.random.default_rng(seed).random((2, SIZE), np.float32)
        out = np.zeros(SIZE, np.float32)
        for _ in range(50):
            plan.run([x, y], [out])
            if not np.array_equal(out, expected(x, y)):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_arrays_of_less_alignment_than_kernels_need_are_copied() -> None:
    plan = plan_of(program(alignment=64))
    room = np.zeros(4 * SIZE, np.float32)
    start = 1 if room.ctypes.data % 64 == 0 else 0
    x, y, out = (room[start + part * SIZE :][:SIZE] for part in range(3))
    x[:], y[:] = 2, 3
    plan.run([x, y], [out])
    np.testing.assert_array_equal(out, expected(x, y))


@attrs.define(eq=False)
class DistantBuffer:
    """Memory that the host cannot see."""

    memory: Any

    @property
    def nbytes(self) -> int:
        return int(self.memory.nbytes)

    def host(self) -> None:
        return None


@attrs.define(eq=False)
class DistantKernel:
    kernel: Any

    def launch(self, buffers: Sequence[DistantBuffer]) -> None:
        self.kernel.launch([buffer.memory for buffer in buffers])


class DistantDevice:
    """A device with memory of its own, as a graphics card has."""

    def allocate(self, nbytes: int) -> DistantBuffer:
        return DistantBuffer(executor().allocate(nbytes))

    def wrap(self, _: np.ndarray[Any, Any]) -> None:
        return None

    def prepare(self, library: Any, index: int) -> DistantKernel:
        return DistantKernel(executor().prepare(library, index))

    def copy(self, source: Any, destination: Any) -> PendingEvent:
        ends = [end.memory if isinstance(end, DistantBuffer) else end for end in (source, destination)]
        return executor().copy(*ends)


def test_a_device_with_its_own_memory_gets_copies() -> None:
    plan = plan_of(program(), DistantDevice())
    x, y = np.random.default_rng(1).random((2, SIZE), np.float32)
    out = np.zeros(SIZE, np.float32)
    plan.run([x, y], [out])
    np.testing.assert_array_equal(out, expected(x, y))
