"""Blocks that are instructions of a device, and what the indices of products move along."""

from __future__ import annotations

import re

import attrs
import pytest

from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.core.targets.target import Target
from tileir.driver.compiler import compile_stages
from tileir.passes.algorithms.accumulate import Accumulate
from tileir.passes.fusion.fuse import Fuse
from tileir.passes.regions.tile import Tile
from tileir.passes.schedules.groups.matrix.contraction import MatrixContraction
from tileir.semtree.ir import MatrixMultiply
from tileir.semtree.lower.lowering import lower
from tileir.semtree.rewrite import statements
from tileir.stripe.check.verifier import diagnose, diagnose_block
from tileir.stripe.instructions import Copy, Pipeline, Product, Repair, Role, RoleKind
from tileir.stripe.ir import Block, Index, Program, Tags
from tileir.stripe.text.parser import parse, parse_block
from tileir.stripe.text.printer import to_text
from tileir.typed.tensor_type import TensorType

FRAGMENTS = ("mma_m16n8k16_f16", "mma_m16n8k16_bf16")
TARGET = Target(index_dtype=DType.I32, local_bytes=48 * 1024, group_threads=256, alignment=64, vector_bytes=16)
CARD = attrs.evolve(TARGET, async_copies=True, fragments=FRAGMENTS)
TEXT = "function (A[M, K], B[K, N]) -> (R) { R[i, j : M, N] = +(A[i, k] * B[k, j]); }"


def scheduled() -> Program:
    types = {"A": TensorType(DType.F16, (64, 64)), "B": TensorType(DType.F16, (64, 64))}
    passes = (Accumulate(), Fuse(), MatrixContraction(FRAGMENTS, rows=32, columns=32))
    return compile_stages(TEXT, types, CARD, passes=passes).scheduled


PROGRAM = scheduled()
PRINTED = to_text(PROGRAM)


def blocks(block: Block) -> list[Block]:
    return [block, *(each for inner in block.blocks for each in blocks(inner))]


def multiplications(program: Program, target: Target) -> list[MatrixMultiply]:
    kernels = lower(program, target).kernels
    return [s for kernel in kernels for s in statements(kernel.body) if isinstance(s, MatrixMultiply)]


def test_a_schedule_has_them() -> None:
    found = [each.instruction for kernel in PROGRAM.main.blocks for each in blocks(kernel) if each.instruction]
    assert {type(each) for each in found} == {Pipeline, Copy, Product}
    assert len(multiplications(PROGRAM, CARD)) == 1
    assert not multiplications(PROGRAM, TARGET)


def test_text_and_json_keep_them() -> None:
    assert parse(PRINTED) == PROGRAM
    assert to_text(parse(PRINTED)) == PRINTED
    assert from_json(to_json(PROGRAM), Program) == PROGRAM
    for word in ("#multiply=", "#pipeline=", "#copy", *(f"#{kind.value}" for kind in RoleKind if kind.has_bits)):
        assert word in PRINTED


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (r"#lane=0 ", "", "its indices do not stand for all of its threads"),
        (r"#element=\d", "#lane=9", "its indices do not stand for all of its threads"),
        (r"#multiply=\"mma_m16n8k16_f16\"", '#multiply="mma_m16n8k16_bf16"', "multiplies f16 by f16 to f32"),
        (r"mul\(", "add(", "does not just add products of two tensors"),
        ("#tile_column", "#tile_row", "its indices move elsewhere in memory"),
    ],
)
def test_a_product_that_does_not_fit_is_an_error_and_not_scalars(good: str, bad: str, words: str) -> None:
    text = re.sub(good, bad, PRINTED)
    assert text != PRINTED
    wrong = parse(text)
    with pytest.raises(TileError, match=f"TIL502.*asks for the fragment mma.*{words}"):
        lower(wrong, CARD)
    assert not multiplications(wrong, TARGET)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("mma_m16n8k16_f16", "mma_m16n8k16_f61", "there is no fragment 'mma_m16n8k16_f61'"),
        (r"#pipeline=\d", "#pipeline=1", "two stages at least, not 1"),
        (r"#pipeline=\d", "#pipeline", r"must not have the tag pipeline: say instruction=Pipeline\(…\)"),
        (r"#multiply=\S+", "#multiply", r"must not have the tag multiply: say instruction=Product\(…\)"),
        ("#copy", "#copy=2", r"must not have the tag copy: say instruction=Copy\(\)"),
        (r"#lane=\d", "#lane", r"must not have the tag lane: say role=Role\(…\)"),
        (r"#lane=\d", "#lane=0", "several indices have the role lane"),
    ],
)
def test_the_verifier_knows_them(good: str, bad: str, words: str) -> None:
    found = diagnose(parse(re.sub(good, bad, PRINTED)))
    assert {fault.code for fault in found} == {"TIL505"}
    assert any(re.search(words, fault.message) for fault in found), found


