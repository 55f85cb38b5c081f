"""Each rule of Stripe is broken once."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.kernels import stripe_program
from strategies.stripe import blocks, programs
from tileir.core.dtype import DType
from tileir.core.errors import Diagnostic, VerifyError
from tileir.core.ops import Op
from tileir.stripe.check.verifier import CHECKS, diagnose, diagnose_block, verify
from tileir.stripe.flattening import flattened, with_entry
from tileir.stripe.ir import Block, Buffer, Intrinsic, Load, Program, Tags
from tileir.stripe.tags import LIFETIMES, PLACES
from tileir.stripe.text.parser import parse

GOOD = """\
program (A, B) -> (O)
0: #program
block []:1 ( // p
    #user none new@0x00000000 A[0, 0] fp32:I(4, 6):(6, 1):96 B
    #user none new@0x00000000 B[0] i32:I(6):(1):24 B
    #user none new@0x00000000 O[0, 0] fp32:I(4, 6):(6, 1):96 B
    #tmp none new@0x00000000 T[0, 0] fp32:I(4, 6):(6, 1):96 B
    none const new@0x00000000 C[0] i8:I(2):(1):2 B
) {
  0: #main
  block []:1 ( // p
      in A[0, 0] fp32:I(4, 6):(6, 1):96 B
      in B[0] i32:I(6):(1):24 B
      in C[0] i8:I(2):(1):2 B
      out T[0, 0] fp32:I(4, 6):(6, 1):96 B
      out O[0, 0] fp32:I(4, 6):(6, 1):96 B
  ) {
    0: #kernel
    block [i:4, j:6]:24 ( // first
        in A[i, j] fp32:I(1, 1):(6, 1):4 B
        in B[j] i32:I(1):(1):4 B
        out T[i, j] fp32:I(1, 1):(6, 1):4 B
    ) {
      0: $a = load(A)
      1: $b = load(B)
      2: $i = load_index(i + 1)
      3: $c = cmp_lt($b, $i)
      4: $z = (fp32)0.5
      5: $d = cond($c, $a, $z)
      6: T = store($d)
    }
    1: [0] #kernel
    block [i:2]:2 ( // second
        in T[2*i, 0] fp32:I(2, 6):(6, 1):48 B
        out O[2*i, 0]:add fp32:I(2, 6):(6, 1):48 B
        none new@0x00000000 local[0] fp32:I(6):(1):24 B
    ) {
      0: (local) = zero()
      1: [0]
      block [o = i, j:6, k:2]:12 ( // inner
          3 - 2*o - k >= 0
          in T[k, j] fp32:I(1, 1):(6, 1):4 B
          out O[k, j]:add fp32:I(1, 1):(6, 1):4 B
          in local[j] fp32:I(1):(1):4 B
      ) {
        0: $t = load(T)
        1: $l = load(local)
        2: $s = add($t, $l)
        3: O = store($s)
      }
    }
  }
}
buffer C = "00ff"
"""


def codes(text: str) -> set[str]:
    return {d.code for d in faults_of(text)}


def faults_of(text: str) -> tuple[Diagnostic, ...]:
    """Return all that is wrong with a text that can be read."""
    try:
        return diagnose(parse(text))
    except VerifyError as error:
        return error.diagnostics


def test_a_good_program_is_good() -> None:
    verify(parse(GOOD))


@examples(100)
@given(programs())
def test_generated_programs_are_good(program: Program) -> None:
    verify(program)


@examples(150)
@given(blocks())
def test_nonsense_gives_diagnostics_and_no_crash(block: Block) -> None:
    assert all(d.code.startswith("TIL5") and d.message for d in diagnose_block(block))
    with pytest.raises(VerifyError, match="TIL501"):
        flattened(block, ("A",), ("B",), (Buffer("C", b""),))


ATTENDED = 'fragment="mma_m16n8k16_f16", rows=32, tall=16, keys=32'


@pytest.mark.sampled(36)
@pytest.mark.parametrize(
    ("good", "bad", "code", "words"),
    [
        # the structure of a program
        ("0: #program\nblock []:1", "0: #program\nblock [x:2]:1", "TIL501", "no indices"),
        ("0: #main\n  block []:1", "0: #main\n  block [x:2]:1", "TIL501", "main block must have no indices"),
        ("program (A, B)", "program (A, B, Q)", "TIL501", "no allocation for 'Q'"),
        ("program (A, B)", "program (A, B, A)", "TIL501", "named twice"),
        ('"00ff"', '"00"', "TIL501", "must hold 2 bytes"),
        ("buffer C", "buffer T", "TIL501", "constant allocation"),
        ('buffer C = "00ff"\n', "", "TIL501", "no buffer"),
        ("  in A[0, 0]", "  in A[0, 1]", "TIL501", "must show all of 'A', as it is"),
        ("out T[0, 0]", "out T = S[0, 0]", "TIL501", "which the block around it has not"),
        ("#tmp none new@0x00000000 T", "#tmp in T", "TIL501", "must be an allocation"),
        # names
        ("in B[j] i32:I(1):(1):4 B", "in A = B[j] i32:I(1):(1):4 B", "TIL503", "defined twice"),
        ("[i:4, j:6]:24", "[i:4, i:6]:24", "TIL503", "defined twice"),
        ("$b = load(B)", "$a = load(B)", "TIL503", "defined twice"),
        ("$b = load(B)", "$b = load(Q)", "TIL503", "no refinement of the block"),
        ("in B[j]", "in B = Q[j]", "TIL503", "does not have"),
        # views
        ("none new@0x00000000 local[0]", "none new@0x00000000 local[1]", "TIL504", "accesses 0 only"),
        ("local[0] fp32:I(6):(1)", "local[0] fp32:I(6):(-1)", "TIL504", "negative strides"),
        ("in B[j] i32", "in B[j] i64", "TIL504", "has dtype i64"),
        ("in B[j] i32", "in B[j, 0] i32", "TIL504", "2 accesses for 1 dims"),
        ("in B[j] i32:I(1)", "in B[j] i32:I(-1)", "TIL504", "negative size"),
        ("in B[j] i32", "in B[1 + j] i32", "TIL504", "covers 1 to 7"),
        ("in B[j] i32", "in B[2*i + j] i32", "TIL504", "covers 0 to 12"),
        ("in B[j] i32", "in B[-1*j] i32", "TIL504", "covers -5 to 1"),
        ("in A[i, j] fp32:I(1, 1):(6, 1)", "in A[7*i + j] fp32:I(1):(1)", "TIL504", "covers elements 0 to 27"),
        ("in A[i, j] fp32:I(1, 1):(6, 1)", "in A[j, i] fp32:I(1, 1):(6, 1)", "TIL504", "covers 0 to 6 of axis 0"),
        ("in T[k, j] fp32:I(1, 1):(6, 1)", "in T[k] fp32:I(1):(1)", "", ""),
        ("in T[2*i, 0] fp32:I(2, 6):(6, 1)", "in T[i, 0] fp32:I(2, 5):(7, 1)", "", ""),
        # indices and affines
        ("[i:4, j:6]:24", "[i:0, j:6]:24", "TIL505", "drop blocks without points"),
        ("o = i,", "o = q,", "TIL505", "no index of the block around it"),
        ("o = i,", "o = 1/2*i,", "TIL505", "whole coefficients"),
        ("3 - 2*o", "3 - 2*i", "TIL505", "no index of the block"),
        ("in B[j]", "in B[k]", "TIL505", "no index of the block"),
        ("in B[j]", "in B[1/2*j]", "TIL505", "whole coefficients"),
        # directions
        ("out T[i, j]", "in T[i, j]", "TIL506", "writes 'T'"),
        ("0: (local) = zero()\n      1: [0]\n", "0:\n", "TIL506", "reads 'local'"),
        ("in A[i, j] fp32", "in A = T[i, j] fp32", "TIL506", "reads 'T'"),
        ("$a = load(A)", "$a = load(T)", "TIL506", "reads 'T'"),
        # aggregations
        ("out O[k, j]:add", "out O[k, j]:max", "TIL507", "must aggregate"),
        ("out O[k, j]:add", "out O[k, j]", "TIL507", "must aggregate"),
        ("out O[k, j]:add", "inout O[k, j]:add", "TIL507", "must aggregate"),
        ("in T[k, j] fp32", "in T[k, j]:add fp32", "TIL507", "out or inout"),
        ("$t = load(T)", "$t = load(O)", "TIL507", "cannot be loaded"),
        # scalars
        ("cmp_lt($b, $i)", "cmp_lt($b, $x)", "TIL508", "uses $x"),
        ("cmp_lt($b, $i)", "cmp_lt($b)", "TIL508", "takes 2 operands"),
        ("cmp_lt($b, $i)", "cmp_lt($b, $a)", "TIL508", "one dtype"),
        ("cmp_lt($b, $i)", "cmp_lt:i32($b, $i)", "TIL508", "not i32"),
        ("cmp_lt($b, $i)", "exp($b)", "TIL508", "does not work on i32"),
        ("cond($c, $a, $z)", "cond($b, $a, $z)", "TIL508", "must be bool"),
        ("cond($c, $a, $z)", "neg($c)", "TIL508", "does not work on bool"),
        ("cond($c, $a, $z)", "bit_left($c, $c)", "TIL508", "does not work on bool"),
        ("T = store($d)", "T = store($b)", "TIL508", "convert it"),
        ("(fp32)0.5", "(i8)300", "TIL508", "does not fit"),
        ("load_index(i + 1)", "load_index(k)", "TIL508", "block's indices"),
        ("load_index(i + 1)", "load_index:bool(i)", "TIL508", "truth value"),
        ("$l = load(local)", "$l = load(local[$t])", "TIL508", "must be an integer"),
        # dependencies
        ("1: [0] #kernel", "1: [1] #kernel", "TIL509", "not before it"),
        # specials
        ("(local) = zero()", "(local) = zero(value=1)", "TIL512", "copy, zero and transpose take none"),
        ("(local) = zero()", "(local) = fill()", "TIL512", "takes the parameter"),
        ("(local) = zero()", "(local) = fill(value=none)", "TIL512", "does not fit"),
        ("(local) = zero()", "(local) = zero(T)", "TIL512", "no input"),
        ("(local) = zero()", "(local) = copy(T)", "TIL512", "one shape"),
        ("(local) = zero()", "(local) = order(T)", "TIL512", "the parameter descending"),
        ("(local) = zero()", "(local) = order(T, descending=2)", "TIL512", "the parameter descending"),
        ("(local) = zero()", "(local) = order(T, descending=1)", "TIL512", "order needs rows"),
        ("(local) = zero()", "(local) = attend(T, T, T)", "TIL512", "the name of a fragment"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=-1.0)", "TIL512", "a float above 0"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=1.0, more=1)", "TIL512", "unexpected"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=1.0, hidden=1)", "TIL512", "finite float"),
        ("(local) = zero()", f"(local) = attend(T, T, {ATTENDED}, scale=1.0)", "TIL512", "queries, keys and values"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=1.0)", "TIL512", "two axes"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=1.0, parts=1)", "TIL512", "two parts"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=1.0, stages=3)", "TIL512", "power of two"),
        ("(local) = zero()", f"(local) = attend(T, T, T, {ATTENDED}, scale=1.0, groups=2)", "TIL512", "several teams"),
        ("(local) = zero()", f"(local) = attend_back(T, {ATTENDED}, scale=1.0, stages=4)", "TIL512", "neither parts"),
        ("(local) = zero()", f"(local) = attend_back(T, T, {ATTENDED}, scale=1.0)", "TIL512", "two matrices of rows"),
        ("(local) = zero()", f"(local) = attend_back(T, T, T, T, T, T, {ATTENDED}, scale=1.0)", "TIL512", "needs rows"),
        ("(local) = zero()", "(O) = zero()", "TIL512", "aggregates"),
        ("(local) = zero()", "(Q) = zero()", "TIL503", "no refinement"),
        # annotations
        ("in B[j]", "in B<DRAM[k]>[j]", "TIL505", "no index of the block"),
        ("in B[j] i32:I(1):(1):4 B", "in B[j] i32:I(1):(1):4 B, cache[k]", "TIL505", "no index of the block"),
        ("none new@0x00000000 local", "none at@-1 local", "TIL504", "negative offset"),
    ],
)  # fmt: skip
def test_each_rule(good: str, bad: str, code: str, words: str) -> None:
    assert good in GOOD
    found = faults_of(GOOD.replace(good, bad, 1))
    if not code:
        assert found == ()
        return
    assert code in {d.code for d in found}
    assert any(words in d.message for d in found if d.code == code), found


@pytest.mark.parametrize("word", PLACES)
def test_kernels_have_no_words_for_places_as_tags(word: str) -> None:
    program = parse(GOOD)
    first, *others = program.kernels
    tagged = attrs.evolve(first, block=attrs.evolve(first.block, tags=first.block.tags.add(word)))
    (fault,) = diagnose(attrs.evolve(program, kernels=(tagged, *others)))
    assert fault.code == "TIL501"
    assert f"kernel 0 must not have the tag {word}" in fault.message


@pytest.mark.parametrize("word", LIFETIMES)
def test_memory_has_no_words_for_who_sees_it_as_tags(word: str) -> None:
    program = parse(GOOD)
    first, *others = program.memory
    memory = (attrs.evolve(first, tags=first.tags.add(word)), *others)
    (fault,) = diagnose(attrs.evolve(program, memory=memory))
    assert fault.code == "TIL501"
    assert f"must not have the tag {word}" in fault.message


def test_what_only_python_can_build() -> None:
    program = parse(GOOD)
    names = Block("two\nlines", comments=(" blank",), tags=Tags((("b", None), ("a", None))))
    assert {d.code for d in diagnose_block(names)} == {"TIL503"}
    nothing = Block(statements=(Intrinsic(Op.ADD, (), "c d", DType.F32),))
    assert {d.code for d in diagnose_block(nothing)} == {"TIL503", "TIL508"}
    view = attrs.evolve(program.main.blocks[0].refinements[0], source="")
    assert "TIL504" in {d.code for d in diagnose_block(Block(refinements=(view,)))}
    kernel = attrs.evolve(program.entry, statements=(*program.entry.statements, Load("A", "a")))
    with pytest.raises(VerifyError, match="TIL501"):
        with_entry(program, kernel)
    twice = attrs.evolve(program, buffers=(*program.buffers, Buffer("C", b"00")))
    assert "TIL501" in {d.code for d in diagnose(twice)}
    bank = attrs.evolve(program.entry.refinements[0], bank_dim=2)
    assert "TIL504" in {d.code for d in diagnose_block(Block(refinements=(bank,)))}


def test_a_view_may_hang_over_where_constraints_guard_it() -> None:
    wide = GOOD.replace("[i:2]:2", "[i:3]:3")
    assert codes(wide) == set()
    assert codes(wide.replace("3 - 2*o - k >= 0", "")) == {"TIL504"}


def test_all_faults_are_reported_with_the_guilty_pass() -> None:
    text = GOOD.replace("in A[i, j]", "in A = Q[i, j]").replace("1: [0] #kernel", "1: [9] #kernel")
    with pytest.raises(VerifyError) as caught:
        verify(parse(text), after="autotile")
    assert {d.code for d in caught.value.diagnostics} >= {"TIL503", "TIL509"}
    assert all("'autotile'" in d.notes[-1] for d in caught.value.diagnostics)
    assert "p / p / first" in str(caught.value)


def test_nesting_without_end_is_a_fault_and_not_a_crash() -> None:
    block = Block()
    for _ in range(10_000):
        block = Block(statements=(block,))
    assert [d.code for d in diagnose_block(block)] == ["TIL510"]


def test_every_check_says_what_it_holds() -> None:
    assert all(check.__doc__ for check in CHECKS)


def test_large_programs_are_verified() -> None:
    program = parse(GOOD)
    many = enumerate(program.main.blocks * 10_000)
    kernels = tuple(attrs.evolve(kernel, deps=(number - 1,) if number else ()) for number, kernel in many)
    main = attrs.evolve(program.main, statements=kernels)
    verify(with_entry(program, attrs.evolve(program.entry, statements=(main,))))


def test_kernels_known_to_be_legal_are_not_looked_at_again() -> None:
    good = stripe_program("two results")
    kernel = good.main.blocks[0]
    bad = attrs.evolve(kernel, statements=(Load("nowhere", "x"),))

    def holding(*kernels: Block) -> Program:
        main = attrs.evolve(good.main, statements=kernels)
        return with_entry(good, attrs.evolve(good.entry, statements=(main,)))

    verify(good, since=good)
    with pytest.raises(VerifyError):
        verify(holding(*good.main.blocks, bad), since=good)
    wrong = holding(*good.main.blocks, bad)
    assert len(diagnose(wrong, since=wrong)) < len(diagnose(wrong))


STACK = """
program (X) -> (O)
0: #program
block []:1 ( // program
    #user none new@0x00000000 X[0] i32:I(1):(1):4 B
    #user none new@0x00000000 O[0, 0] i32:I(3, 2):(2, 1):24 B
) {
  0: #main
  block []:1 ( // main
      in X[0] i32:I(1):(1):4 B, E(1):4 B
      out O[0, 0] i32:I(3, 2):(2, 1):24 B, E(3, 2):24 B
      none at@0x00000000 O_sram<SRAM>[0, 0] i32:I(3, 2):(2, 1):24 B
  ) {
    0: #kernel
    block [i:2]:2 ( // stack
        in X[0] i32:I(1):(1):4 B, E(1):4 B
        out O_sram[0, i] i32:I(3, 1):(2, 1):12 B, E(3, 2):24 B
    ) {
      0: $x = load(X)
      1: O_sram[$x] = store($x)
    }
    1: #kernel #xfer
    block [r:3, c:2]:6 ( // swap_out
        in O_sram[r, c] i32:I(1, 1):(2, 1):4 B, E(3, 2):24 B
        out O[r, c] i32:I(1, 1):(2, 1):4 B, E(3, 2):24 B
    ) {
      0: $value = load(O_sram)
      1: O = store($value)
    }
  }
}
"""
"""A copy in an inner memory of which data choose the row that is written, brought out as a whole."""


def test_what_is_read_as_a_whole_has_been_written_as_a_whole() -> None:
    (fault,) = diagnose(parse(STACK))
    assert fault.code == "TIL506"
    assert "reads all elements of 'O_sram'" in fault.message
    assert "can have written 2 of 6 only" in fault.message
    copied = STACK.replace("[r:3, c:2]:6", "[]:1").replace("[r, c] i32:I(1, 1)", "[0, 0] i32:I(3, 2)")
    copied = copied.replace("0: $value = load(O_sram)\n      1: O = store($value)", "0: (O) = copy(O_sram)")
    assert codes(copied) == {"TIL506"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "    0: #kernel\n",
            "    0: #kernel\n    block []:1 ( // fill\n        out O_sram[0, 0] i32:I(3, 2):(2, 1):24 B, E(3, 2):24 B\n"
            "    ) {\n      0: (O_sram) = zero()\n    }\n    1: #kernel\n",
        ),
        ("[r:3, c:2]:6", "[r:1, c:2]:2"),
        ("[i:2]:2", "[i:2, j:3]:6"),
        ("in O_sram[r, c]", "in O_sram[0, c]"),
    ],
    ids=["filled before", "a row is read", "enough is written", "one row is read again and again"],
)
def test_what_may_have_been_written_is_no_fault(old: str, new: str) -> None:
    text = STACK.replace(old, new, 1)
    text = text.replace("    1: #kernel #xfer", "    2: #kernel #xfer") if "zero" in new else text
    assert codes(text) == set()


@pytest.mark.parametrize(
    ("strides", "fits"), [("(6, 1)", True), ("(1, 4)", True), ("(1, 5)", False), ("(8, 1)", False)]
)
def test_views_with_other_axes_need_sources_without_gaps(strides: str, fits: bool) -> None:
    text = f"""program (A) -> (A)
0: #program
block []:1 ( // p
    #user none new@0x00000000 A[0, 0] fp32:I(4, 6):{strides}:96 B
) {{
  0: #main
  block []:1 ( // p
      inout A[0, 0] fp32:I(4, 6):{strides}:96 B
  ) {{
    0: #kernel
    block [i:24]:24 ( // flat
        inout A[i] fp32:I(1):(1):4 B
    ) {{
      0: $a = load(A)
      1: A = store($a)
    }}
  }}
}}
"""
    faults = [fault for fault in diagnose(parse(text)) if "without gaps" in fault.message]
    assert (not faults) == fits
