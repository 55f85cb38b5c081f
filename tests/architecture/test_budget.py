"""Files and functions stay short enough to be read at one go."""

from __future__ import annotations

import ast
from typing import Final

from strategies.sources import ROOT, functions_of, name_of, python_files, tree_of

FILE_LINES: Final = 800
FUNCTION_LINES: Final = 60
FOLDERS: Final = ("src", "tools", "tests", "benchmarks", "examples", "plugins", "typings")
SOURCES: Final = python_files(ROOT / "src", ROOT / "tools")


def test_files_are_short() -> None:
    files = python_files(*(ROOT / folder for folder in FOLDERS))
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES} == {}


def test_files_of_the_page_and_of_formulas_are_short() -> None:
    files = [path for kind in ("ts", "css", "tile") for path in (ROOT / "src").rglob(f"*.{kind}")]
    ours = [path for path in files if not {"node_modules", "static"} & set(path.parts)]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in ours}
    assert {name: length for name, length in lengths.items() if length > FILE_LINES} == {}
    assert {"designer.ts", "convolution.tile"} <= set(lengths)


def test_functions_are_short() -> None:
    lengths = {
        (name_of(path), function.name): (function.end_lineno or 0) - function.lineno + 1
        for path in SOURCES
        for function in functions_of(path)
    }
    assert {place: length for place, length in lengths.items() if length > FUNCTION_LINES} == {}


def test_nothing_is_left_for_later() -> None:
    words = ("TODO", "FIXME", "XXX", "NotImplementedError")
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in SOURCES}
    assert [(name, word) for name, text in texts.items() for word in words if word in text] == []


def test_modules_say_what_is_inside() -> None:
    vague = {"utils", "util", "tools", "helpers", "misc", "common"}
    assert [name_of(path) for path in SOURCES if path.stem in vague] == []
    assert [name_of(path) for path in SOURCES if ast.get_docstring(tree_of(path)) is None] == []
