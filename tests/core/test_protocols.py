"""Optional parts that are misspelt, or of which a half is missing, are told."""

from __future__ import annotations

from typing import ClassVar, Protocol

import pytest

from tileir.core.protocols import members, mistakes
from tileir.passes.base import Pass
from tileir.passes.offers import OFFERS
from tileir.passes.pipelines.catalog import PASSES


class Worker(Protocol):
    name: str

    def work(self) -> None: ...


class Eager(Protocol):
    hurries: bool


class Batching(Protocol):
    batches: bool

    def batch(self) -> None: ...


class Resting(Worker, Protocol):
    def rest(self) -> None: ...


class PairBatching(Batching, Protocol):
    pairs: bool


OPTIONAL = (Eager, Resting, Batching, PairBatching)


def test_members_are_those_of_all_protocols() -> None:
    assert members(Worker) == ("work", "name")
    assert set(members(PairBatching)) == {"pairs", "batch", "batches"}


class Plain:
    name = "plain"
    harbours = ("wismar",)  # not alike enough

    def work(self) -> None: ...


class Complete(Plain):
    hurries = True
    batches = True

    def batch(self) -> None: ...


class Misspelt(Plain):
    hurrie = True


class Half(Plain):
    def batch(self) -> None: ...


class LonePair(Plain):
    pairs = True


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Plain(), []),
        (Complete(), []),
        (Misspelt(), ["Misspelt has 'hurrie', which is not used; did you mean 'hurries'?"]),
        (Half(), ["Half has 'batch', not used without 'batches': see Batching"]),
        (LonePair(), ["LonePair has 'pairs', not used without 'batch' and 'batches': see PairBatching"]),
    ],
)
def test_mistakes(value: object, expected: list[str]) -> None:
    assert list(mistakes(value, Worker, OPTIONAL)) == expected


@pytest.mark.parametrize("kind", PASSES, ids=lambda kind: kind.name)
def test_no_pass_of_tileir_misspells_one(kind: type[Pass]) -> None:
    assert not list(mistakes(kind, Pass, OFFERS))


def test_classes_are_looked_at_as_their_objects() -> None:
    class Other:
        name: ClassVar[str] = "other"
        see_loops: ClassVar[bool] = True

    assert list(mistakes(Other, Pass, OFFERS)) == [
        "Other has 'see_loops', which is not used; did you mean 'sees_loops'?"
    ]
