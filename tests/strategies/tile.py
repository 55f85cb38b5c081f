"""Whole Tile functions with arguments, for every dtype: ``cases()``.

Programs are built as text, statement by statement. A statement that inference refuses, or that leaves the set of
values below, is dropped again. All float values, intermediate ones too, are multiples of 1/2 of at most 64 in
size (or NaN and infinities, where asked for), so that sums come out the same in any order and with any fusing, and
results can be compared for equality. ``functions=True`` adds mathematical functions; what they touch is
compared with a tolerance and never compared or truncated in the program. Use :func:`assert_equal` on the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st

from strategies.tile_exact import LARGEST, dtype_of
from strategies.tile_program import Program
from tileir.core.dtype import DType
from tileir.tile.parser import parse
from tileir.typed.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strategies.tile_exact import Array
    from tileir.tile.ir import Function
    from tileir.typed import ir as typed

DTYPES = tuple(DType)
FLOATS = tuple(d for d in DType if d.is_float)
INTEGERS = tuple(d for d in DType if d.is_integer)
_SHOWN = 1000


class Case(NamedTuple):
    """A function and its arguments; ``tolerance`` is 0 where results are exact."""

    function: Function
    inputs: dict[str, Array]
    text: str
    tolerance: float = 0.0

    def __repr__(self) -> str:
        return self.text + "".join(f"\n{name} = {_shown(array)}" for name, array in self.inputs.items())

    @property
    def types(self) -> dict[str, TensorType]:
        """The types of the arguments."""
        return {name: TensorType(dtype_of(array), array.shape) for name, array in self.inputs.items()}

    def typed(self) -> typed.Function:
        """Infer the function for its arguments."""
        return infer(self.function, self.types)

    def expected(self) -> dict[str, Array]:
        """Interpret the function."""
        return interpret(self.typed(), self.inputs)


def _shown(array: Array) -> str:
    return f"{array.dtype} {array.tolist()!r}" if array.size <= _SHOWN else f"{array.dtype} of shape {array.shape}"


def assert_equal(actual: Mapping[str, Array], expected: Mapping[str, Array], tolerance: float = 0.0) -> None:
    """Compare results by name: dtypes, shapes, and values; NaN equals NaN, and the sign of zero is not looked at."""
    assert list(actual) == list(expected)
    for name, right in expected.items():
        left = np.asarray(actual[name])
        assert (left.dtype, left.shape) == (right.dtype, right.shape), name
        if dtype_of(right).is_float:
            wide = (left.astype(np.float64), right.astype(np.float64))
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance * LARGEST, err_msg=name)
        else:
            np.testing.assert_array_equal(left, right, err_msg=name)


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    dtypes: Sequence[DType] = DTYPES,
    special: bool = False,
    functions: bool = False,
    largest_size: int = 4,
    empty: bool = False,
    statements: int = 4,
) -> Case:
    """Draw a function with one to ``statements`` statements, and its arguments.

    Args:
        draw: Given by Hypothesis.
        dtypes: Those that inputs and casts may have.
        special: Whether float inputs hold NaN, infinities and negative zeros.
        functions: Whether exp, sqrt and their like take part.
        largest_size: Of an axis.
        empty: Whether axes may have size 0.
        statements: At most as many are drawn.

    """
    least = 0 if empty else 1
    program = Program(draw, tuple(dtypes), special, functions, least, largest_size)
    for number in range(draw(st.integers(1, 3))):
        program.add_input(f"A{number}")
    count = draw(st.integers(1, statements))
    for _ in range(count):
        program.add_statement()
    if not program.names:
        program.accept("R0 = A0;")
    names = program.names
    outputs = draw(st.lists(st.sampled_from(names), unique=True, max_size=2))
    if names[-1] not in outputs:
        outputs.append(names[-1])
    text = program.text(outputs)
    return Case(parse(text), program.arrays, text, program.tolerance)
