"""Reading Stripe text, good, elder, faulty and hostile."""

from __future__ import annotations

import pytest

from tileir.core.dtype import DType
from tileir.core.errors import ArgumentError, ParseError
from tileir.stripe.ir import Block, Constant, Device, Dim, Intrinsic
from tileir.stripe.text.parser import parse, parse_block
from tileir.stripe.text.printer import to_text

MATVEC = """\
0: #program #total_macs=12
block []:1 ( // mv
    #user none new@0x00000000 W[0, 0] fp32:I(4, 3):(3, 1):48 B
    #user none new@0x00000000 X[0] fp32:I(3):(1):12 B
    #user none new@0x00000000 Y[0] fp32:I(4):(1):16 B
) {
  0: #main
  block []:1 ( // main
      in W[0, 0] fp32:I(4, 3):(3, 1):48 B, E(4, 3):48 B
      in X[0] fp32:I(3):(1):12 B, E(3):12 B
      out Y[0] fp32:I(4):(1):16 B, E(4):16 B
  ) {
    0: #agg_op_add #comb_op_mul #contraction #kernel
    block [i:4, j:3]:12 ( // kernel_0(W,X)
        // Y[i : 4] = +(W[i, j] * X[j])
        #contraction in W[i, j] fp32:I(1, 1):(3, 1):4 B, E(4, 3):48 B
        #contraction in X[j] fp32:I(1):(1):4 B, E(3):12 B
        out Y[i]:add fp32:I(1):(1):4 B, E(4):16 B
    ) {
      0: $W = load(W)
      1: $X = load(X)
      2: $Y = mul($W, $X)
      3: Y = store($Y)
    }
  }
}
"""

ELDER = """\
0: #agg_op_add #comb_op_mul #contraction #kernel block [ci:32, co:64, kx:3, x:1024] ( // kernel_0
    // O1[x, y, co : X, Y, C2] = +(I[-1 + kx + x, -1 + ky + y, ci] * K1[kx, ky, ci, co])
    -1 + kx + x >= 0
    1024 - kx - x >= 0
    out<[0]> O1[x, co]:add i8(1:64, 1:1)
    in<DRAM[0]> I[kx + x - 1, ci] i8(1:32, 1:1)
    in<[0]> K1[kx, ci, co] i8(1:2048, 1:64, 1:1)
) {
  0: $I = load(I);  1: $K1 = load(K1)
  2: $O1 = mul($I, $K1)
  3: O1 = store($O1)
}
"""


def errors(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ParseError) as caught:
        parse_block(text)
    return [(d.code, d.underlined) for d in caught.value.diagnostics]


def test_text_of_a_matrix_vector_product() -> None:
    assert to_text(parse_block(MATVEC)) == MATVEC
    assert parse("program (W, X) -> (Y)\n" + MATVEC).inputs == ("W", "X")


def test_the_elder_form_of_slides() -> None:
    block = parse_block(ELDER)
    assert block.name == "kernel_0"
    assert len(block.constraints) == 2
    out, data, _ = block.refinements
    assert out.shape.dims == (Dim(1, 64), Dim(1, 1))
    assert out.location[0].name == ""
    assert data.location == (Device("DRAM", out.location[0].units),)
    assert isinstance(block.statements[2], Intrinsic)
    assert block.statements[2].dtype is DType.I8
    assert parse_block(to_text(block)) == block


def test_an_allocation_at_an_offset_has_been_placed() -> None:
    text = MATVEC.replace("new@0x00000000 X", "new@0x00000040 X").replace("new@0x00000000 Y", "at@0x0 Y")
    assert [r.offset for r in parse_block(text).refinements] == [None, 64, 0]


def test_words_of_the_grammar_can_be_names() -> None:
    text = """\
0:
block [in:2]:2 (
    in >= 0
    in in[in] fp32:I(1):(1):4 B
    out block = block[in] fp32:I(1):(1):4 B
    out const[in] fp32:I(1):(1):4 B
    none new@0x00000000 new[0] fp32:I(1):(1):4 B
) {
  0: $load = load(in)
  1: block = store($load)
  2: $x = load_index(in)
  3: block[$x] = store($load)
}
"""
    block = parse_block(text)
    assert [r.name for r in block.refinements] == ["in", "block", "const", "new"]
    assert parse_block(to_text(block)) == block


def test_all_faults_are_reported() -> None:
    text = MATVEC.replace("mul(", "mull(").replace("in X[j]", "in X[j;").replace(":(3, 1):4 B", ":(3):4 B")
    assert errors(text) == [("TIL102", "("), ("TIL102", ";"), ("TIL102", "mull")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"$W = load(W)": "$W = load(W"}, [("TIL102", "1")]),
        ({"$W = load(W)": "$W =", "mul(": "mull("}, [("TIL102", "1"), ("TIL102", "mull")]),
        ({"in W[0, 0]": "? in W[0, 0]", "$W = load(W)": "$W = ! load(W)"}, [("TIL101", "?"), ("TIL101", "!")]),
        ({") {\n      0: $W": "\n {\n      0: $W", "fp32:I(3):(1):12 B\n": "fp33:I(3):(1)\n"}, [
            ("TIL102", "fp33"), ("TIL102", "("),
        ]),
        ({"  }\n}\n": ""}, [("TIL102", "block")]),
        ({"load(W)": "load(W;", "  }\n}\n": ""}, [("TIL102", "block"), ("TIL102", ";")]),
    ],
)  # fmt: skip
def test_one_mistake_is_one_fault(changes: dict[str, str], expected: list[tuple[str, str]]) -> None:
    text = MATVEC
    for good, bad in changes.items():
        assert good in text
        text = text.replace(good, bad, 1)
    assert errors(text) == expected


