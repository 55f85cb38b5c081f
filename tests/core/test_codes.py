"""The table of diagnostic codes."""

from __future__ import annotations

import re

from strategies.sources import PACKAGE, ROOT, python_files
from tileir.core.codes import CODES

SOURCES = {path: path.read_text(encoding="utf-8") for room in ("src", "plugins") for path in python_files(ROOT / room)}
USED = {
    code
    for path, text in SOURCES.items()
    if path != PACKAGE / "core/codes.py"
    for code in re.findall(r"TIL\d{3}", text)
}


def test_codes_are_sorted_and_well_formed() -> None:
    assert list(CODES) == sorted(CODES)
    assert all(re.fullmatch(r"TIL[1-9]\d\d", code) for code in CODES)
    assert all(meaning and not meaning.endswith(".") for meaning in CODES.values())


def test_every_code_that_is_used_is_listed_and_the_other_way_round() -> None:
    assert set(CODES) == USED
