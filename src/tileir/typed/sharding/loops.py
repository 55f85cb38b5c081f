"""Loops over axes that no step mixes: each rank runs all steps on its part of them.

The step of a loop is partitioned as a function, whose inputs are laid out as what the loop is passed. The loop is
spread if no step needs a collective, and carries stay laid out as they are: then ranks never meet inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tileir.core import attrs
from tileir.typed.ir import Function, Scan, ScanPart
from tileir.typed.sharding.exchanges import covers
from tileir.typed.sharding.mesh import Mesh
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.splits import Layout, whole

_ROUNDS = 4
"""Times that carries are laid out anew, as a step leaves them, before a loop is given up."""

Partition = Callable[[Function, Mesh, Mapping[str, Layout]], Partitioned]


def step_of(scan: Scan, layouts: Sequence[Layout], mesh: Mesh, partition: Partition) -> Partitioned | None:
    """Return the partitioned step of a loop; None where ranks would have to meet in it, or have nothing of their own.

    Where they would because constants are cut, as weights are, each rank gets all of these.

    Args:
        scan: The loop.
        layouts: Those of the carries, the sequences and the constants, in this order.
        mesh: The ranks.
        partition: Partitions a function whose inputs are laid out in some way.

    """
    carries, rest = len(scan.carries), len(scan.carries) + len(scan.sequences)
    inside = [layout[1:] if carries <= number < rest else layout for number, layout in enumerate(layouts)]
    given = [whole(value.shape) for value in scan.body.inputs[rest:]]
    for tried in (inside, [*inside[:rest], *given]):
        made = _settled(scan, tried, mesh, partition)
        if made is not None:
            left = [made.layout(name) for name in made.function.outputs[:carries]]
            return made if all(map(_has(mesh), layouts[:carries], left)) else None
    return None


def _settled(scan: Scan, layouts: Sequence[Layout], mesh: Mesh, partition: Partition) -> Partitioned | None:
    """Return the step with carries laid out as it leaves them itself."""
    if not any(split.axes for layout in layouts for split in layout):
        return None
    carries, inside = len(scan.carries), list(layouts)
    names = [value.name for value in scan.body.inputs]
    for _ in range(_ROUNDS):
        made = partition(scan.body, mesh, dict(zip(names, inside, strict=True)))
        if made.collectives or made.remarks:
            return None
        left = [made.layout(name) for name in made.function.outputs[:carries]]
        if left == inside[:carries]:
            return made
        inside[:carries] = left
    return None


def _has(mesh: Mesh) -> Callable[[Layout, Layout], bool]:
    return lambda have, need: all(covers(old, new, mesh) for old, new in zip(have, need, strict=True))


def needs_of(scan: Scan, step: Partitioned) -> list[tuple[str, Layout]]:
    """Return how what a loop is passed must be laid out: as the step says, with all steps of sequences on each rank."""
    found = []
    passed = (*scan.carries, *scan.sequences, *scan.constants)
    for number, (name, value) in enumerate(zip(passed, scan.body.inputs, strict=True)):
        layout = step.layout(value.name)
        is_sequence = len(scan.carries) <= number < len(scan.carries) + len(scan.sequences)
        found.append((name, (*whole((scan.count or 0,)), *layout) if is_sequence else layout))
    return found


def result_layout(scan: Scan, step: Partitioned) -> Layout:
    """Return how a result of a loop is laid out."""
    number = scan.result.number + (len(scan.carries) if scan.result.part is ScanPart.OUTPUT else 0)
    layout = step.layout(step.function.outputs[number])
    return layout if scan.result.part is ScanPart.FINAL else (*whole(scan.shape[:1]), *layout)


def with_step(scan: Scan, body: Function, passed: Sequence[str], shape: tuple[int, ...]) -> Scan:
    """Return a loop of another step, which is passed other values."""
    carries, rest = len(scan.carries), len(scan.carries) + len(scan.sequences)
    groups = tuple(passed[:carries]), tuple(passed[carries:rest]), tuple(passed[rest:])
    return attrs.evolve(scan, body=body, carries=groups[0], sequences=groups[1], constants=groups[2], shape=shape)
