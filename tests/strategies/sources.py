"""The Python files of the project, for tests of its architecture."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "src" / "tileir"
BACKENDS: Final = ROOT / "src" / "backends"
FOLDERS: Final = ("src", "tools", "tests", "benchmarks", "examples", "plugins", "typings")


def python_files(*folders: Path) -> list[Path]:
    """Return all Python files and stubs below ``folders``, sorted."""
    return sorted(path for folder in folders for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyi"))


def name_of(path: Path) -> str:
    """Return a path as tests show it."""
    return str(path.relative_to(ROOT))


def module_of(path: Path) -> str:
    """Return the dotted name of a module of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def imports_of(path: Path) -> tuple[tuple[str, str], ...]:
    """Return the (module, name) pairs that a file imports anywhere, in functions too; the name may be empty."""
    return tuple(_imports(ast.walk(tree_of(path))))


def functions_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all functions and methods of a file, nested ones too."""
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def _imports(nodes: Iterator[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
