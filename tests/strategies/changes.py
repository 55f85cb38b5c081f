"""Changes of each pass and each schedule step in a small program: the files that the manual shows.

A file says in lines that begin with ``#`` a program in Tile, its inputs, passes that run before, and those that it is
about; the lines after these are what they change in the text of the Stripe program.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING

import attrs
import numpy as np

import tileir
from strategies.catalogue import parse_pipeline
from strategies.sources import ROOT
from tileir.core.dtype import DType
from tileir.passes.base import run
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from pathlib import Path

    from tileir.passes.base import Pass
    from tileir.stripe.ir import Program

FOLDER = ROOT / "docs" / "changes"
"""A folder of files for passes, and one for steps, each called as what it is about."""


@attrs.frozen
class Change:
    """A program before and after some passes.

    Attributes:
        header: The lines that say what is shown.
        passes: The passes, the last of which the file is about.
        before: The program that they get.
        lines: What they change, as the file has it.
    """

    header: tuple[str, ...]
    passes: tuple[Pass, ...]
    before: Program
    lines: tuple[str, ...]

    def found(self) -> tuple[str, ...]:
        """Return what the passes change: lines that go and come, and two around them."""
        before, after = to_text(self.before, "seed"), to_text(run(self.passes, self.before), "seed")
        changed = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[3:]
        return tuple("..." if line.startswith("@@") else line for line in changed)


def change_of(path: Path) -> Change:
    """Return what a file tells."""
    lines = path.read_text(encoding="utf-8").splitlines()
    header = tuple(line for line in lines if line.startswith("#"))
    said = re.fullmatch(
        r"(?P<tile>.*?)\nwith (?P<inputs>.*?)(\nafter (?P<first>.*?))?\npasses (?P<shown>.*)",
        "\n".join(line.removeprefix("# ") for line in header),
        re.DOTALL,
    )
    assert said is not None, path
    types: dict[str, TensorType] = {}
    bound: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]] = {}
    for name, dtype, value in re.findall(r"(\w+)=(\w*)(\[.*?\])", said["inputs"]):
        if dtype:
            types[name] = TensorType(DType(dtype), tuple(json.loads(value)))
        else:
            array = np.array(json.loads(value))
            bound[name] = array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
    program = lower(infer(tileir.bind(said["tile"], bound), types))
    before = run(parse_pipeline(said["first"]), program) if said["first"] else program
    return Change(header, parse_pipeline(said["shown"]), before, tuple(lines[len(header) :]))
