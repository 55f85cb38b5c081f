"""Programs whose results the typed interpreter gives."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs
import numpy as np

from tileir.driver.jit import evaluate
from tileir.testing.closeness import check_close
from tileir.tile.text.parser import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tileir.testing.closeness import Array


@attrs.frozen(eq=False)
class Evaluated:
    """A program and its arguments.

    Attributes:
        name: What to call it.
        text: A Tile function.
        inputs: The arguments.
        ulps: How far results may be off, by name; 0 for the others.

    """

    name: str
    text: str
    inputs: dict[str, Array] = attrs.field(repr=False)
    ulps: Mapping[str, float] = attrs.field(factory=lambda: MappingProxyType({}), repr=False)

    def check(self, actual: dict[str, Array]) -> None:
        """Compare results with the interpreter's."""
        names = [output.name for output in parse(self.text).outputs]
        results = evaluate(self.text, self.inputs)
        expected = dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))
        for name, result in expected.items():
            check_close(f"{name} of {self.text}\n", actual[name], np.asarray(result), self.ulps.get(name, 0.0))
