from __future__ import annotations

import ctypes
import sys
import threading
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.devices import buffers, compiler
from strategies.effort import examples
from strategies.plans import SIZE, binary
from tileir.core.errors import TileError
from tileir.core.ops import Op
from tileir.runtime.arrays import fit_as_they_are
from tileir.runtime.interface import Options, Repetition
from tileir.runtime.offers import ArraySequence
from tileir.runtime.plans.workspace import SequencedWorkspace
from tileir_llvm.compiler import LARGE_OPERATIONS
from tileir_llvm.run import array_calls
from tileir_llvm.run.executor import LLVMExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tileir.runtime.arrays import Array, Format

FORMATS: tuple[Format, ...] = ((np.dtype(np.float32), (SIZE,)),) * 3


@pytest.fixture
def executor() -> Iterator[LLVMExecutor]:
    device = compiler().device
    made = LLVMExecutor(attrs.evolve(device, target=attrs.evolve(device.target, threads=2)), Options())
    yield made
    made.close()


def called(sequence: object, formats: Sequence[Format] = FORMATS, read: int = 2) -> Callable[..., object] | None:
    assert isinstance(sequence, ArraySequence)
    return sequence.array_call(formats, read)


def test_launches_run_in_order_on_buffers_and_arrays(executor: LLVMExecutor) -> None:
    library = compiler().build([binary(Op.ADD), binary(Op.MUL), binary(Op.SUB)])
    add, multiply, subtract = (executor.prepare(library, number) for number in range(3))
    first, second = buffers([np.zeros(SIZE, np.float32) for _ in range(2)])
    function = called(
        executor.sequence([(add, [0, 1, first]), (multiply, [first, first, second]), (subtract, [second, 0, 2])])
    )
    assert function is not None
    for value in (1.0, 2.0):
        x, y, out = (np.full(SIZE, fill, np.float32) for fill in (value, 3.0, 0.0))
        assert function(x, y, out)
        np.testing.assert_array_equal(out, (value + 3) ** 2 - value)


def test_what_takes_python_has_no_such_function(executor: LLVMExecutor) -> None:
    shared = attrs.evolve(binary(Op.ADD), grid=(2,), operations=LARGE_OPERATIONS)
    library = compiler().build([binary(Op.ADD), shared])
    plain, pooled = (executor.prepare(library, number) for number in range(2))
    assert called(executor.sequence([(plain, [0, 1, 2])])) is not None
    assert called(executor.sequence([(pooled, [0, 1, 2])])) is None
    assert called(executor.sequence([Repetition(2, ((plain, [0, 1, 2]),))])) is None
    needs = [attrs.evolve(plain, scratch_bytes=array_calls.MOST_SCRATCH + more) for more in (0, 1)]
    assert [called(executor.sequence([(kernel, [0, 1, 2])])) is None for kernel in needs] == [False, True]


def test_arrays_of_another_layout_are_looked_at_in_python(
    executor: LLVMExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_calls, "_arrays_are_as_known", lambda: False)
    array_calls._native.cache_clear()
    try:
        plain = executor.prepare(compiler().build([binary(Op.ADD)]), 0)
        assert called(executor.sequence([(plain, [0, 1, 2])])) is None
    finally:
        array_calls._native.cache_clear()


