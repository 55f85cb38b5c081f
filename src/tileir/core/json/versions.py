"""The version of each format of JSON: of all documents whose nodes are of one package.

A version is raised when a class of its package gains, loses or renames a field, or changes its meaning. Until tileir
1.0 only documents of the current version are read. The durable formats are texts: programs of Tile, formulas, and
bundles, which consist of text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VERSIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "tileir.core": 1,
        "tileir.driver": 1,
        "tileir.formula": 1,
        "tileir.passes": 1,
        "tileir.schedule": 1,
        "tileir.semtree": 1,
        "tileir.stripe": 1,
        "tileir.targets": 1,
        "tileir.tile": 1,
        "tileir.typed": 1,
    }
)
"""Versions by packages, and that of target files; formats of other distributions have 1."""


def version_of(name: str) -> int:
    """Return the version in which this release reads and writes a format such as ``tileir.stripe.Program``."""
    return VERSIONS.get(name.rpartition(".")[0], 1)


def refusal(name: str, version: object) -> str | None:
    """Return the sentence for a document of a version that this release does not read; None if it does."""
    known = version_of(name)
    if version == known and type(version) is int:
        return None
    told = f"the version is {version!r:.80}; this release of tileir reads version {known} of {name}"
    if type(version) is not int:
        return told
    if version > known:
        return f"{told}: upgrade tileir"
    return f"{told}: make it anew with this release"
