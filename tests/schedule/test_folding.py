"""Line buffers: rows that a window slides along are made once, and lie in as few places as are live."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from strategies.passes import arrays_for, assert_same_meaning
from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.passes.base import run
from tileir.passes.pipelines.catalog import load_pipeline, parse_pipeline
from tileir.passes.pipelines.pipeline import to_json, to_text
from tileir.schedule.remarks import Remarks, listening
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower as lower_to_kernels
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType

if TYPE_CHECKING:
    from tileir.schedule.remarks import Remark
    from tileir.stripe.ir import Block, Program

BLUR = """function (A[M, N]) -> (C) {
    T[i, j : M - 2, N - 2] = +(A[i + 1, j + k]), k < 3;
    C[i, j : M - 4, N - 4] = +(T[i + k, j]), k < 3;
}"""


def before_of(text: str, *shape: int) -> Program:
    function = parse(text)
    types = {parameter.name: TensorType(DType.F32, shape) for parameter in function.inputs}
    return run(parse_pipeline("accumulate"), lower(infer(function, types)))


def after(program: Program, steps: str, kernel: str = "kernel_1") -> tuple[Program, Remark]:
    """Return what steps make of a kernel of a program, and what they say of it."""
    found = Remarks()
    with listening(found):
        made = run(parse_pipeline(f"script{{match={{kernel={kernel}}},steps=({steps})}}"), program)
    return made, next(remark for remark in reversed(found.all()) if remark.code != "TR724")


@attrs.frozen
class Window:
    """A stencil along the rows: so many terms, ``dilation`` rows apart, of every ``step``-th row."""

    terms: int
    step: int
    dilation: int

    @property
    def width(self) -> int:
        return (self.terms - 1) * self.dilation + 1

    def rows(self, outputs: int) -> int:
        """Return how many rows so many outputs are made of."""
        return (outputs - 1) * self.step + self.width

    def text(self, into: str, of: str, rows: int) -> str:
        row = f"{self.step}*i + {self.dilation}*k"
        return f"{into}[i, j : {rows}, N] = +({of}[{row}, j]), k < {self.terms};"

    def slides(self) -> bool:
        """Return whether neighbouring outputs have rows in common, or some between them."""
        return self.step < self.width

    def loses(self, outputs: int, by: int) -> bool:
        """Return whether a row is overwritten too early, found by filling and reading places in turn."""
        places: dict[int, int] = {}
        made = 0
        for output in range(outputs):
            last = output * self.step + self.width
            for row in range(made, last):
                places[row % by] = row
            made = last
            read = (output * self.step + self.dilation * term for term in range(self.terms))
            if any(places[row % by] != row for row in read):
                return True
        return False


WINDOWS = st.builds(Window, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))


def agrees(before: Program, made: Program) -> None:
    """Assert that both compute the same, by each interpreter with all checks."""
    assert_same_meaning(before, made)
    arrays = arrays_for(before)
    found = run_program(lower_to_kernels(made, Target()), arrays, ALL_CHECKS)
    for name, expected in interpret(before, arrays).items():
        np.testing.assert_array_equal(found[name], expected)


@given(window=WINDOWS, outputs=st.integers(1, 9), by=st.integers(1, 12), columns=st.integers(1, 3))
@examples(120)
def test_a_row_is_lost_where_and_only_where_the_step_says_so(
    window: Window, outputs: int, by: int, columns: int
) -> None:
    rows = window.rows(outputs)
    text = f"function (A[M, N]) -> (C) {{ T = A * A; {window.text('C', 'T', outputs)} }}"
    before = before_of(text, rows, columns)
    steps = f"compute_at{{tensor=T, at=i, into=line}}, fold{{memory=line, loop=i, by={by}, into=round}}"
    made, said = after(before, steps)
    if outputs == 1:  # no loop is left
        assert said.code == "TR701"
    elif not window.slides():
        assert said.code == "TR753"
    else:
        assert said.code == ("TR754" if window.loses(outputs, by) else "TR001")
    agrees(before, made)


@given(
    windows=st.lists(WINDOWS, min_size=2, max_size=3),
    outputs=st.integers(1, 7),
    block=st.integers(1, 5),
    tail=st.sampled_from(["guard", "peel", "pad"]),
    by=st.integers(2, 14),
    order=st.sampled_from(["", ", order=(1, 0)"]),
)
@examples(120)
def test_lines_of_lines_compute_the_same(
    windows: list[Window], outputs: int, block: int, tail: str, by: int, order: str
) -> None:
    names, rows, lines = "ABCD", outputs, []
    for number in reversed(range(len(windows))):
        lines.append(windows[number].text(names[number + 1], names[number], rows))
        rows = windows[number].rows(rows)
    text = f"function (A[M, N]) -> ({names[len(windows)]}) {{ {' '.join(reversed(lines))} }}"
    before = before_of(text, rows, 3)
    makers = [f"compute_at{{tensor={names[n]}, at=row, into=line{names[n]}{order}}}" for n in range(1, len(windows))]
    held = ", ".join(f"line{names[n]}" for n in range(1, len(windows)))
    axis = ", axis=1" if order else ""
    steps = f"""split{{loop=i, by={block}, into=(block, row), tail={tail}}}, {", ".join(reversed(makers))},
        fold{{memory=({held}), loop=row, by={by}, into=round{axis}}}, bind{{loop=block, to=grid}}"""
    made, said = after(before, steps, f"kernel_{len(windows) - 1}")
    assert said.code in ("TR001", "TR701", "TR753", "TR754")
    agrees(before, made)


def stored(block: Block, name: str, around: int = 1) -> int:
    """Return how often blocks store to memory of the kernel that has a name."""
    points = around * prod(index.range for index in block.indices if index.affine is None)
    own = any(view.name == name and view.direction.writes for view in block.refinements) and not block.blocks
    return points * own + sum(stored(inner, name, points) for inner in block.blocks)


@pytest.mark.parametrize("rows", [8, 16])
def test_each_row_of_a_block_is_computed_once(rows: int) -> None:
    block = "split{loop=i, by=8, into=(block, row), tail=peel}, compute_at{tensor=T, at=row, into=line}"
    before = before_of(BLUR, rows + 4, 7)
    again, _ = after(before, block)
    once, said = after(before, f"{block}, fold{{memory=line, loop=row, by=3, into=round}}, bind{{loop=block, to=grid}}")
    assert said.code == "TR001"
    agrees(before, once)
    halo = rows // 8 * 2
    assert sum(stored(kernel, "T") for kernel in again.main.blocks) == 3 * rows * 3
    assert sum(stored(kernel, "T") for kernel in once.main.blocks) == (rows + halo) * 3
    sizes = {
        view.shape.sizes
        for kernel in once.main.blocks
        for each in (kernel, *kernel.blocks)
        for view in each.refinements
        if view.name == "line" and not view.source and not view.direction.reads
    }
    assert (3, 3) in sizes


@pytest.mark.parametrize("by", [3, 4])
def test_what_is_copied_is_kept_as_well(by: int) -> None:
    text = "function (A[M, N]) -> (C) { C[i, j : M - 2, N] = +(A[i + k, j]), k < 3; }"
    before = before_of(text, 12, 5)
    steps = f"stage{{tensor=A, at=i, into=line}}, fold{{memory=line, loop=i, by={by}, into=round}}"
    made, said = after(before, steps, "kernel_0")
    assert said.code == "TR001"
    agrees(before, made)


REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "fold{memory=line, loop=z, by=3, into=round}": ("TR701", {"loop": "z"}),
    "fold{memory=line, loop=i, by=3, into=j}": ("TR705", {"name": "j"}),
    'fold{memory=line, loop=i, by="2 * rows", into=round}': ("TR702", {"name": "rows"}),
    "bind{loop=i, to=unroll}, fold{memory=line, loop=i, by=3, into=round}": ("TR707", {"binding": "unroll"}),
    "fold{memory=C_acc, loop=i, by=3, into=round}": ("TR716", {"known": "line"}),
    "fold{memory=line, loop=i, by=3, into=round, axis=2}": ("TR714", {"axes": 2}),
    "fold{memory=line, loop=i, by=2, into=round}": ("TR754", {"rows": 2, "filled": 3}),
    "fold{memory=line, loop=i, by=3, into=round, axis=1}": ("TR753", {"memory": "line"}),
    "split{loop=line_0, by=2, into=(a, b)}, fold{memory=line, loop=i, by=3, into=round}": ("TR753", {"rows": 3}),
    "bind{loop=i, to=vector}, fold{memory=line, loop=i, by=3, into=round}": ("TR721", {}),
    "split{loop=k, by=2, into=(a, b), tail=shift}, fold{memory=line, loop=i, by=3, into=round}": ("TR747", {}),
    "fold{memory=line, loop=i, by=3, into=round}, bind{loop=round, to=grid}": ("TR707", {"binding": "serial"}),
    "fold{memory=line, loop=i, by=3, into=round}, split{loop=round, by=2, into=(a, b)}": ("TR707", {}),
    "fold{memory=line, loop=i, by=3, into=round}, jam{loops=(round)}": ("TR707", {"loop": "round"}),
    "fold{memory=line, loop=i, by=3, into=round}, reorder{loops=(round)}": ("TR707", {"loop": "round"}),
}


@pytest.mark.parametrize("steps", REFUSALS)
def test_refusals_say_why(steps: str) -> None:
    code, facts = REFUSALS[steps]
    _, said = after(before_of(BLUR, 12, 9), f"compute_at{{tensor=T, at=i, into=line}}, {steps}")
    assert said.code == code
    assert facts.items() <= dict(said.facts).items()


@pytest.mark.parametrize(
    ("text", "tensor"),
    [
        ("T = A * A; C[i, j : M - 2, N - 2] = +(T[i + k, j + 2*i - 2*i]), k < 3;", "T"),
        ("T[i, j : M, N] = +(A[i, j + k]), k < 2; C[i, j : M - 2, N] = +(T[i + k, j]), k < 3;", "T"),
    ],
)
def test_rows_with_tests_or_none(text: str, tensor: str) -> None:
    before = before_of(f"function (A[M, N]) -> (C) {{ {text} }}", 9, 6)
    steps = f"compute_at{{tensor={tensor}, at=i, into=line}}, fold{{memory=line, loop=i, by=4, into=round}}"
    made, said = after(before, steps)
    assert said.code == "TR001"
    agrees(before, made)


def test_rows_that_change_from_iteration_to_iteration_are_not_kept() -> None:
    """The elements of a row have another weight in each iteration, or lie along a diagonal."""
    text = "function (A[M, N], W[P, Q]) -> (C) { C[i, j : M - 2, N - 4] = +(A[i + k, j + i] * W[j, i + k]), k < 3; }"
    types = {"A": TensorType(DType.F32, (7, 12)), "W": TensorType(DType.F32, (12, 12))}
    before = run(parse_pipeline("accumulate"), lower(infer(parse(text), types)))
    steps = "stage{tensor=A, at=i, into=line}, fold{memory=line, loop=i, by=3, into=round}"
    _, said = after(before, steps, "kernel_0")
    assert said.code == "TR753"


def test_a_script_with_a_line_buffer_is_read_back() -> None:
    text = "script{steps=(fold{memory=(a,b),loop=i,by=4,into=round,axis=1})}"
    passes = parse_pipeline(text)
    assert to_text(passes) == text
    assert load_pipeline(to_json(passes)) == passes


def test_it_runs_by_vectors_in_blocks_of_a_grid() -> None:
    a = np.random.default_rng(0).integers(-9, 9, (37, 45)).astype(np.float32)
    passes = """accumulate, script{match={kernel=kernel_1}, steps=(
        split{loop=i, by=8, into=(block, row), tail=peel}, compute_at{tensor=T, at=row, into=line},
        fold{memory=line, loop=row, by=4, into=round},
        split{loop=line_1, by=8, into=(fill, fill_lane), tail=peel}, jam{loops=(fill_lane)},
        split{loop=j, by=8, into=(column, lane), tail=peel}, jam{loops=(lane)},
        bind{loop=fill_lane, to=vector}, bind{loop=lane, to=vector}, bind{loop=block, to=grid}
    )}, canonicalise"""
    program = tileir.compile(BLUR, {"A": a}, passes=passes)
    assert [(r.code, r.facts) for r in program.remarks if r.step == "script"][-1][0] == "TR001"
    windows = np.lib.stride_tricks.sliding_window_view(a[1:-1], (3, 3))
    np.testing.assert_array_equal(program(a), windows.sum(axis=(2, 3))[:, :41])
