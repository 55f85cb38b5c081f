"""Pictures that are turned, cropped, padded, joined, cut and gathered around windows and products, in pipelines.

Passes that choose layouts, write through copies or join kernels judge the copies around contractions by their shapes;
so what is copied here is often a part, or has axes of sizes that fit by chance. What the pipeline of a target makes is
interpreted on exact numbers, now and then after each of its steps, and devices are compared with wider floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Final

import numpy as np

from fuzz.area import Area, Array, Case, Refused, array_of, array_spec
from fuzz.devices import INTERPRETER, results_by_device, turn_of
from tileir.core import DType, Target, TileError, attrs, dtype_of
from tileir.core.targets.target_names import names_of_targets
from tileir.driver.jit import evaluate
from tileir.driver.targets import choice_of
from tileir.passes.base import run
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Function, TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_testing.checking.check import Check, check_function
from tileir_testing.generated.choices import Choices

DTYPES: Final = (DType.F32, DType.F32, DType.F32, DType.I32, DType.F16, DType.BF16, DType.F64, DType.I8)
_MOST_POINTS: Final = 20_000
"""Of all kernels of a program: interpreters go point by point."""

_FEW_POINTS: Final = 4000
"""Of programs each step of which may be interpreted."""

_MOST_ELEMENTS: Final = 2500
_MOST_WEIGHTS: Final = 600
_ATTEMPTS: Final = 6

STEP_BY_STEP: Final = 16
"""Of one of so many cases what each step of a pipeline makes is interpreted, which takes ten times as long."""

_ERRORS: Final = 32
"""Times what the interpreter errs that devices may."""

Shape = tuple[int, ...]


@attrs.define
class _Draft:
    """Statements that are drawn one after the other; ``shapes`` has those of all values."""

    choices: Choices
    dtype: DType
    constants: bool = False
    shapes: dict[str, Shape] = attrs.field(factory=dict)
    inputs: dict[str, Case] = attrs.field(factory=dict)
    lines: list[str] = attrs.field(factory=list)
    made: list[str] = attrs.field(factory=list)

    def chance(self, percent: int) -> bool:
        return self.choices.integer(1, 100) <= percent

    def pick(self, fits: Callable[[Shape], bool] = lambda _: True) -> str:
        """Choose a value, mostly one of the last two."""
        names = [name for name, shape in self.shapes.items() if fits(shape)]
        return self.choices.pick(names[-2:] if self.chance(70) else names)

    def input(self, shape: Shape, dtype: DType | None = None, values: str = "small") -> str:
        name = f"W{len(self.inputs) + len(self.lines)}"
        if self.constants and dtype is None and prod(shape) <= _MOST_WEIGHTS:
            values = ", ".join(str(self.choices.integer(-2, 2)) for _ in range(prod(shape)))
            self.lines.append(f"constant {name} = {self.dtype.value}[{_sizes(shape)}]({values});")
            return name
        self.inputs[name] = array_spec(self.choices, dtype or self.dtype, shape, values)
        return name

    def operand(self, shape: Shape) -> str:
        """Choose a value of a shape, or add an input."""
        names = [name for name, other in self.shapes.items() if other == shape]
        return self.choices.pick(names) if names and self.chance(60) else self.input(shape)

    def order(self, count: int) -> list[int]:
        left = list(range(count))
        return [left.pop(self.choices.integer(0, len(left) - 1)) for _ in range(count)]

    def add(self, line: str, shape: Shape) -> str:
        """Add a statement, whose result's name the line begins with as ``$``."""
        name = f"T{len(self.made)}"
        if prod(shape) > _MOST_ELEMENTS or not prod(shape):
            raise Refused("too large")
        self.lines.append(line.replace("$", name, 1))
        self.made.append(name)
        self.shapes[name] = shape
        return name

    def step(self) -> None:
        """Add one step; some are not possible, and then nothing is added."""
        maker = self.choices.pick(_LAYERS if self.constants else _STEPS)
        before = dict(self.shapes), dict(self.inputs), list(self.lines), list(self.made)
        try:
            maker(self)
        except (Refused, IndexError):
            self.shapes, self.inputs, self.lines, self.made = before

    def turned(self) -> None:
        name = self.pick(lambda shape: len(shape) > 1)
        shape = self.shapes[name]
        order = self.order(len(shape))
        self.add(
            f"${_at(order, [shape[axis] for axis in order])} = =({name}[{_indices(shape)}]);",
            tuple(shape[axis] for axis in order),
        )

    def cropped(self) -> None:
        name = self.pick(lambda shape: len(shape) > 0)
        shape, places, sizes = self.shapes[name], [], []
        order = self.order(len(shape)) if self.chance(30) else list(range(len(shape)))
        for axis, size in enumerate(shape):
            left = self.choices.integer(1, size)
            place, size = self.choices.pick(
                (
                    (f"i{axis}", size),
                    (f"i{axis}", size),
                    (f"i{axis}", left),
                    (f"i{axis} + {size - left}", left),
                    (f"2*i{axis}", (size + 1) // 2),
                    (f"{size - 1} - i{axis}", size),
                    (f"i{axis} / 2", size),
                    (f"{left - 1} - i{axis}", left),
                )
            )
            places.append(place)
            sizes.append(size)
        sizes = [sizes[axis] for axis in order]
        self.add(f"${_at(order, sizes)} = =({name}[{', '.join(places)}]);", tuple(sizes))

    def padded(self) -> None:
        name = self.pick(lambda shape: len(shape) > 0)
        shape, places, sizes = self.shapes[name], [], []
        for axis, size in enumerate(shape):
            low, high = (self.choices.pick((0, 0, 0, 1, 2)) for _ in range(2))
            spread = self.choices.pick((1, 1, 1, 2))
            places.append(f"{spread}*i{axis} + {low}")
            sizes.append((size - 1) * spread + 1 + low + high)
        order = self.order(len(shape)) if self.chance(30) else list(range(len(shape)))
        result = tuple(sizes[axis] for axis in order)
        default = f" default {self.operand(result)}" if self.chance(30) else ""
        text = ", ".join(places[axis] for axis in order)
        self.add(f"$[{text} : {_sizes(result)}] = =({name}[{_indices(shape)}]){default};", result)

    def joined(self) -> None:
        """Join two values along an axis, the second below, or above, what is copied first."""
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        axis = self.choices.integer(0, len(shape) - 1)
        rest = shape[:axis], shape[axis + 1 :]
        others = [n for n, s in self.shapes.items() if len(s) == len(shape) and (s[:axis], s[axis + 1 :]) == rest]
        other = self.choices.pick(others) if self.chance(70) else self.input(shape)
        sizes = (*rest[0], shape[axis] + self.shapes.get(other, shape)[axis], *rest[1])
        begin = self.add(f"${_at(range(len(shape)), sizes)} = =({name}[{_indices(shape)}]);", sizes)
        places = [f"i{a} + {shape[axis]}" if a == axis else f"i{a}" for a in range(len(shape))]
        del self.shapes[begin]
        self.add(f"$[{', '.join(places)} : {_sizes(sizes)}] = =({other}[{_indices(shape)}]) default {begin};", sizes)

    def written(self) -> None:
        """Write a part of one value over another."""
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        over = self.pick(lambda other: len(other) == len(shape))
        places = [
            f"i{axis} + {self.choices.integer(0, size)}" if self.chance(50) else f"i{axis}"
            for axis, size in enumerate(self.shapes[over])
        ]
        how = self.choices.pick(("=", "=", "+"))
        self.add(
            f"$[{', '.join(places)} : {_sizes(self.shapes[over])}] = {how}({name}[{_indices(shape)}]) default {over};",
            self.shapes[over],
        )

    def window(self) -> None:
        """Slide a window over one axis or two, forward or as gradients by data do."""
        name = self.pick(lambda shape: len(shape) > 1)
        shape = list(self.shapes[name])
        axes = self.order(len(shape))
        slid = sorted(axes[: self.choices.integer(1, min(2, len(shape) - 1))])
        channel = next(axis for axis in axes if axis not in slid)
        back = self.chance(30)
        one, other = [f"i{axis}" for axis in range(len(shape))], [f"i{axis}" for axis in range(len(shape))]
        widths: dict[str, int] = {}
        sizes = list(shape)
        for axis in slid:
            width, step, apart = (
                self.choices.integer(1, 3),
                self.choices.pick((1, 1, 1, 2)),
                self.choices.pick((1, 1, 2)),
            )
            padding = self.choices.integer(0, width)
            reach = apart * (width - 1) + 1
            widths[f"k{axis}"] = width
            if back:
                sizes[axis] = (shape[axis] - 1) * step + reach - 2 * padding + self.choices.pick((0, 0, 1))
                other[axis] = f"{step}*i{axis} + {apart}*k{axis} - {padding}"
            else:
                sizes[axis] = (shape[axis] + 2 * padding - reach) // step + 1
                one[axis] = f"{step}*i{axis} + {apart}*k{axis} - {padding}"
            if sizes[axis] < 1 or sizes[axis] > 20:
                raise Refused("no result")
        kind = self.choices.pick(("pool", "depthwise", "mixing", "mixing", "grouped", "constant", "plain"))
        factor, limits, how = "", "", "+"
        if kind == "pool":
            limits = "".join(f", {index} < {width}" for index, width in widths.items())
            how = self.choices.pick("+><")
        elif kind == "constant":
            values = ", ".join(str(self.choices.integer(-2, 2)) for _ in range(prod(widths.values())))
            number = len(self.lines)
            self.lines.append(f"constant C{number} = {self.dtype.value}[{_sizes([*widths.values()])}]({values});")
            factor = f" * C{number}[{', '.join(widths)}]"
        else:
            factor = self.weights(kind, channel, widths, sizes, one, other)
        order = self.order(len(shape)) if self.chance(25) else range(len(shape))
        result = tuple(sizes[axis] for axis in order)
        self.add(
            f"$[{', '.join(other[axis] for axis in order)} : {_sizes(result)}] = {how}"
            f"({name}[{', '.join(one)}]{factor}){limits};",
            result,
        )

    def weights(
        self, kind: str, channel: int, widths: dict[str, int], sizes: list[int], one: list[str], other: list[str]
    ) -> str:
        """Return the factor of weights of a window; what it makes of the channels is put into the last three."""
        ranges = dict(widths)
        count = sizes[channel]
        if kind == "depthwise":
            ranges[f"i{channel}"] = count
        elif kind != "plain":
            groups = 1 if kind == "mixing" else self.choices.pick([n for n in (1, 2, 3, 4) if count % n == 0])
            results = self.choices.pick((1, 2, 3, 4, 8, 16))
            ranges |= {"c": count // groups, "d": results} | ({"g": groups} if kind == "grouped" else {})
            one[channel], other[channel] = "c", "d"
            if kind == "grouped":
                one[channel], other[channel] = f"{count // groups}*g + c", f"{results}*g + d"
            sizes[channel] = results * groups
        names = [[*ranges][place] for place in self.order(len(ranges))]
        return f" * {self.operand(tuple(ranges[n] for n in names))}[{', '.join(names)}]"

    def by_weights(self) -> None:
        """Sum products of two values over all places, for each step of a window: the gradient by its weights."""
        name = self.pick(lambda shape: len(shape) > 2)
        shape = self.shapes[name]
        other = self.operand(shape)
        slid = self.order(len(shape))[: self.choices.integer(1, 2)]
        places = [
            f"i{axis} + k{axis} - {self.choices.integer(0, 2)}" if axis in slid else f"i{axis}"
            for axis in range(len(shape))
        ]
        kept = [axis for axis in range(len(shape)) if axis not in slid and self.chance(60)]
        names = [*(f"k{axis}" for axis in slid), *(f"i{axis}" for axis in kept)]
        sizes = [*(self.choices.integer(1, 3) for _ in slid), *(shape[axis] for axis in kept)]
        if self.chance(40) and kept:
            names[-1], places[kept[-1]] = "d", places[kept[-1]].replace(f"i{kept[-1]}", "d")
        order = self.order(len(names))
        self.add(
            f"$[{', '.join(names[o] for o in order)} : {_sizes([sizes[o] for o in order])}] = "
            f"+({name}[{', '.join(places)}] * {other}[{_indices(shape)}]);",
            tuple(sizes[o] for o in order),
        )

    def product(self) -> None:
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        axis, columns = self.choices.integer(0, len(shape) - 1), self.choices.pick((1, 2, 3, 4, 5, 8, 16))
        shared = [a for a in range(len(shape)) if a != axis and self.chance(15)]
        ranges = {"d": columns, f"i{axis}": shape[axis], **{f"i{a}": shape[a] for a in shared}}
        names = [[*ranges][place] for place in self.order(len(ranges))]
        other = self.operand(tuple(ranges[n] for n in names))
        places = ["d" if a == axis else f"i{a}" for a in range(len(shape))]
        sizes = [columns if a == axis else size for a, size in enumerate(shape)]
        order = self.order(len(shape)) if self.chance(30) else range(len(shape))
        result = tuple(sizes[a] for a in order)
        self.add(
            f"$[{', '.join(places[a] for a in order)} : {_sizes(result)}] = "
            f"+({name}[{_indices(shape)}] * {other}[{', '.join(names)}]);",
            result,
        )

    def mapped(self) -> None:
        name = self.pick()
        shape = self.shapes[name]
        beside = tuple(1 if self.chance(40) else size for size in shape)
        if self.chance(30):
            beside = beside[self.choices.integer(0, len(shape)) :]
        form = self.choices.pick((
            "$ = {a} + 1;", "$ = {a} * 2;", "$ = max({a}, 0);", "$ = {a} + {b};", "$ = {a} * {b};", "$ = {a} - {b};",
            "$ = {b} > 0 ? {a} : 0;", "$ = relu({a} + {b});", "$ = {a} * {a};",
            "$ = index({a}, {x}) < {n} ? {a} : {b};", "$ = {a} * index({a}, {x});",
        ))  # fmt: skip
        if "{x}" in form and not shape:
            raise Refused("no axis")
        other = self.operand(beside) if "{b}" in form else ""
        axis = self.choices.integer(0, max(0, len(shape) - 1))
        self.add(form.format(a=name, b=other, x=axis, n=self.choices.integer(1, 4)), shape)

    def mixed(self) -> None:
        name = self.pick()
        others = [n for n, s in self.shapes.items() if s == self.shapes[name]]
        self.add(f"$ = {name} {self.choices.pick('+-*')} {self.choices.pick(others)};", self.shapes[name])

    def reshaped(self) -> None:
        name = self.pick()
        shape = list(self.shapes[name])
        axis = self.choices.integer(0, len(shape) - 1) if shape else 0
        if self.chance(50) and axis + 1 < len(shape):
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif shape and len(shape) < 5:
            part = self.choices.pick([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0])
            shape[axis : axis + 1] = [part, shape[axis] // part]
        else:
            shape = [prod(shape)]
        self.add(f"$ = reshape({name}, {_sizes(shape)});" if shape else f"$ = reshape({name});", tuple(shape))

    def gathered(self) -> None:
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        rows = self.choices.pick(((2,), (5,), (shape[0],), (2, 3), (1,)))
        places = self.input(rows, DType.I32, "corners")
        self.add(f"$ = gather({name}, {places});", (*rows, *shape[1:]))

    def scattered(self) -> None:
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        over = self.operand((self.choices.integer(1, 6), *shape[1:]))
        how = self.choices.pick(("scatter", "scatter", "scatter_max", "scatter_last"))
        rows = self.shapes.get(over) or tuple(self.inputs[over]["shape"])
        self.add(f"$ = {how}({name}, {self.input(shape[:1], DType.I32, 'corners')}, {over});", rows)

    def reduced(self) -> None:
        """Aggregate some axes, which stay as size 1, and mostly meet the value again."""
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        kept = [self.chance(50) for _ in shape]
        places = [f"i{axis}" if keep else "0" for axis, keep in enumerate(kept)]
        sizes = tuple(size if keep else 1 for size, keep in zip(shape, kept, strict=True))
        how = self.choices.pick("++><")
        total = self.add(f"$[{', '.join(places)} : {_sizes(sizes)}] = {how}({name}[{_indices(shape)}]);", sizes)
        if self.chance(60):
            self.add(f"$ = {name} {self.choices.pick('+-*')} {total};", shape)

    def running(self) -> None:
        name = self.pick(lambda shape: len(shape) > 0)
        shape = self.shapes[name]
        axis = self.choices.integer(0, len(shape) - 1)
        places = ["k" if a == axis else f"i{a}" for a in range(len(shape))]
        self.add(
            f"${_at(range(len(shape)), shape)} = {self.choices.pick('++>')}({name}[{', '.join(places)}]), "
            f"i{axis} - k < {shape[axis]};",
            shape,
        )

    def ordered(self) -> None:
        name = self.pick(lambda shape: len(shape) == 1)
        self.add(f"$ = gather({self.operand(self.shapes[name])}, argsort({name}, 0));", self.shapes[name])


_STEPS: Final[tuple[Callable[[_Draft], None], ...]] = (
    *[_Draft.window] * 5, *[_Draft.turned] * 3, *[_Draft.cropped] * 3, *[_Draft.padded] * 2, *[_Draft.joined] * 2,
    *[_Draft.mapped] * 3, *[_Draft.product] * 2, _Draft.mixed, _Draft.written, _Draft.by_weights, _Draft.reshaped,
    _Draft.gathered, _Draft.scattered, _Draft.reduced, _Draft.reduced, _Draft.running, _Draft.ordered,
)  # fmt: skip

_LAYERS: Final = (
    *[_Draft.window] * 6, *[_Draft.product] * 3, *[_Draft.mapped] * 3, _Draft.turned, _Draft.turned, _Draft.cropped,
    _Draft.padded, _Draft.joined, _Draft.joined, _Draft.mixed, _Draft.reduced, _Draft.reshaped, _Draft.gathered,
)  # fmt: skip
"""Steps of networks whose weights are constants."""


def _at(order: Sequence[int], sizes: Sequence[int]) -> str:
    return f"[{', '.join(f'i{axis}' for axis in order)} : {_sizes(sizes)}]"


def _indices(shape: Sequence[int]) -> str:
    return ", ".join(f"i{axis}" for axis in range(len(shape)))


def _sizes(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))


def make(choices: Choices) -> Case:
    """Make two to eight steps from a picture or two; the last value is a result, others may be."""
    draft = _Draft(choices, choices.pick(DTYPES), choices.integer(0, 2) == 0)
    large = choices.pick((4, 9, 9, 17))
    shape = (choices.pick((1, 1, 2)), *(choices.integer(1, large) for _ in range(choices.pick((1, 2, 3, 3, 3)))))
    for name in ("X", "Y")[: choices.integer(1, 2)]:
        draft.inputs[name] = array_spec(choices, draft.dtype, shape, "small")
        draft.shapes[name] = shape
    wanted = choices.integer(2, 8)
    for _ in range(_ATTEMPTS * wanted):
        if len(draft.made) < wanted:
            draft.step()
    outputs = [name for name in draft.made[:-1] if choices.integer(0, 5) == 5] + draft.made[-1:]
    wrt = [name for name in draft.inputs if f"{name}[" in " ".join(draft.lines) and choices.integer(0, 1)]
    if draft.dtype.is_float and draft.made and choices.integer(0, 2) == 0:
        seed = draft.operand(draft.shapes[draft.made[-1]])
        for number, name in enumerate(n for n in wrt if draft.inputs[n]["dtype"] == draft.dtype.value):
            draft.lines.append(f"D{number} = vjp({draft.made[-1]}, {seed}, {name});")
            outputs = [*(outputs if choices.integer(0, 1) else outputs[:-1]), f"D{number}"]
    return {"inputs": draft.inputs, "lines": draft.lines, "outputs": list(dict.fromkeys(outputs))}


def text_of(case: Case) -> str:
    """Return the Tile text of a case, with inputs that take part."""
    body = " ".join(case["lines"])
    inputs = ", ".join(f"{n}[{_sizes(spec['shape'])}]" for n, spec in used(case).items())
    return f"function ({inputs}) -> ({', '.join(case['outputs'])}) {{ {body} }}"


def used(case: Case) -> dict[str, Case]:
    """Return the inputs that statements read."""
    words = set("".join(c if c.isalnum() else " " for line in case["lines"] for c in line + " ").split())
    return {name: spec for name, spec in case["inputs"].items() if name in words}


def typed(case: Case) -> Function:
    """Return the typed function of a case."""
    types = {n: TensorType(DType(spec["dtype"]), tuple(spec["shape"])) for n, spec in used(case).items()}
    return prepared(infer(parse(text_of(case)), types))


@cache
def _facts(name: str) -> Target:
    choice = choice_of(name)
    return choice.applied(Target())  # type: ignore[union-attr]


def check(case: Case) -> int:
    """Interpret what the pipeline of the target whose turn it is makes, and compare the devices whose turn it is."""
    if not case["outputs"]:
        raise Refused("nothing was drawn")
    try:
        function = typed(case)
    except TileError as error:
        raise Refused(error.diagnostics[0].code) from None
    program = lower(function)
    points = sum(prod(index.range for index in kernel.indices) for kernel in program.main.blocks)
    if points > _MOST_POINTS:
        raise Refused("too large")
    names = names_of_targets()
    number, turn = divmod(turn_of(case), len(names))
    facts = _facts(names[turn])
    if (number % STEP_BY_STEP == 0 and points <= _FEW_POINTS) or not _means_the_same(function, program, facts):
        found = check_function(function, pipeline_for(facts), facts)
        if found is not None:
            raise AssertionError(f"{names[turn]}: {found}\n{text_of(case)}")
    return 1 + _compare_devices(case)


def _means_the_same(function: Function, program: Program, facts: Target) -> bool:
    """Return whether kernels compute what a function does; False where they cannot be made."""
    try:
        made = run(pipeline_for(facts), program)
    except Exception:  # a wrong pass may fail in any way, which a check of each step puts into words
        return False
    return Check.of(function).through(made, (), facts) is None


def _compare_devices(case: Case) -> int:
    """Compare devices with the interpreter; where it rounds, with what it makes of f64."""
    text, arrays = text_of(case), {name: array_of(spec) for name, spec in used(case).items()}
    results = results_by_device(text, arrays, case)
    own = results.pop(INTERPRETER)
    for dtype in (dtype for dtype in DTYPES if dtype.is_float):
        text = text.replace(f"= {dtype.value}[", f"= {DType.F64.value}[")
    several = evaluate(text, {name: _wider(value) for name, value in arrays.items()})
    exact = dict(zip(own, map(np.asarray, several if isinstance(several, tuple) else (several,)), strict=True))
    for device, values in results.items():
        for name, right in exact.items():
            error, limit = _error(values[name], right), _ERRORS * (_error(own[name], right) + _last_bit(own[name]))
            if error > limit or values[name].dtype != own[name].dtype or values[name].shape != own[name].shape:
                raise AssertionError(f"{device}: {name} of {own[name].dtype} errs by {error:.3g}\n{text_of(case)}")
    return len(results)


def _wider(array: Array) -> Array:
    return array.astype(np.float64) if dtype_of(array).is_float else array


def _error(found: Array, right: Array) -> float:
    """Return how far an element is from what is right at most; infinite where one is no number."""
    error = np.abs(found.astype(np.float64) - right.astype(np.float64)).max(initial=0)
    return float(error) if np.isfinite(error) else np.inf


def _last_bit(array: Array) -> float:
    """Return the last bit of the largest element of floats; 0 for integers."""
    dtype = dtype_of(array)
    return float(np.abs(array.astype(np.float64)).max(initial=1)) * dtype.format.epsilon if dtype.is_float else 0


AREA: Final = Area("layouts", make, check)
