"""The public names, each with a docstring and precise types."""

from __future__ import annotations

import inspect
import types
from typing import Final

import pytest

import tileir

NAMES: Final = tileir.__all__


def test_names_are_sorted_and_unique() -> None:
    assert sorted(set(NAMES)) == NAMES


def test_nothing_else_is_public() -> None:
    modules = {name for name, value in vars(tileir).items() if isinstance(value, types.ModuleType)}
    public = {name for name in vars(tileir) if not name.startswith("_")} - modules
    assert public <= set(NAMES)  # some are loaded when they are used


@pytest.mark.parametrize("module", [tileir, tileir.distributed, tileir.frontends, tileir.ops])
def test_names_are_listed_and_nothing_else(module: types.ModuleType) -> None:
    lazy = {"distributed", "frontends", "ops"} if module is tileir else set()
    assert {name for name in dir(module) if name.isidentifier() and name[0] != "_"} == {*module.__all__, *lazy}
    assert all(hasattr(module, name) for name in dir(module))


@pytest.mark.parametrize("name", NAMES)
def test_names_are_documented(name: str) -> None:
    assert inspect.getdoc(getattr(tileir, name))


def members(cls: type) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(cls).items() if not name.startswith("_")]


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isclass(getattr(tileir, name))])
def test_methods_are_documented(name: str) -> None:
    functions = [(key, value) for key, value in members(getattr(tileir, name)) if inspect.isfunction(value)]
    assert [key for key, value in functions if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(tileir, name))])
def test_functions_are_annotated(name: str) -> None:
    signature = inspect.signature(getattr(tileir, name))
    annotations = [signature.return_annotation, *(p.annotation for p in signature.parameters.values())]
    assert inspect.Signature.empty not in annotations
