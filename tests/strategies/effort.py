"""How many examples a property test gets: its own number, times the effort of the Hypothesis profile in use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

BRIEF, EIGHTH, FAST, MUTATION, QUARTER, THOROUGH = "brief", "eighth", "fast", "mutation", "quarter", "thorough"

_USUAL = 100


def register_profiles() -> None:
    """Make the profiles known and load the fast one, which draws the same examples in each run.

    ``--hypothesis-profile=thorough`` draws twenty times as many, and others each time; ``quarter`` and ``eighth``
    draw so much of them; ``brief`` a tenth, for further versions of Python; ``mutation`` a fifth, and a failure is not
    made smaller.
    """
    # How long an example takes says more about the machine's load than about the code.
    quiet = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    settings.register_profile(FAST, max_examples=_USUAL, deadline=None, derandomize=True, suppress_health_check=quiet)
    settings.register_profile(
        BRIEF, max_examples=_USUAL // 10, deadline=None, derandomize=True, suppress_health_check=quiet
    )
    for name, share in ((QUARTER, 4), (EIGHTH, 8)):
        settings.register_profile(
            name, max_examples=_USUAL // share, deadline=None, derandomize=True, suppress_health_check=quiet
        )
    settings.register_profile(
        MUTATION,
        max_examples=_USUAL // 5,
        deadline=None,
        derandomize=True,
        suppress_health_check=quiet,
        phases=(Phase.explicit, Phase.generate),
    )
    settings.register_profile(THOROUGH, max_examples=20 * _USUAL, deadline=None, suppress_health_check=quiet)
    settings.load_profile(FAST)


def files_outside(
    part: str, files: Iterable[str], whole: Sequence[str], entire: Collection[str] = (), *, brief: bool = False
) -> frozenset[str]:
    """Return the files that a part of several leaves to the others.

    Args:
        part: Which part of how many, such as ``"1/2"``, or which ones, such as ``"2,3/3"``; all together have every
            file.
        files: Paths below the folder of the tests.
        whole: Folders and files of which every part has everything.
        entire: Files that brief parts leave to the one that is not, which has all of them.
        brief: Whether this is a brief part.

    """
    numbers, _, total = part.partition("/")
    try:
        kept, count = {int(number) for number in numbers.split(",")}, int(total)
    except ValueError:
        kept, count = {0}, 0
    if not kept <= set(range(1, count + 1)):
        raise ValueError(f"a part is 1/2, 2/2 or 1,2/2 of two, not {part}")
    if len(kept) == count:
        return frozenset()
    divided = sorted({file for file in files if file not in whole and file.partition("/")[0] not in whole})
    undivided = frozenset(entire).intersection(divided)
    shared = [file for file in divided if file not in undivided]
    outside = frozenset(file for place, file in enumerate(shared) if place % count + 1 not in kept)
    return outside | undivided if brief else outside


def spread(rows: Sequence[str], most: int) -> Sequence[str]:
    """Return ``most`` of the rows, or all where there are no more, spread over them.

    The steps are not all alike, as rows often repeat what they have in common after so many.
    """
    return rows if len(rows) <= most else [rows[place * len(rows) // most] for place in range(most)]


def examples(count: int) -> settings:
    """Return the settings of a test that gets ``count`` examples by default; as a decorator."""
    return settings(max_examples=share_of(count))


def share_of(count: int) -> int:
    """Return how many cases a test draws that draws ``count`` by default, and not by Hypothesis."""
    effort = settings.get_profile(settings.get_current_profile_name()).max_examples
    return max(1, count * effort // _USUAL)
