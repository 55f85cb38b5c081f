"""The designer in a notebook: anywidget's model in the kernel, its module in a browser, and all between them."""

from __future__ import annotations

import base64
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import tileir
from browser.designs import lines, picture, slider, wait_for_line
from browser.visits import replace_text
from tileir.core.errors import TileError
from tileir_studio.notebook import widget as widgets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    from tileir_studio.notebook.notebook_model import FormulaDesigner

LEVELS: Final = np.random.default_rng(1).integers(0, 256, (60, 80, 3), np.uint8)
TEXT: Final = "inputs image, other\nblend(amount=0.5) of image, other\ngaussian(sigma=1)\n"

HARNESS: Final = """async ([esm, css, state]) => {
    document.head.append(Object.assign(document.createElement('style'), { textContent: css }));
    const listeners = {};
    const tell = (name, ...found) => (listeners[name] ?? []).forEach(take => take(...found));
    const model = {
        get: name => state[name],
        set: (name, value) => { state[name] = value; },
        save_changes: () => window.shared(state.value),
        on: (name, take) => (listeners[name] ??= []).push(take),
        off: (name, take) => { listeners[name] = (listeners[name] ?? []).filter(each => each !== take); },
        send: async (message, _, buffers = []) => {
            const given = buffers.map(each => btoa(String.fromCharCode(...new Uint8Array(each))));
            for (const [content, parts] of await window.kernel(message, given))
                tell('msg:custom', content, parts.map(
                    part => new DataView(Uint8Array.from(atob(part), each => each.charCodeAt(0)).buffer)));
        },
    };
    window.setValue = value => { state.value = value; tell('change:value'); };
    const load = async () => (await import(URL.createObjectURL(new Blob([esm], { type: 'text/javascript' })))).default;
    await load();
    const { render } = await load();  // a notebook loads it again for each widget
    window.remove = render({ model, el: document.body.appendChild(document.createElement('div')) });
}"""


@contextmanager
def shown(browser: Browser, widget: FormulaDesigner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """Show a widget in a page that is no notebook, where the model is played by the real one in this process."""
    sent: list[tuple[Any, list[bytes]]] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=(): sent.append((content, list(buffers))))

    def kernel(message: Any, buffers: list[str]) -> list[Any]:
        sent.clear()
        widget._handle_custom_msg(message, [memoryview(base64.b64decode(each)) for each in buffers])
        return [(content, [base64.b64encode(part).decode() for part in parts]) for content, parts in sent]

    complaints: list[str] = []
    page = browser.new_context(viewport={"width": 1100, "height": 900}).new_page()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.expose_function("kernel", kernel)
    page.expose_function("shared", lambda value: widget.set_trait("value", value))
    page.set_content("<!doctype html><html><body><p>a cell above <input aria-label='cell'></p></body></html>")
    state = widget.get_state(["value", "_start"])
    page.evaluate(HARNESS, [widget._esm, widget._css, state])
    yield page
    assert complaints == []
    page.context.close()
    widget.close()


def wait_for_value(page: Page, widget: FormulaDesigner, pattern: str) -> None:
    for _ in range(100):
        if re.search(pattern, widget.value):
            return
        page.wait_for_timeout(100)
    pytest.fail(f"the value is {widget.value!r}")


def wait_for_result(page: Page, text: str) -> None:
    expected = tileir.craft(text)(LEVELS, LEVELS[::-1].copy()).astype(int)
    for _ in range(200):
        drawn = page.get_by_role("img", name="After").get_attribute("width") is not None
        found = picture(page) if drawn else np.zeros(())
        if found.shape == expected.shape and np.abs(found - expected).max() <= 1:
            return
        page.wait_for_timeout(100)
    pytest.fail("the picture does not come")


def test_an_edit_changes_the_value_and_the_value_the_page(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    widget = widgets.designer(tileir.craft(TEXT), LEVELS, LEVELS[::-1])
    with shown(browser, widget, monkeypatch) as page:
        wait_for_result(page, TEXT)
        slider(page, "sigma, step 2 gaussian").press("ArrowRight")
        wait_for_value(page, widget, r"sigma=1\.1\)")
        wait_for_result(page, widget.value)
        np.testing.assert_array_equal(
            widget.formula()(LEVELS, LEVELS[::-1]), tileir.craft(widget.value)(LEVELS, LEVELS[::-1])
        )
        widget.value = "inputs image, other\nadd of image, other\n"
        page.evaluate("setValue", widget.value)
        wait_for_line(page, "^add of image, other")
        wait_for_result(page, widget.value)
        replace_text(page, "inputs image, other\nsubtract of image, other\n", "Formula")
        wait_for_value(page, widget, "subtract")
        page.get_by_role("textbox", name="cell").click()
        page.keyboard.press("Control+z")  # that of the notebook
        page.wait_for_timeout(300)
        assert "subtract" in "\n".join(lines(page))
        page.evaluate("window.remove()")
        assert page.locator("tileir-designer").count() == 0


def test_what_is_no_picture_and_no_job_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TileError) as caught:
        widgets.designer("gaussian\n", np.zeros(5))
    assert caught.value.diagnostics[0].code == "TIL912"
    widget = widgets.designer()
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda content, *_: sent.append(content))
    for asked in ({"job": "run"}, {"job": "formula", "request": 7}, {"job": "upload"}, {"job": "formula.preview"}):
        sent.clear()
        widget._handle_custom_msg({**asked, "number": 3}, [])
        assert [(each["number"], each["event"]) for each in sent] == [(3, "faults"), (3, "done")]
    sent.clear()
    widget._handle_custom_msg({"job": "upload", "number": 4}, [b"no picture"])
    assert [each["event"] for each in sent] == ["faults", "done"]
    widget.close()


def test_without_anywidget_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    with pytest.raises(TileError) as caught:
        widgets.designer()
    assert caught.value.diagnostics[0].code == "TIL903"
    assert "tileir[notebook]" in str(caught.value)
