"""Functions that the steps of formulas call: Tile bodies with parameters that know their bounds.

What bodies of functions may say besides Tile: words that know the boundary of their step, or need literal sizes.

Each stands in a statement of its own, ``Result = word(Tensor, …, size, …);``. The functions above one in its file are
words of its body as well.

Ranks within windows, such as medians, by sorting networks over shifted pictures.

Columns of windows are sorted first, which neighbouring windows share, then what is in one place of all of them; an
element that this shows to lie too low or too high takes part no longer. What is left is sorted, and whatever leads to
another rank than the wanted one is never computed.

Sources: Batcher, "Sorting networks and their applications", 1968; Adams, "Fast median filters using separable sorting
networks", 2021.

Elements of pictures at positions that are computed: along one axis, or between pixels on two.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import Final

from tileir.core import Diagnostic, attrs, nearest
from tileir.core.dtype import DType
from tileir.core.targets.template_expressions import Budget, evaluate, parse
from tileir.ops.arrays.indexing import take
from tileir.ops.shared.foundation import (
    Aggregation,
    Dim,
    Tensor,
    aggregate,
    call,
    cast_to,
    dim_like,
    dims_of,
    indices_of,
    mistaken,
)
from tileir.tile import ir as tile
from tileir.tile.building.inlining import Expansion, inline
from tileir.tile.functions import builtin
from tileir.tile.traversal import walk
from tileir_formula.definitions.parameters import ChoiceParameter, FlagParameter, Operand, Parameter
from tileir_formula.ir import Argument, Boundary, Value
from tileir_formula.lower.channels import bordered, channel, coloured
from tileir_formula.text.spelling import fault_of_value

_FARTHEST: Final = 1e9
"""Positions beyond it are taken for it, so that they fit into i32."""


def picked(picture: Tensor, positions: Tensor, axis: int, boundary: Boundary) -> Tensor:
    """Return a picture whose positions along an axis show given whole positions of another, or its boundary.

    Args:
        picture: ``[rows, columns, channels]``.
        positions: A vector of whole numbers, of any dtype.
        axis: 0 for rows, 1 for columns.
        boundary: Treatment of positions outside.
    """
    size = dims_of(picture)[axis]
    whole = _whole(positions)
    taken = take(picture, _inside(whole, size, boundary), axis)
    if boundary is not Boundary.CONSTANT:
        return taken
    behind = len(dims_of(picture)) - axis - 1
    return call("cond", call("reshape", _exists(whole, size), *dims_of(positions), *(1,) * behind), taken, 0.0)


def sampled(picture: Tensor, rows: Tensor, columns: Tensor, boundary: Boundary) -> Tensor:
    """Return a picture's values at points between pixels, by bilinear interpolation.

    Args:
        picture: ``[rows, columns, channels]``.
        rows: The row of each point, ``[rows', columns']``.
        columns: The column of each point, in an array of equal shape.
        boundary: Treatment of pixels outside.
    """
    above, left = call("floor", rows), call("floor", columns)
    down, across = _weight(rows - above), _weight(columns - left)
    top, first = _whole(above), _whole(left)
    tap = _Taps(picture, boundary)
    upper = tap(top, first) * (1.0 - across) + tap(top, first + 1) * across
    lower = tap(top + 1, first) * (1.0 - across) + tap(top + 1, first + 1) * across
    return upper * (1.0 - down) + lower * down


class _Taps:
    """The pixels of one picture at whole points."""

    def __init__(self, picture: Tensor, boundary: Boundary) -> None:
        self.height, self.width, channels = dims_of(picture)
        self.flat = call("reshape", picture, self.height * self.width, channels)
        self.boundary = boundary

    def __call__(self, rows: Tensor, columns: Tensor) -> Tensor:
        inside = _inside(rows, self.height, self.boundary) * self.width + _inside(columns, self.width, self.boundary)
        taken = call("gather", self.flat, inside)
        if self.boundary is not Boundary.CONSTANT:
            return taken
        exists = call("logical_and", _exists(rows, self.height), _exists(columns, self.width))
        return call("cond", call("reshape", exists, *dims_of(rows), 1), taken, 0.0)


def _weight(fraction: Tensor) -> Tensor:
    return call("reshape", fraction, *dims_of(fraction), 1)


def _whole(positions: Tensor) -> Tensor:
    """Return positions as i32, of which the neighbours are i32 as well."""
    return cast_to(call("max", call("min", positions, _FARTHEST), -_FARTHEST), DType.I32)


def _exists(positions: Tensor, size: Dim) -> Tensor:
    return call("logical_and", positions >= 0, positions < size)


def _inside(positions: Tensor, size: Dim, boundary: Boundary) -> Tensor:
    """Return the positions inside of an axis whose elements stand at positions that may lie outside."""
    match boundary:
        case Boundary.MIRROR:
            period = (size * 2 - 2).max(1)
            folded = call("abs", call("mod", positions, period))
            return call("min", folded, period - folded)
        case Boundary.WRAP:
            rest = call("mod", positions, size)
            return call("cond", rest < 0, rest + size, rest)
        case Boundary.CLAMP | Boundary.CONSTANT:
            return call("max", call("min", positions, size - 1), 0)


def ranked(padded: Tensor, rows: int, columns: int, percent: int) -> Tensor:
    """Return for each pixel the element of one rank within its window.

    Args:
        padded: A picture with a border that is as wide as windows reach.
        rows: How many rows windows have, an odd number.
        columns: How many columns they have, an odd number.
        percent: The rank: 0 for the least element, 50 for the median, 100 for the greatest. Between elements, the
            nearest one counts.

    """
    rank = (percent * (rows * columns - 1) + 50) // 100
    lines = _sorted([_shifted(padded, 0, row, rows) for row in range(rows)])
    shifted = [[_shifted(line, 1, column, columns) for column in range(columns)] for line in lines]
    table = [_sorted(places) for places in shifted]
    # Both rows and columns of the table are sorted now, so each element has a rectangle of others on each side of it.
    below, left = 0, []
    for row, line in enumerate(table):
        for column, element in enumerate(line):
            if (rows - row) * (columns - column) > rows * columns - rank:
                below += 1  # so many are not less that this one is left out from below
            elif (row + 1) * (column + 1) <= rank + 1:
                left.append(element)
    return _sorted(left)[rank - below]


def _shifted(padded: Tensor, axis: int, shift: int, length: int) -> Tensor:
    """Return a picture that begins further on along an axis, shorter by the reach of windows."""
    indices, sizes = indices_of(padded), list(dims_of(padded))
    sizes[axis] = sizes[axis] - (length - 1)
    moved = [index + shift if place == axis else index for place, index in enumerate(indices)]
    return aggregate(Aggregation.ASSIGN, padded[tuple(moved)], indices, sizes)


def _sorted(pictures: list[Tensor]) -> list[Tensor]:
    """Return pictures whose elements at each place are in ascending order."""
    result = list(pictures)
    for low, high in _network(len(result)):
        first, second = result[low], result[high]
        result[low], result[high] = call("min", first, second), call("max", first, second)
    return result


def _network(count: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs that Batcher's odd-even merge sort compares and exchanges."""
    merged = 1
    while merged < count:
        distance = merged
        while distance >= 1:
            for start in range(distance % merged, count - distance, 2 * distance):
                for low in range(start, min(start + distance, count - distance)):
                    if low // (2 * merged) == (low + distance) // (2 * merged):
                        yield low, low + distance
            distance //= 2
        merged *= 2


