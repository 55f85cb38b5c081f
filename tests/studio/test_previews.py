"""Large pictures while a control is dragged: the visible part first, then the rest, unless a newer value comes."""

from __future__ import annotations

import asyncio
import io
import os
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from studio.conversation import codes, events, frames, pixels, shown, studio
from tileir_studio.serve.uploads import store
from tileir_studio.serve.workshop import Limits, StaleError, Workshop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from tileir_studio.serve.session import Event

    Array = np.ndarray[Any, np.dtype[Any]]

LARGE: Final = np.random.default_rng(3).integers(0, 256, (1100, 1300, 3), np.uint8)
TEXT: Final = "gaussian(sigma=2)\n"
DRAGGED: Final = {"text": TEXT, "path": "steps[0].arguments.sigma", "value": "1.5"}


def npy(levels: Array) -> bytes:
    file = io.BytesIO()
    np.save(file, levels)
    return file.getvalue()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with studio(tmp_path_factory.mktemp("uploads")) as client:
        yield client


@pytest.fixture(scope="module")
def pictures(client: TestClient) -> dict[str, str]:
    return {"image": client.post("/api/uploads", content=npy(LARGE)).json()["name"]}


@pytest.mark.sampled(0)
def test_the_visible_part_comes_first_and_is_that_of_the_whole(client: TestClient, pictures: dict[str, str]) -> None:
    found = frames(client, "formula.preview", **DRAGGED, inputs=pictures, region=[300, 500, 200, 250])
    (quick, place, sooner), (first, part, one), (second, whole, other) = found
    assert (quick, first, second) == ("part", "part", "preview")
    assert place == part
    assert np.abs(np.frombuffer(sooner["part"], np.uint8).astype(int) - np.frombuffer(one["part"], np.uint8)).max() <= 1
    top, left, height, width = part["place"]
    assert (top, left, height, width) == (256, 256, 256, 512)
    assert part["size"] == whole["size"] == [1100, 1300]
    seen = np.frombuffer(one["part"], np.uint8).reshape(height, width, 4).astype(int)
    everything = pixels(whole, other["preview"])
    assert np.abs(seen - everything[top : top + height, left : left + width]).max() <= 1
    expected = tileir.craft("gaussian(sigma=1.5)")(LARGE)
    assert np.abs(everything[..., :3] - expected.astype(int)).max() <= 1


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("flip\n", [0, 0, 10, 10]),
        ("equalise\n", [0, 0, 10, 10]),
        ("resize(percent=50)\n", [0, 0, 10, 10]),
        (TEXT, [0, 0, 1100, 1300]),
        (TEXT, [0, 0, 1100, 700]),
        (TEXT, [5000, 0, 10, 10]),
        (TEXT, [-50, 0, 100, 10]),
        (TEXT, [3, 3, 0, 10]),
        (TEXT, None),
    ],
)
def test_what_has_no_part_that_is_worth_it_comes_as_a_whole(
    client: TestClient, pictures: dict[str, str], text: str, region: list[int] | None
) -> None:
    view, content = shown(client, text=text, inputs=pictures, region=region)
    np.testing.assert_array_equal(pixels(view, content)[..., :3], tileir.craft(text)(LARGE))
    ((name, view, parts),) = frames(client, "formula.preview", text=text, inputs=pictures, region=region)
    assert (name, parts) == ("preview", {"preview": content}), "its kernels are there now"


@pytest.mark.sampled(0)
def test_several_results_and_grey_have_parts_too(client: TestClient) -> None:
    grey = {"image": client.post("/api/uploads", content=npy(LARGE[..., 0])).json()["name"]}
    text = "a = gaussian\nb = box of image\nresults a, b\n"
    asked = {"text": text, "inputs": grey, "region": [40, 1200, 100, 100], "result": 1}
    *_, (_, part, one), (_, whole, other) = frames(client, "formula.preview", **asked)
    assert whole["results"] == 2
    top, left, height, width = part["place"]
    assert (top, left + width) == (0, 1300)
    expected = tileir.craft("box")(LARGE[..., 0])
    seen = np.frombuffer(one["part"], np.uint8).reshape(height, width, 4)[..., 0].astype(int)
    assert np.abs(seen - expected[:height, left:]).max() <= 1
    assert np.abs(pixels(whole, other["preview"])[..., 0].astype(int) - expected).max() <= 1


@pytest.mark.sampled(0)
def test_who_leaves_before_a_large_result_has_come_does_not_wait_for_it(tmp_path: Path) -> None:
    """A pipe that is full keeps asyncio from seeing that the process behind it ended."""
    asked = {"job": "formula.preview", "text": TEXT, "inputs": {"image": store(tmp_path, npy(LARGE))}}

    async def work() -> None:
        workshop = Workshop(tmp_path)
        async with aclosing(workshop.ask({**asked, "region": [0, 0, 8, 8]}, "preview")) as events:  # type: ignore[type-var]
            assert (await anext(events)).name == "part"
            process: Any = workshop._thorough._process
            while not process.stdout._paused:
                await asyncio.sleep(0.01)
        assert workshop.processes == (0, 0)
        await workshop.close()

    asyncio.run(work())


@pytest.mark.sampled(0)
@pytest.mark.parametrize("region", [[1, 2, 3], ["1", 2, 3, 4], {}, [True, 1, 1, 1]])
def test_other_regions_are_refused(client: TestClient, pictures: dict[str, str], region: Any) -> None:
    assert codes(events(client, "formula.preview", text=TEXT, inputs=pictures, region=region)) == ["TIL913"]


@pytest.mark.sampled(0)
@pytest.mark.skipif(os.name != "posix", reason="pictures of this size take memory as POSIX counts it")
def test_a_newer_value_ends_the_rest_of_an_older_one_and_keeps_the_process(tmp_path: Path) -> None:
    """The part was seen; between two strips of the rest the worker learns that nobody wants them."""
    name = store(tmp_path, npy(np.tile(LARGE[:1000, :1000, 0], (4, 4))))
    text = "median(size=7)\ngaussian(sigma=2)\n"
    asked = {"job": "formula.preview", "text": text, "inputs": {"image": name}, "region": [0, 0, 256, 256]}
    older = {**asked, "path": "steps[1].arguments.sigma", "value": "1.5"}
    newer = {**asked, "path": "steps[1].arguments.sigma", "value": "1.6"}

    async def follow(workshop: Workshop, request: dict[str, Any], seen: list[Event], begun: asyncio.Event) -> None:
        async for event in workshop.ask(request, "preview"):
            seen.append(event)
            begun.set()

    async def work() -> None:
        workshop = Workshop(tmp_path, Limits(seconds=600))
        try:
            await follow(workshop, older, [], asyncio.Event())  # its kernels are there now
            process = workshop.processes[1]
            first: list[Event] = []
            second: list[Event] = []
            begun = asyncio.Event()
            running = asyncio.ensure_future(follow(workshop, older, first, begun))
            await begun.wait()
            await follow(workshop, newer, second, asyncio.Event())
            with pytest.raises(StaleError):
                await running
            assert [event.name for event in first] == ["part"]
            assert [event.name for event in second] == ["part", "preview"]
            assert workshop.processes[1] == process
        finally:
            await workshop.close()

    asyncio.run(work())
