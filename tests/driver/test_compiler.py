from __future__ import annotations

import attrs
import pytest

import tileir
from tileir.core.dtype import DType
from tileir.core.errors import ParseError, TileError
from tileir.core.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes import pipeline
from tileir.passes.catalog import parse_pipeline
from tileir.runtime.interface import Options
from tileir.typed.ir import TensorType

TOTAL = "function (A[N]) -> (O) { O[] = +(A[i]); }"
TYPES = {"A": TensorType(DType.F32, (1 << 20,))}


def test_a_pipeline_is_passes_or_text_or_json_or_a_name() -> None:
    steps = parse_pipeline("accumulate")
    expected = compile_stages(TOTAL, TYPES, Target(), passes=steps)
    for passes in ("accumulate", "plain", pipeline.to_json(steps)):
        assert compile_stages(TOTAL, TYPES, Target(), passes=passes) == expected


def test_a_wrong_pipeline_is_underlined() -> None:
    with pytest.raises(ParseError) as caught:
        tileir.compile(TOTAL, [(8,)], passes="accumulate,thred")
    assert [(fault.code, fault.underlined) for fault in caught.value.diagnostics] == [("TIL541", "thred")]


def test_a_program_that_is_not_scheduled_is_refused() -> None:
    with pytest.raises(TileError, match="run the pass accumulate") as caught:
        tileir.compile(TOTAL, [(8,)], passes=())
    assert caught.value.diagnostics[0].code == "TIL502"


def test_programs_are_dumped_after_each_pass() -> None:
    names: list[str] = []
    compile_stages(TOTAL, TYPES, Target(), passes="accumulate,thread", dump=lambda name, _: names.append(name))
    assert names == ["accumulate", "thread"]


def test_one_thread_gets_the_schedule_of_one_thread() -> None:
    alone = tileir.compile(TOTAL, [(1 << 20,)], options=Options(threads=1))
    assert (
        alone.scheduled
        == compile_stages(TOTAL, TYPES, attrs.evolve(tileir.default_context().device().target, threads=1)).scheduled
    )
