"""The Stripe of the slides: every example is read, printed in the style of the slides, and read again; some run.

The slides elide parts of their examples, and their conversion to text lost signs. Beyond that these texts are theirs,
with this changed:

- 'Stripe Top': a parenthesis too many behind each header; `...` stands for allocations and kernels that follow. `main`
  has O1 twice, as a view and as an allocation of its own; we have the view, and O1 among the allocations.
- 'Tensorization', BEFORE: the constraints of 'Stripe Top' are left out there, without which it reads beside the image.
- 'Auto-Tile', AFTER: `<Elided memory xfers>` is no statement, so the block behind it is statement 0.
- 'Fusing Contractions', BEFORE: a comma is missing in `j:3 x:100`, kernel_1 has no `i` and `j`, and both lack their
  views. AFTER: `...` again, and `{` for `)` in headers.

What the pairs BEFORE and AFTER mean is tested with the passes (`tests/passes/test_seed_003_*.py`): the AFTER texts mix
up sizes and strides of tiles, so no program is made of them here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

import tileir
from strategies.effort import examples
from strategies.stripe import blocks, programs
from strategies.stripe_works import programs_of_works
from tileir.core.dtype import DType
from tileir.core.errors import VerifyError
from tileir.stripe.check.verifier import verify
from tileir.stripe.ir import Block, Device, Program
from tileir.stripe.text.parser import parse, parse_block
from tileir.stripe.text.printer import SEED, to_text
from tileir_cli import main as cli

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, np.dtype[Any]]

TOP = """\
0: #program block [] ( // layer_test7
    none new@0x00000000<[0]> I[0, 0, 0] i8(1024:32768, 1024:32, 32:1)
    none new@0x00000000<[0]> K1[0, 0, 0, 0] i8(3:6144, 3:2048, 32:64, 64:1)
    none new@0x00000000<[0]> O1[0, 0, 0] i8(1024:65536, 1024:64, 64:1)
) {
  0: #main block [] ( // main
      in<[0]> I[0, 0, 0] i8(1024:32768, 1024:32, 32:1)
      in<[0]> K1[0, 0, 0, 0] i8(3:6144, 3:2048, 32:64, 64:1)
      out<[0]> O1[0, 0, 0]:assign i8(1024:65536, 1024:64, 64:1)
  ) {
    0: #agg_op_add #comb_op_mul #contraction #kernel block [ci:32, co:64, kx:3, ky:3, x:1024, y:1024] (
        // O1[x, y, co : X, Y, C2] = +(I[-1 + kx + x, -1 + ky + y, ci] * K1[kx, ky, ci, co])
        -1 + kx + x >= 0
        1024 - kx - x >= 0
        -1 + ky + y >= 0
        1024 - ky - y >= 0
        out<[0]> O1[x, y, co]:add i8(1:65536, 1:64, 1:1)
        in<[0]> I[-1 + kx + x, -1 + ky + y, ci] i8(1:32768, 1:32, 1:1)
        in<[0]> K1[kx, ky, ci, co] i8(1:6144, 1:2048, 1:64, 1:1)
    ) {
      0: $I = load(I)
      1: $K1 = load(K1)
      2: $O1 = mul($I, $K1)
      3: O1 = store($O1)
    }
  }
}
"""

TENSORIZE_BEFORE = """\
0: #agg_op_add #comb_op_mul #contraction #kernel block [ci:32, co:64, kx:3, ky:3, x:1024, y:1024] ( // kernel_0
  // O1[x, y, co : X, Y, C2] = +(I[-1 + kx + x, -1 + ky + y, ci] * K1[kx, ky, ci, co])
  out<[0]> O1[x, y, co]:add i8(1:65536, 1:64, 1:1)
  in<[0]> I[-1 + kx + x, -1 + ky + y, ci] i8(1:32768, 1:32, 1:1)
  in<[0]> K1[kx, ky, ci, co] i8(1:6144, 1:2048, 1:64, 1:1)
) {
  0: $I = load(I);  1: $K1 = load(K1);  2: $O1 = mul($I, $K1);  3: O1 = store($O1)
}
"""

TENSORIZE_AFTER = """\
0: #agg_op_add #comb_op_mul #contraction #CONV #kernel block [ci:1, co:1, kx:1, ky:1, x:256, y:256] ( // kernel_0
  // O1[x, y, co : X, Y, C2] = +(I[-1 + kx + x, -1 + ky + y, ci] * K1[kx, ky, ci, co])
  out<DRAM[0]> O1[4*x, 4*y, 16*co]:add i8(4:65536, 4:64, 16:1)
  in<DRAM[0]> I[kx + 4*x, ky + 4*y, 32*ci] i8(4:32768, 4:32, 32:1)
  in<DRAM[0]> K1[kx, ky, 32*ci, 16*co] i8(1:6144, 1:2048, 32:1, 16:32)
) {
  0: #CONV_inner block [ci:32, co:64, kx:3, ky:3, x:4, y:4] ( // kernel_0
    out<DRAM[0]> O1[x, y, co]:add i8(1:65536, 1:64, 1:1)
    in<DRAM[0]> I[-1 + kx + x, -1 + ky + y, ci] i8(1:32768, 1:32, 1:1)
    in<DRAM[0]> K1[kx, ky, ci, co] i8(1:6144, 1:2048, 1:1, 1:32)
  ) {
    0: $I = load(I);  1: $K1 = load(K1);  2: $O1 = mul($I, $K1);  3: O1 = store($O1)
  }}
