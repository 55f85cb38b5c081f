"""Roles of the fields of nodes, declared once at the node, and generic walks based on them.

A role is in the metadata of a field: ``value: Expr = attrs.field(metadata=OPERAND)``. Fields without one are data that
walks ignore, such as sizes and types. Nodes are attrs classes; fields with roles are passed by position.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, Final, TypeVar

from tileir.core.nodes import attrs

N = TypeVar("N")
T = TypeVar("T")


class Role(Enum):
    """Role of a field in its node."""

    OPERAND = "an expression that the node evaluates"
    OPERANDS = "several of them"
    TARGET = "what the node writes: an expression of which only the operands are evaluated"
    UPDATED = "an expression that the node evaluates and then writes"
    PLACE = "an expression of which only the operands are evaluated: it is neither read nor written"
    PART = "a record whose fields have roles"
    BODY = "a list of statements, or of works, inside the node"
    INTRODUCES = "a name, or a node with a name, that the node introduces"
    USES = "the name of something that is introduced elsewhere, several of them, or records that have one"
    READS = "the name of memory that the node reads, or several of them"
    WRITES = "the name of memory that the node writes, or several of them"


_ROLE: Final = "tileir.role"
_KINDS: Final = "tileir.kinds"
_CHOICES: Final = "tileir.choices"


def role(of: Role, *kinds: type) -> Mapping[str, object]:
    """Return the metadata of a field: its role, and the kinds of values that may replace it, if restricted."""
    return MappingProxyType({_ROLE: of, _KINDS: kinds})


def one_of(*values: object) -> Mapping[str, object]:
    """Return the metadata of a field that has one of some values, which are data."""
    return MappingProxyType({_CHOICES: values})


def choices(kind: type, name: str) -> tuple[Any, ...]:
    """Return the permitted values of a field; none if it is not restricted."""
    return tuple(getattr(attrs.fields(kind), name).metadata.get(_CHOICES, ()))


ADDED: Final[Mapping[str, object]] = MappingProxyType({"tileir.added": True})
"""The metadata of a field that JSON omits if it has its default, so that older documents and digests remain valid."""
OPERAND: Final = role(Role.OPERAND)
OPERANDS: Final = role(Role.OPERANDS)
PART: Final = role(Role.PART)
BODY: Final = role(Role.BODY)
INTRODUCES: Final = role(Role.INTRODUCES)
USES: Final = role(Role.USES)
READS: Final = role(Role.READS)
WRITES: Final = role(Role.WRITES)

_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_WHOLE: Final = (Role.OPERAND, Role.OPERANDS, Role.TARGET, Role.UPDATED, Role.PLACE, Role.PART)
_EVALUATED: Final = (Role.OPERAND, Role.OPERANDS, Role.UPDATED)
_WRITTEN: Final = (Role.TARGET, Role.UPDATED)


@attrs.frozen
class Slot:
    """A field with a role, and its position among the fields of its node."""

    name: str
    role: Role
    place: int
    kinds: tuple[type, ...]


@cache
def slots(kind: type, *roles: Role) -> tuple[Slot, ...]:
    """Return the fields of a node that have one of some roles, by default any, in their order; none of plain data."""
    if not attrs.has(kind):
        return ()
    found = (
        Slot(field.name, field.metadata[_ROLE], place, field.metadata[_KINDS])
        for place, field in enumerate(attrs.fields(kind))
        if _ROLE in field.metadata
    )
    return tuple(slot for slot in found if not roles or slot.role in roles)


class _Table(dict[type, T]):
    """Derived data of the roles of each kind of node, computed on demand."""

    def __init__(self, make: Callable[[type], T]) -> None:
        super().__init__()
        self.make = make

    def __missing__(self, kind: type) -> T:
        return self.setdefault(kind, self.make(kind))


def operands(node: object) -> tuple[Any, ...]:
    """Return the expressions that a node itself evaluates, in the order of its fields."""
    return _OPERANDS[type(node)](node)


def mentions(node: object) -> tuple[Any, ...]:
    """Return the expressions in the fields of a node, also those that it only writes or names, in their order."""
    return _MENTIONS[type(node)](node)


def targets(node: object) -> tuple[Any, ...]:
    """Return the expressions that a node writes, in the order of its fields."""
    return _TARGETS[type(node)](node)


def named(node: object) -> tuple[Any, ...]:
    """Return the expressions that a node neither reads nor writes, but names, in the order of its fields."""
    return _NAMED[type(node)](node)


def with_operands(node: N, new: tuple[Any, ...]) -> N:
    """Return a node without targets and parts with other operands; itself if they are identical."""
    return node if all(map(operator.is_, operands(node), new)) else _REBUILT[type(node)](node, new)


def map_operands(function: Callable[[Any], Any], node: N) -> N:
    """Apply ``function`` to each expression in the fields of a node, as in :func:`mentions`.

    Raises:
        TypeError: A field cannot hold the result of ``function``.
    """
    changed: list[tuple[int, object]] = []
    for slot in _WHOLE_SLOTS[type(node)]:
        old = getattr(node, slot.name)
        if slot.role is Role.OPERANDS:
            several = tuple(map(function, old))
            new = old if all(map(operator.is_, old, several)) else several
        else:
            new = map_operands(function, old) if slot.role is Role.PART else function(old)
        if new is not old:
            if slot.kinds and not isinstance(new, slot.kinds):
                wanted = " or ".join(kind.__name__ for kind in slot.kinds)
                place = f"{type(node).__name__}.{slot.name}"
                raise TypeError(f"{place} must be replaced by {wanted}, not by {type(new).__name__}")
            changed.append((slot.place, new))
    return _with_fields(node, changed) if changed else node


def bodies(node: object) -> tuple[Any, ...]:
    """Return the lists of statements, or of works, inside a node."""
    return _BODIES[type(node)](node)


def map_bodies(function: Callable[[Any], Any], node: N) -> N:
    """Apply ``function`` to each list of statements, or of works, inside a node; itself if nothing changes."""
    return _mapped(node, _BODY_SLOTS[type(node)], function)


def introduced(node: object) -> tuple[str, ...]:
    """Return the names that a node introduces."""
    return _INTRODUCED_NAMES[type(node)](node)


def introduced_of(node: object, kind: type[N]) -> tuple[N, ...]:
    """Return the nodes of one kind that a node introduces."""
    values = _INTRODUCED[type(node)](node)
    return tuple([value for value in values if isinstance(value, kind)]) if values else ()


def used(node: object) -> tuple[str, ...]:
    """Return the names that a node uses; not those of its operands, targets and bodies."""
    return _USED_NAMES[type(node)](node)


def reads(node: object) -> tuple[str, ...]:
    """Return the names of memory that a node reads."""
    return _READ_NAMES[type(node)](node)


def writes(node: object) -> tuple[str, ...]:
    """Return the names of memory that a node writes."""
    return _WRITTEN_NAMES[type(node)](node)


def with_names(node: N, names: Mapping[str, str], memory: Mapping[str, str] = _NO_NAMES) -> N:
    """Return a node with other names for its definitions and uses; operands, targets and bodies keep theirs.

    ``memory`` has the new names of memory that it reads and writes.
    """
    changed: list[tuple[int, object]] = []
    for field, place, of_memory in _NAME_SLOTS[type(node)]:
        old = getattr(node, field)
        known = memory if of_memory else names
        new = known.get(old, old) if type(old) is str else _renamed(old, known, memory)
        if new is not old:
            changed.append((place, new))
    return _with_fields(node, changed) if changed else node


def with_used(node: N, names: Mapping[str, str]) -> N:
    """Return a node with other names for its uses; those of its definitions remain."""
    return _mapped(node, _USED_SLOTS[type(node)], lambda old: _renamed(old, names, _NO_NAMES))


def _mapped(node: N, slots: Iterable[Slot], function: Callable[[Any], Any]) -> N:
    """Return a node with ``function`` applied to some of its fields; itself if nothing changes."""
    changed: list[tuple[int, object]] = []
    for slot in slots:
        old = getattr(node, slot.name)
        new = function(old)
        if new is not old:
            changed.append((slot.place, new))
    return _with_fields(node, changed) if changed else node


def _renamed(old: Any, names: Mapping[str, str], memory: Mapping[str, str]) -> Any:
    """Return a name, several names, or records that contain names, with other names."""
    if isinstance(old, str):
        return names.get(old, old)
    if isinstance(old, tuple):
        new = tuple([_renamed(each, names, memory) for each in old])
        return old if all(map(operator.is_, old, new)) else new
    return with_names(old, names, memory)


def _with_fields(node: N, changed: Iterable[tuple[int, object]]) -> N:
    positional, keywords = _FIELDS[type(node)]
    values = list(positional(node))
    for place, value in changed:
        values[place] = value
    if not keywords:
        return type(node)(*values)
    return type(node)(*values, **{name: getattr(node, name) for name in keywords})


def _nothing(_: object) -> tuple[Any, ...]:
    return ()


def _operands_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    return _gathered(kind, _WHOLE, lambda slot: slot.role in _EVALUATED, operands)


def _mentions_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    return _gathered(kind, _WHOLE, lambda slot: slot.role is not Role.PART, mentions)


def _targets_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    return _gathered(kind, (*_WRITTEN, Role.PART), lambda slot: slot.role is not Role.PART, targets)


def _gathered(
    kind: type, roles: tuple[Role, ...], whole: Callable[[Slot], bool], inside: Callable[[object], tuple[Any, ...]]
) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of the fields of nodes with some roles: as they are, or the parts ``inside`` of them."""
    found = slots(kind, *roles)
    if all(slot.role is not Role.OPERANDS and whole(slot) for slot in found):
        return _fields(found)
    if len(found) == 1 and found[0].role is Role.OPERANDS:
        return operator.attrgetter(found[0].name)

    steps = [(slot.name, slot.role is not Role.OPERANDS and whole(slot), slot.role is Role.OPERANDS) for slot in found]

    def gathered(node: object) -> tuple[Any, ...]:
        result: list[Any] = []
        for name, is_one, is_several in steps:
            value = getattr(node, name)
            if is_one:
                result.append(value)
            else:
                result.extend(value if is_several else inside(value))
        return tuple(result)

    return gathered


