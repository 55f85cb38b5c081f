"""Borders are right: what a rank computes without halos and of them is what it computes of parts with halos."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from strategies.effort import examples
from strategies.stencils import Stencils, stencils
from tileir.core import DType, attrs
from tileir.tile.text.parser import parse
from tileir.typed.boxes import Box
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Collective, TensorType
from tileir.typed.repetition import repeated
from tileir.typed.sharding.borders import HaloFunction, halo_steps
from tileir.typed.sharding.interpreter import exchanged, gathered, met, scattered
from tileir.typed.sharding.local import CollectiveOperation
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.needs import reads
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import ANY_MODEL
from tileir.typed.sharding.verifier import verify


def part(array: Any, have: Box, box: Box) -> Any:
    return array[tuple(slice(low - start, high - start) for (low, high), (start, _) in zip(box, have, strict=True))]


def ran(program: Partitioned, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the whole results of a program whose ranks run it with borders, by interpreters."""
    mesh, ranks = program.mesh, range(program.mesh.size)
    values: dict[str, list[Any]] = {n: list(scattered(a, program.layout(n), mesh)) for n, a in inputs.items()}
    steps = [list(halo_steps(program, rank)) for rank in ranks]
    while any(steps):
        for rank in ranks:
            while steps[rank] and not isinstance(step := steps[rank][0], Collective | CollectiveOperation):
                del steps[rank][0]
                run = _bordered if isinstance(step, HaloFunction) else _whole
                for name, array in run(program, step, values, rank).items():
                    values.setdefault(name, [None] * mesh.size)[rank] = array
        if any(steps):
            (collective,) = {each.pop(0) for each in steps}
            if isinstance(collective, CollectiveOperation):
                given = {name: tuple(values[name]) for name in reads(collective.operation)}
                values[collective.operation.name] = list(met(program, collective.operation, given))
                continue
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


@examples(25)
@given(stencils(4))
def test_exchanges_that_are_said_to_pass_beside_work_do(case: Stencils) -> None:
    running = [halo_steps(case.program, rank) for rank in range(case.program.mesh.size)]
    halos = [{name for step in steps if isinstance(step, HaloFunction) for name in step.halos} for steps in running]
    told = {each.collective.name for each in case.program.exchanges() if each.price.beside}
    assert all(told <= each for each in halos)


def test_a_part_of_two_elements_of_which_one_reads_a_halo() -> None:
    text = "function (U[N]) -> (S, T) { S[i : 23] = +(U[i + k]), k < 2; T[i : 12] = +(U[2 * i + k]), k < 3; }"
    function = infer(parse(text), {"U": TensorType(DType.I32, (23,))})
    cuts = {"S": Sharding(("x",)), "T": Sharding(("y",))}
    program = partition(function, Mesh({"x": 2, "y": 3}), {"U": Sharding(("x",))}, cuts)
    assert all(any(isinstance(step, HaloFunction) for step in halo_steps(program, rank)) for rank in range(6))


def test_corners_of_parts_that_are_cut_along_two_axes() -> None:
    text = "function (U[N, M]) -> (V) { V[i, j : N, M] = +(U[i + k - 1, j + l - 1]), k < 3, l < 3; }"
    function = infer(parse(text), {"U": TensorType(DType.I32, (24, 28))})
    cut = Sharding(("x", "y"))
    program = partition(function, Mesh({"x": 2, "y": 2}), {"U": cut}, {"V": cut})
    assert any(isinstance(step, HaloFunction) for step in halo_steps(program, 0))
    inputs = {"U": np.random.default_rng(0).integers(-9, 10, (24, 28)).astype(np.int32)}
    np.testing.assert_array_equal(ran(program, inputs)["V"], interpret(function, inputs)["V"])


def test_windows_that_several_operations_read() -> None:
    """One reads to the left of the border, and one beside it to the right, as deep as both steps of it need."""
    text = """function (U[N]) -> (V) {
        S[i : N] = +(U[i + j - 3]), j < 4;
        T[i : N] = +(U[i + j]), j < 3;
        W[i : N] = +(T[i + j]), j < 3;
        V = S + W;
    }"""
    function = infer(parse(text), {"U": TensorType(DType.I32, (100_001,))})
    cut = Sharding(("x",))
    program = partition(function, Mesh({"x": 3}), {"U": cut}, {"V": cut})
    assert len(program.collectives) == 1
    steps = [each for each in halo_steps(program, 1) if isinstance(each, HaloFunction)]
    assert [len(border.windows) for each in steps for border in each.borders] == [1, 1]
    assert {each.shape for step in steps for each in step.inner.operations} == {(33_334,)}  # no more than its part
    inputs = {"U": np.random.default_rng(0).integers(-9, 10, 100_001).astype(np.int32)}
    np.testing.assert_array_equal(ran(program, inputs)["V"], interpret(function, inputs)["V"])


@examples(25)
@given(stencils(4), st.sampled_from((0.0, 2.0, 50.0)), st.integers(2, 4))
def test_steps_for_one_exchange(case: Stencils, link: float, count: int) -> None:
    """Several steps are so many steps, however many of them take one exchange."""
    shapes = {each.name: each.shape for each in case.function.operations}
    result = next((name for name in case.function.outputs if shapes[name] == case.inputs["U"].shape), None)
    assume(result is not None)
    assert result is not None
    types = {each.name: each.dtype for each in (*case.function.inputs, *case.function.operations)}
    assume(types[result] is types["U"])
    function = repeated(case.function, {"U": result}, count)
    state = dict(case.inputs)
    for _ in range(count):
        right = interpret(case.function, state)
        state["U"] = right[result]
    cuts = {name: case.program.layout(name) for name in "UK"}
    model = attrs.evolve(ANY_MODEL, link_us=link)
    program = partition(function, case.program.mesh, cuts, {result: cuts["U"]}, model)
    verify(program)
    for name, array in ran(program, case.inputs).items():
        np.testing.assert_array_equal(array, right[name], err_msg=case.text)


STEP = "function (U[N, M]) -> (V) { S[i, j : N, M] = +(U[i + k - 1, j + l - 1]), k < 3, l < 3; V = S / 9; }"


@pytest.mark.parametrize(("link", "exchanges"), [(0.0, 8), (2.0, 2), (50.0, 1)])
def test_prices_decide_how_many_steps_take_one_exchange(link: float, exchanges: int) -> None:
    step = infer(parse(STEP), {"U": TensorType(DType.F32, (512, 2048))})
    function, rows = repeated(step, {"U": "V"}, 8), Sharding(("x", None))
    model = attrs.evolve(ANY_MODEL, link_us=link)
    made = partition(function, Mesh({"x": 2}), {"U": rows}, {"V": rows}, model)
    assert len(made.collectives) == exchanges
    assert all(0 < each.price.borders < each.price.beside for each in made.exchanges(model))
    if exchanges == 1:
        assert made.collectives[0].target[0].intervals == ((0, 264), (248, 512))


def test_values_that_are_laid_out_as_asked_are_exchanged() -> None:
    step = infer(parse(STEP), {"U": TensorType(DType.F32, (64, 64))})
    function, rows = repeated(step, {"U": "V"}, 2), Sharding(("x", None))
    between = next(each.name for each in function.operations if each.name.startswith("V_step"))
    model = attrs.evolve(ANY_MODEL, link_us=1000.0)
    made = partition(function, Mesh({"x": 2}), {"U": rows, between: rows}, {"V": rows}, model)
    assert len(made.collectives) == 2
