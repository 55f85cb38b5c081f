"""The conformance kit of transports: messages, collectives, partitioned programs, and failures of ranks.

An engine of threads runs all ranks in this process. One of processes is checked by each of them: under
``mpiexec -n 2``, for example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tileir import BackendError, DType, distribute, evaluate, partition
from tileir.core import Aggregation
from tileir.core.protocols import wrong_offer
from tileir.runtime.transports import DisagreementError, Engine, Transport, agree

Array = np.ndarray[Any, np.dtype[Any]]

_MERGED: Final = tuple(map(np.dtype, ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")))
_MOVED: Final = tuple(dtype.numpy for dtype in DType)
_MERGES: Final = {
    Aggregation.SUM: np.add,
    Aggregation.PROD: np.multiply,
    Aggregation.MAX: np.maximum,
    Aggregation.MIN: np.minimum,
}
_LENGTH: Final = 11
_LARGE: Final = 1 << 20
"""Elements of a message that systems do not hold for a receiver that is late."""

PROGRAMS: Final = (
    ("function (A[M, N]) -> (B) { B[i, j : M, N] = +(A[i + k - 1, j]), k < 3; }", ("x", None), ("x", None)),  # halo
    ("function (A[M, N]) -> (B) { B = A * 2; }", ("x", None), ("x", None)),  # all_gather of results
    ("function (A[M, N]) -> (B) { B = A * 2; }", ("x", None), (None, "x")),  # all_to_all
    ("function (A[M, N]) -> (B) { B[j : N] = +(A[i, j]); }", ("x", None), (None,)),  # all_reduce
    ("function (A[M, N]) -> (B) { B[j : N] = >(A[i, j]); }", ("x", None), ("x",)),  # reduce_scatter
    ("function (A[M, N]) -> (B) { B[i, j : M, N] = +(A[M - 1 - i, j]); }", ("x", None), ("x", None)),  # permute
)
"""Programs of each kind of collective, with the shardings of their input and result."""


def check_transport(engine: Engine, size: int = 2) -> None:
    """Check an engine between ranks: every collective, of every dtype, and failing or differing ranks.

    Args:
        engine: The object of the entry point.
        size: The number of ranks; an engine of processes must have been started with it.
    """
    fault = wrong_offer(Engine, getattr(engine, "name", ""))(engine)
    assert fault is None, f"the transport {fault}"
    _identities(engine, size)
    groups = [range(size), range(size)[::-1], range(0, size, 2), range(1, size, 2)]
    for group in [tuple(each) for each in groups if each]:
        for dtype in _MOVED:
            _moves(engine, size, group, dtype)
        for dtype in _MERGED:
            for how in _MERGES:
                _merges(engine, size, group, dtype, how)
    _order(engine, size)
    _beside(engine, size)
    _programs(engine, size)
    if size > 1:
        _differences(engine, size)
        _failures(engine, size)


def _launched(engine: Engine, size: int, work: Callable[[Transport], Any]) -> dict[int, Any]:
    found = dict(engine.launch(size, work))
    assert found, "launch returns nothing: it has results of the ranks in this process"
    return found


def _identities(engine: Engine, size: int) -> None:
    for rank, found in _launched(engine, size, lambda end: (end.rank, end.size)).items():
        assert found == (rank, size), f"rank {rank} of {size} has rank and size {found}"


def _values(dtype: np.dtype[Any], rank: int, length: int = _LENGTH) -> Array:
    """Return the numbers of a rank: their sums round for floats, and wrap for integers."""
    random = np.random.default_rng(rank)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, length, dtype, endpoint=True)
    if dtype.kind not in "f":  # bool, and floats that NumPy does not know
        return random.integers(0, 2, length).astype(dtype)
    found = random.standard_normal(length).astype(dtype)
    found[:1] = np.nan if rank == 1 else -0.0
    return found


def _equal(left: Array, right: Array) -> bool:
    """Return whether arrays have one dtype and shape, and the same bits but for those of NaN."""
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    if left.dtype.kind != "f":
        return left.tobytes() == right.tobytes()
    both = np.isnan(left) & np.isnan(right)
    return np.where(both, left.dtype.type(0), left).tobytes() == np.where(both, left.dtype.type(0), right).tobytes()


def _moves(engine: Engine, size: int, group: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Check messages and all_gather, of parts whose sizes differ, some of which are empty."""

    def work(end: Transport) -> tuple[list[Array], Array | None]:
        after, before = (end.rank + 1) % size, (end.rank - 1) % size
        passed = np.empty(_LENGTH, dtype)
        if size > 1:
            end.exchange([(after, _values(dtype, end.rank))], [(before, passed)])
        parts = [np.empty(rank, dtype) for rank in group]
        if end.rank in group:
            end.all_gather(_values(dtype, end.rank, end.rank), parts, group)
        return parts if end.rank in group else [], passed if size > 1 else None

    for rank, (parts, passed) in _launched(engine, size, work).items():
        for owner, part in zip(group, parts, strict=False):
            assert _equal(part, _values(dtype, owner, owner)), f"all_gather of {dtype}: rank {rank} has {part}"
        if passed is not None:
            right = _values(dtype, (rank - 1) % size)
            assert _equal(passed, right), f"exchange of {dtype}: rank {rank} has {passed}, not {right}"


