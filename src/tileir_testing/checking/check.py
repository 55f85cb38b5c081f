"""Checks of passes: a program before and after every pass, and at every stage behind them, run on exact numbers.

Of Tile functions the smallest shapes are told that show what is wrong.

The smallest shapes for which something is so.

What a check of passes found: the step, the kernel and the element, for the smallest shapes that show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from tileir.core import Aggregation, DType, Op, Target, TileError, attrs
from tileir.core.numbers import arithmetic
from tileir.core.numbers.arithmetic import Number
from tileir.core.numbers.number_system import NumberSystem
from tileir.driver.calls.arguments import tensor_types
from tileir.driver.compiler import passes_of
from tileir.driver.programs import Source, described, function_of, refuse_semtree, types_of
from tileir.driver.targets import Named, choice_of, scheduling_target
from tileir.passes.base import Pass, label_of, run
from tileir.runtime import Context, DeviceInfo, owner_of
from tileir.semtree import ir as sem
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import Checks
from tileir.semtree.lower.lowering import lower as lower_to_semtree
from tileir.semtree.simplify.simplifier import simplify
from tileir.semtree.transform.in_place import reuse_in_place, share_kernels
from tileir.stripe import Program, launches, loops, uses_of
from tileir.stripe.interpret.interpreter import contents_after, interpret as interpret_stripe
from tileir.stripe.lower.lowering import lower as lower_to_stripe, spelled
from tileir.tile.ir import Function, IntLiteral
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret as interpret_typed
from tileir.typed.ir import Function as TypedFunction, TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_testing.checking import fields

Array: TypeAlias = np.ndarray[Any, Any]

Results: TypeAlias = "Mapping[str, Array]"

_RACES = Checks(races=True)
"""Reads of undefined memory show where they matter; some kernels compute what nobody uses."""

_SHUFFLED = 7
"""Seed of an order of points unlike the usual one."""


def check_passes(
    source: Source,
    arguments: Any = (),
    passes: tuple[Pass, ...] | str | None = None,
    *,
    device: str | DeviceInfo | None = None,
    context: Context | None = None,
    target: Named | None = None,
    seeds: int = 1,
) -> Finding | None:
    """Return the first pass, or stage behind the passes, that changes what a function computes; None for none.

    The function is run before and after each of them by interpreters, on random elements of finite fields in place of
    floats: sums are exact there in any order, so results that differ at all are wrong, and nothing else is reported.
    Kernels are watched for races, and undefined memory shows in what is computed from it.

    Args:
        source: What to run, in the forms that :func:`tileir.compile` takes; no program of the semtree, which no pass
            sees. Programs of Stripe keep their shapes.
        arguments: What describes the inputs, as for :func:`tileir.compile`. Their values are not used.
        passes: The passes to check, or the text, JSON or name of a pipeline; by default those of the target.
        device: A device or its id, whose facts passes and lowering get; by default what the context chooses.
        context: Owner of devices; by default the process-wide one.
        target: What passes are computed for instead of the device; as for :func:`tileir.compile`.
        seeds: On so many sets of inputs.

    Raises:
        TileError: The function is wrong or does not fit the arguments, or the pipeline is none.
        ArgumentError: TIL712, it is a program of the semtree.
        BackendError: There is no such device.

    """
    program, arguments = described(source, arguments)
    refuse_semtree(program)
    choice = choice_of(target)
    facts = choice if isinstance(choice, Target) else owner_of(context).device(device).target
    chosen = scheduling_target(choice, facts, None)
    steps = passes_of(passes, chosen)
    if isinstance(program, Program):
        kinds = types_of(program, arguments)
        findings = (check_program(program, steps, chosen, seed=seed) for seed in range(seeds))
        finding = next((each for each in findings if each is not None), None)
        return None if finding is None else attrs.evolve(finding, types=kinds)
    function = function_of(program)
    return _smallest(function, dict(tensor_types(function, arguments)), steps, chosen, seeds)


def _smallest(
    function: Function, types: Mapping[str, TensorType], steps: tuple[Pass, ...], chosen: Target, seeds: int
) -> Finding | None:
    """Return what is wrong with a function, for the smallest shapes that a few trials find."""

    def found(types: Mapping[str, TensorType]) -> Finding | None:
        graph = prepared(infer(function, types))
        findings = (check_function(graph, steps, chosen, seed=seed) for seed in range(seeds))
        return next((finding for finding in findings if finding is not None), None)

    first = found(types)
    if first is None:
        return None

    def same(types: Mapping[str, TensorType]) -> bool:
        finding = found(types)
        return finding is not None and _kind(finding) == _kind(first)

    types = smallest(function, types, same)
    finding = found(types)
    return None if finding is None else attrs.evolve(finding, types=types)


def _kind(finding: Finding) -> tuple[str, int, bool]:
    """Return what two findings have in common where one stands for the other."""
    return finding.step, finding.number, finding.difference is None


def _simplified(program: sem.Program) -> sem.Program:
    return attrs.evolve(program, kernels=tuple(map(simplify, program.kernels)))


STAGES: Final[tuple[tuple[str, Callable[[sem.Program], sem.Program]], ...]] = (
    ("share", share_kernels),
    ("simplify", _simplified),
    ("reuse_in_place", reuse_in_place),
    ("share", share_kernels),
)
"""What is done to kernels after Stripe has been lowered to them."""


def check_function(
    function: TypedFunction, passes: Iterable[Pass], target: Target | None = None, *, seed: int = 0
) -> Finding | None:
    """Return the first step that changes what ``function`` means; None where there is none.

    Args:
        function: A function without marks of differentiation.
        passes: What to apply to the Stripe program, first to last.
        target: What to lower to kernels for in the end; None to stop after the passes.
        seed: Of the inputs.

    """
    check = Check.of(function, seed)
    program, finding = check.lowered(function)
    return finding if program is None or finding is not None else check.through(program, tuple(passes), target)


def check_program(
    program: Program, passes: Iterable[Pass], target: Target | None = None, *, seed: int = 0
) -> Finding | None:
    """Do as :func:`check_function` from a Stripe program on."""
    rng = np.random.default_rng(seed)
    shapes = {name: program.entry.refinement(name).shape for name in program.inputs}
    inputs = {name: EXACT.random(shape.dtype, shape.sizes, rng) for name, shape in shapes.items()}
    check = Check(inputs, interpret_stripe(program, inputs, numbers=EXACT))
    return check.through(program, tuple(passes), target)


@attrs.frozen
class Check:
    """Inputs, and the results that every step has to give."""

    inputs: Results
    expected: Results

    @classmethod
    def of(cls, function: TypedFunction, seed: int = 0) -> Check:
        """Run a function without marks of differentiation on random inputs; names are those of Stripe."""
        function = spelled(function)
        rng = np.random.default_rng(seed)
        inputs = {value.name: EXACT.random(value.dtype, value.shape, rng) for value in function.inputs}
        return cls(inputs, interpret_typed(function, inputs, numbers=EXACT))

    def lowered(self, function: TypedFunction) -> tuple[Program | None, Finding | None]:
        """Return the Stripe program of a function, and what is wrong with it."""
        return self._stripe("lower", 0, None, partial(lower_to_stripe, function))

    def through(self, program: Program, passes: tuple[Pass, ...], target: Target | None) -> Finding | None:
        """Take a program through all steps, down to kernels if there is a target."""
        for number, step in enumerate(passes, 1):
            after, finding = self._stripe(label_of(step), number, program, partial(run, (step,), program))
            if finding is not None or after is None:
                return finding
            program = after
        return None if target is None else self._kernels(program, target)

    def _stripe(
        self, name: str, number: int, before: Program | None, make: Callable[[], Program]
    ) -> tuple[Program | None, Finding | None]:
        """Run what one step makes, in the order of points that is usual and in another one."""
        try:
            after = make()
            if after is before:
                return after, None
            for seed in (None, _SHUFFLED):
                found = self._compared(interpret_stripe(after, self.inputs, seed=seed, numbers=EXACT))
                if found is not None:
                    kernel, inner = self._kernel(before, after, seed)
                    return after, Finding(name, number, kernel, inner or found, "")
        except Exception as error:  # a wrong pass may fail in any way
            return None, Finding(name, number, "", None, _sentence(error))
        return after, None

    def _kernel(self, before: Program | None, after: Program, seed: int | None) -> tuple[str, Difference | None]:
        """Return the first kernel that writes what another value was in before, and an element of that.

        Which kernel of a loop was the first to go wrong nobody knows.
        """
        if before is None:
            return "", None
        old = contents_after(before, self.inputs, numbers=EXACT)
        new = contents_after(after, self.inputs, seed=seed, numbers=EXACT)
        repeated = uses_of(after.kernels, loops(after.works)).written
        for launch in launches(after.works):
            for name in uses_of(after.kernels, (launch,)).written:
                both = name in old and name in new and old[name].shape == new[name].shape
                if name not in repeated and both and old[name].dtype == new[name].dtype:
                    found = _difference(name, old[name], new[name])
                    if found is not None and found.before != "undefined":
                        return launch.name, found
        return "", None

    def _kernels(self, program: Program, target: Target) -> Finding | None:
        """Run what the stages behind the passes make of a program."""
        made: sem.Program | None = None
        for name, stage in (("lower", None), *STAGES):
            try:
                before = made
                made = lower_to_semtree(program, target) if stage is None or before is None else stage(before)
                found = None
                if made is not before:
                    found = self._compared(run_program(made, self.inputs, _RACES, numbers=EXACT))
            except Exception as error:  # as above
                return Finding(f"semtree {name}", 0, "", None, _sentence(error))
            if found is not None:
                return Finding(f"semtree {name}", 0, "", found, "")
        return None

    def _compared(self, results: Results) -> Difference | None:
        differences = (_difference(name, value, results[name]) for name, value in self.expected.items())
        return next((found for found in differences if found is not None), None)


def _difference(name: str, before: Array, after: Array) -> Difference | None:
    """Return the first element that differs."""
    places = np.argwhere(differing(before, after))
    if len(places) == 0:
        return None
    element = tuple(map(int, places[0]))
    return Difference(name, element, shown(before[element].item()), shown(after[element].item()))


def _sentence(error: Exception) -> str:
    if isinstance(error, TileError):
        return "; ".join(f"{diagnostic.code} {diagnostic.message}" for diagnostic in error.diagnostics)
    return f"{type(error).__name__}: {error}"


Types = Mapping[str, TensorType]

_TRIALS = 200


def smallest(function: Function, types: Types, holds: Callable[[Types], bool]) -> Types:
    """Return types of the inputs with sizes as small as a few trials find, for which ``holds`` is still true.

    Axes of one name have one size; others are made smaller each for itself. A TileError of ``holds`` means that
    such shapes do not fit the function.
    """
    trials = 0
    changed = True
    while changed:
        changed = False
        for axes in _axes(function, types):
            name, axis = axes[0]
            size = types[name].shape[axis]
            for smaller in _below(size):
                trials += 1
                if trials > _TRIALS:
                    return types
                candidate = _with_size(types, axes, smaller)
                if _true(holds, candidate):
                    types, changed = candidate, True
                    break
    return types


def _true(holds: Callable[[Types], bool], types: Types) -> bool:
    try:
        return holds(types)
    except TileError:
        return False


def _below(size: int) -> Iterator[int]:
    """Yield smaller sizes, the smallest first."""
    yield from sorted({number for number in (1, 2, 3, size // 4, size // 2, size - 2, size - 1) if 0 < number < size})


def _axes(function: Function, types: Types) -> list[list[tuple[str, int]]]:
    """Return the axes of inputs, those together that have one name, without those whose sizes are declared."""
    found: dict[str, list[tuple[str, int]]] = {}
    for tensor in function.inputs:
        rank = len(types[tensor.name].shape)
        names = tensor.dims if tensor.dims is not None and len(tensor.dims) == rank else [None] * rank
        for axis, dim in enumerate(names):
            if not isinstance(dim, IntLiteral):
                name = f"{tensor.name} {axis}" if dim is None else dim.name
                found.setdefault(name, []).append((tensor.name, axis))
    return list(found.values())


def _with_size(types: Types, axes: list[tuple[str, int]], size: int) -> Types:
    result = dict(types)
    for name, axis in axes:
        shape = list(result[name].shape)
        shape[axis] = size
        result[name] = TensorType(result[name].dtype, tuple(shape))
    return result


@attrs.frozen
class Difference:
    """One element that a step changed.

    Attributes:
        output: The result of the program, or memory of it, that has the element.
        element: Its position.
        before: Its value before the step; floats that depend on arguments are residues modulo a prime.
        after: Its value after the step.

    """

    output: str
    element: tuple[int, ...]
    before: str
    after: str

    def __str__(self) -> str:
        place = f"{self.output}[{', '.join(map(str, self.element))}]"
        return f"{place} was {self.before} and is {self.after}"


@attrs.frozen
class Finding:
    """The first step after which a program means something else.

    Attributes:
        step: The name of the pass or of its step, or that of a stage of the compiler behind the passes.
        number: Which step of the pipeline that is, from 1; 0 for stages.
        kernel: The first kernel whose results differ; empty where that is not known.
        difference: An element that differs; None where the step, or the program that it made, failed.
        problem: What went wrong, as a sentence; empty where elements differ.
        types: The dtypes and shapes of the inputs for which that is so, as small as could be found.

    """

    step: str
    number: int
    kernel: str
    difference: Difference | None
    problem: str
    types: Mapping[str, TensorType] = attrs.field(factory=dict)

    def __str__(self) -> str:
        step = f"pass {self.number}, {self.step!r}," if self.number else f"stage {self.step!r}"
        lines = [f"{step} changes what the program computes"]
        if self.difference is None:
            lines = [f"{step} fails: {self.problem}"]
        else:
            lines.append(f"  element: {self.difference}")
        if self.kernel:
            lines.append(f"  kernel: {self.kernel}")
        if self.types:
            lines.append(f"  inputs: {', '.join(f'{name}={kind}' for name, kind in self.types.items())}")
        return "\n".join(lines)


UNKNOWN: Final = -1.5e308
"""The real part of a number that depends on arguments; that of a known one is its value. NaN is undefined memory."""

_ARITHMETIC: Final = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.FMA})
_LARGEST_EXPONENT: Final = 1024


class ExactNumbers(NumberSystem):
    """Floats as complex numbers: the known value, or :data:`UNKNOWN`, with packed residues."""

    def storage(self, dtype: DType) -> np.dtype[Any]:
        """Return complex128 for floats."""
        return np.dtype(np.complex128) if dtype.is_float else dtype.numpy

    def encoded(self, array: Array) -> Array:
        """Return known numbers."""
        dtype = arithmetic.dtype_of(array)
        return _known(array.astype(np.float64)) if dtype.is_float else array

    def constant(self, value: Number, dtype: DType) -> Array:
        """Return a known number."""
        return self.encoded(arithmetic.constant(value, dtype))

    def cast(self, array: Array, dtype: DType) -> Array:
        """Convert by value; floats that depend on arguments are equal in all float types."""
        if array.dtype != np.complex128:
            return self.encoded(arithmetic.cast(array, dtype))
        unknown = _is_unknown(array)
        with np.errstate(all="ignore"):
            values = np.where(unknown, 0.0, array.real)
            if dtype.is_float:
                rounded = arithmetic.cast(values, dtype).astype(np.float64)
                kept = unknown | (rounded == values)
                return array if kept.all() else np.where(kept, array, _known(rounded))
            if dtype.is_bool:
                return np.asarray(unknown | (array.real != 0))
            whole = arithmetic.cast(values, dtype)
            first, _ = fields.unpacked(fields.hashed("integer", array.imag))
            return np.where(unknown, (first % np.uint64(100)).astype(dtype.numpy), whole)

    def apply(self, op: Op, dtype: DType, *args: Array) -> Array:
        """Compute argument-dependent values in the finite fields, and known values as the compiler does."""
        if all(arg.dtype != np.complex128 for arg in args):
            return self.encoded(super().apply(op, dtype, *args))
        if op is Op.COND:
            return np.where(args[0], args[1], args[2])
        if op is Op.IDENT:
            return args[0]
        if op is Op.BITS:
            return _pattern(args[0], dtype)
        if all(arg.ndim == 0 for arg in args) and (single := _single(op, args)) is not None:
            return single
        args = tuple(np.broadcast_arrays(*args))
        with np.errstate(all="ignore"):
            if op.info.compares:
                return arithmetic.apply(op, *map(_ordered, args))
            if op in (Op.MAX, Op.MIN):
                return _extremum(op, *args)
            return _computed(op, dtype, args)

    def order(self, array: Array, axis: int, *, descending: bool) -> Array:
        """Return the places of the elements in sorted order."""
        plain = _ordered(array) if array.dtype == np.complex128 else array
        return super().order(plain, axis, descending=descending)

    def merge_at(self, aggregation: Aggregation, dtype: DType, out: Array, places: Array, values: Array) -> None:
        """Merge pairs of values that meet at one place until one of each is left: so few steps do."""
        op = aggregation.op
        if out.dtype != np.complex128 or op is None:
            super().merge_at(aggregation, dtype, out, places, values)
            return
        order = np.argsort(places, kind="stable")
        where, what = places[order], np.broadcast_to(values, (*places.shape, *out.shape[1:]))[order]
        while where.size and (same := where[1:] == where[:-1]).any():
            starts = np.flatnonzero(np.concatenate(([True], ~same)))
            rank = np.arange(where.size) - np.repeat(starts, np.diff(np.append(starts, where.size)))
            second = np.flatnonzero(rank % 2 == 1)
            what = what.copy()
            what[second - 1] = self.apply(op, dtype, what[second - 1], what[second])
            where, what = (np.delete(column, second, axis=0) for column in (where, what))
        out[where] = self.apply(op, dtype, out[where], what)

    def product(self, left: Array, right: Array, dtype: DType) -> Array:
        """Multiply matrices."""
        if not dtype.is_float:
            return super().product(left, right, dtype)
        total = np.zeros((left.shape[0], right.shape[1]), np.complex128)
        for step in range(left.shape[1]):
            total = self.apply(Op.FMA, dtype, left[:, step, None], right[None, step, :], total)
        return total

    def random(self, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Return random numbers: residues for floats, small integers, and bools."""
        if dtype.is_float:
            first, second = (rng.integers(2, modulus, shape).astype(np.uint64) for modulus in (fields.P, fields.Q))
            return _unknown(fields.packed(first, second))
        if dtype.is_bool:
            return rng.integers(0, 2, shape).astype(np.bool_)
        return rng.integers(0 if not dtype.is_signed else -4, 9, shape).astype(dtype.numpy)


