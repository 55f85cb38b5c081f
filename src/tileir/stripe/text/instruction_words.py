"""Words of text for the instructions of blocks: the values of their tags, by the forms of instructions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tileir.core import attrs
from tileir.core.text.forms import Field, Language, Literal, Piece, Spelling, pieces
from tileir.stripe.instructions import (
    COPY,
    COPY_BACK,
    INSTRUCTIONS,
    PIPELINE,
    PRODUCT,
    REPAIR,
    Copy,
    CopyBack,
    Instruction,
    Pipeline,
    Product,
    Repair,
)
from tileir.stripe.tags import Tags, TagValue

_WORDS: Final[Mapping[type, str]] = MappingProxyType(
    {Product: PRODUCT, Pipeline: PIPELINE, Copy: COPY, CopyBack: COPY_BACK, Repair: REPAIR}
)
_LANGUAGE: Final = Language(
    types=MappingProxyType(
        {
            "str": Spelling(lambda _, name: str(name)),
            "int": Spelling(lambda _, number: str(number), int),
            "tuple[int, ...]": Spelling(
                lambda _, sizes: "x".join(map(str, sizes)), lambda text: tuple(map(int, text.split("x")))
            ),
        }
    )
)
_PATTERNS: Final = MappingProxyType({"int": r"\d+", "tuple[int, ...]": r"\d+(?:x\d+)*"})


def instruction_words(instruction: Instruction) -> dict[str, TagValue]:
    """Return the word of text for an instruction, with its value."""
    match instruction:
        case Copy(box=()) | Repair():
            return {REPAIR if isinstance(instruction, Repair) else COPY: None}
        case Pipeline() if instruction == Pipeline(instruction.stages):
            return {PIPELINE: instruction.stages}
        case _:
            return {_WORDS[type(instruction)]: _LANGUAGE.text(None, instruction)}


def _pattern(form: Iterable[Piece]) -> str:
    """Return the regular expression for texts of a form of numbers."""
    found = ""
    for piece in form:
        if isinstance(piece, Field):
            found += f"(?P<{piece.name}>{_PATTERNS[piece.hint]})"
        else:
            found += piece.text if isinstance(piece, Literal) else f"(?:{_pattern(piece.pieces)})?"
    return found


def _read(kind: Any, value: TagValue) -> Any:
    """Return the instruction of a class from the value of its word; None if the value does not match."""
    found = re.fullmatch(_pattern(pieces(kind)), str(value))
    if found is None:
        return None
    told = {field.name: (field.type, text) for field in attrs.fields(kind) if (text := found[field.name])}
    return kind(**{name: _LANGUAGE.types[hint].read(text) for name, (hint, text) in told.items()})


def copy_of(value: TagValue) -> Copy | None:
    """Return the copy for the value of the word for copies, such as ``64x64 of 1000x3000 by 3000x1``."""
    found: Copy | None = Copy() if value is None else _read(Copy, value)
    return found


def instruction_of(tags: Tags) -> tuple[Instruction | None, Tags]:
    """Return the instruction for a word among ``tags``, the first of several, and the other tags.

    Words with invalid values are left among the others, for the verifier to report.
    """
    match {name: value for name, value in tags.items if name in INSTRUCTIONS}:
        case {"multiply": str(fragment)}:
            return Product(fragment), tags.remove(PRODUCT)
        case {"pipeline": int(stages)} if not isinstance(stages, bool):
            return Pipeline(stages), tags.remove(PIPELINE)
        case {"pipeline": str(value)} if (pipeline := _read(Pipeline, value)) is not None:
            return pipeline, tags.remove(PIPELINE)
        case {"copy_back": str(value)} if (box := _read(CopyBack, value)) is not None:
            return box, tags.remove(COPY_BACK)
        case {"repair": None}:
            return Repair(), tags.remove(REPAIR)
        case _:
            return None, tags