@attrs.frozen
class DerivedInput:
    """An input of a body that is computed from parameters, such as a radius from a standard deviation.

    Attributes:
        name: The input.
        expression: Python's arithmetic over the names of parameters, as templates of targets have it.

    """

    name: str
    expression: str

    @cached_property
    def tree(self) -> ast.expr:
        """The expression, taken apart; an ExpressionError where it is none."""
        return parse(self.expression)


@attrs.frozen(slots=False)
class Function:
    """A function that a step can apply.

    Attributes:
        name: Its name in formulas.
        body: Tile. Its inputs are pictures, then parameters by their names with a capital, and derived values. It may
            call the words of :mod:`tileir_formula.definitions.functions`, and helpers.
        parameters: In the order of their controls.
        derived: Further arguments of the body.
        boundary: Default boundary of windows.
        about: Description in a sentence.
        source: The publication of the method.
        helpers: Functions that the body may call, with all their inputs in order: those above it in its file.
    """

    name: str
    body: tile.Function
    parameters: tuple[Parameter, ...] = ()
    derived: tuple[DerivedInput, ...] = ()
    boundary: Boundary = Boundary.MIRROR
    about: str = ""
    source: str = ""
    helpers: tuple[Function, ...] = attrs.field(default=(), repr=False)

    @cached_property
    def pictures(self) -> tuple[str, ...]:
        """The inputs that are pictures: one, or two of a function that merges."""
        others = {input_name(each.name) for each in self.parameters} | {each.name for each in self.derived}
        return tuple(each.name for each in self.body.inputs if each.name not in others)

    @cached_property
    def words(self) -> Mapping[str, Word]:
        """Words that the body may call besides the functions of Tile."""
        return {**{helper.name: helper.as_word for helper in self.helpers}, **WORDS}

    def calls(self) -> Iterator[tuple[Word, tile.Call]]:
        """Yield the words that statements of the body call, and the calls."""
        for statement in self.body.statements:
            if (call := self.word_call(statement)) is not None:
                yield self.words[call.function], call

    def word_call(self, statement: tile.Statement) -> tile.Call | None:
        """Return the call of a word that a statement of the body is."""
        value = statement.value if isinstance(statement, tile.Assignment) else None
        return value if isinstance(value, tile.Call) and value.function in self.words else None

    @cached_property
    def has_window(self) -> bool:
        """True if it looks beyond the edges of a picture, so that a boundary means something."""
        return any(word.has_boundary for word, _ in self.calls())

    @cached_property
    def is_pointwise(self) -> bool:
        """True if it reads no element but that at the place of its result, so that it may overwrite it."""
        return all(word.is_pointwise for word, _ in self.calls()) and all(
            self.word_call(statement) is not None
            or (isinstance(statement, tile.Assignment) and _is_elementwise(statement.value))
            for statement in self.body.statements
        )

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The parameters and derived values that choose which statements there are, so that these are made anew."""
        chosen = {each.name for each in self.parameters if isinstance(each, ChoiceParameter | FlagParameter)}
        literals = [call.arguments[place] for word, call in self.calls() for place in word.literal]
        names = {node.name for literal in literals for node in walk(literal) if isinstance(node, tile.Name)}
        return frozenset(chosen | {parameter_name(self, name) for name in names})

    @cached_property
    def as_word(self) -> Word:
        """The function as other bodies call it."""
        inputs = self.body.inputs
        form = f"{self.name}({', '.join(each.name for each in inputs)})"
        return Word(
            form,
            self.about,
            self.applied,
            frozenset(place for place, each in enumerate(inputs) if each.dims),
            len(inputs),
            len(inputs),
            frozenset(place for place, each in enumerate(inputs) if parameter_name(self, each.name) in self.fixed),
            self.has_window,
            self.is_pointwise,
        )

    def applied(self, operands: Sequence[Tensor | Dim | float], boundary: Boundary) -> Tensor:
        """Return its results for operands of all inputs, in a function under construction.

        Raises:
            TileError: The operands do not fit the body.
        """

        def made(word: Word, operands: Sequence[Tensor | Dim]) -> Tensor:
            return word.make(operands, boundary)

        expansions = {name: Expansion(word.tensors, partial(made, word)) for name, word in self.words.items()}
        return inline(self.body, *operands, expansions=expansions)[0]

    def parameter(self, name: str) -> Parameter | None:
        """Return a parameter by its name."""
        return next((each for each in self.parameters if each.name == name), None)

    def values(self, arguments: tuple[Argument, ...]) -> dict[str, Value]:
        """Return the value of each parameter, by its name."""
        given = {argument.name: argument.value for argument in arguments}
        return {each.name: given.get(each.name, each.default) for each in self.parameters}

    def operands(self, arguments: tuple[Argument, ...]) -> dict[str, Operand]:
        """Return the body's arguments other than pictures, by the names of parameters and derived values."""
        values = self.values(arguments)
        operands = {each.name: each.operand(values[each.name]) for each in self.parameters}
        scalars = {name: number for name, number in operands.items() if isinstance(number, int | float)}
        for each in self.derived:
            value = evaluate(each.tree, scalars, Budget())
            assert isinstance(value, int | float)  # the description was checked at both ends of the bounds
            operands[each.name] = value
        return operands

    def faults(self, arguments: tuple[Argument, ...]) -> list[Diagnostic]:
        """Return the faults in the arguments of a call."""
        found = []
        seen: set[str] = set()
        for argument in arguments:
            parameter = self.parameter(argument.name)
            if parameter is None:
                names = [each.name for each in self.parameters]
                listed = f"it has {', '.join(names)}" if names else "it has none"
                message = f"{self.name} has no parameter {argument.name!r}{nearest(argument.name, names)}; {listed}"
                found.append(Diagnostic("TIL206", message, argument.span))
            elif argument.name in seen:
                found.append(Diagnostic("TIL202", f"{argument.name!r} is given twice", argument.span))
            elif (fault := fault_of_value(argument.value) or parameter.fault(argument.value)) is not None:
                found.append(Diagnostic("TIL224", f"{argument.name} {fault}", argument.value.span))
            seen.add(argument.name)
        return found


