"""Classes whose methods are written late are those that attrs makes."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import sys
import threading
import weakref
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileir.core import records

if TYPE_CHECKING:
    from collections.abc import Callable


Namespace = dict[str, Any]
FIELDS: Final[dict[str, Callable[[], Any]]] = {
    "needed": lambda: attrs.NOTHING,
    "default": lambda: 7,
    "given": lambda: attrs.field(default=3),
    "factory": lambda: attrs.field(factory=list),
    "of_self": lambda: attrs.field(default=attrs.Factory(lambda self: type(self).__name__, takes_self=True)),
    "converted": lambda: attrs.field(converter=str),
    "checked": lambda: attrs.field(validator=attrs.validators.instance_of(int)),
    "keyword": lambda: attrs.field(kw_only=True),
    "inside": lambda: attrs.field(init=False, factory=dict),
    "constant": lambda: attrs.field(init=False, default=5),
    "late": lambda: attrs.field(init=False),
    "unequal": lambda: attrs.field(eq=False),
    "unhashed": lambda: attrs.field(hash=False),
    "hidden": lambda: attrs.field(repr=False, metadata={"role": 1}),
    "named": attrs.field,
}
MUTABLE: Final = tuple(kind for kind in FIELDS if kind not in ("converted", "checked"))


def make(decorate: Any, kinds: list[str], options: dict[str, bool], base: type = object) -> type:
    """Return a class that has one field of each kind, its number behind the name, the private ones with a line."""
    names = [f"{'_' * (number % 3 == 2)}{kind}_{number}" for number, kind in enumerate(kinds)]
    values = {
        name: FIELDS[kind]() if kind != "named" else attrs.field(alias=f"other{name}")
        for name, kind in zip(names, kinds, strict=True)
    }
    body = {
        "__annotations__": {**dict.fromkeys(names, "object"), "shared": "ClassVar[int]"},
        "__doc__": "A class.",
        "__module__": __name__,
        "__qualname__": "Made",
        "shared": 1,
        "who": lambda self: type(self),
        **{name: value for name, value in values.items() if value is not attrs.NOTHING},
    }
    return decorate(type("Made", (base,), body), **options)  # type: ignore[no-any-return]


def outcome(call: Callable[[], object]) -> object:
    """Return what a call gives, or the kind of its failure."""
    try:
        return call()
    except Exception as error:
        return type(error)


def shown(value: object) -> str:
    """Return what an instance prints as, without the place of its memory."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def instances(kind: Any, values: list[list[Any]]) -> list[object]:
    """Return an instance for each row of values, or the kind of its failure."""
    made = []
    for row in values:
        numbers = iter(row)
        named = {field.alias: next(numbers) for field in attrs.fields(kind) if field.init}
        positional = [named.pop(field.alias) for field in attrs.fields(kind) if field.init and not field.kw_only]
        made.append(outcome(partial(kind, *positional, **named)))
    return made


def uses(one: Any, others: list[Any]) -> list[object]:
    """Return what comes of all that can be done with an instance."""
    fields = attrs.fields(type(one))
    first = [field.alias for field in fields if field.init][:1]
    steps: list[Callable[[], object]] = [
        lambda: shown(one),
        lambda: attrs.asdict(attrs.evolve(one, **dict.fromkeys(first, 2)), recurse=False),
        lambda: attrs.asdict(copy.copy(one), recurse=False),
        lambda: copy.deepcopy(one) == one,
        lambda: weakref.ref(one)() is one,
        lambda: one.__getstate__(),
        lambda: one.absent,
        lambda: len({one, *others}),
        lambda: [(one == other, one != other) for other in (*others, 3)],
        lambda: [hash(one) == hash(other) for other in others if other == one],
        lambda: setattr(one, "absent", 1),
        *[partial(setattr, one, field.name, 9) for field in fields],
        lambda: shown(one),
        *[partial(delattr, one, field.name) for field in fields[:1]],
        lambda: shown(one),
    ]
    return [outcome(step) for step in steps]


def seen(kind: Any, values: list[list[Any]]) -> list[object]:
    """Return what there is to see of a class and of its instances."""
    fields = attrs.fields(kind)
    signature = [(p.name, p.kind, p.default is p.empty) for p in inspect.signature(kind).parameters.values()]
    found: list[object] = [signature, kind.__match_args__, kind.__doc__, kind.__init__.__annotations__]
    for field in fields:
        given = (field.name, field.alias, field.init, field.kw_only, field.eq, field.hash, field.repr, field.type)
        found.append((*given, field.inherited, dict(field.metadata)))
        assert getattr(fields, field.name) is field
    made = instances(kind, values)
    rest = [one for one in made if not isinstance(one, type)]
    found += [one if isinstance(one, type) else uses(one, rest) for one in made]
    return found


