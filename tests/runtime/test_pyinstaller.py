"""The hook for PyInstaller: it is found, and collects what PyInstaller cannot see. PyInstaller is stood in for."""

import runpy
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def folder_of_the_hook() -> Path:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["entry-points"]["pyinstaller40"]["hook-dirs"].partition(":")
    (folder,) = getattr(import_module(module), function)()
    return Path(folder)


def submodules(package: str, filter: Callable[[str], bool] = lambda _: True) -> list[str]:  # noqa: A002
    """Do what PyInstaller's function of this purpose does, for packages that lie in folders."""
    root = Path(import_module(package).__file__ or "").parent
    names = (".".join((package, *path.relative_to(root).with_suffix("").parts)) for path in root.rglob("*.py"))
    return sorted(name.removesuffix(".__init__") for name in names if filter(name.removesuffix(".__init__")))


def test_the_hook_collects_data_entry_points_and_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: Any = ModuleType("PyInstaller.utils.hooks")
    hooks.collect_data_files = lambda package: [("data of", package)]
    hooks.collect_submodules = submodules
    hooks.copy_metadata = lambda distribution: [("metadata of", distribution)]
    for name, module in (
        ("PyInstaller", ModuleType("")),
        ("PyInstaller.utils", ModuleType("")),
        (hooks.__name__, hooks),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    found = runpy.run_path(str(folder_of_the_hook() / "hook-tileir.py"))
    assert {("data of", "tileir"), ("data of", "tileir_formula"), ("metadata of", "tileir")} <= set(found["datas"])
    imported = set(found["hiddenimports"])
    assert {
        "tileir.passes.algorithms.accumulate",
        "tileir.passes.pipelines.catalog",
        "tileir.ops.networks.recurrent",
        "tileir_llvm.run.executor",
        "tileir_formula.running.crafting",
    } <= imported
    assert not any(name.startswith("tileir_testing") for name in imported)