def test_roles_and_copies_stand_where_they_mean_something() -> None:
    role = Block("b", (Index("i", 4, role=Role(RoleKind.DEPTH)),))
    assert "has a role, but the block is no product" in diagnose_block(role)[0].message
    assert "in a block with a pipeline" in diagnose_block(Block("b", instruction=Copy()))[0].message


def test_what_is_written_again_is_said_by_a_word() -> None:
    text = "0: #repair\nblock []:1 (\n) {\n}\n"
    block = parse_block(text)
    assert (block.tags, block.instruction, str(block.instruction)) == (Tags(), Repair(), "#repair")
    assert parse_block(to_text(block)) == from_json(to_json(block), Block) == block
    assert (
        "must not have the tag repair: say instruction=Repair()"
        in diagnose_block(Block("b", tags=Tags.of(repair=2)))[0].message
    )


def test_copies_may_say_which_box_they_copy() -> None:
    box = "4x64 of 7x1000 by 1008x1"
    text = PRINTED.replace("#copy", f'#copy="{box}"', 1)
    program = parse(text)
    assert to_text(program) == text
    assert from_json(to_json(program), Program) == program
    (copy,) = (
        each.instruction
        for kernel in program.main.blocks
        for each in blocks(kernel)
        if isinstance(each.instruction, Copy) and each.instruction.box
    )
    assert (copy.box, copy.extents, copy.strides) == ((4, 64), (7, 1000), (1008, 1))
    assert str(copy) == f'#copy="{box}"'
    assert not diagnose(program)
    further = parse(text.replace(box, f"{box} every 2x1 along 1x0"))
    assert to_text(further) == text.replace(box, f"{box} every 2x1 along 1x0")
    assert from_json(to_json(further), Program) == further
    for bad, words in (
        ("4x64 of 7x1000 by 1008x1 every 2", "as many sizes"),
        ("4x64 of 7x1000 by 1008x1 along 0x1x2", "as many sizes"),
        ("4x64 of 7x1000 along 0x1 by 1008x1", "must not have the tag copy"),
        ("4x64 of 7 by 1008x1", "as many sizes"),
        ("4x0 of 7x1000 by 1008x1", "none below 1"),
        ("4x64 of 7x1000", "must not have the tag copy"),
        ("4x64 of 7xM by 1008x1", "must not have the tag copy"),
    ):
        assert any(words in fault.message for fault in diagnose(parse(text.replace(box, bad)))), bad


def test_elsewhere_the_words_are_tags() -> None:
    text = "0: #copy\nblock [(#depth i:4)]:4 (\n) {\n}\n"
    block = parse_block(text)
    assert (block.tags, block.instruction) == (Tags.of("copy"), None)
    assert block.indices == (Index("i", 4, tags=Tags.of("depth")),)
    assert not diagnose_block(block)


def test_passes_cannot_set_the_words() -> None:
    with pytest.raises(ValueError, match="inner_set cannot hold pipeline"):
        Tile(sizes=(2,), inner_set=("pipeline",))