@pytest.mark.parametrize("swapped", [("address", "strides"), ("rank", "flags"), ("dtype", "base")])
def test_fields_elsewhere_are_noticed(swapped: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert array_calls._arrays_are_as_known()
    names = dict(zip(swapped, reversed(swapped), strict=True))
    kinds = list(array_calls.Array._fields_)
    fields = type("Array", (ctypes.Structure,), {"_fields_": [(names.get(name, name), *rest) for name, *rest in kinds]})
    monkeypatch.setattr(array_calls, "Array", fields)
    assert not array_calls._arrays_are_as_known()


class Special(np.ndarray[Any, Any]):
    pass


SHAPE = (3, 4)
ROOM = 64


@st.composite
def values(draw: st.DrawFn) -> Any:
    """Return what may be passed as an array of f32[3, 4]: often that, in memory that several of these share."""
    room = draw(st.sampled_from(ROOMS))
    start = draw(st.integers(0, 6).map(lambda at: 8 * at) | st.integers(0, 50))
    array = np.frombuffer(room, np.float32, 12, start).reshape(SHAPE)
    return draw(
        st.just(array)
        | st.sampled_from(
            [
                np.frombuffer(room, np.float32, 12, start).reshape(4, 3),
                np.frombuffer(room, np.float32, 12, start).reshape(4, 3).T,
                np.frombuffer(room, np.float32, 12, start).reshape(3, 4, 1),
                np.frombuffer(room, np.int32, 12, start).reshape(SHAPE),
                np.frombuffer(room, ">f4", 12, start).reshape(SHAPE),
                np.frombuffer(bytes(room), np.float32, 12, start).reshape(SHAPE),
                np.frombuffer(room, np.float32, 13, start)[:12].reshape(SHAPE),
                np.frombuffer(room, np.float32, 12, start)[:0].reshape(0, 4),
                array.view(Special),
                array[::-1],
                list(array),
                1.0,
                None,
            ]
        )
    )


ROOMS = [bytearray(120 + 12 * 4) for _ in range(3)]


@examples(400)
@given(st.lists(values(), min_size=3, max_size=3), st.integers(0, 5).map(lambda n: n if n in (2, 4) else 3))
def test_arrays_are_taken_as_python_takes_them(arrays: list[Any], count: int) -> None:
    arrays = (arrays * 2)[:count]
    function, mask = _adding()
    taken = function(*arrays)
    fit = fit_as_they_are(arrays, (_FORMAT,) * 3) and not any(array.ctypes.data & mask for array in arrays)
    fit = fit and arrays[2].flags.carray and not any(np.may_share_memory(arrays[2], array) for array in arrays[:2])
    assert bool(taken) == fit
    if fit:
        np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])


_FORMAT: Format = (np.dtype(np.float32), SHAPE)


def _adding() -> tuple[Callable[..., object], int]:
    """Return the function of a sum, and the bits of addresses that it wants to be 0."""
    if not _made:
        executable: Any = tileir.compile("function (A[M, N], B[M, N]) -> (C) { C = A + B; }", [SHAPE, SHAPE])
        executable(np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32))
        plan = executable._plan
        (workspace,) = plan._shared
        assert isinstance(workspace, SequencedWorkspace)
        assert workspace.array_call is not None
        sequence: Any = workspace._sequence
        assert len(set(sequence._masks)) == 1
        _made.append((workspace.array_call, sequence._masks[0], executable))
    return _made[0][0], _made[0][1]


_made: list[Any] = []


@pytest.mark.sampled(8)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "i8", "f2", "?"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3, 4), (1, 1, 1, 1, 7), (0,), (3, 0)])
def test_later_calls_return_what_the_first_does(dtype: str, shape: tuple[int, ...]) -> None:
    indices = ", ".join("ABCDE"[: len(shape)])
    run = tileir.jit(f"function (X[{indices}], Y[{indices}]) -> (Z, W) {{ Z = X == Y; W = X; }}")
    x, y = (np.arange(np.prod(shape)).reshape(shape).astype(dtype) for _ in range(2))
    for _ in range(4):
        same, copy = run(x, y)
        np.testing.assert_array_equal(same, x == y)
        np.testing.assert_array_equal(copy, x)


def test_temporaries_are_kept_for_the_next_call() -> None:
    run: Any = tileir.compile("function (X[N]) -> (Y) { S[] = +(X[i]); Y = X / S; }", [(300,)])
    plan, x = run._plan, np.arange(300, dtype=np.float32)
    kept = []
    for _ in range(3):
        np.testing.assert_allclose(run(x), x / x.sum(), rtol=1e-6)
        kept.append(list(plan._spare))
    assert len(kept[0]) == 1
    assert kept[0] == kept[1] == kept[2]
    assert plan.run_as_they_are([x], [np.empty_like(x)]) is True
    assert plan.run_as_they_are([x], [x]) is False
    assert plan._spare == kept[0]


