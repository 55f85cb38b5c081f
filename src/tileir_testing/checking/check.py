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

from tileir.core import Target, TileError, attrs
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
from tileir_testing.checking.numbers import EXACT, differing, shown

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
