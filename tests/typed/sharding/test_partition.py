"""Partitioned programs have the results of those that they are made of, on all meshes and with all shardings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from strategies.compositions import compositions, shapes
from strategies.contractions import contractions
from strategies.derivatives import problems, types_of
from strategies.effort import examples
from strategies.loops import arguments, functions
from strategies.operation_steps.step import UnfitError
from strategies.sharded import NEAR, assert_partitioned, partitioned
from strategies.tile import cases
from strategies.tuple_reductions import assert_components, tuple_cases
from tileir.core import ArgumentError, DType, TileError
from tileir.tile.text.parser import parse
from tileir.typed.derivatives.reverse import gradient
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.sharding.exchanges import traffic
from tileir.typed.sharding.interpreter import interpret_partitioned
from tileir.typed.sharding.mesh import Mesh, Sharding
from tileir.typed.sharding.partition import partition
from tileir.typed.sharding.prices import ANY_MODEL
from tileir.typed.sharding.verifier import verify

if TYPE_CHECKING:
    from strategies.contractions import Case
    from tileir.core import HardwareModel
    from tileir.typed.sharding.partitioned import Partitioned


def drawn(data: st.DataObject, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """Return small whole numbers, of which sums and products are exact."""
    least = 0 if dtype.name.startswith("U") else -3
    return np.asarray(np.random.default_rng(data.draw(st.integers(0, 99))).integers(least, 4, shape)).astype(
        dtype.numpy
    )


@examples(40)
@given(contractions(), st.data())
def test_contractions_with_windows_strides_and_borders(case: Case, data: st.DataObject) -> None:
    function = infer(parse(case.text), {n: TensorType(case.dtype, shape) for n, shape in case.shapes.items()})
    inputs = {name: drawn(data, shape, case.dtype) for name, shape in case.shapes.items()}
    assert_partitioned(data.draw(partitioned(function)), function, inputs)


@pytest.mark.parametrize("shape", [(6, 9), (3, 9), (2, 9), (2, 3)], ids=str)
@pytest.mark.parametrize("cut", [("x", None), ("y", None), (None, "y"), ("x", "y")], ids=str)
@pytest.mark.parametrize("result", ["T = reduce_argmin(B, 0); P = element(T, 1)", "P[] = +(B[i])"])
def test_axes_that_are_merged_and_aggregated(shape: tuple[int, int], cut: Any, result: str) -> None:
    """No two ranks have the same places of what is shared out, also where inner axes cannot be cut."""
    text = f"function (A[M, N]) -> (P) {{ B = reshape(A, M * N); {result}; }}"
    array = np.random.default_rng(0).integers(-9, 9, shape, np.int32)
    function = infer(parse(text), types_of({"A": array}))
    program = partition(function, Mesh({"x": 2, "y": 2}), {"A": Sharding(cut)}, {"P": Sharding(())})
    assert_partitioned(program, function, {"A": array})


@examples(40)
@given(problems(), st.data())
def test_contractions_with_mixed_indices_fractions_constraints_and_defaults(problem: Any, data: st.DataObject) -> None:
    try:
        function = infer(parse(problem.text), types_of(problem.inputs))
    except TileError:
        assume(condition=False)
    inputs = {name: np.round(2 * array) for name, array in problem.inputs.items()}
    assert_partitioned(data.draw(partitioned(function)), function, inputs)


@examples(40)
@given(cases(largest_size=5, empty=True), st.data())
def test_programs(case: Any, data: st.DataObject) -> None:
    function = infer(case.function, types_of(case.inputs))
    assert_partitioned(data.draw(partitioned(function)), function, case.inputs)


@examples(40)
@given(compositions(), st.data())
def test_compositions_of_operations(composition: Any, data: st.DataObject) -> None:
    shape = data.draw(shapes(composition.rank))
    array = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float64)
    try:
        composition.expected(array)
    except UnfitError:
        assume(condition=False)
    function = infer(composition.function(), {"X": TensorType(DType.F64, shape)})
    assert_partitioned(data.draw(partitioned(function)), function, {"X": array})


@examples(20)
@given(functions(), st.sampled_from([ANY_MODEL, NEAR]), st.data())
def test_loops(function: Any, model: HardwareModel, data: st.DataObject) -> None:
    assert_partitioned(data.draw(partitioned(function, model)), function, arguments(function))


@examples(30)
@given(problems("+", ("none", "mul", "add")), st.data())
def test_gradients(problem: Any, data: st.DataObject) -> None:
    """A gradient is partitioned as any program, and so is the gradient of a partitioned program."""
    try:
        function = infer(parse(problem.text), types_of(problem.inputs))
    except TileError:
        assume(condition=False)
    inputs = {name: np.round(2 * array) for name, array in problem.inputs.items()}
    backward = gradient(function, problem.wrt, ("O",), even_ties=False)
    assert_partitioned(data.draw(partitioned(backward)), backward, inputs)
    forward = data.draw(partitioned(function)).function
    again = gradient(forward, problem.wrt, ("O",), even_ties=False)
    assert_partitioned(data.draw(partitioned(again)), backward, inputs)


def program_of(text: str, mesh: Mesh, shardings: dict[str, Any], outputs: Any = None, **shapes: Any) -> Partitioned:
    function = infer(parse(text), {name: TensorType(DType.F32, shape) for name, shape in shapes.items()})
    asked, results = ({n: Sharding(entries) for n, entries in each.items()} for each in (shardings, outputs or {}))
    return partition(function, mesh, asked, results)


PRODUCT = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
SIZES = {"A": (4, 6), "B": (6, 8)}
TWO = Mesh({"x": 2})


def collectives(program: Partitioned) -> list[str]:
    return [str(each) for each in program.collectives]


def test_rows_of_a_product_need_no_exchange() -> None:
    assert collectives(program_of(PRODUCT, TWO, {"A": ("x", None)}, **SIZES)) == []
    assert collectives(program_of(PRODUCT, TWO, {"B": (None, "x")}, **SIZES)) == []


def test_a_sum_that_is_shared_out_is_reduced() -> None:
    program = program_of(PRODUCT, TWO, {"A": (None, "x"), "B": ("x", None)}, {"C": (None, None)}, **SIZES)
    assert collectives(program) == ["C: f32[4, 8] = all_reduce(C_part) over x from [0:4, 0:8] to [0:4, 0:8] by add"]


def test_a_sum_whose_result_is_asked_for_in_parts_is_reduced_and_scattered() -> None:
    program = program_of(PRODUCT, TWO, {"A": (None, "x"), "B": ("x", None)}, {"C": ("x", None)}, **SIZES)
    (made,) = collectives(program)
    assert made == "C: f32[4, 8] = reduce_scatter(C_part) over x from [0:4, 0:8] to [x 0:2 2:4, 0:8] by add"


def test_a_stencil_reads_a_halo() -> None:
    text = "function (A[N]) -> (S) { S[i : N] = +(A[i + k - 1]), k < 3; }"
    program = program_of(text, TWO, {"A": ("x",)}, A=(10,))
    (made,) = collectives(program)
    assert made == "A_S: f32[10] = halo(A) over x from [x 0:5 5:10] to [x 0:6 4:10]"
    assert traffic(program.collectives[0], TWO, {"A": DType.F32}) == 2 * 4


@pytest.mark.parametrize(
    ("target", "kind"),
    [((None, None), "all_gather"), ((None, "x"), "all_to_all")],
)
def test_results_are_laid_out_as_they_are_asked_for(target: Any, kind: str) -> None:
    text = "function (A[N, M]) -> (B) { B = A + A; }"
    program = program_of(text, TWO, {"A": ("x", None)}, {"B": target}, A=(4, 6))
    assert [each.kind.value for each in program.collectives] == [kind]


def test_places_that_ranks_swap_are_permuted() -> None:
    text = "function (A[N]) -> (B) { B[i : N] = =(A[N - 1 - i]); }"
    program = program_of(text, TWO, {"A": ("x",)}, {"B": ("x",)}, A=(4,))
    assert [each.kind.value for each in program.collectives] == ["permute"]


def test_what_is_not_spread_is_told() -> None:
    text = "function (A[N]) -> (B) { B = argsort(A, 0); }"
    program = program_of(text, Mesh({"x": 3}), {"A": ("x",)}, A=(4,))  # for which no rounds are worth it
    (remark,) = program.remarks
    assert remark.value == program.function.outputs[0]
    assert remark.message == "each rank along x computes all of this argsort, and reads all of A"


@pytest.mark.parametrize(
    ("shardings", "outputs", "message"),
    [
        ({"D": ("x", None)}, {}, "there is no value 'D' to shard"),
        ({}, {"A": ("x", None)}, "there is no result 'A' to shard"),
        ({"A": ("x",)}, {}, r"the sharding \(x\) of 'A' has 1 entries, but the tensor 2 axes"),
    ],
)
def test_shardings_of_what_is_not_there(shardings: Any, outputs: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        program_of(PRODUCT, TWO, shardings, outputs, **SIZES)
    assert caught.value.diagnostics[0].code == "TIL352"


@examples(60)
@given(tuple_cases(), st.data())
def test_tuple_reductions(case: Any, data: st.DataObject) -> None:
    program = data.draw(partitioned(case.function))
    verify(program)
    assert_components(case, tuple(interpret_partitioned(program, {"X": case.data}).values()))


def test_parts_of_a_tuple_reduction_are_merged_once_for_all_results() -> None:
    text = "function (A[N]) -> (M, P) { S = reduce_argmax(A, 0); M = element(S, 0); P = element(S, 1); }"
    program = program_of(text, TWO, {"A": ("x",)}, A=(5,))
    assert [len(each.inputs) for each in program.collectives] == [2, 2]
    assert len({each.inputs for each in program.collectives}) == 1
    assert program.remarks == ()


def test_what_is_sorted_is_cut_along_another_axis() -> None:
    text = "function (A[N, M]) -> (B) { B = argsort(A, 0); }"
    program = program_of(text, TWO, {"A": ("x", None)}, A=(4, 6))
    assert [each.kind.value for each in program.collectives] == ["all_to_all"]
    assert program.remarks == ()


ATTENTION = """function (Q[B, N, D], K[B, M, D], V[B, M, D]) -> (O) {
    S[b, n, m : B, N, M] = +(Q[b, n, d] * K[b, m, d]);
    T[b, n, 0 : B, N, 1] = >(S[b, n, m]);
    E = exp(S - T);
    L[b, n, 0 : B, N, 1] = +(E[b, n, m]);
    P = E / L;
    O[b, n, d : B, N, D] = +(P[b, n, m] * V[b, m, d]);
}"""
HEAT = """function (U[H, W]) -> (R) {
    S[y, x : H, W] = +(U[y + j - 1, x]), j < 3;
    T[y, x : H, W] = +(S[y, x + j - 1]), j < 3;
    R = U + 0.1 * (T - 9 * U);
}"""


@pytest.mark.parametrize(
    ("text", "shardings", "shapes", "halo"),
    [
        (ATTENTION, dict.fromkeys("QKV", ("x", None, "y")), dict.fromkeys("QKV", (4, 6, 8)), 0),
        (ATTENTION, {"Q": (None, ("x", "y"), None)}, dict.fromkeys("QKV", (2, 8, 4)), 0),
        (HEAT, {"U": ("x", "y")}, {"U": (16, 12)}, 2),
        (PRODUCT, {"A": ("x", None), "B": (None, "y")}, {"A": (8, 6), "B": (6, 4)}, 0),
    ],
    ids=["heads", "queries", "heat", "product"],
)
def test_ranks_hold_no_more_than_their_parts(text: str, shardings: Any, shapes: Any, halo: int) -> None:
    """A value that depends on an axis that is cut is cut, on each rank, but for the places around its part."""
    mesh = Mesh({"x": 2, "y": 2})
    program = program_of(text, mesh, shardings, **shapes)
    assert program.remarks == ()
    defined = {each.name: each.shape for each in (*program.function.inputs, *program.function.operations)}
    for name, placement in program.placements:
        cut = {axis for split in placement.layout for axis in split.axes} | set(placement.partial)
        whole_inputs = name in shapes and name not in shardings
        assert whole_inputs or cut or not defined[name] or is_merged(program, name), name
        for split, size in zip(placement.layout, defined[name], strict=True):
            most = -(-size // mesh.extent(split.axes)) + halo * bool(split.axes)
            assert all(high - low <= most for low, high in split.intervals), name


def is_merged(program: Partitioned, name: str) -> bool:
    """Return whether each rank has all of a value because parts of it were merged."""
    return any(each.name == name and each.kind.merges for each in program.collectives)


def test_masks_are_made_in_the_parts_that_are_needed() -> None:
    text = "function (A[N, M]) -> (B) { B = index(A, 0) < index(A, 1) ? A : 0; }"
    program = program_of(text, TWO, {"A": ("x", None)}, A=(4, 6))
    split = program.layout("A")
    shapes = {each.name: each.shape for each in program.function.operations}
    assert {program.layout(name) for name, shape in shapes.items() if shape} == {split}


@pytest.mark.parametrize("cut", [("x", None), (None, "x")])
def test_a_value_that_is_data_and_indices_is_read_in_two_parts(cut: Any) -> None:
    """One operand of a gather is split, and the other whole, though both are one value."""
    array = np.array([[1, 0, 2], [2, 2, 1], [0, 1, 1], [2, 0, 0]], np.int32)
    function = infer(parse("function (A[N, M]) -> (B) { B = gather(A, A); }"), {"A": TensorType(DType.I32, (4, 3))})
    program = partition(function, TWO, {"A": Sharding(cut)})
    np.testing.assert_array_equal(interpret_partitioned(program, {"A": array})["B"], array[array])


LOOP = """function (S, X) -> (H, L) {
    R = scan(S; X) function (A, B) -> (C, D) { C = A * 2 + B; D = C + 1; };
    H = element(R, 0);
    L = element(R, 1);
}"""
MIXED = "function (S, X) -> (H) { H = scan(S; X) function (A, B) -> (C) { T[] = +(A[i]); C = A + B * T; }; }"


def test_loops_run_on_parts_of_axes_that_no_step_mixes() -> None:
    program = program_of(LOOP, TWO, {"S": ("x",), "X": (None, "x")}, S=(5,), X=(3, 5))
    assert program.collectives == ()
    assert program.remarks == ()
    results = [program.layout(name) for name in program.function.outputs]
    assert all(layout[-1] == program.layout("S")[0] for layout in results)


def test_loops_whose_steps_mix_an_axis_run_whole() -> None:
    program = program_of(MIXED, TWO, {"S": ("x",), "X": (None, "x")}, S=(5,), X=(3, 5))
    assert {each.kind.value for each in program.collectives} == {"all_gather"}
    assert "computes all of this scan" in program.remarks[0].message


def test_ranks_meet_in_steps_where_that_is_cheap() -> None:
    function = infer(parse(MIXED), {"S": TensorType(DType.F32, (5,)), "X": TensorType(DType.F32, (3, 5))})
    cuts = {"S": Sharding(("x",)), "X": Sharding((None, "x"))}
    program = partition(function, TWO, cuts, model=NEAR)
    assert (program.collectives, program.remarks) == ((), ())
    (exchange,) = program.exchanges()
    assert (exchange.collective.kind.value, exchange.size) == ("all_reduce", 3 * 8)
    with pytest.raises(ArgumentError, match="TIL353"):
        partition(function, TWO, cuts, model=NEAR, reshard=False)


@examples(40)
@given(st.sampled_from([LOOP, MIXED]), st.integers(0, 3), st.integers(1, 5), st.integers(1, 4), st.data())
def test_loops_over_batches(text: str, steps: int, rows: int, columns: int, data: st.DataObject) -> None:
    kept = (rows,) if text is MIXED else (rows, columns)
    shapes = {"S": kept, "X": (steps, *kept)}
    function = infer(parse(text), {name: TensorType(DType.F64, shape) for name, shape in shapes.items()})
    random = np.random.default_rng(0)
    inputs = {name: random.integers(-2, 3, shape).astype(np.float64) for name, shape in shapes.items()}
    model = data.draw(st.sampled_from([ANY_MODEL, NEAR]))
    assert_partitioned(data.draw(partitioned(function, model)), function, inputs)
    backward = gradient(function, tuple(shapes), function.outputs, even_ties=False)
    assert_partitioned(data.draw(partitioned(backward, model)), backward, inputs)


def test_weights_of_loops_are_given_to_each_rank() -> None:
    text = (
        "function (H[B, N], X[T, B, I], W[I, N]) -> (O) { O = scan(H; X; W) function (A, E, V) -> (C) "
        "{ P[b, n : 4, 3] = +(E[b, i] * V[i, n]); C = tanh(A + P); }; }"
    )
    shardings = {"H": ("x", None), "X": (None, "x", None), "W": ("x", None)}
    program = program_of(text, TWO, shardings, H=(4, 3), X=(2, 4, 5), W=(5, 3))
    assert [(each.kind.value, each.input) for each in program.collectives] == [("all_gather", "W")]
    assert program.layout("O") == program.layout("H")