EXACT: Final = ExactNumbers()


def differing(left: Array, right: Array) -> Array:
    """Return the positions where two results of one dtype differ; numbers without residues equal all but NaN."""
    if left.dtype != np.complex128:
        return np.asarray(left != right)
    undefined = np.isnan(left.real) != np.isnan(right.real)
    known = ~_is_unknown(left) & ~_is_unknown(right)
    with np.errstate(all="ignore"):
        near = np.isclose(left.real, right.real, rtol=1e-3, atol=1e-6, equal_nan=True)
        unequal = fields.unpacked(left.imag)[0] != fields.unpacked(right.imag)[0]
    infinite = np.isinf(left.real) | np.isinf(right.real)
    lost = (left.imag < 0) | (right.imag < 0)
    return np.asarray(undefined | np.where(known | infinite, ~near, unequal & ~lost & ~np.isnan(left.real)))


def shown(value: object) -> str:
    """Return a number as messages show it: a known one, or its residue modulo P."""
    if not isinstance(value, complex):
        return str(value)
    if value.real != UNKNOWN:
        return "undefined" if np.isnan(value.real) else f"{value.real:.9g}"
    return f"{int(fields.unpacked(np.asarray(value.imag))[0])} (mod {fields.P})"


def _pattern(array: Array, dtype: DType) -> Array:
    """Return a value in place of the bits of numbers: equal for equal numbers."""
    hashes = fields.hashed(Op.BITS.value, array.imag)
    return _unknown(hashes) if dtype.is_float else (fields.unpacked(hashes)[0] % np.uint64(100)).astype(dtype.numpy)


