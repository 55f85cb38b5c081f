"""Sharing kernels out to threads decides how long they take, and never what they compute."""

from __future__ import annotations

import ctypes
import math
import time
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.devices import buffers, compiler
from strategies.processes import in_forked_child
from tileir.core.errors import BackendError
from tileir.runtime.checks import sealed
from tileir.runtime.interface import Options
from tileir.runtime.plans.plan import Plan
from tileir.runtime.plans.resources import Resources
from tileir.semtree.cost import prediction
from tileir.semtree.text.parser import parse_kernel
from tileir_llvm.compiler import LARGE_OPERATIONS, SMALL_OPERATIONS
from tileir_llvm.run import sharing, team
from tileir_llvm.run.executor import LLVMExecutor
from tileir_llvm.run.library import NEEDS
from tileir_llvm.run.sharing import (
    ALWAYS_SECONDS,
    BURST,
    CERTAIN,
    HOPED_SECONDS,
    MARGIN,
    NEVER_SECONDS,
    PYTHON_SECONDS,
    Costs,
    Preference,
    measured_costs,
    share_of,
)
from tileir_llvm.run.team import Job, Jobs, NativeTeam

if TYPE_CHECKING:
    from tileir.semtree.ir import KernelFunction

FREE = Costs(-PYTHON_SECONDS, -PYTHON_SECONDS)
DEAR = Costs(1.0, 1.0)

seconds = st.floats(0, 2e-3)
costs = st.tuples(*[st.floats(1e-6, 3e-4)] * 2).map(lambda found: Costs(*sorted(found)))


def unasked() -> Costs:
    raise AssertionError


@given(seconds=seconds, groups=st.integers(1, 500), threads=st.integers(1, 70), known=costs, python=st.floats(0, 1e-5))
def test_what_is_shared_saves_more_than_it_costs(
    seconds: float, groups: int, threads: int, known: Costs, python: float
) -> None:
    share = share_of(seconds, groups, threads, lambda: known, python)
    if share is None:
        assert threads == 1 or groups == 1 or seconds < ALWAYS_SECONDS
        return
    assert 1 <= share.helpers < min(groups, threads)
    assert seconds >= NEVER_SECONDS
    assert share.seconds == seconds
    saved = seconds * (1 - math.ceil(groups / (share.helpers + 1)) / groups)
    if seconds >= ALWAYS_SECONDS:
        assert (share.is_certain, share.pays, share.helpers) == (True, True, min(groups, threads) - 1)
    else:
        assert saved > HOPED_SECONDS
        cost = known.of(share.helpers, threads) + python
        assert known.pair * (1 - 1e-9) <= cost - python <= known.all * (1 + 1e-9)
        assert share.pays == (saved - (1 + MARGIN) * cost > 0)
        assert share.is_certain == (saved - CERTAIN * cost > 0)
        assert share.gain == pytest.approx((saved - cost) / seconds)


@given(seconds=seconds, groups=st.integers(2, 500), threads=st.integers(2, 70), known=costs)
def test_costs_that_were_disturbed_make_nothing_certain(
    seconds: float, groups: int, threads: int, known: Costs
) -> None:
    share = share_of(seconds, groups, threads, lambda: known)
    disturbed = share_of(seconds, groups, threads, lambda: attrs.evolve(known, settled=False))
    assert (share is None) == (disturbed is None)
    if share is not None and disturbed is not None:
        assert disturbed == attrs.evolve(share, is_certain=seconds >= ALWAYS_SECONDS)


@given(seconds=seconds, groups=st.integers(2, 500), threads=st.integers(2, 70), known=costs, more=st.floats(0, 1e-4))
def test_dearer_threads_do_not_pay_more_often(
    seconds: float, groups: int, threads: int, known: Costs, more: float
) -> None:
    share = share_of(seconds, groups, threads, lambda: Costs(known.pair + more, known.all + more))
    if share is not None and threads == 2:
        cheaper = share_of(seconds, groups, threads, lambda: known)
        assert cheaper is not None
        assert cheaper.pays >= share.pays


@pytest.mark.parametrize(
    ("seconds", "groups", "threads", "helpers"),
    [
        (ALWAYS_SECONDS, 3, 2, 1),
        (ALWAYS_SECONDS, 3, 16, 2),
        (math.inf, 100, 16, 15),
        (ALWAYS_SECONDS, 1, 16, None),
        (ALWAYS_SECONDS, 16, 1, None),
        (NEVER_SECONDS / 2, 16, 16, None),
        (0.0, 16, 16, None),
    ],
)
def test_where_costs_do_not_matter_nobody_measures_them(
    seconds: float, groups: int, threads: int, helpers: int | None
) -> None:
    share = share_of(seconds, groups, threads, unasked)
    assert (None if share is None else share.helpers) == helpers
    assert share is None or share.is_certain


