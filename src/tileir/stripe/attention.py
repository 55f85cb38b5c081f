"""The specials ``attend`` and ``attend_back``: attention, and the gradients of attention.

``attend`` computes sums of rows of values, weighted by the softmax of scaled products of queries and keys. An
optional second output, for gradients, is the logarithm to base 2 of the sum of exponentials of each query's scores.

``attend_back`` takes two matrices of rows, two of columns, and for either rows or columns these logarithms and
``dot``, the product of a result and its gradient. It recomputes the weights as exponentials of scores, the products
of the first matrices, and the gradient of a score as the weight times the product of the second matrices less
``dot``. The output is the sum of the first columns times these gradients and the scale. With two outputs, the second
one is the sum of the second columns times the weights; then ``dot`` and the logarithms belong to columns, and rows
may meet several matrices of columns. So rows are queries with gradients of results, or keys with values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from tileir.core import DType, attrs
from tileir.core.fragments import FRAGMENTS, Fragment
from tileir.stripe.blocks import Block, Refinement, Special
from tileir.stripe.tags import TagValue

ATTEND: Final = "attend"

ATTEND_BACK: Final = "attend_back"

PANEL: Final = 64
"""Maximum columns of a tile in local memory; wider tiles are several panels."""

QUAD: Final = 4
"""Threads that share a row of sums."""


STAGES: Final = 2
"""Tiles of keys and of values in local memory: one in use, and one being copied."""


@attrs.frozen
class AttentionParameters:
    """The parameters of ``attend``.

    Query ``s`` sees the keys ``t`` with ``s - before <= t <= s + after``; None is no bound. Scores of all others are
    minus infinity or, if ``hidden`` is a number, greater by that.

    Attributes:
        fragment: The instruction that multiplies matrices.
        rows: Queries of a group of threads.
        tall: Queries of the threads of a fragment.
        keys: Keys in local memory at a time.
        scale: Positive factor of scores.
        before: Maximum distance of visible keys before a query.
        after: Maximum distance of visible keys after it.
        zeros: Whether queries without visible keys give zeros; else they give NaN.
        finite: Whether values are finite, so that hidden values need not be read.
        parts: For ``attend``: number of parts of the tiles of keys, each with its own result and logarithms, which are
            relative to the sum of the weights of the part; None without parts.
        stages: For ``attend`` with instructions of one warp: tiles of keys and of values in local memory at a time, a
            power of two; None for :data:`STAGES`.
        groups: For ``attend`` with instructions of several warps, with several teams in a group: number of groups that
            take tiles of queries in turns; None for a group per tile.
        hidden: Number added to scores of hidden keys, so that all keys are read; None for minus infinity.
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
    parts: int | None = attrs.field(default=None, kw_only=True)
    stages: int | None = attrs.field(default=None, kw_only=True)
    groups: int | None = attrs.field(default=None, kw_only=True)
    hidden: float | None = attrs.field(default=None, kw_only=True)

    @property
    def is_triangle(self) -> bool:
        """True if the number of visible keys grows, or shrinks, along the queries, and no others are read."""
        return self.finite and (self.before is None) != (self.after is None)

    @property
    def teams(self) -> int:
        """Number of teams of a group, each of the threads that multiply together."""
        return self.rows // self.tall

    @property
    def depth(self) -> int:
        """Tiles of keys and of values in local memory at a time."""
        return self.stages or STAGES

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.rows // self.tall * FRAGMENTS[self.fragment].threads

    def share(self, keys: int) -> int:
        """Return the keys of a part, except the last one: whole tiles."""
        tiles = -(-keys // self.keys)
        return -(-tiles // (self.parts or 1)) * self.keys

    def local_bytes(self, dtype: DType, features: int, columns: int) -> int:
        """Return the local memory of a group in bytes."""
        tiles = self.rows * features + self.depth * self.keys * (features + columns)
        if FRAGMENTS[self.fragment].is_async:  # threads share nothing else, except results for box stores
            return (tiles + (self.teams > 1) * self.rows * columns) * dtype.itemsize
        return (tiles + 1) * dtype.itemsize + self.rows * QUAD * 4

    def back_bytes(self, dtype: DType, features: int, columns: int, *, two: bool) -> int:
        """Return the local memory of a group for gradients in bytes; ``two`` if it has two outputs."""
        tiles = (self.rows + STAGES * self.keys) * (features + columns) * dtype.itemsize
        return tiles + two * STAGES * self.keys * 2 * DType.F32.itemsize

    def parameters(self) -> tuple[tuple[str, TagValue], ...]:
        """Return the parameters of a special, without absent bounds."""
        named = ((field.name, getattr(self, field.name)) for field in attrs.fields(type(self)))
        return tuple(
            (name, int(value) if isinstance(value, bool) else value) for name, value in named if value is not None
        )

    @classmethod
    def of(cls, special: Special) -> AttentionParameters:
        """Parse the parameters of a special.

        Raises:
            ValueError: Their values are wrong.
            TypeError: There are too few or too many.
        """
        found = dict(special.parameters)
        flags = {name: bool(found.pop(name)) for name in ("zeros", "finite") if name in found}
        words = ("rows", "tall", "keys", "before", "after", "parts", "stages", "groups")
        sizes = [found.get(name, 0) for name in words]
        if any(type(size) is not int for size in sizes) or found.get("fragment") not in FRAGMENTS:
            raise ValueError("attend takes the name of a fragment, and sizes that are integers")
        scale = found.get("scale")
        if not isinstance(scale, float) or not scale > 0.0:
            raise ValueError("attend scales by a float above 0")
        hidden = found.get("hidden", 0.0)
        if not isinstance(hidden, float) or not math.isfinite(hidden) or ("hidden" in found and flags.get("finite")):
            raise ValueError("attend adds a finite float to scores of keys that are hidden, and reads all keys then")
        result = cls(**found, **flags)  # type: ignore[arg-type]  # as checked
        rows, columns, depth = FRAGMENTS[result.fragment].mnk
        least = min(result.rows, result.tall, result.keys)
        if result.parts is not None and result.parts < 2:
            raise ValueError("the keys of attend are split into two parts or more")
        if (
            result.depth < STAGES
            or result.depth & (result.depth - 1)
            or (result.stages and FRAGMENTS[result.fragment].is_async)
        ):
            raise ValueError("attend has a power of two of stages, and two by instructions of several warps")
        several = FRAGMENTS[result.fragment].is_async and result.teams > 1
        if result.groups is not None and (result.groups < 1 or not several or result.parts):
            raise ValueError("groups of attend that take turns have several teams of four warps, and all keys")
        if least < 1 or result.rows % result.tall or result.tall % rows or result.keys % max(columns, depth):
            raise ValueError(f"tiles of attend are multiples of those of {result.fragment}")
        return result


def instruction_of_width(fragment: Fragment, width: int) -> Fragment:
    """Return the instruction like another one but for the columns of its result: the widest that fits.

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


def attention_of(block: Block) -> tuple[Special, AttentionParameters] | None:
    """Return the only special of a kernel with its parameters, if it is ``attend`` or ``attend_back``."""
    match block.statements:
        case (Special(name=name) as special,) if name in (ATTEND, ATTEND_BACK):
            return special, AttentionParameters.of(special)
        case _:
            return None


def panels(columns: int) -> Iterator[tuple[int, int]]:
    """Yield first column and width of the panels of a tile: powers of two, the widest first."""
    start = 0
    while start < columns:
        width = min(PANEL, 1 << ((columns - start).bit_length() - 1))
        yield start, width
        start += width


def axes_of(view: Refinement) -> list[tuple[int, int]]:
    """Return size and stride of the axes of a view with several elements."""
    return [(dim.size, dim.stride) for dim in view.shape.dims if dim.size > 1]


def attend_fault(special: Special, inputs: list[Refinement], outputs: list[Refinement]) -> str | None:
    """Return the fault of a special called ``attend``."""
    if (fault := _parameters_fault(special)) is not None:
        return fault
    if len(special.inputs) != 3 or len(special.outputs) not in (1, 2):
        return "attend takes queries, keys and values, and has an output, and perhaps another one for logarithms"
    if len(inputs) != 3 or len(outputs) != len(special.outputs):
        return None
    plan, found = AttentionParameters.of(special), [[size for size, _ in axes_of(view)] for view in inputs]
    result, *numbers = [[size for size, _ in axes_of(view)] for view in outputs]
    if any(len(each) != 2 for each in (*found, result[plan.parts is not None :])):
        return "attend needs views with two axes of several elements"
    (s, d), (t, other), (keys, e) = found
    if plan.parts is not None:
        if plan.before is not None or plan.after is not None or plan.share(t) * (plan.parts - 1) >= t or not numbers:
            return "attend has parts of all keys, none of them empty, and logarithms of each"
        result, numbers = result[1:], [each[1:] for each in numbers if each[0] == plan.parts]
    if (d, t, [s, e]) != (other, keys, result):
        return "attend needs queries [S, D], keys [T, D], values [T, E] and an output [S, E]"
    if len({view.shape.dtype for view in inputs}) > 1 or not outputs[0].shape.dtype.is_float:
        return "attend needs queries, keys and values of one dtype, and an output of floats"
    if numbers != [[s]] * (len(outputs) - 1) or any(view.shape.dtype is not DType.F32 for view in outputs[1:]):
        return "attend has logarithms in f32, one for each query"
    return None


def attend_back_fault(special: Special, inputs: list[Refinement], outputs: list[Refinement]) -> str | None:
    """Return the fault of a special called ``attend_back``."""
    if (fault := _parameters_fault(special)) is not None:
        return fault
    two = len(special.outputs) == 2
    if {name for name, _ in special.parameters} & {"parts", "stages", "groups"}:
        return "attend_back has neither parts nor stages, and no groups that take turns"
    if len(special.inputs) != 6 or len(special.outputs) not in (1, 2):
        return "attend_back takes two matrices of rows, two of columns, logarithms and dots, and has one or two outputs"
    if len(inputs) != 6 or len(outputs) != len(special.outputs):
        return None
    left, beside, right, other, logs, dots = ([size for size, _ in axes_of(view)] for view in inputs)
    heads = right[:-2]
    if [len(left), len(beside)] != [2, 2] or len(right) not in (2, 3) or (heads and not two):
        return "attend_back needs rows with two axes of several elements, columns with two, or three for two outputs"
    along = [*heads, right[-2]] if two else left[:1]
    if right[-1] != left[1] or beside[0] != left[0] or other != [*right[:-1], beside[1]] or not logs == dots == along:
        return "attend_back needs rows [R, D] and [R, E], columns [C, D] and [C, E], and numbers of rows or of columns"
    if [[size for size, _ in axes_of(view)] for view in outputs] != [left, beside][: len(outputs)]:
        return "attend_back has outputs like its rows"
    if len({view.shape.dtype for view in inputs[:4]}) > 1 or any(v.shape.dtype is not DType.F32 for v in inputs[4:]):
        return "attend_back needs rows and columns of one dtype, and numbers in f32"
    return None if all(view.shape.dtype.is_float for view in outputs) else "attend_back needs outputs of floats"


def _parameters_fault(special: Special) -> str | None:
    try:
        AttentionParameters.of(special)
    except (TypeError, ValueError) as error:
        return f"{error}"
    return None
