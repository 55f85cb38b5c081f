from __future__ import annotations

import re

import attrs
import pytest

import tileir_llvm
from strategies.opencl_device import device as opencl_device
from tileir.core.dtype import DType
from tileir.core.errors import BackendError, TileError
from tileir.driver.targets import choice_of
from tileir.passes.pipelines import pipeline
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.runtime.context import Context
from tileir.stripe.text.parser import parse as parse_stripe
from tileir.tile.text.parser import parse
from tileir.typed.ir import TensorType
from tileir_cli.stages import ALL, STAGES, listing, stage_text, texts_after

FUNCTION = parse("function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }")
TYPES = {"A": TensorType(DType.F32, (4, 3)), "B": TensorType(DType.F32, (3, 2))}
STEPS = "accumulate,tile{sizes=(2,2),inner_set=inner},thread"


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_a_text(stage: str) -> None:
    assert stage_text(FUNCTION, TYPES, stage, passes=None, device=None)


@pytest.mark.parametrize("stage", ["tile", "typed", "stripe"])
def test_stages_before_the_passes_need_no_device(stage: str) -> None:
    assert stage_text(FUNCTION, TYPES, stage, passes="nonsense{", device="nowhere")


def test_the_program_can_be_seen_after_each_pass() -> None:
    text = texts_after(FUNCTION, TYPES, ALL, passes=STEPS, device=None)
    assert re.findall(r"^// (\d): (\w+)$", text, re.MULTILINE) == [("1", "accumulate"), ("2", "tile"), ("3", "thread")]
    assert text.rpartition("// 3: thread\n")[2] == stage_text(FUNCTION, TYPES, "scheduled", passes=STEPS, device=None)


def test_the_program_after_one_pass_parses_back() -> None:
    text = texts_after(FUNCTION, TYPES, "tile", passes=STEPS, device=None)
    assert text.startswith("// 2: tile\n")
    kernel = parse_stripe(text).main.blocks[0]
    assert [index.range for index in kernel.indices] == [2, 1]


def test_a_pass_that_does_not_run_has_no_program() -> None:
    with pytest.raises(TileError, match="known are accumulate, all, thread, tile") as caught:
        texts_after(FUNCTION, TYPES, "fuse", passes=STEPS, device=None)
    assert caught.value.diagnostics[0].code == "TIL902"


def test_types_are_asked_for() -> None:
    message = re.escape("as in A=f32[64,64]")
    with pytest.raises(TileError, match=message):
        stage_text(FUNCTION, {}, "typed", passes=None, device=None)
    with pytest.raises(TileError, match=message):
        texts_after(FUNCTION, {}, ALL, passes=None, device=None)
    with pytest.raises(TileError, match=message):
        listing(FUNCTION, {}, "llvm", passes=None, device=None)


def test_a_pipeline_is_text_or_json_or_a_name() -> None:
    texts = [
        stage_text(FUNCTION, TYPES, "scheduled", passes=passes, device=None)
        for passes in ("accumulate", pipeline.to_json(parse_pipeline("accumulate")), "plain")
    ]
    assert texts[0] == texts[1] == texts[2]


def test_code_is_listed_in_the_form_of_the_device() -> None:
    assert listing(FUNCTION, TYPES, None, passes=None, device="llvm") == listing(
        FUNCTION, TYPES, "llvm", passes=None, device="llvm"
    )
    assert "__kernel" in listing(FUNCTION, TYPES, None, passes=None, device=opencl_device().id)


def test_a_back_end_without_generated_code_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileir_llvm.BACKEND", attrs.evolve(tileir_llvm.BACKEND, forms=()))
    context = Context()
    monkeypatch.setattr("tileir_cli.stages.default_context", lambda: context)
    with pytest.raises(BackendError, match="'llvm' shows no generated code"):
        listing(FUNCTION, TYPES, None, passes=None, device="llvm")


def test_code_is_listed_for_a_pipeline() -> None:
    plain = listing(FUNCTION, TYPES, "llvm", passes="plain", device=None)
    assert "define" in plain
    assert plain != listing(FUNCTION, TYPES, "llvm", passes=None, device=None)


def test_a_target_with_facts_is_lowered_by_them() -> None:
    function = parse("function (A[M, K], B[K, N]) -> (O) { O[i, j : M, N] = +(A[i, k] * B[k, j]); }")
    types = dict.fromkeys(("A", "B"), TensorType(DType.F16, (1024, 1024)))
    choice = choice_of("nvidia-hopper")
    text = stage_text(function, types, "sem", passes=None, device=None, choice=choice)
    assert "index(i32)" in text
    assert "multiply(mma_m16n8k16_f16)" in text
    assert "async A_stage" in text
    code = listing(function, types, None, passes=None, device=opencl_device().id, choice=choice)
    assert re.search(r"\bint \w+ = get_local_id\(0\);", code)