def _merges(engine: Engine, size: int, group: Sequence[int], dtype: np.dtype[Any], how: Aggregation) -> None:
    """Check all_reduce and reduce_scatter: bits of merges in the order of the group; arrays without axes, and empty."""
    right = _values(dtype, group[0])
    with np.errstate(all="ignore"):
        for rank in group[1:]:
            right = np.asarray(_merge(how, right, _values(dtype, rank)), dtype)

    def work(end: Transport) -> tuple[Array, Array, Array, Array] | None:
        if end.rank not in group:
            return None
        own = _values(dtype, end.rank)
        shares = np.array_split(own, len(group))
        reduced = [end.all_reduce(part, how, group) for part in (own, own[1].reshape(()), own[:0].reshape(0, 3))]
        return reduced[0], end.reduce_scatter(shares, how, group), reduced[1], reduced[2]

    for rank, found in _launched(engine, size, work).items():
        if found is not None:
            share = np.array_split(right, len(group))[list(group).index(rank)]
            names = ("all_reduce", "reduce_scatter", "all_reduce", "all_reduce")
            merged = (right, share, right[1].reshape(()), right[:0].reshape(0, 3))
            for name, value, wanted in zip(names, found, merged, strict=True):
                assert _equal(value, wanted), f"{name} of {dtype} by {how.value}: rank {rank} has {value}, not {wanted}"


def _merge(how: Aggregation, left: Array, right: Array) -> Array:
    found: Array = _MERGES[how](left, right)
    return found


def _order(engine: Engine, size: int) -> None:
    """Check that messages between two ranks arrive in the order in which they were sent, and may be changed then."""

    def work(end: Transport) -> list[int]:
        others = [rank for rank in range(size) if rank != end.rank]
        numbered = [(number, rank) for number in range(4) for rank in others]
        lengths = (3, 0, 1, _LARGE)
        sent = [(rank, np.full(lengths[number], 10 * end.rank + number)) for number, rank in numbered]
        received = [(rank, np.empty(lengths[number], np.int64)) for number, rank in numbered]
        end.exchange(sent, received)
        for _, array in sent:
            array[...] = -1
        end.exchange([], [])
        return [int(array[-1]) - 10 * rank for rank, array in received if array.size]

    for rank, found in _launched(engine, size, work).items():
        right = [number for number in (0, 2, 3) for _ in range(size - 1)]
        assert found == right, f"rank {rank} got messages in the order {found}, not {right}"


def _beside(engine: Engine, size: int) -> None:
    """Check that exchanges that have begun end with their own messages, whichever is waited for first."""

    def work(end: Transport) -> list[int]:
        after, before = (end.rank + 1) % size, (end.rank - 1) % size
        received = [np.empty(_LARGE, np.int64) for _ in range(3)]
        sent = [np.full(_LARGE, 10 * end.rank + number) for number in range(3)]
        ends = [end.begin([(after, sent[number])], [(before, received[number])]) for number in range(2)]
        end.exchange([(after, sent[2])], [(before, received[2])])
        for wait in (*reversed(ends), *ends):
            wait()
        return [int(array[-1]) - 10 * before for array in received]

    for rank, found in _launched(engine, size, work).items() if size > 1 else ():
        assert found == [0, 1, 2], f"rank {rank} got messages of exchanges {found}, not [0, 1, 2]"


def _programs(engine: Engine, size: int) -> None:
    """Check partitioned programs of each kind of collective, on parts that do not come out even."""
    for text, sharding, target in PROGRAMS:
        for dtype in ("f32", "i32", "f16"):
            array = np.arange(7 * 5).reshape(7, 5).astype(DType(dtype).numpy) - 9
            program = partition(text, {"x": size}, {"A": sharding}, outputs={"B": target}, arguments=[array])
            found, right = distribute(program, engine)(array), evaluate(text, [array])
            assert _equal(found, right), f"{text} of {dtype} is {found}, not {right}"


def _refused(engine: Engine, size: int, work: Callable[[Transport], None]) -> BackendError:
    """Return the error that ends the work of all ranks."""
    try:
        engine.launch(size, work)
    except BackendError as error:
        return error
    raise AssertionError("ranks that fail, or differ, are not refused")


def _differences(engine: Engine, size: int) -> None:
    def work(end: Transport) -> None:
        agree(end, {"the weather": "rain" if end.rank == size - 1 else "sun", "the place": "here"})

    error = _refused(engine, size, work)
    right = isinstance(error, DisagreementError) and f"rank {size - 1} differs from rank 0 in the weather;" in str(
        error
    )
    assert right, f"ranks that differ are refused by {error}, not by the error that they raise"
    _identities(engine, size)


def _failures(engine: Engine, size: int) -> None:
    """Check that the error of a rank ends the wait of others, and that work can go on afterwards."""

    def work(end: Transport) -> None:
        if end.rank == size - 1:
            raise ValueError("no room")
        end.exchange([], [(size - 1, np.empty(1))])

    error = _refused(engine, size, work)
    right = error.diagnostics[0].code == "TIL814" and f"rank {size - 1} failed" in str(error)
    assert right, f"the failure of a rank is told as {error}"
    assert "ValueError: no room" in str(error), f"the error of a rank is not told by {error}"
    _identities(engine, size)
