"""Several statements that share inputs: reductions of parts of them, windows, products, and what reads their results.

All values are small integers, so that every order of a sum gives the same, and results must be equal to the
interpreter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fuzz.area import Area, Case, array_spec, arrays_of
from fuzz.devices import INTERPRETER, results_by_device
from tileir.core import DType, TileError
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_testing.generated.choices import Choices

DTYPES: Final = (DType.F32, DType.I32, DType.F64, DType.I8, DType.U8, DType.I64)
SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 20, 31, 32, 33, 40, 48, 63, 64, 65, 70)
FORMS: Final = (
    "[j : {n}] = {agg}(A[k + {lo}, j]), k < {k}",
    "[i : {m}] = {agg}(A[i, k + {lo2}]), k < {k2}",
    "[i, 0 : {m}, 1] = {agg}(A[i, k]), k < {k2}",
    "[0, j : 1, {n}] = {agg}(A[k, j]), k < {k}",
    "[] = {agg}(A[i, j]), i < {k}",
    "[i, j : {m}, {n}] = {agg}(A[i + k, j]), k < {w}",
    "[i, j : {m}, {n}] = {agg}(A[i, j + k - 1]), k < {w}",
    "[i, j : {m} - {k} + 1, {n}] = {agg}(A[i + k, j]), k < {k}",
    "[i, j : {m} / 2, {n}] = {agg}(A[2 * i + k, j]), k < 2",
    "[i, j : {m}, {n}] = +(A[i, k] * B[k, j])",
    "[i, j : {m}, {n}] = +(A[i, k] * B[k, j]), k < {k2}",
    "[i, j : {n}, {m}] = =(A[j, i])",
    "[i, j : {m}, {n}] = =(A[i, {n} - 1 - j])",
    "[i, j : {m}, {n}] = +(A[i, k] * B[j, k])",
    "[j : {n}] = +(A[i, j] * C[i])",
    "[i : {m}] = +(A[i, j] * D[j])",
    "[i, j : {m}, {n}] = +(A[i, k]), j - k < {n}",
    "[i : {m}] = +(A[k, 0]), i - k < {m}",
)  # fmt: skip


def make(choices: Choices, sizes: Sequence[int] = SIZES) -> Case:
    """Make up to six statements over one matrix, of some of the sizes, and a few more inputs."""
    rows, columns = choices.pick(sizes), choices.pick(sizes)
    dtype = choices.pick(DTYPES)
    shapes = {"A": (rows, columns), "B": (columns, columns), "C": (rows,), "D": (columns,)}
    inputs = {name: array_spec(choices, dtype, shape, "small") for name, shape in shapes.items()}
    lines: list[str] = []
    form = ""
    for number in range(choices.integer(1, 6)):
        if lines and choices.integer(0, 2) == 2:
            lines.append(f"R{number} = {_pointwise(choices, len(lines))};")
            continue
        down, along = choices.integer(1, rows), choices.integer(1, columns)
        numbers = {
            "m": rows, "n": columns, "k": down, "k2": along, "w": choices.integer(1, 5), "agg": choices.pick("+><"),
            "lo": choices.integer(0, rows - down), "lo2": choices.integer(0, columns - along),
        }  # fmt: skip
        form = form if form and choices.integer(0, 1) else choices.pick(FORMS)
        lines.append(f"R{number}{form.format(**numbers)};")
    return {"inputs": inputs, "lines": lines}


def _pointwise(choices: Choices, count: int) -> str:
    one, other = (f"R{choices.integer(0, count - 1)}" for _ in range(2))
    return choices.pick((
        f"{one} + {one}", f"max({one}, 0)", f"A - {one}", f"{one} > 0 ? {one} : 0", f"{one} + A * 2",
        f"{one} - {other}", f"min({one}, D)", f"{one} * D",
    ))  # fmt: skip


def text_of(case: Case) -> str:
    """Return the Tile text of a case; what each statement defines is a result."""
    names = [line.split("[")[0].split(" ")[0] for line in case["lines"]]
    ranks = {name: len(spec["shape"]) for name, spec in case["inputs"].items()}
    inputs = ", ".join(f"{n}[{', '.join(f'{n}{a}' for a in range(rank))}]" for n, rank in ranks.items())
    return f"function ({inputs}) -> ({', '.join(names)}) {{ {' '.join(case['lines'])} }}"


def check(case: Case) -> int:
    """Compare devices with the interpreter."""
    text, arrays = broadcasting(case), arrays_of(case)
    results = results_by_device(text, arrays, case)
    wanted = results.pop(INTERPRETER)
    for device, values in results.items():
        for name, right in wanted.items():
            if not np.array_equal(values[name], right):
                place = tuple(map(int, np.argwhere(np.asarray(values[name] != right))[0]))
                raise AssertionError(
                    f"{device}: {name}{list(place)} is {values[name][place]}, not {right[place]}\n{text}"
                )
    return len(results)


def broadcasting(case: Case) -> str:
    """Return the text of the statements whose operands broadcast."""
    types = {n: TensorType(DType(spec["dtype"]), tuple(spec["shape"])) for n, spec in case["inputs"].items()}
    kept: list[str] = []
    for line in case["lines"]:
        try:
            infer(parse(text_of({**case, "lines": [*kept, line]})), types)
        except TileError:
            continue
        kept.append(line)
    return text_of({**case, "lines": kept})


AREA: Final = Area("siblings", make, check)
