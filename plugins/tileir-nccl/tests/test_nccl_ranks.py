"""Ranks whose arrays are on devices: the kit of transports over recorded calls of NCCL, and what fails."""

from __future__ import annotations

import re
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tileir
from nccl_fake import Fake
from tileir.core import Aggregation, BackendError
from tileir.runtime.devices.array import DeviceArray
from tileir.runtime.transports import THREADS, LostError, Transport
from tileir_testing.transports import check_transport

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = "function (A[M, N]) -> (B) { B[i, j : M, N] = +(A[i + k - 1, j]), k < 3; }"


@pytest.fixture
def fake() -> Iterator[Fake]:
    """NCCL that is not there: modules that import it are loaded anew, and forgotten."""
    with pytest.MonkeyPatch.context() as patch:
        made = Fake()
        made.install(patch)
        yield made
    for name in [name for name in sys.modules if name.startswith("tileir_nccl")]:
        del sys.modules[name]


class Together:
    """Ranks as threads of this process, which meet as processes do."""

    name = "nccl"

    def __init__(self, size: int, **options: Any) -> None:
        from tileir_nccl import Cards, Start
        from tileir_nccl.meeting import hub_at

        port, devices = hub_at("127.0.0.1", 0), ["llvm.0"] * size
        starts = [Start(rank, size, rank, port=port) for rank in range(size)]
        self.ranks = [Cards(start=start, devices=devices, **options) for start in starts]

    def launch(self, size: int, work: Any) -> Any:
        try:
            found = THREADS.launch(len(self.ranks), lambda end: self.ranks[end.rank].launch(size, work))
        except BackendError as error:
            raise error.__cause__ or error from None
        return {rank: result for each in found.values() for rank, result in each.items()}


@pytest.mark.parametrize("size", [1, 3])
def test_the_kit_of_transports(size: int, fake: Fake) -> None:
    check_transport(Together(size), size)
    assert size == 1 or {"send", "recv", "all_reduce", "reduce"} <= {call[0] for call in fake.calls}


def test_a_halo_is_one_group_of_messages_in_place(fake: Fake) -> None:
    array = np.arange(28, dtype=np.float32).reshape(7, 4)
    program = tileir.partition(TEXT, {"x": 2}, {"A": ("x", None)}, arguments=[array])
    run = tileir.distribute(program, Together(2))

    def work(end: Transport) -> Any:
        part = run.run(end, {"A": array[4 * end.rank : 4 + 3 * end.rank]})["B"]
        again = run.run(end, {"A": part})["B"]
        assert isinstance(again, DeviceArray)
        return again.numpy()

    found = run.engine.launch(2, work)
    right = tileir.evaluate(TEXT, [tileir.evaluate(TEXT, [array])])
    np.testing.assert_array_equal(np.concatenate([found[0], found[1]]), right)
    calls = [call for call in fake.calls if call[2] == 16]  # of rows: in each step both ranks send one, and get one
    for call in [("recv", 0, 16, 1, 0), ("recv", 1, 16, 0, 0), ("send", 0, 16, 1, 0), ("send", 1, 16, 0, 0)]:
        assert calls.count(call) == 2


@pytest.mark.parametrize(
    ("how", "dtype", "ordered", "found"),
    [
        (Aggregation.SUM, "f4", False, (7, 0)),
        (Aggregation.SUM, "f4", True, None),
        (Aggregation.PROD, "f8", False, (8, 1)),
        (Aggregation.MAX, "f4", False, None),  # NaN would be lost
        (Aggregation.MIN, "i8", True, (4, 3)),
        (Aggregation.SUM, "i2", False, None),
        (Aggregation.SUM, "?", True, (1, 2)),
        (Aggregation.PROD, "?", True, (1, 3)),
        (Aggregation.ASSIGN, "i4", False, None),
    ],
)
@pytest.mark.usefixtures("fake")
def test_merges_that_nccl_has(how: Aggregation, dtype: str, ordered: bool, found: tuple[int, int] | None) -> None:
    from tileir_nccl.transport import native

    assert native(how, np.dtype(dtype), ordered=ordered) == found


