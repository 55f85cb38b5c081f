"""Classes of attrs whose methods are written when they are called first.

attrs writes and compiles a constructor and comparisons for each class while its module is imported, which took a third
of the time to load the compiler: hundreds of classes, of which one program needs some. These decorators make the same
classes, that :func:`attrs.fields`, :func:`attrs.evolve` and cattrs take, with methods that are written on their first
use. What is rare (classes without slots, ordered ones, exceptions, attributes that convert when they are set, and
methods that a class writes itself) is left to attrs.
"""

from __future__ import annotations

from functools import cached_property
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_RECORD: Final = "__record__"
_HASH: Final = "_kept_hash"
_OWN: Final = frozenset(
    (
        *("__init__", "__eq__", "__ne__", "__hash__", "__setattr__", "__delattr__", "__getattr__", "__getstate__"),
        *("__setstate__", "__attrs_pre_init__", "__attrs_init_subclass__", "__slots__", "__match_args__"),
    )
)
"""Methods that no class writes itself whose others are written here."""

_OPTIONS: Final = frozenset(("eq", "repr", "cache_hash"))
"""Options of the decorators that are not rare."""

_SPEC: Final[type] = type(attrs.field())
_KNOWN: Final = all(
    hasattr(attrs.field(), name)
    for name in (
        *("_default", "_validator", "repr", "eq", "eq_key", "hash", "init", "metadata", "converter", "kw_only"),
        *("order", "order_key", "on_setattr", "alias", "type"),
    )
)
"""Whether this attrs says of a field what is read here; else it makes all classes."""


class _Field:
    """A field of a class: what :func:`attrs.field` said of it, with the type that was written behind its name."""

    __slots__ = ("inherited", "kind", "name", "spec")

    def __init__(self, name: str, spec: Any, kind: object, *, inherited: bool = False) -> None:
        self.name, self.spec, self.kind, self.inherited = name, spec, kind, inherited

    @property
    def argument(self) -> str:
        """The name of the parameter of the constructor."""
        return self.spec.alias or self.name.lstrip("_")

    @property
    def attribute(self) -> attrs.Attribute[Any]:
        """The same as attrs gives it."""
        spec = self.spec
        made = cast("Callable[..., attrs.Attribute[Any]]", attrs.Attribute)
        return made(
            name=self.name,
            default=spec._default,
            validator=spec._validator,
            repr=spec.repr,
            cmp=None,
            hash=spec.hash,
            init=spec.init,
            inherited=self.inherited,
            metadata=spec.metadata,
            type=self.kind,
            converter=spec.converter,
            kw_only=bool(spec.kw_only),
            eq=spec.eq,
            order=spec.order,
            on_setattr=spec.on_setattr,
            alias=self.argument,
        )


class _Record:
    """What the methods of a class are written from."""

    __slots__ = ("compared", "fields", "frozen", "hashed")

    def __init__(self, fields: tuple[_Field, ...], *, frozen: bool, compared: bool, hashed: bool) -> None:
        self.fields, self.frozen, self.compared, self.hashed = fields, frozen, compared, hashed