def _is_unknown(array: Array) -> Array:
    return np.asarray(array.real == UNKNOWN)


def _known(values: Array) -> Array:
    result = np.empty(values.shape, np.complex128)
    result.real, result.imag = values, fields.embedded(values)
    return result


def _unknown(residues: Array) -> Array:
    """Return numbers with these residues; those of 0 and 1 are known."""
    result = np.empty(np.shape(residues), np.complex128)
    result.real = np.where(residues == 0, 0.0, np.where(residues == fields.ONE, 1.0, UNKNOWN))
    result.imag = residues
    return result


def _ordered(array: Array) -> Array:
    """Return plain floats that are ordered as the numbers are."""
    return np.where(_is_unknown(array), fields.centred(array.imag), array.real)


def _extremum(op: Op, left: Array, right: Array) -> Array:
    one, other = _ordered(left), _ordered(right)
    takes_left = (one >= other) if op is Op.MAX else (one <= other)
    return np.where((takes_left | np.isnan(one)) & ~np.isnan(other), left, right)


def _single(op: Op, args: tuple[Array, ...]) -> Array | None:
    """Compute the commonest operations on single numbers that are not known, without the cost of arrays."""
    parts = []
    for arg in args:
        number = complex(arg)
        if number.real != UNKNOWN or number.imag < 0:
            return None
        parts.append(divmod(int(number.imag), fields.SHIFT))
    match op:
        case Op.ADD:
            first, second = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
        case Op.SUB:
            first, second = parts[0][0] - parts[1][0], parts[0][1] - parts[1][1]
        case Op.MUL:
            first, second = parts[0][0] * parts[1][0], parts[0][1] * parts[1][1]
        case Op.FMA:
            first, second = (one * other + third for one, other, third in zip(*parts, strict=True))
        case _:
            return None
    residues = first % fields.P * fields.SHIFT + second % fields.Q
    return np.asarray(complex(UNKNOWN, residues)) if residues not in (0, int(fields.ONE)) else None