@examples(12)
@given(st.tuples(*[st.integers(97, 140)] * 3))
def test_scratch_memory_is_there_at_each_call(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = ((np.arange(x * y) % 7 - 3).astype(np.float32).reshape(x, y) for x, y in ((m, k), (k, n)))
    context = tileir.Context(options=tileir.Options(threads=1))
    run = tileir.jit("function (A[I, L], B[L, J]) -> (C) { C[i, j : I, J] = +(A[i, l] * B[l, j]); }", context=context)
    for _ in range(3):
        np.testing.assert_array_equal(run(a, b), a @ b)


def _outcome(call: Callable[[], Any]) -> object:
    try:
        return np.array(call())
    except TileError as error:
        return str(error)


@pytest.mark.parametrize(
    "values",
    [
        lambda x: ((x,), {}),
        lambda x: ((x, x, x), {}),
        lambda x: ((x, x.astype(np.float64)), {}),
        lambda x: ((x, x[::-1]), {}),
        lambda x: ((x.tolist(), x), {}),
        lambda x: ((x, x), {"out": x[:2]}),
        lambda x: ((x, x), {"out": np.empty(8, np.float32)[::2]}),
        lambda x: ((x, x), {"out": np.frombuffer(bytes(16), np.float32)}),
        lambda x: ((x[:4], x[:4]), {"out": x[2:6]}),
        lambda x: ((x, x), {"out": x}),
        lambda x: ((x, x), {"out": [np.empty_like(x)]}),
    ],
)
def test_what_does_not_fit_is_told_at_each_call(values: Callable[[Array], tuple[Any, Any]]) -> None:
    run: Any = tileir.compile("function (X[N], Y[N]) -> (Z) { Z = X + Y; }", [(4,), (4,)])
    room = np.arange(8, dtype=np.float32)
    outcomes = []
    for _ in range(3):
        arrays, named = values(room.copy() if len(values(room)[0][0]) == 4 else room[:4].copy())
        outcomes.append(_outcome(lambda: run(*arrays, **named)))  # noqa: B023  it is called at once
        run(room[:4], room[4:])
    assert all(starmap(np.array_equal, pairwise(outcomes)))


def test_inputs_that_are_too_many_are_not_taken_for_outputs() -> None:
    run: Any = tileir.compile("function (X[N]) -> (Y, Z) { Y = X + X; Z = X * X; }", [(4,)])
    x, more, out = (np.full(4, fill, np.float32) for fill in (1, 2, 3))
    for _ in range(3):
        with pytest.raises(TileError, match="TIL705"):
            run(x, more, out=out)
        run(x)
    np.testing.assert_array_equal((more, out), (more * 0 + 2, out * 0 + 3))


def test_a_closed_context_says_so_at_each_call() -> None:
    context = tileir.Context()
    run: Any = tileir.compile("function (X[N]) -> (Y) { Y = X + X; }", [(4,)], context=context)
    x = np.ones(4, np.float32)
    for _ in range(3):
        run(x, out=np.empty_like(x))
    context.close()
    with pytest.raises(TileError, match="TIL807"):
        run(x)


def test_arrays_are_let_go_of() -> None:
    run: Any = tileir.compile("function (X[N]) -> (Y) { Y = X + X; }", [(4,)])
    x, out = np.ones(4, np.float32), np.empty(4, np.float32)
    run(x, out=out)
    counts = sys.getrefcount(x), sys.getrefcount(out)
    for _ in range(100):
        run(x, out=out)
        run(x)
    assert (sys.getrefcount(x), sys.getrefcount(out)) == counts


@pytest.mark.parametrize(
    ("text", "temporaries"), [("Y = X * X;", False), ("S[] = +(X[i]); Y = X * X * (S / S);", True)]
)
def test_several_threads_call_at_the_same_time(text: str, temporaries: bool) -> None:
    run: Any = tileir.compile(f"function (X[N]) -> (Y) {{ {text} }}", [(1000,)])
    assert (run.memory.peak > 0) == temporaries
    failures: list[int] = []

    def work(seed: int) -> None:
        x = np.full(1000, seed, np.float32)
        failures.extend(seed for _ in range(200) if not np.array_equal(run(x), x * x))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
