"""The special ``order`` for groups: its parameters, what it refuses, and what it means."""

from __future__ import annotations

import numpy as np
import pytest

from tileir.core.dtype import DType
from tileir.stripe.check.verifier import diagnose
from tileir.stripe.interpret.interpreter import interpret
from tileir.stripe.ir import Program, Special
from tileir.stripe.sorting import SortParameters, order_fault
from tileir.stripe.text.parser import parse

PARTS = "descending=0, threads=32, items=3, part=96, keep=4"


def program_of(parameters: str, *, size: int = 200, count: int = 12, kind: str = "fp32") -> Program:
    """Return a program that sorts a row with a payload, and stores sorted keys, too."""
    return parse(f"""
program (X, P) -> (O, S)
0: #program
block [] (
    #user none new@0x00000000 X[0] {kind}({size}:1)
    #user none new@0x00000000 P[0] i32({size}:1)
    #user none new@0x00000000 O[0] i32({count}:1)
    #user none new@0x00000000 S[0] {kind}({count}:1)
) {{
  0: #main block [] (
      in X[0] {kind}({size}:1)
      in P[0] i32({size}:1)
      out O[0] i32({count}:1)
      out S[0] {kind}({count}:1)
  ) {{
    0: #kernel block [] (
        in X[0] {kind}({size}:1)
        in P[0] i32({size}:1)
        out O[0] i32({count}:1)
        out S[0] {kind}({count}:1)
    ) {{
      0: (O, S) = order(X, P, {parameters})
    }}
  }}
}}
""")


def test_parts_with_a_payload() -> None:
    random = np.random.default_rng(0)
    keys, payload = random.integers(0, 9, 200).astype(np.float32), random.permutation(200).astype(np.int32)
    found = interpret(program_of(PARTS), {"X": keys, "P": payload})
    chosen = [start + np.argsort(keys[start : start + 96], kind="stable")[:4] for start in (0, 96, 192)]
    np.testing.assert_array_equal(found["O"], payload[np.concatenate(chosen)])
    np.testing.assert_array_equal(found["S"], keys[np.concatenate(chosen)])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("descending=2", "the parameter descending, 0 or 1"),
        ("descending=0, radix=8", "the parameter descending, 0 or 1"),
        ("descending=0, threads=-32, items=3", "no negative numbers"),
        ("descending=0, threads=24, items=3", "a power of two of threads"),
        ("descending=0, threads=32", "a power of two of threads"),
        ("descending=0, part=96", "a power of two of threads"),
        ("descending=0, threads=32, items=3, runs=100", "joins two runs"),
        ("descending=0, threads=32, items=3, runs=96, part=96", "joins two runs"),
        ("descending=0, threads=32, items=3, part=96, keep=3", "stores 9 elements"),
        ("descending=0, threads=32, items=3", "too few for a row of 200"),
        ("descending=0, threads=32, items=3, part=100, keep=6", "cannot sort"),
        ("descending=0, threads=32, items=3, runs=96", "cannot sort"),
        ("descending=0", "for groups of threads also a payload"),
    ],
)
def test_what_is_refused(parameters: str, message: str) -> None:
    found = [diagnostic for diagnostic in diagnose(program_of(parameters)) if diagnostic.code == "TIL512"]
    assert len(found) == 1
    assert message in found[0].message


def test_parameters_are_those_that_were_given() -> None:
    plan = SortParameters(descending=True, threads=256, items=17, part=8704, runs=4352)
    special = Special("order", ("X",), ("O",), plan.parameters())
    assert SortParameters.of(special) == plan
    assert SortParameters(descending=False).parameters() == (("descending", 0),)
    assert SortParameters(descending=False, threads=32, items=3, part=96, keep=4).stored(200) == 12
    assert order_fault(special, [], []) is None


def test_a_payload_and_sorted_keys_have_the_dtypes_of_places_and_keys() -> None:
    program = program_of(PARTS, kind="fp64")
    assert not list(diagnose(program))
    assert DType.F64 in {memory.shape.dtype for memory in program.memory}
