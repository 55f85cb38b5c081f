"""Names that the kernel text can write, for the verifier and the reader."""

from __future__ import annotations

import re
from typing import Final

QUOTED_NAME: Final = re.compile(r"`[^`\x00-\x1f]+`")


def is_spellable(name: str) -> bool:
    """Return whether the text can write ``name``."""
    return QUOTED_NAME.fullmatch(f"`{name}`") is not None