MERGED = """partition over x=2 {
  A at [x 0:4 4:8, 0:3]
  P at [0:3] sharing [i: x 0:4 4:8]
  Q at [0:3] sharing [i: x 0:4 4:8]
}
function (
  A: f32[8, 3],
) -> (B, C) {
  P: f32[3] = [j] +(A[i, j])
  Q: f32[3] = [j] +(A[i, j])
  B: f32[3] = all_reduce(P) over x from [0:3] to [0:3] by add
  C: f32[3] = all_reduce(Q) over x from [0:3] to [0:3] by add
}
"""


@pytest.mark.parametrize(("second", "in_place"), [("Q", [True, True]), ("P", [False, False])])
@pytest.mark.usefixtures("fake")
def test_merges_are_made_in_place_where_one_alone_needs_the_parts(
    second: str, in_place: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileir_nccl.transport import NCCLTransport

    found: list[bool] = []
    merged = NCCLTransport.merged

    def looked_at(self: Any, merges: Any, group: Any) -> bool:
        found.extend(each.parts[0] is each.result for each in merges if self.rank == 0)
        return merged(self, merges, group)

    monkeypatch.setattr(NCCLTransport, "merged", looked_at)
    text = MERGED.replace("all_reduce(Q)", f"all_reduce({second})")
    program: Any = tileir.parse(text, stage="partitioned")
    array = np.arange(24, dtype=np.float32).reshape(8, 3)
    for each in tileir.distribute(program, Together(2))(array):
        np.testing.assert_array_equal(each, array.sum(0))
    assert found == in_place


def test_products_are_merged_in_pieces(fake: Fake) -> None:
    """Pieces that all need are merged by NCCL; else each rank sends what the next one needs, and gets its own."""
    text = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
    a, b = (np.random.default_rng(number).integers(-3, 4, (1026, 1026)).astype(np.float32) for number in range(2))
    found = {}
    for rows in ((None, None), ("x", None)):
        cut = {"A": (None, "x"), "B": ("x", None)}
        program = tileir.partition(text, {"x": 3}, cut, outputs={"C": rows}, arguments=[a, b])
        fake.calls.clear()
        np.testing.assert_array_equal(tileir.distribute(program, Together(3))(a, b), a @ b)
        found[rows] = [call for call in fake.calls if call[1] == 0 and call[2] > 10_000]
    merges, messages = found.values()
    assert {call[0] for call in merges} == {"all_reduce"}
    assert len(merges) > 1
    assert sum(call[2] for call in merges) == 1026 * 1026
    part = 342 * 1026 * 4
    assert [call[:4] for call in messages] == [
        ("send", 0, part, 1), ("recv", 0, part, 2), ("send", 0, part, 2), ("recv", 0, part, 1)
    ]  # fmt: skip


@pytest.mark.usefixtures("fake")
def test_floats_are_merged_in_the_order_of_ranks_where_that_is_asked_for() -> None:
    array = np.asarray([[1e8], [1.0], [-1e8], [1.0]], np.float32)
    text = "function (A[M, N]) -> (B) { B[j : N] = +(A[i, j]); }"
    program = tileir.partition(text, {"x": 4}, {"A": ("x", None)}, arguments=[array])
    assert tileir.distribute(program, Together(4, ordered=True))(array) == tileir.distribute(program)(array)


def test_ranks_that_wait_for_one_that_is_late_give_up(fake: Fake) -> None:
    release = threading.Event()

    def work(end: Transport) -> None:
        end.place = f"halo {'HU'[end.rank]!r}"
        if end.rank == 1:
            release.wait()
        try:
            end.exchange([], [(1 - end.rank, np.empty(3))])
        finally:
            release.set()

    with pytest.raises(LostError, match=r"TIL816.*rank 0 waits in halo 'H' for . s: rank 1 is late, and has come to"):
        Together(2, late=0.1, timeout=0.3).launch(2, work)
    assert all(call[0] != "send" for call in fake.calls)


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("late", "timeout", "told"), [(3, 8, [4, 7]), (60, 300, [61, 121, 241]), (60, 30, [])])
def test_waiting_ends_when_its_time_is_over(
    late: float, timeout: float, told: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it was told before, and at the latest when others have not answered for a second."""
    from tileir_nccl import meeting

    now = 0.0
    monkeypatch.setattr(meeting, "time", SimpleNamespace(monotonic=lambda: now))
    others: Any = SimpleNamespace(late=late, timeout=timeout, rank=0, place="here", ask=id, described=lambda _: "late")
    patience = meeting.Lateness(others, begun=now)

    def wait() -> None:
        nonlocal now
        while now < 2 * timeout:
            now += 0.125
            patience.look([1])

    with pytest.raises(LostError, match=r"TIL816.*rank 0 waits in here"):
        wait()
    assert timeout < now < timeout + 1.5
    assert [int(re.findall(r"for (\d+) s", record.message)[0]) for record in caplog.records] == told


@pytest.mark.usefixtures("fake")
def test_a_rank_that_ends_is_missed() -> None:
    from tileir_nccl.meeting import Hub, Meeting

    hub = Hub("127.0.0.1", 0)
    ends = [Meeting(rank, 2) for rank in range(2)]
    for end in ends:
        end.connect("127.0.0.1", hub.port)
    other = threading.Thread(target=ends[1].share, args=("size", "3", (0, 1)))
    other.start()
    assert ends[0].share("size", "2", (0, 1)) == ["2", "3"]
    other.join()
    ends[1].leave()
    with pytest.raises(LostError, match=r"TIL814.*rank 1 has ended, and rank 0 waits in the start of a program"):
        ends[0].share("more", "", (0, 1))
    assert not hub.stay(0)
    ends[0].leave()
    assert hub.stay(60)


@pytest.mark.usefixtures("fake")
def test_a_rank_that_gives_up_raises_why_and_the_others_are_told() -> None:
    from tileir_nccl.meeting import Hub, Meeting

    hub = Hub("127.0.0.1", 0)
    ends = [Meeting(rank, 2) for rank in range(2)]
    for end in ends:
        end.connect("127.0.0.1", hub.port)
    ends[0].give_up("TIL816", "rank 1 is late")
    with pytest.raises(LostError, match=r"TIL816.*rank 1 is late"):
        ends[0].check(())
    ends[0].fail("rank 1 is late")
    with pytest.raises(LostError, match=r"TIL814.*rank 0 failed, and so the others stopped: rank 1 is late"):
        ends[1].share("size", "2", (0, 1))
    for end in ends:
        end.leave()


@pytest.mark.usefixtures("fake")
def test_ways_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileir_nccl import Cards, Start
    from tileir_nccl.engine import started

    assert started() is None
    given = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "there", "MASTER_PORT": "5000"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert started() == Start(3, 4, 1, "there", 5001)
    monkeypatch.setenv("TILEIR_PORT", "6000")
    assert started() == Start(3, 4, 1, "there", 6000)
    with pytest.raises(BackendError, match=r"TIL813.*rank 3 is number 1 of its host, which has 1 cards"):
        Cards(devices=["llvm.0"]).launch(4, lambda end: end.rank)


@pytest.mark.usefixtures("fake")
def test_ranks_of_a_process_that_is_alone_are_threads() -> None:
    from tileir_nccl import Cards

    array = np.arange(28, dtype=np.float32).reshape(7, 4)
    program = tileir.partition(TEXT, {"x": 2}, {"A": ("x", None)}, arguments=[array])
    found = tileir.distribute(program, Cards(devices=["llvm.0"]))(array)
    np.testing.assert_array_equal(found, tileir.evaluate(TEXT, [array]))


@pytest.mark.usefixtures("fake")
def test_ranks_that_differ_in_number() -> None:
    with pytest.raises(BackendError, match=r"TIL813.*for 3 ranks, and 2 were started: torchrun --nproc-per-node 3"):
        Together(2).launch(3, lambda end: end.rank)


def test_without_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileir_nccl import ENGINE

    empty: tuple[Any, ...] = ()
    monkeypatch.setattr("tileir.Context.devices", lambda _: empty)
    with pytest.raises(BackendError, match=r"TIL811.*NCCL needs NVIDIA GPUs, and there is none"):
        ENGINE.launch(2, lambda end: end.rank)
