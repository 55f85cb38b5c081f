"""Refusals of fusion, windows, tuple reductions, scatters and inlining, code by code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest

from strategies.passes import program_of
from strategies.scatters import scattering
from tileir.core.combines import Combine
from tileir.core.dtype import DType
from tileir.core.ops import Aggregation
from tileir.passes.algorithms import combine as tuples
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.algorithms.count_order import CountOrder
from tileir.passes.algorithms.scan import Scan
from tileir.passes.algorithms.split_scatter import SplitScatter
from tileir.passes.algorithms.two_step_window import TwoStepWindow
from tileir.passes.algorithms.unroll_window import UnrollWindow
from tileir.passes.algorithms.window import Window
from tileir.passes.base import map_kernels, run
from tileir.passes.fusion.fuse import Fuse, Fusion
from tileir.passes.fusion.inline import Inline
from tileir.passes.schedules.vectors.thread import Thread
from tileir.schedule.remarks import Remark, Remarks, listening
from tileir.stripe.lower.lowering import lower
from tileir.tile.builder import FunctionBuilder
from tileir.tile.builder_functions import reduce
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared

if TYPE_CHECKING:
    from tileir.passes.base import Pass
    from tileir.stripe.ir import Block, Program

SUM = "O[i : M] = +(A[i, j]);"
BOTH = "O = exp(A); P = A + 1;"
APART = """
    O[i, j : M, N] = +(A[i, j + k]), k < 3; F[i, j : M, N] = +(A[i, j + k]), k < 5; X = F * 2;
    Y[i, j : M, N] = +(X[i, j + k]), k < 5; P = Y + F;