def _computed(op: Op, dtype: DType, args: tuple[Array, ...]) -> Array:
    """Compute an operation whose result is a float."""
    unknown = [_is_unknown(arg) for arg in args]
    any_unknown = np.logical_or.reduce(unknown)
    if any_unknown.all() and all(lanes.all() for lanes in unknown):
        return _from_residues(op, args)
    plain = [_ordered(arg) for arg in args]
    values = arithmetic.apply(op, *(value.astype(dtype.numpy) for value in plain)).astype(np.float64)
    special = ~np.isfinite(plain[0]) if len(args) == 1 else ~np.logical_and.reduce([np.isfinite(p) for p in plain])
    if op in (Op.DIV, Op.MOD):
        special = special | (plain[1] == 0)
    known = _known(values)
    if op in _ARITHMETIC or op in (Op.NEG, Op.ABS):
        residues = _from_residues(op, args).imag
        recognised = special | (known.imag == residues) | ~np.isfinite(values)
        known.imag = np.where(recognised, known.imag, fields.LOST)
    by_value = ~any_unknown | special
    return known if by_value.all() else np.where(by_value, known, _from_residues(op, args))


def _from_residues(op: Op, args: tuple[Array, ...]) -> Array:
    residues = [arg.imag for arg in args]
    lost = np.logical_or.reduce([part < 0 for part in residues])
    result = _function(op, args, residues)
    return _unknown(np.where(lost, fields.LOST, result) if lost.any() else result)


