"""One version of Python runs all tests, and the others those of what depends on it."""

from __future__ import annotations

import configparser
import re

import pytest

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
    assert {"all", "py{314,313,312,311}"} <= set(re.split(r",\s+", settings["tox"]["env_list"]))
    assert "-m python" in settings["testenv"]["commands"]
    assert "-m" not in settings["testenv:all"]["commands"].split()


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
