"""Versions of Python that share the tests have them all together."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from strategies.effort import files_outside, spread
from strategies.processors import lacking
from tileir_llvm.device.processor import PROCESSORS

FILES = ["core/test_a.py", "passes/test_b.py", "passes/test_c.py", "semtree/test_d.py", "test_main.py"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_are_the_whole(count: int) -> None:
    kept = [set(FILES) - files_outside(f"{number}/{count}", FILES, ("core",)) for number in range(1, count + 1)]
    assert set().union(*kept) == set(FILES)
    assert sum(map(len, kept)) == len(FILES) + count - 1  # only what leans on Python is in all of them
    assert all("core/test_a.py" in part for part in kept)


def test_several_parts_are_together_what_each_has() -> None:
    first, others = (set(FILES) - files_outside(part, FILES, ("core",)) for part in ("1/3", "2,3/3"))
    assert first | others == set(FILES)
    assert first & others == {"core/test_a.py"}


def test_the_versions_of_a_plain_run_have_all_tests_together() -> None:
    commands = (Path(__file__).parents[2] / "tox.ini").read_text(encoding="utf-8")
    found = re.findall(r"^ *py31[123]: pytest .*--hypothesis-profile=(\w+) --part=(\S+)", commands, re.MULTILINE)
    assert len(found) == 3
    entire = ("passes/test_b.py", "core/test_a.py")
    kept = [
        set(FILES) - files_outside(part, FILES, ("core",), entire, brief=profile == "brief") for profile, part in found
    ]
    assert set().union(*kept) == set(FILES)
    assert sum(map(len, kept)) == len(FILES) + 2  # only what leans on Python is in all of them
    assert ["passes/test_b.py" in part for part in kept] == [profile != "brief" for profile, _ in found]


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9, 100])
def test_rows_of_long_tables_are_spread(count: int) -> None:
    rows = [str(number) for number in range(count)]
    found = [int(row) for row in spread(rows, 4)]
    assert len(found) == min(count, 4)
    steps = [after - before for before, after in itertools.pairwise([*found, count])]
    assert not found or (found[0] == 0 and max(steps) - min(steps) <= 1)


@pytest.mark.parametrize("part", ["0/2", "3/2", "1,3/2", "2", "1/", ",/2", "a/b"])
def test_no_part_of_any(part: str) -> None:
    with pytest.raises(ValueError, match="a part is"):
        files_outside(part, FILES, ())


@pytest.mark.parametrize(
    ("named", "host", "missing"),
    [
        ("x86-64-v3", "x86-64-v3", []),
        ("x86-64-v3", "x86-64-v4", ["avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"]),
        ("x86-64-v2", "x86-64-v3", ["avx", "avx2"]),
        ("x86-64-v4", "x86-64-v3", []),
    ],
)
def test_processors_differ_by_their_vectors(named: str, host: str, missing: list[str]) -> None:
    others = (*sorted(PROCESSORS[host]), "aes", "clwb")
    assert lacking(PROCESSORS[named], others) == missing
