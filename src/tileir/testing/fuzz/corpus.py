"""Cases that failed once, as files: one JSON object for each, in a folder for each area."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tileir.testing.fuzz.area import Case


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
