"""Calls that are handed over to a card and not waited for, on a driver that does everything as late as it may."""

from __future__ import annotations

import ctypes
import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.card_driver import Result, aligned, void, without_a_card
from strategies.exchanging import exchanging
from strategies.shared_device import Interfaced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strategies.card_driver import CardDriver

ADD = "function (A, B) -> (C) { C = A + B; }"
TWO = "function (A[N], B[N]) -> (C, D) { C = A + B; D = A * B; }"
CUDA = (2, 0)
X = np.arange(12, dtype=np.float32)


@pytest.fixture(scope="module")
def card() -> Iterator[tuple[CardDriver, tileir.Context]]:
    with without_a_card() as found:
        yield found


@pytest.fixture
def driver(card: tuple[CardDriver, tileir.Context]) -> CardDriver:
    card[0].calls.clear()
    return card[0]


@pytest.fixture
def context(card: tuple[CardDriver, tileir.Context]) -> tileir.Context:
    return card[1]


def there(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    return tileir.to_device(array, context=context)


def chain(launches: int) -> str:
    """Return products of which none is fused with another."""
    lines = "".join(f"T{n + 1}[i, j : N, N] = +(T{n}[i, k] * W[k, j]); " for n in range(launches))
    return f"function (T0[N, N], W[N, N]) -> (T{launches}) {{ {lines} }}"


def test_a_call_is_one_call_of_the_driver(driver: CardDriver, context: tileir.Context) -> None:
    add, a = tileir.jit(ADD, context=context), there(X, context)
    first = add(a, a)
    kept = [add(a, a) for _ in range(3)]
    driver.calls.clear()
    second = add(first, a)
    third = add(second, first, out=kept[0])
    fourth = add.submit(third, a)
    assert [call for call in driver.calls if call != "cuMemAlloc"] == ["cuLaunchKernel"] * 3
    assert not fourth.done or fourth.exception() is None
    np.testing.assert_array_equal(fourth.result().numpy(), X * 6)
    np.testing.assert_array_equal(second.numpy(), X * 3)


def test_results_are_known_by_their_events(driver: CardDriver, context: tileir.Context) -> None:
    a = there(X, context)
    pending = tileir.jit(ADD, context=context).submit(a, a)
    seen = [pending.done for _ in range(8)]
    assert seen == sorted(seen)
    assert seen[-1]
    called: list[bool] = []
    pending.then(lambda: called.append(True))
    assert called
    assert pending.duration is None
    assert pending.exception() is None
    assert "cuEventSynchronize" not in driver.calls[driver.calls.index("cuLaunchKernel") :]


def test_many_launches_become_a_graph_when_addresses_come_again(driver: CardDriver, context: tileir.Context) -> None:
    a, w = there(np.eye(4, dtype=np.float32) * 2, context), there(np.full((4, 4), 0.5, np.float32), context)
    many = tileir.compile(chain(8), [a, w], context=context)
    wanted = tileir.evaluate(chain(8), [a.numpy(), w.numpy()])
    out = there(np.zeros((4, 4), np.float32), context)
    for turn in range(4):
        driver.calls.clear()
        many(a, w, out=out)
        found = {name: driver.calls.count(name) for name in ("cuLaunchKernel", "cuGraphLaunch", "cuGraphInstantiate")}
        assert list(found.values()) == [[8, 0, 0], [0, 1, 1], [0, 1, 0], [0, 1, 0]][turn]
        np.testing.assert_array_equal(out.numpy(), wanted)
    for value in range(6):  # other addresses, the same temporaries, one after the other
        b = there(np.full((4, 4), value, np.float32), context)
        results = [many(b, w), many(w, b), many(b, w)]
        np.testing.assert_array_equal(results[2].numpy(), tileir.evaluate(chain(8), [b.numpy(), w.numpy()]))
        np.testing.assert_array_equal(results[1].numpy(), tileir.evaluate(chain(8), [w.numpy(), b.numpy()]))


@pytest.mark.sampled(0)
def test_graphs_take_other_addresses(driver: CardDriver, context: tileir.Context) -> None:
    """Some are made, of which the one that was used the longest ago changes, where something changes for a launch."""
    w, layers = there(np.eye(4, dtype=np.float32) * 2, context), 5
    many = tileir.compile(chain(layers), [w, w], context=context)
    rooms = [there(np.zeros((4, 4), np.float32), context) for _ in range(7)]
    for turn in range(12):
        driver.calls.clear()
        for room in rooms:
            many(w, w, out=room)
        counts = [driver.calls.count(f"cuGraph{name}") for name in ("Instantiate", "ExecKernelNodeSetParams", "Launch")]
        assert counts == [[1, 5, 6], [3, 4, 7]][turn] if turn < 2 else counts == [0, 7, 7]
        for number, room in enumerate(rooms):
            np.testing.assert_array_equal(room.numpy(), np.eye(4) * 2 ** (layers + 1))
            tileir.jit(ADD, context=context)(w, w, out=room)  # what is there later is of the next turn
            assert room.numpy()[number % 4, number % 4] == 4
    driver.calls.clear()
    for _ in range(8):
        many(w, w, out=rooms[6])
    assert driver.calls == ["cuGraphLaunch"] * 8
    other = there(np.eye(4, dtype=np.float32), context)
    driver.calls.clear()
    np.testing.assert_array_equal(many(w, other).numpy(), np.eye(4) * 2)
    assert driver.calls.count("cuGraphExecKernelNodeSetParams") == layers
    assert "cuLaunchKernel" not in driver.calls


def test_several_results_go_to_arrays_of_others_without_waiting(driver: CardDriver, context: tileir.Context) -> None:
    kind = exchanging(stream=1)
    a, first, second = (kind(aligned(np.full(12, each, np.float32)), CUDA) for each in (3, 0, 0))
    two = tileir.jit(TWO, context=context)
    for kind_of_sequence in (list, tuple, list):
        first.array[...] = second.array[...] = 0
        driver.calls.clear()
        found = two(a, a, out=kind_of_sequence([first, second]))
        assert found[0] is first
        assert found[1] is second
        driver.cuCtxSynchronize()
        np.testing.assert_array_equal((first.array, second.array), [[6] * 12, [9] * 12])
    assert driver.calls[:-1] == [
        *["cuEventRecord", "cuStreamWaitEvent"],
        "cuLaunchKernel",
        *["cuEventRecord", "cuStreamWaitEvent"],
    ]
    for wrong in ([first], [first, None], [first, second, first], [first, first]):
        with pytest.raises((tileir.TileError, TypeError)):
            two(a, a, out=wrong)


def test_strides_of_single_elements_do_not_matter(driver: CardDriver, context: tileir.Context) -> None:
    """Libraries give axes of one element any stride; other gaps are left to who copies them away."""
    kind = exchanging(stream=1)
    double = tileir.jit("function (A) -> (B) { B = A * 2.0; }", context=context)
    room = aligned(np.arange(16, dtype=np.float32))
    for shape, strides in (((1, 12), (4, 4)), ((12, 1), (4, 400)), ((3, 1, 4), (16, 8, 4)), ((1, 1), (0, 0))):
        seen = np.lib.stride_tricks.as_strided(room, shape, strides)
        given, out = kind(seen, CUDA), kind(aligned(np.zeros(shape, np.float32)), CUDA)
        double(given, out=out)
        driver.calls.clear()
        assert double(given, out=out) is out
        assert driver.calls == [
            "cuEventRecord",
            "cuStreamWaitEvent",
            "cuLaunchKernel",
            "cuEventRecord",
            "cuStreamWaitEvent",
        ]
        driver.cuCtxSynchronize()
        np.testing.assert_array_equal(out.array, seen * 2)
    gaps = kind(np.lib.stride_tricks.as_strided(room, (3, 4), (20, 4)), CUDA)
    driver.calls.clear()
    with pytest.raises(tileir.TileError):
        double(gaps, out=kind(aligned(np.zeros((3, 4), np.float32)), CUDA))
    assert "cuLaunchKernel" not in driver.calls


def test_captures_get_launches_in_the_place_of_graphs(driver: CardDriver, context: tileir.Context) -> None:
    """A graph of ours is launched by no capture; memory is still taken, and graphs are made, while one goes on."""
    kind = exchanging(stream=1)
    a, w, out, other = (kind(aligned(np.eye(4, dtype=np.float32) * each), CUDA) for each in (3, 2, 0, 0))
    many = tileir.compile(chain(4), [a.array, w.array], context=context)
    for room in (out, out, out, other, other):
        many(a, w, out=room)
    assert driver.calls[-1] == "cuStreamWaitEvent"
    for room in (out, other, kind(aligned(np.zeros((4, 4), np.float32)), CUDA)):
        for captured, counts in ((driver.streams, [4, 0]), ((), [0, 1])):
            driver.captured = set(captured)
            driver.calls.clear()
            many(a, w, out=room)
            assert [driver.calls.count(name) for name in ("cuLaunchKernel", "cuGraphLaunch")] == counts
    assert driver.capture_mode == "CU_STREAM_CAPTURE_MODE_GLOBAL"


@pytest.mark.parametrize("way", ["addresses", "arrays"])
def test_temporaries_of_captured_calls_live_as_long_as_the_program(
    driver: CardDriver, context: tileir.Context, way: str
) -> None:
    """Whoever captures a call launches it again, when others may have asked for memory."""
    kind = exchanging(stream=1)
    a, w, out = (kind(aligned(np.eye(4, dtype=np.float32)), CUDA) for _ in range(3))
    programs = [tileir.compile(chain(3), [a.array, w.array], context=context)]
    places = [each.array.ctypes.data for each in (a, w, out)]

    def call() -> None:
        (many,) = programs
        assert many.run_at(places, 1) if way == "addresses" else many(a, w, out=out) is out

    for captured in (False, True):
        driver.captured = set(driver.streams) if captured else set()
        for _ in range(2):
            call()
        driver.cuCtxSynchronize()
        before = set(driver.memory)
        assert (context.trim() == 0) is captured
        assert (set(driver.memory) == before) is captured
    driver.captured = set()
    call()
    assert not context.trim()
    programs.clear()
    gc.collect()
    assert context.trim()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("launches", [1, 3])
def test_results_of_captured_calls_live_as_long_as_the_program(
    driver: CardDriver, context: tileir.Context, launches: int, native: bool
) -> None:
    """A graph writes to them again, though nobody has them: one program reads what the other one has made."""
    kind = exchanging(stream=1)
    a, w = (kind(aligned(np.eye(4, dtype=np.float32)), CUDA) for _ in range(2))
    first, second = (tileir.compile(chain(launches), [a.array, w.array], context=context) for _ in range(2))
    given = there(w.array, context)
    if not native:
        for each in (first, second):
            assert each.usual is not None
            object.__setattr__(each.usual.queued, "_native", None)

    def addresses() -> set[int]:
        found = set()
        for _ in range(6):
            between = first(a, w)
            second(between, given)
            found.add(between._buffer.address)
        return found

    assert len(addresses()) < 6
    driver.captured = set(driver.streams)
    found = addresses()
    driver.captured = set()
    assert len(found) == 6


def test_a_graph_in_use_is_the_last_to_change(driver: CardDriver, context: tileir.Context) -> None:
    w = there(np.eye(4, dtype=np.float32), context)
    many = tileir.compile(chain(3), [w, w], context=context)
    rooms = [there(np.zeros((4, 4), np.float32), context) for _ in range(24)]
    for _ in range(2):
        for room in rooms[:4]:
            many(w, w, out=room)
    for room in rooms[4:]:
        many(w, w, out=rooms[0])
        driver.calls.clear()
        many(w, w, out=room)
        many(w, w, out=rooms[0])
        assert driver.calls == ["cuGraphExecKernelNodeSetParams", "cuGraphLaunch", "cuGraphLaunch"]
        np.testing.assert_array_equal(room.numpy(), np.eye(4))


def test_a_graph_that_cannot_change_is_left_alone(driver: CardDriver, context: tileir.Context) -> None:
    w = there(np.eye(4, dtype=np.float32) * 3, context)
    many = tileir.compile(chain(3), [w, w], context=context)
    rooms = [there(np.zeros((4, 4), np.float32), context) for _ in range(5)]
    for room in rooms[:2]:
        many(w, w, out=room)
    driver.refusals["cuGraphExecKernelNodeSetParams"] = [Result.CUDA_ERROR_INVALID_VALUE]
    driver.calls.clear()
    for room in rooms[2:]:
        many(w, w, out=room)
        np.testing.assert_array_equal(room.numpy(), np.eye(4) * 81)
    assert driver.calls.count("cuLaunchKernel") == 9
    assert "cuGraphLaunch" not in driver.calls


def test_without_graphs_launches_do(driver: CardDriver, context: tileir.Context) -> None:
    w = there(np.eye(4, dtype=np.float32), context)
    many = tileir.compile(chain(7), [w, w], context=context)
    driver.refusals["cuGraphInstantiate"] = [Result.CUDA_ERROR_OUT_OF_MEMORY]
    out = there(np.zeros((4, 4), np.float32), context)
    for _ in range(4):
        out = many(w, w, out=out)
    np.testing.assert_array_equal(out.numpy(), np.eye(4))
    assert driver.calls.count("cuLaunchKernel") == 28
    assert driver.calls.count("cuGraphInstantiate") == 1


LOOP = """function (H0[N, N], Xs[T, N, N]) -> (H) {
  S = scan(H0; Xs) function (H[N, N], X[N, N]) -> (H2, Y) { P[i, j : N, N] = +(H[i, k] * X[k, j]); H2 = P; Y = P; };
  H = element(S, 0);
}"""


def test_loops_are_unrolled(driver: CardDriver, context: tileir.Context) -> None:
    rng = np.random.default_rng(0)
    h, x = rng.standard_normal((4, 4), np.float32), rng.standard_normal((9, 4, 4), np.float32)
    far, loop = [there(each, context) for each in (h, x)], tileir.jit(LOOP, context=context)
    loop(*far)
    driver.calls.clear()
    for _ in range(3):
        found = loop(*far)
    assert not {"cuEventRecord", "cuStreamSynchronize"} & {*driver.calls}
    np.testing.assert_allclose(found.numpy(), tileir.evaluate(LOOP, [h, x]), rtol=1e-5, atol=1e-5)


def test_steps_are_launches(driver: CardDriver, context: tileir.Context) -> None:
    step = tileir.stepper(
        "function (W, X) -> (W2, O) { W2 = W + X; O = W * 2; }", {"W": "W2"}, {"W": there(X, context)}, context=context
    )
    x = there(X, context)
    first = [step(x) for _ in range(3)]
    driver.calls.clear()
    results = [step(x) for _ in range(5)]
    assert not {"cuEventRecord", "cuEventSynchronize", "cuStreamSynchronize"} & {*driver.calls}
    for turn, result in enumerate([*first, *results]):
        np.testing.assert_array_equal(result.numpy(), X * (turn + 1) * 2)
    np.testing.assert_array_equal(step.state["W"].numpy(), X * 9)
    np.testing.assert_array_equal(step(X).numpy(), X * 18)  # and one of the host among them
    np.testing.assert_array_equal(step(x).numpy(), X * 20)


def test_memory_that_others_share_is_waited_for(driver: CardDriver, context: tileir.Context) -> None:
    add, a, b = tileir.jit(ADD, context=context), there(X, context), there(X, context)
    room, result = add(a, b), add(a, b)
    capsule = result.__dlpack__(stream=1, max_version=(1, 0))
    for inputs, out in (((result, a), None), ((a, b), result)):
        driver.calls.clear()
        add(*inputs, out=out)
        assert driver.calls[-1] == "cuEventSynchronize"
    adopted = tileir.to_device(Interfaced(X, changes=dict(room.__cuda_array_interface__)), context=context)
    driver.calls.clear()
    np.testing.assert_array_equal(add(adopted, a).numpy(), X * 3)
    assert "cuEventSynchronize" in driver.calls[: driver.calls.index("cuMemcpyDtoHAsync")]
    del capsule


def test_memory_that_was_shared_is_used_again_when_the_card_has_nothing_left_to_do(
    driver: CardDriver, context: tileir.Context
) -> None:
    """Whatever others still do with it, nobody who gets it later sees."""
    add, a = tileir.jit(ADD, context=context), there(X, context)
    kept = []
    for turn in range(200):
        result = add(a, a)
        address = result.__cuda_array_interface__["data"][0]
        capsule = result.__dlpack__(stream=1, max_version=(1, 0))
        driver.streams[1].add(lambda address=address: void(ctypes.memset(address, 0xFF, X.nbytes)))  # type: ignore[misc]
        del result, capsule
        if turn % 9 == 0:
            kept.append(add(a, a))
    counts = [driver.calls.count(name) for name in ("cuCtxSynchronize", "cuMemFree")]
    assert counts == [200 // 64, 0]
    assert driver.calls.count("cuMemAlloc") < 100
    for result in kept:
        np.testing.assert_array_equal(result.numpy(), X * 2)


def test_the_stream_of_a_library_is_followed_and_preceded(driver: CardDriver, context: tileir.Context) -> None:
    """Its work before comes first, and what it does later comes behind, though nobody here waits."""
    add, kind = tileir.jit(ADD, context=context), exchanging(stream=1)
    for out in (False, True):
        memory, room = aligned(X), aligned(X)
        value, result = kind(memory, CUDA), kind(room, CUDA)
        add(value, value, **({"out": result} if out else {}))  # once in the general way
        for turn in range(1, 4):
            stream = driver.streams[1]
            stream.add(lambda memory=memory, turn=turn: memory.fill(turn))  # type: ignore[misc]
            driver.calls.clear()
            found = add(value, value, **({"out": result} if out else {}))
            assert "cuEventSynchronize" not in driver.calls
            read: list[np.ndarray[Any, Any]] = []
            stream.add(lambda read=read, room=room: read.append(room.copy()))  # type: ignore[misc]
            stream.add(lambda memory=memory: memory.fill(-7))  # type: ignore[misc]
            while stream.pieces:
                stream.step()
            if out:
                assert found is result
                assert read[0].tolist() == [2 * turn] * 12
            else:
                assert found.numpy().tolist() == [2 * turn] * 12


def test_memory_that_others_use_in_a_stream_is_taken_by_its_addresses(
    driver: CardDriver, context: tileir.Context
) -> None:
    w, value, result = (aligned(np.eye(4, dtype=np.float32) * each) for each in (2, 3, 0))
    many = tileir.compile(chain(3), [w, w], context=context)
    places = [array.ctypes.data for array in (value, w, result)]
    assert not many.run_at(places)  # a card's memory is no host's
    for turn in range(1, 5):
        stream = driver.streams[1]
        stream.add(lambda turn=turn: value.__setitem__(..., np.eye(4, dtype=np.float32) * turn))  # type: ignore[misc]
        driver.calls.clear()
        assert many.run_at(places, 1)
        assert "cuStreamSynchronize" not in driver.calls
        read: list[np.ndarray[Any, Any]] = []
        stream.add(lambda read=read: read.append(result.copy()))  # type: ignore[misc]
        while stream.pieces:
            stream.step()
        np.testing.assert_array_equal(read[0], np.eye(4) * turn * 8)
    assert driver.calls.count("cuGraphLaunch") == 1
    assert not many.run_at([*places[:2], 0], 1)
    assert not many.run_at([*places[:2], places[2] + 2], 1)


@pytest.mark.parametrize("reads", [True, False])
def test_who_is_given_memory_comes_behind_calls_that_use_it(
    driver: CardDriver, context: tileir.Context, reads: bool
) -> None:
    add, a, b = tileir.jit(ADD, context=context), there(X, context), there(X, context)
    add(a, b)
    result = add(a, b)
    address = a.home.executor.address(a.memory())  # type: ignore[attr-defined]  # it shares memory
    if reads:
        capsule: object = a.__dlpack__(stream=1, max_version=(1, 0))
    else:
        capsule = a.__cuda_array_interface__
    stream = driver.streams[1]
    stream.add(lambda: void(ctypes.memset(address, 0, X.nbytes)))
    while stream.pieces:
        stream.step()
    np.testing.assert_array_equal(result.numpy(), X * 2)
    np.testing.assert_array_equal(a.numpy(), X * 0)
    del capsule


def test_streams_of_two_executors_keep_their_order(context: tileir.Context) -> None:
    """Each has a queue; what uses arrays of the other one follows all that is in its queue."""
    one = tileir.jit(ADD, context=context)
    other = tileir.jit(ADD, context=context, options=tileir.Options(fast_math=True))
    a, b = there(X, context), there(X * 2, context)
    np.testing.assert_array_equal(other(a, b).numpy(), X * 3)
    for _ in range(3):
        sums = one(a, b)
        other(b, b, out=a)  # writes what the call before reads
        again = one(a, sums)
        other(again, sums, out=b)
        one(a, a, out=again)
        for found, wanted in ((sums, X * 3), (a, X * 4), (b, X * 10), (again, X * 8)):
            np.testing.assert_array_equal(found.numpy(), wanted)
        a, b = there(X, context), there(X * 2, context)


def test_what_the_driver_refuses_is_told(driver: CardDriver, context: tileir.Context) -> None:
    add, a = tileir.jit(ADD, context=context), there(X, context)
    before = add(a, a)
    for status, code in ((Result.CUDA_ERROR_INVALID_VALUE, "TIL804"), (Result.CUDA_ERROR_UNKNOWN, "TIL808")):
        driver.refusals["cuLaunchKernel"] = [status]
        with pytest.raises(tileir.BackendError, match="kernel") as error:
            add(a, a)
        assert error.value.diagnostics[0].code == code
        assert status.name in str(error.value)
    np.testing.assert_array_equal(add(before, a).numpy(), X * 3)


def test_a_card_that_fails_says_so_to_all_who_ask() -> None:
    with without_a_card() as (driver, context):
        add, a = tileir.jit(ADD, context=context), there(X, context)
        results, pending = [add(a, a) for _ in range(3)], add.submit(a, a)
        driver.lost = Result.CUDA_ERROR_ILLEGAL_ADDRESS
        for ask in (results[2].numpy, results[0].numpy, pending.wait, pending.result, lambda: add(a, a)):
            with pytest.raises(tileir.BackendError, match="lost") as error:
                ask()
            assert error.value.diagnostics[0].code == "TIL808"
        assert isinstance(pending.exception(), tileir.BackendError)


def test_memory_comes_back(driver: CardDriver, context: tileir.Context) -> None:
    add, a = tileir.jit(ADD, context=context), there(X, context)
    for _ in range(3):
        result = add(a, a)
    gc.collect()
    driver.calls.clear()
    for _ in range(50):
        result = add(result, a)
    assert driver.calls == ["cuLaunchKernel"] * 50
    result.free()
    with pytest.raises(tileir.ArgumentError, match="TIL715"):
        add(result, a)


def test_a_closed_context_refuses_and_its_arrays_stay() -> None:
    with without_a_card() as (_, context):
        a = there(X, context)
        add = tileir.compile(ADD, [a, a], context=context)
        result = add(a, a)
        context.close()
        np.testing.assert_array_equal(result.numpy(), X * 2)
        with pytest.raises(tileir.BackendError, match="TIL807"):
            add(a, a)


def test_several_results(context: tileir.Context) -> None:
    both, a, b = tileir.jit(TWO, context=context), there(X, context), there(X + 1, context)
    for _ in range(2):
        total, product = both(a, b)
        np.testing.assert_array_equal(total.numpy(), X * 2 + 1)
        np.testing.assert_array_equal(product.numpy(), X * (X + 1))
        rooms = there(X, context), there(X, context)
        assert both(a, b, out=rooms)[1] is rooms[1]
        np.testing.assert_array_equal(rooms[1].numpy(), X * (X + 1))
