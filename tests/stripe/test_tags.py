"""Tags by which passes tell lowerings a schedule: declared once, and all of them in the manual."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tileir.stripe.bindings import WORDS as BINDINGS
from tileir.stripe.instructions import COPY, INSTRUCTIONS, RoleKind
from tileir.stripe.tags import LIFETIMES, PLACES, SCHEDULE

ROOT = Path(__file__).parents[2]
STAGES = ("stripe", "passes", "semtree")
SOURCES = [path for stage in STAGES for path in sorted((ROOT / "src/tileir" / stage).rglob("*.py"))]
ROLES = {kind.value for kind in RoleKind}
WORDS = {*SCHEDULE, *BINDINGS, *INSTRUCTIONS, *PLACES, *LIFETIMES}
METHODS = {"add", "remove", "get", "of"}
OTHER_WORDS = {"main", "out", "p", "t", "a", "b", "range", "stride"}


def test_the_manual_names_them_all() -> None:
    text = (ROOT / "docs/stripe.md").read_text(encoding="utf-8")
    section = text[text.index("A scheduled program determines") : text.index("This is a row sum for groups")]
    words = {word.partition("=")[0] for word in re.findall(r"`([a-z_]+(?:=[0-9]+)?)`", section)}
    assert words - OTHER_WORDS == {*SCHEDULE, *BINDINGS, *INSTRUCTIONS, COPY, *ROLES}


def test_the_manual_has_the_roles_of_products() -> None:
    text = (ROOT / "docs/stripe.md").read_text(encoding="utf-8")
    bullet = text[text.index("- **`Product`**") :].partition("\n- ")[0]
    assert set(re.findall("`([a-z_]+)`", bullet)) - {"multiply"} == ROLES


def is_about_tags(node: ast.expr) -> bool:
    """Return whether an expression is the class of tags, or somebody's tags."""
    return "tags" in ast.unparse(node).lower()


def literals(path: Path) -> list[int]:
    """Return the lines on which a tag of a schedule, or a word for a place, is spelt out as a tag."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        spelt: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args) if attr in METHODS:
                if is_about_tags(value):
                    spelt = [*args, *(ast.Constant(keyword.arg) for keyword in node.keywords)]
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]) if is_about_tags(right):
                spelt = [left]
            case _:
                continue
        found += [node.lineno for each in spelt if isinstance(each, ast.Constant) and each.value in WORDS]
    return found


@pytest.mark.sampled(0)
def test_nobody_spells_them_out() -> None:
    found = {str(path.relative_to(ROOT)): lines for path in SOURCES if (lines := literals(path))}
    assert found == {}, "tileir.stripe.tags has names for these tags, so that a wrong one is an error"


def test_literals_are_found(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text('t = x.tags.add("grid")\nu = "thread" in i.tags\nv = Tags.of(pipeline=3)\nw = Tags.of("own")\n')
    assert literals(path) == [1, 2, 3]
