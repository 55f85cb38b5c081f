"""The flexibility diagram: seed 002, chapter 2, for any catalogue."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import attrs
import pytest

from strategies.formulas import FUNCTIONS
from tileir.core.json.codec import from_json, to_json
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.diagrams.diagram import Diagram, diagram_of
from tileir_formula.diagrams.diagram_svg import to_svg

SVG = "{http://www.w3.org/2000/svg}"


def drawn(diagram: Diagram) -> ET.Element:
    return ET.fromstring(to_svg(diagram))


def test_it_tells_functions_arguments_conditions_and_merges() -> None:
    diagram = diagram_of(FUNCTIONS)
    nodes = {node.name: node for node in diagram.primaries}
    assert list(nodes) == ["blur", "halve", "tint", "weigh"]
    assert [node.name for node in diagram.merges] == ["add", "mix"]
    assert nodes["blur"].arguments == ("radius=1", "amount=0.5")
    assert nodes["blur"].conditions == tuple("ABCDEFG")
    assert nodes["halve"].conditions == ()
    assert [each.letter for each in diagram.conditions] == list("ABCDEFG")
    assert from_json(to_json(diagram), Diagram) == diagram
    assert "  blur(radius=1, amount=0.5) [ABCDEFG]\n" in str(diagram)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("functions", [{}, FUNCTIONS, own_functions()], ids=["none", "few", "own"])
def test_it_is_drawn_around_a_compute_pass(functions: dict[str, object]) -> None:
    diagram = diagram_of(functions)  # type: ignore[arg-type]
    picture = drawn(diagram)
    assert len(picture.findall(f"{SVG}circle")) == 1
    assert len(picture.findall(f"{SVG}g/{SVG}rect")) == len(diagram.primaries)
    assert len(picture.findall(f"{SVG}g/{SVG}polygon")) == len(diagram.merges)
    assert len(picture.findall(f"{SVG}line")) == len(functions)
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"compute pass", *functions} <= set(words)
    for legend in diagram.conditions:
        assert any(word is not None and word.startswith(legend.letter) and legend.about in word for word in words)


def test_squares_have_arguments_right_and_conditions_left() -> None:
    group = next(
        group for group in drawn(diagram_of(FUNCTIONS)).findall(f"{SVG}g") if "blur" in "".join(group.itertext())
    )
    (square,) = group.findall(f"{SVG}rect")
    anchors = {text.text: text for text in group.findall(f"{SVG}text")}
    left, right = float(square.attrib["x"]), float(square.attrib["x"]) + float(square.attrib["width"])
    assert anchors["ABCDEFG"].attrib["text-anchor"] == "start"
    assert 0 < float(anchors["ABCDEFG"].attrib["x"]) - left < 10
    assert anchors["radius"].attrib["text-anchor"] == "end"
    assert 0 < right - float(anchors["radius"].attrib["x"]) < 10


def test_nothing_overlaps_and_all_lies_inside() -> None:
    picture = drawn(diagram_of(own_functions()))
    width, height = float(picture.attrib["width"]), float(picture.attrib["height"])
    corners = [(float(each.attrib["x"]), float(each.attrib["y"])) for each in picture.findall(f"{SVG}g/{SVG}rect")]
    corners += [
        (min(float(pair.split(",")[0]) for pair in points), min(float(pair.split(",")[1]) for pair in points))
        for points in (each.attrib["points"].split() for each in picture.findall(f"{SVG}g/{SVG}polygon"))
    ]
    assert all(0 <= x <= width - 132 and 0 <= y <= height - 132 for x, y in corners)
    for number, (x, y) in enumerate(corners):
        assert all(abs(x - other) >= 132 or abs(y - below) >= 132 for other, below in corners[number + 1 :])


def test_it_can_be_read_aloud_and_needs_nothing_from_elsewhere() -> None:
    text = to_svg(diagram_of(FUNCTIONS))
    picture = ET.fromstring(text)
    assert picture.attrib["role"] == "img"
    named = picture.attrib["aria-labelledby"].split()
    assert [each.attrib.get("id") for each in picture[:2]] == named
    assert "blur(radius=1, amount=0.5)" in (picture[1].text or "")
    assert not [word for word in ("<script", "<style", "href", "style=", "onload") if word in text]


def test_names_are_escaped() -> None:
    odd = attrs.evolve(FUNCTIONS["blur"], name='<b>&"\0\ud800', about="]]> </title><script>")
    picture = drawn(diagram_of({odd.name: odd}))
    assert '<b>&"\ufffd\ufffd' in [text.text for text in picture.iter(f"{SVG}text")]
    assert not list(picture.iter(f"{SVG}script"))


def test_functions_of_another_size_have_no_conditions() -> None:
    diagram = diagram_of(own_functions())
    without = {node.name for node in diagram.primaries if not node.conditions}
    assert {"pool", "resize", "crop", "transpose"} <= without
    assert not without & {"median", "rank", "convolve", "gaussian", "equalise", "flip", "rotate"}
