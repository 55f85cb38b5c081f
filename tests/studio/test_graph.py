"""The drawing of a data flow: who reads stands below, and nothing lies on something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tileir.core import TileError
from tileir_studio.views.explorer import MOST_NODES, graph_of, graph_of_snapshot, stage_called, view_of
from tileir_studio.views.snapshot import snapshot_of
from tileir_studio.views.subject import Subject

if TYPE_CHECKING:
    from pathlib import Path

    from tileir_studio.views.snapshot import Snapshot
    from tileir_studio.views.views import GraphView


def drawn(text: str, folder: Path, **values: str) -> GraphView:
    found = snapshot_of(Subject(text, tuple(values.items()), passes="plain"), folder)
    return graph_of(found.stages.typed, found.origins)


def check(view: GraphView) -> None:
    nodes = {node.name: node for node in view.nodes}
    taken = [(node.layer, node.slot) for node in view.nodes]
    for wire in view.wires:
        ends = [nodes[wire.source], nodes[wire.target]]
        assert [wire.places[0], wire.places[-1]] == [(node.layer, node.slot) for node in ends]
        assert [layer for layer, _ in wire.places] == list(range(ends[0].layer, ends[1].layer + 1))
        taken += wire.places[1:-1]
    assert len(set(taken)) == len(taken)
    assert sorted((wire.source, wire.target) for wire in view.wires) == sorted(
        (name, node.name) for node in view.nodes for name in node.reads
    )
    for node in view.nodes:
        assert 0 <= node.layer < view.layers
        assert 0 <= node.slot <= view.slots - 1
        assert all(nodes[name].layer < node.layer for name in node.reads)


def test_values_stand_below_what_they_read(tmp_path: Path) -> None:
    text = """
    function (A[M, K], B[K, N], C[N]) -> (D, E) {
        P[i, j : M, N] = +(A[i, k] * B[k, j]);
        D = P + C;
        E = exp(D) * P + 2.0;
    }
    """
    view = drawn(text, tmp_path, A="f32[4, 5]", B="f32[5, 6]", C="f32[6]")
    check(view)
    kinds = {node.name: node.kind for node in view.nodes}
    assert [kinds[name] for name in "ABCPDE"] == ["input", "input", "input", "value", "output", "output"]
    assert {node.name: node.statement for node in view.nodes}["D"] == 1
    assert {node.name: node.reads for node in view.nodes}["D"] == ("P", "C")
    assert "2.0" not in {node.label for node in view.nodes}


BLUR = """function (I[H, W], K[W, N]) -> (T) {
  S[y, x : H, W] = +(I[y + j - 1, x]), j < 3;
  [[shard(x, y)]] T[y, n : H, N] = +(S[y, x] * K[x, n]);
}"""


PRICE = "32 KiB, 20.7 us beside work, 256 ns of borders"


def of_ranks(mesh: str, folder: Path) -> Snapshot:
    values = (("I", "f32[2048, 2048]"), ("K", "f32[2048, 2048]"))
    return snapshot_of(Subject(BLUR, values, passes="plain", mesh=mesh), folder)


def test_ranks_of_a_mesh_have_their_parts_and_exchanges(tmp_path: Path) -> None:
    view = graph_of_snapshot(of_ranks("x=2, y=2", tmp_path))
    check(view)
    assert [(node.name, node.label, node.cut, node.exchange, node.statement) for node in view.nodes] == [
        ("I", "input: f32[2048, 2048]", "(x, whole)", "", None),
        ("K", "input: f32[2048, 2048]", "(whole, y)", "", None),
        ("I_S", f"halo: {PRICE}", "(x, whole)", "S reads I beyond the part of a rank along x", None),
        ("S", "add: f32[2048, 2048]", "(x, whole)", "", 0),
        ("T", "add of mul: f32[2048, 2048]", "(x, y)", "", 1),
    ]


def test_the_program_of_all_ranks_is_a_stage(tmp_path: Path) -> None:
    found = of_ranks("x=2,y=2", tmp_path)
    view = view_of(stage_called(found, "ranks"))
    lines = view.text.split("\n")
    assert lines[0] == "partition over x=2, y=2 {"
    assert [(lines[part.first].split(":")[0].strip(), part.statements) for part in view.regions] == [
        ("S", (0,)),
        ("T", (1,)),
    ]


@pytest.mark.parametrize(
    ("mesh", "message"), [("x", "'x' is no mesh"), ("x=2", "the sharding (x, y) of 'T' names the axis 'y'")]
)
def test_what_is_no_mesh_of_the_program_is_a_fault(mesh: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TileError) as caught:
        graph_of_snapshot(of_ranks(mesh, tmp_path))
    assert message in caught.value.diagnostics[0].message


@pytest.mark.sampled(0)
def test_wide_and_long_programs_are_cut_off(tmp_path: Path) -> None:
    steps = "".join(f"V{number} = sin(V{number - 1}) + V0; " for number in range(1, MOST_NODES))
    view = drawn(f"function (X[N]) -> (Y) {{ V0 = cos(X); {steps} Y = V{MOST_NODES - 1} * X; }}", tmp_path, X="f32[4]")
    check(view)
    assert len(view.nodes) == MOST_NODES
    assert view.omitted == 2 * MOST_NODES - MOST_NODES + 1
