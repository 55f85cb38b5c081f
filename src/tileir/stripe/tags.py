"""Tags: names on nodes for passes and lowerings, including those of schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from tileir.core.nodes import attrs
from tileir.stripe.shapes import Node

TagValue: TypeAlias = bool | int | float | str | None

INSIDE: Final = "inside"
ATOMIC: Final = "atomic"
ADVANCE: Final = "advance"
PADDED: Final = "padded"
SWIZZLE_SHIFT: Final = "swizzle_shift"
SWIZZLE_MASK: Final = "swizzle_mask"
FOLD: Final = "fold"
BESIDE: Final = "beside"

PROGRAM: Final = "program"
MAIN: Final = "main"
KERNEL: Final = "kernel"
LOOP: Final = "loop"
WHILE: Final = "while"
BODY: Final = "body"
BRANCH: Final = "branch"
THEN: Final = "then"
ELSE: Final = "else"
USER: Final = "user"
TEMPORARY: Final = "tmp"

PLACES: Final = (PROGRAM, MAIN, KERNEL, LOOP, WHILE, BODY, BRANCH, THEN, ELSE)
"""Words of text for the position of a block in its program; kernels have none of them as tags."""

LIFETIMES: Final = (USER, TEMPORARY)
"""Words of text for memory visible to callers, and not; the memory of programs has none of them as tags."""

SCHEDULE: Final[Mapping[str, str]] = MappingProxyType(
    {
        INSIDE: "the place that data give is in bounds; on loads and stores",
        ATOMIC: "other threads merge into the same elements at the same time; on stores",
        ADVANCE: "hands a step's results on to the next step; on kernels of loops",
        PADDED: "what constraints keep from being stored is zero; on blocks",
        SWIZZLE_SHIFT: "how far bits of a place are moved before they are mixed in; on allocations",
        SWIZZLE_MASK: "which of them are mixed in; on allocations",
        BESIDE: "runs in one launch with those before it that have all lower numbers; on kernels",
        FOLD: "rows lie in pieces of so many elements, one column of pieces after the other; on allocations",
    }
)
"""Meaning of tags for the lowering to the semtree, the only reader of schedules."""


@attrs.frozen(cache_hash=True, repr=False)
class Tags(Node):
    """A set of names, each with a value or None; sorted by name, each name once."""

    items: tuple[tuple[str, TagValue], ...] = ()

    @classmethod
    def of(cls, *names: str, **values: TagValue) -> Tags:
        """Return tags without value for ``names``, and with value for ``values``."""
        return cls(tuple(sorted({**dict.fromkeys(names), **values}.items())))

    def __contains__(self, name: object) -> bool:
        return name in dict(self.items) if self.items else False

    def has_all(self, names: Iterable[str]) -> bool:
        """Return whether every one of ``names`` is set; ``"all"`` counts as set everywhere."""
        return all(name == "all" or name in self for name in names)

    def get(self, name: str) -> TagValue:
        """Return the value of tag ``name``; None if it has none or is not set."""
        return dict(self.items).get(name) if self.items else None

    def add(self, *names: str, **values: TagValue) -> Tags:
        """Return these tags with others added or replaced; itself if nothing changes."""
        new = Tags(tuple(sorted({**dict(self.items), **dict.fromkeys(names), **values}.items())))
        return self if new == self else new

    def remove(self, *names: str) -> Tags:
        """Return these tags without ``names``; itself if none of them is set."""
        new = tuple(item for item in self.items if item[0] not in names)
        return self if len(new) == len(self.items) else Tags(new)
