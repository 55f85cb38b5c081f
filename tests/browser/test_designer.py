"""The designer as somebody uses it: by mouse, by keys alone, with a screen reader, without a network."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from PIL import Image

import tileir
from browser.designs import lines, opened, picture, slider, wait_for_line
from browser.visits import check_access, replace_text, served, tab_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

LEVELS: Final = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)

ANSWER_EDITS_LATE: Final = """() => {
    const { fetch } = window;
    window.fetch = async (address, ...more) => {
        const answer = await fetch(address, ...more);
        if (address.endsWith("formula.edit")) await new Promise((resolve) => setTimeout(resolve, 500));
        return answer;
    };
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("pictures") / "photo.png"
    Image.fromarray(LEVELS).save(file)
    with served(file) as found:
        yield found


def wait_for_picture(page: Page, text: str) -> None:
    """Wait until the picture is the one of a formula, but for the last digit of what is an argument meanwhile."""
    expected = tileir.craft(text)(LEVELS).astype(int)
    for _ in range(600):  # a formula with other numbers is compiled first
        shown = picture(page)
        if shown.shape == expected.shape and np.abs(shown - expected).max() <= 1:
            return
        page.wait_for_timeout(100)
    pytest.fail("the picture does not come")


def test_a_slider_changes_the_picture_and_the_text(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        before = "\n".join(lines(page))
        wait_for_picture(page, before)
        np.testing.assert_array_equal(picture(page, "Before"), LEVELS)
        box = slider(page).bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
        page.mouse.down()
        for share in (0.1, 0.2, 0.13):
            page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
        page.mouse.up()
        value = slider(page).input_value()
        assert value != "1.2"
        wait_for_line(page, rf"sigma={re.escape(value)}\)")
        after = "\n".join(lines(page))
        assert after == before.replace("sigma=1.2", f"sigma={value}")
        wait_for_picture(page, after)
        page.get_by_role("button", name="Undo").click()
        wait_for_line(page, r"sigma=1\.2\)")
        wait_for_picture(page, before)
        assert slider(page).input_value() == "1.2"


def test_an_answer_to_an_older_value_leaves_a_slider_where_it_is(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.evaluate(ANSWER_EDITS_LATE)
        sigma = slider(page)
        sigma.evaluate("sigma => { window.shown = []; setInterval(() => window.shown.push(sigma.value), 5); }")
        sigma.focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
        wait_for_line(page, r"sigma=1\.3\)")
        wait_for_line(page, r"sigma=1\.4\)")
        page.wait_for_timeout(200)
        shown = page.evaluate("window.shown")
        assert set(shown[shown.index("1.4") :]) <= {"1.4", "1.5"}
        assert sigma.input_value() == "1.4"


def test_the_text_changes_the_controls_and_faults_leave_them(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "gaussian(sigma=1 2)\n", "Formula")
        page.get_by_role("list", name="Faults").get_by_role("listitem").first.wait_for()
        page.locator(".cm-lintRange-error").first.wait_for()
        assert slider(page).count() == 1
        assert picture(page).any()
        replace_text(page, "// new\nbox(size=5)\ngaussian(sigma=3)\n", "Formula")
        wait_for_picture(page, "box(size=5)\ngaussian(sigma=3)\n")
        assert slider(page, "sigma, step 2 gaussian").input_value() == "3"
        page.keyboard.press("Control+z")
        wait_for_line(page, "across")


def test_by_keys_alone(browser: Browser, address: str) -> None:
    """From the first key: add a step, connect it, change a number, and take all of that back and forth."""
    with opened(browser, address) as page:
        first = lines(page)
        tab_to(page, "combobox Add a step")
        page.keyboard.type("unsh")
        page.keyboard.press("Enter")
        wait_for_line(page, "^unsharp$")
        tab_to(page, "SELECT .*image, step 5 unsharp")
        page.keyboard.press("a")
        wait_for_line(page, "^unsharp of across$")
        tab_to(page, "INPUT .*amount, step 5 unsharp")
        page.keyboard.press("ArrowRight")
        wait_for_line(page, r"^unsharp\(amount=1\.1\) of across$")
        wait_for_picture(page, "\n".join(lines(page)))
        for pattern in ("^unsharp of across$", "^unsharp$"):
            page.keyboard.press("Control+z")
            wait_for_line(page, pattern)
        page.keyboard.press("Control+z")
        page.locator("tileir-step").nth(4).wait_for(state="detached")
        assert lines(page) == first
        for _ in range(3):
            page.keyboard.press("Control+y")
        wait_for_line(page, r"^unsharp\(amount=1\.1\) of across$")


def test_steps_are_moved_copied_and_removed(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "box\ngaussian\n", "Formula")
        page.get_by_role("button", name="Move down step 1 box").click()
        page.get_by_role("button", name="Duplicate step 1 gaussian").click()
        page.get_by_role("button", name="Remove step 3 box").click()
        page.get_by_role("button", name="Add a step below step 1 gaussian").click()
        page.keyboard.type("median")
        page.get_by_role("listbox", name="Functions").get_by_role("option", name=re.compile("^median")).click()
        wait_for_line(page, "median")
        assert lines(page) == ["gaussian", "median", "gaussian"]


def test_an_edit_that_cannot_be_is_told(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_role("button", name="Move down step 1 convolve").click()
        page.get_by_role("button", name="Move down step 2 convolve").click()
        page.get_by_role("list", name="Faults").get_by_text("TIL228").first.wait_for()


def test_weights_conditions_and_merges_are_written(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "convolve\n", "Formula")
        page.locator("tileir-step").nth(1).wait_for(state="detached")
        page.get_by_role("spinbutton", name="row 2, column 3, weights, step 1 convolve").fill("-1")
        page.keyboard.press("Enter")
        wait_for_line(page, re.escape("convolve(weights=[0 0 0; 0 1 -1; 0 0 0])"))
        page.get_by_text("where, with, name").click()
        page.get_by_role("combobox", name="where, step 1 convolve").select_option("region")
        wait_for_line(page, "where region")
        page.get_by_role("combobox", name="with, step 1 convolve").select_option("magnitude")
        wait_for_line(page, "with magnitude image")
        wait_for_picture(page, "\n".join(lines(page)))


def test_the_wipe_and_the_values_of_a_pixel(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "box\n", "Formula")
        wait_for_picture(page, "box\n")
        page.get_by_role("slider", name=re.compile("^Wipe")).press("End")
        for name, value in (("Column", 7), ("Row", 3)):
            page.get_by_role("spinbutton", name=re.compile(f"^{name}")).fill(str(value))
        before, after = (" ".join(map(str, each[3, 7])) for each in (LEVELS, tileir.craft("box")(LEVELS)))
        page.get_by_text(f"{before} → {after}").wait_for()
        page.get_by_text("reads image 6–8, 2–4").wait_for()


def test_what_is_taken_away(browser: Browser, address: str, tmp_path: Path) -> None:
    with opened(browser, address) as page:
        text = "\n".join(lines(page)) + "\n"
        page.get_by_role("tab", name="Take away").click()
        taken = {}
        for name in ("Formula", "Picture (PNG)", "Python script", "OpenCL C source"):
            with page.expect_download() as download:
                page.get_by_role("button", name=name).click()
            taken[name] = Path(download.value.path()).read_bytes()
        assert taken["Formula"].decode().strip() == text.strip()
        made = np.asarray(Image.open(io.BytesIO(taken["Picture (PNG)"])))
        np.testing.assert_array_equal(made, tileir.craft(text)(LEVELS))
        assert b"FORMULA" in taken["Python script"]
        assert b"__kernel" in taken["OpenCL C source"]


def test_another_picture(browser: Browser, address: str, tmp_path: Path) -> None:
    file = tmp_path / "other.png"
    Image.fromarray(LEVELS[:20, :30, 0]).save(file)
    with opened(browser, address) as page:
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Open a picture for image").click()
        chooser.value.set_files(file)
        page.get_by_text("30 × 20").wait_for()
        assert picture(page).shape == (20, 30, 3)


def test_the_kernels_and_buffers_are_shown(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_role("tab", name="Kernels").click()
        tables = page.get_by_role("table")
        assert tables.nth(0).get_by_role("row").count() >= 2
        assert "image" in tables.nth(1).inner_text()


def test_a_worker_that_is_killed_leaves_the_page_alive(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "photo.png"
    Image.fromarray(LEVELS).save(file)
    with served(file) as address, opened(browser, address) as page:
        numbers = workers(file)
        assert numbers
        for number in numbers:
            os.kill(number, signal.SIGKILL)
        replace_text(page, "box\n", "Formula")
        for _ in range(20):
            if page.get_by_role("list", name="Faults").count() == 0:
                break
            page.keyboard.type(" ")
            page.wait_for_timeout(200)
        wait_for_picture(page, "box\n")


@pytest.mark.sampled(0)
def test_an_edit_that_never_ends_is_stopped_and_the_page_goes_on(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "photo.png"
    Image.fromarray(LEVELS).save(file)
    with served(file, "--time-limit", "15") as address, opened(browser, address) as page:
        before = set(workers(file))
        replace_text(page, "repeat 1 {\n  gaussian(sigma=9)\n  box(size=31)\n  gaussian(sigma=9)\n}\n", "Formula")
        count = page.get_by_role("spinbutton", name=re.compile("^rounds"))
        count.fill("100000")
        count.press("Enter")
        wait_for_line(page, "^repeat 100000 {")
        page.get_by_text("took more than 15 s and was stopped").wait_for(timeout=90_000)
        assert before - set(workers(file)), "no process was stopped"
        replace_text(page, "box(size=5)\n", "Formula")
        wait_for_picture(page, "box(size=5)\n")
        page.get_by_text("was stopped").wait_for(state="detached")


def test_groups_show_wires_and_pictures_of_their_steps(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "a = gaussian\nrepeat 3 {\n  b = box\n  add of b, a\n}\n", "Formula")
        page.locator("tileir-step").nth(3).wait_for()
        group = page.locator("tileir-group-steps")
        page.wait_for_function(  # from the last round, from a, and between the two
            "group => group.shadowRoot.querySelectorAll('.graph > svg > path').length === 3",
            arg=group.element_handle(),
        )
        assert group.locator(".outside").all_inner_texts() == ["previous", "a"]
        for number in range(2):
            picture_of = group.locator("tileir-step").nth(number).locator("canvas")
            picture_of.wait_for(timeout=300_000)
            assert "".join(str(picture_of.get_attribute(side)) for side in ("width", "height")) == "8060"
        page.get_by_role("button", name="Move down step 1 box").click()
        page.get_by_role("list", name="Faults").first.wait_for()


def test_the_diagram_inserts_at_the_place_that_is_chosen(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "a = gaussian\nrepeat 2 {\n  b = box\n}\n", "Formula")
        page.get_by_role("tab", name="Diagram").click()
        page.get_by_role("combobox", name="Place of the step").select_option("at the end of group 2")
        page.get_by_role("button", name="Insert sharpen").click()
        wait_for_line(page, "^  sharpen$")
        page.get_by_role("button", name="Insert median").focus()
        page.keyboard.press("Enter")
        wait_for_line(page, "^  median$")
        page.get_by_role("combobox", name="Place of the step").select_option("at the end")
        page.get_by_role("button", name="Insert blend").click()
        wait_for_line(page, "^blend of ")
        assert lines(page) == ["a = gaussian", "repeat 2 {", "  b = box", "  median", "  sharpen", "}", lines(page)[-1]]


def test_the_text_is_completed_by_keys(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "soft = gaussian\n", "Formula")
        options = page.get_by_role("listbox")
        for typed, option, line in (
            ("unsh", "unsharp", "^unsharp$"),
            ("(", "amount=", r"^unsharp\(amount=$"),
            ("2) of so", "soft", r"^unsharp\(amount=2\) of soft$"),
        ):
            page.keyboard.type(typed)
            options.get_by_role("option", name=option).first.wait_for()
            page.wait_for_timeout(200)  # keys right after it opened are meant for the text
            page.keyboard.press("Enter")
            wait_for_line(page, line)
            options.wait_for(state="detached")
        page.keyboard.type(" out")
        page.keyboard.press("Control+Space")
        options.get_by_role("option", name="outside").wait_for()
        page.keyboard.press("Escape")
        options.wait_for(state="detached")
        assert lines(page)[-1] == "unsharp(amount=2) of soft out"


def workers(file: Path) -> list[int]:
    """Return the processes that the studio of a file started."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    servers = {pid for pid, _, command in rows if str(file) in command}
    return [int(pid) for pid, parent, command in rows if parent in servers and "tileir_studio.serve.worker" in command]


@pytest.mark.sampled(0)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(browser: Browser, address: str, page_folder: Path, scheme: str) -> None:
    axe = page_folder / "node_modules/axe-core/axe.min.js"
    with opened(browser, address, color_scheme=scheme, bypass_csp=True) as page:
        page.add_script_tag(path=axe)
        contents = {
            "Text": "role=textbox[name='Formula']",
            "Diagram": "role=button[name='Insert gaussian']",
            "Kernels and buffers": "role=heading[name=/^Kernels, on/]",
            "Take away": "role=button[name='Picture (PNG)']",
        }
        for tab, content in contents.items():
            page.get_by_role("tab", name=tab).click()
            page.locator(content).wait_for()
            check_access(page, tab)
        page.get_by_role("tab", name="Text", exact=True).click()
        page.get_by_text("where, with, name").first.click()
        page.get_by_role("combobox", name=re.compile("^Add a step")).click()
        page.get_by_role("listbox", name="Functions").wait_for()
        check_access(page, "search")
        replace_text(page, "gaussian(sigma=900)\n", "Formula")
        page.get_by_role("list", name="Faults").first.wait_for()
        check_access(page, "faults")


@pytest.mark.sampled(0)
def test_the_page_works_at_twice_the_size(browser: Browser, address: str) -> None:
    with opened(browser, address, viewport={"width": 640, "height": 400}) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        slider(page).press("ArrowRight")
        wait_for_line(page, r"sigma=1\.3\)")
