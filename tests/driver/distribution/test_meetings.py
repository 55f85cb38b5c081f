"""Operations in which ranks meet: sorts along an axis that is cut, gathers and scatters whose both sides are cut."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np
import pytest

import tileir
from driver.distribution.test_exchanged_bytes import CountingThreads, announced
from strategies.derivatives import types_of
from tileir.core import VerifyError, attrs
from tileir.tile.text.parser import parse
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Argsort, Function, Gather, Scatter
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.local import CollectiveLoop, local_steps
from tileir.typed.sharding.mesh import Mesh, Sharding, Split
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.partitioned import Partitioned
from tileir.typed.sharding.prices import ANY_MODEL
from tileir.typed.sharding.verifier import verify
from tileir.typed.simplify.simplifier import simplify

if TYPE_CHECKING:
    from collections.abc import Mapping

MESHES: Final = (Mesh({"x": 2}), Mesh({"x": 3}), Mesh({"x": 2, "y": 2}))
PROMPT: Final = attrs.evolve(ANY_MODEL, link_us=0.0)
"""Ranks that small messages reach at once, so that few elements are worth rounds."""

QUICK: Final = tileir.Options(quick=True)
Arrays = dict[str, Any]


def typed(text: str, given: Arrays) -> Function:
    return simplify(infer(parse(text), types_of(given)))


def over(mesh: Mesh, *names: str | None) -> Sharding:
    """Return a sharding of which the entry ``all`` is cut along all axes of a mesh."""
    axes = tuple(name for name, _ in mesh.axes)
    return Sharding(tuple(axes if name == "all" else name for name in names))


def assert_met(program: Partitioned, function: Function, given: Arrays, *kinds: type) -> None:
    """Assert that ranks meet in operations of some kinds, say so, and have what one rank has, to the last bit."""
    verify(program)
    operations = {each.name: each for each in program.function.operations}
    assert [type(operations[name]) for name in program.meetings] == list(kinds)
    assert program.remarks == ()
    assert tileir.parse(str(program), stage="partitioned") == program
    engine, expected = CountingThreads(), interpret(function, given)
    found = tileir.distribute(program, engine, options=QUICK).results(given)
    for name, parts in interpret_partitioned(program, given).items():
        for actual in (parts, found[name].numpy()):
            assert actual.dtype == expected[name].dtype
            assert actual.tobytes() == expected[name].tobytes(), name
    engine.counted.pop("the start of a program")
    assert engine.counted == {place: size for place, size in announced(program).items() if size}


BOTH_WAYS: Final = "function (X[N]) -> (S, P) { Q = argsort(X, 0); S = gather(X, Q); P = argsort(X, 0, 1); }"


def keys(dtype: Any, *shape: int) -> Any:
    """Return keys with ties, and with NaNs, zeros of both signs and infinities where there are such."""
    found = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
    if found.dtype.kind not in "biu":
        flat = found.reshape(-1)
        flat[::7], flat[1::7], flat[2::11], flat[3::13] = np.nan, -0.0, np.inf, -np.inf
    return found


DTYPES: Final = (bool, np.int8, np.uint16, np.int64, np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


SORTS: Final = [
    (dtype, size, MESHES[(row + column) % 3])
    for row, dtype in enumerate(DTYPES)
    for column, size in enumerate((77, 64, 41))
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("dtype", "size", "mesh"), SORTS)
def test_sorts_along_an_axis_that_is_cut(dtype: Any, size: int, mesh: Mesh) -> None:
    given = {"X": keys(dtype, size)}
    function = typed(BOTH_WAYS, given)
    program = partition(function, mesh, {"X": over(mesh, "all")}, model=PROMPT)
    assert_met(program, function, given, Argsort, Gather, Argsort)
    found = interpret(function, given)
    values, places = (found[name] for name in function.outputs)
    order = np.argsort(given["X"].astype(np.float64), kind="stable")
    np.testing.assert_array_equal(values.astype(np.float64), given["X"].astype(np.float64)[order])
    np.testing.assert_array_equal(np.sort(places), np.arange(size))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("count", [1, 5, 30, 60])
def test_the_first_elements_of_a_sort(count: int, mesh: Mesh) -> None:
    given = {"X": keys(np.float32, 61)}
    text = f"function (X[N]) -> (S, Q) {{ Q = argsort(X, 0, 1, {count}); S = gather(X, Q); }}"
    function = typed(text, given)
    program = partition(function, mesh, {"X": over(mesh, "all")}, model=PROMPT)
    verify(program)
    assert any(isinstance(each, Argsort) for each in program.function.operations if each.name in program.meetings)
    found = tileir.distribute(program, options=QUICK)(*given.values())
    for actual, right in zip(found, interpret(function, given).values(), strict=True):
        assert actual.tobytes() == right.tobytes()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sorts_of_rows_that_are_cut_too(axis: int) -> None:
    given, mesh = {"X": keys(np.float32, 3, 40, 2)}, MESHES[2]
    given["X"] = np.moveaxis(given["X"], 1, axis)
    function = typed(f"function (X[L, M, N]) -> (P) {{ P = argsort(X, {axis}); }}", given)
    names: list[str | None] = [None, None, None]
    names[axis], names[axis - 1] = "x", "y"
    program = partition(function, mesh, {"X": over(mesh, *names)}, {function.outputs[0]: over(mesh, *names)}, PROMPT)
    assert_met(program, function, given, *[Argsort] * bool(program.meetings))


@pytest.mark.parametrize("size", [2, 1, 0])
def test_ranks_without_elements(size: int) -> None:
    given, mesh = {"X": keys(np.float32, size)}, MESHES[1]
    function = typed(BOTH_WAYS, given)
    program = partition(function, mesh, {"X": over(mesh, "all")}, model=PROMPT)
    verify(program)
    found = tileir.distribute(program, options=QUICK)(*given.values())
    for actual, right in zip(found, interpret(function, given).values(), strict=True):
        assert actual.tobytes() == right.tobytes()


PLACES: Final = np.random.default_rng(1).integers(-3, 40, 50, np.int32)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", [np.float32, bool])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_rows_that_others_have(dtype: Any, mesh: Mesh) -> None:
    given = {"T": keys(dtype, 37, 2), "I": PLACES}
    function = typed("function (T[M, N], I[K]) -> (G) { G = gather(T, I); }", given)
    cuts = {"T": over(mesh, "all", None), "I": over(mesh, "all")}
    program = partition(function, mesh, cuts, {"G": over(mesh, "all", None)}, PROMPT)
    assert_met(program, function, given, Gather)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("how", ["scatter", "scatter_max", "scatter_last"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_updates_of_rows_that_others_have(dtype: Any, how: str, mesh: Mesh) -> None:
    random = np.random.default_rng(2)
    given = {"U": random.integers(-9, 9, (50, 2)).astype(dtype), "I": PLACES, "D": np.ones((37, 2), dtype)}
    function = typed(f"function (U[K, N], I[K], D[M, N]) -> (S) {{ S = {how}(U, I, D); }}", given)
    cuts = {"U": over(mesh, "all", None), "I": over(mesh, "all"), "D": over(mesh, "all", None)}
    program = partition(function, mesh, cuts, {"S": over(mesh, "all", None)}, PROMPT)
    assert_met(program, function, given, *[Scatter] * len(program.meetings))
    assert program.meetings or dtype == np.float16  # of which merges may cost less


def test_gradients_of_sorts() -> None:
    given = {"X": keys(np.int64, 120).astype(np.float64)}
    forward = typed("function (X[N]) -> (S) { Q = argsort(X, 0); S = gather(X, Q); }", given)
    function = gradient(forward, ("X",), forward.outputs, even_ties=False)
    arrays = {each.name: given.get(each.name, np.arange(120.0)) for each in function.inputs}
    cuts = {value.name: over(MESHES[1], "all") for value in function.inputs}
    program = partition(function, MESHES[1], cuts, model=PROMPT)
    assert_met(program, function, arrays, Argsort, Scatter)


def test_no_rank_has_more_than_a_few_parts() -> None:
    """A part has a quarter of the elements here, and no value of a rank, nor what it merges, more than two of them."""
    size, mesh = 1_000_000, MESHES[2]
    given = {"X": np.random.default_rng(0).random(size, np.float32)}
    function = typed(BOTH_WAYS, given)
    program = partition(function, mesh, {"X": over(mesh, "all")})
    for step in local_steps(program, 0):
        if isinstance(step, Function):
            assert all(np.prod(each.shape) <= size // 4 for each in (*step.inputs, *step.operations))
    assert len(program.meetings) == 3
    assert program.collectives == ()


def test_loops_whose_steps_sort() -> None:
    text = """function (S[N], X[T, N]) -> (H) {
        H = scan(S; X) function (A, B) -> (C) { P = argsort(A + B, 0); G = gather(B, P); C = G - A; };
    }"""
    random = np.random.default_rng(0)
    given = {"S": random.random(90), "X": random.random((3, 90))}
    function = typed(text, given)
    program = partition(function, MESHES[0], {"S": Sharding(("x",)), "X": Sharding((None, "x"))}, model=PROMPT)
    verify(program)
    assert any(isinstance(each, CollectiveLoop) and each.step.meetings for each in local_steps(program, 0))
    found = tileir.distribute(program, options=QUICK).results(given)
    for name, right in interpret(function, given).items():
        np.testing.assert_array_equal(found[name].numpy(), right)
        np.testing.assert_array_equal(interpret_partitioned(program, given)[name], right)


def test_devices_sort_and_merge() -> None:
    given = {"X": keys(np.float32, 77)}
    function = typed("function (X[N]) -> (P) { P = argsort(X, 0, 1); }", given)
    program = partition(function, MESHES[0], {"X": Sharding(("x",))}, model=PROMPT)
    assert len(program.meetings) == 1
    found = tileir.distribute(program, context=tileir.Context(devices=("llvm.0", "llvm.0"), options=QUICK))(**given)
    np.testing.assert_array_equal(found, interpret(function, given)["P"])


FAULTS: Final[Mapping[str, tuple[str, tuple[tuple[int, int], ...], str]]] = {
    "operand": ("X", ((0, 40), (40, 77)), r"has ranks that meet, which take 'X' at \[x 0:39 39:77\], and have"),
    "result": ("B", ((0, 40), (40, 77)), "is sorted by ranks that meet, and has places x 0:40 40:77 for x 0:39 39:77"),
}


@pytest.mark.parametrize("which", FAULTS)
def test_parts_in_which_ranks_cannot_meet(which: str) -> None:
    name, intervals, message = FAULTS[which]
    text = "function (X[N]) -> (B) { B = argsort(X, 0); }"
    function = typed(text, {"X": keys(np.float32, 77)})
    program = partition(function, MESHES[0], {"X": Sharding(("x",))}, model=PROMPT)
    placements = tuple(
        (each, attrs.evolve(placement, layout=(Split(("x",), intervals),)) if each == name else placement)
        for each, placement in program.placements
    )
    with pytest.raises(VerifyError, match="TIL533") as caught:
        verify(attrs.evolve(program, placements=placements))
    assert any(re.search(message, each.message) for each in caught.value.diagnostics)
