"""Turns of the parts of a group: hints, which all threads reach, and which change nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.errors import TileError
from tileir.semtree.check.verifier import verify
from tileir.semtree.interpret.interpreter import run
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.ir import Turn, TurnStep
from tileir.semtree.rewrite import statements
from tileir.semtree.text.parser import parse_kernel
from tileir.semtree.text.printer import to_text

ROUNDS = """kernel rounds(out f32 O[8], in f32 A[8]) grid(1) group(8) index(i32) {
  i32 t = local_id(0);
  for (i32 k = 0; k < 3; k += 1) {
    turn take 4;
    O[t] = A[t] + 1.0;
    turn pass 4;
  }
}
"""


def test_turns_are_hints() -> None:
    kernel = parse_kernel(ROUNDS)
    assert parse_kernel(to_text(kernel)) == kernel
    steps = [stmt for stmt in statements(kernel.body) if isinstance(stmt, Turn)]
    assert steps == [Turn(TurnStep.TAKE, 4), Turn(TurnStep.PASS, 4)]
    result = np.zeros(8, np.float32)
    run(kernel, [result, np.arange(8, dtype=np.float32)], ALL_CHECKS)
    np.testing.assert_array_equal(result, np.arange(8) + 1.0)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("turn take 4", "turn take 3", "TIL551"),
        ("turn take 4", "turn take 0", "TIL551"),
        ("turn take 4", "turn take 2", "TIL551"),
        ("    turn take 4;", "    if (t < 4) { turn take 4; }", "TIL555"),
        ("k < 3", "k < t", "TIL555"),
    ],
)
def test_all_threads_take_turns_in_equal_parts(old: str, new: str, code: str) -> None:
    assert old in ROUNDS
    with pytest.raises(TileError) as caught:
        verify(parse_kernel(ROUNDS.replace(old, new)))
    assert code in [fault.code for fault in caught.value.diagnostics]
