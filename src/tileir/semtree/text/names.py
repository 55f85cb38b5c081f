"""Names that the kernel text can write: what the verifier needs to know of it, and the reader."""

from __future__ import annotations

import re
from typing import Final

QUOTED_NAME: Final = re.compile(r"`[^`\x00-\x1f]+`")


def is_spellable(name: str) -> bool:
    """Return whether the text has a way to write ``name``."""
    return QUOTED_NAME.fullmatch(f"`{name}`") is not None
