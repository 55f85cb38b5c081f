from __future__ import annotations

import gc

import attrs

from strategies.processes import in_forked_child
from tileir.core.process.forking import Renewable


@attrs.define(eq=False)
class Counter(Renewable):
    renewed: int = 0

    def renew(self) -> None:
        self.renewed += 1


def test_what_lives_is_renewed_in_the_child_alone() -> None:
    counter = Counter()
    assert in_forked_child(lambda: counter.renewed == 1)
    assert counter.renewed == 0


def test_what_is_dead_is_forgotten() -> None:
    renewed: list[int] = []

    @attrs.define(eq=False)
    class Noted(Renewable):
        def renew(self) -> None:
            renewed.append(1)

    Noted()
    gc.collect()
    assert in_forked_child(lambda: renewed == [])
