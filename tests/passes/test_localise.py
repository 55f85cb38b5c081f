from __future__ import annotations

from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.localise import Localise
from tileir.stripe.ir import Direction, Program
from tileir.stripe.text.printer import to_text

ELEMENT = """
block [i:4]:4 (
  in X[i] fp32:I(1):(1):4 B
  out T[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
) {
  0: $x = load(X)
  1: T = store($x)
  2: $t = load(T)
  3: O = store($t)
}
"""
TILE = """
block [i:2]:2 (
  in X[4*i, 0] fp32:I(4, 3):(3, 1):48 B
  out T[4*i, 0] fp32:I(4, 2):(3, 1):32 B
  out O[4*i, 0] fp32:I(4, 2):(3, 1):32 B
) {
  0: block [y:4, z:2]:8 (
    in X[y, z] fp32:I(1, 1):(3, 1):4 B
    out T[y, z] fp32:I(1, 1):(3, 1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
  1: block [y:4, z:2]:8 (
    in T[y, z] fp32:I(1, 1):(3, 1):4 B
    out O[y, z] fp32:I(1, 1):(3, 1):4 B
  ) {
    0: $x = load(T)
    1: O = store($x)
  }
}
"""


def test_an_element_goes_to_a_register() -> None:
    program = program_of([ELEMENT], dict.fromkeys("XTO", (4,)))
    after = run((Localise(),), program)
    assert_same_meaning(program, after)
    assert "none new@0x00000000 T<REGISTER>[0] fp32:I(1):(1):4 B" in to_text(after.main.blocks[0])
    assert [r.name for r in after.entry.refinements] == ["X", "O"]
    assert [r.name for r in after.main.refinements] == ["X", "O"]


def test_a_tile_becomes_dense() -> None:
    sizes = dict.fromkeys("XT", (8, 3)) | {"O": (8, 3)}
    fill = "block [i:8, j:3]:24 (\n out O[i, j] fp32:I(1, 1):(3, 1):4 B\n) {\n 0: $c = (fp32)0.0\n 1: O = store($c)\n}"
    program = program_of([fill, TILE], sizes)
    after = run((Localise(),), program)
    assert_same_meaning(program, after)
    text = to_text(after.main.blocks[1])
    assert "none new@0x00000000 T[0, 0] fp32:I(4, 2):(2, 1):32 B" in text
    assert "in T[y, z] fp32:I(1, 1):(2, 1):4 B" in text


def test_what_others_use_stays_where_it_is() -> None:
    sizes = dict.fromkeys("XTO", (4,))
    results = program_of([ELEMENT], sizes, ("O", "T"))
    assert Localise()(results) is results
    second = """
block [i:4]:4 (
  in T[i] fp32:I(1):(1):4 B
  out P[i] fp32:I(1):(1):4 B
) {
  0: $t = load(T)
  1: P = store($t)
}
"""
    shared = program_of([ELEMENT, second], sizes | {"P": (4,)}, ("O", "P"))
    assert Localise()(shared) is shared


def test_only_kernels_with_the_tags_are_rewritten() -> None:
    program = program_of([ELEMENT], dict.fromkeys("XTO", (4,)))
    assert Localise(reqs=("fused",))(program) is program


@given(programs(12))
@examples(80)
def test_meaning_stays(program: Program) -> None:
    after = run((Accumulate(), Fuse(), Localise()), program)
    assert_same_meaning(program, after)
    users = {r.source: 0 for r in after.main.refinements}
    for kernel in after.main.blocks:
        for source in {r.source for r in kernel.refinements if r.direction is not Direction.NONE}:
            users[source] += 1
    assert all(users[r.source] != 0 for r in after.main.refinements)
