"""Table of the passes that kernels go through on processors and on cards, for ARCHITECTURE.md, from the target files.

    PYTHONPATH=src:src/backends python tools/kernel_passes.py

writes it anew, between the marks on that page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from tileir.core.targets.target import Target
from tileir.core.targets.target_file import with_facts
from tileir.passes.pipelines.catalog import PASSES, pipeline_for
from tileir.passes.pipelines.files import FILES

PAGE: Final = Path(__file__).parents[1] / "ARCHITECTURE.md"
TARGETS: Final = ("cpu", "gpu")
_MARKED: Final = re.compile(r"(?<=<!-- passes: tools/kernel_passes.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
_ROLE: Final = re.compile(r"(?::\w+:)?`+")
"""Marks of reStructuredText around code."""


def table() -> str:
    """Return the passes that the targets name, by room, with the numbers of their steps and the line of each."""
    steps = [[step.name for step in pipeline_for(with_facts(Target(pipeline=name)))] for name in TARGETS]
    rows = [("room", "pass", *TARGETS, "in one sentence"), ("---",) * (len(TARGETS) + 3)]
    for step in sorted(PASSES, key=lambda step: (FILES[step.name].split(".")[:-1], step.name)):
        if any(step.name in names for names in steps):
            room = FILES[step.name].rpartition(".")[0].replace(".", "/")
            numbers = (", ".join(str(at) for at, name in enumerate(names, 1) if name == step.name) for names in steps)
            sentence = " ".join((step.__doc__ or "").partition(".")[0].split())
            rows.append((room, f"`{step.name}`", *numbers, _ROLE.sub("`", sentence)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(page: str, content: str) -> str:
    """Return the text of a page with this between its marks."""
    return _MARKED.sub(lambda _: content, page)


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    if _MARKED.search(text) is None:
        sys.exit(f"{PAGE} has no marks for the table")
    PAGE.write_text(written(text, table()), encoding="utf-8")


if __name__ == "__main__":
    main()
