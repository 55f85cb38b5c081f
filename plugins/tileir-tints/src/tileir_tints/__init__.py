"""Functions for formulas of tileir: tinted pictures."""

from pathlib import Path
from typing import Final

FUNCTIONS: Final = (Path(__file__).parent / "tints.tile").read_text(encoding="utf-8")
"""Target of the entry point: the text of a file of functions."""
