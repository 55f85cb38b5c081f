"""Remarks are data with stable ids."""

from __future__ import annotations

import re

import attrs
import pytest

from tileir.core.json.codec import from_json, to_json
from tileir.schedule.reasons import REASONS
from tileir.schedule.remarks import Refused, Remark, Remarks, facts_text, listener, listening, refused, remark

MADE = Remark(3, "rows", "C", "TR101", False, "why", (("index", "i"), ("range", 7), ("share", 0.5)), ("C", "D"))


def test_codes_are_stable_ids_with_a_sentence_each() -> None:
    assert [code for code in REASONS if not re.fullmatch(r"TR\d{3}", code)] == []
    assert [reason.text for reason in REASONS.values() if reason.text.endswith(".") or not reason.text] == []
    assert len({reason.text for reason in REASONS.values()}) == len(REASONS)
    assert list(REASONS) == sorted(REASONS)


def test_remarks_go_through_json() -> None:
    assert from_json(to_json(MADE), Remark) == MADE
    odd = attrs.evolve(MADE, facts=(("a", True), ("b", 1), ("c", 1.0), ("d", "1")))
    assert [type(value) for _, value in from_json(to_json(odd), Remark).facts] == [bool, int, float, str]


def test_text_tells_step_kernel_code_and_facts() -> None:
    assert str(MADE) == "3 rows, C: refused, TR101 why (index=i, range=7, share=0.5)"
    assert str(attrs.evolve(MADE, fired=True, facts=())) == "3 rows, C: did it, TR101 why"
    assert facts_text((("one", True), ("two", 1 / 3))) == " (one=true, two=0.3333)"


def test_a_refusal_needs_a_known_code() -> None:
    with pytest.raises(ValueError, match="TR999"):
        Refused("TR999")
    assert refused("TR101", index="i", range=7) == Refused("TR101", (("index", "i"), ("range", 7)))
    assert not refused("TR101").relevant


def test_nothing_is_kept_where_nobody_listens() -> None:
    remark("C", None)
    assert listener() is None
    kept = Remarks()
    with listening(kept):
        remark("C", None, (("tile", "8x8"),))
        with listening(None):
            remark("D", None)
    remark("E", None)
    assert [(each.kernel, each.fired, each.facts, each.launches) for each in kept.all()] == [
        ("C", True, (("tile", "8x8"),), ("C",))
    ]


def test_a_kernel_has_one_remark_for_each_step() -> None:
    kept = Remarks()
    with listening(kept):
        kept.begin(0, "first")
        remark("C", refused("TR002"))
        remark("C", refused("TR101", block="one"))
        remark("C", refused("TR101", block="two"))
        remark("D", refused("TR101"))
        remark("D", refused("TR004"))
        kept.begin(1, "second")
        remark("C", refused("TR101"))
        remark("C", None)
        remark("C", refused("TR004"))
    assert [(each.step, each.kernel, each.code, each.facts) for each in kept.all()] == [
        ("first", "C", "TR101", (("block", "one"),)),
        ("first", "D", "TR004", ()),
        ("second", "C", "TR001", ()),
    ]


def test_remarks_of_strangers_codes_are_shown() -> None:
    assert attrs.evolve(MADE, code="XX001").relevant
    assert not MADE.relevant
    assert attrs.evolve(MADE, fired=True).relevant