def _fields(found: tuple[Slot, ...]) -> Callable[[Any], tuple[Any, ...]]:
    return _getter([slot.name for slot in found])


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a getter of some fields of nodes."""
    if not names:
        return _nothing
    get = operator.attrgetter(*names)
    return get if len(names) > 1 else lambda node: (get(node),)


def _introduced_names_of(kind: type) -> Callable[[Any], tuple[str, ...]]:
    found = slots(kind, Role.INTRODUCES)
    named = {field.name for field in attrs.fields(kind) if field.type not in ("str", str)}
    return _fields(tuple(attrs.evolve(s, name=f"{s.name}.name") if s.name in named else s for s in found))


def _names_of(kind: type, of: Role, inside: Callable[[object], tuple[str, ...]]) -> Callable[[Any], tuple[str, ...]]:
    """Return a getter of the names in fields of nodes with one role, and in their records."""
    found = slots(kind, of, Role.PART)
    types = {field.name: field.type for field in attrs.fields(kind)} if found else {}
    kinds = [types[slot.name] for slot in found]
    if kinds == ["tuple[str, ...]"]:
        return operator.attrgetter(found[0].name)
    get = _fields(found)
    if set(kinds) <= {"str", str}:
        return get
    if set(kinds[:-1]) <= {"str"} and kinds[-1] == "str | None":
        return lambda node: names if (names := get(node))[-1] is not None else names[:-1]

    def gathered(node: object) -> tuple[str, ...]:
        names: list[str] = []
        pending = list(get(node))[::-1]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                names.append(value)
            elif isinstance(value, tuple):
                pending.extend(reversed(value))
            else:
                names.extend(inside(value))
        return tuple(names)

    return gathered


def _rebuilt(kind: type) -> Callable[[Any, tuple[Any, ...]], Any]:
    found = slots(kind, *_WHOLE)
    if len(found) == 1 and found[0].role is Role.OPERANDS:
        place = found[0].place
        return lambda node, new: _with_fields(node, ((place, new),))
    if any(slot.role is not Role.OPERAND for slot in found):
        raise TypeError(f"{kind.__name__} has operands behind other fields")
    places = [slot.place for slot in found]
    return lambda node, new: _with_fields(node, zip(places, new, strict=True))


_WHOLE_SLOTS: Final = _Table(lambda kind: slots(kind, *_WHOLE))
_BODY_SLOTS: Final = _Table(lambda kind: slots(kind, Role.BODY))
_OF_MEMORY: Final = (Role.READS, Role.WRITES)
_USED_SLOTS: Final = _Table(lambda kind: slots(kind, Role.USES, Role.PART))
_NAME_SLOTS: Final = _Table(
    lambda kind: [
        (slot.name, slot.place, slot.role in _OF_MEMORY)
        for slot in slots(kind, Role.INTRODUCES, Role.USES, *_OF_MEMORY, Role.PART)
    ]
)
_USED_NAMES: Final = _Table(lambda kind: _names_of(kind, Role.USES, used))
_READ_NAMES: Final = _Table(lambda kind: _names_of(kind, Role.READS, reads))
_WRITTEN_NAMES: Final = _Table(lambda kind: _names_of(kind, Role.WRITES, writes))
_OPERANDS: Final = _Table(_operands_of)
_MENTIONS: Final = _Table(_mentions_of)
_TARGETS: Final = _Table(_targets_of)
_NAMED: Final = _Table(lambda kind: _fields(slots(kind, Role.PLACE)))
_REBUILT: Final = _Table(_rebuilt)
_INTRODUCED: Final = _Table(lambda kind: _fields(slots(kind, Role.INTRODUCES)))
_INTRODUCED_NAMES: Final = _Table(_introduced_names_of)
_BODIES: Final = _Table(lambda kind: _fields(slots(kind, Role.BODY)))
_FIELDS: Final = _Table(
    lambda kind: (
        _getter([field.name for field in attrs.fields(kind) if not field.kw_only]),
        [field.name for field in attrs.fields(kind) if field.kw_only],
    )
)
