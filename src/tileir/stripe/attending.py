"""The special ``attend``: sums of rows of values, weighted by the softmax of scaled products of queries and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.stripe.blocks import Block, Refinement, Special

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tileir.core.dtype import DType
    from tileir.stripe.tags import TagValue

ATTEND: Final = "attend"

PANEL: Final = 64
"""Columns of a tile in local memory at most: wider ones lie as several panels."""

QUAD: Final = 4
"""Threads that share a row of sums."""


STAGES: Final = 2
"""Tiles of keys and of values that are in local memory at a time: of one, and of the one that is copied meanwhile."""


@attrs.frozen
class Attending:
    """The parameters of ``attend``.

    Query ``s`` sees the keys ``t`` with ``s - before <= t <= s + after``; None is no bound.

    Attributes:
        fragment: The instruction that multiplies matrices.
        rows: Queries of a group of threads.
        tall: Those of the threads of a fragment.
        keys: Keys that are in local memory at a time.
        scale: What scores are multiplied by; above 0.
        before: How far before a query the keys are that it sees.
        after: How far after it.
        zeros: Whether queries that see nothing give zeros; else they give NaN.
        finite: Whether values are finite, so that those that nobody sees need not be read.

    """

    fragment: str
    rows: int
    tall: int
    keys: int
    scale: float
    before: int | None = None
    after: int | None = None
    zeros: bool = attrs.field(default=False, kw_only=True)
    finite: bool = attrs.field(default=False, kw_only=True)

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.rows // self.tall * FRAGMENTS[self.fragment].threads

    def local_bytes(self, dtype: DType, features: int, columns: int) -> int:
        """Return how much local memory a group needs."""
        tiles = self.rows * features + STAGES * self.keys * (features + columns)
        if FRAGMENTS[self.fragment].is_async:  # threads share nothing else
            return tiles * dtype.itemsize
        return (tiles + 1) * dtype.itemsize + self.rows * QUAD * 4

    def parameters(self) -> tuple[tuple[str, TagValue], ...]:
        """Return it as the parameters of a special; bounds that there are none of are left out."""
        named = ((field.name, getattr(self, field.name)) for field in attrs.fields(type(self)))
        return tuple(
            (name, int(value) if isinstance(value, bool) else value) for name, value in named if value is not None
        )

    @classmethod
    def of(cls, special: Special) -> Attending:
        """Return what the parameters of a special say.

        Raises:
            ValueError: They are others.
            TypeError: Some are missing, or too many.

        """
        found = dict(special.parameters)
        flags = {name: bool(found.pop(name)) for name in ("zeros", "finite") if name in found}
        sizes = [found.get(name, 0) for name in ("rows", "tall", "keys", "before", "after")]
        if any(type(size) is not int for size in sizes) or found.get("fragment") not in FRAGMENTS:
            raise ValueError("attend takes the name of a fragment, and sizes that are integers")
        scale = found.get("scale")
        if not isinstance(scale, float) or not scale > 0.0:
            raise ValueError("attend scales by a float above 0")
        result = cls(**found, **flags)  # type: ignore[arg-type]  # as checked
        rows, columns, depth = FRAGMENTS[result.fragment].mnk
        least = min(result.rows, result.tall, result.keys)
        if least < 1 or result.rows % result.tall or result.tall % rows or result.keys % max(columns, depth):
            raise ValueError(f"tiles of attend are multiples of those of {result.fragment}")
        return result


def of_width(fragment: Fragment, width: int) -> Fragment:
    """Return the instruction that is like another one but for the columns of its result: the widest that fits.

    Raises:
        ValueError: There is none.

    """
    like = [
        row
        for row in FRAGMENTS.values()
        if (row.feature, row.mnk[0], row.mnk[2], row.dtypes)
        == (fragment.feature, fragment.mnk[0], fragment.mnk[2], fragment.dtypes)
    ]
    fitting = [row for row in like if width % row.mnk[1] == 0]
    if not fitting:
        raise ValueError(f"no instruction like {fragment.name} has {width} columns")
    return max(fitting, key=lambda row: row.mnk[1])


def attending_of(block: Block) -> Attending | None:
    """Return the parameters of the special that is all of a kernel, if it is ``attend``."""
    match block.statements:
        case (Special(name=name) as special,) if name == ATTEND:
            return Attending.of(special)
        case _:
            return None


def panels(columns: int) -> Iterator[tuple[int, int]]:
    """Yield first column and width of the panels of a tile: powers of two, the widest first."""
    start = 0
    while start < columns:
        width = min(PANEL, 1 << ((columns - start).bit_length() - 1))
        yield start, width
        start += width


def matrix_of(view: Refinement) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return size and stride of the two axes of a view that have several elements; None where it has more or fewer."""
    dims = [(dim.size, dim.stride) for dim in view.shape.dims if dim.size > 1]
    return (dims[0], dims[1]) if len(dims) == 2 else None


def attend_fault(special: Special, inputs: list[Refinement], outputs: list[Refinement]) -> str | None:
    """Return what is wrong with a special that is called ``attend``."""
    try:
        Attending.of(special)
    except (TypeError, ValueError) as error:
        return f"{error}"
    if len(special.inputs) != 3 or len(special.outputs) != 1:
        return "attend takes queries, keys and values, and has one output"
    if len(inputs) != 3 or len(outputs) != 1:
        return None
    found = [matrix_of(view) for view in (*inputs, *outputs)]
    if None in found:
        return "attend needs views with two axes of several elements"
    (s, d), (t, other), (keys, e), (rows, columns) = ([dim[0] for dim in each] for each in found if each is not None)
    if (d, t, s, e) != (other, keys, rows, columns):
        return "attend needs queries [S, D], keys [T, D], values [T, E] and an output [S, E]"
    if len({view.shape.dtype for view in inputs}) > 1 or not outputs[0].shape.dtype.is_float:
        return "attend needs queries, keys and values of one dtype, and an output of floats"
    return None
