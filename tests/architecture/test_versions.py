"""Plain runs: all tests on one version of Python, those that depend on it on the others, and samples of long tables."""

from __future__ import annotations

import configparser
import itertools
import re

import pytest

from strategies.effort import spread
from strategies.processors import lacking
from strategies.sources import ROOT
from strategies.versions import PYTHON, TESTS, depends_on_python
from tileir_llvm.device.processor import PROCESSORS


def test_files_of_the_list_are_there() -> None:
    assert [each for each in PYTHON if not (TESTS / each).exists()] == []
    assert depends_on_python(TESTS / "runtime" / "devices" / "test_array.py")
    assert not depends_on_python(TESTS / "runtime_of_others.py")


def test_a_plain_run_has_all_tests() -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini", encoding="utf-8")
    assert {"all", "py{314,311}"} <= set(re.split(r",\s+", settings["tox"]["env_list"]))
    assert "-m python" in settings["testenv"]["commands"]
    assert "-m" not in settings["testenv:all"]["commands"].split()


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9, 100])
def test_sampled_rows_are_spread(count: int) -> None:
    found = spread(range(count), 4)
    assert len(found) == min(count, 4)
    steps = [after - before for before, after in itertools.pairwise([*found, count])]
    assert not found or (found[0] == 0 and max(steps) - min(steps) <= 1)


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