def parameter_name(function: Function, name: str) -> str:
    """Return the parameter, or the derived value, that an input of the body is."""
    return next((each.name for each in function.parameters if input_name(each.name) == name), name)


def input_name(parameter: str) -> str:
    """Return the spelling of a parameter in a Tile body: with a capital."""
    return parameter[:1].upper() + parameter[1:]


def _is_elementwise(value: tile.Expr) -> bool:
    """Return whether an element of a value depends on elements at its place only; coordinates depend on none."""
    names = [node.function for node in walk(value) if isinstance(node, tile.Call)]
    return all(name == "index" or ((found := builtin(name)) is not None and found.elementwise) for name in names)


Make = Callable[[Sequence[Tensor | Dim], Boundary], Tensor]

LONGEST_RANKED: Final = 9
"""Rows and columns of windows within which elements are ranked: networks grow faster than windows."""


@attrs.frozen
class Word:
    """A word.

    Attributes:
        form: Its syntax.
        about: Description in a sentence.
        make: Computes it from its operands and the boundary of the step.
        tensors: The operands, counted from 0, that are tensors, with their names; the others are sizes and numbers.
        least: Smallest number of operands.
        most: Largest number of operands.
        literal: Operands that choose statements, so that they are written into the function.
        has_boundary: Whether it depends on the boundary.
        is_pointwise: Whether each element of its result depends only on elements at its own position.
    """

    form: str
    about: str
    make: Make
    tensors: frozenset[int]
    least: int
    most: int
    literal: frozenset[int] = frozenset()
    has_boundary: bool = True
    is_pointwise: bool = False


