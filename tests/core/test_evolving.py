"""Nodes with other values in some fields: as attrs makes them, and refusals."""

import attrs
import pytest

from tileir.core.nodes.evolving import evolved


@attrs.frozen(cache_hash=True)
class _Pair:
    first: int
    _second: str = attrs.field(default="b", converter=str)
    third: tuple[int, ...] = ()


@pytest.mark.parametrize("changes", [{}, {"first": 2}, {"second": 5}, {"third": (1,), "first": 7}])
def test_it_is_what_attrs_makes(changes: dict[str, object]) -> None:
    pair = _Pair(1, "a", (3,))
    hash(pair)  # what is known of one node is not known of the other
    made = evolved(pair, **changes)
    assert made == attrs.evolve(pair, **changes)  # type: ignore[arg-type]  # other types than those of the fields
    assert hash(made) == hash(attrs.evolve(pair, **changes))  # type: ignore[arg-type]
    assert pair == _Pair(1, "a", (3,))


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="_Pair has no field 'fourth'"):
        evolved(_Pair(1), fourth=4)


@attrs.frozen
class _ByKeyword:
    first: int
    second: int = attrs.field(kw_only=True)


@attrs.frozen
class _Single:
    first: int


@attrs.frozen
class _Derived:
    first: int
    second: int = attrs.field(init=False, default=0)


@pytest.mark.parametrize("node", [_ByKeyword(1, second=2), _Single(1), _Derived(1)])
def test_classes_that_are_not_made_by_position_are_refused(node: object) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="by position"):
            evolved(node, first=3)
