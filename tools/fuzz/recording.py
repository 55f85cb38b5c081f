"""Choices that are written down, so that they can be made again, and simpler ones tried.

Each choice is kept as its distance from the least that it might have been. Less and fewer is simpler: a case shrinks
when its choices do (as in D. MacIver and A. Donaldson, "Test-Case Reduction via Test-Case Generation", ECOOP 2020).

Cases that failed once, as files: one JSON object for each, in a folder for each area.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from fuzz.area import Case
from tileir_testing.generated.choices import Choices, Seeded

T = TypeVar("T")

_SPANS: Final = (64, 16, 8, 4, 2, 1)


@attrs.define
class Recorded:
    """Choices of another source, or those made before; after the last of these, always the least."""

    source: Choices | None = None
    again: Sequence[int] = ()
    made: list[int] = attrs.field(factory=list, init=False)

    @classmethod
    def seeded(cls, seed: str) -> Recorded:
        """Return choices that depend on a seed alone."""
        return cls(Seeded(seed))

    def integer(self, least: int, most: int) -> int:
        """Choose an integer between two bounds, both included."""
        if self.source is not None:
            above = self.source.integer(0, most - least)
        else:
            place = len(self.made)
            above = min(self.again[place], most - least) if place < len(self.again) else 0
        self.made.append(above)
        return least + above

    def pick(self, options: Sequence[T]) -> T:
        """Choose one of some options; the first is the simplest."""
        return options[self.integer(0, len(options) - 1)]


def shrunk(made: Sequence[int], fails: Callable[[Recorded], bool], seconds: float) -> list[int]:
    """Return simpler choices with which something still fails, as far as a time allows.

    Args:
        made: Choices that fail.
        fails: Whether others do; exceptions count as no.
        seconds: After which to stop.

    """
    best, stop = list(made), time.monotonic() + seconds
    better = True
    while better and time.monotonic() < stop:
        better = False
        for attempt in _simpler(best):
            if time.monotonic() >= stop:
                break
            record = Recorded(again=attempt)
            try:
                still = fails(record)
            except Exception:  # what cannot even be made is no case
                continue
            if still and (len(record.made), record.made) < (len(best), best):
                best, better = record.made, True
                break
    return best


def _simpler(made: list[int]) -> Iterator[list[int]]:
    for span in _SPANS:
        for start in range(len(made) - span, -1, -span):
            yield made[:start] + made[start + span :]
    for place, value in enumerate(made):
        for less in dict.fromkeys((0, value // 2, value - 1)):
            if 0 <= less < value:
                yield [*made[:place], less, *made[place + 1 :]]


def save(folder: Path, area: str, case: Case, fault: str, found: str) -> Path:
    """Write a case, and return where it lies; the same case has the same name.

    Args:
        folder: The corpus.
        area: The area.
        case: What failed.
        fault: How.
        found: The options of the command that made the case.

    """
    text = json.dumps(case, sort_keys=True)
    path = folder / area / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"area": area, "fault": fault, "found": found, "case": case}
    path.write_text(json.dumps(entry, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    return path


def cases(folder: Path) -> Iterator[tuple[Path, str, Case]]:
    """Yield path, area and case of all entries, in the order of their paths."""
    for path in sorted(folder.glob("*/*.json")):
        entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        yield path, entry["area"], entry["case"]
