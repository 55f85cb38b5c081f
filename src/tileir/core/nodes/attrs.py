"""Frozen attrs classes with shared methods for display, comparison and hashing.

attrs generates these methods for each class and compiles them, which takes most of the load time of a module with many
classes. They differ only in the names of fields. :func:`evolve` takes half the time of :func:`attrs.evolve`, as passes
copy thousands of nodes; so do constructors here, which write slots, where those of attrs have ``object`` look up each
by its name.
"""

from __future__ import annotations

from functools import cache, partial
from operator import attrgetter
from types import CodeType, FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
from attrs import (
    NOTHING as NOTHING,
    Attribute as Attribute,
    AttrsInstance as AttrsInstance,
    asdict as asdict,
    astuple as astuple,
    define as define,
    field as field,
    fields as fields,
    fields_dict as fields_dict,
    has as has,
    validators as validators,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrs import evolve as evolve, frozen as frozen

    _Layout: TypeAlias = tuple[Callable[[Any], tuple[Any, ...]], dict[str, int], tuple[str, ...]]
else:

    def frozen(cls=None, *, repr=True, eq=None, cache_hash=False, **options):  # noqa: A002  the names of attrs
        """Make a class like :func:`attrs.frozen`, with generated methods only if hashes are cached."""
        if cls is None:
            return partial(frozen, repr=repr, eq=eq, cache_hash=cache_hash, **options)
        own = vars(cls)
        if repr and "__repr__" not in own:
            cls.__repr__ = _shown
        shares = eq is not False and not cache_hash and "__eq__" not in own
        if shares:
            cls.__eq__ = _equal
            cls.__hash__ = own.get("__hash__", _hash)
        made = attrs.frozen(cls, repr=False, eq=None if shares else eq, cache_hash=cache_hash, **options)
        if shares:
            made.__compared__ = staticmethod(_compared(made))
        if "__init__" not in own and made.__init__.__code__.co_names == _ONLY_SETS:
            made.__init__ = _until_called(made, made.__init__)
        return made

    def evolve(node, /, **changes):
        """Return an instance with other values in some fields, like :func:`attrs.evolve`."""
        kind = type(node)
        values, places, keywords = _LAYOUTS.get(kind) or _layout(kind)
        new = list(values(node))
        try:
            for name, value in changes.items():
                new[places[name]] = value
        except KeyError as error:
            raise TypeError(f"{kind.__name__} has no field {error}") from None
        if keywords:
            position = len(new) - len(keywords)
            return kind(*new[:position], **dict(zip(keywords, new[position:], strict=True)))
        return kind(*new)


_LAYOUTS: Final[dict[type, _Layout]] = {}
"""For each class that was evolved, the getter of the fields that its constructor takes, the position of each by its
parameter's name, and the names of keyword-only parameters, which are the last.
"""


def _layout(kind: type[attrs.AttrsInstance]) -> _Layout:
    named = hasattr(kind, "__attrs_init__")  # a constructor of its own, which may have another order
    taken = sorted((field for field in attrs.fields(kind) if field.init), key=lambda field: field.kw_only)
    keywords = tuple(field.alias for field in taken if named or field.kw_only)
    names = [field.name for field in taken]
    return _LAYOUTS.setdefault(kind, (_together(names), {field.alias: n for n, field in enumerate(taken)}, keywords))


def _together(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*names) if len(names) > 1 else lambda node: tuple([getattr(node, name) for name in names])


_ONLY_SETS: Final = ("_cached_setattr_get",)
"""Names in a constructor by attrs that only sets fields, apart from those of fields to empty."""


def _until_called(made: Any, theirs: Any) -> Callable[..., None]:
    """Return a constructor that replaces itself by a quick one at the first call: most classes have no instances."""

    def first(node: Any, *values: Any, **named: Any) -> None:
        made.__init__ = _writing(made, theirs)
        made.__init__(node, *values, **named)

    first.__wrapped__ = theirs  # type: ignore[attr-defined]  # whose parameters are told
    return first


def _writing(made: Any, theirs: Any) -> Any:
    """Return a constructor that writes the slots which the one by attrs sets; that itself if there are none."""
    code, names = theirs.__code__, {field.alias: field.name for field in attrs.fields(made)}
    given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    taken = [names[name] for name in given[1:]]
    emptied = [name for name in code.co_consts if isinstance(name, str) and name not in taken]
    slots: list[Any] = [getattr(made, name, None) for name in (*taken, *emptied)]
    if not all(isinstance(slot, MemberDescriptorType) for slot in slots):
        return theirs
    shape = _template(code.co_argcount - 1, code.co_kwonlyargcount, len(emptied))
    space = {f"set{number}": slot.__set__ for number, slot in enumerate(slots)}
    init = FunctionType(shape.replace(co_varnames=given), space, theirs.__name__, theirs.__defaults__)
    for name in ("__kwdefaults__", "__annotations__", "__qualname__", "__module__", "__doc__"):
        setattr(init, name, getattr(theirs, name))
    return init


@cache
def _template(positional: int, keyed: int, emptied: int) -> CodeType:
    """Return the code of a constructor that sets this many fields; compiling one for each class would be slow."""
    names = [f"value{number}" for number in range(positional + keyed)]
    taken = ", ".join(("self", *names[:positional], *(("*",) if keyed else ()), *names[positional:]))
    sets = [f"set{number}(self, {name})" for number, name in enumerate((*names, *("None",) * emptied))]
    space: dict[str, Any] = {}
    exec(f"def __init__({taken}): {'; '.join(sets) or 'pass'}", space)
    code: CodeType = space["__init__"].__code__
    return code


def _shown(node: Any) -> str:
    shown = ((field, getattr(node, field.name)) for field in attrs.fields(type(node)) if field.repr)
    texts = (f"{each.name}={each.repr(value) if callable(each.repr) else repr(value)}" for each, value in shown)
    return f"{type(node).__qualname__.rpartition('>.')[2]}({', '.join(texts)})"


def _equal(node: Any, other: Any) -> Any:
    if other.__class__ is not node.__class__:
        return NotImplemented
    return node.__compared__(node) == other.__compared__(other)


def _hash(node: Any) -> int:
    return hash(node.__compared__(node))


def _compared(cls: type[attrs.AttrsInstance]) -> Any:
    """Return the function that returns the compared values of an instance."""
    fields = [field for field in attrs.fields(cls) if field.eq]
    if not fields:
        return type
    if any(field.eq_key for field in fields):
        keys = [(field.name, field.eq_key or _itself) for field in fields]
        return lambda node: tuple([key(getattr(node, name)) for name, key in keys])
    return attrgetter(*(field.name for field in fields))


def _itself(value: object) -> object:
    return value
