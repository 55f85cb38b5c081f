"""Nested containers as arguments and results: their leaves in order, and the structure that rebuilds them."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from tileir.core import attrs
from tileir.tile.building.recording import Recorded

Path: TypeAlias = tuple[str | int, ...]


@attrs.frozen(cache_hash=True)
class Leaf:
    """Place of a leaf."""


@attrs.frozen(cache_hash=True)
class Branch:
    """Container: its class, the keys of its parts, and their structures."""

    kind: Any
    keys: tuple[Any, ...]
    parts: tuple[Structure, ...]


Structure: TypeAlias = Leaf | Branch | None
"""Structure of a value; None for Python's None, which has no leaves."""

LEAF = Leaf()


def flattened(value: object, leaves: list[Any]) -> Structure:
    """Append the leaves of a value to a list, in order, and return its structure; dictionaries are sorted by key."""
    if value is None:
        return None
    keys = _keys(value)
    if keys is None:
        leaves.append(value)
        return LEAF
    if isinstance(value, dict):
        parts = [value[key] for key in keys]
    elif isinstance(value, tuple | list):
        parts = list(value)
    else:
        parts = [getattr(value, key) for key in keys]
    return Branch(type(value), tuple(keys), tuple([flattened(part, leaves) for part in parts]))


def _keys(value: object) -> Sequence[Any] | None:
    """Return the keys of the parts of a container; None for a leaf."""
    if isinstance(value, dict):
        return sorted(value, key=lambda key: (type(key).__name__, key))
    if isinstance(value, tuple | list):
        return getattr(value, "_fields", range(len(value)))
    if isinstance(value, type | Recorded):
        return None
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    if attrs.has(type(value)) and not hasattr(value, "dtype"):
        return [field.name for field in attrs.fields(type(value))]  # type: ignore[arg-type]  # it is one
    return None


def rebuilt(structure: Structure, leaves: Iterator[Any]) -> Any:
    """Return a value of this structure with other leaves."""
    if structure is None:
        return None
    if isinstance(structure, Leaf):
        return next(leaves)
    parts = [rebuilt(part, leaves) for part in structure.parts]
    kind = structure.kind
    if issubclass(kind, dict):
        pairs = dict(zip(structure.keys, parts, strict=True))
        return kind(None, pairs) if issubclass(kind, defaultdict) else kind(pairs)
    if issubclass(kind, tuple | list):
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    made = object.__new__(kind)
    for key, part in zip(structure.keys, parts, strict=True):
        object.__setattr__(made, key, part)
    return made


def paths(structure: Structure, path: Path = ()) -> Iterator[Path]:
    """Yield the keys that lead to each leaf."""
    if isinstance(structure, Leaf):
        yield path
    elif structure is not None:
        for key, part in zip(structure.keys, structure.parts, strict=True):
            yield from paths(part, (*path, key))


def is_flat(structure: Structure) -> bool:
    """Return whether it is a leaf, or a plain tuple of several leaves, like the result of an executable."""
    if isinstance(structure, Leaf):
        return True
    if structure is None or structure.kind is not tuple or len(structure.parts) == 1:
        return False
    return all(isinstance(part, Leaf) for part in structure.parts)


def mapped(value: object, change: Callable[[Any], Any]) -> Any:
    """Return a value with equal structure and each leaf changed."""
    leaves: list[Any] = []
    structure = flattened(value, leaves)
    return rebuilt(structure, iter([change(leaf) for leaf in leaves]))
