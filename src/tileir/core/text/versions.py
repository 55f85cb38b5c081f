"""The version of tileir that a text may name in its first line, as ``// tileir 0.1``: that of its language.

Texts of Tile, formulas, and files of functions are read by every later version. A text for a newer version than the
reader's is refused at this line, instead of at the first unknown word.
"""

from __future__ import annotations

import re
from typing import Final

from tileir.core.errors import ParseError
from tileir.core.text.span import Source, Span
from tileir.core.version import VERSION

LINE: Final = "// tileir {}.{}\n".format(*VERSION.split(".")[:2])
"""The first line of a text of this version, if it names one."""

_NAMED: Final = re.compile(r"//[ \t]*(tileir[ \t]+([0-9]{1,9})\.([0-9]{1,9})(?:\.[0-9]+)?)[ \t\r]*(?:\n|\Z)")
_CURRENT: Final = tuple(int(part) for part in VERSION.split(".")[:2])


def check_version(source: Source) -> Source:
    """Return a text itself if this version of tileir can read it, or it names no version.

    Raises:
        ParseError: TIL106, it names a newer one.
    """
    named = _NAMED.match(source.text)
    if named and (int(named[2]), int(named[3])) > _CURRENT:
        message = (
            f"this text is written for tileir {named[2]}.{named[3]}, and tileir {VERSION} reads it: upgrade tileir"
        )
        raise ParseError.of("TIL106", message, Span(source, named.start(1), named.end(1)))
    return source


def unversioned(text: str) -> str:
    """Return a text with its first line blank if it named a version; all places remain."""
    named = _NAMED.match(text)
    return text if named is None else re.sub(r"[^\n]", " ", named[0]) + text[named.end() :]
