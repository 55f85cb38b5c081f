"""Rows of the table of operations: each draws a call, and has the answer of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from fuzz.area import Case, array_spec
from tileir.core import DType, attrs
from tileir_testing.generated.choices import Choices

HALVES: Final = ("f16", "bf16")
FLOATS: Final = ("f16", "bf16", "f32", "f64")
INTEGERS: Final = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
ALL: Final = (*FLOATS, "bool", *INTEGERS)
FLAVOURS: Final = ("normal", "ties", "zeros", "tiny", "large", "special")
TAME: Final = ("normal", "ties", "zeros", "tiny")

Array: TypeAlias = Any
"""An array of NumPy, as oracles take and give them: its stubs know little of extended precision."""

Arguments = tuple[list[Any], dict[str, Any]]
"""Positional arguments and options, as JSON; ``"$A"`` is the input ``A``."""

_MANY: Final = 66_000
"""More elements than f16 counts: a sum of ones is infinite in it."""


@attrs.define
class Draw:
    """Draws the arguments of one call, and collects what inputs it has.

    Attributes:
        choices: The source of choices.
        dtype: That of the inputs which say no other.
        inputs: Descriptions of the inputs so far, by name.

    """

    choices: Choices
    dtype: str
    inputs: dict[str, Case] = attrs.field(factory=dict, init=False)

    def integer(self, least: int, most: int) -> int:
        """Choose an integer between two bounds, both included."""
        return self.choices.integer(least, most)

    def pick(self, options: Sequence[Any]) -> Any:
        """Choose one of some options; the first is the simplest."""
        return self.choices.pick(options)

    def flag(self) -> bool:
        """Choose yes or no."""
        return self.choices.integer(0, 1) == 1

    def size(self) -> int:
        """Choose a size: small as a rule, now and then none, one, or what vectors leave a rest of."""
        return self.integer(1, 6) if self.integer(0, 4) < 4 else self.pick((1, 0, 17, 33, 70))

    def shape(self, least: int = 0, most: int = 3, *, axes: bool = True) -> tuple[int, ...]:
        """Choose a shape; where ``axes`` allows it, now and then one of more than 32 axes."""
        if axes and self.integer(0, 29) == 29:
            return (*(1,) * self.integer(31, 40), *(self.integer(1, 4) for _ in range(2)))
        return tuple(self.size() for _ in range(self.integer(least, most)))

    def long(self) -> tuple[int, ...]:
        """Choose a shape of one or more axes, which now and then has more elements than f16 counts."""
        return (_MANY,) if self.dtype in HALVES and self.integer(0, 24) == 24 else self.shape(1)

    def full(self, least: int = 1, most: int = 3) -> tuple[int, ...]:
        """Choose a shape without empty axes."""
        return tuple(self.integer(1, 6) for _ in range(self.integer(least, most)))

    def axis(self, shape: Sequence[int]) -> int:
        """Choose an axis, which may count from the end."""
        return self.integer(-len(shape), len(shape) - 1)

    def axes(self, shape: Sequence[int]) -> list[int] | int | None:
        """Choose axes, or None for all of them."""
        if not shape or self.integer(0, 2) == 0:
            return None
        some = sorted({self.integer(0, len(shape) - 1) for _ in range(self.integer(1, 2))})
        return some[0] - len(shape) if len(some) == 1 and self.flag() else some

    def tensor(self, shape: Sequence[int], among: str = "any", dtype: str = "", *, below: int = 0) -> str:
        """Add an input, and return what stands for it among the arguments.

        Args:
            shape: Of the input.
            among: ``"any"`` for values of the flavour of a set; others are those of :func:`array_spec`, ``"index"``
                for integers from 0 on, and ``"wild"`` for such that may lie outside.
            dtype: Where it is not that of the case.
            below: What indices are below.

        """
        name = chr(ord("A") + len(self.inputs))
        spec = array_spec(self.choices, DType(dtype or self.dtype), tuple(shape), among)
        if spec["layout"] == "broadcast" and among not in ("any", "normal"):
            spec["layout"] = "plain"
        self.inputs[name] = {**spec, "below": below, "main": not dtype}
        return f"${name}"

    def partner(self, shape: Sequence[int], among: str = "any") -> str:
        """Add an input that broadcasts with one of this shape."""
        shrunk = [1 if self.integer(0, 3) == 3 else size for size in shape]
        return self.tensor(shrunk[self.integer(0, len(shape)) if self.integer(0, 3) == 3 else 0 :], among)


@attrs.frozen
class Row:
    """One operation.

    Attributes:
        name: In ``tileir.ops``.
        draw: Draws the arguments of a call.
        oracle: Gives the results, from arrays of extended precision in place of tensors. A ValueError says that there
            are none, so that a refusal is right.
        dtypes: Of the inputs that say no other.
        flavours: What values inputs among ``"any"`` have.
        exact: Whether each result is a number of its dtype, which has to be met.
        pointwise: Whether elements of the result depend on those at the same place alone.
        units: By how many units in the last place a result of f32 or f64 may be off.
        terms: What magnitudes are added up, with the arguments of the oracle: from cancelling comes an error of 4
            roundings of their sum.
        largest: What magnitudes are met on the way, such as sums of squares, with the arguments of the oracle: where
            they overflow, so may the result.
        constant: Inputs with no gradient; ``"*"`` for all of them.
        holds: Checks results that no formula gives, with the arguments of the oracle behind them.
        tied: Whether equal elements have no one gradient.
        shared: Whether axes of one size have one dimension, where the operation asks for that.

    """

    name: str
    draw: Callable[[Draw], Arguments]
    oracle: Callable[..., Any]
    dtypes: tuple[str, ...] = FLOATS
    flavours: tuple[str, ...] = FLAVOURS
    exact: bool = False
    pointwise: bool = False
    units: float = 4.0
    terms: Callable[..., Any] | None = None
    largest: Callable[..., Any] | None = None
    constant: str = ""
    holds: Callable[..., None] | None = None
    tied: bool = False
    shared: bool = False
