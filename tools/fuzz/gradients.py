"""Gradients of random graphs of smooth operations and contractions, beside finite differences in f64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fuzz.area import Area, Case, array_spec, arrays_of, is_there
from fuzz.devices import turn_of
from tileir.core.dtype import DType
from tileir_testing.generated.choices import Choices
from tileir_testing.gradients import check_gradients

POINTWISE: Final = (
    "tanh({a})", "sigmoid({a})", "sin({a})", "exp(sin({a}))", "{a} * {b}", "{a} + {b}", "{a} - 2.0 * {b}",
    "{a} / (2.0 + {b} * {b})", "sqrt(1.0 + {a} * {a})", "log(2.0 + sin({a}))", "erf({a})", "{a} * {a}",
    "pow(1.5 + tanh({a}), 2.5)", "sin({a}) > 0.1 ? {a} : {b}", "atan({a}) * cos({b})",
)  # fmt: skip
"""Elementwise operations on tensors of one shape; none grows fast."""

MATRICES: Final = (
    "[i, j : {m}, {n}] = +({a}[i, k] * W[k, j])",
    "[i, j : {m}, {n}] = +({a}[i, k] * {b}[j, k] )",
    "[i, j : {m}, {n}] = +({a}[i, j + k - 1] * V[k])",
    "[i, j : {m}, {n}] = +({a}[i + k, j]), k < {w}",
    "[i, j : {m}, {n}] = =({a}[i, {n} - 1 - j])",
    "[i, j : {m}, {n}] = =({a}[i, j - 1]) default {b}",
    "[i, j : {m}, {n}] = +({a}[i, k]), j - k < {n}",
    "[i, j : {m}, {n}] = *({a}[i, j + k]), k < {w}",
    "[2*i, j : {m}, {n}] = +({a}[i, j] * {b}[i, k])",
    "[i, j : {m}, {n}] = >({a}[i, j + k]), k < {w}",
    "[i, j : {m}, {n}] = +({a}[i, j / 2])",
    "[i, 0 : {m}, 1] = +({a}[i, k] * {b}[i, k])",
    "[0, j : 1, {n}] = +({a}[k, j])",
)  # fmt: skip
"""Contractions of tensors of one shape; those that make one row or column are multiplied onto a tensor at once."""


def make(choices: Choices) -> Case:
    """Make up to six steps over a matrix and weights; the last ones are results."""
    rows = choices.integer(1, 5)
    columns = rows if choices.integer(0, 1) else choices.integer(1, 5)
    shapes = {"X": (rows, columns), "Y": (rows, columns), "W": (columns, columns), "V": (3,)}
    inputs = {name: array_spec(choices, DType.F64, shape, "normal") for name, shape in shapes.items()}
    for spec in inputs.values():
        spec["layout"] = "plain"  # an element that stands for several has no difference of its own
    lines, tensors = [], ["X", "Y"]
    for number in range(choices.integer(1, 6)):
        lines.extend(_step(choices, f"T{number}", tensors, rows, columns))
        tensors.append(f"T{number}")
    outputs = [tensors[-1]] if choices.integer(0, 1) else tensors[2:][-2:]
    return {"inputs": inputs, "lines": lines, "outputs": outputs, "order": 1 + (choices.integer(0, 5) == 5)}


def _step(choices: Choices, name: str, tensors: Sequence[str], rows: int, columns: int) -> list[str]:
    numbers = {
        "m": rows,
        "n": columns,
        "w": choices.integer(1, 3),
        "a": choices.pick(tensors),
        "b": choices.pick(tensors),
    }
    if choices.integer(0, 1):
        return [f"{name} = {choices.pick(POINTWISE).format(**numbers)};"]
    form = choices.pick(MATRICES if rows == columns else [m for m in MATRICES if "[j, k]" not in m])
    if " 1]" in form or "[0," in form:
        return [f"{name}P{form.format(**numbers)};", f"{name} = sin({name}P) * {numbers['a']};"]
    return [f"{name}P{form.format(**numbers)};", f"{name} = sin({name}P);"]


def text_of(case: Case) -> str:
    """Return the Tile text of a case."""
    body = " ".join(case["lines"])
    return f"function (X[M, N], Y[M, N], W[N, N], V[S]) -> ({', '.join(case['outputs'])}) {{ {body} }}"


def check(case: Case) -> int:
    """Compare gradients, of second order now and then, with differences."""
    text, arrays = text_of(case), arrays_of(case)
    device = "llvm" if turn_of(case) % 4 == 0 and is_there("llvm") else None
    # Windows that overlap choose one element twice; maxima of such results tie, and only shares add up to derivatives.
    try:
        check_gradients(text, arrays, order=case["order"], ties="even", device=device, tolerance=1e-5)
    except AssertionError as error:
        if "at kinks or jumps" in str(error):
            return 0
        raise AssertionError(f"{error}\n{text}") from None
    return len(arrays)


AREA: Final = Area("gradients", make, check)
