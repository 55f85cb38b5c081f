"""The jobs of the designer: text to controls and back, to pictures, and to what is taken away."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from PIL import Image

import tileir
from studio.conversation import codes, events, frames, pixels, shown, studio
from tileir_cli.pictures.files import as_levels
from tileir_studio.serve.command import start_of
from tileir_studio.serve.uploads import KEPT, keep, read, store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

FORMULA: Final = """\
// soft
a = convolve(weights=[-1 0 1; -2 0 2; -1 0 1])
b = gaussian(sigma=1) of image
magnitude of a, b
"""
GROUPS: Final = """\
a = gaussian
repeat 3 {
  b = add of previous, a
  box
  repeat 2 {
    sharpen
    add of previous, b
  }
}
"""
LEVELS: Final = np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with studio(tmp_path_factory.mktemp("uploads")) as client:
        yield client


def png(levels: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(levels).save(file, format="PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def pictures(client: TestClient) -> dict[str, str]:
    return {"image": client.post("/api/uploads", content=png(LEVELS)).json()["name"]}


def frame(client: TestClient, job: str, **request: Any) -> tuple[Any, bytes]:
    """Return the view and the one picture of a job that answers once."""
    ((name, view, parts),) = frames(client, job, **request)
    assert name != "faults", view
    return view, next(iter(parts.values()))


def test_a_text_has_controls_and_a_drawing(client: TestClient) -> None:
    ((name, view),) = events(client, "formula", text=FORMULA)
    assert (name, view["broken"], view["faults"]) == ("formula", False, [])
    steps = view["controls"]["steps"]
    assert [step["function"]["value"] for step in steps] == ["convolve", "gaussian", "magnitude"]
    sigma = steps[1]["parameters"][0]
    assert (sigma["path"], FORMULA[slice(*sigma["span"])]) == ("steps[1].arguments.sigma", "1")
    wires = {(wire["source"], wire["target"]) for wire in view["wires"]}
    assert wires == {
        ("inputs[0]", "steps[0]"),
        ("inputs[0]", "steps[1]"),
        ("steps[0]", "steps[2]"),
        ("steps[1]", "steps[2]"),
        ("steps[2]", "results"),
    }
    assert {place["node"]: place["layer"] for place in view["places"]} == {
        "inputs[0]": 0,
        "steps[0]": 1,
        "steps[1]": 1,
        "steps[2]": 2,
        "results": 3,
    }


def test_groups_are_nodes_that_read_what_their_steps_read(client: TestClient) -> None:
    text = "a = gaussian\nrepeat 3 {\n  add of previous, a\n  gaussian\n}\nadd of $2, image\n"
    ((_, view),) = events(client, "formula", text=text)
    wires = {(wire["source"], wire["target"]) for wire in view["wires"]}
    assert wires == {
        ("inputs[0]", "steps[0]"),
        ("steps[0]", "steps[1]"),
        ("steps[1]", "steps[2]"),
        ("inputs[0]", "steps[2]"),
        ("steps[2]", "results"),
    }


def test_a_broken_text_and_a_broken_rule_have_faults_with_places(client: TestClient) -> None:
    ((_, view),) = events(client, "formula", text="gaussian(sigma=)\n")
    assert view["broken"] is True
    assert view["faults"][0]["line"] == 1
    text = "gaussian(sigma=900)\n"
    ((_, view),) = events(client, "formula", text=text)
    assert view["broken"] is False
    assert [text[fault["start"] : fault["stop"]] for fault in view["faults"]] == ["900"]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            {"action": "set", "path": "steps[1].arguments.sigma", "value": "2.5"},
            FORMULA.replace("sigma=1", "sigma=2.5"),
        ),
        ({"action": "add", "path": "steps[3]", "function": "box"}, FORMULA + "box\n"),
        ({"action": "add", "path": "steps[3]", "function": "blend"}, FORMULA + "blend of $3, image\n"),
        ({"action": "remove", "path": "steps[2]"}, FORMULA.replace("magnitude of a, b\n", "")),
        ({"action": "duplicate", "path": "steps[2]"}, FORMULA + "magnitude of a, b\n"),
        (
            {"action": "move", "path": "steps[0]", "target": "steps[2]"},
            "b = gaussian(sigma=1) of image\n// soft\na = convolve(weights=[-1 0 1; -2 0 2; -1 0 1])\n"
            "magnitude of a, b\n",
        ),
    ],
)
def test_edits_write_the_text(client: TestClient, request_: dict[str, Any], expected: str) -> None:
    if request_["action"] == "move":
        text = FORMULA.replace("1])\n", "1]) of image\n")
        expected = expected.replace("1])\n", "1]) of image\n")
    else:
        text = FORMULA
    ((name, view),) = events(client, "formula.edit", text=text, **request_)
    assert (name, view.get("text")) == ("formula", expected)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"action": "explode", "path": "steps[0]"}, "TIL913"),
        ({"action": "set", "path": "steps[0].arguments.sigma", "value": 7}, "TIL913"),
        ({"action": "set", "path": "steps[9].arguments.sigma", "value": "7"}, "TIL221"),
        ({"action": "add", "path": "steps[0]", "function": "nonsense"}, "TIL221"),
        ({"action": "add", "path": "steps[77]", "function": "box"}, "TIL221"),
        ({"action": "move", "path": "steps[0]", "target": "steps[3]"}, "TIL228"),
        ({"action": "move", "path": "steps[0]"}, "TIL913"),
    ],
)
def test_edits_that_cannot_be_are_told(client: TestClient, request_: dict[str, Any], code: str) -> None:
    assert codes(events(client, "formula.edit", text=FORMULA, **request_)) == [code]


def test_all_functions_are_offered(client: TestClient) -> None:
    ((_, found),) = events(client, "functions")
    described = {each["name"]: each for each in found}
    assert described["gaussian"]["pictures"] == 1
    assert described["magnitude"]["pictures"] == 2
    assert all(each["about"] for each in found)


def test_a_preview_is_what_the_formula_makes(client: TestClient, pictures: dict[str, str]) -> None:
    seen = pixels(*shown(client, text=FORMULA, inputs=pictures))
    np.testing.assert_array_equal(seen[..., :3], tileir.craft(FORMULA)(LEVELS))
    assert (seen[..., 3] == 255).all()
    original = pixels(*frame(client, "formula.original", upload=pictures["image"]))
    np.testing.assert_array_equal(original[..., :3], LEVELS)


@pytest.mark.sampled(0)
def test_a_dragged_control_gives_the_text_and_the_picture_of_its_value(
    client: TestClient, pictures: dict[str, str]
) -> None:
    dragged = {"path": "steps[1].arguments.sigma", "value": "1.1"}
    view, content = shown(client, text=FORMULA, inputs=pictures, **dragged)
    expected = FORMULA.replace("sigma=1", "sigma=1.1")
    assert view["text"] == expected
    difference = pixels(view, content)[..., :3].astype(int) - tileir.craft(expected)(LEVELS)
    assert np.abs(difference).max() <= 1


def test_one_of_several_results_is_shown(client: TestClient, pictures: dict[str, str]) -> None:
    text = FORMULA + "results a, b\n"
    view, content = shown(client, text=text, inputs=pictures, result=1)
    assert view["results"] == 2
    expected = tileir.craft("gaussian(sigma=1)")(LEVELS)
    np.testing.assert_array_equal(pixels(view, content)[..., :3], expected)
    _, file = frame(client, "formula.export", text=text, inputs=pictures, result=1, form="png")
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(file))), expected)


@pytest.mark.sampled(0)
def test_a_picture_in_grey_is_shown_and_wrong_pictures_are_told(client: TestClient, pictures: dict[str, str]) -> None:
    grey = client.post("/api/uploads", content=png(LEVELS[..., 0])).json()["name"]
    seen = pixels(*shown(client, text="gaussian", inputs={"image": grey}))
    np.testing.assert_array_equal(seen[..., 1], tileir.craft("gaussian")(LEVELS[..., 0]))
    vector = io.BytesIO()
    np.save(vector, np.zeros(5, np.float32))
    line = client.post("/api/uploads", content=vector.getvalue()).json()["name"]
    for given, code in (({"image": line}, "TIL912"), ({}, "TIL912"), ({"image": "gone"}, "TIL912"), ([], "TIL913")):
        assert codes(events(client, "formula.preview", text="gaussian", inputs=given)) == [code]
    assert codes(events(client, "formula.preview", text="gaussian", inputs=pictures, device="abacus.0")) == ["TIL801"]


@pytest.mark.sampled(0)
def test_each_step_has_a_small_picture_kernels_and_times(client: TestClient, pictures: dict[str, str]) -> None:
    (_, small, parts), (name, view, _) = frames(client, "formula.steps", text=FORMULA, inputs=pictures)
    assert list(small["sizes"]) == ["steps[0]", "steps[1]", "steps[2]"]
    assert {path: len(content) for path, content in parts.items()} == dict.fromkeys(parts, 24 * 32 * 4)
    assert name == "explained"
    assert [step["path"] for step in view["steps"]] == ["steps[0]", "steps[1]", "steps[2]"]
    assert all(kernel["measured"] > 0 for kernel in view["kernels"])
    assert {buffer["role"] for buffer in view["dispatch"]["buffers"]} >= {"input", "output"}


@pytest.mark.sampled(0)
def test_loops_are_explained_without_times(client: TestClient, pictures: dict[str, str]) -> None:
    text = "repeat 40 {\n  gaussian(sigma=0.5)\n}\n"
    found = frames(client, "formula.steps", text=text, inputs=pictures)
    assert [name for name, _, _ in found] == ["thumbnails", "explained", "thumbnails"]


@pytest.mark.sampled(0)
def test_steps_in_groups_show_their_first_round(client: TestClient, pictures: dict[str, str]) -> None:
    text = GROUPS + "add of $2, image\n"
    found = frames(client, "formula.steps", text=text, inputs=pictures)
    shown = {path: part for name, _, parts in found if name == "thumbnails" for path, part in parts.items()}
    equal = {
        "steps[1].steps[0]": "a = gaussian\nadd of a, a\n",
        "steps[1].steps[1]": "a = gaussian\nadd of a, a\nbox\n",
        "steps[1].steps[2].steps[0]": "a = gaussian\nadd of a, a\nbox\nsharpen\n",
        "steps[1].steps[2].steps[1]": "a = gaussian\nb = add of a, a\nc = box\nadd of c, b\n",
    }
    assert set(equal) | {"steps[0]", "steps[1]", "steps[2]"} == set(shown)
    for path, plain in equal.items():
        picture = np.frombuffer(shown[path], np.uint8).reshape(24, 32, 4)[..., :3].astype(int)
        assert np.abs(picture - tileir.craft(plain)(LEVELS)).max() <= 1, path


def test_the_steps_of_groups_have_drawings(client: TestClient) -> None:
    ((_, view),) = events(client, "formula", text=GROUPS)
    outer, inner = view["groups"]
    assert (outer["path"], inner["path"]) == ("steps[1]", "steps[1].steps[2]")
    assert {each["label"]: each["node"] for each in outer["outside"]} == {
        "previous": "steps[1].previous",
        "a": "steps[0]",
    }
    assert {(wire["source"], wire["target"]) for wire in outer["wires"]} == {
        ("steps[1].previous", "steps[1].steps[0]"),
        ("steps[0]", "steps[1].steps[0]"),
        ("steps[1].steps[0]", "steps[1].steps[1]"),
        ("steps[1].steps[1]", "steps[1].steps[2]"),
        ("steps[1].steps[0]", "steps[1].steps[2]"),
    }
    assert {each["label"] for each in inner["outside"]} == {"previous", "b"}
    layers = {each["node"]: each["layer"] for each in outer["places"]}
    assert [layers[f"steps[1].steps[{number}]"] for number in range(3)] == [1, 2, 3]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("text", [FORMULA, 'inputs image, other\n// say """ and \\ and ü\nblend of image, other\n'])
