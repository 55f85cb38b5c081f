"""Choice of a kernel's form of launch by measured times, however much other work delays some of them."""

from __future__ import annotations

import pytest

from tileir_llvm.run.sharing import BURST, MOST_LAUNCHES, Costs, Preference, Share, share_of


def preferring(shared: bool) -> Preference:
    return Preference(shared, 1, lambda _: None)


def launched(preference: Preference, count: int, alone: float, shared: float, waking: float = 0.0) -> list[bool]:
    """Return how each of some launches ran, which take so long; the first one that is shared takes more."""
    ways: list[bool] = []
    for _ in range(count):
        if preference.passes():
            ways.append(False)
            continue
        ways.append(preference.shares())
        asleep = ways[-2:-1] != [True]
        preference.note(shared + waking * asleep if ways[-1] else alone, shared=ways[-1])
    return ways


@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize(
    ("alone", "shared", "waking", "better"),
    [(1e-4, 7e-5, 0.0, True), (1e-4, 7e-5, 9e-5, True), (1e-4, 2e-4, 0.0, False), (1e-4, 9.8e-5, 0.0, False)],
)
def test_the_faster_way_is_found_whatever_was_estimated(
    estimate: bool, alone: float, shared: float, waking: float, better: bool
) -> None:
    ways = launched(preferring(estimate), 5000, alone, shared, waking)
    assert ways[0] == estimate
    late = ways[200:]
    assert 0 < late.count(not better) <= 0.06 * len(late)


def test_the_way_changes_when_the_machine_does() -> None:
    preference = preferring(True)
    assert launched(preference, 3000, 1e-4, 6e-5)[-20:].count(True) >= 12
    assert launched(preference, 3000, 1e-4, 3e-4)[-20:].count(False) >= 12
    assert launched(preference, 6000, 1e-4, 6e-5)[-20:].count(True) >= 12


@pytest.mark.parametrize("gain", [0.1, 0.25, 0.5])
def test_where_threads_were_busy_for_long_a_kernel_is_shared_again_soon(gain: float) -> None:
    preference = Preference(True, 1, lambda _: None, gain)
    assert launched(preference, 20_000, 1e-4, 3e-4)[-3 * BURST :].count(False) >= 2 * BURST
    ways = launched(preference, int(10 * BURST / gain) + 2 * BURST, 1e-4, 1e-4 * (1 - gain))
    assert ways[-4:] == [True] * 4
    assert ways.index(True) < MOST_LAUNCHES


def test_trials_of_threads_that_stay_busy_take_little() -> None:
    preference = Preference(True, 1, lambda _: None, 0.5)
    ways = launched(preference, 20_000, 1e-4, 2e-4)
    assert 0 < ways[1000:].count(True) <= len(ways) // 12


def test_the_first_launch_decides_nothing() -> None:
    preference = preferring(True)
    preference.shares()
    preference.note(1.0, shared=True)
    launched(preference, 200, 1e-4, 6e-5)
    assert preference.shared


def test_what_turns_out_to_be_certain_is_always_shared() -> None:
    preference = Preference(False, 1, lambda seconds: Share(3, seconds, pays=True, is_certain=True))
    ways = launched(preference, 3000, 1e-4, 5e-3)
    assert ways[:3] == [False] * 3
    assert all(ways[2 * BURST :])
    assert preference.helpers == 3


def test_helpers_go_by_what_a_kernel_took() -> None:
    known = Costs(1e-6, 2e-5)
    preference = Preference(False, 1, lambda seconds: share_of(seconds, 64, 16, lambda: known))
    launched(preference, 100, 9e-4, 1e-4)
    assert preference.shared
    assert preference.helpers > 1


@pytest.mark.parametrize("shared", [False, True])
def test_one_launch_that_others_delayed_decides_nothing(shared: bool) -> None:
    preference = preferring(shared)
    launched(preference, 3000, 1e-4, 6e-5 if shared else 2e-4)
    assert preference.shared == shared
    preference.note(5e-3, shared=shared)
    assert preference.shared == shared


@pytest.mark.parametrize(("alone", "shared"), [(1e-4, 6e-5), (1e-4, 2e-4)])
def test_launches_that_nobody_times_change_no_decision(alone: float, shared: float) -> None:
    preference = preferring(True)
    ways: list[bool] = []
    while len(ways) < 5000:
        resting = preference.rests()
        preference.rest(resting)
        ways += [preference.shared] * resting
        ways += launched(preference, 1, alone, shared)
    late = ways[200:]
    assert 0 < late.count(shared > alone) <= 0.06 * len(late)
    assert preference.shared == (shared < alone)