"""

AUTOTILE_BEFORE = """\
0: #conv block<CONV[0]> [ci:32, co:64, kx:3, ky:3, x:256, y:256] (
    out<DRAM[0]> O1[co, x, y]:add i8(64:65536, 4:64, 4:1)
    in<DRAM[0]> I[kx + x - 1, ky + y - 1, ci] i8(4:32768, 4:32, 32:1)
    in<DRAM[0]> K1[kx, ky, ci, co] i8(1:6144, 1:2048, 32:1, 64:32)
) {
    0: $I = load(I);
    1: $K1 = load(K1);
    2: $O1 = mul($I, $K1);
    3: O1 = store($O1)
}
"""

AUTOTILE_AFTER = """\
0: #conv block<CONV[0]> [ci:1, co:16, kx:3, ky:3, x:32, y:32] ( // kernel_0
    out<DRAM[0]> O1[8*x, 8*y, 4*co]:add i8(16:65536, 16:64, 64:1)
    in<DRAM[0]> I[kx + 8*x, ky + 8*y, ci] i8(16:32768, 16:32, 32:1)
    in<DRAM[0]> K1[kx, ky, ci, 4*co] i8(1:6144, 1:2048, 32:1, 64:32)
) {
    0: #conv_inner block<CONV[0]> [ci:32, co:4, kx:1, ky:1, x:8, y:8] ( // No halos
        out<SRAM[0]> O1[co, x, y]:add i8(4:65536, 8:64, 8:1)
        in<SRAM[0]> I[-1 + kx + x, -1 + ky + y, ci] i8(1:32768, 1:32, 32:1)
        in<SRAM[0]> K1[kx, ky, ci, co] i8(1:6144, 1:2048, 32:1, 4:32)
    ) {
        0: $I = load(I);
        1: $K1 = load(K1);
        2: $O1 = mul($I, $K1);
        3: O1 = store($O1)
    }
}
"""

FUSION_BEFORE = """\
0: #program block [] (
    none new@0x00000000 In[0, 0, 0] fp32(102:6528, 102:64, 64:1)
    none new@0x00000000 K1[0, 0, 0, 0] fp32(3:24576, 3:8192, 64:128, 128:1)
    none new@0x00000000 K2[0, 0] fp32(128:128, 128:1)
    #tmp none new@0x00000000 O1[0, 0, 0] fp32(100:12800, 100:128, 128:1)
    none new@0x00000000 O2[0, 0, 0] fp32(100:12800, 100:128, 128:1)
) {
  0: #main block [] (
      in In[0, 0, 0] fp32(102:6528, 102:64, 64:1)
      in K1[0, 0, 0, 0] fp32(3:24576, 3:8192, 64:128, 128:1)
      in K2[0, 0] fp32(128:128, 128:1)
      out O1[0, 0, 0] fp32(100:12800, 100:128, 128:1)
      out O2[0, 0, 0] fp32(100:12800, 100:128, 128:1)
  ) {
    0: #agg_op_add #comb_op_mul #CONV #contraction #kernel block [ci:64, co:128, i:3, j:3, x:100, y:100] ( // kernel_0
        // O1[x, y, co : X, Y, CO1] = +(In[i + x, j + y, ci] * K1[i, j, ci, co])
        out O1[x, y, co]:add fp32(1:12800, 1:128, 1:1)
        in In[i + x, j + y, ci] fp32(1:6528, 1:64, 1:1)
        in K1[i, j, ci, co] fp32(1:24576, 1:8192, 1:128, 1:1)
    ) {
      0: $In = load(In);  1: $K1 = load(K1);  2: $O1 = mul($In, $K1);  3: O1 = store($O1)
    }
    1: #agg_op_add #comb_op_mul #CONV #contraction #kernel block [ci:128, co:128, x:100, y:100] ( // kernel_1
        // O2[x, y, co : X, Y, CO2] = +(O1[x, y, ci] * K2[ci, co])
        out O2[x, y, co]:add fp32(1:12800, 1:128, 1:1)
        in O1[x, y, ci] fp32(1:12800, 1:128, 1:1)
        in K2[ci, co] fp32(1:128, 1:1)
    ) {
      0: $O1 = load(O1);  1: $K2 = load(K2);  2: $O2 = mul($O1, $K2);  3: O2 = store($O2)
    }
  }
}
"""

FUSION_AFTER = """\
0: #fused block [co:8, x:100, y:100] ( // kernel_0+kernel_1
) {
  0: block [ci:64, co:16, i:3, j:3, x:1, y:1] (
    out<SRAM[0]> O1[x, y, co]:add fp32(1:16, 1:16, 1:16, 1:1)
    in<[0]> In[-1 + i + x, -1 + j + y, ci] fp32(1:640000, 1:6400, 1:64, 1:1)
    in<[0]> K1[i, j, ci, co] fp32(1:24576, 1:8192, 1:128, 1:1)
  ) {
    0: $In = load(In);  1: $K1 = load(K1);  2: $O1 = mul($In, $K1);  3: O1 = store($O1)
  }
  1: block [ci:64, co:16, x:1, y:1] (
    out<[0]> O2[x, y, co]:add fp32(1:1280000, 1:12800, 1:128, 1:1)
    in<SRAM[0]> O1[x, y, ci] fp32(1:16, 1:16, 1:16, 1:1)
    in<[0]> K2[0, 0, ci, co] fp32(1:16384, 1:16384, 1:128, 1:1)
  ) {
    0: $O1 = load(O1);  1: $K2 = load(K2);  2: $O2 = mul($O1, $K2);  3: O2 = store($O2)
  }
}
"""

TEXTS = {
    "top": TOP,
    "tensorize before": TENSORIZE_BEFORE,
    "tensorize after": TENSORIZE_AFTER,
    "autotile before": AUTOTILE_BEFORE,
    "autotile after": AUTOTILE_AFTER,
    "fusion before": FUSION_BEFORE,
    "fusion after": FUSION_AFTER,
}
SIZES = {"1024": "6", "32768": "60", "65536": "48", "6144": "240", "2048": "80", "32": "10", "64": "8"}
"""Sizes and strides of 'Stripe Top', and those of an image of 6 x 6 with 10 channels that becomes one with 8."""


def smaller(text: str, sizes: dict[str, str]) -> str:
    """Return a text with other numbers in the place of some."""
    return re.sub(r"(?<![\w@])\d+(?!\w)", lambda match: sizes.get(match[0], match[0]), text)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_every_example_is_read_and_printed_in_its_style(text: str) -> None:
    block = parse_block(text)
    printed = to_text(block, SEED)
    assert parse_block(printed) == block
    assert to_text(parse_block(printed), SEED) == printed
    assert parse_block(to_text(block)) == block
    said = [words(line) for line in printed.splitlines()]
    for line in text.splitlines():
        assert ";" in line or line.strip() == "}}" or words(line) in said, line


def words(line: str) -> list[str]:
    """Return the words of a line, in any order: tags are sorted, and affines begin with their constants."""
    return sorted(re.findall(r"\w+", line))


def test_stripe_top_is_a_program_whose_text_is_that_of_the_slide() -> None:
    program = parse(TOP)
    verify(program)
    assert (program.name, program.inputs, program.outputs) == ("layer_test7", ("I", "K1"), ("O1",))
    assert program.memory[0].location == (Device("", program.memory[0].location[0].units),)
    printed = to_text(program, SEED)
    assert parse(printed) == program
    assert [line for line in printed.splitlines() if "K1" in line and "$" not in line and "//" not in line] == [
        line for line in TOP.splitlines() if "K1" in line and "$" not in line and "//" not in line
    ]
    assert (
        "0: #agg_op_add #comb_op_mul #contraction #kernel block [ci:32, co:64, kx:3, ky:3, x:1024, y:1024]" in printed
    )


def convolved(image: Array, weights: Array) -> Array:
    """Return the convolution of the slides by NumPy, in the dtype of its operands."""
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    width, height = image.shape[:2]
    total: Array = sum(padded[i : i + width, j : j + height] @ weights[i, j] for i in range(3) for j in range(3))
    return total


@pytest.mark.parametrize("style", ["plain", SEED])
def test_stripe_top_runs(style: str) -> None:
    text = smaller(TOP, SIZES)
    text = to_text(parse(text), style)
    generator = np.random.default_rng(0)
    image = generator.integers(-3, 4, (6, 6, 10)).astype(np.int8)
    weights = generator.integers(-3, 4, (3, 3, 10, 8)).astype(np.int8)
    want = convolved(image, weights)
    np.testing.assert_array_equal(tileir.evaluate(text, {"I": image, "K1": weights}), want)
    np.testing.assert_array_equal(tileir.compile(text)(I=image, K1=weights), want)


def test_tensorization_runs_with_the_constraints_of_stripe_top() -> None:
    constraints = TOP[TOP.index("        -1 + kx") : TOP.index("        out<[0]> O1[x")]
    kernel = TENSORIZE_BEFORE.replace("  out<", f"{constraints}  out<", 1)
    start = TOP.index("    0: #agg_op_add")
    program = parse(smaller(TOP[:start] + kernel + "  }\n}\n", SIZES))
    verify(program)
    same = parse(smaller(TOP, SIZES))
    assert [kernel.block for kernel in program.kernels] == [kernel.block for kernel in same.kernels]


def test_two_contractions_run() -> None:
    sizes = {"102": "7", "6528": "21", "64": "3", "24576": "36", "8192": "12", "128": "4", "100": "5", "12800": "20"}
    text = smaller(FUSION_BEFORE, sizes)
    program = parse(text)
    verify(program)
    assert (program.inputs, program.outputs) == (("In", "K1", "K2"), ("O2",))
    generator = np.random.default_rng(1)
    image, first, second = (
        generator.integers(-3, 4, shape).astype(np.float32) for shape in ((7, 7, 3), (3, 3, 3, 4), (4, 4))
    )
    inner = sum(image[i : i + 5, j : j + 5] @ first[i, j] for i in range(3) for j in range(3))
    values = {"In": image, "K1": first, "K2": second}
    np.testing.assert_array_equal(tileir.evaluate(text, values), inner @ second)
    np.testing.assert_array_equal(tileir.compile(to_text(program, SEED))(**values), inner @ second)


@examples(100)
@given(programs())
def test_all_programs_read_back_in_the_style(program: Program) -> None:
    text = to_text(program, SEED)
    assert parse(text) == program
    assert tileir.parse(text, stage="any") == program


@examples(50)
@given(programs_of_works())
def test_all_loops_read_back_in_the_style(program: Program) -> None:
    plain = parse(to_text(program))
    assert parse(to_text(plain, SEED)) == plain


@examples(100)
@given(blocks())
def test_all_blocks_read_back_in_the_style(block: Block) -> None:
    text = to_text(block, SEED)
    again = parse_block(text)
    assert again == block
    assert to_text(again, SEED) == text


def test_a_program_that_its_main_block_does_not_tell_keeps_its_first_line() -> None:
    program = tileir.compile("function (A, B) -> (C) { C = A + 1.0; }", [(3,), (3,)]).stripe
    assert to_text(program, SEED).startswith("program (A, B) -> (C)\n")
    swapped = tileir.compile("function (A, B) -> (C) { C = B - A; }", [(3,), (3,)]).stripe
    assert parse(to_text(swapped, SEED)) == swapped
    assert swapped.memory[0].shape.dtype is DType.F32


def test_there_are_two_styles() -> None:
    with pytest.raises(ValueError, match="there is no style 'slides'"):
        to_text(parse(TOP), "slides")


def test_a_block_without_a_main_block_is_no_program() -> None:
    with pytest.raises(VerifyError, match="TIL501"):
        parse(TENSORIZE_BEFORE)


def test_the_command_prints_the_style(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "top.stripe"
    file.write_text(smaller(TOP, SIZES), encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["tileir", "print", str(file), "--stage", "stripe", "--style", "seed"])
    assert cli.run() == 0
    assert capsys.readouterr().out == to_text(parse(smaller(TOP, SIZES)), SEED)
    monkeypatch.setattr(
        "sys.argv", ["tileir", "print", str(file), "--stage", "stripe", "--after", "all", "--style", "seed"]
    )
    assert cli.run() == 0
    assert "block [] ( // layer_test7" in capsys.readouterr().out
