from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np
import pytest

import tileir
from tileir.driver.compilation import Request
from tileir.driver.compiler import passes_of
from tileir.driver.programs import function_of
from tileir.driver.requests import requested
from tileir.driver.tuned_pipelines import (
    TUNING,
    WINNER,
    Trial,
    store_trials,
    store_winner,
    stored_trials,
    stored_winner,
    tuned,
    winner_key,
)
from tileir.passes.pipelines.catalog import parse_pipeline
from tileir.typed import ir as typed
from tileir.typed.sharding.local import local_steps

DOUBLE = "function (X) -> (Y) { Y = X + X; }"
PASSES = parse_pipeline("accumulate,thread")


@pytest.fixture
def disk(tmp_path: Path) -> tileir.DiskCache:
    return tileir.DiskCache(tmp_path / "cache")


def request_for(context: tileir.Context, size: int = 8) -> Request:
    target = context.device("llvm").target
    types = {"X": tileir.TensorType(tileir.DType.F32, (size,))}
    return Request(function_of(DOUBLE), types, target, passes_of(None, target))


def test_winners_are_found_again(disk: tileir.DiskCache) -> None:
    context = tileir.Context(disk_cache=disk)
    device = context.device("llvm")
    compiler, request = context.compiler(device), request_for(context, 64)
    key = winner_key(request, compiler, device)
    assert key is not None
    assert tuned(request, disk, compiler, device) is request
    assert store_winner(disk, key, PASSES, "llvm: cpu", "Y: 1 ms instead of 2 ms")
    assert stored_winner(disk, key) == PASSES
    assert tuned(request, disk, compiler, device).passes == PASSES
    assert [(entry.kind, entry.about["note"]) for entry in disk.entries()] == [(WINNER, "Y: 1 ms instead of 2 ms")]
    used, named, usual = (
        tileir.compile(DOUBLE, {"X": (64,)}, context=context, passes=passes).scheduled
        for passes in (None, PASSES, "cpu")
    )
    assert used == named != usual


def test_ranks_take_no_winners(disk: tileir.DiskCache) -> None:
    """Ranks of other machines may have others, and the kernels of all ranks are to round alike."""
    context = tileir.Context(disk_cache=disk)
    device, array = context.device("llvm"), np.ones(64, np.float32)
    program = tileir.partition(DOUBLE, {"x": 2}, {"X": ("x",)}, arguments=[array])
    (function,) = local_steps(program, 0)
    assert isinstance(function, typed.Function)
    usual = tileir.compile(function, context=context).scheduled
    types = {each.name: tileir.TensorType(each.dtype, each.shape) for each in function.inputs}
    request = requested(function, types, context, device, context.options, None, None)
    key = winner_key(request, context.compiler(device), device)
    assert key is not None
    assert store_winner(disk, key, PASSES, "llvm: cpu", "Y: 1 ms instead of 2 ms")
    assert tileir.compile(function, context=context).scheduled != usual
    run = tileir.distribute(program, context=context)
    np.testing.assert_array_equal(run(array), 2 * array)
    assert [each.scheduled for each in run._compiled.values()] == [usual]


def test_keys_name_everything_that_decides(disk: tileir.DiskCache) -> None:
    context = tileir.Context(disk_cache=disk)
    device = context.device("llvm")
    compiler = context.compiler(device)
    keys = {
        winner_key(request_for(context, 8), compiler, device),
        winner_key(request_for(context, 9), compiler, device),
        winner_key(request_for(context, 8), context.compiler(device, tileir.Options(fast_math=True)), device),
        winner_key(request_for(context, 8), compiler, attrs.evolve(device, name="another")),
    }
    assert len(keys) == 4


def test_broken_winners_are_dropped(disk: tileir.DiskCache) -> None:
    key = "0" * 64
    for content in (b"no JSON", b'[{"name": "no_such_pass"}]', b"\xff"):
        disk.put(WINNER, key, {"passes": content}, {})
        assert stored_winner(disk, key) is None
        assert disk.get(WINNER, key) is None


def test_trials_are_read_back(disk: tileir.DiskCache) -> None:
    trials = (Trial("[]", 1.0, 2.0), Trial("[]", 0.5, None, "refused"))
    store_trials(disk, "1" * 64, trials, "cpu")
    assert stored_trials(disk, "1" * 64) == trials
    assert stored_trials(disk, "2" * 64) == ()
    disk.put(TUNING, "3" * 64, {"trials": b"[[1]]"}, {})
    assert stored_trials(disk, "3" * 64) == ()
