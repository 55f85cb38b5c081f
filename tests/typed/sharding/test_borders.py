"""Borders are right: what a rank computes without halos and of them is what it computes of parts with halos."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given

from strategies.effort import examples
from strategies.stencils import Stencils, stencils
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Collective
from tileir.typed.sharding.borders import Bordered, bordered_steps
from tileir.typed.sharding.interpreter import exchanged, gathered, scattered
from tileir.typed.sharding.mesh import Box
from tileir.typed.sharding.partitioned import Partitioned


def part(array: Any, have: Box, box: Box) -> Any:
    return array[tuple(slice(low - start, high - start) for (low, high), (start, _) in zip(box, have, strict=True))]


def ran(program: Partitioned, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the whole results of a program whose ranks run it with borders, by interpreters."""
    mesh, ranks = program.mesh, range(program.mesh.size)
    values: dict[str, list[Any]] = {n: list(scattered(a, program.layout(n), mesh)) for n, a in inputs.items()}
    steps = [list(bordered_steps(program, rank)) for rank in ranks]
    while any(steps):
        for rank in ranks:
            while steps[rank] and not isinstance(step := steps[rank][0], Collective):
                del steps[rank][0]
                run = _bordered if isinstance(step, Bordered) else _whole
                for name, array in run(program, step, values, rank).items():
                    values.setdefault(name, [None] * mesh.size)[rank] = array
        if any(steps):
            (collective,) = {each.pop(0) for each in steps}
            assert isinstance(collective, Collective)
            values[collective.name] = list(exchanged(collective, [tuple(values[n]) for n in collective.inputs], mesh))
    return {name: gathered(tuple(values[name]), program.layout(name), mesh) for name in program.function.outputs}


def _whole(program: Partitioned, step: Any, values: dict[str, list[Any]], rank: int) -> dict[str, Any]:
    return interpret(step, {value.name: values[value.name][rank] for value in step.inputs})


def _bordered(program: Partitioned, step: Any, values: dict[str, list[Any]], rank: int) -> dict[str, Any]:
    here = program.mesh.coordinates(rank)
    found = {name: np.array(each) for name, each in _whole(program, step.inner, values, rank).items()}
    for border in step.borders:
        boxes = {name: program.mesh.box(program.layout(name), here) for name, _ in (*border.windows, *border.places)}
        windows = {name: part(values[name][rank], boxes[name], box) for name, box in border.windows}
        for name, array in interpret(border.function, windows).items():
            part(found[name], boxes[name], dict(border.places)[name])[...] = array
    return found


@examples(40)
@given(stencils())
def test_programs_of_stencils(case: Stencils) -> None:
    for name, array in ran(case.program, case.inputs).items():
        np.testing.assert_array_equal(array, interpret(case.function, case.inputs)[name], err_msg=case.text)
