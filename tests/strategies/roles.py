"""Fields of nodes that hold names, statements or records, by their types: declared roles have to agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import attrs

from tileir.core.nodes.schema import Role, slots

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

NAMES = {Role.INTRODUCES, Role.USES, Role.READS, Role.WRITES}


def wrong(kind: type, inside: Iterable[type], records: Iterable[type], texts: Container[str]) -> Iterator[str]:
    """Yield the fields of a node whose roles are not those of what they hold.

    Args:
        kind: The class of the node.
        inside: Classes of what stands inside nodes: statements, works, functions.
        records: Classes of parts of nodes that have names.
        texts: Fields whose texts are no names.

    """
    hints = get_type_hints(kind)
    roles = {slot.name: slot.role for slot in slots(kind)}
    for field in attrs.fields(kind):
        held = set(_held(hints[field.name]))
        if not held.isdisjoint(inside):
            expected: set[Role | None] = {Role.BODY}
        elif not held.isdisjoint(records):
            expected = {Role.PART, Role.USES}
        elif str in held and field.name not in texts:
            expected = set(NAMES)
        else:
            expected = {None}
        if roles.get(field.name) not in expected:
            yield field.name


def _held(hint: Any) -> Iterator[Any]:
    yield hint
    for inner in get_args(hint):
        yield from _held(inner)
