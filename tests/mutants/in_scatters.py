"""Faults to plant into scatters: updates at any time, tables of groups, sorted updates."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

IN_SCATTERS: Final = (
    Mutant(
        "wide table of a scatter that is not cleared",
        "passes.algorithms.atomic_scatter",
        "blocks = (empty, _marked(",
        "blocks = (_marked(",
        tests="passes/test_atomic_scatter.py",
    ),
    Mutant(
        "updates of a wide table that are no atomic ones",
        "passes.algorithms.atomic_scatter",
        "tags=statement.tags.add(stripe.ATOMIC)",
        "tags=statement.tags",
        tests="passes/test_atomic_scatter.py",
    ),
    Mutant(
        "updates as one step that are wider than the device has",
        "passes.algorithms.atomic_scatter",
        "if wide is None or wide.itemsize > self.update_bytes:",
        "if wide is None:",
        tests="passes/test_atomic_scatter.py",
    ),
    Mutant(
        "table of another scatter taken for the one that is cleared",
        "passes.kernels.forms",
        "if cleared == [outputs[0].source] else",
        "if cleared else",
        tests="passes/test_atomic_scatter.py",
    ),
    Mutant(
        "table of a group counted one row too short",
        "passes.schedules.groups.group_scatter",
        "int(high - low) + size for",
        "int(high - low) + size - 1 for",
        tests="passes/test_group_scatter.py",
    ),
    Mutant(
        "threads of a group that each axis of a table has again",
        "passes.schedules.groups.group_scatter",
        "            threads //= size\n",
        "",
        tests="passes/test_group_scatter.py",
    ),
    Mutant(
        "threads of a group beside those along a row",
        "passes.schedules.groups.group_scatter",
        "threads = self.threads // beside",
        "threads = self.threads",
        tests="passes/test_group_scatter.py",
    ),
    Mutant(
        "rows of sorted updates that end a part dropped",
        "passes.algorithms.sorted_scatter",
        "both = 2 * plan.parts(size)",
        "both = plan.parts(size)",
        tests="passes/test_sorted_scatter.py",
    ),
    Mutant(
        "carried sums of sorted updates at places of the updates",
        "passes.algorithms.sorted_scatter",
        "for view in carried], [], both",
        "for view in carried], places, both",
        tests="passes/test_sorted_scatter.py",
    ),
    Mutant(
        "sorted updates that are no run",
        "passes.algorithms.sorted_scatter",
        "if own <= 0 or (step is not None and own != step):",
        "if own <= 0:",
        tests="passes/test_sorted_scatter.py",
    ),
)
