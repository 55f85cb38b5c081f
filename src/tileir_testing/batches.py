"""Several programs compiled as one, so that a kit of hundreds of programs needs few compilations.

A program that fails in company is run once more alone, so that the blame falls on the right one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from tileir_testing.subject import Array, Subject

_FUNCTION: Final = re.compile(
    r"\s*function\s*\((?P<inputs>.*?)\)\s*->\s*\((?P<outputs>.*?)\)\s*\{(?P<body>.*)\}\s*", re.S
)
_NAME: Final = re.compile(r"\b[A-Z]\w*")


class Item(Protocol):
    """A program with arguments, which knows its results."""

    @property
    def text(self) -> str:
        """A Tile function; names of tensors and dimensions start with capital letters."""

    @property
    def inputs(self) -> dict[str, Array]:
        """The arguments."""

    def check(self, actual: dict[str, Array]) -> None:
        """Raise AssertionError where results are wrong."""


def merged(items: Sequence[Item]) -> tuple[str, dict[str, Array]]:
    """Return one function that does what all of some functions do, and its arguments; names get a number."""
    parts: dict[str, list[str]] = {"inputs": [], "outputs": [], "body": []}
    arguments: dict[str, Array] = {}
    for number, item in enumerate(items):
        match = _FUNCTION.fullmatch(item.text)
        if match is None:
            raise ValueError(f"this is not one function:\n{item.text}")
        for part, texts in parts.items():
            text = _NAME.sub(lambda name: _numbered(name[0], number), match[part]).strip()  # noqa: B023  used at once
            texts.extend([text] if text else [])
        arguments.update({_numbered(name, number): array for name, array in item.inputs.items()})
    inputs, outputs = (", ".join(parts[part]) for part in ("inputs", "outputs"))
    return f"function ({inputs}) -> ({outputs}) {{\n{chr(10).join(parts['body'])}\n}}", arguments


def run_together(subject: Subject, items: Sequence[Item]) -> list[dict[str, Array]]:
    """Run some functions as one, and return the results of each."""
    text, inputs = merged(items)
    split: list[dict[str, Array]] = [{} for _ in items]
    for name, result in subject.run(text, inputs).items():
        original, _, number = name.rpartition("_of_")
        split[int(number)][original] = result
    return split


def _numbered(name: str, number: int) -> str:
    return f"{name}_of_{number}"


@attrs.define(eq=False)
class Batches:
    """Runs items in batches of ``size`` on one device, each batch once."""

    subject: Subject
    size: int
    _results: dict[tuple[int, ...], list[dict[str, Array]] | Exception] = attrs.field(factory=dict, init=False)
    _kept: list[Sequence[Item]] = attrs.field(factory=list, init=False)  # else another item may get an identity

    def check(self, items: Sequence[Item], index: int) -> None:
        """Check one of a sequence of items, which stays the same from call to call.

        Raises:
            AssertionError: the results are wrong.
            TileError: it cannot be compiled or run.

        """
        item = items[index]
        if self.size <= 1:
            item.check(self.subject.run(item.text, item.inputs))
            return
        first = index - index % self.size
        company = items[first : first + self.size]
        key = tuple(map(id, company))
        if key not in self._results:
            self._kept.append(company)
            self._results[key] = self._attempt(company)
        results = self._results[key]
        try:
            if isinstance(results, Exception):
                raise results
            item.check(results[index - first])
        except Exception as together:
            item.check(self.subject.run(item.text, item.inputs))
            text, _ = merged(company)
            raise AssertionError(f"right alone, but as a part of this it is wrong: {together}\n{text}") from together

    def _attempt(self, company: Sequence[Item]) -> list[dict[str, Array]] | Exception:
        try:
            return run_together(self.subject, company)
        except Exception as error:  # whatever it is, the members of the batch will tell whose fault it is
            return error
