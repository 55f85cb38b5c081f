"""The designer in a browser: opened, and read."""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from browser.visits import visited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open the designer, and wait for its first picture and for what is found out about its steps."""
    with visited(browser, address, **options) as page:
        page.get_by_text(re.compile(r"^kernel \d")).first.wait_for(timeout=300_000)
        yield page


def lines(page: Page) -> list[str]:
    """Return the lines of the text."""
    return [line for line in page.locator("tileir-editor .cm-line").all_inner_texts() if line.strip()]


def wait_for_line(page: Page, pattern: str) -> None:
    for _ in range(600):
        if any(re.search(pattern, line) for line in lines(page)):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"no line has {pattern}: {lines(page)}, {page.locator('tileir-faults').all_inner_texts()}")


def picture(page: Page, name: str = "After") -> np.ndarray[Any, Any]:
    """Return the colours of a canvas, which cross as a PNG: a list of numbers takes the browser seconds to write."""
    url = page.get_by_role("img", name=name).evaluate("canvas => canvas.toDataURL()")
    with Image.open(BytesIO(b64decode(str(url).partition(",")[2]))) as image:
        return np.asarray(image.convert("RGB"))


def slider(page: Page, name: str = "sigma, step 4 gaussian") -> Locator:
    return page.get_by_role("slider", name=name, exact=True)
