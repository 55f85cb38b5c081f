from __future__ import annotations

import pytest

import tileir
from strategies.hardware import ACCELERATOR, PROCESSOR
from tileir.core.dtype import DType
from tileir.core.targets.target import Target


@pytest.mark.parametrize(
    "target",
    [
        Target(),
        Target("card", group_width=32, index_dtype=DType.I32, native=("exp",), pipeline="gpu", hardware=ACCELERATOR),
        Target(parameters=(("A", 1), ("B", 0.5), ("C", True), ("D", "x")), hardware=PROCESSOR),
    ],
    ids=lambda target: target.name,
)
def test_targets_go_to_json_and_back(target: Target) -> None:
    assert tileir.from_json(tileir.to_json(target), Target) == target


def test_lanes_fill_a_register() -> None:
    assert Target(vector_bytes=64).lanes(DType.F32) == 16
    assert Target(vector_bytes=64, max_lanes=8).lanes(DType.F32) == 8
    assert Target(vector_bytes=4).lanes(DType.F64) == 1
