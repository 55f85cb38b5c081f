"""Lines of stages lead to the statements that they came of, and changes are those lines that are new."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tileir_studio.views.explorer import stages_of, view_of
from tileir_studio.views.snapshot import MOST_COMPARED, Snapshot, changed_lines, snapshot_of
from tileir_studio.views.subject import Subject

if TYPE_CHECKING:
    from pathlib import Path

LAYER: Final = """\
function (X[B, I], W[I, O], Bias[O]) -> (Y, Mean) {
    Sum[b, o : B, O] = +(X[b, i] * W[i, o]);
    Y = tanh(Sum + Bias);
    Total[o : O] = +(Y[b, o]);
    Mean = Total / 7.0;
}
"""
VALUES: Final = (("X", "f32[20, 30]"), ("W", "f32[30, 33]"), ("Bias", "f32[33]"))

LOOP: Final = """\
function (S, Xs) -> (Last) {
    Last = scan (S; Xs;) function (C, X) -> (N) { N = C * 0.5 + X; };
}
"""


def snapshot(folder: Path, text: str = LAYER, values: tuple[tuple[str, str], ...] = VALUES, **more: str) -> Snapshot:
    return snapshot_of(Subject(text, values, **more), folder)


@pytest.mark.parametrize("device", ["llvm.0", "opencl.0"])
def test_each_stage_knows_all_statements(tmp_path: Path, device: str) -> None:
    found = snapshot(tmp_path, device=device)
    for name, stage in stages_of(found).items():
        if name == "code.ptx":
            continue
        view = view_of(stage)
        lines = view.text.count("\n") + 1
        assert {number for region in view.regions for number in region.statements} == {0, 1, 2, 3}, name
        assert all(0 <= region.first < region.last <= lines for region in view.regions), name


def test_comments_above_a_kernel_of_generated_code_belong_to_it(tmp_path: Path) -> None:
    view = view_of(stages_of(snapshot(tmp_path, device="opencl.0"))["code.opencl"])
    lines = view.text.split("\n")
    assert view.regions
    for region in (region for region in view.regions if region.last > region.first + 1):
        assert lines[region.first].startswith("// ")
        assert lines[region.last - 1] == "}"


FUSED: Final = """\
function (A[M, K], B[K, N]) -> (Y, Z) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    D = tanh(C);
    Y = D * 2.0;
    Z[i : M] = +(Y[i, j]);
}
"""


@pytest.mark.parametrize(("device", "name"), [("llvm.0", "sem"), ("opencl.0", "sem"), ("opencl.0", "code.opencl")])
def test_lines_of_a_kernel_of_several_statements_lead_to_one(tmp_path: Path, device: str, name: str) -> None:
    found = snapshot(tmp_path, FUSED, (("A", "f32[20, 30]"), ("B", "f32[30, 40]")), device=device)
    view = view_of(stages_of(found)[name])
    lines = view.text.split("\n")
    kernels = [region for region in view.regions if region.last > region.first + 1]
    inner = {(region.first, lines[region.first].strip()): region.statements for region in view.regions}
    inner = {key: statements for key, statements in inner.items() if len(statements) == 1 and " = " in key[1]}
    assert {number for statements in inner.values() for number in statements} >= {0, 2}
    for (line, text), (number,) in inner.items():
        written = "CDYZ"[number]
        before = text.partition(" = ")[0]
        assert re.search(rf"\b{written}(_acc|_lanes|_\d+)*\b", before), text
        assert any(region.first <= line < region.last and number in region.statements for region in kernels)


def test_a_line_of_the_typed_stage_leads_to_its_statement(tmp_path: Path) -> None:
    view = view_of(stages_of(snapshot(tmp_path))["typed"])
    lines = view.text.split("\n")
    found = {lines[region.first].strip().partition(":")[0]: region.statements for region in view.regions}
    assert found["Sum"] == (0,)
    assert found["Y"] == (1,)
    assert found["Total"] == (2,)
    assert found["Mean"] == (3,)


def test_scalars_of_blocks_lead_to_one_statement(tmp_path: Path) -> None:
    stages = stages_of(snapshot(tmp_path))
    view = view_of(stages[[name for name in stages if name.startswith("stripe.")][-1]])
    lines = view.text.split("\n")
    inner = {
        lines[region.first].strip(): region.statements for region in view.regions if region.last == region.first + 1
    }
    assert {statements for line, statements in inner.items() if "tanh" in line} == {(1,)}
    assert {statements for line, statements in inner.items() if "mul(" in line} == {(0,)}


def test_steps_of_loops_lead_to_the_scan(tmp_path: Path) -> None:
    found = snapshot(tmp_path, LOOP, (("S", "f32[64]"), ("Xs", "f32[10, 64]")))
    for name in ("typed", "stripe", "sem"):
        assert {r.statements for r in view_of(stages_of(found)[name]).regions} == {(0,)}, name


def test_a_pass_that_did_nothing_changed_no_line(tmp_path: Path) -> None:
    stages = stages_of(snapshot(tmp_path))
    views = {name: (stage.entry.changed, view_of(stage).changes) for name, stage in stages.items()}
    passes = {name: view for name, view in views.items() if name.startswith("stripe.")}
    assert {bool(changes) for changed, changes in passes.values() if not changed} == {False}
    assert sum(bool(changes) for _, changes in passes.values()) >= 4


def test_changed_lines() -> None:
    assert changed_lines("a\nb\nc", "a\nb\nc") == ()
    assert changed_lines("a\nb\nc", "a\nx\nc") == ((1, 2),)
    assert changed_lines("a\nb\nc", "a\nc") == ()
    assert changed_lines("a\nc", "a\nb\nc") == ((1, 2),)
    assert changed_lines("a\na", "a\na\na") == ((2, 3),)
    assert changed_lines("", "a") == ((0, 1),)
    assert changed_lines("1\n2\n3\n4\n5", "1\nx\n3\ny\n5") == ((1, 2), (3, 4))


def test_long_texts_change_as_a_whole() -> None:
    before = "\n".join(f"a{number}" for number in range(MOST_COMPARED))
    after = "\n".join(f"a{number}" if number % 2 else "b" for number in range(MOST_COMPARED))
    assert changed_lines(before, after) == ((0, MOST_COMPARED - 1),)
