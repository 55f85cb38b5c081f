"""Large pictures in the designer: zoomed, scrolled by keys, and computed where they are seen before elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from PIL import Image

import tileir
from browser.designs import opened, picture, slider, wait_for_line
from browser.visits import replace_text, served, tab_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

LEVELS: Final = np.random.default_rng(5).integers(0, 256, (1200, 1500, 3), np.uint8)
NEAR: Final = (900, 1100)
"""A pixel that is seen after scrolling."""

FAR: Final = (5, 7)
SLOW: Final = "repeat 20 {{\n  gaussian(sigma=3)\n}}\ngaussian(sigma={})\n"
"""A formula slow enough on any machine that the visible part is worth kernels of its own."""

RECORD: Final = f"""() => {{
    window.drawn = [];
    const put = CanvasRenderingContext2D.prototype.putImageData;
    CanvasRenderingContext2D.prototype.putImageData = function (image, ...place) {{
        const at = ([row, column]) => image.data.slice((row * image.width + column) * 4).subarray(0, 3).join(' ');
        if (image.width === 1500) window.drawn.push([at({list(NEAR)}), at({list(FAR)})]);
        return put.call(this, image, ...place);
    }};
}}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("pictures") / "photo.png"
    Image.fromarray(LEVELS).save(file)
    with served(file) as found:
        yield found


def zoom(page: Page, choice: str) -> None:
    page.get_by_role("combobox", name="Zoom").select_option(choice)


def wait_until_drawn(page: Page, near: str, far: str) -> int:
    """Return which drawing was the first with these pixels."""
    for _ in range(600):
        drawn = page.evaluate("window.drawn")
        if [near, far] in drawn:
            return int(drawn.index([near, far]))
        page.wait_for_timeout(100)
    pytest.fail(f"never drawn: {near}, {far}; {page.evaluate('window.drawn')}")


def test_what_is_seen_is_drawn_before_the_rest(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.evaluate(RECORD)
        replace_text(page, SLOW.format(1), "Formula")
        sigma = slider(page, "sigma, step 2 gaussian")
        sigma.wait_for()
        old_near, old_far = values(tileir.craft(SLOW.format(1))(LEVELS))
        wait_until_drawn(page, old_near, old_far)
        zoom(page, "100 %")
        page.get_by_role("region", name="Pictures").evaluate("stage => stage.scrollTo(1000, 800)")
        box = sigma.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] / 2)
        page.mouse.down()
        value = sigma.input_value()
        wait_for_line(page, re.escape(f"sigma={value}"))
        page.wait_for_function("far => window.drawn.at(-1)[1] !== far", arg=old_far, timeout=300_000)
        drawn = page.evaluate("window.drawn")
        changed = [near != old_near for near, _ in drawn].index(True)
        assert drawn[changed][1] == old_far, "the part that is seen did not come first"
        page.mouse.up()
        expected = tileir.craft(SLOW.format(value))(LEVELS)
        wait_until_drawn(page, *values(expected))
        assert np.abs(picture(page) - expected.astype(int)).max() <= 1  # values are arguments until they are baked


def values(made: np.ndarray[Any, Any]) -> tuple[str, str]:
    """Return the colours of both pixels, as the page spells them."""
    near, far = (" ".join(map(str, made[place])) for place in (NEAR, FAR))
    return near, far


@pytest.mark.sampled(0)
def test_the_zoom_scrolls_by_keys_and_pixels_keep_their_places(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        zoom(page, "400 %")
        stage = page.get_by_role("region", name="Pictures")
        stage.evaluate("stage => stage.scrollTo(400, 200)")
        corner = stage.bounding_box()
        assert corner is not None
        page.mouse.click(corner["x"] + 10, corner["y"] + 6)
        before = " ".join(map(str, LEVELS[51, 102]))
        page.get_by_text(f"{before} →").wait_for()
        tab_to(page, "region Pictures")
        page.keyboard.press("ArrowDown")
        page.wait_for_function("stage => stage.scrollTop > 200", arg=stage.element_handle())
        zoom(page, "fit")
        assert stage.evaluate("stage => stage.scrollWidth <= stage.clientWidth")
