"""The text of a function at any stage of its way down."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

from tileir.core import Target, fail, nearest
from tileir.driver.compiler import compile_stages, passes_of, stripe_of, typed_of
from tileir.driver.executable import compile_for
from tileir.driver.forms import to_text
from tileir.driver.programs import Compilable, Program, function_of, input_names, made, stage_of as stage_of
from tileir.driver.targets import TargetChoice, scheduling_target
from tileir.passes.base import names_of, run
from tileir.runtime import Library, default_context
from tileir.stripe.ir import Program as StripeProgram
from tileir.stripe.text.printer import STYLES, to_text as stripe_text
from tileir.typed.ir import TensorType

PROGRAMS: Final = ("tile", "typed", "stripe", "scheduled", "sem")
"""What a program is on its way down."""

CODE: Final = "code"
STAGES: Final = (*PROGRAMS, CODE)

ALL: Final = "all"
"""Stands for every pass."""


def stage_text(
    program: Compilable,
    types: Mapping[str, TensorType],
    stage: str,
    *,
    passes: str | None,
    device: str | None,
    choice: Target | TargetChoice | None = None,
    style: str = STYLES[0],
) -> str:
    """Return the text of a program at one of :data:`STAGES`; those before ``scheduled`` need no device.

    ``code`` is the code that the device's back end generates; ``style`` is one of Stripe's text.

    Raises:
        TileError: TIL902 where a stage after ``tile`` lacks the types of inputs; TIL712, the program is of a later
            stage.
    """
    if stage == CODE:
        need_types(program, types)
        return listing(program, types, None, passes=passes, device=device, choice=choice)
    shown = stage_program(program, types, stage, passes=passes, device=device, choice=choice)
    return stripe_text(shown, style) if isinstance(shown, StripeProgram) else to_text(shown)


def stage_program(
    origin: Compilable,
    types: Mapping[str, TensorType],
    stage: str,
    *,
    passes: str | None,
    device: str | None,
    choice: Target | TargetChoice | None = None,
) -> Program:
    """Return a program at one of :data:`PROGRAMS`; those before ``scheduled`` need no device.

    Raises:
        TileError: As :func:`stage_text`.
    """
    program = made(origin)
    if stage == stage_of(program):
        return program
    if stage == "tile":
        return function_of(program)
    need_types(program, types)
    if stage == "typed":
        return typed_of(program, types)
    if stage == "stripe":
        return stripe_of(program, types)
    target = scheduling_target(choice, default_context().device(device).target, None)
    steps = passes_of(passes, target)
    if stage == "scheduled":  # for hardware that nothing here can run there is no more to come
        return run(steps, stripe_of(program, types, target))
    return compile_stages(program, types, target, passes=steps).sem


def texts_after(
    origin: Compilable,
    types: Mapping[str, TensorType],
    after: str,
    *,
    passes: str | None,
    device: str | None,
    choice: Target | TargetChoice | None = None,
    style: str = STYLES[0],
) -> str:
    """Return the Stripe program after each step or pass called ``after``, or after every one for :data:`ALL`.

    A comment above each program has the number of the step in the pipeline, from 1, and its name.

    Raises:
        TileError: TIL902 where types of inputs are missing, or where no such pass runs.
    """
    need_types(origin, types)
    target = scheduling_target(choice, default_context().device(device).target, None)
    steps = passes_of(passes, target)
    names = list(dict.fromkeys(name for step in steps for name in names_of(step)))
    if after not in (ALL, *names):
        raise fail("TIL902", f"no pass {after[:64]!r} runs{nearest(after, [ALL, *names])}")
    numbers = count(1)
    parts: list[str] = []

    def dump(name: str, after_it: StripeProgram) -> None:
        number = next(numbers)
        if after in (ALL, *names_of(steps[number - 1])):
            parts.append(f"// {number}: {name}\n{stripe_text(after_it, style)}")

    run(steps, stripe_of(made(origin), types, target), dump=dump)
    return "\n".join(parts)


def listing(
    program: Compilable,
    types: Mapping[str, TensorType],
    form: str | None,
    *,
    passes: str | None,
    device: str | None,
    choice: Target | TargetChoice | None = None,
) -> str:
    """Return the code that a device's back end generates, as text; by default in its first form.

    For a chosen target the code is generated only, since the target may describe another machine.

    Raises:
        BackendError: TIL806, the back end has no such form, or none at all.
    """
    need_types(program, types)
    context = default_context()
    chosen = context.device(device)
    if choice is None:
        return compile_for(program, types, context, chosen, passes=passes).listing(form)
    target = scheduling_target(choice, chosen.target, None)
    kernels = compile_stages(program, types, target, passes=passes_of(passes, target)).sem.kernels
    library: Library = context.compiler(chosen).build(kernels)
    return context.registry.backend(chosen.backend).listing(library, form)


def need_types(program: Compilable, types: Mapping[str, TensorType]) -> None:
    """Raise TIL902 where inputs have no types, and say how to give them."""
    missing = [name for name in input_names(program) if name not in types]
    if missing:
        raise fail(
            "TIL902", f"say what {', '.join(missing)} are, as in {missing[0]}=f32[64,64] or {missing[0]}=array.npy"
        )
