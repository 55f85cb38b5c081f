"""Accesses of a kernel without its last bounds test, which stay inside its tensors."""

from __future__ import annotations

import pytest
from hypothesis import given

from strategies.catalogue import parse_pipeline
from strategies.effort import examples
from strategies.families import Written, written
from strategies.passes import assert_same_meaning, program_of
from tileir.passes.base import run
from tileir.passes.regions.narrowing import narrowed
from tileir.stripe.ir import Program
from tileir.stripe.text.printer import to_text

JOINING = (
    "accumulate,fusion{rows=true,least_points=1,least_row=1}",
    "accumulate,fuse{max_reductions=8}",
    "canonicalise,accumulate,fuse{max_reductions=8,siblings=false}",
)
"""Pipelines that let a reduction and one that writes over it share a kernel."""

SHARED = """
block [o:2]:2 (
  in X[3*o - 1] fp32:I(6):(1):24 B
  out O[o] fp32:I(1):(1):4 B
  out T[o] fp32:I(1):(1):4 B
  none new@0x00000000 S[0] fp32:I(1):(1):4 B
) {
  0: $zero = (fp32)0
  1: S = store($zero)
  2:
  block [i:3]:3 (
    in X[i + 1] fp32:I(1):(1):4 B
    inout S[0]:add fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: S = store($x)
  }
  3: $s = load(S)
  4: O = store($s)
  5:
  block [o = o, i:6]:6 (
    TEST
    in X[i] fp32:I(1):(1):4 B
    out T[0] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
}
"""
"""Two blocks that share a view, of which one tests where it is in the tensor: X has 6 elements."""


def shared(test: str, outputs: tuple[str, ...] = ("O",)) -> Program:
    return program_of([SHARED.replace("TEST", test)], {"X": (6,), "O": (2,), "T": (2,)}, outputs)


INSIDE = "3*o + i - 1 >= 0\n    6 - 3*o - i >= 0"
NEVER = "o + i - 9 >= 0"


@pytest.mark.parametrize(
    ("test", "step"), [(INSIDE, "dead_code"), (NEVER, "canonicalise"), (NEVER, "reduce_constraints")]
)
def test_a_block_that_goes_leaves_no_view_over_the_edge(test: str, step: str) -> None:
    program = shared(test)
    after = run(parse_pipeline(step), program)
    assert "in X[3*o] fp32:I(3):(1):12 B, E(6):24 B" in to_text(after)
    assert "in X[i] fp32:I(1):(1):4 B, E(3):12 B" in to_text(after)
    assert_same_meaning(program, after)


WIDE = """
block [o:2]:2 (
  1 - o >= 0
  in X[2*o] fp32:I(5):(1):20 B
  out O[2*o] fp32:I(5):(1):20 B
) {
  0:
  block [i:COUNT]:COUNT (
    TEST
    in X[i] fp32:I(1):(1):4 B
    out O[i] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: O = store($x)
  }
}
"""


@pytest.mark.parametrize("step", ["canonicalise", "reduce_constraints"])
def test_views_that_nothing_uses_go(step: str) -> None:
    text = SHARED.replace("TEST", NEVER).replace("in X[i] fp32", "in X = Y[i] fp32")
    text = text.replace("  out O[o]", "  in Y[4*o] fp32:I(6):(1):24 B\n  out O[o]")
    text = text.replace("in X[3*o - 1] fp32:I(6):(1):24 B", "in X[3*o] fp32:I(4):(1):16 B")
    text = text.replace("in X[i + 1]", "in X[i]")
    program = program_of([text], {"X": (7,), "Y": (6,), "O": (2,), "T": (2,)})
    after = run(parse_pipeline(step), program)
    assert [r.name for r in after.main.blocks[0].refinements] == ["X", "O", "S"]
    assert_same_meaning(program, after)


@pytest.mark.parametrize(("count", "test"), [("2", ""), ("5", "1 - i >= 0")])
@pytest.mark.parametrize("step", ["canonicalise", "reduce_constraints", "canonicalise,reduce_constraints"])
def test_a_test_that_goes_leaves_no_view_over_the_edge(count: str, test: str, step: str) -> None:
    program = program_of([WIDE.replace("COUNT", count).replace("TEST", test)], {"X": (4,), "O": (4,)})
    after = run(parse_pipeline(step), program)
    assert_same_meaning(program, after)
    if "reduce" in step:
        assert "in X[2*o] fp32:I(2):(1):8 B, E(4):16 B" in to_text(after)


def test_views_that_statements_use_stay_as_they_are() -> None:
    text = """
block []:1 (
  in X[0] fp32:I(4):(1):16 B
  in Y[0] fp32:I(4):(1):16 B
  out O[0] fp32:I(4):(1):16 B
  out T[0] fp32:I(4):(1):16 B
) {
  0: (O) = copy(X)
  1:
  block [i:2]:2 (
    in X[i] fp32:I(1):(1):4 B
    in Y[i + 1] fp32:I(1):(1):4 B
    out O[i] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: $y = load(Y)
    2: $z = add($x, $y)
    3: O = store($z)
  }
  2:
  block [i:4]:4 (
    2 - i >= 0
    in X[i] fp32:I(1):(1):4 B
    out T[i] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
}
"""
    program = program_of([text], {"X": (4,), "Y": (4,), "O": (4,), "T": (4,)}, ("O",))
    after = run(parse_pipeline("dead_code"), program)
    views = {r.name: (r.access[0].offset, r.shape.sizes) for r in after.main.blocks[0].refinements}
    assert views == {"X": (0, (4,)), "Y": (1, (2,)), "O": (0, (4,))}
    assert_same_meaning(program, after)


def test_what_never_had_a_test_is_returned_itself() -> None:
    program = program_of(
        [WIDE.replace("1 - o >= 0", "").replace("COUNT", "5").replace("TEST", "")], {"X": (7,), "O": (7,)}
    )
    kernel = program.main.blocks[0]
    assert narrowed(kernel, kernel) is kernel
    assert narrowed(kernel, program.main) is kernel


@pytest.mark.sampled(2)
@pytest.mark.parametrize("joining", JOINING)
@given(case=written("diagonals"))
@examples(120)
def test_reductions_over_which_others_write(joining: str, case: Written) -> None:
    program = case.program()
    joined = run(parse_pipeline(joining), program)
    assert_same_meaning(program, run(parse_pipeline("localise,scalarise,dead_code"), joined))


OVERWRITTEN = (
    ("R[] = >(A[i + j, i] + A[j / 2, i]); O[] = *(A[l, j] * A[k / 2, j]) default R;", (4, 4)),
    ("R[] = <(A[i, 6 - j - k] * A[k, 0 - i - j]); O[] = +(A[k, k] * A[j, k]) default R;", (7, 4)),
    ("R[] = +(A[9 - k - i, 2*j + k] * A[j, 9 - i - k]), i < 3; O[] = +(A[j, 2 - j]) default R;", (9, 8)),
    ("R[] = >(A[j / 2, 2*i + k] * A[i, k / 2]), i < 3; O[] = <(A[k, 0 - k] * A[j, k]) default R;", (8, 17)),
)


@pytest.mark.parametrize("joining", JOINING)
@pytest.mark.parametrize(("body", "shape"), OVERWRITTEN)
def test_reductions_of_which_nothing_is_left(joining: str, body: str, shape: tuple[int, int]) -> None:
    program = Written(f"function (A[M, N]) -> (O) {{ {body} }}", {"A": shape}).program()
    after = run(parse_pipeline(f"{joining},localise,scalarise,dead_code"), program)
    assert_same_meaning(program, after)
