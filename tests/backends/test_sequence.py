from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest

from strategies.devices import buffers, compiler
from strategies.plans import SIZE, binary
from tileir.core.dtype import DType
from tileir.core.errors import BackendError
from tileir.core.ops import Op
from tileir.core.process.cancellation import CancelledError, cancelled_if
from tileir.runtime.interface import Choice, Condition, Options, Repetition, SequencingExecutor
from tileir.semtree.ir import Assign, Const, DeclareArray, Region, Subscript, Type
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm.compiler import LARGE_OPERATIONS
from tileir_llvm.run.executor import LLVMExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tileir.semtree.ir import KernelFunction
    from tileir_llvm.run.executor import LLVMKernel


@pytest.fixture
def executor() -> Iterator[LLVMExecutor]:
    device = compiler().device
    made = LLVMExecutor(attrs.evolve(device, target=attrs.evolve(device.target, threads=2)), Options())
    yield made
    made.close()


def ready(executor: LLVMExecutor, *kernels: KernelFunction) -> list[LLVMKernel]:
    library = compiler().build(kernels)
    return [executor.prepare(library, number) for number in range(len(kernels))]


def arrays(count: int, fill: float = 0.0) -> list[np.ndarray[Any, np.dtype[np.float32]]]:
    return [np.full(SIZE, fill, np.float32) for _ in range(count)]


def shared(kernel: KernelFunction) -> KernelFunction:
    """Return a kernel whose launches go to the pool; every group does the whole work."""
    return attrs.evolve(kernel, grid=(2,), operations=LARGE_OPERATIONS)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pooled", [(), (0,), (1,), (2,), (0, 1, 2)])
def test_launches_run_in_order(executor: LLVMExecutor, pooled: Sequence[int]) -> None:
    plain = [binary(Op.ADD), binary(Op.MUL), binary(Op.SUB)]
    kernels = ready(executor, *(shared(kernel) if at in pooled else kernel for at, kernel in enumerate(plain)))
    first, second = buffers(arrays(2))
    sequence = executor.sequence(
        [(kernels[0], [0, 1, first]), (kernels[1], [first, first, second]), (kernels[2], [second, 0, 2])]
    )
    for value in (1.0, 2.0):
        (x,), (y,), (out,) = arrays(1, value), arrays(1, 3.0), arrays(1)
        assert sequence.launch([x, y, out])
        np.testing.assert_array_equal(out, (value + 3) ** 2 - value)


@pytest.mark.parametrize("pooled", [(), (0,), (1,), (0, 1)])
def test_what_is_repeated_runs_one_time_after_the_other(executor: LLVMExecutor, pooled: Sequence[int]) -> None:
    plain = [binary(Op.ADD), binary(Op.SUB)]
    add, subtract = ready(executor, *(shared(kernel) if at in pooled else kernel for at, kernel in enumerate(plain)))
    a, b = buffers(arrays(2))
    inner = Repetition(3, ((add, [a, 0, b]), (add, [b, 0, a])))
    launches: list[Any] = [
        (subtract, [0, 0, a]),
        Repetition(2, (inner, Repetition(1, ((subtract, [a, 0, b]), (add, [b, b, a]))))),
        (add, [a, 0, 1]),
    ]
    sequence = executor.sequence(launches)
    for value in (1.0, 2.0):
        (x,), (out,) = arrays(1, value), arrays(1)
        total = 0.0
        for _ in range(2):
            total = 2 * (total + 6 * value - value)
        assert sequence.launch([x, out])
        np.testing.assert_array_equal(out, total + value)


