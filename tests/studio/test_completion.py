"""Completion of texts: the language takes each offered option at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from studio.conversation import codes, events, studio
from tileir.core.errors import TileError
from tileir_formula.definitions.catalogue import own_functions
from tileir_formula.text.parser import parse
from tileir_formula.verifier import faults_of
from tileir_studio.design.designer import Completions, formula_completions, offers_view, tile_completions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

FUNCTIONS = own_functions()
TILE = "function (Pixels[H, W]) -> (R) {\n    Rows[y, x : H, W] = +(Pixels[y + k - 1, x]), k < 3;\n    R = sq"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with studio(tmp_path_factory.mktemp("uploads")) as client:
        yield client


def labels(found: Completions) -> list[str]:
    return [each.label for each in found.options]


@pytest.mark.parametrize(
    ("before", "some", "others"),
    [
        ("", ["gaussian", "repeat", "results"], ["of", "image"]),
        ("gau", ["gaussian"], ["of"]),
        ("a = gaussian\nb = ", ["sobel", "add"], ["repeat"]),
        ("gaussian(", ["sigma="], ["gaussian"]),
        ("unsharp(amount=1, ", ["sigma="], ["amount="]),
        ("resize(method=", ["nearest"], ["percent="]),
        ("a = box\nb = box\nadd of ", ["image", "a", "b"], ["previous", "$2"]),
        ("a = box\nbox\nadd of a, ", ["image", "a", "$2"], ["gaussian"]),
        ("inputs one, two\ngaussian of ", ["one", "two"], ["image"]),
        ("a = box\nrepeat 3 {\n  b = box\n  add of ", ["previous", "a", "b"], []),
        ("a = box\nrepeat 3 {\n  b = box\n}\nadd of ", ["a", "$2"], ["previous", "b"]),
        ("a = box(((\nrepeat 3 {\nadd of ", ["image", "previous", "a"], []),
        ("gaussian ", ["of", "where", "with", "outside"], ["gaussian"]),
        ("gaussian of image ", ["where", "with", "outside"], ["of"]),
        ("gaussian outside ", ["mirror", "wrap"], ["of"]),
        ("gaussian where ", ["input", "mask", "region"], ["gaussian"]),
        ("gaussian where output ", ["within"], []),
        ("gaussian where output within 10% of ", ["pixel"], []),
        ("gaussian where mask ", ["image"], ["gaussian"]),
        ("gaussian with ", ["add", "blend"], ["gaussian"]),
        ("gaussian with blend(amount=0.5) ", ["image"], ["blend"]),
        ("a = box\nresults ", ["a", "image"], ["box"]),
    ],
)
def test_formulas_go_on(before: str, some: list[str], others: list[str]) -> None:
    found = labels(formula_completions(before, FUNCTIONS))
    assert set(some) <= set(found)
    assert not set(others) & set(found)


def test_nothing_is_offered_in_comments_and_unknown_calls() -> None:
    for before in ("// gau", "gaussian // of ", "nonsense(", "gaussian(sigma=1."):
        assert labels(formula_completions(before, FUNCTIONS)) == [], before


def test_what_is_offered_is_taken() -> None:
    """Each function with each parameter at its default, and each choice, is a formula without faults."""
    for name, function in FUNCTIONS.items():
        two = " of image, image" if len(function.pictures) == 2 else ""
        for parameter in labels(formula_completions(f"{name}(", FUNCTIONS)):
            for choice in labels(formula_completions(f"{name}({parameter}", FUNCTIONS)):
                text = f"{name}({parameter}{choice}){two}\n"
                assert list(faults_of(parse(text), FUNCTIONS)) == [], text


def test_any_prefix_of_a_formula_has_an_answer() -> None:
    text = "inputs image, other\na = box(size=5) of image // x\nrepeat 3 {\n add of previous, a\n}\nresults $2, a\n"
    for place in range(len(text) + 1):
        formula_completions(text[:place], FUNCTIONS)


def test_tile_goes_on_with_its_names_and_functions() -> None:
    found = tile_completions(TILE, len(TILE))
    assert found.typed == 2
    assert {"sqrt", "Pixels", "Rows", "H", "k"} <= set(labels(found))
    assert "sq" not in labels(found)
    assert tile_completions("R = 3", 5).options == ()
    assert tile_completions("// a", 4).options == ()


@pytest.mark.sampled(0)
def test_the_page_asks_for_completions(client: TestClient) -> None:
    ((name, view),) = events(client, "complete", text="gaussian(", place=9)
    assert name == "completed"
    (sigma,) = (each for each in view["options"] if each["label"] == "sigma=")
    assert "by default" in sigma["about"]
    ((_, view),) = events(client, "complete", text=TILE, place=len(TILE), language="tile")
    assert view["typed"] == 2
    for place in (-1, 10, "1", None, True):
        assert codes(events(client, "complete", text="gaussian(", place=place)) == ["TIL913"]


@pytest.mark.sampled(0)
def test_the_diagram_shows_what_fits_at_each_place(client: TestClient) -> None:
    text = "a = gaussian\nrepeat 2 {\n  b = box\n}\nadd of $2, a\n"
    ((name, view),) = events(client, "formula.offers", text=text)
    assert name == "offered"
    assert [(each["path"], each["label"]) for each in view["places"]] == [
        ("steps[0]", "above 1 a"),
        ("steps[1]", "above 2 repeat"),
        ("steps[1].steps[0]", "above 2.1 b"),
        ("steps[1].steps[1]", "at the end of group 2"),
        ("steps[2]", "above 3 add"),
        ("steps[3]", "at the end"),
    ]
    assert view["path"] == "steps[3]"
    assert {"gaussian", "sobel"} <= {each["name"] for each in view["primaries"]}
    assert {"add", "blend"} <= {each["name"] for each in view["merges"]}
    inside = offers_view(text, "steps[1].steps[1]", FUNCTIONS)
    assert (inside.sources, inside.implied) == (("image", "previous", "a", "b"), "b")
    assert offers_view(text, "nowhere", FUNCTIONS).path == "steps[3]"
    assert codes(events(client, "formula.offers", text="gaussian(")) == ["TIL102"]
    with pytest.raises(TileError):
        offers_view("gaussian(", None, FUNCTIONS)


@pytest.mark.sampled(0)
def test_what_the_diagram_offers_can_be_inserted_everywhere(client: TestClient) -> None:
    text = "a = gaussian\nrepeat 2 {\n  b = box\n}\nadd of $2, a\n"
    ((_, view),) = events(client, "formula.offers", text=text)
    for place in view["places"]:
        ((_, there),) = events(client, "formula.offers", text=text, path=place["path"])
        for name in ("sobel", "blend"):
            assert name in {each["name"] for each in (*there["primaries"], *there["merges"])}
            added = {"action": "add", "path": place["path"], "function": name}
            ((event, made),) = events(client, "formula.edit", text=text, **added)
            assert event == "formula", (place, made)
            assert made["faults"] == [], (place, made["text"])
