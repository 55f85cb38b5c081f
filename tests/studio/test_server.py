"""Requests of the page and the server's answers over HTTP."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from studio.conversation import MATMUL, SIZES, codes, events, studio
from tileir_studio.serve.jobs import JOBS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with studio(tmp_path_factory.mktemp("uploads")) as client:
        yield client


def test_a_program_comes_with_all_its_stages(client: TestClient) -> None:
    found = dict(events(client, "compile", text=MATMUL, values=SIZES, device="llvm.0"))
    assert list(found) == ["checked", "stages", "costs", "graph"]
    assert found["checked"]["faults"] == []
    (_, view), *_ = [
        each for each in events(client, "compile", text=MATMUL, values=SIZES, stage="sem") if each[0] == "stage"
    ]
    assert "kernel" in view["text"]
    names = [stage["name"] for stage in found["stages"]]
    assert names[:4] == ["tile", "typed", "stripe", "stripe.1"]
    assert names[-3:] == ["sem", "code.llvm", "code.asm"]
    for name in names:
        ((kind, view),) = events(client, "stage", text=MATMUL, values=SIZES, device="llvm.0", stage=name)
        assert kind == "stage"
        assert view["text"]
        assert {number for region in view["regions"] for number in region["statements"]} == {0, 1}, name


@pytest.mark.parametrize("name", ["tile", "typed", "stripe", "stripe.2", "sem"])
def test_a_stage_comes_as_json(client: TestClient, name: str) -> None:
    ((kind, view),) = events(client, "json", text=MATMUL, values=SIZES, stage=name)
    assert kind == "json"
    assert view["json"].startswith("{")


def test_generated_code_is_text_only(client: TestClient) -> None:
    assert codes(events(client, "json", text=MATMUL, values=SIZES, stage="code.llvm")) == ["TIL913"]


def test_a_program_runs_on_an_array_and_a_picture_that_were_given(client: TestClient) -> None:
    file = io.BytesIO()
    np.save(file, np.eye(30, 40, dtype=np.float32))
    array = client.post("/api/uploads", content=file.getvalue()).json()
    assert array["type"] == "f32[30, 40]"
    picture = io.BytesIO()
    Image.fromarray(np.arange(600, dtype=np.uint8).reshape(20, 30)).save(picture, format="PNG")
    uploaded = client.post("/api/uploads", content=picture.getvalue()).json()
    assert uploaded["type"] == "f32[20, 30]"
    values = {"A": f"upload:{uploaded['name']}", "B": f"upload:{array['name']}"}
    ((kind, view),) = events(client, "run", text=MATMUL, values=values)
    assert kind == "ran"
    (result,) = view["results"]
    assert (result["name"], result["type"]) == ("Y", "f32[20, 40]")
    assert result["most"] == 1.0
    shown = client.get(f"/api/pictures/{view['pictures']['Y']}")
    assert shown.headers["content-type"] == "image/png"
    pixels = np.asarray(Image.open(io.BytesIO(shown.content)))
    assert pixels[:, :30].tolist() == np.arange(600, dtype=np.uint8).reshape(20, 30).tolist()


def test_kernels_are_measured(client: TestClient) -> None:
    ((kind, view),) = events(client, "measure", text=MATMUL, values=SIZES)
    assert kind == "costs"
    assert all(kernel["measured"] > 0 for kernel in view["kernels"])
    assert [roof["per_byte"] for roof in view["roofs"]].count(False) == 1


def test_targets_stand_side_by_side(client: TestClient) -> None:
    texts = [
        dict(events(client, "stage", text=MATMUL, values=SIZES, target=target, stage="sem"))["stage"]["text"]
        for target in ("cpu", "gpu")
    ]
    assert "grid" in texts[0]
    assert texts[0] != texts[1]


def test_faults_have_their_places_and_all_come_at_once(client: TestClient) -> None:
    text = MATMUL.replace("B[k, j]", "D[k, j]").replace("relu", "rleu")
    ((name, found),) = events(client, "check", text=text)
    assert name == "checked"
    places = [(fault["code"], text[fault["start"] : fault["stop"]], fault["line"]) for fault in found["faults"]]
    assert places == [("TIL201", "D", 2), ("TIL206", "rleu(C)", 3)]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"A": "f32[20, 30]"}, "TIL705"),
        ({"A": "f32[20, 30]", "B": "f32[31, 40]"}, "TIL304"),
        ({"A": "f32[20, 30]", "B": "f99[31, 40]"}, "TIL702"),
        ({"A": "f32[20, 30]", "B": "something"}, "TIL702"),
        ({"A": "f32[20, 30]", "B": "upload:nothing"}, "TIL912"),
        ({"A": "f32[20, 30]", "B": 7}, "TIL913"),
        ([], "TIL913"),
    ],
)
def test_wrong_inputs_are_told(client: TestClient, values: object, code: str) -> None:
    assert set(codes(events(client, "compile", text=MATMUL, values=values))) == {code}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"device": "abacus.0"}, "TIL801"),
        ({"target": "/etc/passwd"}, "TIL547"),
        ({"target": "abacus"}, "TIL547"),
        ({"passes": "nonsense"}, None),
        ({"stage": "nonsense"}, "TIL913"),
        ({"stage": None}, "TIL913"),
        ({"text": None}, "TIL913"),
        ({"text": "x" * (1 << 21)}, "TIL913"),
        ({"text": "\0"}, "TIL913"),
        ({"device": "\ud800".encode("utf-8", "surrogatepass").decode("latin-1") * 5000}, "TIL913"),
    ],
)
def test_wrong_requests_are_told(client: TestClient, request_: dict[str, object], code: str | None) -> None:
    found = codes(events(client, "stage", **{"text": MATMUL, "values": SIZES, "stage": "sem", **request_}))
    assert found
    assert code is None or found == [code]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"null", b"[" * 100000])
def test_what_is_no_request_is_refused(client: TestClient, body: bytes) -> None:
    for job in (*JOBS, "nonsense"):
        answer = client.post(f"/api/jobs/{job}", content=body)
        assert answer.status_code == 400
        assert answer.json()["faults"][0]["code"] == "TIL913"


@pytest.mark.sampled(0)
def test_a_page_begins_with_its_program(client: TestClient) -> None:
    designed = {"formula": "", "picture": "", "inputs": {}, "view": "explorer"}
    assert client.get("/api/start").json() == {"name": "a.tile", "text": MATMUL, "values": {}, "files": {}, **designed}


@pytest.mark.sampled(0)
def test_devices_and_targets_are_listed(client: TestClient) -> None:
    ((_, view),) = events(client, "devices")
    assert "llvm.0" in [device["id"] for device in view["devices"]]
    assert {"form": "opencl", "title": "OpenCL C source"} in view["sources"]
    assert "gpu" in view["targets"]