BELOW = parse_kernel(f"kernel below(out bool c[1], in f32 a[{SIZE}]) grid(1) {{ c[0] = a[0] < 20.0; }}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pooled", [(), (0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("start", [1.0, 19.0, 20.0])
def test_conditions_decide_whatever_is_shared_out(
    executor: LLVMExecutor, pooled: Sequence[int], given: bool, start: float
) -> None:
    plain = [binary(Op.ADD), binary(Op.SUB), binary(Op.MUL), BELOW]
    kernels = [shared(kernel) if at in pooled else kernel for at, kernel in enumerate(plain)]
    add, subtract, multiply, below = ready(executor, *kernels)
    a, b, c = buffers(arrays(3))
    (go,) = buffers([np.zeros(1, np.bool_)])
    add_one = (add, [b, 1, a])
    once = Repetition(1, (Choice(Condition(2), (add_one,), ((add, [b, 1, c]), (add, [c, 1, a]))),))
    works: list[Any] = [
        (multiply, [0, 1, a]),
        (below, [go, a]),
        Repetition(Condition(go), ((subtract, [a, 1, b]), (add, [b, 1, c]), (add, [c, 1, b]), once, (below, [go, a]))),
        Choice(Condition(2), (), ((subtract, [a, 1, b]), (multiply, [b, 1, a]))),
        (multiply, [a, 1, 3]),
    ]
    expected = start
    while expected < 20:
        expected += 2 if given else 3
    expected -= 0 if given else 1
    sequence = executor.sequence(works)
    for _ in range(2):
        (x,), (one,), (out,) = arrays(1, start), arrays(1, 1.0), arrays(1)
        assert sequence.launch([x, one, np.array([given]), out])
        np.testing.assert_array_equal(out, expected)


def given_up(asked: Iterator[int]) -> bool:
    return next(asked) == 5


@pytest.mark.parametrize("pooled", [False, True])
def test_loops_stop_when_they_are_given_up(executor: LLVMExecutor, pooled: bool) -> None:
    (add,) = ready(executor, shared(binary(Op.ADD)) if pooled else binary(Op.ADD))
    always = np.array([True])
    endless = executor.sequence([Repetition(2, (Repetition(Condition(1), ((add, [0, 0, 2]),)),))])
    long = executor.sequence([Repetition(1 << 40, ((add, [0, 0, 1]),))])
    (x,), (out,) = arrays(1, 1.0), arrays(1)
    for sequence, given in ((endless, [x, always, out]), (long, [x, out])):
        asked = iter(range(10))
        with cancelled_if(partial(given_up, asked)), pytest.raises(CancelledError):
            sequence.launch(given)
        assert next(asked) == 6
    np.testing.assert_array_equal(out, 2)
    always[:] = False
    assert endless.launch([x, always, out])


def test_the_executor_says_that_it_can(executor: LLVMExecutor) -> None:
    assert isinstance(executor, SequencingExecutor)


def test_scratch_memory_is_as_large_as_the_largest_kernel_needs(executor: LLVMExecutor) -> None:
    value = Type(DType.F32)

    def using(size: int) -> KernelFunction:
        whole = binary(Op.ADD)
        scratch = DeclareArray("s", DType.F32, size, Region.SCRATCH)
        last = Const(size - 1, Type(DType.I64))
        write = Assign(Subscript("s", last, value), Const(0.0, value))
        return attrs.evolve(whole, name=f"using{size}", body=(scratch, write, *whole.body))

    small, large = ready(executor, using(10), using(10_000))
    x, y, out = arrays(3, 1.0)
    assert executor.sequence([(small, [0, 1, 2]), (large, [0, 1, 2])]).launch([x, y, out])
    np.testing.assert_array_equal(out, 2 * x)


@pytest.mark.parametrize("alignment", [4, 64])
def test_arrays_that_are_not_aligned_are_refused(executor: LLVMExecutor, alignment: int) -> None:
    (kernel,) = ready(executor, binary(Op.ADD, alignment))
    sequence = executor.sequence([(kernel, [0, 1, 2])])
    room = np.zeros(SIZE * 4 + 128, np.uint8)
    start = -room.ctypes.data % 64
    aligned = room[start : start + 4 * SIZE].view(np.float32)
    off = room[start + alignment // 2 :][: 4 * SIZE].view(np.float32)
    whole = executor.allocate(4 * SIZE).host().view(np.float32)
    other = executor.allocate(4 * SIZE).host().view(np.float32)
    whole[:] = other[:] = 1
    assert not sequence.launch([whole, off, other])
    assert sequence.launch([whole, other, aligned])
    np.testing.assert_array_equal(aligned, 2)


def test_a_closed_executor_launches_nothing(executor: LLVMExecutor) -> None:
    (kernel,) = ready(executor, binary(Op.ADD))
    sequence = executor.sequence([(kernel, [0, 1, 2])])
    executor.close()
    with pytest.raises(BackendError) as error:
        sequence.launch(arrays(3))
    assert error.value.diagnostics[0].code == "TIL807"


def counted(executor: LLVMExecutor, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gains the number of groups with each launch of the pool."""
    groups: list[int] = []
    launch = type(executor.pool).launch

    def noted(pool: Any, function: int, arguments: bytes, count: int, *rest: int) -> bool:
        groups.append(count)
        return launch(pool, function, arguments, count, *rest)

    monkeypatch.setattr(type(executor.pool), "launch", noted)
    return groups


def add_and_subtract(executor: LLVMExecutor) -> list[LLVMKernel]:
    """Return kernels of one group that seem to take so long that loops are shared out."""
    return ready(executor, *(attrs.evolve(binary(op), operations=1 << 20) for op in (Op.ADD, Op.SUB)))


@pytest.mark.parametrize(
    ("second", "groups"),
    [
        (("c", 0, "d", "c"), [3]),  # needs nothing of the first
        (("c", "a", "d", "c"), [2]),  # reads what it writes
        (("c", 0, "b", "c"), [2]),  # writes what it reads
        (("e", 0, "d", "e"), [2]),  # writes what the third one reads
    ],
)
def test_loops_that_need_nothing_of_each_other_have_threads_of_their_own(
    executor: LLVMExecutor, monkeypatch: pytest.MonkeyPatch, second: tuple[Any, ...], groups: list[int]
) -> None:
    launched = counted(executor, monkeypatch)
    add, subtract = add_and_subtract(executor)
    memory: dict[Any, Any] = dict(zip("abcdef", arrays(6), strict=True))
    own = dict(zip("abcdef", buffers(memory.values()), strict=True))
    loops: list[tuple[int, list[tuple[Any, tuple[Any, ...]]]]] = [
        (1, [(subtract, (0, 0, name)) for name in "ace"]),
        (3, [(add, ("a", 0, "b")), (add, ("b", 0, "a"))]),
        (4, [(subtract, second[:3]), (add, (second[2], 0, second[3]))]),
        (2, [(add, ("e", 0, 1)), (subtract, (1, "e", "f"))]),
        (1, [(add, ("a", "f", "b")), (add, ("b", "d", 2))]),
    ]

    def bound(works: list[tuple[Any, tuple[Any, ...]]]) -> tuple[tuple[Any, list[Any]], ...]:
        return tuple((kernel, [own.get(name, name) for name in names]) for kernel, names in works)

    first, last = bound(loops[0][1]), bound(loops[-1][1])
    repeated = [Repetition(times, bound(works)) for times, works in loops[1:-1]]
    sequence = executor.sequence([*first, *repeated, *last])
    for value in (1.0, 2.0):
        (x,), (y, out) = arrays(1, value), arrays(2)
        assert sequence.launch([x, y, out])
        expected = {name: array.copy() for name, array in memory.items()} | {0: x, 1: x * 0, 2: x * 0}
        for times, works in loops:
            for _ in range(times):
                for kernel, (left, right, made) in works:
                    sign = 1 if kernel is add else -1
                    expected[made] = expected[left] + sign * expected[right]
        np.testing.assert_array_equal(out, expected[2])
        np.testing.assert_array_equal(y, expected[1])
    assert launched == groups * 2


def test_loops_that_nobody_could_stop_run_one_after_the_other(
    executor: LLVMExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = counted(executor, monkeypatch)
    add, _ = add_and_subtract(executor)
    go, stop = buffers([np.array([True]), np.array([False])])
    endless = Repetition(Condition(stop), ((add, [0, 0, 1]),))
    nested = Repetition(3, (Repetition(Condition(stop), ((add, [0, 0, 1]),)),))
    choice = Repetition(2, (Choice(Condition(go), ((add, [0, 0, 2]),), ((add, [0, 0, 3]),)),))
    long = Repetition(10_000, ((add, [0, 0, 4]),))
    for works in ([endless, choice], [nested, choice], [choice, long]):
        given = arrays(5, 1.0)
        assert executor.sequence(works).launch(given)
        np.testing.assert_array_equal(given[2], 2)
    assert not launched
    given = arrays(5, 1.0)
    assert executor.sequence([choice, Repetition(2, ((add, [0, 0, 4]),))]).launch(given)
    assert launched == [2]
    np.testing.assert_array_equal([given[2], given[3], given[4]], [arrays(1, value)[0] for value in (2, 1, 2)])
