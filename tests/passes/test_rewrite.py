"""The pass that applies laws to the scalars of blocks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.laws import ENDLESS, SOUND
from strategies.passes import assert_same_meaning, program_of, programs
from tileir.core.errors import DivergenceError, ParseError
from tileir.passes.base import run
from tileir.passes.rewrites.rewrite import Rewrite
from tileir.stripe.ir import Program
from tileir.stripe.text.printer import to_text

BLOCK = """
block [i:4]:4 (
  in X[i] fp32:I(1):(1):4 B
  in Y[i] fp32:I(1):(1):4 B
  out O[i] fp32:I(1):(1):4 B
) {{
{body}
}}
"""


def rewritten(body: str, *laws: str) -> list[str]:
    """Return the statements after laws, without their numbers."""
    program = program_of([BLOCK.format(body=body)], {"X": (4,), "Y": (4,), "O": (4,)})
    after = run((Rewrite(laws),), program)
    assert run((Rewrite(laws),), after) == after
    return [line.strip().partition(": ")[2] for line in to_text(after.main.blocks[0]).splitlines() if "$" in line]


@examples(100)
@given(programs())
def test_sound_laws_keep_meaning(program: Program) -> None:
    after = run((Rewrite(SOUND),), program)
    assert not re.search(r"\$\w+ = (sub|cmp_lt)[(:]", to_text(after))
    assert_same_meaning(program, after)


def test_a_law_reaches_over_statements() -> None:
    assert rewritten(
        "  0: $x = load(X)\n  1: $y = load(Y)\n  2: $s = sqrt($y)\n  3: $o = div($x, $s)\n  4: O = store($o)",
        "div(x, sqrt(y)) -> mul(x, rsqrt(y))",
    ) == ["$x = load(X)", "$y = load(Y)", "$law = rsqrt($y)", "$o = mul($x, $law)", "O = store($o)"]


def test_what_is_still_read_stays() -> None:
    found = rewritten(
        "  0: $x = load(X)\n  1: $s = sqrt($x)\n  2: $o = div($x, $s)\n  3: $p = add($o, $s)\n  4: O = store($p)",
        "div(x, sqrt(y)) -> mul(x, rsqrt(y))",
    )
    assert "$s = sqrt($x)" in found
    assert "$o = mul($x, $law)" in found


def test_laws_are_applied_one_after_the_other() -> None:
    found = rewritten(
        "  0: $x = load(X)\n  1: $y = load(Y)\n  2: $o = sub($x, $y)\n  3: O = store($o)",
        "sub(x, y) -> add(x, neg(y))",
        "neg(y) -> mul(y, -1)",
    )
    operations = [line.partition(" = ")[2].partition("$")[0] for line in found]
    assert operations == ["load(X)", "load(Y)", "(fp32)-1.0", "mul(", "add(", "store("]


def test_a_value_that_is_there_is_copied() -> None:
    assert rewritten(
        "  0: $x = load(X)\n  1: $n = neg($x)\n  2: $o = neg($n)\n  3: O = store($o)", "neg(neg(x)) -> x"
    ) == ["$x = load(X)", "$o = ident($x)", "O = store($o)"]


def test_numbers_that_a_dtype_cannot_hold_keep_a_law_away() -> None:
    program = tileir.compile("function (X) -> (O) { O = -X; }", [("i32", (4,))], passes="plain").stripe
    assert run((Rewrite(("neg(x) -> mul(x, 0.5)",)),), program) is program
    after = run((Rewrite(("neg(x) -> mul(x, -1)",)),), program)
    assert "$law = (i32)-1" in to_text(after)
    assert_same_meaning(program, after)


def test_endless_laws_are_told() -> None:
    with pytest.raises(DivergenceError, match="still fits after many changes"):
        rewritten("  0: $x = load(X)\n  1: $o = add($x, $x)\n  2: O = store($o)", ENDLESS)


def test_the_text_of_a_pipeline_has_laws() -> None:
    passes = tileir.parse('rewrite{laws=("neg(neg(x)) -> x"), reqs=(eltwise)}', stage="pipeline")
    assert passes == (Rewrite(("neg(neg(x)) -> x",), ("eltwise",)),)
    assert tileir.parse(tileir.to_text(passes), stage="pipeline") == passes
    with pytest.raises(ParseError, match=r"TIL543.*is no law: there is no operation nag"):
        tileir.parse('rewrite{laws=("nag(x) -> x")}', stage="pipeline")


def test_only_kernels_with_the_tags_are_rewritten() -> None:
    program = tileir.compile("function (X) -> (O) { O = -X; }", [(3,)], passes="plain").stripe
    law = ("neg(x) -> sub(0, x)",)
    assert run((Rewrite(law, ("contraction",)),), program) is program
    assert "sub(" in to_text(run((Rewrite(law, ("eltwise",)),), program))
