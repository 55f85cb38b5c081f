"""Programs of other tools: graphs of networkx and syntax trees of Python, each by an importer of less than 60 lines.

The importers use public names alone, and mypy holds them to these in strict mode, as it does all tests.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import networkx as nx
import numpy as np
import pytest

import tileir
from tileir import ops
from tileir.tile import builder_functions as tf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Array = np.ndarray[Any, np.dtype[Any]]


def of_graph(graph: nx.MultiDiGraph[str]) -> tileir.Function:
    """Return the program of a graph whose nodes are inputs, constants and operations; edges say which operand."""
    builder = tileir.FunctionBuilder()
    made: dict[str, Any] = {}
    for name in nx.topological_sort(graph):
        node = dict(graph.nodes[name])
        kind = node.pop("op")
        edges: list[tuple[str, str, int]] = sorted(graph.in_edges(name, data="operand"), key=lambda edge: edge[2])
        operands = [made[source] for source, _, _ in edges]
        if kind == "input":
            made[name] = builder.input(name, *node["dims"])
        elif kind == "constant":
            made[name] = builder.constant(np.asarray(node["value"], np.float32))
        elif kind in ("add", "sub", "mul", "div"):
            first, second = operands
            symbols = {"add": first + second, "sub": first - second, "mul": first * second, "div": first / second}
            made[name] = symbols[kind]
        else:
            made[name] = getattr(ops, kind)(*operands, **node)
    return builder.build(**{name: made[name] for name, degree in graph.out_degree() if not degree})


class Importer(ast.NodeVisitor):
    """Makes a program of a function of NumPy: assignments, arithmetic, conditions, and calls that `ops` has as well."""

    BINARY: Final[Mapping[type[ast.AST], Callable[[Any, Any], Any]]] = {
        ast.Add: lambda a, b: a + b,
        ast.Sub: lambda a, b: a - b,
        ast.Mult: lambda a, b: a * b,
        ast.Div: lambda a, b: a / b,
        ast.MatMult: ops.matmul,
        ast.Pow: ops.pow,
        ast.Lt: lambda a, b: a < b,
        ast.Gt: lambda a, b: a > b,
    }

    def __init__(self, dims: Mapping[str, tuple[str, ...]]) -> None:
        self.builder = tileir.FunctionBuilder()
        self.values: dict[str, Any] = {name: self.builder.input(name, *axes) for name, axes in dims.items()}

    def visit_Assign(self, node: ast.Assign) -> None:
        assert isinstance(node.targets[0], ast.Name)
        self.values[node.targets[0].id] = self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        results = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        self.values["return"] = [self.visit(each) for each in results if each is not None]

    def visit_Name(self, node: ast.Name) -> Any:
        return self.values[node.id]

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return -self.visit(node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        return self.BINARY[type(node.op)](self.visit(node.left), self.visit(node.right))

    def visit_Compare(self, node: ast.Compare) -> Any:
        return self.BINARY[type(node.ops[0])](self.visit(node.left), self.visit(node.comparators[0]))

    def visit_Call(self, node: ast.Call) -> Any:
        assert isinstance(node.func, ast.Attribute)
        options = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
        function = tf.where if node.func.attr == "choose" else getattr(ops, node.func.attr)
        return function(*map(self.visit, node.args), **options)


def of_source(source: str, dims: Mapping[str, tuple[str, ...]]) -> tileir.Function:
    """Return the program of the one function that a text of Python defines."""
    importer = Importer(dims)
    (function,) = ast.parse(source).body
    importer.visit(function)
    return importer.builder.build(**{f"R{number}": each for number, each in enumerate(importer.values["return"])})


def graph_of(text: str) -> nx.MultiDiGraph[str]:
    """Return a graph of lines such as ``S: softmax X axis=1``, and ``X: input M N``."""
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for line in filter(None, map(str.strip, text.split(";"))):
        name, _, rest = line.partition(": ")
        kind, *words = rest.split()
        if kind == "input":
            graph.add_node(name, op=kind, dims=tuple(words))
        elif kind == "constant":
            graph.add_node(name, op=kind, value=ast.literal_eval(words[0]))
        else:
            options = [word.partition("=")[::2] for word in words if "=" in word]
            graph.add_node(name, op=kind, **{key: ast.literal_eval(value) for key, value in options})
            for number, word in enumerate(word for word in words if "=" not in word):
                graph.add_edge(word, name, operand=number)
    return graph


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


X: Final = "X: input M N;"
XY: Final = f"{X} Y: input M N;"
GRAPHS: Final[Mapping[str, tuple[str, Callable[..., Array]]]] = {
    "sum of squares": (f"{X} S: mul X X; R: sum S", lambda x: (x * x).sum()),
    "difference": (f"{XY} D: sub X Y; R: abs D", lambda x, y: np.abs(x - y)),
    "product": (f"{X} Y: input N K; R: matmul X Y", lambda x, y: x @ y),
    "diamond": (f"{X} A: exp X; B: tanh X; R: div B A", lambda x: np.tanh(x) / np.exp(x)),
    "rows": (f"{X} R: softmax X axis=1", softmax),
    "constant": (f"{X} C: constant [1,2,3,4]; R: mul X C", lambda x: x * np.arange(1, 5, dtype=np.float32)),
    "chain": (
        f"{X} A: relu X; B: sqrt A; C: add B X; R: maximum C A",
        lambda x: np.maximum(np.sqrt(r := np.maximum(x, 0)) + x, r),
    ),
    "transpose": (f"{X} T: transpose X; R: matmul T X", lambda x: x.T @ x),
    "columns": (f"{X} A: mean X axis=0; R: sub X A", lambda x: x - x.mean(axis=0)),
    "one operand twice": (f"{XY} A: div X Y; R: add A A", lambda x, y: 2 * (x / y)),
}
SOURCES: Final[Mapping[str, str]] = {
    "polynomial": "return 3.0 * X * X - 2.0 * X + 1.0",
    "layer": "return np.maximum(X @ W + B, 0.0)",
    "two layers": "H = np.tanh(X @ W)\n    return H @ np.transpose(W) + X",
    "norm": "return np.sqrt(np.sum(X * X, axis=1))",
    "centred": "M = np.mean(X, axis=0)\n    V = np.mean((X - M) ** 2.0, axis=0)\n    return (X - M) / np.sqrt(V + 0.5)",
    "condition": "return np.where(X < 0.25, -X, X * X)",
    "two results": "S = X + X\n    return np.exp(S), np.cos(S)",
    "names again": "A = X\n    A = A + 1.0\n    A = A * A\n    return A",
    "clipped": "return np.minimum(np.maximum(X, 0.1), 0.9)",
    "largest": "return np.max(X, axis=1) - np.min(X, axis=1)",
}
DIMS: Final[Mapping[str, tuple[str, ...]]] = {"X": ("M", "N"), "W": ("N", "K"), "B": ("K",)}
SHAPES: Final = {"M": 3, "N": 4, "K": 5}


def numbers(*axes: str) -> Array:
    generator = np.random.default_rng(len(axes) + 7)
    return generator.uniform(0.05, 1, tuple(SHAPES[axis] for axis in axes)).astype(np.float32)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_networkx(name: str) -> None:
    text, expected = GRAPHS[name]
    graph = graph_of(text)
    function = of_graph(graph)
    values = {node: numbers(*data["dims"]) for node, data in graph.nodes(data=True) if data["op"] == "input"}
    found = tileir.evaluate(function, values)
    np.testing.assert_allclose(found, expected(*values.values()), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tileir.jit(function)(**values), found, rtol=1e-5, atol=1e-6)
    back = function.graph()  # a graph of networkx again
    assert set(values) <= set(back)
    assert nx.is_directed_acyclic_graph(back)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SOURCES)
def test_syntax_trees_of_python(name: str) -> None:
    body = SOURCES[name]
    used = {each: axes for each, axes in DIMS.items() if re.search(rf"\b{each}\b", body)}
    source = f"def function({', '.join(used)}):\n    {body}\n"
    function = of_source(source, used)
    scope: dict[str, Any] = {"np": np}
    exec(source, scope)
    values = [numbers(*axes) for axes in used.values()]
    expected, found = scope["function"](*values), tileir.jit(function)(*values)
    pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
    for one, other in pairs:
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    assert tileir.parse(tileir.to_text(function)) == function


def test_importers_are_short() -> None:
    for importer in (of_graph, Importer):
        assert len(inspect.getsource(importer).splitlines()) < 60
    assert len(GRAPHS) + len(SOURCES) == 20
