"""Tool bars and forms at all widths of a window: nothing lies on something else, or leaves the box that holds it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from PIL import Image

from browser.designs import opened
from browser.visits import replace_text, served, visited
from strategies.effort import spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    Check = Callable[[Page, Sequence[int]], None]


WIDTHS: Final = range(320, 2001, 20)
FORMULA: Final = """\
inputs photograph_of_the_summer, mask_of_what_is_kept, another_picture_of_the_same_place
softened_by_a_wide_gaussian = gaussian(sigma=1.5) of photograph_of_the_summer
edges_of_the_other_picture = gaussian of another_picture_of_the_same_place
mixture_of_both_of_them = blend(amount=0.5) of softened_by_a_wide_gaussian, edges_of_the_other_picture
repeat 2 {
  inner_and_rather_long_name = box(size=5)
}
result_that_is_shown_first = blend(amount=0.25) of mixture_of_both_of_them, mask_of_what_is_kept
results result_that_is_shown_first, mixture_of_both_of_them
"""
PROGRAM: Final = """\
function (Activations_of_one_layer[BATCH, CHANNELS, HEIGHT, WIDTH], Scale_of_it[CHANNELS], Bias[CHANNELS], E[]) -> (Y) {
    C[n, c : BATCH, CHANNELS] = +(Activations_of_one_layer[n, c, h, w] * Scale_of_it[c]);
    Y = tanh(C) * E + Bias;
}
"""

FIND: Final = """slack => {
    const controls = 'input, select, button, textarea, canvas';
    const holders = 'fieldset, section, .bar, .head, .end, button, body';
    const up = node => node.assignedSlot ?? node.parentElement ?? node.getRootNode().host ?? null;
    const ancestors = function* (node) { while ((node = up(node)) !== null) yield node; };
    const clipped = (rectangle, node) => {
        let { left, top, right, bottom } = rectangle;
        for (const each of ancestors(node)) {
            if (getComputedStyle(each).overflow === 'visible' || each === document.documentElement) continue;
            const box = each.getBoundingClientRect();
            [left, top] = [Math.max(left, box.left), Math.max(top, box.top)];
            [right, bottom] = [Math.min(right, box.right), Math.min(bottom, box.bottom)];
        }
        return { left, top, right, bottom };
    };
    const found = [], outside = [];
    const add = (node, rectangles, words) => {
        for (const rectangle of rectangles) {
            const box = clipped(rectangle, node);
            if (box.right - box.left <= slack || box.bottom - box.top <= slack) continue;
            found.push({ node, words, ...box });
            const holder = [...ancestors(node)].find(each => each.matches(holders));
            const { left, right } = holder.getBoundingClientRect();
            if (box.left >= left - slack && box.right <= right + slack) continue;
            outside.push(`${words} leaves ${holder.className || holder.localName}`);
        }
    };
    const visit = root => {
        for (const child of root.childNodes) {
            if (child.nodeType === Node.TEXT_NODE && child.data.trim() !== '') {
                const range = document.createRange();
                range.selectNodeContents(child);
                add(child, range.getClientRects(), child.data.trim());
            }
            if (child.nodeType !== Node.ELEMENT_NODE || !child.checkVisibility({ visibilityProperty: true })) continue;
            if (child.matches('.hidden, option, noscript, script, style, .cm-editor, .roofline')) continue;
            const name = child.getAttribute('aria-label') ?? child.innerText ?? '';
            const words = `<${child.localName} ${name.trim()}>`;
            if (child.matches(controls)) add(child, [child.getBoundingClientRect()], words);
            visit(child.shadowRoot ?? child);
        }
    };
    visit(document.body);
    const pairs = [];
    found.sort((one, other) => one.top - other.top);
    found.forEach((one, number) => {
        const around = new Set(ancestors(one.node));
        for (const other of found.slice(number + 1)) {
            if (other.top > one.bottom - slack) break;
            if (other.node === one.node) continue;
            if (Math.min(one.right, other.right) - Math.max(one.left, other.left) <= slack) continue;
            if (Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) <= slack) continue;
            if (one.node.localName === 'canvas' && other.node.localName === 'canvas') continue;  // wiped off each other
            if (around.has(other.node) || [...ancestors(other.node)].includes(one.node)) continue;
            pairs.push(`${one.words} | ${other.words}`);
        }
    });
    return [...new Set([...outside, ...pairs])];
}"""


@pytest.fixture
def check_widths(request: pytest.FixtureRequest) -> Check:
    """Find nothing that overlaps or leaves its box, wherever the window ends; a plain run looks at five widths."""

    def check(page: Page, widths: Sequence[int]) -> None:
        found: dict[str, list[int]] = {}
        for width in widths if request.config.getoption("every_row") else spread(widths, 5):
            page.set_viewport_size({"width": width, "height": 800})
            page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            for words in page.evaluate(FIND, 2):
                found.setdefault(words, []).append(width)
        assert found == {}

    return check


def photograph(folder: Path, name: str = "photo") -> Path:
    file = folder / f"{name}.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)).save(file)
    return file


def choose_pixel(page: Page) -> None:
    for side, place in (("Column", "20"), ("Row", "13")):
        page.get_by_role("spinbutton", name=f"{side} of the pixel").fill(place)
    page.get_by_text(re.compile("^reads ")).wait_for()


@pytest.mark.sampled(1)
def test_the_tool_bar_of_a_picture_has_place_at_any_width(
    browser: Browser, tmp_path: Path, check_widths: Check
) -> None:
    with served(photograph(tmp_path)) as address, opened(browser, address) as page:
        choose_pixel(page)
        check_widths(page, range(1000, 2001, 5))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_long_names_and_several_inputs_have_place(
    browser: Browser, tmp_path: Path, scheme: str, check_widths: Check
) -> None:
    file = photograph(tmp_path, "a_photograph_of_the_summer_holidays_with_a_rather_long_name")
    with served(file) as address, opened(browser, address, color_scheme=scheme) as page:
        replace_text(page, FORMULA, "Formula")
        page.locator(".choices", has_text="Result").wait_for(timeout=300_000)
        choose_pixel(page)
        page.get_by_text("where, with, name").first.click()
        for tab in ("Text", "Diagram", "Kernels and buffers", "Take away"):
            page.get_by_role("tab", name=tab, exact=True).click()
            check_widths(page, WIDTHS if tab == "Text" else WIDTHS[::4])
        page.get_by_role("tab", name="Text", exact=True).click()
        replace_text(page, FORMULA.replace("size=5", "size=500"), "Formula")
        page.get_by_role("list", name="Faults").first.wait_for()
        check_widths(page, WIDTHS[::4])


@pytest.mark.sampled(0)
def test_steps_that_leave_the_window_are_reached_by_scrolling(browser: Browser, tmp_path: Path) -> None:
    with served(photograph(tmp_path)) as address, opened(browser, address) as page:
        replace_text(page, FORMULA, "Formula")
        page.locator(".choices", has_text="Result").wait_for(timeout=300_000)
        page.set_viewport_size({"width": 1010, "height": 800})
        page.locator("tileir-steps").evaluate("steps => steps.scrollTo(0, 0)")
        left, first = page.evaluate("""() => {
            const steps = document.querySelector('tileir-studio').shadowRoot.querySelector('tileir-designer')
                .shadowRoot.querySelector('tileir-steps');
            const left = element => element.getBoundingClientRect().left;
            return [left(steps), Math.min(...[...steps.shadowRoot.querySelectorAll('.node')].map(left))];
        }""")
        assert first >= left


@pytest.mark.sampled(0)
def test_the_explorer_has_place_at_any_width(browser: Browser, tmp_path: Path, check_widths: Check) -> None:
    file = tmp_path / "a_program_with_a_rather_long_name_for_its_file.tile"
    file.write_text(PROGRAM, encoding="utf-8")
    with served(file) as address, visited(browser, address) as page:
        page.get_by_role("tab", name="Explorer").click()
        page.get_by_role("option", name=re.compile(r"function \(")).wait_for()
        for two in (False, True):
            page.get_by_role("checkbox", name="Compare two targets").set_checked(two)
            for tab, button in (("Stages", ""), ("Data flow", ""), ("Costs", "Measure"), ("Results", "Run")):
                for each in page.get_by_role("tab", name=tab).all():
                    each.click()
                for each in page.get_by_role("button", name=button, exact=True).all() if button else ():
                    each.click()
                    each.wait_for()  # it is called otherwise while it works
                check_widths(page, WIDTHS[::2] if two else WIDTHS[::4])
