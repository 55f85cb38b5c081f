"""A digest of a package's own code, so that nothing in a cache outlives the compiler that made it.

A version is not enough: while a compiler is being worked on, its version stays and its output does not.

What tells the code of installed extensions apart, for the keys of what is kept on disk.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from tileir.core.extensions import EXTENSIONS, Kind
from tileir.runtime.caches.disk_cache import cache_log

_TEXTS: Final = (".py", ".json")
"""Files whose content counts: code, and data that decides what code does."""

_STARTED: Final = time.time()


@cache
def source_digest(package: str) -> str | None:
    """Return a SHA-256 over the sources of an imported package or module, in hexadecimal.

    Native libraries in it count by size and time. None where there is no source to be found, or where a file is newer
    than this process, which may then run other code than the file has.
    """
    files = sorted(_files(package))
    digest, sources = hashlib.sha256(), 0
    for name, path in files:
        status = path.stat()
        if status.st_mtime > _STARTED:
            cache_log().info("not used for %s: %s is newer than this process", package, path)
            return None
        digest.update(f"{name}\0{status.st_size}\0".encode())
        if path.suffix in _TEXTS:
            digest.update(path.read_bytes())
            sources += path.suffix == ".py"
        else:
            digest.update(f"{status.st_mtime_ns}\0".encode())
    if not sources:
        cache_log().info("not used for %s: it has no sources", package)
        return None
    return digest.hexdigest()


def _files(package: str) -> Iterator[tuple[str, Path]]:
    """Yield the source files and native libraries of a package with their names in it."""
    module = sys.modules.get(package)
    roots = getattr(module, "__path__", None)
    if roots is None:
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_file():
            yield "", Path(file)
        return
    for root in map(Path, roots):
        for path in root.rglob("*"):
            if path.suffix in (*_TEXTS, ".so", ".pyd", ".dll", ".dylib") and path.is_file():
                yield path.relative_to(root).as_posix(), path


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
