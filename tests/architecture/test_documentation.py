"""Statements of README, ARCHITECTURE.md and the manual about the code, compared with it."""

from __future__ import annotations

import ast
import re
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import kernel_passes
from strategies.pages import command_output, console_examples, printed, python_examples
from strategies.sources import ROOT, name_of, python_files, tree_of
from tileir.tile.functions import BUILTINS

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ("README.md", "docs/cli.md")
FOLDERS = ("src", "plugins", "tests", "tools", "benchmarks", "examples")
QUESTIONS = ("What", "Which", "Whether", "How", "Who", "Whose", "Whom", "Where", "When", "Why")


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the examples, there and in a subfolder, and the arrays that pages speak of."""
    path = tmp_path_factory.mktemp("pages")
    shutil.copytree(ROOT / "examples", path / "examples")
    shutil.copytree(ROOT / "examples", path, dirs_exist_ok=True)
    np.save(path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(path / "b.npy", np.ones((3, 2), np.float32))
    return path


def test_architecture_is_one_page_that_names_what_is_there() -> None:
    text = page("ARCHITECTURE.md")
    assert len(kernel_passes.written(text, "").encode()) <= 14_500, "it is one page: what pydoc tells, it need not"
    named = re.findall(r"`(?:src/)?((?:tileir|core|passes|semtree|stripe|typed|driver)/[\w/]+(?:\.py|/)?)`", text)
    places = [ROOT / "src" / name for name in named] + [ROOT / "src" / "tileir" / name for name in named]
    assert named
    assert [name for name in named if not any(place.exists() for place in places if place.match(name))] == []


def test_architecture_has_the_passes_of_the_target_files() -> None:
    text = page("ARCHITECTURE.md")
    assert kernel_passes.written(text, kernel_passes.table()) == text, "run python tools/kernel_passes.py"
    assert kernel_passes.table() in text


def test_every_room_says_what_is_in_it() -> None:
    rooms = [path for path in python_files(ROOT / "src") if path.name == "__init__.py"]
    assert [path for path in rooms if not ast.get_docstring(tree_of(path))] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_words_to_search_for(folder: str) -> None:
    """Docstrings begin with a noun phrase or an imperative, not with a question."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = []
    for path in python_files(ROOT / folder):
        for node in ast.walk(tree_of(path)):
            words = ((isinstance(node, documented) and ast.get_docstring(node)) or "-").split()
            if words[0] in QUESTIONS:
                found.append(f"{name_of(path)} {getattr(node, 'name', '')}: {' '.join(words[:6])} …")
    assert found == []


def test_readme_shows_what_its_examples_print() -> None:
    namespace: dict[str, Any] = {}
    examples = python_examples(page("README.md"))
    assert len(examples) >= 4
    for example in examples:
        assert printed(example.code, namespace).rstrip() == example.shown.rstrip()


@pytest.mark.parametrize("name", PAGES)
def test_pages_show_what_their_commands_print(name: str, folder: Path) -> None:
    examples = console_examples(page(name))
    assert examples
    for example in examples:
        assert command_output(example.code, folder) == example.shown


def test_language_reference_names_every_function() -> None:
    reference = page("docs/tile.md")
    called = set(re.findall(r"`([a-z_0-9]+)(?:\(.*?\))?`", reference))
    assert sorted(BUILTINS.keys() - called) == []


def test_tables_of_figures_say_where_when_and_how_they_were_measured() -> None:
    figures = page("docs/performance.md").partition("## Processors")[2]
    tables = [part for part in re.split(r"\n\n(?!\|)", figures) if "\n|" in part]
    assert len(tables) >= 10
    for table in tables:
        before = figures[figures.rindex("\n#", 0, figures.index(table)) : figures.index(table)] + table
        assert re.search(r"\b20\d\d-\d\d-\d\d\b", before), table[:200]
        assert re.search(r"`python\s+benchmarks/\w+\.py", before), table[:200]
        assert re.search(r"EPYC|Xeon|H100|H200", before), table[:200]


def test_ci_runs_the_command_of_the_readme() -> None:
    block = page("README.md").partition("<!-- tests -->")[2].partition("<!-- end -->")[0]
    commands = [line for line in block.splitlines() if line and not line.startswith("```")]
    assert len(commands) == 1
    assert "tox" in commands[0]


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page(name))
    assert [link for link in links if not (ROOT / link).exists()] == []
