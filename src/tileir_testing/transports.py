"""The conformance kit of transports: what an engine of ``tileir.transports`` must do, on as many ranks as there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tileir.core import Aggregation, BackendError, DType
from tileir.driver.distribution.engines import wrong_engine

if TYPE_CHECKING:
    from tileir.runtime.transports import Engine, Transport

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MERGED: Final = (DType.BOOL, DType.I8, DType.U8, DType.I32, DType.U32, DType.I64, DType.U64, DType.F32, DType.F64)
"""Dtypes that values are merged in."""


def check_transport(engine: Engine, size: int) -> None:
    """Check an engine: its form, and what each method of its transports does, on a number of ranks.

    Every process of an engine of processes calls this. Groups are all ranks, and those of equal parity; arrays are
    empty, small, and larger than what systems hold for a receiver that is late.

    Args:
        engine: What the entry point names.
        size: How many ranks there are.

    Raises:
        AssertionError: It is no engine, or a method does something else.

    """
    fault = wrong_engine(engine.name if hasattr(engine, "name") else "")(engine)
    assert fault is None, f"the transport {fault}"
    for check in (_exchanges, _gathers, _merges):
        found = engine.launch(size, check)
        assert found, "no rank is in this process"
        assert all(value is None for value in found.values()), "a rank returns something else than its work"
    ranks = engine.launch(size, lambda end: (end.rank, end.size))
    assert all(value == (rank, size) for rank, value in ranks.items()), f"ranks call themselves otherwise: {ranks}"


def check_failure(engine: Engine, size: int) -> None:
    """Check that a rank that fails ends all, and is named: for engines that outlive it, as those of threads do.

    Raises:
        AssertionError: The others wait, or the error is another one.

    """

    def work(end: Transport) -> None:
        if end.rank == size - 1:
            raise ValueError("this rank was told to fail")
        end.exchange([], [(size - 1, np.empty(1))])

    try:
        engine.launch(size, work)
    except BackendError as error:
        told = error.diagnostics[0]
        assert told.code == "TIL814", f"the code is {told.code}"
        assert f"rank {size - 1}" in told.message, f"the rank is not named: {told.message}"
        assert "told to fail" in told.message, f"its error is not told: {told.message}"
    else:
        raise AssertionError("a rank failed, and nobody was told")


def _groups(end: Transport) -> tuple[tuple[int, ...], ...]:
    everyone = tuple(range(end.size))
    return everyone, tuple(rank for rank in everyone if rank % 2 == end.rank % 2)


def _of(rank: int, count: int, dtype: DType = DType.I64) -> Array:
    """Return what a rank sends: small whole numbers, others on each rank."""
    return ((np.arange(count) * 3 + rank * 5) % 7).astype(dtype.numpy)


def _equal(what: str, left: Array, right: Array) -> None:
    same = left.dtype == right.dtype and np.array_equal(left, right)
    assert same, f"{what} gives {left!r}, not {right!r}"


def _exchanges(end: Transport) -> None:
    """Send to all others, itself excepted, twice in one order, and in a ring with large messages."""
    others = [rank for rank in range(end.size) if rank != end.rank]
    for count in (0, 1, 1000):
        sent = [(rank, _of(end.rank + step, count)) for step in (0, 1) for rank in others]
        received = [(rank, np.empty(count, np.int64)) for _ in (0, 1) for rank in others]
        end.exchange(sent, received)
        for number, (rank, array) in enumerate(received):
            _equal("exchange", array, _of(rank + (number >= len(others)), count))
    if others:
        after, before = (end.rank + 1) % end.size, (end.rank - 1) % end.size
        large = np.empty(1 << 20, np.int64)
        end.exchange([(after, _of(end.rank, 1 << 20))], [(before, large)])
        _equal("exchange", large, _of(before, 1 << 20))
    end.exchange([], [])


def _gathers(end: Transport) -> None:
    """Gather parts of other sizes, of every dtype, empty ones among them."""
    for group in _groups(end):
        for dtype in DType:
            parts = [np.empty(rank, dtype.numpy) for rank in group]
            end.all_gather(_of(end.rank, end.rank, dtype), parts, group)
            for rank, part in zip(group, parts, strict=True):
                _equal("all_gather", part, _of(rank, rank, dtype))


def _merges(end: Transport) -> None:
    """Merge in every dtype by every aggregation; results are compared with those of all arrays one after the other."""
    merges: Sequence[tuple[Aggregation, Callable[[Array, Array], Array]]] = (
        (Aggregation.SUM, np.add),
        (Aggregation.PROD, np.multiply),
        (Aggregation.MAX, np.maximum),
        (Aggregation.MIN, np.minimum),
    )
    for group in _groups(end):
        for dtype in _MERGED:
            for how, merge in merges[2 if dtype is DType.BOOL else 0 :]:
                for shape in ((), (0,), (5,), (3, 1, 7)):
                    arrays = [_of(rank, int(np.prod(shape)), dtype).reshape(shape) for rank in group]
                    expected = arrays[0]
                    for array in arrays[1:]:
                        expected = np.asarray(merge(expected, array))
                    own = arrays[group.index(end.rank)]
                    _equal(f"all_reduce by {how.value}", end.all_reduce(own.copy(), how, group), expected)
                rows = [[_of(rank + other, other, dtype) for other in group] for rank in group]
                mine = group.index(end.rank)
                wanted = rows[0][mine]
                for row in rows[1:]:
                    wanted = np.asarray(merge(wanted, row[mine]))
                _equal(f"reduce_scatter by {how.value}", end.reduce_scatter(rows[mine], how, group), wanted)
    nans = np.array([np.nan if end.rank == 0 else 1.0, 1.0])
    for how in (Aggregation.MAX, Aggregation.MIN):
        found = end.all_reduce(nans.copy(), how, tuple(range(end.size)))
        kept = np.array_equal(found, [np.nan, 1.0], equal_nan=True)
        assert kept, f"all_reduce by {how.value} loses NaN: {found}"
