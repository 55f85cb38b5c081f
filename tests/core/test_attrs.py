"""Classes with shared methods behave as attrs' own do."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Final

import attrs
import pytest
from hypothesis import given, strategies as st

from tileir.core.nodes.attrs import frozen


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
    class Own:
        value: object

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and repr(self.value) == repr(other.value)

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "own"

    return Pair, Single, Nothing, Keyed, Cached, Apart, Child, Own


OURS: Final = classes(frozen)
THEIRS: Final = classes(attrs.frozen)
VALUES: Final = st.one_of(st.integers(0, 1), st.sampled_from([0.0, -0.0, "", "a", (1, 2), None]))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw an instance of one of the classes, and one of the class that attrs makes of the same lines."""
    number = draw(st.integers(0, len(OURS) - 1))
    names = [field.name for field in attrs.fields(OURS[number])]
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
