from __future__ import annotations

from typing import Any

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import fail
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.cost.machine import machine_of
from tileir.passes.pipelines.catalog import PASSES, pipeline_for
from tileir.passes.schedules.registers.register_tile import RegisterTile
from tileir.stripe.ir import Program
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir_performance.cost.prediction import predict
from tileir_performance.tuning.candidates import SPACES, Candidate, Search, chosen, variants

CPU = Target("cpu", vector_bytes=64, vector_registers=32, threads=2, pipeline="cpu")
GPU = Target("gpu", 16, 0, 132, (50 << 20,), local_bytes=48 << 10, group_threads=1024, group_width=32, pipeline="gpu")
MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def matmul(size: int = 96) -> Program:
    kind = TensorType(DType.F32, (size, size))
    return lower(infer(parse(MATMUL), {"A": kind, "B": kind}))


@pytest.mark.parametrize("name", SPACES)
def test_spaces_name_options_of_passes(name: str) -> None:
    (kind,) = [kind for kind in PASSES if kind.name == name]
    fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(kind)  # type: ignore[arg-type]
    assert {option for group in SPACES[name] for option in group} <= {field.name for field in fields}
    assert all(changed != kind() for changed in variants(kind()))


def test_passes_without_a_space_have_no_variants() -> None:
    assert list(variants(Accumulate())) == []


@pytest.mark.sampled(0)
@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
def test_candidates_are_different_programs_by_predicted_time(target: Target) -> None:
    machine, passes = machine_of(hardware_of(target), target), pipeline_for(target)
    told: list[tuple[int, int]] = []
    first, *others = Search(matmul(), machine).run(passes, lambda done, total: told.append((done, total)))
    assert first.passes == passes
    assert len(others) > 4
    assert len({each.program.main for each in (first, *others)}) == len(others) + 1
    assert [each.seconds for each in others] == sorted(each.seconds for each in others)
    assert all(each.seconds == predict(each.program, machine).seconds for each in others)
    assert told[-1][0] == told[-1][1]


def test_half_of_the_chosen_are_the_best_of_each_pass() -> None:
    ranked = [Candidate((), matmul(), float(number), knob) for number, knob in enumerate("-aaaaaabbc")]
    assert [each.seconds for each in chosen(ranked, 6)] == [0, 1, 2, 3, 4, 7, 9]
    assert sorted(each.seconds for each in chosen(ranked, 20)) == [each.seconds for each in ranked]
    assert chosen(ranked[:1], 3) == ranked[:1]


def test_search_ends_when_it_is_told_to() -> None:
    machine = machine_of(hardware_of(CPU), CPU)
    found = Search(matmul(), machine, lambda: True).run(pipeline_for(CPU))
    assert [each.passes for each in found] == [pipeline_for(CPU)]


@pytest.mark.sampled(0)
def test_passes_that_refuse_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = RegisterTile.__call__

    def picky(step: RegisterTile, program: Program) -> Program:
        if step.rows == 3:
            raise fail("TIL502", "no tiles of three rows")
        return usual(step, program)

    monkeypatch.setattr(RegisterTile, "__call__", picky)
    search = Search(matmul(), machine_of(hardware_of(CPU), CPU))
    found = search.run(pipeline_for(CPU))
    assert len(found) > 4
    assert {each.error.diagnostics[0].code for each in search.failed} == {"TIL502"}