"""
WINDOW = "O[i, j : M, N - {0}] = +(A[i, j + k]), k < {1};"


def lowered(body: str, rows: int = 4, columns: int = 64) -> Program:
    results = ", ".join(name for name in ("O", "P") if f"{name} =" in body or f"{name}[" in body)
    function = infer(
        parse(f"function (A[M, N]) -> ({results}) {{ {body} }}"), {"A": TensorType(DType.F32, (rows, columns))}
    )
    return lower(function)


def told(program: Program, *steps: Pass) -> tuple[Program, list[Remark]]:
    """Return what steps make of a program, and what the last of them says."""
    kept = Remarks()
    with listening(kept):
        after = run(steps, program)
    return after, [remark for remark in kept.all() if remark.position == len(steps) - 1]


KNOWN = "K = index(A, 0) * 1.0; E[i, j : M, N] = +(K[i, k] * K[j, k]); O = A + E;"
STEPS = "S = scan(A; ; ) 3 times function (H[I, J]) -> (G, Y) { G = H * 2; Y = H + 1; }; O = element(S, 1);"


@pytest.mark.parametrize(
    ("code", "body", "steps"),
    [
        ("TR680", SUM, (Fuse(parent_reqs=("kernel",)),)),
        ("TR681", SUM, (Fuse(),)),
        ("TR682", BOTH, (Thread(), Fuse())),
        ("TR683", "E[i : M] = +(A[i, j]); O = E + 1;", (Accumulate(), Fuse(no_inner=True))),
        ("TR684", "E[i : M] = +(A[i, j]); O[i : M] = +(A[i, j] * E[i]);", (Accumulate(), Fusion(max_reductions=1))),
        ("TR686", BOTH, (Fuse(max_statements=1),)),
        ("TR686", BOTH, (Fuse(max_refs=1),)),
        ("TR685", "O[i, j : M, M] = +(A[i, k] * A[j, k]); P[i : M] = >(O[i, j]);", (Accumulate(), Fusion(rows=True))),
        ("TR687", "E = A + 1; S[:] = +(E[i, j]); O = E * S;", (Accumulate(), Fuse(a_reqs=("eltwise",)))),
        ("TR689", "E = exp(A); O[i, j : M, N] = +(E[i, j + k]), k < 2;", (Fuse(),)),
        (
            "TR690",
            "E[i:M] = +(A[i, j]); O = scatter(E, index(E, 0), A);",
            (Accumulate(), Fuse(a_reqs=("contraction",))),
        ),
        ("TR691", STEPS, (Fuse(a_reqs=("other",)),)),
        ("TR696", KNOWN, (Accumulate(), Fuse(a_reqs=("contraction",)))),
        ("TR003", BOTH, (Fuse(a_reqs=("other",)),)),
        ("TR003", BOTH, (Fuse(exclude=("kernel",)),)),
        ("TR628", SUM, (Scan(),)),
        ("TR628", "O[i : M] = +(A[i, 0] * A[k, 1]), i - k < M;", (Scan(),)),
        ("TR630", "O[i : M] = +(A[i, 0] + A[k, 1]), i - k < M;", (Scan(),)),
        ("TR630", "O[i : M] = +(A[k, 1] + A[i, 0]), k - i < M;", (Scan(),)),
        ("TR671", SUM, (Window(),)),
        ("TR674", WINDOW.format(12, 13), (Window(),)),
        ("TR675", WINDOW.format(12, 13), (Window(least=4, least_outputs=100),)),
        ("TR671", SUM, (TwoStepWindow(),)),
        ("TR672", "O[i, j : M, N - 12] = +(A[i, j + k] * A[i, j + k]), k < 13;", (TwoStepWindow(least=4, row=8),)),
        ("TR673", "O[i : N - 12] = +(A[0, i + k]), k < 13;", (TwoStepWindow(least=4, row=8),)),
        ("TR674", WINDOW.format(2, 3), (TwoStepWindow(),)),
        ("TR675", WINDOW.format(12, 13), (TwoStepWindow(least=4, row=100),)),
        ("TR676", WINDOW.format(12, 13), (TwoStepWindow(least=4, row=8),)),
        ("TR616", "O[i, j : M, N] = +(A[i, j + k]), k < 13;", (TwoStepWindow(least=4, row=8),)),
        ("TR677", "O[i, j : M, N] = +(A[i, k]), j - k < N;", (Window(least=4, least_outputs=4),)),
        ("TR678", SUM, (UnrollWindow(most=4),)),
        ("TR662", SUM, (tuples.Combine(),)),
        ("TR661", SUM, (CountOrder(),)),
        ("TR664", SUM, (SplitScatter(parts=4),)),
        ("TR620", SUM, (SplitScatter(parts=1),)),
        ("TR652", "E = A * 2; R = reshape(E, N, M); O[i : N] = +(R[i, j]);", (Inline(),)),
    ],
)
def test_each_refusal_has_its_reason(code: str, body: str, steps: tuple[Pass, ...]) -> None:
    program = lowered(body)
    before = run(steps[:-1], program)
    after, said = told(program, *steps)
    assert after == before
    assert code in [remark.code for remark in said if not remark.fired], list(map(str, said))


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        ("E = exp(A); O = E + 1;", (Fuse(),)),
        (WINDOW.format(15, 16), (TwoStepWindow(least=4, row=8),)),
        ("O[i, j : M, N] = +(A[i, j - k]), k < 13;", (Window(least=4, least_outputs=4),)),
        (WINDOW.format(2, 3), (UnrollWindow(),)),
    ],
)
def test_what_a_step_does_is_told_as_well(body: str, steps: tuple[Pass, ...]) -> None:
    program = lowered(body)
    after, said = told(program, *steps)
    assert after is not program
    assert any(remark.fired for remark in said), list(map(str, said))


def test_what_would_be_kept_for_long_is_a_reason() -> None:
    _, said = told(lowered(APART), Accumulate(), Fuse(far=1))
    assert [remark.kernel for remark in said if remark.code == "TR688"] == ["kernel_2(F)"]


def test_nothing_is_said_twice_of_one_kernel() -> None:
    _, said = told(lowered(BOTH), Fuse())
    assert len({remark.kernel for remark in said}) == len(said) == 2


COPY = """
block [i:8]:8 ( // {name}
  in {source}[i] fp32:I(1):(1):4 B
  out {to}[i] fp32:I(1):(1):4 B
) {{
  0: $x = load({source})
  1: {to} = store($x)
}}
"""
TOTAL = """
block [i:8]:8 ( // total
  in {source}[i] fp32:I(1):(1):4 B
  out O[0]:add fp32:I(1):(1):4 B
) {{
  0: $x = load({source})
  1: O = store($x)
}}
"""


def copied(*ends: str) -> list[str]:
    return [COPY.format(name=f"copy_{end}", source=end[0], to=end[1]) for end in ends]


def test_what_was_overwritten_cannot_be_computed_again() -> None:
    blocks = [*copied("AT", "TE", "TC", "BT"), TOTAL.format(source="E")]
    program = program_of(blocks, dict.fromkeys("ABTCE", (8,)) | {"O": (1,)}, outputs=("O", "C"))
    after, said = told(program, Inline())
    assert after is program
    assert [remark.code for remark in said if remark.kernel == "total"] == ["TR656"]


def test_what_is_read_must_not_need_more_memory_than_what_is_saved() -> None:
    body = "S[i, j : M, N] = +(A[i, j + k]), k < 2; P[i : M] = +(S[i, j]); L[i, j : M, 32] = =(S[i, j]); "
    _, said = told(lowered(body + "O[i : M] = +(L[i, j]);"), Inline(far=0))
    assert "TR657" in [remark.code for remark in said], list(map(str, said))


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("TR666", scattering((), (3,), 4)),
        ("TR667", scattering((100,), (40,), 3)),
        ("TR611", scattering((50,), (), 3)),
    ],
)
def test_scatters_are_told_why_they_stay_whole(code: str, program: Program) -> None:
    after, said = told(program, SplitScatter(parts=64, points=100))
    assert after is program
    assert code in [remark.code for remark in said], list(map(str, said))


def test_scatters_need_a_kernel_that_clears_and_a_sum() -> None:
    program = scattering((100,), (), 3)
    unclear = map_kernels(program, lambda block: attrs.evolve(block, tags=block.tags.remove("fill")))
    assert [remark.code for remark in told(unclear, SplitScatter(parts=64))[1]] == ["TR664", "TR665"]

    def greatest(block: Block) -> Block:
        views = (attrs.evolve(r, aggregation=Aggregation.MAX) if r.merges else r for r in block.refinements)
        return attrs.evolve(block, refinements=tuple(views))

    other = map_kernels(program, greatest)
    assert [remark.code for remark in told(other, SplitScatter(parts=64))[1]] == ["TR664", "TR668"]


def test_states_need_neighbours_or_parts() -> None:
    builder = FunctionBuilder()
    x = builder.input("X", "M", "N")
    results = reduce(Combine.ARGMAX, x, 1)
    function = builder.build(O=results[0], P=results[1])
    program = lower(prepared(infer(function, {"X": TensorType(DType.F32, (4, 64))})))
    after, said = told(program, tuples.Combine())
    assert after is program
    assert [remark.code for remark in said] == ["TR663"]
    after, said = told(program, tuples.Combine(vector_bytes=32))
    assert after is not program
    assert [remark.code for remark in said] == ["TR001"]
