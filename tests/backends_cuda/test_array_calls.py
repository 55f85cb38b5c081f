"""Calls that native code makes do and refuse what those made in Python do, on a driver that works as late as it may."""

from __future__ import annotations

import gc
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from strategies.card_driver import Result, aligned, without_a_card
from strategies.card_streams import Work
from strategies.exchanging import exchanging
from tileir.core.errors import TileError
from tileir.runtime.events import PendingEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strategies.card_driver import CardDriver

PROGRAMS = (
    "function (A, B) -> (C) { C = A + B; }",
    "function (A, B) -> (C, D) { C = A + B; D = A * B; }",
    "function (A[N], B[N]) -> (C) { S[0 : 1] = +(A[i] * B[i]); C = A * S + B; }",
    "function (A[N], B[N]) -> (E) { C[i : N] = +(A[i] * B[j]); D[i : N] = +(C[j] * B[i]); E[i : N] = >(D[j] * A[i]); }",
)
CUDA, OTHER = (2, 0), 9
X, Y = np.arange(1, 13, dtype=np.float32), np.linspace(-1, 2, 12, dtype=np.float32)


@pytest.fixture(scope="module")
def card() -> Iterator[tuple[CardDriver, tileir.Context]]:
    with without_a_card() as found:
        found[0].streams[OTHER] = Work()
        yield found


@pytest.fixture
def context(card: tuple[CardDriver, tileir.Context]) -> tileir.Context:
    return card[1]


class Lazy:
    """Tensors of libraries that record gradients, or change signs later."""

    requires_grad = False
    negative = False

    def is_neg(self) -> bool:
        return self.negative


TENSORS = {stream: exchanging(stream=stream) for stream in (1, OTHER)}
GRADED = type("Graded", (Lazy, exchanging(stream=1)), {})
GRADED.__dlpack_c_exchange_api__ = TENSORS[1].__dlpack_c_exchange_api__  # type: ignore[attr-defined]


def tensor(array: np.ndarray[Any, Any], stream: int = 1) -> Any:
    return TENSORS[stream](aligned(array), CUDA)


def graded(array: np.ndarray[Any, Any], **said: bool) -> Any:
    found: Any = GRADED(aligned(array), CUDA)
    for name, value in said.items():
        setattr(found, name, value)
    return found


