"""HTML of a value for notebooks: small pieces with everything escaped, and no scripts or style sheets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

MOST_LINES: Final = 400
"""Greatest number of lines of a text that are shown."""

MOST_COLUMNS: Final = 1000
"""Greatest number of characters of each of them."""

_TAGS: Final = {
    "Keyword.Type": ('<span style="color:#0f7f77">', "</span>"),
    "Keyword": ("<b>", "</b>"),
    "Comment": ("<i>", "</i>"),
    "Name.Function": ('<span style="color:#3573d1">', "</span>"),
    "Literal.Number": ('<span style="color:#b5540e">', "</span>"),
}
"""Tags around the tokens of a kind; the colours have a contrast of at least 3.8 on white and on #111111."""


def highlighted(text: str, *, formula: bool = False) -> str:
    """Return a program or formula as :func:`preformatted`, with highlighted tokens if Pygments is installed."""
    try:
        from tileir_pygments import FormulaLexer, ProgramLexer
    except ModuleNotFoundError:
        return preformatted(text)
    lexer = FormulaLexer() if formula else ProgramLexer()
    tokens = lexer.get_tokens_unprocessed(_shown(text))
    return f"<pre>{''.join(_marked(kind, value) for _, kind, value in tokens)}</pre>"


def _marked(kind: Sequence[str], text: str) -> str:
    """Return a token between the tags of the nearest kind that has some."""
    for length in range(len(kind), 0, -1):
        if tags := _TAGS.get(".".join(kind[:length])):
            return f"{tags[0]}{_escaped(text)}{tags[1]}"
    return _escaped(text)


def preformatted(text: str) -> str:
    """Return a text verbatim, or its first lines if it is long."""
    return f"<pre>{_escaped(_shown(text))}</pre>"


def _shown(text: str) -> str:
    """Return the first lines of a text, each of them cut if it is long."""
    lines = text.split("\n")
    shown = [line if len(line) <= MOST_COLUMNS else f"{line[:MOST_COLUMNS]}…" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES} more lines")
    return "\n".join(shown)


def folded(summary: str, inner: str) -> str:
    """Return HTML that is shown when it is unfolded."""
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
