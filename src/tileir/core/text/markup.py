"""What notebooks show of a value: small pieces of HTML, with everything escaped, and no scripts or styles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_LINES: Final = 400
"""Lines of a text that are shown."""

MOST_COLUMNS: Final = 1000
"""Characters of each of them."""


def preformatted(text: str) -> str:
    """Return a text as it is, its first lines where it is long."""
    lines = text.split("\n")
    shown = [line if len(line) <= MOST_COLUMNS else f"{line[:MOST_COLUMNS]}…" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"… and {len(lines) - MOST_LINES} more lines")
    return f"<pre>{_escaped(chr(10).join(shown))}</pre>"


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
