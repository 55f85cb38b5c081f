"""Reports of the simulator Oclgrind while tests run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Reports:
    """Return Oclgrind's output since the last call."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self.seen = 0
        self.take()

    def take(self) -> str:
        """Return it."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        new, self.seen = text[self.seen :], len(text)
        return new.strip()
