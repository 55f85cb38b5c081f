"""Programs whose blocks lie on units of a hardware model: what each unit does, and who waits for whom."""

from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.targets.target import Target
from tileir.core.targets.target_file import hardware_of
from tileir.driver.compiler import passes_of
from tileir.driver.targets import choice_of
from tileir.passes.base import run
from tileir.passes.cost.machine import machine_of
from tileir.stripe.lower.lowering import lower
from tileir.tile.text.parser import parse
from tileir.typed.inference.inference import infer
from tileir.typed.ir import TensorType
from tileir.typed.simplify.preparation import prepared
from tileir_performance.cost.kernels import ProgramCost
from tileir_performance.cost.placed import predict_on
from tileir_performance.cost.prediction import predict
from tileir_performance.explain.explanation import explain

CONVOLUTION = """function (I[X, Y, CI], K[A, B, CI, CO]) -> (O) {
    O[x, y, co : X, Y, CO] = +(I[x + i - 1, y + j - 1, ci] * K[i, j, ci, co]);
}"""
CLOCK = 800e6


def predicted(size: int = 64, **parameters: int) -> ProgramCost:
    """Return the cost of the slides' convolution on their accelerator."""
    choice = choice_of("dsp_conv", parameters)
    assert choice is not None
    target = choice.applied(Target()) if not isinstance(choice, Target) else choice
    types = {"I": TensorType(DType.I8, (size, size, 32)), "K": TensorType(DType.I8, (3, 3, 32, 64))}
    program = run(passes_of(None, target), lower(prepared(infer(parse(CONVOLUTION), types))))
    model = hardware_of(target)
    return predict_on(program, machine_of(model, target), model)


def test_operations_run_at_the_rate_of_the_unit() -> None:
    cost = predicted()
    product = max(cost.kernels, key=lambda kernel: kernel.seconds)
    points = 64 * (3 * 64 - 2) ** 2 * 32  # a point of a window that lies outside of the image does not count
    assert product.bound == "CONV"
    assert product.times["CONV"] == pytest.approx(2 * points / 512 / CLOCK)


def test_transfers_run_at_the_rate_of_the_bus() -> None:
    cost = predicted()
    (first,) = (kernel for kernel in cost.kernels if kernel.name == "swap_in_I")
    assert first.seconds == pytest.approx(64 * 64 * 32 / 64 / CLOCK)
    assert first.bound in ("DRAM", "SRAM")


def test_units_beside_each_other_share_the_points() -> None:
    one, eight = predicted(), predicted(NUM_CONV=8)
    times = [max(kernel.times.get("CONV", 0.0) for kernel in cost.kernels) for cost in (one, eight)]
    assert times[1] == pytest.approx(times[0] / 8)
    assert eight.seconds < one.seconds / 4


def test_a_faster_clock_is_faster_everywhere() -> None:
    assert predicted(CLOCK_MHZ=1600).seconds == pytest.approx(predicted().seconds / 2)


def test_transfers_run_beside_computing() -> None:
    cost = predicted(512)
    tiles = max(cost.kernels, key=lambda kernel: kernel.seconds)
    alone = sum(seconds for name, seconds in tiles.times.items() if name in ("CONV", "DRAM"))
    assert tiles.units == 2
    assert max(tiles.times.values()) <= tiles.seconds < alone


def test_all_kernels_take_no_longer_than_one_after_the_other() -> None:
    cost = predicted()
    assert cost.seconds < sum(kernel.seconds for kernel in cost.kernels)
    assert max(kernel.seconds for kernel in cost.kernels) <= cost.seconds <= sum(k.seconds for k in cost.kernels)


def test_programs_without_places_cost_what_they_did() -> None:
    target = Target("cpu", vector_bytes=64, vector_registers=32, threads=2, pipeline="cpu")
    types = {"I": TensorType(DType.F32, (16, 16, 8)), "K": TensorType(DType.F32, (3, 3, 8, 8))}
    program = run(passes_of(None, target), lower(prepared(infer(parse(CONVOLUTION), types))))
    model = hardware_of(target)
    machine = machine_of(model, target)
    assert predict_on(program, machine, model) == predict(program, machine)


def test_explanations_tell_what_bounds_units() -> None:
    shapes = {"I": "i8[64,64,32]", "K": "i8[3,3,32,64]"}
    types = {name: TensorType(DType.I8, tuple(map(int, text[3:-1].split(",")))) for name, text in shapes.items()}
    found = explain(CONVOLUTION, types, target="dsp_conv")
    assert "bound by CONV" in str(found)
    assert found.seconds == pytest.approx(predicted().seconds)
