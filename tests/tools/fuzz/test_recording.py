"""Choices that are made again, and made simpler."""

from __future__ import annotations

from fuzz.recording import Recorded, shrunk


def drawn(record: Recorded) -> list[int]:
    return [record.integer(5, 100) for _ in range(record.integer(0, 20))]


def test_choices_are_made_again() -> None:
    first = Recorded.seeded("a")
    values, picked = drawn(first), first.pick("abc")
    again = Recorded(again=first.made)
    assert (drawn(again), again.pick("abc")) == (values, picked)
    assert again.made == first.made


def test_after_the_last_choice_all_are_the_least() -> None:
    record = Recorded(again=[3, 1])
    assert drawn(record) == [6, 5, 5]
    assert record.pick("xyz") == "x"


def test_choices_beyond_their_bounds_are_the_greatest() -> None:
    assert Recorded(again=[7]).integer(1, 3) == 3


def test_failures_shrink_to_the_simplest() -> None:
    record = next(r for r in (Recorded.seeded(str(n)) for n in range(100)) if max(drawn(r), default=0) > 60)
    made = shrunk(record.made, lambda r: max(drawn(r), default=0) > 60, seconds=60)
    assert drawn(Recorded(again=made)) == [61]


def test_what_cannot_be_made_is_no_smaller_case() -> None:
    def fails(record: Recorded) -> bool:
        if record.integer(0, 9) < 4:
            raise ValueError("nothing of this size")
        return True

    assert shrunk([9], fails, seconds=60) == [4]
