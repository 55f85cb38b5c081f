from __future__ import annotations

import numpy as np
import pytest

from tileir.semtree.analysis.constant_works import constant_works, without_constant_works
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.ir import BufferRole
from tileir.semtree.launches import used_buffers
from tileir.semtree.text.parser import parse_program
from tileir.semtree.transform.in_place import reuse_in_place

HEAD = """\
program {
  input f32 A[4];
  constant f32 K[4] = "0000803f000000400000404000008040";
  constant bool Go[1] = "01";
  temporary f32 T[4];
  temporary f32 U[4];
  temporary f32 V[4];
  temporary f32 Huge[1048576];
  output f32 O[4];
  output f32 P[4];
  kernel double(out f32 o[4] noalias, in f32 x[4] noalias) grid(1) {
    for (i64 i = 0; i < 4; i += 1) { o[i] = x[i] + x[i]; }
  }
  kernel add(out f32 o[4] noalias, in f32 x[4] noalias, in f32 y[4] noalias) grid(1) {
    for (i64 i = 0; i < 4; i += 1) { o[i] = x[i] + y[i]; }
  }
  kernel bump(inout f32 o[4]) grid(1) {
    for (i64 i = 0; i < 4; i += 1) { o[i] = o[i] + 1.0; }
  }
  kernel spread(out f32 o[1048576] noalias, in f32 x[4] noalias) grid(1) {
    for (i64 i = 0; i < 1048576; i += 1) { o[i] = x[0]; }
  }
  kernel first(out f32 o[4] noalias, in f32 x[1048576] noalias) grid(1) {
    for (i64 i = 0; i < 4; i += 1) { o[i] = x[i]; }
  }
"""

CASES = {
    "launch 0(T, K); launch 1(O, T, A); launch 0(P, A);": {0},
    "launch 0(T, K); launch 0(U, T); launch 1(O, U, A); launch 1(P, T, A);": {0, 1},
    "launch 1(O, A, K); launch 0(T, K); launch 1(P, T, A);": {1},  # in whatever order they stand
    "launch 0(T, A); launch 0(U, K); launch 1(V, T, U); launch 0(O, V); launch 0(P, V);": {1},
    "launch 0(O, K); launch 0(P, A);": set(),  # each run writes its results
    "launch 0(T, K); launch 2(T); launch 1(O, T, A); launch 0(P, A);": {0, 1},
    "launch 0(T, K); launch 1(U, T, A); launch 0(T, U); launch 0(O, T); launch 0(P, U);": set(),  # written again
    "launch 0(U, A); launch 0(T, K); launch 1(O, T, A); launch 0(T, U); launch 1(P, T, A);": set(),
    "launch 0(U, K); launch 0(T, K); launch 1(O, T, A); launch 0(T, U); launch 1(P, T, A);": {0},  # read in between
    "launch 0(T, K); launch 1(O, T, A); launch 2(T); launch 1(P, T, A);": set(),  # read in between
    "launch 3(Huge, K); launch 4(T, Huge); launch 1(O, T, A); launch 0(P, A);": set(),  # larger than its origin
    "repeat 3 { launch 0(T, K); launch 0(U, T); } launch 1(O, U, A); launch 0(P, A);": {0},
    "if (Go) { launch 0(T, K); } else { launch 1(T, K, K); } launch 1(O, T, A); launch 0(P, A);": {0},
    "if (Go) { launch 0(T, K); } else { launch 0(T, A); } launch 1(O, T, A); launch 0(P, A);": set(),
}


@pytest.mark.parametrize("works", CASES)
def test_works_that_depend_on_constants_alone(works: str) -> None:
    program = parse_program(f"{HEAD}  {works}\n}}")
    verify_program(program)
    once = constant_works(program)
    assert once == CASES[works]
    left = without_constant_works(program, once)
    assert len(left.works) == len(program.works) - len(once)
    assert {each.name for each in left.buffers if each.role is BufferRole.TEMPORARY} <= {*used_buffers(left.works)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("works", CASES)
def test_what_is_made_once_is_never_written_over(works: str) -> None:
    program = parse_program(f"{HEAD}  {works}\n}}")
    reused = reuse_in_place(program)
    assert len(constant_works(reused)) == len(constant_works(program))
    a = {"A": np.arange(4, dtype=np.float32)}
    for name, array in run_program(program, a).items():
        np.testing.assert_array_equal(run_program(reused, a)[name], array)
