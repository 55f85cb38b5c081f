"""Digests of the code of packages and extensions, so that cache entries do not outlive the compiler that made them.

Versions do not suffice: while a compiler is being developed, its output changes without its version.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from io import open_code
from pathlib import Path
from typing import Final

from tileir.core.extensions import EXTENSIONS, Kind
from tileir.runtime.caches.disk_cache import cache_log

_TEXTS: Final = (".py", ".json")
"""Suffixes of relevant files: code, and data that determines the behaviour of code."""

_COUNTED: Final = (*_TEXTS, ".so", ".pyd", ".dll", ".dylib")

_STARTED: Final = time.time()


@cache
def source_digest(package: str) -> str | None:
    """Return a SHA-256 over the sources of a package or module, imported or not, in hexadecimal.

    Native libraries in it count by size and time. None if there is no source, or if a file is newer than this process,
    which may then run older code.
    """
    digest, sources = hashlib.sha256(), 0
    for name, path, status in sorted(_files(package)):
        if status.st_mtime > _STARTED:
            cache_log().info("not used for %s: %s is newer than this process", package, path)
            return None
        digest.update(f"{name}\0{status.st_size}\0".encode())
        if path.endswith(_TEXTS):
            with open_code(path) as file:
                digest.update(file.read())
            sources += path.endswith(".py")
        else:
            digest.update(f"{status.st_mtime_ns}\0".encode())
    if not sources:
        cache_log().info("not used for %s: it has no sources", package)
        return None
    return digest.hexdigest()


def _files(package: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """Yield relative name, path and status of the source files and native libraries of a package.

    Each process does so before it accesses the cache, for hundreds of files, so paths are strings here.
    """
    module, spec = sys.modules.get(package), None
    if module is None:
        from importlib.util import find_spec  # back ends mostly are loaded, and their dependencies

        spec = find_spec(package)
    roots = getattr(module, "__path__", None) if spec is None else spec.submodule_search_locations
    if roots is None:
        file = getattr(module, "__file__", None) if spec is None else spec.origin
        if file is not None and Path(file).is_file():
            yield "", file, Path(file).stat()
        return
    pending = [(root, "") for root in roots if os.path.isdir(root)]  # noqa: PTH112  not in an archive; a text, as below
    while pending:
        folder, inside = pending.pop()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{inside}{entry.name}/"))
                elif entry.name.endswith(_COUNTED) and entry.is_file():
                    yield inside + entry.name, entry.path, entry.stat()


_WORD: Final = re.compile(r"[\w-]+")
_KINDS: Final = (Kind.PASS, Kind.SCHEDULE, Kind.TARGET)


def digest_of_extensions(pipeline: str) -> str | None:
    """Return a digest of all passes, schedules and targets of extensions, if a pipeline may name one; else nothing.

    None if the digest is unknown.
    """
    from tileir.core.targets.target_names import names_of_targets  # importing tileir must stay cheap

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
    except Exception:  # foreign code may raise anything; its users are told
        return None
    return source_digest(module)
