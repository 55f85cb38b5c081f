"""Report of the benchmark of cards about copies; its figures need a card, the report does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cards


def row(name: str, seconds: float, copy: float | None = None) -> dict[str, Any]:
    """Return what was measured of a program of which PyTorch takes a microsecond."""
    found = {"workload": name, "group": "memory", "torch": 1e-6, "tileir": seconds, "kernels": 1, "operations": 0.0}
    return found | {"error": 0.0} | ({} if copy is None else {"copy": copy})


def test_programs_that_memory_bounds_are_told_beside_a_copy() -> None:
    rows = [row("sum", 4e-6, 2e-6), row("softmax", 2e-6, 2e-6), row("scale", 2e-6, 1.9e-6), row("product", 1e-6)]
    failed = {"workload": "transpose", "group": "memory", "torch": 1e-6, "failed": "TIL804"}
    lines = list(cards.summary([*rows, failed]))
    assert lines[-2:] == ["beside a copy: 0.78 of 3, 1 under 0.9", "0.50 sum"]
    assert "beside" not in "".join(cards.summary([rows[-1], failed]))
    assert "0.50 copy" in cards.told(rows[0])
    assert "copy" not in cards.told(rows[-1])


@pytest.mark.parametrize(("moved", "half"), [(1 << 20, 1 << 19), (13, 6), (1, 1)])
def test_a_copy_reads_half_of_what_it_moves_and_writes_the_other(moved: int, half: int) -> None:
    copied: list[int] = []
    times = iter([90.0, 80.0, 5.0, 7.0, 6.0])  # milliseconds; two runs come before those that count

    class Tensor:
        def __init__(self, size: int) -> None:
            self.size = size

        def copy_(self, other: Tensor) -> None:
            assert other is not self
            assert other.size == self.size
            copied.append(self.size)

        def zero_(self) -> None:
            """Sweep the caches."""

    class Event:
        def record(self) -> None:
            """Be done at once."""

        def synchronize(self) -> None:
            """Be done at once."""

        def elapsed_time(self, end: Event) -> float:
            assert end is not self
            return next(times)

    def made(size: int, dtype: object, device: str) -> Tensor:
        assert (dtype, device) == (np.int8, "cuda")
        return Tensor(size)

    card = SimpleNamespace(Event=lambda enable_timing: Event() if enable_timing else None, _sleep=lambda _: None)
    torch = SimpleNamespace(zeros=made, empty=made, int8=np.int8, cuda=card)
    # Modules can be keys of a cache; these cannot.
    assert cards.copy_time.__wrapped__(torch, moved, 3) == pytest.approx(6e-3)
    assert copied == [half] * 5
