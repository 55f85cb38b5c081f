"""Processes that a process starts, which find its modules as it does."""

from __future__ import annotations

import os
from pathlib import Path


def environment() -> dict[str, str]:
    """Return the environment variables of a child that imports modules of this folder."""
    paths = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
