"""Faults to plant into partitioning: what ranks read, what they compute again near their borders, and their loops."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_BORDERS: Final = "typed/sharding/test_borders.py"
_MEETINGS: Final = "driver/distribution/test_meetings.py"
_PARTS: Final = "typed/sharding/test_partition.py"

IN_RANKS: Final = (
    Mutant(
        "last element that a rank reads left out",
        "typed.sharding.needs",
        "min(size, math.floor(high) + 1)",
        "min(size, math.floor(high))",
        tests=_PARTS,
    ),
    Mutant(
        "coordinates counted from the start of a part",
        "typed.sharding.local",
        "self.operations.append(Constant(first, dtype, start))",
        "self.operations.append(Constant(first, dtype, 0))",
        tests=_PARTS,
    ),
    Mutant(
        "element beside a halo taken for one that needs none",
        "typed.sharding.borders",
        "return not elements(inner) or holds(outer, inner)",
        "return not elements(inner) or holds(outer, tuple((first, stop - 1) for first, stop in inner))",
        tests=_BORDERS,
    ),
    Mutant(
        "window of a border that one of several readers needs",
        "typed.sharding.borders",
        "boxes[name] = _around(boxes[name], box) if name in boxes else box",
        "boxes[name] = box",
        tests=_BORDERS,
    ),
    Mutant(
        "elements of others computed before what they are made of has come",
        "typed.sharding.borders",
        "if self.shapes[source] == self.shapes[name]:",
        "if source == name:",
        tests=_BORDERS,
    ),
    Mutant(
        "corners of borders left as they were",
        "typed.sharding.borders",
        "slab = (*inner[:axis], interval, *box[axis + 1 :])",
        "slab = (*inner[:axis], interval, *inner[axis + 1 :])",
        tests=_BORDERS,
    ),
    Mutant(
        "result of a border that is a row beside it",
        "typed.sharding.borders",
        "enumerate(((low, first), (last, high)))",
        "enumerate(((low, first), (last - 1, high - 1)))",
        tests=_BORDERS,
    ),
    Mutant(
        "deeper part made of the operands of the usual one",
        "typed.sharding.partition",
        "needs = needs_of_part(operation, layout, (), layouts.shapes, mesh)",
        "needs = needs_of_part(operation, own.layout, (), layouts.shapes, mesh)",
        tests=_BORDERS,
    ),
    Mutant(
        "values computed again that are laid out as asked",
        "typed.sharding.partition",
        "operation.name not in layouts.fixed and spread.layout == spread.target",
        "spread.layout == spread.target",
        tests=_BORDERS,
    ),
    Mutant(
        "work that is done again for nothing",
        "typed.sharding.partition",
        "            seconds += more\n",
        "",
        tests=_BORDERS,
    ),
    Mutant(
        "carries that a step leaves in another place than it takes them",
        "typed.sharding.loops",
        "if left == inside[:carries]:",
        "if left:",
        tests=_PARTS,
    ),
    Mutant(
        "meetings of one step counted for all",
        "typed.sharding.explanation",
        "size=count * exchange.size",
        "size=exchange.size",
        tests="driver/distribution/test_rounds.py",
    ),
    Mutant(
        "steps in which ranks meet made from the first one on, also in reverse",
        "driver.distribution.distributed",
        "place = count - 1 - number if loop.reverse else number",
        "place = number",
        tests="driver/distribution/test_rounds.py",
    ),
    Mutant(
        "sorts of three ranks in two rounds",
        "typed.sharding.collective_operations",
        "for number in reversed(range(len(sizes))):",
        "for number in reversed(range(len(sizes) - 1)):",
        tests=_MEETINGS,
    ),
    Mutant(
        "both neighbours keep what comes first",
        "driver.distribution.rounds",
        "low = sizes[pair.first] if is_second else 0",
        "low = 0",
        tests=_MEETINGS,
    ),
    Mutant(
        "equal elements of a neighbour before those of a rank",
        "driver.distribution.rounds",
        "parts = [*came, *found] if is_second else [*found, *came]",
        "parts = [*came, *found]",
        tests=_MEETINGS,
    ),
    Mutant(
        "rows that go round taken for those of the rank behind",
        "driver.distribution.rounds",
        "owner = (own - number) % len(group)",
        "owner = (own + number) % len(group)",
        tests=_MEETINGS,
    ),
    Mutant(
        "updates of several rounds of which the last one counts",
        "typed.sharding.rounds",
        "made.append(Elementwise(MADE, op, (BEFORE, own), dtype, shape))",
        "made.append(Elementwise(MADE, op, (own, own), dtype, shape))",
        tests=_MEETINGS,
    ),
)
