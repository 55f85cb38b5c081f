"""Packages built on the compiler, which finds them by entry points and never imports them.

Their names in ``tileir``, such as ``tileir.craft``, are entry points of the group ``tileir.names``, loaded at first
use.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from tileir.core.distributions import installed, loaded
from tileir.core.errors import BackendError
from tileir.core.text.names import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUP: Final = "tileir.names"

PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("CraftedFormula", "craft", "formula"), "tileir_formula"),
        **dict.fromkeys(
            ("Explanation", "Tuned", "explain", "tune", "warnings_of", "warnings_of_compiled"), "tileir_performance"
        ),
        **dict.fromkeys(("cli", "to_svg"), "tileir_cli"),
        "studio": "tileir_studio",
        "testing": "tileir_testing",
    }
)
"""The package of each name, command or language that comes with tileir without being a part of the compiler."""

_OF_ACCELERATORS: Final = (
    *("autotile", "cache", "dsp_conv", "locate_block", "locate_inner_block", "locate_memory", "memory_placement"),
    *("order_loops", "outer_product", "pad", "partition_compute", "partition_memory", "prefetch"),
    *("reduce_constraints", "rewrite_locations", "schedule", "tensorise", "tensorize", "thread_inner"),
    *("unroll", "vectorise_inner"),
)

WHEELS: Final[Mapping[str, str]] = MappingProxyType(dict.fromkeys(_OF_ACCELERATORS, "tileir-accelerators"))
"""The distribution of each pass and target of the project that does not come with tileir."""


@cache
def provided(name: str) -> object:
    """Load the object of an entry point of the group ``tileir.names``.

    Raises:
        BackendError: TIL811, it is not installed or cannot be loaded; TIL812, two distributions provide it.
    """
    entries = [entry for entry in installed(GROUP) if entry.name == name]
    if not entries:
        raise not_installed(f"tileir.{name}", name)
    found = loaded("name", name, entries, lambda _: None, ("TIL811", "TIL812"))
    if isinstance(found, BackendError):
        raise found
    return found


def not_installed(subject: str, name: str) -> BackendError:
    """Build the error for a name of :data:`PACKAGES` whose entry point is missing, to be raised by the caller."""
    return BackendError.of("TIL811", f"{subject} needs {PACKAGES[name]}, which is not installed: pip install tileir")


def nearest_or_wheel(name: str, known: Iterable[str]) -> str:
    """Return the advice of a message for an unknown pass or target: its wheel, or the most similar name."""
    wheel = WHEELS.get(name)
    return nearest(name, known) if wheel is None else f"; it comes with {wheel}: pip install {wheel}"
