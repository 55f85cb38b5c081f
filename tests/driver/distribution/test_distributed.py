"""Partitioned programs run by an engine, by compiled code and by back ends' own arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

import tileir
from strategies.contractions import contractions
from strategies.derivatives import problems, types_of
from strategies.effort import examples
from strategies.loops import arguments, functions
from strategies.sharded import partitioned
from strategies.stencils import Stencils, stencils
from strategies.tile import cases
from strategies.tuple_reductions import assert_components, tuple_cases
from tileir.core import ArgumentError, BackendError, TileError, VerifyError
from tileir.core.extensions import EXTENSIONS, Kind
from tileir.distributed import repeated
from tileir.driver.distribution.collectives import carried_out
from tileir.runtime.transports import THREADS, Transport
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret
from tileir.typed.ir import Collective, TensorType
from tileir.typed.sharding.borders import HaloFunction, halo_steps
from tileir.typed.sharding.interpreter import interpret_parts, scattered
from tileir.typed.sharding.local import local_steps
from tileir.typed.sharding.mesh import CollectiveKind, Split

QUICK = tileir.Options(quick=True)


def assert_distributed(program: Any, function: Any, inputs: dict[str, Any]) -> None:
    """Assert that threads compute the results of the function that a program is made of."""
    found = tileir.distribute(program, options=QUICK)(**inputs)
    results = found if isinstance(found, tuple) else (found,)
    for actual, (name, right) in zip(results, interpret(function, inputs).items(), strict=True):
        assert (actual.dtype, actual.shape) == (right.dtype, right.shape)
        wide = actual.astype(np.float64), right.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=4e-3 if right.dtype.itemsize == 2 else 1e-5, atol=1e-5, err_msg=name)


@examples(15)
@given(contractions(), st.data())
def test_contractions(case: Any, data: st.DataObject) -> None:
    types = {n: TensorType(case.dtype, shape) for n, shape in case.shapes.items()}
    function = infer(tileir.parse(case.text), types)
    least = 0 if case.dtype.name.startswith("U") else -3
    random = np.random.default_rng(0)
    inputs = {n: np.asarray(random.integers(least, 4, s)).astype(case.dtype.numpy) for n, s in case.shapes.items()}
    assert_distributed(data.draw(partitioned(function)), function, inputs)


@examples(15)
@given(cases(largest_size=5, empty=True), st.data())
def test_programs(case: Any, data: st.DataObject) -> None:
    function = infer(case.function, types_of(case.inputs))
    assert_distributed(data.draw(partitioned(function)), function, case.inputs)


@examples(4)
@given(stencils(3))
def test_stencils(case: Stencils) -> None:
    assert_distributed(case.program, case.function, case.inputs)


@examples(15)
@given(problems("+", ("none", "mul", "add")), st.data())
def test_gradients(problem: Any, data: st.DataObject) -> None:
    try:
        function = infer(tileir.parse(problem.text), types_of(problem.inputs))
    except TileError:
        assume(condition=False)
    backward = gradient(function, problem.wrt, ("O",), even_ties=False)
    inputs = {name: np.round(2 * array) for name, array in problem.inputs.items()}
    assert_distributed(data.draw(partitioned(backward)), backward, inputs)


@examples(100)
@given(cases(largest_size=5, empty=True), st.data())
def test_collectives_do_what_the_interpreter_says(case: Any, data: st.DataObject) -> None:
    """Pieces that are sent put together what the whole tensor has, on every rank."""
    program = data.draw(partitioned(infer(case.function, types_of(case.inputs))))
    mesh = program.mesh
    parts = {n: scattered(a, program.layout(n), mesh) for n, a in case.inputs.items()}
    everything = tuple(each.name for each in program.function.operations if isinstance(each, Collective))
    sources = tuple(each.input for each in program.collectives if each.input not in parts)
    shown = tileir.core.attrs.evolve(program.function, outputs=tuple(dict.fromkeys((*sources, *everything))))
    if not shown.outputs:
        return
    values = {**parts, **interpret_parts(tileir.core.attrs.evolve(program, function=shown), parts)}

    def work(end: Transport) -> list[Any]:
        return [
            carried_out(each, mesh, end, [values[name][end.rank] for name in each.inputs])
            for each in program.collectives
        ]

    for rank, made in THREADS.launch(mesh.size, work).items():
        for each, array in zip(program.collectives, made, strict=True):
            np.testing.assert_array_equal(array, values[each.name][rank])


PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
TYPES = {"A": ("i32", (5, 6)), "B": ("i32", (6, 4))}


LAYOUT = (Split(("x",), ((0, 1), (1, 5))), Split((), ((0, 5),)))


def product() -> Any:
    return tileir.partition(PRODUCT, {"x": 2}, {"A": (None, "x"), "B": ("x", None)}, arguments=TYPES)


def arrays() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    return random.integers(-9, 9, (5, 6), np.int32), random.integers(-9, 9, (6, 4), np.int32)


def test_a_product_over_two_ranks() -> None:
    a, b = arrays()
    np.testing.assert_array_equal(tileir.distribute(product())(a, b), a @ b)


def test_ranks_with_equal_parts_share_their_code() -> None:
    program = tileir.partition("function (A[N]) -> (B) { B = A * A; }", {"x": 4}, {"A": ("x",)}, arguments=[(8,)])
    distributed = tileir.distribute(program)
    np.testing.assert_array_equal(distributed(np.arange(8, dtype="f4")), np.arange(8) ** 2)
    assert len({local_steps(program, rank)[0] for rank in range(4)}) == 1


def test_functions_of_python_and_typed_ones_are_partitioned() -> None:
    @tileir.function
    def doubled(a: Any) -> Any:
        return a + a

    array = np.arange(6, dtype=np.float32)
    program = tileir.partition(doubled, {"x": 3}, {"A": ("x",)}, arguments=[array])
    assert tileir.distribute(program)(array).tolist() == (2 * array).tolist()
    typed = tileir.compile(PRODUCT, TYPES).typed
    a, b = arrays()
    np.testing.assert_array_equal(tileir.distribute(tileir.partition(typed, {"x": 2}, {"A": ("x", None)}))(a, b), a @ b)


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"mesh": 3}, "TIL351", "3 is no mesh"),
        ({"shardings": [("x",)]}, "TIL352", "shardings are given by the names of values"),
        ({"shardings": {"A": "x"}}, "TIL352", "'x' is no sharding"),
        ({"outputs": {"D": ("x",)}}, "TIL352", "there is no result 'D' to shard"),
        ({"shardings": {"A": LAYOUT}}, "TIL352", r"of 'A' is of a tensor of shape \[5, 5\], and not of \[5, 6\]"),
        ({"shardings": {"A": LAYOUT[:1]}}, "TIL352", r"of 'A' is of a tensor of shape \[5\], and not of \[5, 6\]"),
        ({"shardings": {"A": LAYOUT}, "mesh": {"y": 2}}, "TIL352", "is cut along 'x', which the mesh y=2 does not"),
        ({"shardings": {"A": LAYOUT}, "mesh": {"x": 3}}, "TIL352", "has 2 intervals for 3 ranks"),
        ({"shardings": {"A": (LAYOUT[0], None)}}, "TIL352", "<Split x 0:1 1:5> shards no axis"),
    ],
)
def test_what_cannot_be_partitioned(given: Any, code: str, message: str) -> None:
    usual: Any = {"mesh": {"x": 2}, "shardings": {}, "arguments": TYPES}
    with pytest.raises(ArgumentError, match=message) as caught:
        tileir.partition(PRODUCT, **{**usual, **given})
    assert caught.value.diagnostics[0].code == code


def test_programs_of_later_stages_are_refused() -> None:
    stripe = tileir.compile(PRODUCT, TYPES).stripe
    with pytest.raises(ArgumentError, match="a Stripe program is too late") as caught:
        tileir.partition(stripe, {"x": 2}, {})
    assert caught.value.diagnostics[0].code == "TIL712"


def test_arrays_that_do_not_fit() -> None:
    a, b = arrays()
    distributed = tileir.distribute(product())
    with pytest.raises(ArgumentError, match=r"TIL701.*'A' is int32\[4, 6\], but the program takes i32\[5, 6\]"):
        distributed(a[:4], b)
    with pytest.raises(ArgumentError, match=r"TIL701.*'B' is float32\[6, 4\]"):
        distributed(a, b.astype(np.float32))
    with pytest.raises(ArgumentError, match="TIL705"):
        distributed(a)


def test_transports_of_another_size_are_refused() -> None:
    distributed = tileir.distribute(product())
    with pytest.raises(BackendError, match=r"the mesh x=2 has 2 ranks, and the transport 3"):
        THREADS.launch(3, lambda end: distributed.run(end, {}))


def test_engines_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(EXTENSIONS), "entries", lambda *_: {})  # where some are installed as well
    with pytest.raises(BackendError, match=r"TIL811.*no transport 'mpi': pip install tileir-mpi"):
        tileir.distribute(product(), "mpi")
    with pytest.raises(BackendError, match=r"TIL811.*no transport 'in_process'; did you mean inprocess"):
        tileir.distribute(product(), "in_process")


def test_programs_that_break_rules_are_not_run() -> None:
    program = product()
    broken = tileir.core.attrs.evolve(program, placements=program.placements[1:])
    with pytest.raises(VerifyError, match="TIL533"):
        tileir.distribute(broken)
    with pytest.raises(ArgumentError, match="TIL707"):
        tileir.distribute(PRODUCT)  # type: ignore[arg-type]
    assert Kind.TRANSPORT.noun == "transport"
    assert "inprocess" not in EXTENSIONS.names(Kind.TRANSPORT)


@examples(10)
@given(tuple_cases(), st.data())
def test_tuple_reductions(case: Any, data: st.DataObject) -> None:
    found = tileir.distribute(data.draw(partitioned(case.function)), options=QUICK)(case.data)
    assert_components(case, found)


WRITTEN = "[[shard(A, whole, x)]] [[shard(B, x, whole)]] [[shard(x, whole)]] C["


def test_a_text_says_how_values_are_laid_out() -> None:
    text = PRODUCT.replace("C[", WRITTEN)
    program = tileir.partition(text, {"x": 2}, {}, arguments=TYPES)
    assert program == tileir.partition(
        PRODUCT, {"x": 2}, {"A": (None, "x"), "B": ("x", None), "C": ("x", None)}, arguments=TYPES
    )
    assert [each.kind.value for each in program.collectives] == ["reduce_scatter"]
    assert tileir.to_text(tileir.parse(text)).count("[[shard(") == 3
    assert tileir.parse(text).warnings == ()
    other = tileir.partition(text, {"x": 2}, {"C": (None, None)}, arguments=TYPES)
    assert [each.kind.value for each in other.collectives] == ["all_reduce"]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("[[shard(D, x)]]", "there is no value 'D' to shard"),
        ("[[shard(x)]]", r"the sharding \(x\) of 'C' has 1 entries, but the tensor 2 axes"),
        ("[[shard(A, y, whole)]]", "names the axis 'y', which the mesh x=2 does not have"),
    ],
)
def test_attributes_that_do_not_fit(attribute: str, message: str) -> None:
    with pytest.raises(TileError, match=message) as caught:
        tileir.partition(PRODUCT.replace("C[", f"{attribute} C["), {"x": 2}, {}, arguments=TYPES)
    assert caught.value.diagnostics[0].code == "TIL352"
    assert caught.value.diagnostics[0].underlined == attribute


def test_texts_of_partitioned_programs_are_parsed_and_verified() -> None:
    program = product()
    text = tileir.to_text(program)
    assert tileir.parse(text, stage="partitioned") == program
    tileir.verify(program)
    with pytest.raises(VerifyError, match="TIL533"):
        tileir.parse(text.replace("partition over x=2", "partition over x=3"), stage="partitioned")


def test_gradients_of_partitioned_programs_are_laid_out_as_their_inputs() -> None:
    text = "function (A[M, K], B[K, N]) -> (L) { C[i, j : M, N] = +(A[i, k] * B[k, j]); L[] = +(C[i, j] * C[i, j]); }"
    random = np.random.default_rng(0)
    a, b = random.integers(-2, 3, (5, 6)).astype(np.float64), random.integers(-2, 3, (6, 4)).astype(np.float64)
    program = tileir.partition(text, {"x": 2}, {"A": ("x", None)}, arguments=[a, b])
    backward = tileir.gradient(program)
    assert [backward.layout(name) for name in backward.function.outputs] == [program.layout("A"), program.layout("B")]
    da, db = tileir.distribute(backward)(a, b)
    np.testing.assert_array_equal(da, 2 * (a @ b) @ b.T)
    np.testing.assert_array_equal(db, 2 * a.T @ (a @ b))
    (only,) = tileir.gradient(program, "B").function.outputs
    assert only == backward.function.outputs[1]


@examples(8)
@given(functions(), st.data())
def test_loops(function: Any, data: st.DataObject) -> None:
    assert_distributed(data.draw(partitioned(function)), function, arguments(function))


def test_ranks_that_run_different_programs_are_refused() -> None:
    array = np.arange(12, dtype=np.int32).reshape(4, 3)
    whole = {"A": (None, None)}
    texts = [f"function (A[M, N]) -> (B) {{ B[i : M] = {how}(A[i, j]); }}" for how in "+>"]
    runs = [tileir.distribute(tileir.partition(text, {"x": 2}, whole, arguments=[array])) for text in texts]
    with pytest.raises(
        BackendError, match=r"TIL815.: rank 1 differs from rank 0 in the program; all ranks must run one"
    ):
        THREADS.launch(2, lambda end: runs[end.rank].run(end, {"A": array}))
    compared = []

    def work(end: Transport) -> None:
        for _ in range(3):
            runs[0].run(end, {"A": array})
        compared.append(end.agreed)

    THREADS.launch(2, work)
    assert compared == [frozenset({str(runs[0].program)})] * 2


def test_borders_of_a_step_have_the_bits_of_the_whole() -> None:
    """A step reads what the step before wrote, also where messages were still on their way."""
    text = """function (U[H, W], K[H, W]) -> (V, M) {
        S[y, x : H, W] = +(U[y + i - 1, x + j - 2]), i < 3, j < 3; V = K * S / 9; M[] = >(V[y, x]);
    }"""
    random = np.random.default_rng(0)
    state, factors = (random.random((37, 41), np.float32) for _ in range(2))
    cut = ("x", "y")
    program = tileir.partition(
        text, {"x": 2, "y": 3}, {"U": cut, "K": cut}, outputs={"V": cut}, arguments=[state, factors]
    )
    (halo,) = (each for each in program.collectives if not each.kind.merges)
    found = [each for rank in range(6) for each in halo_steps(program, rank) if isinstance(each, HaloFunction)]
    assert [len(each.borders) for each in found] == [1, 2, 2, 1, 2, 2]
    assert all(each.halos == (halo.name,) for each in found)
    step = tileir.distribute(program, options=QUICK).stepper({"U": "V"}, {"U": state})
    whole = tileir.stepper(text, {"U": "V"}, {"U": state}, options=QUICK)
    for _ in range(5):
        np.testing.assert_array_equal(step(K=factors).numpy(), whole(K=factors))
    np.testing.assert_array_equal(step.state["U"].numpy(), whole.state["U"])


def test_programs_of_several_steps() -> None:
    text = "function (U[H, W], K[H, W]) -> (M, V) { S[y, x : H, W] = +(U[y + i - 1, x]), i < 3; V = K * S; M = S - V; }"
    random = np.random.default_rng(0)
    state, factors = (random.random((40, 30), np.float32) for _ in range(2))
    function = repeated(text, {"U": "V"}, 4, arguments=[state, factors])
    rows = {"U": ("x", None), "K": ("x", None)}
    program = tileir.partition(function, {"x": 2}, rows, outputs={"V": rows["U"]})
    assert {each.input for each in program.collectives} == {"U", "K"}
    steps = tileir.distribute(program, options=QUICK).stepper({"U": "V"}, {"U": state})
    one = tileir.stepper(text, {"U": "V"}, {"U": state}, options=QUICK)
    for _ in range(2):
        right = [one(factors) for _ in range(4)][-1]
        np.testing.assert_array_equal(steps(factors).numpy(), right)


@pytest.mark.parametrize(
    ("updates", "count", "code", "message"),
    [
        ({"A": "C"}, 0, "TIL707", "count is a number of steps, 1 or more, not 0"),
        ({"A": "D"}, 2, "TIL709", "there is no result 'D'"),
        ({"A": "C"}, 2, "TIL709", r"result 'C' is i32\[5, 4\], but input 'A', which it updates, is i32\[5, 6\]"),
    ],
)
def test_steps_that_cannot_be_repeated(updates: Any, count: int, code: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        repeated(PRODUCT, updates, count, arguments=TYPES)
    assert caught.value.diagnostics[0].code == code


def test_arrays_without_elements_of_which_no_rank_needs_anything() -> None:
    """Places that nobody needs may be any, so the parts of others need not lie in them."""
    source = (Split(("x",), ((0, 2), (2, 4))), Split((), ((0, 0),)))
    target = (Split((), ((0, 0),)), Split((), ((0, 0),)))
    made = Collective("B", CollectiveKind.ALL_GATHER, ("A",), ("x",), source, target, tileir.DType.F32, (4, 0))

    def work(end: Transport) -> Any:
        return carried_out(made, tileir.Mesh({"x": 2}), end, [np.ones((2, 0), np.float32)])

    assert [part.shape for part in THREADS.launch(2, work).values()] == [(0, 0)] * 2


def test_a_partitioned_program_is_evaluated_as_any() -> None:
    """The interpreter computes the parts of all ranks: sums of sums of parts, which no device is needed for."""
    text = "function (A[M, N]) -> (B, C) { B[i : M] = +(A[i, j]); C = A * 2; }"
    array = np.random.default_rng(0).integers(-9, 9, (5, 7)).astype(np.float32)
    program = tileir.partition(text, {"x": 2}, {"A": (None, "x")}, outputs={"B": (None,)}, arguments=[array])
    assert [each.kind.value for each in program.collectives] == ["all_reduce"]
    for given_array in (array, tileir.to_device(array)):
        for found, right in zip(tileir.evaluate(program, [given_array]), (array.sum(1), array * 2), strict=True):
            np.testing.assert_array_equal(np.asarray(found), right)
    with pytest.raises(ArgumentError, match=r"TIL713.*'A' is f32\[5, 7\]"):
        tileir.evaluate(program, [array[:4]])
