"""What notebooks show of a value: small pieces of HTML, with everything escaped, and no scripts or styles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

MOST_LINES: Final = 400
"""Lines of a text that are shown."""

MOST_COLUMNS: Final = 1000
"""Characters of each of them."""

_WORDS: Final = (
    "function|default|no_defract|constant|contraction|scan|times|reverse|final|history|output|combine|aggregate|"
    "program|block|in|out|inout|none|const|reduction|new|at|buffer|"
    "kernel|input|temporary|grid|group|index|private|local|scratch|for|if|else|while|repeat|launch|unroll|vector|"
    "bool|i8|i16|i32|i64|u8|u16|u32|u64|f8e4m3fn|f8e5m2|f16|bf16|f32|f64|fp16|fp32|fp64"
)
"""Words of the texts of programs."""


def highlighted(text: str) -> str:
    """Return the text of a program as :func:`preformatted`, with its words in bold and its comments in italics."""
    return f"<pre>{_pieces().sub(_marked, _escaped(_shown(text)))}</pre>"


@cache
def _pieces() -> re.Pattern[str]:
    """Return what finds comments, words, and quoted texts, in which there are neither, in escaped text."""
    word = rf"(?<![\w.$#'])(?:{_WORDS})(?![\w.'])"
    return re.compile(rf"(?P<comment>//[^\n]*)|&quot;.*?&quot;|`[^`\n]*`|(?P<word>{word})")


def _marked(match: re.Match[str]) -> str:
    if match.lastgroup is None:
        return match[0]
    tag = "i" if match.lastgroup == "comment" else "b"
    return f"<{tag}>{match[0]}</{tag}>"


def preformatted(text: str) -> str:
    """Return a text as it is, its first lines where it is long."""
    return f"<pre>{_escaped(_shown(text))}</pre>"


def _shown(text: str) -> str:
    """Return the first lines of a text, each of them cut where it is long."""
    lines = text.split("\n")
    shown = [line if len(line) <= MOST_COLUMNS else f"{line[:MOST_COLUMNS]}…" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES} more lines")
    return "\n".join(shown)


def folded(summary: str, inner: str) -> str:
    """Return HTML that is shown when somebody asks for it."""
    return f"<details><summary>{_escaped(summary)}</summary>{inner}</details>"


def paragraph(text: str) -> str:
    """Return a text as a paragraph."""
    return f"<p>{_escaped(text)}</p>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    head = "".join(f'<th scope="col">{_escaped(each)}</th>' for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _escaped(text: str) -> str:
    from html import escape  # it brings a table of all entities, and every program imports this module

    return escape(text)
