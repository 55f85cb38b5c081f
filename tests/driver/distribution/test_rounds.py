"""Loops in whose steps ranks meet: recurrent networks whose width is shared out."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import tileir
from driver.distribution.test_devices import TWO
from driver.distribution.test_exchanged_bytes import CountingThreads
from strategies.derivatives import types_of
from strategies.sharded import NEAR
from tileir.tile.text.parser import parse
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.verifier import verify

WIDTH: Final = 512
RECURRENT: Final = f"""function (H[B, N], X[T, B, N], U[N, N]) -> (L, O) {{
    R = scan(H; X; U) function (A, E, Z) -> (C, D) {{
        P[b, n : 4, {WIDTH}] = +(A[b, k] * Z[k, n]);
        C = P + E < -3 ? -3 : (P + E > 3 ? 3 : P + E);
        D = C - A;
    }};
    L = element(R, 0);
    O = element(R, 1);
}}"""
"""Whole numbers stay what they are, in any order of sums."""

MESHES: Final[tuple[tuple[dict[str, int], Any], ...]] = (({"x": 2}, (None, "x")), ({"x": 2, "y": 2}, ("x", "y")))


def arrays() -> dict[str, Any]:
    random = np.random.default_rng(0)
    shapes = {"H": (4, WIDTH), "X": (3, 4, WIDTH), "U": (WIDTH, WIDTH)}
    return {name: random.integers(-2, 3, shape).astype(np.float32) for name, shape in shapes.items()}


def expected(given: dict[str, Any]) -> tuple[Any, Any]:
    state, found = given["H"], []
    for each in given["X"]:
        new = np.clip(state @ given["U"] + each, -3, 3)
        found.append(new - state)
        state = new
    return state, np.stack(found)


def spread(mesh: dict[str, int], state: Any) -> tileir.Partitioned:
    cuts, outputs = {"H": Sharding(state), "X": Sharding((None, *state))}, {"L": Sharding(state)}
    return partition(infer(parse(RECURRENT), types_of(arrays())), Mesh(mesh), cuts, outputs, NEAR)


@pytest.mark.parametrize(("mesh", "state"), MESHES)
def test_ranks_meet_in_each_step(mesh: dict[str, int], state: Any) -> None:
    program, given = spread(mesh, state), arrays()
    assert (program.collectives, program.remarks) == ((), ())
    assert any(split.axes for split in program.layout("U"))
    exchanges = program.exchanges()
    assert all(each.cause.startswith("in each of 3 steps of ") for each in exchanges)
    engine = CountingThreads()
    found = tileir.distribute(program, engine, options=tileir.Options(quick=True))(**given)
    for actual, right in zip(found, expected(given), strict=True):
        np.testing.assert_array_equal(actual, right)
    engine.counted.pop("the start of a program")
    assert sum(engine.counted.values()) == sum(each.size for each in exchanges)


MIXED: Final = """function (S, X) -> (H, L) {
    R = scan(S; X) function (A, B) -> (C, D) { T[] = +(A[i]); C = B * T - A; D = A + T; };
    H = element(R, 0);
    L = element(R, 1);
}"""


def test_all_results_of_loops_and_of_their_gradients() -> None:
    """Gradients run backwards, and read the values before each step."""
    random = np.random.default_rng(0)
    given = {name: random.integers(-2, 3, shape).astype(np.float64) for name, shape in (("S", (5,)), ("X", (3, 5)))}
    cuts = {"S": Sharding(("x",)), "X": Sharding((None, "x"))}
    function = infer(parse(MIXED), types_of(given))
    backward = gradient(function, ("S", "X"), ("H", "L"), even_ties=False)
    for each in (function, backward):
        inputs = {value.name: given.get(value.name, np.ones(value.shape)) for value in each.inputs}
        program = partition(each, Mesh({"x": 2}), cuts, model=NEAR)
        assert program.rounds
        found = tileir.distribute(program, options=tileir.Options(quick=True)).results(inputs)
        for name, right in interpret(each, inputs).items():
            np.testing.assert_array_equal(found[name].numpy(), right, err_msg=name)


def test_steps_run_on_devices() -> None:
    given, options = arrays(), tileir.Options(quick=True)
    context = tileir.Context(devices=TWO, options=options)
    found = tileir.distribute(spread(*MESHES[0]), context=context)(**given)
    for actual, right in zip(found, expected(given), strict=True):
        np.testing.assert_array_equal(actual, right)


HALVED: Final = """function (X[N], S[]) -> (Y, Steps) {
    L = while(X, S) function (Y, I) -> (More) { P[] = +(Y[i]); More = P > 1000; } do function (Y, I) -> (Z, J) {
        M[] = >(Y[i]);
        Z = Y > M / 2 ? Y - M / 2 : Y;
        J = I + 1;
    };
    Y = element(L, 0);
    Steps = element(L, 1);
}"""


@pytest.mark.parametrize("mesh", [Mesh({"x": 2}), Mesh({"x": 3}), Mesh({"x": 2, "y": 2})], ids=str)
def test_ranks_agree_on_the_end_of_loops(mesh: Mesh) -> None:
    """The condition is a sum over what all ranks have; no rank makes a step more or less than the others."""
    given: dict[str, Any] = {
        "X": np.random.default_rng(0).integers(0, 4000, 5000).astype(np.float64),
        "S": np.zeros((), np.int32),
    }
    function = infer(parse(HALVED), types_of(given))
    program = partition(function, mesh, {"X": Sharding((tuple(name for name, _ in mesh.axes),))}, model=NEAR)
    verify(program)
    assert (len(program.rounds), program.remarks) == (1, ())
    assert any(each.cause.startswith("in each step of ") for each in program.exchanges())
    expected, found = interpret(function, given), interpret_partitioned(program, given)
    assert expected["Steps"] > 10
    ran = tileir.distribute(program, options=tileir.Options(quick=True)).results(given)
    for name, right in expected.items():
        np.testing.assert_array_equal(found[name], right)
        np.testing.assert_array_equal(ran[name].numpy(), right)


def test_loops_that_end_before_their_first_step() -> None:
    given: dict[str, Any] = {"X": np.zeros(5000), "S": np.zeros((), np.int32)}
    program = partition(infer(parse(HALVED), types_of(given)), Mesh({"x": 2}), {"X": Sharding(("x",))}, model=NEAR)
    assert program.rounds
    found = tileir.distribute(program, options=tileir.Options(quick=True))(**given)
    np.testing.assert_array_equal(found[0], given["X"])
    assert found[1] == 0