def _border(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    return bordered(_tensor(operands[0]), [_size(each) for each in operands[1:]], boundary)


def _ranked(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    rows, columns, percent = (_literal(operand) for operand in operands[1:])
    for length in (rows, columns):
        if length % 2 == 0 or not 1 <= length <= LONGEST_RANKED:
            raise mistaken(f"windows are ranked with 1 to {LONGEST_RANKED} rows and columns, odd; not {length}")
    if not 0 <= percent <= 100:
        raise mistaken(f"a rank is from 0 to 100 percent; not {percent}")
    picture = _tensor(operands[0])
    widths = [dim_like(picture, length // 2) for length in (rows, columns)]
    return ranked(bordered(picture, widths, boundary), rows, columns, percent)


def _pick(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    axis = _literal(operands[2])
    if axis not in (0, 1):
        raise mistaken(f"pick looks along axis 0, of rows, or 1, of columns; not {axis}")
    return picked(_tensor(operands[0]), _tensor(operands[1]), axis, boundary)


def _sample(operands: Sequence[Tensor | Dim], boundary: Boundary) -> Tensor:
    picture, rows, columns = map(_tensor, operands)
    return sampled(picture, rows, columns, boundary)


def _channel(operands: Sequence[Tensor | Dim], _boundary: Boundary) -> Tensor:
    return channel(_tensor(operands[0]), _size(operands[1]))


def _coloured(operands: Sequence[Tensor | Dim], _boundary: Boundary) -> Tensor:
    return coloured(_tensor(operands[0]), [_tensor(each) for each in operands[1:4]], _size(operands[4]))


def _tensor(operand: Tensor | Dim) -> Tensor:
    assert isinstance(operand, Tensor)  # as the word says
    return operand


def _size(operand: Tensor | Dim) -> Dim:
    assert isinstance(operand, Dim)  # as the word says
    return operand


def _literal(operand: Tensor | Dim) -> int:
    value = _size(operand).value
    if value is None:
        raise mistaken("this size chooses which statements there are, so it is a number, or a parameter by its name")
    return value


_FIRST: Final = frozenset({0})

WORDS: Final[Mapping[str, Word]] = MappingProxyType(
    {
        "border": Word(
            "border(Picture, rows, columns)",
            "the picture with so much of what lies outside on each side of its first axes",
            _border,
            _FIRST,
            2,
            9,
        ),
        "ranked": Word(
            "ranked(Picture, rows, columns, percent)",
            "of the window around each pixel, which has so many rows and columns, the element of a rank: 0 for the "
            "least, 100 for the greatest",
            _ranked,
            _FIRST,
            4,
            4,
            literal=frozenset({1, 2, 3}),
        ),
        "pick": Word(
            "pick(Picture, Positions, axis)",
            "the rows (axis 0) or columns (axis 1) of a picture that are at whole positions, a vector",
            _pick,
            frozenset({0, 1}),
            3,
            3,
            literal=frozenset({2}),
        ),
        "sample": Word(
            "sample(Picture, Rows, Columns)",
            "the picture between its pixels, at points whose places are two matrices, interpolated linearly",
            _sample,
            frozenset({0, 1, 2}),
            3,
            3,
        ),
        "channel": Word(
            "channel(Picture, number)",
            "one channel, the last one where there are not so many, on an axis of 1",
            _channel,
            _FIRST,
            2,
            2,
            has_boundary=False,
        ),
        "coloured": Word(
            "coloured(Picture, First, Second, Third, least)",
            "a picture whose first three channels are others; it has as many as the picture, but at least so many",
            _coloured,
            frozenset({0, 1, 2, 3}),
            5,
            5,
            has_boundary=False,
        ),
    }
)
"""Those of every body, by the names by which they are called."""
