"""Scripts of schedules: steps at random for kernels of all forms, that refuse with a reason or change no number."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from fuzz import scripted_kernels
from fuzz.area import THREADS, Area, Array, Case, Refused, arrays_of, is_there
from fuzz.devices import RARELY, compiled, turn_of
from fuzz.scripted_steps import CARD_STEPS, STEPS, Drawing
from tileir.core import Target, TileError, dtype_of
from tileir.driver.jit import evaluate
from tileir.passes.base import run
from tileir.passes.kernels.expansion import called_block
from tileir.passes.pipelines.catalog import load_pipeline, parse_pipeline
from tileir.passes.pipelines.pipeline import to_json, to_text
from tileir.passes.schedules.scripted import Makers, Scripted
from tileir.schedule.remarks import Remark
from tileir.schedule.script import applied, known_values
from tileir.schedule.tree import Item, Known, Loop, Producers, Tree, tree_of
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import Checks
from tileir.stripe.ir import Block, Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_testing.generated.choices import Choices

BEFORE: Final = (
    "accumulate, canonicalise",
    "accumulate",
    "accumulate, canonicalise{merge=false}",
    "inline, accumulate, canonicalise",
    "accumulate, fusion, canonicalise",
)
BEHIND: Final = ("", "thread", "vectorise, thread", "register_tile, vectorise, thread")
PARAMETERS: Final = '({name=p, value=3}, {name=q, value="max(1, VECTOR_BYTES // 8)"})'
_MOST: Final = 8
_MOST_POINTS: Final = 1 << 16
"""The interpreter goes iteration by iteration, and loops that are skewed several times have many."""

_TARGET: Final = Target(vector_bytes=32, group_threads=1024, local_bytes=49152)
CARD: Final = "cuda.sm_90a"
"""A card for which kernels are compiled and interpreted."""


def make(choices: Choices) -> Case:
    """Make a function, and a script of up to eight steps for one of its kernels; few of these refuse."""
    case = scripted_kernels.make(choices)
    case["before"], case["behind"], case["steps"] = choices.pick(BEFORE), choices.pick(BEHIND), []
    case["card"] = choices.integer(0, 2) == 2
    try:
        program = _program(case)
    except TileError:
        return case  # the check says so
    blocks = [(number, each) for number, each in enumerate(program.main.statements) if isinstance(each, Block)]
    if not blocks:
        return case
    number, block = choices.pick(blocks)
    case["kernel"] = called_block(block).partition("(")[0]
    tree = tree_of(block)
    if isinstance(tree, Tree):
        drawing = Drawing(choices, tree, CARD_STEPS if case["card"] else STEPS)
        case["steps"] = _steps(drawing, partial(Makers.of(program).before, number, set()))
    return case


def _steps(drawing: Drawing, producer: Producers) -> list[str]:
    """Choose steps, most of which do something."""
    values = known_values(_script("bind{loop=i, to=thread}").for_target(_TARGET).parameters, drawing.tree)
    assert isinstance(values, dict)
    known = Known({**values, "VECTOR_BYTES": _TARGET.vector_bytes}, producer)
    steps: list[str] = []
    for _ in range(drawing.choices.integer(1, 5 * _MOST)):
        step = drawing.step()
        try:
            made = applied(_script(step).steps[0], drawing.tree, known)
        except Exception:  # the check finds it again
            return [*steps, step]
        if isinstance(made, Tree) and _points(made.body) > _MOST_POINTS:
            continue
        if isinstance(made, Tree):
            drawing.tree = made
            steps.append(step)
        elif drawing.choices.integer(0, 9) == 9:
            return [*steps, step]
        if len(steps) == _MOST:
            break
    return steps


def _points(items: tuple[Item, ...]) -> int:
    """Return how many iterations loops have in one another, whether they do something or not."""
    return sum(item.size * _points(item.body) if isinstance(item, Loop) else 1 for item in items)


def _script(steps: str) -> Scripted:
    (script,) = parse_pipeline(f"script{{parameters={PARAMETERS}, steps=({steps})}}")
    assert isinstance(script, Scripted)
    return script


def _types(case: Case) -> dict[str, TensorType]:
    return {name: TensorType(dtype_of(array), array.shape) for name, array in arrays_of(case).items()}


def _program(case: Case) -> Program:
    return run(parse_pipeline(case["before"]), lower(prepared(infer(parse(case["text"]), _types(case)))))


def passes_of(case: Case) -> str:
    """Return the pipeline of a case."""
    match, steps = f"{{kernel={case.get('kernel', 'kernel_0')}}}", ", ".join(case["steps"])
    script = f"script{{match={match}, parameters={PARAMETERS}, steps=({steps})}}"
    return ", ".join(each for each in (case["before"], script, case["behind"]) if each)


def check(case: Case) -> int:
    """Compare what a script makes of a kernel with the interpreter, by that of the semtree and on devices."""
    text, arrays = case["text"], arrays_of(case)
    try:
        infer(parse(text), _types(case))
    except TileError as error:
        raise Refused(error.diagnostics[0].code) from None
    passes = passes_of(case)
    steps = parse_pipeline(passes)
    again = load_pipeline(to_json(steps))
    if not steps == again == parse_pipeline(to_text(steps)):
        raise AssertionError(f"{passes} is not read back")
    wanted = _named(text, evaluate(text, dict(arrays)))
    devices: list[tuple[str, int | None]] = [("llvm", THREADS[turn_of(case) % len(THREADS)])]
    devices += [("opencl", None)] if turn_of(case) // len(THREADS) % RARELY == 0 else []
    devices = [(CARD, None)] if case["card"] else devices
    there = [(device, threads) for device, threads in devices if is_there(device)]
    for device, threads in there:
        try:
            program = compiled(device, threads, text, arrays, passes)
            found = {} if device == CARD else _named(text, program(**arrays))
        except Exception as error:
            raise AssertionError(f"{device} raises {error!r}\n{passes}\n{text}") from error
        interpreted = run_program(program.sem, arrays, Checks(races=True))
        for how, values in ((f"{device} on {threads} threads", found), (f"kernels of {device}", interpreted)):
            _compare(how, values, {name: wanted[name] for name in wanted if name in values}, passes, text)
        for remark in program.remarks:
            _tells(remark, passes)
    return 2 * len(there)


def _tells(remark: Remark, passes: str) -> None:
    """See that a step which refused is named."""
    refused = remark.step == "script" and remark.code.startswith("TR7") and not remark.fired
    if refused and remark.code not in ("TR724", "TR725") and "step" not in dict(remark.facts):
        raise AssertionError(f"{remark} names no step\n{passes}")


def _named(text: str, results: object) -> dict[str, Array]:
    several = results if isinstance(results, tuple) else (results,)
    return {out.name: np.asarray(value) for out, value in zip(parse(text).outputs, several, strict=True)}


def _compare(device: str, found: Mapping[str, Array], wanted: Mapping[str, Array], passes: str, text: str) -> None:
    for name, right in wanted.items():
        close = np.allclose(found[name], right, 1e-2 if right.dtype.itemsize == 2 else 1e-4, 1e-3, equal_nan=True)
        if found[name].shape != right.shape or not (close if "softmax" in text else _same(found[name], right)):
            raise AssertionError(f"{device}: {name} is {found[name].tolist()}, not {right.tolist()}\n{passes}\n{text}")


def _same(found: Array, right: Array) -> bool:
    return np.array_equal(found, right, equal_nan=right.dtype.kind == "f")


AREA: Final = Area("scripts", make, check)
