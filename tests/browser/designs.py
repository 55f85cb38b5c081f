"""The designer in a browser: opened, and read."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from browser.visits import visited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

PIXELS: Final = """canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"""


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open the designer, and wait for its first picture and for what is found out about its steps."""
    with visited(browser, address, **options) as page:
        page.get_by_text(re.compile(r"^kernel \d")).first.wait_for(timeout=60_000)
        yield page


def lines(page: Page) -> list[str]:
    """Return the lines of the text."""
    return [line for line in page.locator("tileir-editor .cm-line").all_inner_texts() if line.strip()]


def wait_for_line(page: Page, pattern: str) -> None:
    for _ in range(200):
        if any(re.search(pattern, line) for line in lines(page)):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"no line has {pattern}: {lines(page)}, {page.locator('tileir-faults').all_inner_texts()}")


def picture(page: Page, name: str = "After") -> np.ndarray[Any, Any]:
    canvas = page.get_by_role("img", name=name)
    height, width = (int(str(canvas.get_attribute(side))) for side in ("height", "width"))
    return np.asarray(canvas.evaluate(PIXELS), np.uint8).reshape(height, width, 4)[..., :3]


def slider(page: Page, name: str = "sigma, step 4 gaussian") -> Locator:
    return page.get_by_role("slider", name=name, exact=True)
