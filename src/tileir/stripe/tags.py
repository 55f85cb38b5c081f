"""Tags: names that nodes carry, which passes and lowerings read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

TagValue: TypeAlias = bool | int | float | str | None


@attrs.frozen(cache_hash=True)
class Tags:
    """A set of names, each with a value or None; sorted by name, each name once."""

    items: tuple[tuple[str, TagValue], ...] = ()

    @classmethod
    def of(cls, *names: str, **values: TagValue) -> Tags:
        """Return tags without value for ``names``, and with value for ``values``."""
        return cls(tuple(sorted({**dict.fromkeys(names), **values}.items())))

    def __contains__(self, name: object) -> bool:
        return any(tag == name for tag, _ in self.items)

    def has_all(self, names: Iterable[str]) -> bool:
        """Return whether every one of ``names`` is set; ``"all"`` counts as set everywhere."""
        return all(name == "all" or name in self for name in names)

    def get(self, name: str) -> TagValue:
        """Return the value of tag ``name``; None where it has none or is not set."""
        return next((value for tag, value in self.items if tag == name), None)

    def add(self, *names: str, **values: TagValue) -> Tags:
        """Return these tags with others added or replaced; itself when nothing changes."""
        new = Tags(tuple(sorted({**dict(self.items), **dict.fromkeys(names), **values}.items())))
        return self if new == self else new

    def remove(self, *names: str) -> Tags:
        """Return these tags without ``names``; itself when none of them is set."""
        new = tuple(item for item in self.items if item[0] not in names)
        return self if len(new) == len(self.items) else Tags(new)
