"""Pygments lexers for the texts of tileir: programs (Tile, typed, Stripe, semtree), formulas, and Python around them.

Pygments, and tools that build on it (Sphinx, IPython, nbconvert, MkDocs), find them by name: ``tile``, ``typed``,
``stripe``, ``semtree``, ``formula``, ``python-tile``. This module does not import tileir: a search for a lexer by name
loads the lexers of all installed packages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pygments.lexer import RegexLexer, words
from pygments.lexers.python import PythonLexer
from pygments.token import (
    Comment,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
    Whitespace,
)

if TYPE_CHECKING:
    from pygments.token import _TokenType

_TILE_WORDS: Final = (
    *("function", "default", "no_defract", "constant", "polynomial", "expression", "contraction"),
    *("import", "as", "from"),
)
_TYPED_WORDS: Final = ("scan", "while", "do", "times", "reverse", "final", "history", "output", "combine", "aggregate")
_STRIPE_WORDS: Final = ("program", "block", "in", "out", "inout", "none", "const", "reduction", "new", "at", "buffer")
_SEMTREE_WORDS: Final = (
    *("kernel", "input", "temporary", "grid", "group", "index", "private", "local", "scratch"),
    *("for", "if", "else", "while", "repeat", "launch", "unroll", "vector"),
)
PROGRAM_WORDS: Final = (*_TILE_WORDS, *_TYPED_WORDS, *_STRIPE_WORDS, *_SEMTREE_WORDS)
"""Words of the texts of programs, of all stages."""
DTYPES: Final = (
    *("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    *("f8e4m3fn", "f8e5m2", "f16", "bf16", "f32", "f64", "fp16", "fp32", "fp64"),
)
"""Names of dtypes in texts; Stripe spells some of its own way."""
FORMULA_WORDS: Final = (
    *("inputs", "results", "repeat", "until", "change", "below", "of", "outside", "where", "with", "not", "within"),
    *("mask", "region", "pixel", "previous"),
)
"""Words of formulas."""

_START: Final = r"(?<![\w.$#'])"
_END: Final = r"(?![\w.'])"
_DTYPE: Final = _START + rf"(?:{'|'.join(DTYPES)})(?:x[0-9]+)?" + _END
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]+|[0-9]+\.[0-9]+"


class ProgramLexer(RegexLexer):
    """Programs of any stage: Tile, typed, Stripe and semtree text."""

    name = "Tile"
    aliases: ClassVar[list[str]] = ["tile", "typed", "stripe", "semtree"]
    filenames: ClassVar[list[str]] = ["*.tile", "*.stripe", "*.sem"]
    url = ""
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"[ \t\r\n]+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\\n]|\\[^\n])*"', String.Double),
            (r"`(?:[^`\\\n]|\\[^\n])*`", Name),
            (r"(?<=\[\[)[a-z_]\w*", Name.Decorator),
            (_DTYPE, Keyword.Type),
            (words(PROGRAM_WORDS, _START, _END), Keyword),
            (r"(?<![\w.])(?:true|false|inf|nan)(?![\w.'])", Keyword.Constant),
            (r"[#$][A-Za-z_][\w.]*'?", Name.Variable),
            (r"[a-z_]\w*(?=\s*\()", Name.Function),
            (r"[A-Za-z_][\w.']*", Name),
            (r"0[xX][0-9A-Fa-f]+", Number.Hex),
            (_NUMBER, Number.Float),
            (r"[0-9]+", Number.Integer),
            (r"->|<<|>>|[<>=!]=|[-+*/%&|^~<>=?:]", Operator),
            (r"[][(){},;.@]", Punctuation),
            (r".", Text),
        ]
    }


class FormulaLexer(RegexLexer):
    """Formulas: computations on pictures, described as steps, in both of their forms."""

    name = "tileir formula"
    aliases: ClassVar[list[str]] = ["formula", "tileir-formula"]
    filenames: ClassVar[list[str]] = ["*.formula"]
    url = ""
    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (r"[ \t\r\n]+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"#[0-9A-Za-z]+", Literal),
            (words(FORMULA_WORDS, r"\b", r"\b(?!\s*[=(])"), Keyword),
            (r"[A-Za-z_]\w*(?=\s*=(?!=)[^,)\n]*[(,)])", Name.Attribute),
            (r"[A-Za-z_]\w*(?=\s*[(:])", Name.Function),
            (r"[A-Za-z_]\w*", Name),
            (r"\$[0-9]+", Name.Variable),
            (r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", Number),
            (r"[=%~?&!<>]", Operator),
            (r"[][(){},;:$]", Punctuation),
            (r".", Text),
        ]
    }


class PythonTileLexer(PythonLexer):
    """Python, with the Tile programs that stand between three quotes."""

    name = "Python with Tile"
    aliases: ClassVar[list[str]] = ["python-tile"]
    filenames: ClassVar[list[str]] = []
    alias_filenames: ClassVar[list[str]] = []
    mimetypes: ClassVar[list[str]] = []
    url = ""

    def get_tokens_unprocessed(
        self, text: str, stack: Iterable[str] = ("root",)
    ) -> Iterator[tuple[int, _TokenType, str]]:
        """Yield position, kind and text of each token."""
        program = ProgramLexer()
        place, pending = 0, ""
        for start, kind, value in super().get_tokens_unprocessed(text, stack):
            if _is_string(kind) and not value.startswith(('"""', "'''")):
                place, pending = (place if pending else start), pending + value
                continue
            yield from _string(program, place, pending)
            pending = ""
            yield start, kind, value
        yield from _string(program, place, pending)


_IS_PROGRAM: Final = re.compile(r"""(?:\s|//[^\n]*|import\b[^;"\n]*"[^"\n]*"\s*;)*function\b""")


def _is_string(kind: _TokenType) -> bool:
    return bool(kind[: len(String)] == String)


def _string(program: ProgramLexer, place: int, content: str) -> Iterator[tuple[int, _TokenType, str]]:
    """Yield the tokens of the content of a string: those of a program, if it holds one."""
    if _IS_PROGRAM.match(content):
        yield from ((place + start, kind, value) for start, kind, value in program.get_tokens_unprocessed(content))
    elif content:
        yield place, String, content
