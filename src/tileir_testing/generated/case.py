"""Whole Tile functions with arguments, for every dtype: by a seed and a number, or by a source of choices.

Programs are built as text, statement by statement. A statement that inference refuses, or that leaves the set of
values below, is dropped again. All float values, intermediate ones too, are multiples of 1/2 of at most 64 in
size (or NaN and infinities, where asked for), so that sums come out the same in any order and with any fusing, and
results can be compared for equality. ``functions=True`` adds mathematical functions; what they touch is
compared with a tolerance and never compared or truncated in the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tileir.core import FUNCTIONS, DType, TileError, attrs, dtype_of
from tileir.tile.ir import Function
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.dataflow import definitions
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import TensorType
from tileir_testing.generated.bounds import differences
from tileir_testing.generated.choices import Choices, Seeded
from tileir_testing.generated.exact import (
    LARGEST,
    Array,
    allowed,
    rough_values,
    sums_exactly,
    tolerance,
    zeros_have_signs,
)

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


_ATTEMPTS: Final = 3
_SPECIAL: Final = (float("nan"), float("inf"), float("-inf"), -0.0)


def arrays(choices: Choices, dtype: DType, shape: tuple[int, ...], *, special: bool = False) -> Array:
    """Make an array: small values, now and then the limits of an integer dtype or the special values of a float."""
    count = int(np.prod(shape, dtype=np.int64))
    values = [_element(choices, dtype, special) for _ in range(count)]
    return np.array(values, dtype=dtype.numpy).reshape(shape)


def _element(choices: Choices, dtype: DType, special: bool) -> bool | int | float:
    if dtype.is_bool:
        return choices.integer(0, 1) == 1
    if dtype.is_integer:
        if choices.integer(0, 3) == 3:
            return choices.pick((dtype.minimum, dtype.maximum))
        return choices.integer(-4 if dtype.is_signed else 0, 5)
    if special and choices.integer(0, 1):
        return choices.pick(_SPECIAL)
    return choices.integer(-8, 8) / 2


@attrs.define
class Program:
    """A program that grows while it stays inside the set of values that the module promises."""

    choices: Choices
    dtypes: tuple[DType, ...]
    special: bool
    functions: bool
    least_size: int
    largest_size: int
    arrays: dict[str, Array] = attrs.field(factory=dict, init=False)
    inputs: list[str] = attrs.field(factory=list, init=False)
    lines: list[str] = attrs.field(factory=list, init=False)
    names: list[str] = attrs.field(factory=list, init=False)
    types: dict[str, TensorType] = attrs.field(factory=dict, init=False)
    sizes: dict[str, int] = attrs.field(factory=dict, init=False)
    rough: set[str] = attrs.field(factory=set, init=False)
    tolerance: float = attrs.field(default=0.0, init=False)

    def one_of(self, *choices: str) -> str:
        """Choose one of some texts."""
        return self.choices.pick(choices)

    def chance(self, percent: int) -> bool:
        """Return True with this probability in percent."""
        return self.choices.integer(1, 100) > 100 - percent

    def order(self, names: Sequence[str]) -> list[str]:
        """Choose an order."""
        left = list(names)
        return [left.pop(self.choices.integer(0, len(left) - 1)) for _ in names]

    def size(self) -> int:
        """Choose the size of an axis."""
        return self.choices.integer(self.least_size, self.largest_size)

    def add_input(self, name: str) -> None:
        """Add an input, often of the shape of another one."""
        dtype = self.choices.pick(self.dtypes)
        known = [t.shape for t in self.types.values()]
        if known and self.chance(50):
            shape = self.choices.pick(known)
        else:
            shape = tuple(self.size() for _ in range(self.choices.integer(0, 3)))
        self.arrays[name] = arrays(self.choices, dtype, shape, special=self.special)
        self.types[name] = TensorType(dtype, shape)
        dims = [str(size) if self.chance(10) else f"{name}N{axis}" for axis, size in enumerate(shape)]
        self.sizes.update((dim, size) for dim, size in zip(dims, shape, strict=True) if not dim.isdigit())
        declared = self.declared_dtype(name)
        self.inputs.append(declared if self.chance(10) else f"{declared}[{', '.join(dims)}]")

    def declared_dtype(self, name: str) -> str:
        """Return a tensor as a signature spells it without sizes, with its dtype or without."""
        return f"{name}: {self.types[name].dtype.value}" if self.chance(25) else name

    def declared(self, name: str) -> str:
        """Return a result as a signature spells it: as it is, or with its dtype, its sizes, or both."""
        spelt = self.declared_dtype(name)
        if not self.chance(25):
            return spelt
        named = {size: dim for dim, size in self.sizes.items() if any(dim in text for text in self.inputs)}
        return f"{spelt}[{', '.join(named.get(size, str(size)) for size in self.types[name].shape)}]"

    def text(self, outputs: Sequence[str], extra: Sequence[str] = ()) -> str:
        """Return the program so far, and some statements more."""
        body = "".join(f"  {line}\n" for line in (*self.lines, *extra))
        return f"function ({', '.join(self.inputs)}) -> ({', '.join(outputs)}) {{\n{body}}}"

    def add_statement(self) -> None:
        """Try a few statements and keep the first that is acceptable."""
        makers: list[Callable[[], str]] = [
            self.elementwise, self.elementwise, self.contraction, self.contraction, self.contraction,
            self.movement, self.reduction,
        ]  # fmt: skip
        for _ in range(_ATTEMPTS):
            maker = self.choices.pick(makers)
            if self.accept(f"R{len(self.lines)}{maker()}"):
                return

    def accept(self, line: str) -> bool:
        """Add a statement if inference takes it and all of its values are allowed; say whether it was added."""
        name = line.split("[")[0].split("=")[0].strip()
        text = self.text([*self.names, name], [line])
        types = {n: TensorType(dtype_of(a), a.shape) for n, a in self.arrays.items()}
        try:
            function = infer(parse(text), types)
        except TileError:
            return False
        everything = attrs.evolve(function, outputs=tuple(o.name for o in function.operations))
        values = interpret(everything, self.arrays)
        rough = rough_values(function)
        if rough is None or not all(allowed(values[n], n in rough, self.special) for n in values):
            return False
        known = {**self.arrays, **values}
        exact = all(sums_exactly(operation, known) for operation in function.operations)
        if not exact or not zeros_have_signs(function, known):
            return False
        self.lines.append(line)
        self.names.append(name)
        defined = definitions(function)[function.outputs[-1]]
        self.types[name] = TensorType(defined.dtype, defined.shape)
        self.tolerance = tolerance(function, rough)
        return True

    def tensor(self, fits: Callable[[TensorType], bool] = lambda _: True) -> str:
        """Choose a tensor in scope, one that ``fits`` if there is any."""
        names = [name for name, type_ in self.types.items() if fits(type_)]
        return self.choices.pick(names or list(self.types))

    def beside(self, shape: tuple[int, ...]) -> str:
        """Choose a tensor that broadcasts with ``shape``."""
        return self.tensor(lambda type_: _broadcasts(type_.shape, shape))

    def literal(self) -> str:
        """Choose a number or a dimension."""
        return self.one_of("0", "1", "2", "3", "0.5", "1.0", "2.0", "(-1)", "(-2.5)", *list(self.sizes)[:3])

    def operand(self, shape: tuple[int, ...], depth: int) -> str:
        """Choose a literal, a tensor or an expression."""
        if depth > 0 and self.chance(40):
            return self.expression(shape, depth)
        return self.literal() if self.chance(25) else self.beside(shape)

    def expression(self, shape: tuple[int, ...], depth: int) -> str:
        """Choose an elementwise expression that broadcasts with ``shape``."""
        form = self.choices.pick(_FUNCTION_FORMS if self.functions and self.chance(40) else _FORMS)
        form = form.replace("$cast", f"as_{self.choices.pick(self.dtypes).value}")
        while "$" in form:
            form = form.replace("$", self.operand(shape, depth - 1), 1)
        return form

    def elementwise(self) -> str:
        """Choose an elementwise statement."""
        shape = self.types[self.tensor()].shape
        return f" = {self.expression(shape, 2)};"

    def movement(self) -> str:
        """Choose a statement with a function that moves or counts elements."""
        name = self.tensor(lambda type_: len(type_.shape) > 0)
        shape = self.types[name].shape
        count = int(np.prod(shape, dtype=np.int64))
        form = self.one_of("index", "shape", "reshape", "gather", "scatter", "softmax", "element", "random")
        match form:
            case "index":
                return f" = index({name}, {self.choices.integer(0, max(0, len(shape) - 1))});"
            case "shape":
                return f" = shape({name});"
            case "reshape":
                return f" = reshape({', '.join([name, *map(str, self.factors(count))])});"
            case "gather":
                indices = self.tensor(lambda type_: type_.dtype in _INDICES)
                return f" = gather({name}, {indices});"
            case "scatter":
                indices = self.tensor(lambda type_: type_.dtype in _INDICES)
                updates = self.tensor(lambda type_: type_.shape[: len(shape)] == self.types[indices].shape)
                return f" = scatter({updates}, {indices}, {name});"
            case "softmax" if self.functions:
                return f" = {self.one_of('builtin_softmax', 'builtin_logsoftmax')}({name});"
            case "random":
                state = self.tensor(lambda type_: type_ == TensorType(DType.U32, (4,)))
                return f" = prng_state(prng_step({state}, {self.size()}, 2));"
            case _:
                return f" = element(tuple({name}, {self.literal()}), 0) + {self.literal()};"

    def factors(self, count: int) -> list[int]:
        """Choose a shape of ``count`` elements."""
        sizes = []
        while count > 1 and self.chance(60):
            size = self.choices.pick([n for n in range(1, count + 1) if count % n == 0])
            sizes.append(size)
            count //= size
        return [*sizes, count] if count != 1 or self.chance(50) else sizes

    def reduction(self) -> str:
        """Choose an aggregation of one tensor over some of its axes, which stay as size 1 or go."""
        name = self.tensor(lambda type_: len(type_.shape) > 0)
        shape = self.types[name].shape
        indices = [f"i{axis}" for axis in range(len(shape))]
        kept = [axis for axis in range(len(shape)) if self.chance(50)]
        output = ", ".join(indices[axis] for axis in kept)
        sizes = ", ".join(str(shape[axis]) for axis in kept)
        return f"[{output} : {sizes}] = {self.one_of(*'+*><')}({name}[{', '.join(indices)}]);"

    def contraction(self) -> str:
        """Choose a contraction; index polynomials mostly suit the tensors, and sometimes do anything."""
        combination = self.one_of("", "", "*", "*", "*", "+", "==", "?")
        count = {"": 1, "?": 3}.get(combination, 2)
        tensors = [self.tensor() for _ in range(count)]
        accesses = [f"{name}[{', '.join(self.polynomials(len(self.types[name].shape)))}]" for name in tensors]
        inner = f"{accesses[0]} == {accesses[1]} ? {accesses[2]}" if count == 3 else f" {combination} ".join(accesses)
        rank = self.choices.integer(0, 3)
        output = ", ".join(self.polynomials(rank))
        shape = [self.extent() for _ in range(rank)]
        line = f"[{output} : {', '.join(text for text, _ in shape)}] = {self.one_of(*'+++*><=')}({inner})"
        for _ in range(self.choices.pick([0, 0, 0, 1, 2])):
            line += f", {self.polynomial()} < {self.choices.integer(1, self.largest_size + 1)}"
        sizes = tuple(size for _, size in shape)
        defaults = [name for name, type_ in self.types.items() if type_.shape == sizes]
        if self.chance(5):
            line += " no_defract"
        if defaults and self.chance(40):
            line += f" default {self.choices.pick(defaults)}"
        return f"{line};"

    def extent(self) -> tuple[str, int]:
        """Choose the size of an output axis, by name, number or arithmetic."""
        if self.sizes and self.chance(60):
            name = self.choices.pick(list(self.sizes))
            size = self.sizes[name]
            forms = [
                (name, size),
                (f"{name} + 1", size + 1),
                (f"({name} + 1) / 2", (size + 1) // 2),
                (f"2 * {name}", 2 * size),
            ]
            return self.choices.pick(forms)
        size = self.size()
        return str(size), size

    def polynomials(self, rank: int) -> list[str]:
        """Choose an index for each axis; plain ones differ, so that most contractions are bounded."""
        order = self.order(_INDEX_NAMES)[:rank]
        return [index if self.chance(70) else self.polynomial() for index in order]

    def polynomial(self) -> str:
        """Choose an index polynomial of one or two indices."""
        i, j = self.order(_INDEX_NAMES)[:2]
        number = self.choices.integer(0, self.largest_size)
        return self.one_of(
            i, f"{i} + {j}", f"{i} - {j}", f"2 * {i}", f"2{i} + {j}", f"{i} + {number}", f"{number} - {i}", f"{number}",
            f"{i} / 2", f"({i} + {number}) / 2", f"({i} - {j} + 1) / 2", f"3 * {i} - 2 * {j} + {number}",
            f"{i} / 2 + {j} / 3",
        )  # fmt: skip


def _broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    pairs = zip(reversed(left), reversed(right), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


_INDEX_NAMES = ("i", "j", "k", "l")
_INDICES = (DType.I32, DType.I64)
_FORMS = (
    "($ + $)", "($ - $)", "($ * $)", "($ / $)", "mod($, $)", "max($, $)", "min($, $)", "(-$)", "abs($)", "relu($)",
    "sign($)", "($ < $)", "($ <= $)", "($ == $)", "($ != $)", "($ > $)", "($ >= $)", "($ ? $ : $)",
    "where($ < $, $, $)", "($ & $)", "($ | $)", "($ ^ $)", "(~$)", "($ << $)", "($ >> $)", "floor($)", "ceil($)",
    "round($)", "trunc($)", "logical_and($, $)", "logical_or($, $)", "logical_not($)", "$cast($)", "$cast($)",
    "as_float($, 64)", "as_int($, 8)", "as_uint($, 16)", "ident($)",
)  # fmt: skip
_FUNCTION_FORMS = (
    "pow($, $)", "pow($, 2)", "sqrt($)", *(f"{op.value}($)" for op in FUNCTIONS)
)  # fmt: skip