@st.composite
def classes(draw: st.DrawFn) -> tuple[str, list[list[str]], list[dict[str, bool]]]:
    """Draw which decorator, the kinds of the fields of a class and of those that derive from it, and the options."""
    decorator = draw(st.sampled_from(("frozen", "define")))
    usual = MUTABLE if decorator == "define" else tuple(FIELDS)
    kinds = draw(st.lists(st.lists(st.sampled_from(usual), max_size=5), min_size=1, max_size=3))
    options = []
    for _ in kinds:
        given = draw(st.dictionaries(st.sampled_from(("eq", "repr", "cache_hash")), st.booleans()))
        if decorator == "define" or given.get("eq") is False:
            given.pop("cache_hash", None)
        options.append(given)
    return decorator, kinds, options


@given(classes(), st.lists(st.lists(st.integers(0, 1), min_size=20, max_size=20), min_size=2, max_size=3))
def test_classes_are_those_of_attrs(drawn: tuple[str, Any, Any], values: list[list[int]]) -> None:
    decorator, kinds, options = drawn

    def made(module: Any) -> Any:
        kind: type = object
        for each, given_options in zip(kinds, options, strict=True):
            kind = make(getattr(module, decorator), each, given_options, kind)
        return kind

    theirs = outcome(lambda: made(attrs))
    ours = outcome(lambda: made(records))
    if isinstance(theirs, type) and issubclass(theirs, Exception):
        assert ours is theirs
        return
    assert seen(ours, values) == seen(theirs, values)


@records.frozen(cache_hash=True)
class Point:
    """Two numbers."""

    x: int
    y: int = 0
    kind: ClassVar[str] = "point"

    def __attrs_post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("left of the border")

    def moved(self) -> Point:
        """Return what lies beside it."""
        return attrs.evolve(self, x=self.x + 1)


@records.frozen
class Coloured(Point):
    """One with a colour, which says so by its base."""

    colour: str = "red"

    def moved(self) -> Point:
        return super().moved()


@records.define(eq=False)
class Counter:
    """What counts."""

    count: int = 0
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    twice: int = attrs.field(init=False)

    @twice.default
    def _twice(self) -> int:
        return 2 * self.count


def test_a_class_knows_itself_in_its_methods() -> None:
    assert Coloured(1, 2, "blue").moved() == Coloured(2, 2, "blue")
    assert Coloured.__mro__[1] is Point


def test_steps_behind_the_constructor_run() -> None:
    with pytest.raises(ValueError, match="left of the border"):
        Point(-1)


def test_defaults_may_follow_from_fields_before() -> None:
    assert (Counter(4).twice, Counter().twice) == (8, 0)


def test_patterns_take_fields_by_position() -> None:
    match Coloured(1, 2):
        case Coloured(x, y, colour):
            assert (x, y, colour) == (1, 2, "red")


def test_pickles_come_back() -> None:
    point = Point(3, 4)
    assert hash(point) == hash(Point(3, 4))
    back = pickle.loads(pickle.dumps(point))
    assert back == point
    assert hash(back) == hash(point)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace came with Python 3.13")
def test_copies_may_replace_fields() -> None:
    assert copy.replace(Point(1, 2), y=5) == Point(1, 5)  # type: ignore[attr-defined,arg-type,unused-ignore]


def test_methods_stand_in_their_class_when_they_were_called() -> None:
    @records.frozen
    class Late:
        x: int

    assert not inspect.isfunction(vars(Late)["__init__"])
    assert Late(1) == Late(1)
    assert inspect.isfunction(vars(Late)["__init__"])
    assert inspect.isfunction(vars(Late)["__eq__"])
    assert not inspect.isfunction(vars(Late)["__hash__"])


def test_threads_may_write_a_method_at_the_same_time() -> None:
    for _ in range(20):

        @records.frozen
        class Late:
            x: int

        begin = threading.Barrier(4)
        found: list[Any] = []

        def use(kind: Any = Late, begin: threading.Barrier = begin, found: list[Any] = found) -> None:
            begin.wait()
            found.append(kind(1))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [Late(1)] * 4


def test_plain_classes_of_attrs_derive() -> None:
    @attrs.frozen
    class Plain(Point):
        z: int = 9

    assert [field.name for field in attrs.fields(Plain)] == ["x", "y", "z"]
    assert Plain(1, 2, 3) == Plain(1, 2, 3)
    assert repr(Plain(1)).endswith("Plain(x=1, y=0, z=9)")


@pytest.mark.parametrize("options", [{"slots": False}, {"order": True}, {"kw_only": True}])
def test_rare_options_are_those_of_attrs(options: dict[str, bool]) -> None:
    kind = make(records.frozen, ["given"], options)
    assert "__record__" not in vars(kind)
    assert attrs.has(kind)


def test_what_is_kept_for_a_class_is_left_to_attrs() -> None:
    @records.frozen
    class Kept:
        x: int

        @cached_property
        def twice(self) -> int:
            return 2 * self.x

    assert "__record__" not in vars(Kept)
    assert Kept(4).twice == 8


def test_fields_need_types() -> None:
    with pytest.raises(TypeError, match="fields without a type"):
        records.frozen(type("Untyped", (), {"x": attrs.field()}))