def test_comments_of_headers_are_kept_wherever_they_stand() -> None:
    text = "0:\nblock []:1 ( // name\n    // first\n    in A[0] fp32:I(1):(1):4 B // second\n    // third\n) {\n}\n"
    block = parse_block(text)
    assert (block.name, block.comments) == ("name", ("first", "second", "third"))
    assert parse_block("0:\nblock []:1 (\n    // first\n) {\n  // nothing\n}\n").comments == ("first",)


def test_what_is_no_text_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="TIL707"):
        parse(b"program () -> ()")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        ("$W = load(W)", "$W = load($W)", ("TIL102", "$W")),
        ("$W = load(W)", "$W @ load(W)", ("TIL102", "@")),
        ("$W = load(W)", "$W = (fp99)1", ("TIL102", "fp99")),
        ("$W = load(W)", '$W = (fp32)"x"', ("TIL102", '"x"')),
        ("$W = load(W)", "$W = (fp32)-true", ("TIL102", "-")),
        ("$W = load(W)", "$W = cast_fp32($a, $b)", ("TIL102", "cast_fp32")),
        ("$W = load(W)", "$W = add($a, $b)", ("TIL102", "add")),
        ("$W = load(W)", "?", ("TIL101", "?")),
        ("1: $X = load(X)", "7: $X = load(X)", ("TIL102", "7")),
        ("1: $X = load(X)", "1.5: $X = load(X)", ("TIL102", "1.5")),
        ("add fp32", "plus fp32", ("TIL102", "plus")),
        ("// Y[i : 4] = +(W[i, j] * X[j])", "i >= 1", ("TIL102", "1")),
        ("// Y[i : 4] = +(W[i, j] * X[j])", "1/0*i >= 0", ("TIL104", "0")),
        ("i:4", "i:" + "9" * 30, ("TIL104", "9" * 30)),
        ("#total_macs=12", "#total_macs=0x" + "f" * 30, ("TIL104", "0x" + "f" * 30)),
        ("#total_macs=12", '#total_macs="\\q"', ("TIL102", '"\\q"')),
        ("#total_macs=12", "#total_macs=maybe", ("TIL102", "maybe")),
        ("in X[0]", "#x into X[0]", ("TIL102", "into")),
    ],
)
def test_each_fault_is_underlined(good: str, bad: str, expected: tuple[str, str]) -> None:
    assert errors(MATVEC.replace(good, bad)) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("TIL102", "")),
        ("0: x = store($y)", ("TIL102", "0")),
        ("0: block [] () {} 1:", ("TIL102", "1")),
        ("0: block [] ( in X", ("TIL102", "")),
        ("0: block [] () {", ("TIL102", "block")),
        ("0: block [] (", ("TIL102", "(")),
        ("0: block [] () { 0: $x = ", ("TIL102", "")),
    ],
)
def test_a_truncated_text_is_an_error(text: str, expected: tuple[str, str]) -> None:
    assert errors(text)[0] == expected


def test_every_prefix_of_a_text_is_an_error() -> None:
    text = MATVEC.rstrip()
    for stop in range(0, len(text), 7):
        with pytest.raises(ParseError):
            parse_block(text[:stop])


@pytest.mark.parametrize(
    "text",
    [
        "(" * 10**6,
        "0: block [] () {\n" * 10**5,
        "0: block [" + "(" * 10**5,
        "0: block [] (\n" + "x >\n" * 10**5,
        '"' * 10**6,
        "0: block [i:" + "9" * 10**6,
        "\x00" * 10**5,
        "0: block [] (" + "//" * 10**5,
    ],
    ids=["brackets", "nesting", "indices", "faults", "quotes", "digits", "zeros", "comments"],
)
def test_hostile_texts_are_refused(text: str) -> None:
    for read in (parse, parse_block):
        with pytest.raises(ParseError):
            read(text)


def test_nesting_is_limited_and_deep_nesting_works() -> None:
    def nested(depth: int) -> str:
        return "0: block [] () {\n" * depth + "}\n" * depth

    block = parse_block(nested(200))
    assert isinstance(block, Block)
    assert parse_block(to_text(block)) == block
    assert errors(nested(201)) == [("TIL103", "block")]


def test_constants_of_the_reference_have_32_bits() -> None:
    block = parse_block("0: #kernel\nblock []:1 ( // k\n) {\n  0: $c = (int)5\n  1: $d = (float)0.5\n}\n")
    assert block.statements == (Constant("c", DType.I32, 5), Constant("d", DType.F32, 0.5))


def test_sizes_below_zero_are_read_as_they_are_printed() -> None:
    text = "program () -> ()\n0: #program\nblock []:1 (\n    #user none new@0x0 W[0, 0] fp32:I(4, -3):(3, 1) \n) {"
    text += "\n 0: #main\nblock []:1 (\n) {\n}\n}\n"
    program = parse(text)
    assert program.memory[0].shape.sizes == (4, -3)
    assert parse(to_text(program)) == program


@pytest.mark.parametrize(("content", "words"), [("00FF", "two digits each"), ("sha256 00", "only the digest")])
def test_bytes_of_constants(content: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse(f'program (W, X) -> (Y)\n{MATVEC}buffer C = "{content}"\n')
