"""Reverse sweeps as a whole: what is emitted, how work is shared, and how much there is."""

from __future__ import annotations

from tileir.core.dtype import DType
from tileir.core.ops import Aggregation, Combination
from tileir.tile.parser import parse
from tileir.typed.inference import infer
from tileir.typed.ir import Contraction, Function, TensorType
from tileir.typed.simplifier import simplify
from tileir.typed.verifier import verify


def typed(text: str, **shapes: tuple[int, ...]) -> Function:
    function = infer(parse(text), {name: TensorType(DType.F64, shape) for name, shape in shapes.items()})
    verify(function)
    return simplify(function)


def test_gradient_of_a_product_of_matrices_is_the_two_contractions() -> None:
    text = """
    function (A[M, K], B[K, N], D[M, N]) -> (DA, DB) {
        C[i, j : M, N] = +(A[i, k] * B[k, j]);
        G = vjp(C, D, A, B);
        DA = element(G, 0);
        DB = element(G, 1);
    }"""
    function = typed(text, A=(2, 3), B=(3, 4), D=(2, 4))
    assert len(function.operations) == 2
    for operation in function.operations:
        assert isinstance(operation, Contraction)
        assert (operation.aggregation, operation.combination) == (Aggregation.SUM, Combination.MUL)
