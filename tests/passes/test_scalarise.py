from __future__ import annotations

from hypothesis import given

from strategies.effort import examples
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.base import run
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.rewrites.localise import Localise
from tileir.passes.rewrites.scalarise import Scalarise
from tileir.stripe.ir import Program
from tileir.stripe.text.printer import to_text

SIZES = {"X": (4,), "O": (4,)}


def scalarised(body: str, views: str = "") -> str:
    """Return the body after the pass, without the views."""
    program = program_of(
        [
            f"""
block [i:4]:4 (
  in X[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
  none new@0x00000000 T[0] fp32:I(1):(1):4 B
  {views}
) {{
{body}
}}
"""
        ],
        SIZES,
    )
    after = run((Scalarise(),), program)
    assert_same_meaning(program, after)
    return to_text(after.main.blocks[0])


def test_a_temporary_becomes_a_scalar() -> None:
    text = scalarised("""
  0: $x = load(X)
  1: $y = neg($x)
  2: T = store($y)
  3: $t = load(T)
  4: $z = add($t, $t)
  5: O = store($z)
""")
    assert (
        text
        == """\
0:
block [i:4]:4 (
    in X[i] fp32:I(1):(1):4 B, E(4):16 B
    out O[i] fp32:I(1):(1):4 B, E(4):16 B
) {
  0: $x = load(X)
  1: $y = neg($x)
  2: $z = add($y, $y)
  3: O = store($z)
}
"""
    )


def test_an_element_is_loaded_once() -> None:
    text = scalarised("""
  0: $x = load(X)
  1: $again = load(X)
  2: $y = add($x, $again)
  3: O = store($y)
""")
    assert text.count("load(") == 1
    assert "$y = add($x, $x)" in text


def test_a_store_that_is_overwritten_goes() -> None:
    text = scalarised("""
  0: $c = (fp32)1.0
  1: O = store($c)
  2: $x = load(X)
  3: O = store($x)
""")
    assert text.count("store(") == 1


def test_a_store_that_is_read_through_another_view_stays() -> None:
    fill = """
block [i:4]:4 (
  out O[i] fp32:I(1):(1):4 B
) {
  0: $c = (fp32)0.0
  1: O = store($c)
}
"""
    update = """
block [i:4]:4 (
  in X[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
  inout P = O[i] fp32:I(1):(1):4 B
) {
  0: $c = (fp32)1.0
  1: O = store($c)
  2: $o = load(P)
  3: $x = load(X)
  4: $y = add($o, $x)
  5: O = store($y)
}
"""
    program = program_of([fill, update], SIZES)
    assert run((Scalarise(),), program) is program


def test_accumulators_stay_in_place() -> None:
    body = """
  0: $zero = (fp32)0.0
  1: T = store($zero)
  2: block [k:3]:3 (
    inout T[0]:add fp32:I(1):(1):4 B
    in X[0] fp32:I(1):(1):4 B
  ) {
    0: $x = load(X)
    1: T = store($x)
  }
  3: $t = load(T)
  4: $u = load(T)
  5: $v = add($t, $u)
  6: O = store($v)
"""
    text = scalarised(body)
    assert text.count("T = store") == 2
    assert text.count("load(T)") == 1


def test_indirect_accesses_are_not_forwarded() -> None:
    text = scalarised(
        """
  0: $x = load(X)
  1: $n = cast_i32($x)
  2: L = store($x)
  3: $zero = (i32)0
  4: $a = load(L[$zero])
  5: O = store($a)
""",
        "none new@0x00000000 L[0] fp32:I(2):(1):8 B",
    )
    assert "load(L[$zero])" in text
    assert "L = store($x)" in text


def test_only_kernels_with_the_tags_are_rewritten() -> None:
    twice = """
block []:1 (
  out O[0] fp32:I(1):(1):4 B
) {
  0: $c = (fp32)0.0
  1: O = store($c)
  2: O = store($c)
}
"""
    program = program_of([twice], SIZES)
    assert Scalarise(reqs=("fused",))(program) is program
    assert Scalarise()(program) is not program


@given(programs(12))
@examples(80)
def test_meaning_stays(program: Program) -> None:
    assert_same_meaning(program, run((Accumulate(), Fuse(max_reductions=3), Localise(), Scalarise()), program))
