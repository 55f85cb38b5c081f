"""The language of formulas, as ``tileir.parse(text, stage="formula")`` finds it by its entry point."""

from __future__ import annotations

from typing import ClassVar, Final

from tileir.core import attrs
from tileir_formula.definitions.catalogue import default_catalogue
from tileir_formula.ir import Formula
from tileir_formula.text.parser import parse
from tileir_formula.text.printer import to_text
from tileir_formula.verifier import verify


@attrs.frozen
class _Formulas:
    name: ClassVar[str] = "formula"
    kinds: ClassVar[tuple[type, ...]] = (Formula,)

    def parse(self, text: str, name: str) -> Formula:
        return parse(text, name)

    def to_text(self, node: Formula) -> str:
        return to_text(node)

    def verify(self, node: Formula) -> None:
        verify(node, default_catalogue().functions)


LANGUAGE: Final = _Formulas()
