"""The special ``add_segments``: sums of adjacent updates of the same row of a table.

Keys are in ascending order, and equal keys form a segment. The updates of a segment are added in order, and the sum is
stored in the table row given by the key, clamped. It is a whole kernel, whose threads each have ``columns`` of updates,
and a ``part`` of the keys. The first and the last segment of a part may continue in another one: their sums are carried
as two keys and two sums, to be added up in the same way; the second is 0 if the part has one segment only.
"""

from __future__ import annotations

from typing import Final

from tileir.core import attrs
from tileir.stripe.blocks import Block, Refinement, Special
from tileir.stripe.tags import TagValue

ADD_SEGMENTS: Final = "add_segments"


@attrs.frozen
class SegmentParameters:
    """The parameters of ``add_segments``.

    Attributes:
        threads: Threads of a group.
        part: Keys of a part; 0 for all of them, without carried sums.
        placed: Whether a third input gives the update of each key; otherwise they are in the same order.
    """

    threads: int
    part: int = 0
    placed: bool = False

    def parts(self, size: int) -> int:
        """Return the number of parts of ``size`` keys."""
        return -(-size // self.part) if self.part else 1

    def parameters(self) -> tuple[tuple[str, TagValue], ...]:
        """Return the parameters of a special."""
        return (("threads", self.threads), *((("part", self.part),) if self.part else ()))

    @classmethod
    def of(cls, special: Special) -> SegmentParameters:
        """Parse the parameters of a special.

        Raises:
            ValueError: They are wrong.
        """
        found = dict(special.parameters)
        threads, part = found.pop("threads", None), found.pop("part", 0)
        if found or type(threads) is not int or type(part) is not int or threads < 1 or part < 0:
            raise ValueError("add_segments takes the parameters threads, 1 or more, and part")
        return cls(threads, part, len(special.inputs) > _PLACED)


_PLACED: Final = 2
"""Number of inputs besides places: keys and updates."""


def segments_of(block: Block) -> tuple[Special, SegmentParameters] | None:
    """Return the only special of a kernel with its parameters, if it adds segments."""
    match block.statements:
        case (Special(name=name) as special,) if name == ADD_SEGMENTS:
            return special, SegmentParameters.of(special)
        case _:
            return None


def segments_fault(special: Special, inputs: list[Refinement], outputs: list[Refinement]) -> str | None:
    """Return the fault of a special called ``add_segments``."""
    try:
        plan = SegmentParameters.of(special)
    except ValueError as error:
        return f"{error}"
    if len(special.inputs) not in (_PLACED, _PLACED + 1) or len(special.outputs) != (3 if plan.part else 1):
        return "add_segments takes keys, updates and maybe places, and has a table, and what is carried on of parts"
    if len(inputs) != len(special.inputs) or len(outputs) != len(special.outputs):
        return None
    sizes = [view.shape.elements for view in (*inputs, *outputs)]
    size, updates, *places = sizes[: len(inputs)]
    table, *carried = sizes[len(inputs) :]
    columns = updates // size
    both = 2 * plan.parts(size)
    if updates != columns * size or places not in ([], [size]) or carried not in ([], [both, both * columns]):
        return "add_segments has as many places as keys, rows of updates, and two of each that are carried on of a part"
    if table != columns * outputs[0].shape.dims[0].size:
        return f"add_segments adds rows of {columns} columns, unlike those of {outputs[0].name!r}"
    integers = [view.shape.dtype.is_integer for view in (inputs[0], *inputs[2:], *outputs[1:2])]
    return None if all(integers) else "keys and places of add_segments are integers"