class _Fields(tuple[Any, ...]):
    """Attributes of attrs, by number and by name."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        for attribute in self:
            if attribute.name == name:
                return attribute
        raise AttributeError(name)


class _Written:
    """Something of a class that is made when it is asked for first, and then stands in its own place."""

    __slots__ = ("make", "name", "owner")
    owner: type

    def __init__(self, name: str, make: Callable[[type], object]) -> None:
        self.name, self.make = name, make

    def __get__(self, instance: object, _: type) -> Any:
        made = self.make(self.owner)
        setattr(self.owner, self.name, made)
        return made if instance is None or not isinstance(made, FunctionType) else made.__get__(instance)


def _refuse_set(_: object, __: str, ___: object) -> None:
    raise attrs.exceptions.FrozenInstanceError


def _refuse_delete(_: object, __: str) -> None:
    raise attrs.exceptions.FrozenInstanceError


def _state(self: Any) -> dict[str, object]:
    return {field.name: getattr(self, field.name) for field in getattr(self, _RECORD).fields}


def _set_state(self: Any, state: dict[str, object]) -> None:
    record: _Record = getattr(self, _RECORD)
    for field in record.fields:
        if field.name in state:
            object.__setattr__(self, field.name, state[field.name])
    if record.hashed:
        object.__setattr__(self, _HASH, None)


def _shown(record: _Record) -> Callable[[Any], str]:
    """Return a ``repr`` that shows the fields of a class; of a class that derives from it without one, too."""

    @recursive_repr()
    def shown(self: Any) -> str:
        fields = [field for field in record.fields if field.spec.repr]
        values = [getattr(self, field.name, *(() if field.spec.init else (attrs.NOTHING,))) for field in fields]
        given = ", ".join(f"{field.name}={value!r}" for field, value in zip(fields, values, strict=True))
        return f"{type(self).__qualname__.rsplit('>.', 1)[-1]}({given})"

    shown.__name__ = "__repr__"
    return shown


def _written(owner: type, name: str, head: str, lines: Iterable[str], known: dict[str, object]) -> FunctionType:
    """Return a method of a class, from its lines and the values that they name."""
    text = "\n    ".join((f"def {name}{head}:", *lines))
    names: dict[str, Any] = {}
    exec(compile(text, f"<methods of {owner.__module__}.{owner.__qualname__}>", "exec"), known, names)
    method: FunctionType = names[name]
    method.__module__, method.__qualname__ = owner.__module__, f"{owner.__qualname__}.{name}"
    return method


def _constructor(owner: type) -> FunctionType:
    record: _Record = getattr(owner, _RECORD)
    known: dict[str, object] = {"NOTHING": attrs.NOTHING, "_checked": attrs.validators.get_disabled}
    positional: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    checks: list[str] = []
    annotations: dict[str, object] = {}

    def assignment(name: str, value: str) -> str:
        if not record.frozen:
            return f"self.{name} = {value}"
        known[f"_set_{name}"] = getattr(owner, name).__set__
        return f"_set_{name}(self, {value})"

    for field in record.fields:
        spec, name, value = field.spec, field.name, field.argument
        default = spec._default
        parameter = value
        if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class, whatever its stub says
            known[f"_make_{name}"] = default.factory
            made = f"_make_{name}({'self' if default.takes_self else ''})"
            parameter = f"{value}=NOTHING"
            value = f"{value} if {value} is not NOTHING else {made}" if spec.init else made
        elif default is not attrs.NOTHING:
            known[f"_default_{name}"] = default
            parameter = f"{value}=_default_{name}"
            value = value if spec.init else f"_default_{name}"
        elif not spec.init:
            continue
        if spec.converter is not None:
            known[f"_convert_{name}"] = spec.converter
            value = f"_convert_{name}({value})"
        elif spec.init and field.kind is not None:
            annotations[field.argument] = field.kind
        if spec.init:
            (named if spec.kw_only else positional).append(parameter)
        lines.append(assignment(name, value))
        if spec._validator is not None:
            known |= {f"_check_{name}": spec._validator, f"_field_{name}": field.attribute}
            checks.append(f"    _check_{name}(self, _field_{name}, self.{name})")
    if checks:
        lines += ("if not _checked():", *checks)
    if hasattr(owner, "__attrs_post_init__"):
        lines.append("self.__attrs_post_init__()")
    if record.hashed:
        lines.append(assignment(_HASH, "None"))
    parameters = ", ".join(("self", *positional, *(("*", *named) if named else ())))
    method = _written(owner, "__init__", f"({parameters})", lines or ("pass",), known)
    method.__annotations__ = {**annotations, "return": None}
    return method


def _equality(owner: type) -> FunctionType:
    record: _Record = getattr(owner, _RECORD)
    equal = (f"self.{field.name} == other.{field.name}" for field in record.fields if field.spec.eq is not False)
    lines = (
        "if other.__class__ is not self.__class__:",
        "    return NotImplemented",
        f"return {' and '.join(equal) or 'True'}",
    )
    return _written(owner, "__eq__", "(self, other)", lines, {})


def _hash_of(owner: type) -> FunctionType:
    record: _Record = getattr(owner, _RECORD)
    kind = f"{owner.__module__}.{owner.__qualname__}"
    names = [
        f"self.{field.name}, "
        for field in record.fields
        if field.spec.hash or (field.spec.hash is None and field.spec.eq is not False)
    ]
    value = f"hash(({hash(kind)}, {''.join(names)}))"
    if not record.hashed:
        return _written(owner, "__hash__", "(self)", (f"return {value}",), {})
    lines = (
        f"if self.{_HASH} is None:",
        f"    _keep(self, {value})",
        f"return self.{_HASH}",
    )
    return _written(owner, "__hash__", "(self)", lines, {"_keep": getattr(owner, _HASH).__set__})


def _attributes(owner: type) -> _Fields:
    return _Fields(field.attribute for field in getattr(owner, _RECORD).fields)


def _own_fields(cls: type) -> list[_Field]:
    """Return the fields that a class has annotated, in their order."""
    given = vars(cls)
    kinds = cls.__annotations__
    found = []
    for name, kind in kinds.items():
        if not str(kind).strip("'\"").startswith(("ClassVar", "typing.ClassVar")):
            spec = given.get(name, attrs.NOTHING)
            found.append(_Field(name, spec if isinstance(spec, _SPEC) else attrs.field(default=spec), kind))
    if any(isinstance(value, _SPEC) and name not in kinds for name, value in given.items()):
        raise TypeError(f"{cls.__name__} has fields without a type")
    return found


def _inherited(cls: type, own: list[_Field]) -> list[_Field]:
    """Return the fields of the bases, in attrs' order: those of the last base first, the nearest definition of each."""
    taken = {field.name for field in own}
    found: dict[str, _Field] = {}
    for base in reversed(cls.__mro__[1:-1]):
        record: _Record | None = vars(base).get(_RECORD)
        for field in record.fields if record else ():
            if not field.inherited and field.name not in taken:
                found.pop(field.name, None)
                found[field.name] = _Field(field.name, field.spec, field.kind, inherited=True)
    return list(found.values())


