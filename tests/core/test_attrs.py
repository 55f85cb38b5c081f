"""Classes with shared methods behave as attrs' own do."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any, Final

import attrs
import pytest
from hypothesis import given, strategies as st

from tileir.core.nodes.attrs import evolve, frozen


def _upper(text: object) -> str:
    return str(text).upper()


def classes(decorator: Any) -> tuple[Any, ...]:
    """Return classes with all that fields and classes may ask for, made by a decorator."""

    @decorator
    class Pair:
        left: object
        right: object = None

    @decorator
    class Single:
        value: object

    @decorator
    class Nothing:
        pass

    @decorator(slots=False)
    class Keyed:
        value: object = attrs.field(eq=repr, repr=_upper)
        note: object = attrs.field(default=0, eq=False)
        hidden: object = attrs.field(default=0, repr=False)

    @decorator(cache_hash=True)
    class Cached:
        left: object
        right: object = None

    @decorator(eq=False)
    class Apart:
        value: object

    @decorator
    class Child(Pair):
        more: object = None

    @decorator
    class Derived:
        _value: object = attrs.field(converter=_upper)
        keyed: object = attrs.field(kw_only=True, default=1)
        more: object = 0
        length: int = attrs.field(init=False, default=2, eq=False)

    @decorator(repr=False)
    class Reversed:
        left: object = 1
        right: object = 2

        def __init__(self, right: object = 2, left: object = 1) -> None:
            self.__attrs_init__(left, right)  # type: ignore[attr-defined]  # attrs makes it

    @decorator
    class Own:
        value: object

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and repr(self.value) == repr(other.value)

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    return Pair, Single, Nothing, Keyed, Cached, Apart, Child, Derived, Reversed, Own


OURS: Final = classes(frozen)
THEIRS: Final = classes(attrs.frozen)
VALUES: Final = st.one_of(st.integers(0, 1), st.sampled_from([0.0, -0.0, "", "a", (1, 2), None]))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw an instance of one of the classes, and one of the class that attrs makes of the same lines."""
    number = draw(st.integers(0, len(OURS) - 1))
    names = [field.alias for field in attrs.fields(OURS[number]) if field.init]
    values = {name: draw(VALUES) for name in names}
    return OURS[number](**values), THEIRS[number](**values)


@given(pairs(), pairs())
def test_shared_methods_do_what_those_of_attrs_do(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    (ours, theirs), (our_other, their_other) = one, other
    assert (ours == our_other) == (theirs == their_other)
    assert (ours != our_other) == (theirs != their_other)
    assert (ours == attrs.evolve(ours)) == (theirs == attrs.evolve(theirs))
    assert hash(ours) == hash(our_other) or ours != our_other
    assert "object at" in repr(theirs) or repr(ours) == repr(theirs)
    assert ours != 3


@given(pairs(), st.data())
def test_evolved_instances_are_what_attrs_makes(pair: tuple[Any, Any], data: st.DataObject) -> None:
    names = [field.alias for field in attrs.fields(type(pair[0])) if field.init]
    changes = data.draw(st.dictionaries(st.sampled_from(names), VALUES)) if names else {}
    before = [vars_of(node) for node in pair]
    for node in pair:
        hash(node)  # what is known of one node is not known of the other
        made, theirs = evolve(node, **changes), attrs.evolve(node, **changes)
        assert vars_of(made) == vars_of(theirs)
        assert type(made) is type(node)
        assert made is not node
        assert hash(made) == hash(theirs) or made != theirs
    assert [vars_of(node) for node in pair] == before


@pytest.mark.parametrize("number", range(len(OURS)))
def test_constructors_take_what_those_of_attrs_take(number: int) -> None:
    ours, theirs = classes(frozen)[number], THEIRS[number]  # one that nobody has called yet
    for _ in range(3):
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        for values, named in (
            ((), {}),
            ((1,), {}),
            ((1, 2), {}),
            ((1, 2, 3), {}),
            ((1,), {"keyed": 2}),
            ((), {"b": 1}),
        ):
            made, faults = [], []
            for cls in (ours, theirs):
                try:
                    made.append(vars_of(cls(*values, **named)))
                except TypeError as error:
                    faults.append(str(error))
            assert made[:1] == made[1:] or faults
            assert faults[:1] == faults[1:]


def test_classes_that_inherit_a_constructor_have_it() -> None:
    @frozen
    class Base:
        value: int
        other: int = 2

    class Heir(Base):
        pass

    assert vars_of(Heir(1)) == vars_of(Base(1)) == vars_of(Heir(1)) == [1, 2]


def test_constructors_that_do_more_are_left_to_attrs() -> None:
    seen: list[int] = []

    @frozen
    class Checked:
        value: int = attrs.field(validator=lambda _, __, value: seen.append(value))

    @frozen(slots=False)
    class Noted:
        value: int

        def __attrs_post_init__(self) -> None:
            seen.append(self.value)

    for number in range(2):
        assert (Checked(number).value, Noted(number).value) == (number, number)
    assert seen == [0, 0, 1, 1]


def vars_of(node: Any) -> list[object]:
    """Return the values of all fields, those that comparisons leave out as well."""
    return [getattr(node, field.name) for field in attrs.fields(type(node))]


@pytest.mark.parametrize("number", range(len(OURS)))
def test_a_field_that_is_not_there_is_refused(number: int) -> None:
    cls = OURS[number]
    node = cls(*(1 for field in attrs.fields(cls) if field.default is attrs.NOTHING))
    for _ in range(2):
        with pytest.raises(TypeError, match=f"{cls.__name__} has no field 'fourth'"):
            evolve(node, fourth=4)


def test_other_classes_with_the_same_content_differ() -> None:
    pair, child = OURS[0], OURS[6]
    assert pair(1, 2) != child(1, 2)
    assert OURS[4](1, 2) != pair(1, 2)


@pytest.mark.parametrize("number", range(len(OURS)))
def test_fields_cannot_be_set(number: int) -> None:
    cls = OURS[number]
    node = cls(*(1 for field in attrs.fields(cls) if field.default is attrs.NOTHING))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        node.value = 3
    assert ("__slots__" in vars(cls)) == ("__slots__" in vars(THEIRS[number]))


@frozen
class Kept:
    """A class that pickle finds by its name."""

    value: int


def test_instances_can_be_copied_and_pickled() -> None:
    node = Kept(3)
    assert pickle.loads(pickle.dumps(node)) == copy.deepcopy(node) == node
    assert repr(node) == "Kept(value=3)"
