"""What indices become in kernels: fields of their own, words in text, and tags in older JSON."""

from __future__ import annotations

import json

import attrs
import pytest

from tileir.core.errors import ParseError, TileError
from tileir.core.json.codec import from_json, to_json
from tileir.poly.affine import Affine
from tileir.stripe.bindings import BINDINGS, WORDS
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import diagnose_block
from tileir.stripe.ir import Block, Index, Tags
from tileir.stripe.text.parser import parse_block
from tileir.stripe.text.printer import to_text

TEXT = "0:\nblock [({} i:4)]:4 (\n) {{\n}}\n"


def older(*tags: object) -> str:
    """Return the JSON of an index as it was written before indices had bindings."""
    node = {"$": "Index", "affine": None, "name": "i", "range": 4, "tags": {"$": "Tags", "items": list(tags)}}
    return json.dumps({"format": "tileir.stripe.Index", "node": node, "version": 1})


@pytest.mark.parametrize("word", BINDINGS)
def test_a_word_of_text_is_a_binding(word: str) -> None:
    (index,) = parse_block(TEXT.format(f"#{word}")).indices
    assert index == Index("i", 4, binding=BINDINGS[word])


def test_order_is_beside_bindings_and_tags() -> None:
    block = parse_block(TEXT.format("#vector #own=3 #serial"))
    assert block.indices == (Index("i", 4, None, Binding.LANE, serial=True, tags=Tags.of(own=3)),)
    assert "(#own=3 #serial #vector i:4)" in to_text(block)


def test_an_index_has_one_binding() -> None:
    with pytest.raises(ParseError, match="an index is one of #grid, #vector"):
        parse_block(TEXT.format("#grid #vector"))


@pytest.mark.parametrize("word", WORDS)
def test_the_words_are_no_tags(word: str) -> None:
    index = Index("i", 4, tags=Tags.of(word))
    (fault,) = diagnose_block(Block("b", (index,)))
    instead = "serial=True" if word == "serial" else f"binding=Binding.{BINDINGS[word].name}"
    assert fault.code == "TIL503"
    assert f"index 'i' of b must not have the tag {word}: say {instead} instead" in fault.message
    assert index.worded(word).words == Tags.of(word)
    assert not diagnose_block(Block("b", (attrs.evolve(index, tags=Tags()).worded(word),)))


def test_a_word_with_a_value_says_nothing() -> None:
    block = parse_block(TEXT.format("#grid=2"))
    assert block.indices == (Index("i", 4, tags=Tags.of(grid=2)),)
    assert [fault.code for fault in diagnose_block(block)] == ["TIL503"]


@pytest.mark.parametrize(
    ("tags", "index"),
    [
        ([], Index("i", 4)),
        ([["grid", None]], Index("i", 4, binding=Binding.GRID)),
        ([["a", 1], ["serial", None]], Index("i", 4, serial=True, tags=Tags.of(a=1))),
        ([["serial", None], ["vector", None]], Index("i", 4, binding=Binding.LANE, serial=True)),
        ([["grid", 2]], Index("i", 4, tags=Tags.of(grid=2))),
        ([["grid", None], ["thread", None]], Index("i", 4, binding=Binding.GRID, tags=Tags.of("thread"))),
    ],
)
def test_older_json_has_them_as_tags(tags: list[object], index: Index) -> None:
    assert from_json(older(*tags), Index) == index
    assert from_json(to_json(index), Index) == index


@pytest.mark.parametrize("tag", [3, [], ["grid"], [["grid"], None], [{}, None], {"a": None}])
def test_what_is_no_tag_in_older_json_is_told(tag: object) -> None:
    with pytest.raises(TileError, match=r"TIL602.*\$\.node\.tags\.items\[0\]"):
        from_json(older(tag), Index)


def test_marks() -> None:
    plain = Index("i", 4)
    assert plain.is_plain
    assert not plain.is_marked
    assert not Index("i", 4, Affine()).is_plain
    for marked in (plain.bound(Binding.DOT), attrs.evolve(plain, serial=True), plain.worded("own")):
        assert marked.is_marked
        assert not marked.is_plain
    assert plain.bound(Binding.DOT).bound(None) == plain
