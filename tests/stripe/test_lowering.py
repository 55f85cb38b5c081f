"""From typed functions to Stripe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from strategies.effort import examples
from strategies.tile import Case, assert_equal, cases
from strategies.work import calls
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.ops import Aggregation, Combination, Op
from tileir.poly.affine import Affine
from tileir.stripe.check.verifier import verify
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Direction
from tileir.stripe.lower.lowering import lower
from tileir.stripe.text.printer import to_text
from tileir.tile.text.parser import parse
from tileir.typed import ir as typed
from tileir.typed.inference.inference import infer
from tileir.typed.interpreter import interpret as interpret_typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileir.stripe.ir import Program

F32 = DType.F32
Array = np.ndarray[Any, Any]


def lowered(text: str, name: str = "program", **types: typed.TensorType) -> Program:
    program = lower(infer(parse(text), types), name)
    verify(program)
    return program


def f32(*shape: int) -> typed.TensorType:
    return typed.TensorType(F32, shape)


@examples(150)
@given(st.one_of(cases(), cases(special=True), cases(empty=True), cases(functions=True)))
def test_lowering_keeps_the_meaning(case: Case) -> None:
    function = case.typed()
    expected = interpret_typed(function, case.inputs)
    assert_equal(interpret(lower(function), case.inputs, seed=1), expected, case.tolerance)


def test_matrix_vector_product(golden: Callable[[str], None]) -> None:
    text = "function (W[N, M], X[M]) -> (Y) { Y[i : N] = +(W[i, j] * X[j]); }"
    golden(to_text(lowered(text, "main", W=f32(4, 3), X=f32(3))))


def test_convolution_with_padding(golden: Callable[[str], None]) -> None:
    text = "function (I[N], K[M]) -> (O) { O[x : N] = +(I[x + k - 1] * K[k]); }"
    golden(to_text(lowered(text, I=f32(8), K=f32(3))))


def test_softmax(golden: Callable[[str], None]) -> None:
    text = """function (X[N, M]) -> (S) {
        Top[i, 0 : N, 1] = >(X[i, j]);
        E = exp(X - Top);
        Sum[i, 0 : N, 1] = +(E[i, j]);
        [[pid(divide)]] S = E / Sum;
    }"""
    golden(to_text(lowered(text, X=f32(2, 3))))


def test_half_precision_sums_are_kept_in_single(golden: Callable[[str], None]) -> None:
    text = "function (A[N], D) -> (O) { O[2*i : 6] = +(A[i]) default D; }"
    half = DType.F16
    golden(to_text(lowered(text, A=typed.TensorType(half, (3,)), D=typed.TensorType(half, (6,)))))


def test_conditional_combination(golden: Callable[[str], None]) -> None:
    text = "function (A[N], B[N], C[N]) -> (O) { O[] = >(A[i] == B[i] ? C[i]); }"
    golden(to_text(lowered(text, A=f32(4), B=typed.TensorType(DType.I32, (4,)), C=f32(4))))


def test_indirection_coordinates_and_shapes(golden: Callable[[str], None]) -> None:
    text = """function (D[N, M], I[K]) -> (G, S, C, Z) {
        G = gather(D, I);
        S = scatter(G, I, D);
        C = index(D, 1);
        Z = shape(D);
    }"""
    golden(to_text(lowered(text, D=f32(4, 2), I=typed.TensorType(DType.I32, (3,)))))


def test_a_reshape_is_only_a_view() -> None:
    text = "function (A[N, M]) -> (O) { B = A + 1; C = reshape(B, 6); O = C * 2; }"
    program = lowered(text, A=f32(2, 3))
    assert len(program.main.statements) == 2
    reader = program.main.blocks[1]
    assert reader.refinements[0].source == "B"
    assert len(reader.refinements[0].shape.dims) == 1


def test_a_reshaped_result_is_written_in_place() -> None:
    text = "function (A[N, M]) -> (O) { B = A + 1; O = reshape(B, 6); }"
    program = lowered(text, A=f32(2, 3))
    assert [kernel.refinements[-1].source for kernel in program.main.blocks] == ["O"]
    assert [r.name for r in program.entry.refinements] == ["A", "O"]


def test_reshapes_of_parameters_and_of_results_are_copied() -> None:
    text = "function (A[N, M]) -> (O, P, Q) { O = reshape(A, 6); P = A + 1; Q = reshape(P, 3, 2); }"
    program = lowered(text, A=f32(2, 3))
    assert [kernel.refinements[-1].source for kernel in program.main.blocks] == ["O", "P", "Q"]


@pytest.mark.parametrize(
    ("size", "kernels"),
    [("N", 1), ("N + 1", 2), ("N - 1", 1)],
)
def test_zeros_are_stored_only_where_elements_may_stay_unwritten(size: str, kernels: int) -> None:
    text = f"function (A[N, M]) -> (O) {{ O[i : {size}] = +(A[i, j]); }}"
    assert len(lowered(text, A=f32(4, 3)).main.statements) == kernels


def test_an_empty_contraction_gives_just_the_zeros() -> None:
    program = lowered("function (A[N]) -> (O) { O[i : N] = *(A[i + 100]); }", A=f32(4))
    (kernel,) = program.main.blocks
    assert "fill" in kernel.tags


def test_tensors_without_elements_need_no_kernel() -> None:
    program = lowered("function (A[N], B[M]) -> (O, P) { O = A + 1; P[] = +(A[i] * B[i]); }", A=f32(0), B=f32(3))
    assert [kernel.refinements[-1].source for kernel in program.main.blocks] == ["P"]
    assert program.outputs == ("O", "P")


def test_main_reads_parameters_and_writes_the_rest() -> None:
    program = lowered("function (A[N]) -> (O) { T = A + 1; O[] = +(T[i]); }", A=f32(4))
    directions = {r.name: r.direction for r in program.main.refinements}
    assert directions == {"A": Direction.IN, "O": Direction.OUT, "T": Direction.OUT}


def test_one_tensor_at_two_places_has_two_views() -> None:
    program = lowered(
        "function (A[N]) -> (O) { O[i : N] = +(A[i] * A[0]); P = A * A; }".replace("P = A * A;", ""), A=f32(4)
    )
    assert [r.source for r in program.main.blocks[0].refinements] == ["A", "A", "O"]
    twice = lowered("function (A[N]) -> (O) { O = A * A; }", A=f32(4))
    assert [r.source for r in twice.main.blocks[0].refinements] == ["A", "O"]


def results(program: Program, **inputs: Array) -> list[list[float]]:
    return [array.reshape(-1).tolist() for array in interpret(program, inputs).values()]


def test_constants_can_be_results_under_any_shape() -> None:
    one = typed.Constant("C", F32, 1.5)
    shaped = typed.Reshape("R", "C", F32, (1, 1))
    program = lower(typed.Function((), ("C", "R"), (one, shaped)))
    assert [r.shape.sizes for r in program.entry.refinements] == [(), (1, 1)]
    assert results(program) == [[1.5], [1.5]]


def test_constants_can_be_inputs_defaults_indices_and_updates() -> None:
    i32 = DType.I32
    two, index = typed.Constant("two", F32, 2.0), typed.Constant("k", i32, -1)
    none = (Aggregation.SUM, Combination.NONE, F32, F32, F32)
    operations = (
        two,
        index,
        typed.Contraction("P", (Affine.index("i"),), (typed.Access("two", ()),), *none, (3,)),
        typed.Contraction("Q", (), (typed.Access("A", (Affine.constant(9),)),), *none, (), (), "two"),
        typed.Gather("G", "A", "k", F32, ()),
        typed.Scatter("S", "two", "k", F32, F32, (3,)),
    )
    program = lower(typed.Function((typed.Value("A", F32, (3,)),), ("P", "Q", "G", "S"), operations))
    array = np.array([5, 6, 7], np.float32)
    assert results(program, A=array) == [[2, 2, 2], [2], [5], [2, 0, 0]]


def test_scattered_halves_add_up_in_single() -> None:
    half, i32 = DType.F16, DType.I32
    scatter = typed.Scatter("S", "U", "I", F32, half, (2,))
    inputs = (typed.Value("U", half, (3,)), typed.Value("I", i32, (3,)))
    program = lower(typed.Function(inputs, ("S",), (scatter,)))
    updates = np.array([2048, 1, 1], np.float16)
    assert results(program, U=updates, I=np.zeros(3, np.int32)) == [[2050, 0]]


def test_nothing_to_gather_from_and_nothing_to_scatter_give_zeros() -> None:
    operations = (
        typed.Gather("G", "E", "I", F32, (2,)),
        typed.Scatter("S", "E", "N", F32, F32, (2,)),
    )
    inputs = (typed.Value("E", F32, (0,)), typed.Value("I", DType.I32, (2,)), typed.Value("N", DType.I32, (0,)))
    program = lower(typed.Function(inputs, ("G", "S"), operations))
    empty = np.zeros(0, np.float32)
    assert results(program, E=empty, I=np.zeros(2, np.int32), N=np.zeros(0, np.int32)) == [[0, 0], [0, 0]]


def test_equality_gives_bool() -> None:
    text = "function (A[N], B[N]) -> (O) { O[i : N] = =(A[i] == B[i]); }"
    program = lowered(text, A=f32(3), B=f32(3))
    result = interpret(program, {"A": np.array([1, 2, 3], np.float32), "B": np.array([1, 0, 3], np.float32)})["O"]
    assert (result.dtype, result.tolist()) == (np.dtype(bool), [True, False, True])


def test_indices_without_bounds_are_reported_together() -> None:
    i, j = Affine.index("i"), Affine.index("j")

    def bad(name: str) -> typed.Contraction:
        access = typed.Access("A", (i + j,))
        none = Combination.NONE
        return typed.Contraction(name, (), (access,), Aggregation.SUM, none, F32, F32, F32, ())

    function = typed.Function((typed.Value("A", F32, (4,)),), ("O",), (bad("P"), bad("O")))
    with pytest.raises(TileError) as caught:
        lower(function)
    assert {d.code for d in caught.value.diagnostics} == {"TIL401"}
    assert len(caught.value.diagnostics) >= 2


@pytest.mark.sampled(0)
def test_lowering_and_verifying_are_linear() -> None:
    def chain(length: int) -> typed.Function:
        operations = [
            typed.Elementwise(f"v{n}", Op.ADD, (f"v{n - 1}" if n else "A", "A"), F32, (4, 4)) for n in range(length)
        ]
        return typed.Function((typed.Value("A", F32, (4, 4)),), (f"v{length - 1}",), tuple(operations))

    small, large = chain(500), chain(2000)
    assert calls(lambda: verify(lower(large))) < 4.2 * calls(lambda: verify(lower(small)))