def test_the_script_makes_the_same_bytes_in_another_process(
    client: TestClient, pictures: dict[str, str], tmp_path: Path, text: str
) -> None:
    given = {**pictures, "other": client.post("/api/uploads", content=png(LEVELS[::-1])).json()["name"]}
    _, script = frame(client, "formula.export", text=text, inputs=given, form="python")
    _, result = frame(client, "formula.export", text=text, inputs=given, form="png")
    (tmp_path / "formula.py").write_bytes(script)
    names = [f"{name}.png" for name in ("image", "other")][: 1 + text.count("other,") + text.count(", other\n") // 2]
    for name, levels in zip(names, (LEVELS, LEVELS[::-1]), strict=False):
        (tmp_path / name).write_bytes(png(levels))
    done = subprocess.run(
        [sys.executable, "formula.py", *names, "result.png"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = np.asarray(Image.open(io.BytesIO(result)))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "result.png")), expected)
    given_levels = [LEVELS, LEVELS[::-1]][: len(names)]
    np.testing.assert_array_equal(expected, as_levels(tileir.craft(text)(*given_levels)))


@pytest.mark.sampled(0)
def test_source_code_says_how_it_is_called(client: TestClient, pictures: dict[str, str]) -> None:
    text = FORMULA + "// */ ends no comment\n"
    view, source = frame(client, "formula.export", text=text, inputs=pictures, form="opencl")
    header, _, code = source.decode().partition("\n*/\n")
    assert view["name"] == "formula.cl"
    assert "* / ends no comment" in header
    assert '"kernel": "k0_' in header
    assert '"name": "image", "role": "input", "bytes": 2304, "dtype": "u8", "shape": [24, 32, 3]' in header
    assert "__kernel" in code
    assert codes(events(client, "formula.export", text=text, inputs=pictures, form="cobol")) == ["TIL913"]


