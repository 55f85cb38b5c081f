from __future__ import annotations

import pytest

from tileir.driver.explanation_text import count_text, seconds_text, size_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (3 << 20, "3 MiB"), (200 << 30, "200 GiB")],
)
def test_sizes_are_binary(count: int, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (0.25, "0.25"), (999, "999"), (1000, "1k"), (2147483648, "2.15G"), (9.6e12, "9.6T")]
)
def test_counts_are_decimal(count: float, text: str) -> None:
    assert count_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0"), (2.5e-9, "2.5 ns"), (1e-6, "1 us"), (0.0123, "12.3 ms"), (90.0, "90 s")]
)
def test_times_have_a_unit(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
