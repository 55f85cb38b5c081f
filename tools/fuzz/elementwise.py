"""Elementwise programs with all dtypes, special values and strides: each step beside the interpreter's.

All values in between are results. Each is compared with the interpreter on the values that the device itself had as
operands: so errors do not add up, and each operation is held to its own bound.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fuzz.area import Area, Array, Case, Refused, array_spec, arrays_of
from fuzz.devices import results_by_device
from tileir.core import DType, TileError, dtype_of
from tileir.core.ops import FUNCTIONS
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Elementwise, TensorType
from tileir_testing.generated.choices import Choices
from tileir_testing.values import bound, check_close

UNARY: Final = (
    *(op.value for op in FUNCTIONS), "sqrt", "floor", "ceil", "round", "trunc", "abs", "sign", "relu", "-", "~",
    "logical_not", "ident",
)  # fmt: skip
BINARY: Final = ("+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>")
CALLS: Final = ("max", "min", "pow", "mod", "logical_and", "logical_or")
LITERALS: Final = ("0", "1", "2", "3", "0.5", "1.0", "0.1", "7", "100", "1e-3", "255", "2.5")
SIZES: Final = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 0, 130)


def make(choices: Choices) -> Case:
    """Make a chain of up to eight operations on up to three inputs of any dtypes."""
    shape = [choices.pick(SIZES) for _ in range(choices.integer(1, 2))]
    if len(shape) == 2:
        shape[0] = min(shape[0], 5)
    inputs = {}
    for name in "ABC"[: choices.integer(1, 3)]:
        own = tuple(1 if choices.integer(0, 5) == 5 else size for size in shape[choices.integer(0, len(shape)) == 1 :])
        inputs[name] = array_spec(
            choices, choices.pick(tuple(DType)), own, choices.pick(("special", "small", "normal"))
        )
    names, steps = list(inputs), []
    for number in range(choices.integer(1, 8)):
        steps.append(_step(choices, names))
        names.append(f"T{number}")
    return {"inputs": inputs, "steps": steps}


def _step(choices: Choices, names: Sequence[str]) -> str:
    one = choices.pick(names)
    other = choices.pick(LITERALS) if choices.integer(0, 3) == 0 else choices.pick(names)
    match choices.integer(0, 6):
        case 0 | 1:
            name = choices.pick(UNARY)
            return f"{name}{one}" if name in "-~" else f"{name}({one})"
        case 2 | 3:
            sides = (one, other) if choices.integer(0, 1) else (other, one)
            return f" {choices.pick(BINARY)} ".join(sides)
        case 4:
            return f"{choices.pick(CALLS)}({one}, {other})"
        case 5:
            return f"{one} ? {other} : {choices.pick(names)}"
    return f"as_{choices.pick(tuple(DType)).value}({one})"


def check(case: Case) -> int:
    """Compare all steps, on all devices whose turn it is."""
    arrays = arrays_of(case)
    lines = _accepted(case["steps"], arrays)
    names = [line.partition(" ")[0] for line in lines]
    if not names:
        raise Refused("no step is accepted")
    text = f"function ({', '.join(arrays)}) -> ({', '.join(names)}) {{ {' '.join(lines)} }}"
    for device, values in results_by_device(text, arrays, case).items():
        known = {**arrays, **values}
        for line, name in zip(lines, names, strict=True):
            expected, ulps = _step_result(line, name, known)
            try:
                check_close(name, values[name], expected, ulps)
            except AssertionError as error:
                raise AssertionError(f"{device}: {line} {error}\n{text}") from None
    return len(names)


def _accepted(steps: Sequence[str], arrays: Mapping[str, Array]) -> list[str]:
    """Return the statements that inference accepts: not every operation has every dtype."""
    lines: list[str] = []
    types = {name: TensorType(dtype_of(array), array.shape) for name, array in arrays.items()}
    for number, step in enumerate(steps):
        attempt = [*lines, f"T{number} = {step};"]
        try:
            infer(parse(f"function ({', '.join(arrays)}) -> (T{number}) {{ {' '.join(attempt)} }}"), types)
        except TileError:
            continue
        lines = attempt
    return lines


def _step_result(line: str, name: str, known: Mapping[str, Array]) -> tuple[Array, float]:
    """Return what the interpreter makes of one statement, and how far a device may be off."""
    read = [word for word in known if word in line.partition("=")[2].replace("(", " ").replace(")", " ").replace(
        ",", " ").replace("-", " ").replace("~", " ").replace(";", " ").split()]  # fmt: skip
    operands = {word: np.asarray(known[word]) for word in read}
    graph = infer(
        parse(f"function ({', '.join(read)}) -> ({name}) {{ {line} }}"),
        {word: TensorType(dtype_of(array), array.shape) for word, array in operands.items()},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(interpret(graph, operands)[name])
    ulps = [bound(step.op, step.dtype) for step in graph.operations if isinstance(step, Elementwise)]
    return expected, sum(ulps)


AREA: Final = Area("elementwise", make, check)
