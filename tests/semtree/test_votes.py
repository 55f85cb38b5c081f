"""Votes of warps: what they mean, what the verifier refuses, and how cards and others spell them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tileir
from strategies.effort import examples
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import KernelFunction
from tileir.semtree.matrices import without_instructions
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text
from tileir.semtree.transform.threads import one_thread
from tileir_cuda.architectures import ARCHITECTURES
from tileir_cuda.emit.emitter import emit
from tileir_cuda.emit.ptx import ptx

VOTES: Final = """
kernel votes(out i32 O[256], in i32 A[128]) grid(2) group(8, 8) index(i32) {
  i32 t = local_id(0) + local_id(1) * 8;
  private bool found[4] align(64);
  vote any found[1] = A[group_id(0) * 64 + t] > 5;
  vote all found[2] = A[group_id(0) * 64 + t] > 5;
  O[(group_id(0) * 64 + t) * 2] = found[1] ? 1 : 0;
  O[(group_id(0) * 64 + t) * 2 + 1] = found[2] ? 1 : 0;
}
"""


def wanted(numbers: np.ndarray) -> np.ndarray:
    warps = (numbers > 5).reshape(4, 32)
    both = np.stack([warps.any(axis=1), warps.all(axis=1)], axis=1)
    return np.repeat(both, 32, axis=0).reshape(-1).astype(np.int32)


@given(seed=st.integers(0, 99), sparse=st.tuples(*[st.sampled_from((0, 1, 31, 32))] * 4))
@examples(20)
def test_warps_decide_for_all_their_threads(seed: int, sparse: tuple[int, ...]) -> None:
    generator = np.random.default_rng(seed)
    numbers = np.stack([generator.permutation(np.repeat([9, 2], [n, 32 - n])) for n in sparse]).reshape(-1)
    kernel = parse_kernel(VOTES)
    plain = without_instructions(kernel)
    assert "vote" not in to_text(plain).replace("votes", "")
    for variant in (kernel, plain, one_thread(kernel)):
        verify(variant)
        result = np.zeros(256, np.int32)
        run(variant, [result, numbers.astype(np.int32)], ALL_CHECKS)
        np.testing.assert_array_equal(result, wanted(numbers))


def test_text_and_json() -> None:
    kernel = parse_kernel(VOTES)
    assert parse_kernel(to_text(kernel)) == kernel
    assert from_json(to_json(kernel), KernelFunction) == kernel
    assert without_instructions(kernel, exchanges=False) is kernel


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("group(8, 8)", "group(8, 6)", "TIL551"),
        ("vote any found[1] = A[group_id(0) * 64 + t] > 5", "vote any found[1] = A[0]", "TIL552"),
        ("vote any found[1] =", "vote any O[1] =", "TIL552"),
        ("private bool", "local bool", "TIL554"),
        ("vote any found[1] = A[group_id(0) * 64 + t] > 5;", "if (t < 3) { vote any found[1] = true; }", "TIL555"),
    ],
)
def test_whole_warps_vote(old: str, new: str, code: str) -> None:
    assert old in VOTES
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(VOTES.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_cards_have_instructions(name: str) -> None:
    found = ptx([emit(parse_kernel(VOTES), ARCHITECTURES[name])], ARCHITECTURES[name])
    assert found.count("vote.sync.any.pred") == found.count("vote.sync.all.pred") == 1
    assert "bar.sync" not in found


def test_processors_run_warps_in_one_thread() -> None:
    context = tileir.Context(disk_cache=None)
    device = context.device()
    executor, numbers = context.executor(device), np.arange(128, dtype=np.int32) % 37
    arrays = [np.zeros(256, np.int32), numbers]
    buffers = [executor.allocate(array.nbytes) for array in arrays]
    for array, buffer in zip(arrays, buffers, strict=True):
        executor.copy(array, buffer).wait()
    executor.prepare(context.compiler(device).build([parse_kernel(VOTES)]), 0).launch(buffers)
    executor.copy(buffers[0], arrays[0]).wait()
    np.testing.assert_array_equal(arrays[0], wanted(numbers))
