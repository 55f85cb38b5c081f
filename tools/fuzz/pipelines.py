"""Passes in any order, with any options: the result is a valid program that means the same."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Final

import numpy as np

from fuzz import siblings
from fuzz.area import Area, Array, Case, Refused, arrays_of
from fuzz.devices import turn_of
from tileir.core import TileError, dtype_of
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import PASSES, parse_pipeline
from tileir.passes.pipelines.installed import names_installed, passes_installed
from tileir.passes.pipelines.options import hints_of, to_text as option_text
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_testing.generated.choices import Choices

_NUMBERS: Final = (1, 2, 0, 3, 4, 8, 16, 64)
_TAGS: Final = ("kernel", "main", "inner", "fused", "contraction", "agg_op_add")
_REFUSALS: Final = frozenset({"TIL543", "TIL505", "TIL547", "TIL548"})
"""Allowed refusals of a request by a pass: a value that does not fit, a unit without an index, an unknown fragment, too
little memory."""

_LARGEST: Final = 12
"""Sizes of the programs: the interpreter goes point by point."""


def make(choices: Choices) -> Case:
    """Make a program of small matrices, and up to six passes."""
    case = siblings.make(choices, sizes=[size for size in siblings.SIZES if size <= _LARGEST])
    return {**case, "passes": [step(choices) for _ in range(choices.integer(1, 6))]}


def step(choices: Choices) -> str:
    """Choose a pass and some of its options; what does not fit is left out when it is checked."""
    kind = choices.pick((*PASSES, *passes_installed(names_installed())))
    options = []
    for name, hint in hints_of(kind).items():
        if choices.integer(0, 2) == 2:
            value = _value(choices, hint)
            if value is not None:
                options.append(f"{name}={option_text(value)}")
    return f"{kind.name}{{{','.join(options)}}}" if options else kind.name


def _value(choices: Choices, hint: object) -> bool | int | float | str | None:
    if hint is bool:
        return bool(choices.integer(0, 1))
    if hint is int or (typing.get_args(hint) and int in typing.get_args(hint)):
        return choices.pick(_NUMBERS)
    if hint is float:
        return choices.pick((0.0, 0.5, 1.0, 4.0))
    if hint is str or hint == tuple[str, ...]:
        return choices.pick(_TAGS)
    return None


def check(case: Case) -> int:
    """Run the passes one by one; compare the program after each, and now and then the kernels that it becomes."""
    text, arrays = siblings.broadcasting(case), arrays_of(case)
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in arrays.items()}
    program = lower(prepared(infer(parse(text), types)))
    wanted = interpret(program, arrays)
    done: list[str] = []
    for step in case["passes"]:
        after = _applied(step, program, [*done, step], text)
        if after is None or after is program:
            continue
        done.append(step)
        program = after
        _compare(interpret(program, arrays, seed=turn_of(case) % 1000), wanted, done, text)
    if not done:
        raise Refused("no pass did anything")
    return len(done)


def _applied(step: str, program: Program, done: list[str], text: str) -> Program | None:
    """Return what a pass makes of a program; None where it refuses its options."""
    try:
        return run(parse_pipeline(step), program)
    except TileError as error:
        if {diagnostic.code for diagnostic in error.diagnostics} <= _REFUSALS:
            return None
        raise AssertionError(f"{error}\n{','.join(done)}\n{text}") from error
    except Exception as error:
        raise AssertionError(f"{step.partition('{')[0]} raises {error!r}\n{','.join(done)}\n{text}") from error


def _compare(found: Mapping[str, Array], wanted: Mapping[str, Array], done: list[str], text: str) -> None:
    for name, right in wanted.items():
        if not np.array_equal(found[name], right):
            place = tuple(map(int, np.argwhere(np.asarray(found[name] != right))[0]))
            raise AssertionError(
                f"after {done[-1]}: {name}{list(place)} is {found[name][place]}, not {right[place]}\n"
                f"{','.join(done)}\n{text}"
            )


AREA: Final = Area("passes", make, check)
