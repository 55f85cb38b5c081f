"""The special ``order``: places of the elements of a row in sorted order (argsort).

Without ``threads``, one thread sorts, and ``descending`` is the only parameter. With them it is a whole kernel, whose
groups of threads sort together. A second input is a payload, whose elements are stored instead of places; a second
output, only of groups, gets the sorted keys, or keys that compare equal: -0.0 may become 0.0, and a NaN another one. So
several kernels sort a row of any length: first parts of it, then longer parts with sorted ``runs``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tileir.core import attrs
from tileir.stripe.blocks import Block, Refinement, Special
from tileir.stripe.tags import TagValue

ORDER: Final = "order"


@attrs.frozen
class SortParameters:
    """The parameters of ``order`` for groups of threads.

    Attributes:
        descending: Whether the greatest comes first.
        threads: Threads of a group, a power of two; 0 if one thread sorts alone.
        items: Elements of a thread.
        part: Elements of a part, each of which is sorted separately; the last one may have fewer. 0 for the whole row.
        keep: Maximum number of stored elements of each part, its first ones; 0 for all of them.
        runs: Elements of a sorted run, of which a part has two; the last one may have fewer. 0 for no runs.
    """

    descending: bool
    threads: int = 0
    items: int = 0
    part: int = 0
    keep: int = 0
    runs: int = 0

    @property
    def tile(self) -> int:
        """Elements of a group."""
        return self.threads * self.items

    @property
    def behind(self) -> int:
        """Elements behind those of a group, which a thread may read if runs end early."""
        return self.items + 1

    def stretches(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield start and end of each part of a row of ``size`` elements."""
        step = self.part or size
        return ((start, min(start + step, size)) for start in range(0, size, step))

    def stored(self, size: int) -> int:
        """Return the number of stored elements of a row of ``size``."""
        step = self.part or size
        whole, rest = divmod(size, step)
        keep = self.keep or step
        return whole * min(keep, step) + min(keep, rest)

    def parameters(self) -> tuple[tuple[str, TagValue], ...]:
        """Return the parameters of a special, without zeros."""
        named = attrs.asdict(self).items()
        return tuple((name, int(value)) for name, value in named if value or name == "descending")

    @classmethod
    def of(cls, special: Special) -> SortParameters:
        """Parse the parameters of a special.

        Raises:
            ValueError: They are wrong.
        """
        found = dict(special.parameters)
        names = [field.name for field in attrs.fields(cls)]
        if found.keys() - names or found.get("descending") not in (0, 1):
            raise ValueError("order takes the parameter descending, 0 or 1, and those of groups of threads")
        sizes = [found.get(name, 0) for name in names[1:]]
        threads, items, part, keep, runs = (size if type(size) is int and size >= 0 else -1 for size in sizes)
        if min(threads, items, part, keep, runs) < 0:
            raise ValueError("order takes sizes that are no negative numbers")
        result = cls(found["descending"] == 1, threads, items, part, keep, runs)
        if bool(threads) != bool(items) or threads & (threads - 1) or (max(part, keep, runs) and not threads):
            raise ValueError("order is for groups of a power of two of threads, which have elements each, or for one")
        if runs and (runs % result.tile or part not in (0, 2 * runs) or keep):
            raise ValueError("order joins two runs, of as many elements as groups have or several times as many")
        return result


def sorting_of(block: Block) -> tuple[Special, SortParameters] | None:
    """Return the only special of a kernel with its parameters, if groups of threads sort a row."""
    match block.statements:
        case (Special(name=name) as special,) if name == ORDER and dict(special.parameters).get("threads"):
            return special, SortParameters.of(special)
        case _:
            return None


def order_fault(special: Special, inputs: list[Refinement], outputs: list[Refinement]) -> str | None:
    """Return the fault of a special called ``order``."""
    try:
        plan = SortParameters.of(special)
    except ValueError as error:
        return f"{error}"
    if not 1 <= len(special.inputs) <= (2 if plan.threads else 1) or not 1 <= len(special.outputs) <= 2:
        return "order takes keys, for groups of threads also a payload, and has outputs for places, and for sorted keys"
    if len(inputs) != len(special.inputs) or len(outputs) != len(special.outputs):
        return None
    rows = [*inputs, *outputs]
    if (long := next((view for view in rows if sum(size > 1 for size in view.shape.sizes) > 1), None)) is not None:
        return f"order needs rows, views of which one axis has elements, not {long.name!r}"
    return _sizes_fault(plan, inputs, outputs)


def _sizes_fault(plan: SortParameters, inputs: list[Refinement], outputs: list[Refinement]) -> str | None:
    (keys, *payload), (places, *values) = inputs, outputs
    size, count = keys.shape.elements, places.shape.elements
    if count > size or not places.shape.dtype.is_integer:
        return f"order stores at most {size} integers, so not to {places.name!r}"
    if plan.part and count != plan.stored(size):
        return f"order stores {plan.stored(size)} elements of these parts, not {count}"
    if not plan.part and plan.threads and not plan.runs and size > plan.tile:
        return f"order has groups of {plan.tile} elements, too few for a row of {size}"
    if plan.part > max(plan.tile, 2 * plan.runs) or (plan.runs and not plan.part and size > 2 * plan.runs):
        return "order has parts that groups of threads cannot sort"
    if any((view.shape.elements, view.shape.dtype) != (size, places.shape.dtype) for view in payload):
        return "order needs a payload of as many elements as keys, and of the dtype of what is stored"
    if any((view.shape.elements, view.shape.dtype) != (count, keys.shape.dtype) for view in values):
        return "order stores sorted keys in their own dtype, as many as places"
    return None
