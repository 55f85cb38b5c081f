"""Fresh names."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tileir.core.ops import Op
from tileir.core.text.names import NameScope, most_alike, nearest

STEMS = st.sampled_from(["x", "x_0", "x_1", "y"])


@given(st.sets(STEMS), st.lists(STEMS))
def test_fresh_names_are_new_and_the_least_that_are(taken: set[str], stems: list[str]) -> None:
    scope = NameScope.of(taken)
    used = set(taken)
    for stem in stems:
        name = scope.fresh(stem)
        candidates = [stem, *(f"{stem}_{number}" for number in range(len(used) + 1))]
        assert name == next(candidate for candidate in candidates if candidate not in used)
        assert name in scope
        used.add(name)


def test_many_fresh_names_are_quick() -> None:
    scope = NameScope()
    assert len({scope.fresh("t") for _ in range(100_000)}) == 100_000


def test_added_names_are_taken() -> None:
    scope = NameScope()
    scope.add("a")
    assert "a" in scope
    assert scope.fresh("a") == "a_0"


def test_a_name_in_the_other_case_is_meant() -> None:
    assert nearest("a", ["A", "B"]) == "; did you mean A?"
    assert nearest("c", ["A", "B"]) == "; known are A, B"


def test_a_long_list_of_known_names_is_wrapped() -> None:
    known = [f"name_{number}" for number in range(40)]
    first, *lines = nearest("!", known).split("\n")
    assert first == "; known are"
    assert all(line.startswith("    ") and len(line) <= 104 for line in lines)
    assert [name.strip() for name in " ".join(lines).split(",")] == sorted(known)


def test_of_names_that_are_equally_alike_the_first_letter_decides() -> None:
    operations = [op.value for op in Op]
    assert most_alike("adn", operations, 0.5) == "add"  # not tan
    assert most_alike("sni", operations, 0.5) == "sin"
    assert most_alike("abx", ["bab", "abbb", "abc"], 0.5) == "abc"  # as long
    assert most_alike("tahn", operations, 0.5) == "tan"  # the most alike of all
    assert most_alike("zzz", operations, 0.5) is None
