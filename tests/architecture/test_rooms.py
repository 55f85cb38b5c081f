"""Packages built on the compiler see what is listed here, and the compiler does not see them."""

from __future__ import annotations

import ast
import tomllib
from typing import TYPE_CHECKING, Final

import pytest

from strategies.sources import BACKENDS, PACKAGE, ROOT, imports_of, name_of, python_files, tree_of
from tileir.core.companions import PACKAGES, WHEELS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUITES: Final = ("/tileir_onnx/suite.py", "/tileir_torch/opinfo.py")
"""Commands of plug-ins that run the test cases of others, in processes as the kit has them."""

ROOMS: Final = {
    "tileir_performance": (
        *("tileir.core", "tileir.poly", "tileir.tile", "tileir.typed", "tileir.stripe", "tileir.schedule"),
        "tileir.semtree",
        *("tileir.passes.base", "tileir.passes.analysis.dependences", "tileir.passes.cost", "tileir.passes.pipelines"),
        *("tileir.passes.schedules.scripted", "tileir.passes.regions.tile", "tileir.runtime", "tileir.driver"),
    ),
    "tileir_cli": (
        *("tileir.core", "tileir.tile", "tileir.ops.shared.installed", "tileir.typed", "tileir.stripe"),
        *("tileir.passes.base", "tileir.passes.offers", "tileir.passes.pipelines", "tileir.runtime", "tileir.driver"),
        "tileir.testing",
    ),
    "tileir_formula": (
        *("tileir.core", "tileir.poly.affine", "tileir.poly.bounds", "tileir.tile", "tileir.ops", "tileir.runtime"),
        *("tileir.typed.boxes", "tileir.typed.inference.inference", "tileir.typed.interpreter", "tileir.typed.ir"),
        *("tileir.driver.calls.arguments", "tileir.driver.dispatch", "tileir.driver.notebook"),
        *("tileir.driver.programs", "tileir.driver.texts", "tileir.passes.rewrites.immediates"),
    ),
    "tileir_testing": (
        *("tileir.core", "tileir.poly.affine", "tileir.tile", "tileir.typed", "tileir.stripe", "tileir.semtree"),
        *("tileir.ops.shared.installed", "tileir.passes.base", "tileir.passes.pipelines", "tileir.runtime"),
        *("tileir.driver.calls.arguments", "tileir.driver.compiler", "tileir.driver.differentiation"),
        *("tileir.driver.distribution.engines", "tileir.driver.frontends", "tileir.driver.languages"),
        *("tileir.driver.listings", "tileir.driver.programs", "tileir.driver.targets"),
    ),
    "tileir_studio": (
        *("tileir.core", "tileir.runtime", "tileir.tile", "tileir.typed", "tileir.stripe.ir", "tileir.stripe.text"),
        *("tileir.stripe.works", "tileir.semtree.ir", "tileir.passes.base", "tileir.passes.cost"),
        *("tileir.driver.calls.arguments", "tileir.driver.compiler", "tileir.driver.executable"),
        "tileir.driver.targets",
    ),
}
"""Modules of the compiler, with all below them, that a package may import beside the public names of ``tileir``.

A package may also import those before it.
"""


def folder(room: str) -> Path:
    return ROOT / "src" / room


def top(module: str) -> str:
    return module.partition(".")[0]


def for_types(path: Path) -> Iterator[str]:
    """Yield what a file imports for type checkers alone."""
    guards = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.If))
    for guard in guards:
        if ast.unparse(guard.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from (inner.module or "" for inner in ast.walk(guard) if isinstance(inner, ast.ImportFrom))


@pytest.mark.parametrize("room", ROOMS)
def test_packages_see_what_is_listed(room: str) -> None:
    earlier = {room, *list(ROOMS)[: list(ROOMS).index(room)]}
    seen = ("tileir", *ROOMS[room])
    strange = [
        (name_of(path), module)
        for path in python_files(folder(room))
        for module, _ in imports_of(path)
        if top(module).startswith("tileir") and top(module) not in earlier
        if not any(module == each or (each != "tileir" and module.startswith(f"{each}.")) for each in seen)
    ]
    assert strange == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_more_is_listed_than_is_seen(room: str) -> None:
    used = {module for path in python_files(folder(room)) for module, _ in imports_of(path)}
    assert [each for each in ROOMS[room] if not any(f"{module}.".startswith(f"{each}.") for module in used)] == []


def test_private_names_are_seen_by_none() -> None:
    paths = [path for room in ROOMS for path in python_files(folder(room))]
    used = [(name_of(path), *use) for path in paths for use in imports_of(path) if top(use[0]).startswith("tileir")]
    assert [use for use in used if use[2].startswith("_") or "._" in use[1]] == []


def test_the_compiler_imports_them_for_types_alone() -> None:
    found = [
        (name_of(path), module)
        for path in python_files(PACKAGE)
        for module in {module for module, _ in imports_of(path)} - set(for_types(path))
        if top(module) in ROOMS
    ]
    assert found == []


def test_back_ends_see_none_and_their_tests_and_suites_the_kit() -> None:
    paths = (*python_files(BACKENDS), *python_files(ROOT / "plugins"))
    used = [(name_of(path), module) for path in paths for module, _ in imports_of(path) if top(module) in ROOMS]
    used = [use for use in used if "tileir-accelerators/tests/" not in use[0]]  # of costs and commands, too
    kit = {use for use in used if top(use[1]) == "tileir_testing"}
    assert [use for use in used if use not in kit or not ("/tests/" in use[0] or use[0].endswith(SUITES))] == []


def test_what_they_add_comes_by_entry_points() -> None:
    """And the compiler knows whose it is, so that it can say what to install."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    named = [groups.get(f"tileir.{kind}", {}) for kind in ("commands", "languages", "names")]
    assert {name: top(value) for group in named for name, value in group.items()} == dict(PACKAGES)


def test_the_compiler_knows_which_wheel_a_pass_or_target_comes_with() -> None:
    files = sorted(ROOT.glob("plugins/*/pyproject.toml"))
    projects = [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in files]
    offered = {
        name: project["name"]
        for project in projects
        for group in ("tileir.passes", "tileir.targets")
        for name in project.get("entry-points", {}).get(group, {})
    }
    assert offered == dict(WHEELS)


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/reference.md"])
def test_pages_name_them(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [room for room in ROOMS if f"`{room}`" not in text] == []