def ours(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    return tileir.to_device(array, context=context)


def freed(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    found = ours(array, context)
    found.free()
    return found


def computed(array: np.ndarray[Any, Any], context: tileir.Context) -> Any:
    return tileir.jit(PROGRAMS[0], context=context)(ours(array, context), ours(array * 0, context))


def lent(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    found = ours(array, context)
    assert found.__dlpack__(stream=1, max_version=(1, 0)) is not None
    return found


def fixed(array: np.ndarray[Any, Any], context: tileir.Context) -> tileir.DeviceArray:
    found = ours(array, context)
    return tileir.DeviceArray(found.memory(), found.home, found.dtype, found.shape, True)


def awaiting(array: np.ndarray[Any, Any], context: tileir.Context, failure: BaseException | None = None) -> Any:
    found, event = ours(array, context), PendingEvent()
    found.await_call(event)
    if failure is None:
        threading.Timer(0.01, event.complete).start()
    else:
        event.fail(failure)
    return found


def failing(array: np.ndarray[Any, Any], context: tileir.Context) -> Any:
    return awaiting(array, context, ValueError("what was to write it failed"))


INPUTS: dict[str, Callable[[np.ndarray[Any, Any], tileir.Context], Any]] = {
    "ours": ours,
    "ours again": ours,
    "computed": computed,
    "read-only": fixed,
    "of the host": lambda array, _: array.copy(),
    "freed": freed,
    "of integers": lambda array, context: ours(array.astype(np.int32), context),
    "of another shape": lambda array, context: ours(array.reshape(3, 4), context),
    "too long": lambda array, context: ours(np.append(array, array), context),
    "lent": lent,
    "awaiting": awaiting,
    "failing": failing,
    "tensor": lambda array, _: tensor(array),
    "tensor in another stream": lambda array, _: tensor(array, OTHER),
    "tensor of another type": lambda array, _: graded(array),
    "recorded": lambda array, _: graded(array, requires_grad=True),
    "negative": lambda array, _: graded(array, negative=True),
    "tensor with gaps": lambda array, _: TENSORS[1](aligned(np.repeat(array, 2))[::2], CUDA),
    "tensor of doubles": lambda array, _: tensor(array.astype(np.float64)),
    "tensor of another card": lambda array, _: TENSORS[1](aligned(array), (2, 1)),
    "tensor between elements": lambda array, _: TENSORS[1](np.append(array, 0).view(np.uint8)[2:-2].view("f4"), CUDA),
}
OUTPUTS = ("none", "fresh", "ours", "read-only", "freed", "lent", "tensor", "fixed tensor", "the first", "of integers")


def output(kind: str, inputs: list[Any], context: tileir.Context) -> Any:
    zeros = np.zeros_like(X)
    match kind:
        case "tensor":
            return tensor(zeros)
        case "fixed tensor":
            room = aligned(zeros)
            room.flags.writeable = False
            return TENSORS[1](room, CUDA)
        case "the first":
            return inputs[0]
        case "of integers":
            return ours(zeros.astype(np.int32), context)
        case _:
            return INPUTS[kind](zeros, context)


def finish(driver: CardDriver) -> None:
    """Do all that was handed over."""
    for stream in driver.streams.values():
        while stream.pieces:
            stream.step()


def content(value: Any) -> Any:
    """Return the elements of a result."""
    if isinstance(value, tuple):
        return tuple(map(content, value))
    return value.numpy().tolist() if isinstance(value, tileir.DeviceArray) else np.asarray(value.array).tolist()


def outcome(
    executable: tileir.Executable[Any], kinds: tuple[str, str], into: str, card: tuple[CardDriver, tileir.Context]
) -> tuple[Any, ...]:
    """Return what a call gives, or which error it raises, and what is in its arrays afterwards."""
    driver, context = card
    try:
        given = [INPUTS[kind](array, context) for kind, array in zip(kinds, (X, Y), strict=True)]
        out = {} if into in ("none", "fresh") else {"out": output(into, given, context)}
        found = executable(*given, **out)
        if out:
            assert found is out["out"]
    except (TileError, ValueError) as error:
        codes = [each.code for each in error.diagnostics] if isinstance(error, TileError) else []
        return type(error), codes
    finish(driver)
    return type(found), found.tolist() if isinstance(found, np.ndarray) else content(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", PROGRAMS)
def test_odd_arrays_are_taken_as_in_python(text: str, card: tuple[CardDriver, tileir.Context]) -> None:
    context, draw = card[1], random.Random(0)
    types = {"A": "f32[12]", "B": "f32[12]"}
    native, slow = (tileir.compile(text, types, context=context) for _ in range(2))
    assert slow.usual is not None
    assert slow.usual.queued is not None
    object.__setattr__(slow.usual.queued, "_native", None)
    pairs = [(a, b) for a in INPUTS for b in INPUTS if "ours" in (a, b) or draw.random() < 0.2]
    for kinds in pairs:
        for into in draw.sample(OUTPUTS, 2):
            for _ in range(draw.choice((1, 1, 3))):
                wanted, found = (outcome(each, kinds, into, card) for each in (slow, native))
                assert found == wanted, (kinds, into)


def test_what_fits_takes_no_python(card: tuple[CardDriver, tileir.Context]) -> None:
    """So that the comparison above is one: these calls do not get to what is written in Python."""
    _, context = card
    types = {"A": "f32[12]", "B": "f32[12]"}
    for text in PROGRAMS:
        executable = tileir.compile(text, types, context=context)
        assert executable.usual is not None
        queued = executable.usual.queued
        assert queued is not None
        object.__setattr__(queued, "_runs", None)  # which calls by Python need
        for first in ("ours", "computed", "read-only", "tensor", "tensor of another type"):
            given = INPUTS[first](X, context), ours(Y, context)
            for _ in range(3):
                found = executable(*given)
            wanted = tileir.evaluate(text, [X, Y])
            for one, other in zip(
                *(each if isinstance(each, tuple) else (each,) for each in (found, wanted)), strict=True
            ):
                np.testing.assert_allclose(one.numpy(), other, rtol=1e-5)
            if not isinstance(found, tuple):
                for room in (ours(X, context), tensor(X)):
                    assert executable(*given, out=room) is room


def test_nothing_is_kept(card: tuple[CardDriver, tileir.Context]) -> None:
    """Calls, refusals and failures leave no object, and no reference, behind."""
    driver, context = card
    executable = tileir.compile(PROGRAMS[1], {"A": "f32[12]", "B": "f32[12]"}, context=context)
    a, b = ours(X, context), ours(Y, context)
    wrong, shared, other = ours(X.astype(np.int32), context), lent(X, context), tensor(X)
    objects = (a, b, a.memory(), b.memory(), a.dtype, a.home, executable.home, wrong, other, a.home.executor)

    def turn() -> None:
        executable(a, b)
        for odd in (wrong, shared):
            queued = executable.usual.queued  # type: ignore[union-attr]
            assert queued._native(a, odd) is None  # type: ignore[union-attr, misc]
        driver.refusals["cuLaunchKernel"] = [Result.CUDA_ERROR_ILLEGAL_ADDRESS]
        with pytest.raises(tileir.BackendError):
            executable(a, b)

    for _ in range(5):
        turn()
        finish(driver)
    gc.collect()
    driver.calls.clear()
    counts, blocks = [sys.getrefcount(each) for each in objects], sys.getallocatedblocks()
    for _ in range(50):
        turn()
    finish(driver)
    driver.calls.clear()
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 100
    for _ in range(50):
        executable(other, b)  # what the library of this test lends stays
    finish(driver)
    assert [sys.getrefcount(each) for each in objects] == counts


def test_memory_that_is_full_is_told(card: tuple[CardDriver, tileir.Context]) -> None:
    driver, context = card
    executable = tileir.compile(PROGRAMS[1], {"A": "f32[1000]", "B": "f32[1000]"}, context=context)
    a = ours(np.ones(1000, np.float32), context)
    kept = executable(a, a)
    driver.refusals["cuMemAlloc"] = [Result.CUDA_ERROR_OUT_OF_MEMORY] * 2
    with pytest.raises(tileir.BackendError, match="TIL708"):
        executable(a, a)
    assert [each.numpy()[0] for each in (*kept, *executable(a, a))] == [2, 1, 2, 1]


def test_a_closed_context_refuses(card: tuple[CardDriver, tileir.Context]) -> None:
    registry = card[1].registry
    with tileir.Context(device_id="cuda.0", registry=registry, disk_cache=None) as context:
        executable = tileir.compile(PROGRAMS[0], {"A": "f32[12]", "B": "f32[12]"}, context=context)
        a = ours(X, context)
        executable(a, a)
    with pytest.raises(tileir.BackendError, match="TIL807"):
        executable(a, a)


def test_threads_share_a_queue(card: tuple[CardDriver, tileir.Context]) -> None:
    """Each finds its own results, also with temporaries, graphs that change, and somebody who waits."""
    _, context = card
    executables = [tileir.compile(text, {"A": "f32[12]", "B": "f32[12]"}, context=context) for text in PROGRAMS]
    faults: list[object] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        mine = [(value, ours(np.full(12, value, np.float32), context)) for value in (seed, seed + 0.5)]
        rooms = [ours(X, context) for _ in range(3)]
        try:
            for _ in range(25):
                number = draw.randrange(len(PROGRAMS))
                (a, x), (b, y) = draw.choice(mine), draw.choice(mine)
                out = {"out": draw.choice(rooms)} if number != 1 and draw.random() < 0.5 else {}
                found = executables[number](x, y, **out)
                first = (found if isinstance(found, tuple) else (found,))[0]
                wanted = (a + b, a + b, a * (12 * a * b) + b, 0)[number]
                if number == 3:
                    wanted = 12 * b * (12 * a * b) * a
                if draw.random() < 0.5:
                    np.testing.assert_allclose(first.numpy(), wanted, rtol=1e-5)
        except BaseException as error:  # for the thread that asserts
            faults.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
