"""Bindings of indices in kernels: fields of their own, words in text."""

from __future__ import annotations

import attrs
import pytest

from tileir.core.errors import ParseError
from tileir.poly.affine import Affine
from tileir.stripe.bindings import BINDINGS, WORDS
from tileir.stripe.blocks import Binding
from tileir.stripe.check.verifier import diagnose_block
from tileir.stripe.ir import Block, Index, Tags
from tileir.stripe.text.parser import parse_block
from tileir.stripe.text.printer import to_text

TEXT = "0:\nblock [({} i:4)]:4 (\n) {{\n}}\n"


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


def test_marks() -> None:
    plain = Index("i", 4)
    assert plain.is_plain
    assert not plain.is_marked
    assert not Index("i", 4, Affine()).is_plain
    for marked in (plain.bound(Binding.DOT), attrs.evolve(plain, serial=True), plain.worded("own")):
        assert marked.is_marked
        assert not marked.is_plain
    assert plain.bound(Binding.DOT).bound(None) == plain
