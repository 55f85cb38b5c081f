"""Number of examples of a property test: its own, times the effort of the Hypothesis profile in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = TypeVar("Row")

BRIEF, FAST, MUTATION, PUSH, THOROUGH = "brief", "fast", "mutation", "push", "thorough"

_USUAL = 100


def register_profiles() -> None:
    """Make the profiles known and load the fast one, which draws the same examples in each run.

    ``--hypothesis-profile=thorough`` draws twenty times as many, and others each time; ``push`` draws a sixteenth;
    ``brief`` a tenth, for further versions of Python; ``mutation`` a fifth, and a failure is not made smaller.
    """
    # How long an example takes says more about the machine's load than about the code.
    quiet = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
    settings.register_profile(FAST, max_examples=_USUAL, deadline=None, derandomize=True, suppress_health_check=quiet)
    for name, share in ((BRIEF, 10), (PUSH, 16)):
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


def spread(rows: Sequence[Row], most: int) -> Sequence[Row]:
    """Return ``most`` of the rows, or all where there are no more, at distances that differ by one at most.

    Rows often repeat a pattern, which one distance could miss.
    """
    return rows if len(rows) <= most else [rows[place * len(rows) // most] for place in range(most)]


def examples(count: int) -> settings:
    """Return the settings of a test that gets ``count`` examples by default; as a decorator."""
    return settings(max_examples=share_of(count))


def share_of(count: int) -> int:
    """Return how many cases a test draws that draws ``count`` by default, and not by Hypothesis."""
    effort = settings.get_profile(settings.get_current_profile_name()).max_examples
    return max(1, count * effort // _USUAL)
