"""What tells the code of installed extensions apart, for the keys of what is kept on disk."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

from tileir.core.extensions import EXTENSIONS, Kind
from tileir.runtime.caches.source_digest import source_digest

_WORD: Final = re.compile(r"[\w-]+")
_KINDS: Final = (Kind.PASS, Kind.SCHEDULE, Kind.TARGET)


def digest_of_extensions(pipeline: str) -> str | None:
    """Return a digest of all passes, schedules and targets of strangers, if a pipeline may name one; else nothing.

    None where the digest cannot be told.
    """
    from tileir.core.targets.target_file import names_of_targets  # importing tileir must stay cheap

    if pipeline in names_of_targets():
        return ""
    entries = [entry for kind in _KINDS for same in EXTENSIONS.entries(kind).values() for entry in same]
    if not {entry.name for entry in entries}.intersection(_WORD.findall(pipeline)):
        return ""
    digests = [_digest(module) for module in sorted({entry.module.partition(".")[0] for entry in entries})]
    return None if None in digests else "\n".join(map(str, digests)) + "\n"


def _digest(module: str) -> str | None:
    try:
        import_module(module)
    except Exception:  # code of others may fail in any way; who uses it is told
        return None
    return source_digest(module)
