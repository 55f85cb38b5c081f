"""Changes that wait for a release: files of one line, whose names tell their kind."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest

from strategies.sources import ROOT

FOLDER: Final = ROOT / "changes"
NAME: Final = re.compile(r"(\d+|\+[a-z0-9-]+)\.([a-z]+)(\.\d+)?\.md")


def fragments() -> list[str]:
    return sorted(path.name for path in FOLDER.iterdir() if path.name not in ("README.md", "template.md"))


def kinds() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [kind["directory"] for kind in settings["tool"]["towncrier"]["type"]]


def test_kinds_are_those_that_are_described() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert kinds() == ["breaking", "new", "faster", "fixed"]
    assert [kind for kind in kinds() if f"`{kind}`" not in contributing] == []


@pytest.mark.sampled(52)
@pytest.mark.parametrize("name", fragments())
def test_a_change_is_one_line_of_a_known_kind(name: str) -> None:
    found = NAME.fullmatch(name)
    assert found, "a file is named NUMBER.KIND.md or +slug.KIND.md"
    assert found[2] in kinds()
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    assert lines[0].strip() == lines[0] != ""
    assert not lines[0].startswith(("-", "*", "#")), "the joined list brings the mark"


def test_links_of_changes_lead_somewhere() -> None:
    links = {name: re.findall(r"\]\(([^)#:]+)", (FOLDER / name).read_text(encoding="utf-8")) for name in fragments()}
    missing = [(name, link) for name, found in links.items() for link in found if not (ROOT / link).exists()]
    assert missing == []


def releases() -> list[tuple[str, str]]:
    """Return the title and the text of each release in the changelog."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


@pytest.mark.parametrize("title", [title for title, _ in releases()])
def test_a_release_is_told_in_short(title: str) -> None:
    text = dict(releases())[title]
    assert len(text.encode()) <= 8_000, "keep what users have to know; figures go to docs/performance.md"
    headings = re.findall(r"^### (.+)", text, re.MULTILINE)
    known = [kind.capitalize() for kind in kinds()]
    assert headings == [each for each in known if each in headings]
    items = [line for line in text.splitlines() if line.startswith("- ")]
    assert items
    assert [line for line in text.splitlines() if line.startswith(" ")] == [], "an item is one line"
    assert [line for line in items if "](" not in line] == [], "an item links to the page that tells more"
