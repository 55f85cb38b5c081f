"""Texts of all languages, spoilt: each is read, and then printed and read back to an equal value, or refused.

Nothing but a ``TileError`` refuses a text. What is read by accident is a program like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fuzz import formulas, gradients, pipelines, siblings
from fuzz.area import Area, Case, Refused
from tileir.core import DType, Target, TileError
from tileir.driver.compiler import compile_stages
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.catalog import PASSES
from tileir.semtree.text import parser as semtree_parser, printer as semtree_printer
from tileir.stripe.text import parser as stripe_parser, printer as stripe_printer
from tileir.tile.text import parser as tile_parser, printer as tile_printer
from tileir.typed.ir import TensorType
from tileir_formula.text import parser as formula_parser, printer as formula_printer
from tileir_testing.generated.choices import Choices

PIECES: Final = (
    *"()[]{}:;,=+*<>?-/~#$'%&|^!.\"_0279ABNikx \n\t",
    *(
        "->",
        "==",
        "//",
        "<<",
        "1.5",
        "1e999",
        "99999999999999999999999",
        "function",
        "default",
        "no_defract",
        "block",
        "constant",
    ),
    *("kernel", "for", "f32", "i64", "bool", "in", "out", "inout", "new", "none", "true", "scan", "exp", "gradient"),
    *(
        "\0",
        "\ud800",
        "\u00e9",
        "\u2028",
        "nan",
        "inf",
        "-",
        "bits(",
        "sha256_",
        "program",
        "0x",
        "{{",
        "}}",
        "{%",
        "#}",
    ),
    *("constant", "bits(", "sha256_"),
)
"""Insertions that spoil a text."""

CONSTANTS: Final = (
    "",
    "",
    "constant Kc = f32[2, 2](1.0, -0.0, nan, bits(2143289345));",
    "constant Kc[Ka, Kb] = i8[1, 3](-128, 0, 127);",
    "constant Kc[] = bool[](1);",
    "constant Kc = f16[0, 3]();",
    "[[pid(x)]] constant Kc = -inf;",
    "constant Kc = true; constant Kd = -9223372036854775808;",
)
"""Statements that functions begin with."""

READERS: Final[Mapping[str, tuple[Callable[[str], Any], Callable[[Any], str]]]] = {
    "tile": (tile_parser.parse, tile_printer.to_text),
    "stripe": (stripe_parser.parse, stripe_printer.to_text),
    "semtree": (semtree_parser.parse_program, semtree_printer.to_text),
    "formula": (formula_parser.parse, formula_printer.to_text),
    "pipeline": (lambda text: pipeline.parse(text, PASSES), pipeline.to_text),
}
"""Parser and printer of each language."""


def make(choices: Choices) -> Case:
    """Take a text of one of the languages, and spoil it in up to four places."""
    language = choices.pick(tuple(READERS))
    spoilt = text(choices, language)
    for _ in range(choices.integer(1, 4)):
        start = choices.integer(0, len(spoilt))
        end = min(len(spoilt), start + choices.pick((0, 0, 1, 1, 2, 3, 8, 30)))
        match choices.integer(0, 3):
            case 0 | 1:
                middle = choices.pick(PIECES)
            case 2:
                other = choices.integer(0, len(spoilt))
                middle = spoilt[other : other + choices.pick((1, 3, 10, 40))]
            case _:
                middle = ""
        spoilt = spoilt[:start] + middle + spoilt[end:]
    return {"language": language, "text": spoilt}


def text(choices: Choices, language: str) -> str:
    """Choose a text of a language that breaks no rule."""
    if language == "pipeline":
        return ",".join(pipelines.step(choices) for _ in range(choices.integer(1, 4)))
    if language == "formula":
        return formulas.formula_text(choices)
    case = siblings.make(choices, sizes=(2, 3, 5))
    drawn = siblings.broadcasting(case) if choices.integer(0, 1) else gradients.text_of(gradients.make(choices))
    if language == "tile":
        return drawn.replace("{", f"{{ {choices.pick(CONSTANTS)}", 1)
    types = {n: TensorType(DType(spec["dtype"]), tuple(spec["shape"])) for n, spec in case["inputs"].items()}
    passes = pipeline.parse(choices.pick(("accumulate", "fuse,accumulate", "fusion,localise,accumulate")), PASSES)
    stages = compile_stages(siblings.broadcasting(case), types, Target(), passes=passes)
    return READERS[language][1](stages.scheduled if language == "stripe" else stages.sem)


def check(case: Case) -> int:
    """Read the text; what is read has a text that reads as an equal value."""
    read, printed = READERS[case["language"]]
    try:
        value = read(case["text"])
    except TileError as error:
        assert str(error), "an error without a message"  # noqa: PT017
        raise Refused(error.diagnostics[0].code[:4]) from error
    try:
        again = read(printed(value))
    except TileError as error:
        raise AssertionError(f"what was printed is not read back: {error}\n{case['text']}") from error
    assert again == value, f"reads as something else after printing: {case['text']}"
    return 1


AREA: Final = Area("texts", make, check)
