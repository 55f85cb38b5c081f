"""The graphs of programs at every stage, and their pictures and files."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given

import tileir
from strategies import loops, typed_text
from strategies.effort import examples
from strategies.tile import Case, cases
from tileir.core.errors import TileError
from tileir.semtree.text.parser import parse_program
from tileir.stripe import ir as stripe
from tileir.typed.ir import Function
from tileir_cli import main as cli
from tileir_cli.drawing.files import FORMATS, plain
from tileir_cli.drawing.svg import MOST_NODES, to_svg

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """function (A[M, K], B[K, N], Bias[N]) -> (D, Loss) {
  constant Low = 0.5;
  C[i, j : M, N] = +(A[i, k] * B[k, j]);
  E = C + Bias;
  D = E < Low ? 0.0 : E;
  S = D * D;
  Loss[] = +(S[i, j]) default Low;
}"""
TYPES = {"A": "f32[4, 5]", "B": "f32[5, 6]", "Bias": "f32[6]"}
STAGES = ("tile", "typed", "stripe", "scheduled", "sem")
ATTRIBUTES = {"kind": str, "label": str, "position": int, "output": bool}


@pytest.fixture(scope="module")
def executable() -> tileir.Executable:
    return tileir.compile(TEXT.replace(" default Low", ""), TYPES)


def check(graph: nx.DiGraph[str]) -> None:
    """Assert what holds of every graph."""
    assert nx.is_frozen(graph)
    assert nx.is_directed_acyclic_graph(graph)
    places = {name: place for place, name in enumerate(graph)}
    assert all(places[source] < places[target] for source, target in graph.edges)
    positions = [data["position"] for _, data in graph.nodes(data=True)]
    assert positions == sorted(positions)
    for _, data in graph.nodes(data=True):
        assert all(type(data[name]) is kind for name, kind in ATTRIBUTES.items())
        assert "definition" in data
    ElementTree.fromstring(to_svg(graph))
    again = nx.node_link_graph(json.loads(FORMATS["json"](graph)), edges="edges")
    assert list(again.nodes(data=True)) == list(plain(graph).nodes(data=True))
    assert list(again.edges(data=True)) == list(graph.edges(data=True))


@examples(10)
@given(cases())
def test_graphs_of_generated_programs(case: Case) -> None:
    executable = tileir.compile(case.function, case.types)
    for stage in STAGES:
        program = getattr(executable, stage)
        check(program.graph())
        assert list(program.graph().nodes) == list(program.graph().nodes)
        made = {name for name, data in program.graph().nodes(data=True) if data["output"]}
        assert len(made) == len(executable.outputs)


@examples(8)
@given(loops.functions())
def test_graphs_of_generated_loops(function: Function) -> None:
    executable = tileir.compile(function)
    for stage in STAGES[1:]:
        check(getattr(executable, stage).graph())


@examples(50)
@given(typed_text.functions())
def test_graphs_of_strange_names_are_drawn(function: Function) -> None:
    graph = function.graph()
    ElementTree.fromstring(to_svg(graph.subgraph(list(graph))))
    FORMATS["dot"](graph).encode(errors="surrogatepass")
    json.loads(FORMATS["json"](graph))


def test_tile() -> None:
    graph = tileir.parse(TEXT).graph()
    assert list(graph) == ["A", "B", "Bias", "Low", "C", "E", "D", "S", "Loss"]
    assert list(graph.edges) == [
        ("A", "C"), ("B", "C"), ("Bias", "E"), ("Low", "D"), ("Low", "Loss"), ("C", "E"), ("E", "D"), ("D", "S"),
        ("S", "Loss"),
    ]  # fmt: skip
    assert [data["kind"] for _, data in graph.nodes(data=True)][2:6] == [
        "input",
        "constant",
        "contraction",
        "assignment",
    ]
    assert [name for name, data in graph.nodes(data=True) if data["output"]] == ["D", "Loss"]
    assert graph.nodes["E"]["label"] == "E = C + Bias;"
    assert graph.nodes["E"]["definition"] == tileir.parse(TEXT).statements[2]


def test_typed(executable: tileir.Executable) -> None:
    graph = executable.typed.graph()
    assert graph.nodes["E"]["label"] == "E: f32[4, 6] = add(C, Bias)"
    assert graph.nodes["E"]["kind"] == "add"
    assert graph.nodes["C"]["kind"] == "contraction"


@pytest.mark.parametrize("stage", ["stripe", "sem"])
def test_works_are_linked_by_the_memory_that_they_hand_on(executable: tileir.Executable, stage: str) -> None:
    graph = getattr(executable, stage).graph()
    assert list(graph)[:3] == ["A", "B", "Bias"]
    assert list(graph)[-2:] == ["D", "Loss"]
    for name in ("A", "B", "Bias"):
        assert graph.nodes[name]["kind"] == "input"
        assert all(data["memory"] == name for _, _, data in graph.out_edges(name, data=True))
    first = next(name for name, data in graph.nodes(data=True) if data["kind"] == "launch")
    assert first == "work_0"
    assert nx.has_path(graph, "A", "Loss")
    assert not nx.has_path(graph, "Loss", "D")


def test_loops_and_branches_hold_works() -> None:
    program = parse_program("""program {
      input bool P[];
      input f32 A[4];
      output f32 O[4];
      temporary f32 T[4];
      kernel one(in f32 X[4] noalias, out f32 Y[4] noalias) grid(1) { Y[0] = X[0]; }
      kernel two(inout f32 Y[4] noalias) grid(1) { Y[0] = Y[0] + 1.0; }
      launch 0(A, T);
      repeat 3 { launch 1(T); }
      if (P) { launch 0(T, O); } else { launch 0(A, O); }
    }""")
    graph = program.graph()
    inside = {name: data["inside"] for name, data in graph.nodes(data=True)}
    assert list(graph) == ["P", "A", *(f"work_{n}" for n in range(6)), "O"]
    assert [inside[f"work_{n}"] for n in range(6)] == ["", "", "work_1", "", "work_3", "work_3"]
    assert {(s, t): data["memory"] for s, t, data in graph.edges(data=True)} == {
        ("A", "work_0"): "A",
        ("work_0", "work_2"): "T",
        ("work_1", "work_2"): "",
        ("P", "work_3"): "P",
        ("work_0", "work_4"): "T",
        ("work_2", "work_4"): "T",
        ("work_3", "work_4"): "",
        ("A", "work_5"): "A",
        ("work_3", "work_5"): "",
        ("work_4", "O"): "O",
        ("work_5", "O"): "O",
    }


def test_what_steps_carry_is_handed_on() -> None:
    text = "function (A: f32[3, 2], Z: f32[2]) -> (T) {\n T_step = function (C: f32[2], R: f32[2]) -> (N) {\n"
    text += " N: f32[2] = add(C, R)\n }\n T: f32[2] = scan T_step(Z; A; ) 3 times: final 0\n}"
    graph = tileir.compile(text, passes="plain").stripe.graph()
    assert nx.has_path(graph, "A", "T")
    assert nx.has_path(graph, "Z", "T")
    kinds = [data["kind"] for _, data in graph.nodes(data=True)]
    assert "loop" in kinds


def test_results_with_the_name_of_an_input_or_a_work() -> None:
    text = "function (#work_0) -> (O) { O = #work_0 + 1; }"
    graph = tileir.compile(text, [(3,)]).stripe.graph()
    assert next(iter(graph)) == "work_0"
    assert len(set(graph)) == graph.number_of_nodes() == 3
    assert isinstance(graph.nodes[list(graph)[1]]["definition"], stripe.Launch)


def test_a_picture_shows_names_kinds_and_whole_labels(executable: tileir.Executable) -> None:
    picture = to_svg(executable.typed.graph())
    root = ElementTree.fromstring(picture)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert "E" in texts
    assert "E: f32[4, 6] = add(C, Bias)" in titles
    assert "script" not in picture
    assert picture == to_svg(executable.typed.graph())


def test_of_large_graphs_the_first_nodes_are_drawn() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for number in range(MOST_NODES + 7):
        graph.add_node(f"n{number}", kind="neg", label="<&>", position=number, output=False)
        if number:
            graph.add_edge(f"n{number - 1}", f"n{number}")
    picture = to_svg(graph)
    assert "7 more are left out" in picture
    assert picture.count("<rect") == MOST_NODES + 1
    ElementTree.fromstring(to_svg(nx.DiGraph()))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["tileir", *map(str, arguments)])
    return cli.run()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stage", STAGES)
def test_the_command_writes_each_stage(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "program.tile"
    file.write_text(TEXT.replace(" default Low", ""), encoding="utf-8")
    values = [f"{name}={kind.replace(' ', '')}" for name, kind in TYPES.items()]
    for form in FORMATS:
        output = tmp_path / f"graph.{form}"
        assert run(monkeypatch, "graph", file, *values, "--stage", stage, "-o", output) == 0
        assert "Bias" in output.read_text(encoding="utf-8")
    assert run(monkeypatch, "graph", file, *values, "--stage", stage) == 0
    assert capsys.readouterr().out.startswith("digraph program {")
    assert run(monkeypatch, "graph", file, *values, "-o", tmp_path / "graph.png") == cli.FAULT
    assert "TIL902" in capsys.readouterr().err
    assert run(monkeypatch, "graph", file, *values, "-o", tmp_path / "no" / "graph.svg") == cli.FAULT
    assert "TIL901" in capsys.readouterr().err


@pytest.mark.parametrize("stage", STAGES)
def test_files_are_drawn_and_printed_at_their_own_stage(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    executable = tileir.compile("function (A[N]) -> (B) { B = A + 1.0; }", [(3,)], device="llvm.0")
    program = getattr(executable, stage)
    file, document = tmp_path / "program.txt", tmp_path / "program.json"
    file.write_text(tileir.to_text(program), encoding="utf-8")
    assert run(monkeypatch, "graph", file) == 0
    assert capsys.readouterr().out == FORMATS["dot"](program.graph())
    assert run(monkeypatch, "print", file) == 0
    assert capsys.readouterr().out == file.read_text(encoding="utf-8")
    assert run(monkeypatch, "print", file, "--json") == 0
    document.write_text(capsys.readouterr().out, encoding="utf-8")
    assert tileir.parse(document, stage="any") == tileir.parse(file, stage="any") == program
    assert run(monkeypatch, "print", document) == 0
    assert capsys.readouterr().out == file.read_text(encoding="utf-8")


def test_code_has_no_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.tile"
    file.write_text("function (A[N]) -> (B) { B = A + 1.0; }", encoding="utf-8")
    for words in (("--stage", "code"), ("--after", "all")):
        assert run(monkeypatch, "print", file, "A=f32[3]", "--json", *words) == cli.FAULT
        assert "TIL902" in capsys.readouterr().err


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(TileError, match=r"TIL901.*cannot read"):
        tileir.parse(tmp_path / "missing.tile")
    (tmp_path / "wrong.tile").write_text("function (A) -> (B) { B = A + ; }", encoding="utf-8")
    with pytest.raises(tileir.ParseError, match=r"wrong\.tile:1:"):
        tileir.parse(tmp_path / "wrong.tile")


def test_dot_quotes_what_it_must() -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_node('a"\\\n', kind="x", label='"', position=0, output=True)
    text = FORMATS["dot"](graph)
    assert '"a\\"\\\\\\n"' in text
    assert len(re.findall(r'(?<!\\)"', text)) % 2 == 0
