"""Thread indices, arrays that threads own or share, and the barriers between, as text and by the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.passes import arrays_for, program_of
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.targets.target import Target
from tileir.semtree.check.verifier import verify_program
from tileir.semtree.interpret.interpreter import run_program
from tileir.semtree.interpret.memory import ALL_CHECKS
from tileir.semtree.lower.lowering import lower
from tileir.semtree.text.printer import to_text
from tileir.stripe.interpret.interpreter import interpret

SUM = """
block [(#grid g:3)]:3 (
  in X[8*g] fp32:I(8):(1):32 B
  out O[g] fp32:I(1):(1):4 B
  none new@0x00000000 S<LOCAL>[0] fp32:I(4):(1):16 B
  none new@0x00000000 R<REGISTER>[0, 0] fp32:I(4, 1):(1, 1):16 B
) {
  0: block [(#thread t:4)]:4 (
    in X[t] fp32:I(5):(1):20 B
    out S[t] fp32:I(1):(1):4 B
    out R[t, 0] fp32:I(1, 1):(1, 1):4 B
  ) {
    0: block []:1 (
      in A = X[0] fp32:I(1):(1):4 B
      in B = X[4] fp32:I(1):(1):4 B
      out S[0] fp32:I(1):(1):4 B
      out R[0, 0] fp32:I(1, 1):(1, 1):4 B
    ) {
      0: $a = load(A)
      1: $b = load(B)
      2: $c = add($a, $b)
      3: S = store($c)
      4: R = store($b)
    }
  }
  1: block [(#thread t:2)]:2 (
    inout S[t]:add fp32:I(1):(1):4 B
    in T = S[t + 2] fp32:I(1):(1):4 B
  ) {
    0: $x = load(T)
    1: S = store($x)
  }
  2: block []:1 (
    in A = S[0] fp32:I(1):(1):4 B
    in B = S[1] fp32:I(1):(1):4 B
    in R[0, 0] fp32:I(1, 1):(1, 1):4 B
    out O[0] fp32:I(1):(1):4 B
  ) {
    0: $a = load(A)
    1: $b = load(B)
    2: $r = load(R)
    3: $s = add($a, $b)
    4: $t = add($s, $r)
    5: O = store($t)
  }
}
"""
SUM_SIZES: dict[str, tuple[int, ...]] = {"X": (24,), "O": (3,)}
SUM_KERNEL = """
    i64 g = group_id(0);
    i64 tid = local_id(0);
    local f32 S[4] align(64);
    f32 R = 0.0;
    f32 a = X[g * 8 + tid];
    f32 b = X[g * 8 + tid + 4];
    f32 c = a + b;
    S[tid] = c;
    R = b;
    barrier();
    if (tid < 2) {
      f32 x = S[tid + 2];
      S[tid] = S[tid] + x;
    }
    barrier();
    if (tid < 1) {
"""

SHIFT = """
block [(#grid g:2)]:2 (
  in X[12*g] fp32:I(12):(1):48 B
  out O[12*g] fp32:I(12):(1):48 B
) {
  0: block [k:3]:3 (
    none new@0x00000000 S<LOCAL>[0] fp32:I(4):(1):16 B
    in X[4*k] fp32:I(4):(1):16 B
    out O[4*k] fp32:I(4):(1):16 B
  ) {
    0: block [(#thread a:2), (#thread b:2)]:4 (
      in X[2*a + b] fp32:I(1):(1):4 B
      out S[2*a + b] fp32:I(1):(1):4 B
    ) {
      0: $x = load(X)
      1: S = store($x)
    }
    1: block [(#thread t:4)]:4 (
      in S[3 - t] fp32:I(1):(1):4 B
      out O[t] fp32:I(1):(1):4 B
    ) {
      0: $x = load(S)
      1: O = store($x)
    }
  }
}
"""
SHIFT_SIZES: dict[str, tuple[int, ...]] = {"X": (24,), "O": (24,)}
SHIFT_KERNEL = """
    for (i64 k = 0; k < 3; k += 1) {
      i64 a = tid >> 1;
      i64 b = tid & 1;
      f32 x = X[a * 2 + b + g * 12 + k * 4];
      S[a * 2 + b] = x;
      barrier();
      f32 x_0 = S[-tid + 3];
      O[g * 12 + k * 4 + tid] = x_0;
      barrier();
    }
"""
CASES = {"a sum with a merge": (SUM, SUM_SIZES, SUM_KERNEL), "a loop": (SHIFT, SHIFT_SIZES, SHIFT_KERNEL)}


@pytest.mark.parametrize("name", CASES)
def test_threads_meet_where_they_hand_on_elements(name: str) -> None:
    text, sizes, expected = CASES[name]
    program = program_of([text.strip()], sizes)
    kernels = lower(program, Target())
    verify_program(kernels)
    assert expected.strip() in to_text(kernels)
    assert kernels.kernels[0].group == (4,)
    arrays = arrays_for(program)
    for output, array in interpret(program, arrays).items():
        np.testing.assert_array_equal(run_program(kernels, arrays, ALL_CHECKS)[output], array)


def test_no_barrier_where_each_thread_reads_what_it_wrote() -> None:
    text = SHIFT.replace("in S[3 - t]", "in S[t]")
    assert "barrier" not in to_text(lower(program_of([text.strip()], SHIFT_SIZES), Target()))


def test_digits_of_other_numbers_are_divided() -> None:
    text = SHIFT.replace("(#thread a:2), (#thread b:2)]:4", "(#thread a:2), (#thread c:1), (#thread b:3)]:6")
    printed = to_text(lower(program_of([text.replace("2*a + b", "a").strip()], SHIFT_SIZES), Target()))
    assert "i64 a = tid / 3;" in printed
    assert "i64 b = tid % 3;" in printed


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  0: block []:1 (", "  0: block [(#thread u:2)]:2 (", "inside those of another block"),
        ("R[t, 0]", "R[0, 0]", "whose first axis is to be the number of the thread that owns it, and not 0"),
        ("block [(#thread t:2)]:2 (", "block [(#thread t = g:2)]:2 (", "a thread index of block  depends"),
        (
            "none new@0x00000000 S<LOCAL>[0]",
            "none new@0x00000000 S<SCRATCH>[0]",
            "hand on elements of 'S', which is not",
        ),
        ("  2: block", "  2: $q = (fp32)0.0\n  3: block", "has statements beside blocks"),
    ],
)
def test_what_threads_cannot_run_is_refused(old: str, new: str, message: str) -> None:
    assert old in SUM
    text = SUM.replace(old, new)
    with pytest.raises(TileError, match=message) as caught:
        lower(program_of([text.strip()], SUM_SIZES), Target())
    assert caught.value.diagnostics[0].code == "TIL502"


def test_a_thread_cannot_allocate_what_all_share() -> None:
    text = SUM.replace(
        "in X[t] fp32:I(5):(1):20 B",
        "in X[t] fp32:I(5):(1):20 B\n    none new@0x00000000 Q<LOCAL>[0] fp32:I(4):(1):16 B",
    )
    with pytest.raises(TileError, match="Q is at LOCAL, but allocated by each thread"):
        lower(program_of([text.strip()], SUM_SIZES), Target())


FILL = """
block [(#grid g:{groups}), (#thread t:256)]:1 (
  out O[256*g + t] fp32:I(1):(1):4 B
) {{
  0: $x = (fp32)0.0
  1: O = store($x)
}}
"""


@pytest.mark.parametrize(("groups", "index"), [(1 << 22, DType.I32), (1 << 23, DType.I64)])
def test_large_kernels_count_in_64_bits(groups: int, index: DType) -> None:
    program = program_of([FILL.format(groups=groups).strip()], {"O": (groups * 256,)}, inputs=())
    assert lower(program, Target(index_dtype=DType.I32)).kernels[0].index is index


COPY = """
block [(#grid a:2), (#grid b:3), (#grid c:2), (#grid d:3), (#grid e:2)]:72 (
  in X[a, b, c, d, e] fp32:I(1, 1, 1, 1, 1):(36, 12, 6, 2, 1):4 B
  out O[a, b, c, d, e] fp32:I(1, 1, 1, 1, 1):(36, 12, 6, 2, 1):4 B
) {
  0: $x = load(X)
  1: O = store($x)
}
"""


def test_more_than_three_grid_indices_share_an_axis() -> None:
    program = program_of([COPY.strip()], {"X": (2, 3, 2, 3, 2), "O": (2, 3, 2, 3, 2)})
    kernels = lower(program, Target())
    verify_program(kernels)
    assert kernels.kernels[0].grid == (2, 3, 12)
    arrays = arrays_for(program)
    np.testing.assert_array_equal(run_program(kernels, arrays, ALL_CHECKS)["O"], arrays["X"])
