"""Nothing swallows what it does not know, but where the code of others runs, and a comment says so."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from strategies.sources import ROOT, tree_of

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = sorted(path for folder in ("src", "plugins") for path in (ROOT / folder).rglob("*.py"))
ALL = {"Exception", "BaseException"}


def catch_alls(path: Path) -> list[ast.ExceptHandler]:
    """Return the handlers that catch anything and let none of it go on."""
    handlers = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ExceptHandler))
    anything = [h for h in handlers if h.type is None or (isinstance(h.type, ast.Name) and h.type.id in ALL)]
    return [handler for handler in anything if not isinstance(handler.body[-1], ast.Raise)]


def test_what_catches_anything_says_why() -> None:
    silent = [
        f"{path.relative_to(ROOT)}:{handler.lineno}"
        for path in SOURCES
        for handler in catch_alls(path)
        if "  # " not in path.read_text(encoding="utf-8").splitlines()[handler.lineno - 1]
    ]
    assert not silent, f"say in a comment why anything is caught, or catch less, in {silent}"


def test_handlers_are_found(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text("try:\n    f()\nexcept Exception:\n    pass\ntry:\n    f()\nexcept:\n    g()\n    raise\n")
    assert [handler.lineno for handler in catch_alls(path)] == [3]
