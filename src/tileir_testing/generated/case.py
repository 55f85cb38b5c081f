"""Whole Tile functions with arguments, for every dtype: by a seed and a number, or by a source of choices.

Programs are built as text, statement by statement. A statement that inference refuses, or that leaves the set of
values below, is dropped again. All float values, intermediate ones too, are multiples of 1/2 of at most 64 in
size (or NaN and infinities, where asked for), so that sums come out the same in any order and with any fusing, and
results can be compared for equality. ``functions=True`` adds mathematical functions; what they touch is
compared with a tolerance and never compared or truncated in the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tileir.core import DType, attrs, dtype_of
from tileir.tile.ir import Function
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType
from tileir_testing.generated.bounds import differences
from tileir_testing.generated.choices import Choices, Seeded
from tileir_testing.generated.exact import LARGEST, Array
from tileir_testing.generated.program import Program

DTYPES: Final = tuple(DType)

_SHOWN: Final = 1000


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

    def differences(self) -> dict[str, Array]:
        """Return the allowed difference between correct implementations, for each output and element."""
        if self.tolerance == 0.0:
            return {name: np.zeros(()) for name in self.typed().outputs}
        return differences(self.typed(), self.inputs)

    def check(self, actual: Mapping[str, Array]) -> None:
        """Compare results with the interpreter's; raise AssertionError, with the program, where they are wrong."""
        expected, allowed = self.expected(), self.differences()
        for name, right in expected.items():
            fault = fault_of(np.asarray(actual[name]), right, allowed[name])
            if fault is not None:
                raise AssertionError(f"{name}{fault}\n{self!r}")


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


def fault_of(left: Array, right: Array, allowed: Array) -> str | None:
    """Return the place and size of a difference beyond the allowed one, or None; NaN equals NaN."""
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return f" is {left.dtype} of shape {left.shape}, not {right.dtype} of shape {right.shape}"
    equal = left == right
    if dtype_of(right).is_float:
        near, far = left.astype(np.float64), right.astype(np.float64)
        with np.errstate(all="ignore"):
            equal = equal | (np.isnan(near) & np.isnan(far)) | (np.abs(near - far) <= allowed) | np.isinf(allowed)
    if np.all(equal):
        return None
    place = tuple(map(int, np.argwhere(~equal)[0]))
    margin = float(np.broadcast_to(allowed, right.shape)[place])
    return f"[{', '.join(map(str, place))}] is {left[place]}, not {right[place]}; {margin:g} apart is allowed"


@attrs.frozen
class Manner:
    """Kind of programs to make.

    Attributes:
        dtypes: Those that inputs and casts may have.
        special: Whether float inputs hold NaN, infinities and negative zeros.
        functions: Whether exp, sqrt and their like take part.
        least_size: Of an axis.
        largest_size: Of an axis.
        statements: At most as many there are.

    """

    dtypes: tuple[DType, ...] = DTYPES
    special: bool = False
    functions: bool = False
    least_size: int = 1
    largest_size: int = 4
    statements: int = 4


def make(choices: Choices, manner: Manner) -> Case:
    """Make a function with one or more statements, and its arguments."""
    program = Program(choices, manner.dtypes, manner.special, manner.functions, manner.least_size, manner.largest_size)
    for number in range(choices.integer(1, 3)):
        program.add_input(f"A{number}")
    for _ in range(choices.integer(1, manner.statements)):
        program.add_statement()
    if not program.names:
        program.accept("R0 = A0;")
    outputs = [program.declared(name) for name in _outputs(choices, program.names)]
    text = program.text(outputs)
    return Case(parse(text), program.arrays, text, program.tolerance)


MANNERS: Final = (
    Manner(special=True, least_size=0),
    Manner((*(dtype for dtype in DType if dtype.is_float), DType.I32), special=True, functions=True),
    Manner(special=True, largest_size=20, statements=2),
)
"""What the kit makes in turn: small programs whose results are exact, such with functions, and such with long axes."""


def program(seed: int, number: int) -> Case:
    """Make program ``number`` of a seed in the manner of :data:`MANNERS` that is its turn."""
    return generate(seed, number, MANNERS[number % len(MANNERS)])


def generate(seed: int, number: int, manner: Manner) -> Case:
    """Make program ``number`` of a seed; it does not depend on any other."""
    return make(Seeded(f"{seed}/{number}"), manner)


def _outputs(choices: Choices, names: Sequence[str]) -> list[str]:
    """Choose up to two results in addition to the last one."""
    outputs: list[str] = []
    for _ in range(choices.integer(0, 2)):
        name = choices.pick(names)
        if name not in outputs:
            outputs.append(name)
    return outputs if names[-1] in outputs else [*outputs, names[-1]]
