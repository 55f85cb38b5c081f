"""Memory that pools of a card keep: it goes back with them, and where any pool finds no more."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from strategies.card_driver import Result, without_a_card
from tileir.runtime.offers import TrimmingExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from strategies.card_driver import CardDriver

    Card = tuple[CardDriver, tileir.Context, Callable[[int], Any]]

SIZE: Final = 1 << 20


@pytest.fixture
def card() -> Iterator[Card]:
    with without_a_card() as (driver, context):
        from tileir_cuda.run.memory import Pool

        def pool_of(number: int = 0) -> Any:
            stream: Any = SimpleNamespace(card=number, drain=lambda: None)
            return Pool(stream, 64 * SIZE)

        yield driver, context, pool_of


@pytest.mark.parametrize("shared", [False, True])
def test_what_a_pool_keeps_goes_back_with_it(card: Card, shared: bool) -> None:
    driver, _, pool_of = card
    pool = pool_of(0)
    buffers = [pool.take(SIZE) for _ in range(2)]
    for buffer in buffers:
        buffer.shared = shared
    del buffer, buffers
    gc.collect()
    assert len(driver.memory) == 2  # kept for the next ones
    del pool
    gc.collect()
    assert not driver.memory


def test_a_pool_lives_as_long_as_its_buffers(card: Card) -> None:
    driver, _, pool_of = card
    buffer = pool_of(0).take(SIZE)
    gc.collect()
    assert len(driver.memory) == 1
    del buffer
    gc.collect()
    assert not driver.memory


def test_a_pool_may_die_before_its_buffers(card: Card) -> None:
    """The collector of Python calls back for the pool first where both are in a cycle."""
    driver, _, pool_of = card
    cycle: list[Any] = [pool_of(0)]
    cycle += [cycle, *(cycle[0].take(SIZE) for _ in range(2))]
    cycle[-1].shared = True
    del cycle
    gc.collect()
    assert driver.calls.count("cuMemFree") == 2 - len(driver.memory)  # nothing twice


@pytest.mark.parametrize("closed", [False, True])
def test_a_context_that_is_dropped_leaves_no_memory_behind(card: Card, closed: bool) -> None:
    driver, context, _ = card
    own = tileir.Context(device_id="cuda.0", registry=context.registry, disk_cache=None)
    add = tileir.jit("function (A, B) -> (C) { C = A + B; }", context=own)
    there = tileir.to_device(np.arange(12, dtype=np.float32), context=own)
    kept = [add(there, there) for _ in range(3)]
    np.testing.assert_array_equal(kept[2].numpy(), 2 * np.arange(12, dtype=np.float32))
    assert driver.memory
    if closed:
        own.close()
    del own, add, there, kept
    gc.collect()
    assert not driver.memory


def test_what_others_keep_is_given_back_where_there_is_no_more(card: Card) -> None:
    driver, _, pool_of = card
    one, other, elsewhere = pool_of(0), pool_of(0), pool_of(1)
    kept = [one.take(SIZE), elsewhere.take(SIZE)]
    del kept
    gc.collect()
    assert one.spare_bytes == elsewhere.spare_bytes == SIZE
    driver.refusals["cuMemAlloc"] = [Result.CUDA_ERROR_OUT_OF_MEMORY]
    one.stream.drain = elsewhere.stream.drain = None  # their threads may wait for this pool, with their streams locked
    assert other.take(SIZE).nbytes == SIZE
    assert (one.spare_bytes, elsewhere.spare_bytes) == (0, SIZE)


def products(count: int) -> str:
    """Return products of which none is fused with another."""
    lines = "".join(f"T{n + 1}[i, j : N, N] = +(T{n}[i, k] * W[k, j]); " for n in range(count))
    return f"function (T0[N, N], W[N, N]) -> (T{count}) {{ {lines} }}"


@pytest.mark.sampled(0)
def test_temporaries_go_with_their_executable() -> None:
    with without_a_card() as (driver, context):
        a = tileir.to_device(np.eye(24, dtype=np.float32), context=context)
        many = tileir.compile(products(4), [a, a], context=context)
        assert many.memory.peak > 0
        for _ in range(3):
            many(a, a).numpy()
        context.trim()
        many(a, a).numpy()
        del many
        executor = a.home.executor
        assert isinstance(executor, TrimmingExecutor)
        assert executor.trim() > 0  # of pieces that nobody uses any more
        assert len(driver.memory) == 1  # the array


@pytest.mark.sampled(0)
def test_memory_is_given_back_when_somebody_asks() -> None:
    with without_a_card() as (driver, context):
        a = tileir.to_device(np.eye(24, dtype=np.float32), context=context)
        many = tileir.jit(products(4), context=context)
        for _ in range(3):
            many(a, a).numpy()
        used = len(driver.memory)
        assert tileir.trim() >= a.numpy().nbytes
        assert len(driver.memory) == 1  # the array
        assert context.trim() == 0
        np.testing.assert_array_equal(many(a, a).numpy(), np.eye(24))
        assert 1 < len(driver.memory) <= used
