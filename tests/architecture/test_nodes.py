"""Nodes are immutable values: frozen, compared by content, hashable, without surprises in their types."""

from __future__ import annotations

import enum
import importlib
import inspect
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, get_type_hints

import attrs
import pytest

from strategies.sources import PACKAGE, ROOT, imports_of, module_of, name_of
from tileir.poly.affine import Affine

if TYPE_CHECKING:
    from pathlib import Path

FILES: Final = [*sorted(PACKAGE.glob("*/ir.py")), ROOT / "src/tileir_formula/ir.py"]
MODULES: Final = [importlib.import_module(module_of(path)) for path in FILES]
CLASSES: Final = [
    cls
    for module in MODULES
    for _, cls in inspect.getmembers(module, inspect.isclass)
    if cls.__module__.rpartition(".")[0] == module.__package__
]
NODES: Final = [Affine, *(cls for cls in CLASSES if attrs.has(cls))]


def label(cls: type) -> str:
    return f"{cls.__module__}.{cls.__name__}"


def test_the_stages_are_found() -> None:
    assert [path.parent.name for path in FILES] == ["semtree", "stripe", "tile", "typed", "tileir_formula"]


@pytest.mark.parametrize("cls", CLASSES, ids=label)
def test_classes_are_nodes_or_enumerations_or_kinds_of_nodes(cls: type) -> None:
    slots = vars(cls).get("__slots__")  # those of a kind of nodes are private, and no fields
    is_kind = slots is not None and all(name.startswith("_") for name in slots) and not attrs.has(cls)
    assert attrs.has(cls) or issubclass(cls, enum.Enum) or is_kind
    assert cls.__doc__


@pytest.mark.parametrize("cls", NODES, ids=label)
def test_nodes_are_frozen(cls: type) -> None:
    node: object = object.__new__(cls)
    for field in attrs.fields(cls):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(node, field.name, None)


@pytest.mark.parametrize("cls", NODES, ids=label)
def test_nodes_have_slots_unless_they_cache_a_property(cls: type) -> None:
    caches = any(isinstance(member, cached_property) for member in vars(cls).values())
    assert caches or "__slots__" in vars(cls)


@pytest.mark.parametrize("cls", NODES, ids=label)
def test_nodes_are_compared_and_hashed_by_content(cls: type) -> None:
    assert "__eq__" in vars(cls)
    assert "__hash__" in vars(cls)
    assert vars(cls)["__hash__"] is not None
    provenance = [field.name for field in attrs.fields(cls) if not field.eq]
    assert all("span" in name for name in provenance)


@pytest.mark.parametrize("cls", NODES, ids=label)
def test_fields_have_precise_immutable_types(cls: type) -> None:
    for hint in get_type_hints(cls).values():
        text = str(hint)
        assert hint is not Any
        assert not any(word in text for word in ("Any", "list[", "dict[", "set["))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_node_is_of_any_type(path: Path) -> None:
    assert ("typing", "Any") not in set(imports_of(path))
