"""Versions of Python that share the tests have them all together."""

from __future__ import annotations

import pytest

from strategies.effort import files_outside

FILES = ["core/test_a.py", "passes/test_b.py", "passes/test_c.py", "semtree/test_d.py", "test_main.py"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_are_the_whole(count: int) -> None:
    kept = [set(FILES) - files_outside(f"{number}/{count}", FILES, ("core",)) for number in range(1, count + 1)]
    assert set().union(*kept) == set(FILES)
    assert sum(map(len, kept)) == len(FILES) + count - 1  # only what leans on Python is in all of them
    assert all("core/test_a.py" in part for part in kept)


@pytest.mark.parametrize("part", ["0/2", "3/2", "2"])
def test_no_part_of_any(part: str) -> None:
    with pytest.raises(ValueError, match=r"a part is|not enough values"):
        files_outside(part, FILES, ())
