"""Distributions of strangers in a folder outside of the tree, as an installer leaves them."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from tileir.core.extensions import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pytest


def install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, groups: Mapping[str, Mapping[str, str]], module: str
) -> None:
    """Put a distribution of one module, called as it is, with entry points on the path."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [line for group, entries in groups.items() for line in (f"[{group}]", *map(" = ".join, entries.items()))]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / f"{name}.py").write_text(module)
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    EXTENSIONS.forget()
