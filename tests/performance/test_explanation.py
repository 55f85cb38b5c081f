from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tileir
from strategies.stripe_works import ALL
from tileir.core.errors import TileError
from tileir.core.targets.target_names import names_of_targets
from tileir.driver.targets import choice_of, scheduling_target
from tileir.passes.base import run
from tileir.passes.pipelines.resolution import pipeline_for
from tileir.stripe.works import launches
from tileir_performance.explain.explanation import explain_program

MATMUL = "function (A[M, K], B[K, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }"
CONVOLUTION = """
function (I[N, H, W, C], K[KH, KW, C, D]) -> (O) {
    O[n, y, x, d : N, H, W, D] = +(I[n, y + i - 1, x + j - 1, c] * K[i, j, c, d]);
}
"""
SOFTMAX = """
function (X[M, N]) -> (O) {
    P[i, 0 : M, 1] = >(X[i, j]);
    E = exp(X - P);
    S[i, 0 : M, 1] = +(E[i, j]);
    O = E / S;
}
"""
CPU = tileir.Target(
    "cpu", vector_bytes=64, vector_registers=32, threads=2, cache_bytes=(32 << 10, 1 << 20, 32 << 20), pipeline="cpu"
)
SHAPES = {"A": (512, 512), "B": (512, 512)}


def test_matmul_is_explained(golden: Callable[[str], None]) -> None:
    passes = "accumulate,tile{sizes=(64,64)},thread"
    golden(str(tileir.explain(MATMUL, SHAPES, target=CPU, passes=passes)))


def test_convolution_is_explained(golden: Callable[[str], None]) -> None:
    shapes = {"I": (1, 56, 56, 64), "K": (3, 3, 64, 64)}
    golden(str(tileir.explain(CONVOLUTION, shapes, target=CPU, passes="accumulate,thread")))


def test_every_kernel_is_told_apart() -> None:
    found = tileir.explain(SOFTMAX, {"X": (64, 1024)}, target=CPU, passes="accumulate,thread")
    assert [kernel.bound for kernel in found.kernels] == ["compute"] * len(found.kernels)
    assert found.seconds == sum(kernel.seconds for kernel in found.kernels)
    assert found.measured_seconds is None
    assert str(found).count("bound by compute") == len(found.kernels)


def test_heading_names_the_machine_that_is_modelled() -> None:
    types = {"A": "i8[64,64]", "B": "i8[64,64]"}
    found = tileir.explain(MATMUL, types, target="nvidia-hopper")
    assert found.target == "nvidia-hopper"
    assert str(found).splitlines()[-1].startswith("nvidia-hopper: ")
    host = tileir.devices()[0].target.name
    assert tileir.explain(MATMUL, types, target="plain").target == host


def test_json_has_all_figures() -> None:
    found = tileir.explain(MATMUL, SHAPES, target=CPU)
    document = json.loads(found.to_json())
    assert document["seconds"] == pytest.approx(found.seconds)
    (kernel, *_) = document["kernels"]
    operations = sum(each["blocks"][0]["operations"][0]["count"] for each in document["kernels"])
    assert operations == 2 * 512**3
    assert kernel["bound"] in kernel["times"]


def test_any_stage_can_be_explained() -> None:
    plain = tileir.explain(MATMUL, SHAPES, target=CPU, after="accumulate")
    finished = tileir.explain(MATMUL, SHAPES, target=CPU)
    assert plain.seconds > 10 * finished.seconds
    executable = tileir.compile(MATMUL, SHAPES, passes="accumulate,thread")
    assert explain_program(executable.stripe, CPU).kernels[0].whole.total_operations == 2 * 512**3


def test_kernels_are_measured() -> None:
    found = tileir.explain(SOFTMAX, {"X": (64, 64)}, measure=True)
    assert len(found.measured) == len(found.kernels)
    assert min(found.measured) > 0
    assert found.measured_seconds == pytest.approx(sum(found.measured))
    assert "measured" in str(found)
    assert all("error" in kernel for kernel in json.loads(found.to_json())["kernels"])


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"after": "rewrite"}, "TIL902"),
        ({"after": "accumulate", "measure": True}, "TIL902"),
        ({"passes": "x"}, "TIL541"),
    ],
)
def test_wrong_requests_are_refused(options: dict[str, object], code: str) -> None:
    with pytest.raises(TileError) as caught:
        tileir.explain(MATMUL, SHAPES, **options)  # type: ignore[arg-type]
    assert [each.code for each in caught.value.diagnostics] == [code]


@pytest.mark.parametrize(("after", "steps"), [("first", 2), ("accumulate", 2), ("localize", 3), ("localise", 3)])
def test_steps_are_known_by_their_names_and_those_of_their_passes(after: str, steps: int) -> None:
    passes = ["fuse", "first: accumulate", "localise", "second: thread"]
    found = tileir.explain(MATMUL, SHAPES, target=CPU, passes=",".join(passes), after=after)
    until = tileir.explain(MATMUL, SHAPES, target=CPU, passes=",".join(passes[:steps]))
    assert str(found) == str(until)


def test_the_nearest_step_is_offered() -> None:
    with pytest.raises(TileError, match=r"no pass 'frist' runs; did you mean first\?"):
        tileir.explain(MATMUL, SHAPES, target=CPU, passes="first: accumulate,thread", after="frist")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", names_of_targets())
def test_any_target_explains_loops_and_branches(name: str) -> None:
    target = scheduling_target(choice_of(name), CPU, None)
    for whole in ALL.values():
        scheduled = run(pipeline_for(target), whole)
        found = explain_program(scheduled, target)
        assert len(found.kernels) == len(list(launches(scheduled.works)))
        decides = any(kernel.conditions for kernel in found.kernels)
        assert ([", with " in line for line in str(found).splitlines()][-1], bool(found.assumptions)) == (
            decides,
            decides,
        )
        assert decides == (whole not in (ALL["counted"],))