def _check_order(cls: type, fields: Iterable[_Field]) -> None:
    """Refuse a field that must be given behind one that need not."""
    optional = False
    for field in fields:
        if field.spec.init and not field.spec.kw_only:
            if optional and field.spec._default is attrs.NOTHING:
                raise ValueError(f"{cls.__name__}.{field.name} must be given, and stands behind a field with a default")
            optional = field.spec._default is not attrs.NOTHING


def _is_usual(cls: type, fields: Iterable[_Field], *, frozen: bool) -> bool:
    """Return whether the methods of a class can be written here."""
    if issubclass(cls, BaseException) or not _OWN.isdisjoint(vars(cls)):
        return False
    for base in cls.__mro__[1:-1]:
        record: _Record | None = vars(base).get(_RECORD)
        if (record is not None and record.frozen != frozen) or (record is None and "__attrs_attrs__" in vars(base)):
            return False
    if any(isinstance(value, cached_property) for value in vars(cls).values()):
        return False
    specs = [field.spec for field in fields]
    plain = all(
        spec.eq_key is None and spec.on_setattr is None and isinstance(spec.repr, bool) and spec.type is None
        and not isinstance(spec.converter, attrs.Converter) for spec in specs
    )  # fmt: skip
    return plain and (frozen or all(spec.converter is None and spec._validator is None for spec in specs))


def _slotted(cls: type, record: _Record, own: list[_Field], *, shown: bool) -> type:
    """Return a class like another, with slots for its fields, and the methods that follow from them."""
    given = {
        name: value
        for name, value in vars(cls).items()
        if name not in ("__dict__", "__weakref__") and name not in {field.name for field in own}
    }
    bases = cls.__mro__[1:-1]
    there = {name: vars(base).get(name) for base in bases for name in vars(base).get("__slots__", ())}
    slots = [field.name for field in own if field.name not in there]
    given |= {field.name: there[field.name] for field in own if field.name in there}
    if record.hashed and _HASH not in there:
        slots.append(_HASH)
    if all(vars(base).get("__weakref__") is None for base in bases):
        slots.append("__weakref__")
    made: list[_Written] = [_Written("__attrs_attrs__", _attributes), _Written("__init__", _constructor)]
    if record.compared:
        made.append(_Written("__eq__", _equality))
        if record.frozen:
            made.append(_Written("__hash__", _hash_of))
        else:
            given["__hash__"] = None
    given |= {
        _RECORD: record,
        "__slots__": tuple(slots),
        "__qualname__": cls.__qualname__,
        "__match_args__": tuple([f.name for f in record.fields if f.spec.init and not f.spec.kw_only]),
        "__getstate__": _state,
        "__setstate__": _set_state,
        "__replace__": attrs.evolve,
        "__attrs_own_setattr__": record.frozen,
        **{each.name: each for each in made},
    }
    if record.frozen:
        given |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if shown and "__repr__" not in given:
        given["__repr__"] = _shown(record)
    new = type(cls)(cls.__name__, cls.__bases__, given)
    for each in made:
        each.owner = new
    _point_cells(cls, new)
    return new


def _point_cells(old: type, new: type) -> None:
    """Let methods that name their class, as ``super()`` does, mean the new one."""
    for value in vars(new).values():
        function = getattr(value, "fget", None) or getattr(value, "__func__", value)
        for cell in getattr(function, "__closure__", None) or ():
            if cell.cell_contents is old:
                cell.cell_contents = new


def _decorated(cls: type | None, options: Mapping[str, bool], *, frozen: bool) -> Any:
    """Return a class with slots, and methods that follow from its fields; or a decorator with these options."""
    if cls is None:
        return lambda cls: _decorated(cls, options, frozen=frozen)
    if _KNOWN and _OPTIONS.issuperset(options):
        own = _own_fields(cls)
        fields = (*_inherited(cls, own), *own)
        _check_order(cls, fields)
        if _is_usual(cls, fields, frozen=frozen):
            compared, hashed = options.get("eq", True), options.get("cache_hash", False)
            record = _Record(fields, frozen=frozen, compared=compared, hashed=hashed)
            return _slotted(cls, record, own, shown=options.get("repr", True))
    make: Callable[..., Any] = attrs.frozen if frozen else attrs.define
    return make(cls, **options)


if TYPE_CHECKING:
    from attrs import define as define
    from attrs import frozen as frozen
else:

    def frozen(cls=None, **options):
        """Return a class as :func:`attrs.frozen` makes it: with slots, compared by its fields, and never changed."""
        return _decorated(cls, options, frozen=True)

    def define(cls=None, **options):
        """Return a class as :func:`attrs.define` makes it: with slots, and compared by its fields."""
        return _decorated(cls, options, frozen=False)
