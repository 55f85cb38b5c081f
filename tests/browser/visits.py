"""Visits of the page: a studio of its own, where there is no network, by mouse and by keys."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

WATCH: Final = "addEventListener('securitypolicyviolation', event => console.error('policy', event.violatedDirective))"


@contextmanager
def served(file: Path, *options: str) -> Iterator[str]:
    """Run the studio on a file, and give its address; nothing is stopped for the load of the machine alone."""
    command = [sys.executable, "-m", "tileir", "studio", "--no-browser", "--time-limit", "600", *options, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


@contextmanager
def visited(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open the page where there is no network, and find that it missed none and complained of nothing."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    complaints: list[str] = []
    tried: list[str] = []
    own = address.partition("#")[0]

    def block(route: Any) -> None:
        url = route.request.url
        if url.startswith((own, "blob:")):
            route.continue_()
        else:
            tried.append(url)
            route.abort()

    context.route("**/*", block)
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.add_init_script(WATCH)
    page.goto(address)
    yield page
    assert complaints == []
    assert tried == []
    context.close()


def replace_text(page: Page, text: str, name: str = "Program") -> None:
    """Write a text into an editor, in place of what is there."""
    page.get_by_role("textbox", name=name).click()
    page.keyboard.press("Control+a")
    paste(page, text)


def paste(page: Page, text: str) -> None:
    """Paste into what has the focus; there is no clipboard here."""
    page.evaluate(
        """text => {
            let element = document.activeElement;
            while (element.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
            const clipboardData = new DataTransfer();
            clipboardData.setData('text/plain', text);
            element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def focused(page: Page) -> str:
    """Say what has the focus: its tag, role and name."""
    return str(
        page.evaluate("""() => {
            let element = document.activeElement;
            while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
            return [element?.tagName, element?.getAttribute('role'), element?.getAttribute('aria-label'),
                    element?.closest('label')?.innerText].join(' ');
        }""")
    )


def tab_to(page: Page, pattern: str) -> None:
    """Press the tab key until what is sought has the focus."""
    for _ in range(90):
        page.keyboard.press("Tab")
        if re.search(pattern, focused(page)):
            return
    pytest.fail(f"no {pattern} is reached by the tab key")


def check_access(page: Page, place: str) -> None:
    """Find no serious fault by axe, which the page has loaded."""
    found = page.evaluate("async () => (await axe.run(document, { resultTypes: ['violations'] })).violations")
    serious = [
        (rule["id"], node["target"], node.get("failureSummary"))
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
    assert not serious, f"{place}: {serious}"