def test_few_threads_share_what_many_would_take_longer_for() -> None:
    known = Costs(1e-6, 6e-5)
    shares = [share_of(each, 64, 16, lambda: known) for each in (6e-6, 2e-5, 8e-5, 9e-4)]
    helpers = [share.helpers if share else 0 for share in shares]
    assert helpers == sorted(helpers)
    assert helpers[0] == 0
    assert 1 <= helpers[1] < helpers[3] <= 15
    assert [share.pays for share in shares if share][1:] == [True, True]


TEXTS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "product": (
        "function (A[I, L], B[L, J]) -> (C) { C[i, j : I, J] = +(A[i, l] * B[l, j]); }",
        [(150, 170), (170, 130)],
    ),
    "long sum": ("function (A[N]) -> (C) { C[] = +(A[i]); }", [(1_000_001,)]),
    "elements": ("function (A[N], B[N]) -> (C) { C = exp(A) / (1.0 + B * B); }", [(100_003,), (100_003,)]),
    "softmax": (
        "function (A[N, M]) -> (C) { X[i, 0 : N, 1] = >(A[i, j]); E = exp(A - X); "
        "S[i, 0 : N, 1] = +(E[i, j]); C = E / S; }",
        [(400, 333)],
    ),
    "running sums": ("function (A[N, M]) -> (C) { C[i, j : N, M] = +(A[i, j - k]), k < M; }", [(64, 5000)]),
    "loop": (
        "function (X[T, N], H[N]) -> (Z) { S = scan(H; X) function (A[N], B[N]) -> (C, D) "
        "{ C = sin(A) * 0.5 + exp(B); D = C * 2.0; }; Z = element(S, 1); }",
        [(5, 40_000), (40_000,)],
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("threads", [2, 5])
def test_results_are_the_same_bits_whether_kernels_are_shared_or_not(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[bool] = []
    run, run_all = NativeTeam.run, NativeTeam.run_all

    def counted(threads: NativeTeam, job: Job, helpers: int) -> None:
        launched.append(helpers > 0)
        run(threads, job, helpers)

    def counted_all(threads: NativeTeam, jobs: Jobs) -> None:
        launched.append(any((ctypes.c_int64 * jobs.count).from_address(jobs.helpers)))
        run_all(threads, jobs)

    monkeypatch.setattr(NativeTeam, "run", counted)
    monkeypatch.setattr(NativeTeam, "run_all", counted_all)
    text, shapes = TEXTS[name]
    program = tileir.compile(text, shapes, options=Options(threads=1)).sem
    library = compiler().build(program.kernels)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    results: list[list[bytes]] = []
    for known in (FREE, DEAR):
        launched.clear()
        executor = opened(threads)
        executor.pool.costs = known
        plan = Plan.of(program, library, Resources(executor))
        results.append([])
        for _ in range(3):
            outputs = plan.fresh_outputs()
            plan.run(arrays, outputs)
            results[-1].extend(each.tobytes() for each in outputs)
        assert (launched[:1] == [True]) == (known is FREE)
        executor.close()
    assert results[0] == results[1]


def opened(threads: int) -> LLVMExecutor:
    device = compiler().device
    return LLVMExecutor(attrs.evolve(device, target=attrs.evolve(device.target, threads=threads)), Options())


COUNTING = parse_kernel(
    "kernel count(inout i32 O[64] align(4) noalias, in i32 A[64] align(4) noalias) grid(64) "
    f"operations({SMALL_OPERATIONS}) {{ i64 at = group_id(0); i32 total = O[at]; "
    "for (i64 i = 0; i < 2000; i += 1) { total = total + A[at]; } O[at] = total; }"
)


@pytest.mark.parametrize("threads", [2, 5])
@given(
    whole=st.floats(4e-5, 1e-4),
    cost=st.floats(4e-6, 8e-6),
    delayed=st.lists(st.booleans(), min_size=20, max_size=20),
    delay=st.floats(1e-4, 5e-3),
)
def test_costs_are_what_launches_take_that_nothing_delays(
    threads: int, whole: float, cost: float, delayed: list[bool], delay: float
) -> None:
    now, delays, launches = [0.0], iter(delayed), []

    def launch(_groups: int, _arguments: bytes, helpers: int) -> None:
        launches.append((helpers, delay if next(delays) else 0.0))
        now[0] += whole / (helpers + 1) + cost + launches[-1][1]

    def alone(_groups: int, _arguments: bytes) -> None:
        now[0] += whole

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: now[0])
        known = measured_costs(launch, alone, threads)
    everyone = [late for helpers, late in launches[1:] if helpers == threads - 1]
    assert known.all == pytest.approx(1e-4 if all(everyone) else cost)
    assert known.pair <= known.all
    undisturbed = sorted(everyone)[len(everyone) // 2] == 0
    assert known.settled <= undisturbed
    assert threads > 2 or known.settled == undisturbed


def test_disturbed_costs_are_measured_again_and_settled_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Costs(1e-4, 1e-4, settled=False), Costs(5e-5, 5e-5, settled=False), Costs(1e-5, 1e-5)]
    measured = iter(found)
    monkeypatch.setattr(team, "measured_costs", lambda *_: next(measured))
    executor, now = opened(2), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    seen = []
    for moment in (0.0, 0.001, 0.06, 0.07, 10.0, 100.0):
        now[0] = moment
        executor.pool.share(2e-4, 64)
        seen.append(executor.pool.costs)
    assert seen == [found[0], found[0], found[1], found[1], found[2], found[2]]
    executor.close()


@pytest.mark.parametrize("threads", [2, 3, 9])
def test_costs_are_measured_once_by_the_first_kernel_that_asks(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Costs] = []
    measure = sharing.measured_costs

    def noted(*arguments: Any) -> Costs:
        measured.append(measure(*arguments))
        return measured[-1]

    monkeypatch.setattr(team, "measured_costs", noted)
    executor = opened(threads)
    library = compiler().build([attrs.evolve(COUNTING, operations=each) for each in (1, SMALL_OPERATIONS)])
    small, middle = (executor.prepare(library, number) for number in range(2))
    assert (small.share, measured) == (None, [])
    executor.pool.share(1e-4, 64)
    executor.pool.share(2e-4, 64)
    assert [executor.pool.costs] == measured
    (found,) = measured
    assert 0 < found.pair <= found.all
    values, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    for _ in range(5):
        middle.launch(buffers([out, values]))
    np.testing.assert_array_equal(out, values * 2000 * 5)
    assert len(measured) == 1
    executor.close()


def test_kernels_that_are_long_by_their_operations_are_not_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(kernel: KernelFunction, _: object) -> float:
        asked.append(kernel.operations)
        return 1e-5

    monkeypatch.setattr(prediction, "seconds_alone", noted)
    long, middle = LARGE_OPERATIONS - 1, SMALL_OPERATIONS
    library = compiler().build([attrs.evolve(COUNTING, operations=each) for each in (long, middle)])
    assert tuple(each.seconds for each in library.needs) == (ALWAYS_SECONDS, 1e-5)
    assert asked == [middle]


def test_a_child_measures_with_threads_of_its_own() -> None:
    executor = opened(3)
    assert in_forked_child(lambda: executor.pool.share(1e-4, 64) is None or executor.pool.costs is not None)
    executor.pool.share(1e-4, 64)
    assert in_forked_child(lambda: executor.pool.share(ALWAYS_SECONDS, 64) is not None)
    executor.close()


@pytest.mark.parametrize("helpers", [1, 3, 8])
def test_as_many_threads_work_as_a_kernel_wants(helpers: int) -> None:
    executor = opened(9)
    library = compiler().build([attrs.evolve(COUNTING, operations=LARGE_OPERATIONS)])
    kernel = executor.prepare(library, 0)
    values, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    arguments = kernel._packed(buffers([out, values]))
    for turn in range(60):
        assert executor.pool.launch(kernel.address, arguments, kernel.groups, 0, helpers)
        if turn % 3 == 0:
            time.sleep(0.001)  # all of them are asleep
    np.testing.assert_array_equal(out, values * 2000 * 60)
    executor.close()


def test_native_calls_are_for_what_is_better_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text, shapes = TEXTS["elements"]
    executor = opened(2)
    executor.pool.costs = DEAR
    program = tileir.compile(text, shapes, options=Options(threads=1)).sem
    plan = Plan.of(program, compiler().build(program.kernels), Resources(executor))
    timed: list[bool] = []
    note = Preference.note

    def noted(preference: Preference, seconds: float, *, shared: bool) -> None:
        timed.append(shared)
        note(preference, 1.0 if shared else 1e-5, shared=shared)

    monkeypatch.setattr(Preference, "note", noted)
    arrays = [np.linspace(-3, 3, math.prod(shape), dtype=np.float32) for shape in shapes]
    expected = plan.fresh_outputs()
    plan.run(arrays, expected)
    natively = 0
    for _ in range(200):
        outputs = plan.fresh_outputs()
        done = plan.run_as_they_are(arrays, outputs)
        assert done is not False  # which says that the arrays do not fit, and leads to conversions
        natively += done is True
        if done is None:
            plan.run(arrays, outputs)
        assert outputs[0].tobytes() == expected[0].tobytes()
    assert natively + len(timed) == 201
    assert 120 < natively < 190
    assert timed.count(True) % BURST == 0
    assert 0 < timed.count(True) <= BURST * 5
    executor.close()


def test_libraries_keep_what_kernels_take() -> None:
    library = compiler().build([attrs.evolve(COUNTING, operations=each) for each in (1, 10**6, LARGE_OPERATIONS)])
    assert library.needs[0].seconds == 0
    assert 0 < library.needs[1].seconds < library.needs[2].seconds
    parts = dict(library.save())
    assert compiler().load(library.kernels, parts).needs == library.needs
    for broken in (b"[1, 2", b"5", b'["a"]', b"[[]]", b"\xff", b"[1.0]", b"[[1.0, 0]]"):
        part = {name: data for name, data in parts.items() if name in ("llvm", "object")}
        with pytest.raises(BackendError, match="TIL806"):
            compiler().load(library.kernels, sealed({**part, NEEDS: broken}))