def _function(op: Op, args: tuple[Array, ...], residues: list[Array]) -> Array:
    """Compute in the fields."""
    match op:
        case Op.ADD:
            return fields.add(*residues)
        case Op.SUB:
            return fields.add(residues[0], fields.negative(residues[1]))
        case Op.MUL:
            return fields.multiply(*residues)
        case Op.FMA:
            return fields.add(fields.multiply(residues[0], residues[1]), residues[2])
        case Op.DIV:
            return fields.multiply(residues[0], fields.inverse(residues[1]))
        case Op.NEG:
            return fields.negative(residues[0])
        case Op.ABS:
            return np.where(_ordered(args[0]) < 0, fields.negative(residues[0]), residues[0])
        case Op.EXP:
            return fields.exponential(residues[0])
        case Op.SIGMOID:
            ones = np.full_like(residues[0], fields.ONE)
            return fields.inverse(fields.add(ones, fields.exponential(fields.negative(residues[0]))))
        case Op.RSQRT:
            return fields.inverse(fields.hashed(Op.SQRT.value, residues[0]))
        case Op.POW:
            return _power(args[1], residues)
        case _:
            return fields.hashed(op.value, *residues)


def _power(exponent: Array, residues: list[Array]) -> Array:
    """Raise to known whole powers by products, as passes may; other powers are hashes."""
    value = exponent.real
    whole = (np.abs(value) <= _LARGEST_EXPONENT) & (value == np.rint(value))
    result = fields.hashed(Op.POW.value, *residues)
    if not whole.any():
        return result
    return np.where(whole, fields.power(residues[0], np.where(whole, value, 0.0)), result)