@pytest.mark.sampled(0)
def test_one_pixel_tells_what_it_reads(client: TestClient, pictures: dict[str, str]) -> None:
    text = "inputs image, other\nbox(size=5) of image\n"
    given = {"image": pictures["image"], "other": pictures["image"]}
    ((name, view),) = events(client, "formula.probe", text=text, inputs=given, row=10, column=7)
    assert name == "probed", view
    assert view["other"] == []
    rows, columns = zip(*view["image"], strict=True)
    assert (min(low for low, _ in rows), max(high for _, high in rows)) == (8, 13)
    assert (min(low for low, _ in columns), max(high for _, high in columns)) == (5, 10)
    for row in ("one", 24, -1):
        (code,) = codes(events(client, "formula.probe", text=text, inputs=given, row=row, column=7))
        assert code == ("TIL913" if row == "one" else "TIL314")


@pytest.mark.sampled(0)
def test_what_the_page_begins_with_outlives_all_uploads(tmp_path: Path) -> None:
    first = keep(tmp_path, png(LEVELS))
    with studio(tmp_path) as client:
        given = [png(LEVELS + np.uint8(number)) for number in range(1, KEPT + 9)]
        others = [client.post("/api/uploads", content=each).json()["name"] for each in given]
        view, _ = shown(client, text="box", inputs={"image": first})
        assert view["size"] == [24, 32]
        assert codes(events(client, "formula.preview", text="box", inputs={"image": others[0]})) == ["TIL912"]
        shown(client, text="box", inputs={"image": others[-1]})
    start = start_of(None, tmp_path)
    for number in range(KEPT + 1):
        store(tmp_path, bytes([number]))
    assert read(tmp_path, start.picture).shape == (512, 512, 3)
