"""Loops whose steps ranks divide: each rank runs all steps, on its part of the carries and operands.

The step of a loop is partitioned as a function whose inputs have the layouts of the loop's arguments, and carries keep
their layouts. If no step needs a collective, as over axes that steps do not mix, a rank runs an ordinary loop.
Otherwise ranks meet in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileir.core import attrs
from tileir.typed.ir import Function, Scan, ScanPart
from tileir.typed.sharding.exchanges import covers
from tileir.typed.sharding.mesh import Layout, Mesh, whole
from tileir.typed.sharding.partitioned import Partitioned

_ROUNDS = 4
"""Attempts to find layouts of carries that a step preserves, before a loop is left whole."""

Partition = Callable[[Function, Mesh, Mapping[str, Layout]], Partitioned]


def step_of(scan: Scan, layouts: Sequence[Layout], mesh: Mesh, partition: Partition) -> Partitioned | None:
    """Return the partitioned step of a loop; None if ranks have no part of their own in it.

    If ranks would meet only because constants are split, as weights are, each rank gets all of these. Ranks may meet in
    steps of while loops, too, since the carry with the condition is a single bool, and so whole on each rank.

    Args:
        scan: The loop.
        layouts: The layouts of the carries, the sequences and the constants, in this order.
        mesh: The ranks.
        partition: Partitions a function whose inputs have given layouts.
    """
    known: dict[tuple[Layout, ...], Partitioned] = {}

    def made_with(layouts: Sequence[Layout]) -> Partitioned:
        if tuple(layouts) not in known:
            names = (value.name for value in scan.body.inputs)
            known[tuple(layouts)] = partition(scan.body, mesh, dict(zip(names, layouts, strict=True)))
        return known[tuple(layouts)]

    carries, rest = len(scan.carries), len(scan.carries) + len(scan.sequences)
    inside = [layout[1:] if carries <= number < rest else layout for number, layout in enumerate(layouts)]
    given = [whole(value.shape) for value in scan.body.inputs[rest:]]
    for tried, may_meet in ((inside, False), ([*inside[:rest], *given], False), (inside, scan.count != 0)):
        made = _settled(scan, tried, made_with, may_meet=may_meet)
        if made is not None:
            left = [made.layout(name) for name in made.function.outputs[:carries]]
            return made if all(map(_has(mesh), layouts[:carries], left)) else None
    return None


def layouts_by_step(scan: Scan, fixed: Sequence[Layout | None], mesh: Mesh, partition: Partition) -> tuple[Layout, ...]:
    """Return layouts of a loop's arguments, some of which are fixed; its step chooses the others."""
    carries, rest = len(scan.carries), len(scan.carries) + len(scan.sequences)
    asked = {
        value.name: layout[1:] if carries <= number < rest else layout
        for number, (value, layout) in enumerate(zip(scan.body.inputs, fixed, strict=True))
        if layout is not None
    }
    made = partition(scan.body, mesh, asked)
    return tuple(layout for _, layout in needs_of(scan, made))


def _settled(
    scan: Scan, layouts: Sequence[Layout], made_with: Callable[[Sequence[Layout]], Partitioned], *, may_meet: bool
) -> Partitioned | None:
    """Return the step with layouts of carries that it preserves."""
    if not any(split.axes for layout in layouts for split in layout):
        return None
    carries, inside = len(scan.carries), list(layouts)
    for _ in range(_ROUNDS):
        made = made_with(inside)
        if not may_meet and (made.meets or made.remarks):
            return None
        left = [made.layout(name) for name in made.function.outputs[:carries]]
        if left == inside[:carries]:
            return made
        inside[:carries] = left
    return None


def _has(mesh: Mesh) -> Callable[[Layout, Layout], bool]:
    return lambda have, need: all(covers(old, new, mesh) for old, new in zip(have, need, strict=True))


def needs_of(scan: Scan, step: Partitioned) -> list[tuple[str, Layout]]:
    """Return the required layouts of a loop's arguments: those of the step, with whole axes of steps."""
    found = []
    passed = (*scan.carries, *scan.sequences, *scan.constants)
    for number, (name, value) in enumerate(zip(passed, scan.body.inputs, strict=True)):
        layout = step.layout(value.name)
        is_sequence = len(scan.carries) <= number < len(scan.carries) + len(scan.sequences)
        found.append((name, (*whole((scan.count or 0,)), *layout) if is_sequence else layout))
    return found


def result_layout(scan: Scan, step: Partitioned) -> Layout:
    """Return the layout of a result of a loop."""
    number = scan.result.number + (len(scan.carries) if scan.result.part is ScanPart.OUTPUT else 0)
    layout = step.layout(step.function.outputs[number])
    return layout if scan.result.part is ScanPart.FINAL else (*whole(scan.shape[:1]), *layout)


def with_step(scan: Scan, body: Function, passed: Sequence[str], shape: tuple[int, ...]) -> Scan:
    """Return a loop with another step and other arguments."""
    carries, rest = len(scan.carries), len(scan.carries) + len(scan.sequences)
    groups = tuple(passed[:carries]), tuple(passed[carries:rest]), tuple(passed[rest:])
    return attrs.evolve(scan, body=body, carries=groups[0], sequences=groups[1], constants=groups[2], shape=shape)
