"""The nodes of Stripe: tags, shapes, and what statements read and write."""

from __future__ import annotations

import pytest
from hypothesis import given

from strategies.effort import examples
from strategies.stripe import blocks, programs
from tileir.core.dtype import DType
from tileir.core.errors import TileError
from tileir.core.json.codec import from_json, to_json
from tileir.poly.affine import Affine
from tileir.stripe.ir import (
    Block,
    Direction,
    Index,
    Load,
    Program,
    Refinement,
    Special,
    Store,
    Tags,
    TensorShape,
    scalar_inputs,
    scalar_output,
    views_read,
    views_written,
)


@examples(50)
@given(programs())
def test_json_keeps_programs(program: Program) -> None:
    assert from_json(to_json(program), Program) == program


@examples(100)
@given(blocks())
def test_json_keeps_blocks(block: Block) -> None:
    assert from_json(to_json(block), Block) == block


def test_faulty_json_is_a_diagnostic() -> None:
    good = to_json(Block("b", (Index("i", 4),)))
    for bad in (good[:-3], good.replace(b'"range":4', b'"range":"4"'), good.replace(b'"range"', b'"reach"'), b"[]"):
        with pytest.raises(TileError) as caught:
            from_json(bad, Block)
        assert caught.value.diagnostics[0].code in ("TIL601", "TIL602")


def test_tags_are_a_sorted_set() -> None:
    tags = Tags.of("b", a=1)
    assert tags.items == (("a", 1), ("b", None))
    assert tags.get("a") == 1
    assert tags.get("c") is None
    assert tags.has_all(["a", "all"])
    assert not tags.has_all(["c"])
    assert tags.add("b") is tags
    assert tags.add("c", a=2) == Tags.of("b", "c", a=2)
    assert tags.remove("x") is tags
    assert tags.remove("a") == Tags.of("b")


def test_shapes() -> None:
    shape = TensorShape.dense(DType.F32, (4, 3))
    assert (shape.sizes, shape.strides) == ((4, 3), (3, 1))
    assert (shape.elements, shape.span) == (12, 12)
    assert TensorShape.dense(DType.F32, (0, 3)).span == 0
    assert TensorShape.dense(DType.F32, ()).span == 1


def test_blocks_find_what_they_hold() -> None:
    refinement = Refinement("A", Direction.IN, "B", (Affine(),), TensorShape.dense(DType.I8, (1,)))
    block = Block(indices=(Index("i", 4),), refinements=(refinement,), statements=(Block(), Load("A", "a")))
    assert block.refinement("A") is refinement
    assert block.index("i").range == 4
    assert block.ranges == {"i": 4}
    assert block.blocks == (Block(),)
    for find in (block.refinement, block.index):
        with pytest.raises(KeyError):
            find("missing")


def test_what_statements_read_and_write() -> None:
    load, store = Load("A", "a", "x"), Store("a", "B", "x")
    special = Special("copy", ("A",), ("B",))
    assert (scalar_inputs(load), scalar_output(load)) == (("x",), "a")
    assert (scalar_inputs(store), scalar_output(store)) == (("a", "x"), None)
    assert (views_read(load), views_written(store)) == (("A",), ("B",))
    assert (views_read(special), views_written(special)) == (("A",), ("B",))
    shape = TensorShape(DType.I8)
    views = tuple(Refinement(d.value, d, d.value.upper(), (), shape) for d in Direction)
    block = Block(refinements=views)
    assert views_read(block) == ("IN", "INOUT")
    assert views_written(block) == ("OUT", "INOUT")
    assert (views_written(load), views_read(store), scalar_inputs(block)) == ((), (), ())
