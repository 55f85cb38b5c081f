"""A builder with parts to work with, and the statements of what it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileir.tile.builder import FunctionBuilder
from tileir.tile.text.parser import parse
from tileir.tile.text.printer import to_text

if TYPE_CHECKING:
    from tileir.tile.builder import Tensor
    from tileir.tile.ir import Function


def body(function: Function) -> list[str]:
    """Return the statements of a function that reads back as it was built."""
    text = to_text(function)
    assert parse(text) == function
    return [line.strip() for line in text.splitlines()[1:-1]]


class Parts:
    """A builder with a tensor, dimensions and indices to work with."""

    def __init__(self) -> None:
        self.f = FunctionBuilder()
        self.a = self.f.input("A", "M", "N")
        self.b = self.f.input("B", "N")
        self.x = self.f.input("X")
        self.m, self.n = self.a.dims
        self.i, self.j, self.k = self.f.indices("i j k")

    def value(self, value: Tensor) -> str:
        """Return the right side of an output."""
        return body(self.f.build(O=value))[-1].removeprefix("O = ").removesuffix(";")
