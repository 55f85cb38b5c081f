"""The graph and the order, users and lives of values."""

import networkx as nx
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.dtype import DType
from tileir.tile.text.parser import parse
from tileir.typed.dataflow import alive, definitions, last_uses, order, users, with_operands
from tileir.typed.inference.inference import infer
from tileir.typed.ir import Function, TensorType, operands

TEXT = """function (A[N], B[N]) -> (O, P) {
  X = A * B;
  Y = X + A;
  Dead = exp(Y);
  P[] = +(Y[i]);
  O[i : N] = =(X[i] + X[i]) default Y;
}"""


@pytest.fixture
def function() -> Function:
    vector = TensorType(DType.F32, (3,))
    return infer(parse(TEXT), {"A": vector, "B": vector})


def test_graph_is_frozen_and_in_program_order(function: Function) -> None:
    graph = function.graph()
    assert list(graph) == ["A", "B", "X", "Y", "Dead", "P", "O"]
    assert list(graph.edges) == [
        ("A", "X"), ("A", "Y"), ("B", "X"), ("X", "Y"), ("X", "O"), ("Y", "Dead"), ("Y", "P"), ("Y", "O"),
    ]  # fmt: skip
    assert graph.nodes["A"]["definition"] is function.inputs[0]
    assert graph.nodes["X"] == {
        "kind": "mul",
        "label": "X: f32[3] = mul(A, B)",
        "definition": function.operations[0],
        "position": 0,
        "last_use": 4,
        "output": False,
    }
    with pytest.raises(nx.NetworkXError):
        graph.add_node("Z")


def test_users_and_order(function: Function) -> None:
    assert users(function)["X"] == ("Y", "O")
    assert users(function)["Dead"] == ()
    assert order(function) == {"A": -1, "B": -1, "X": 0, "Y": 1, "Dead": 2, "P": 3, "O": 4}


def test_lives(function: Function) -> None:
    assert last_uses(function) == {"A": 1, "B": 0, "X": 4, "Y": 4, "Dead": 2, "P": 5, "O": 5}
    assert alive(function) == {"A", "B", "X", "Y", "P", "O"}


@examples(50)
@given(cases())
def test_views_agree(case: Case) -> None:
    function = case.typed()
    graph = function.graph()
    assert nx.is_directed_acyclic_graph(graph)
    assert list(graph) == list(definitions(function))
    for name, readers in users(function).items():
        assert tuple(graph.successors(name)) == readers
    reached = set(function.outputs).union(*(nx.ancestors(graph, name) for name in function.outputs))
    assert alive(function) == reached


@examples(50)
@given(cases())
def test_operands_can_be_replaced(case: Case) -> None:
    for operation in case.typed().operations:
        names = {name: f"{name}_new" for name in operands(operation)}
        assert operands(with_operands(operation, names)) == tuple(names[name] for name in operands(operation))
        assert with_operands(operation, {"absent": "x"}) is operation
