"""The explorer as somebody uses it: by mouse, by keys alone, with a screen reader, without a network."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from PIL import Image

from browser.visits import check_access, focused, replace_text, served, tab_to, visited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

PROGRAM: Final = """\
function (A[M, K], B[K, N]) -> (Y) {
    C[i, j : M, N] = +(A[i, k] * B[k, j]);
    Y = tanh(C);
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("programs") / "matmul.tile"
    file.write_text(PROGRAM, encoding="utf-8")
    with served(file) as found:
        yield found


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """Open the explorer."""
    with visited(browser, address, **options) as page:
        page.get_by_role("tab", name="Explorer").click()
        page.get_by_role("option", name=re.compile(r"function \(")).wait_for()
        yield page


def stage(page: Page, number: int = 0) -> Locator:
    return page.get_by_role("combobox", name="Stage", exact=True).nth(number)


def listing(page: Page, number: int = 0) -> Locator:
    return page.get_by_role("listbox", name=re.compile("lines")).nth(number)


def test_every_stage_is_shown(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        for name, expected in [
            ("tile", "function (A[M, K]"),
            ("typed", "tanh(C)"),
            ("stripe", "program (A, B) -> (Y)"),
            ("sem", "kernel "),
            ("code.llvm", "define void"),
            ("code.asm", ".text"),
        ]:
            stage(page).select_option(name)
            listing(page).get_by_text(expected).first.wait_for()
        page.get_by_role("combobox", name="as", exact=True).select_option("json")
        stage(page).select_option("typed")
        listing(page).get_by_text('"operations"').first.wait_for()


def test_the_data_flow_of_ranks_has_their_exchanges(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        ranks = page.get_by_role("textbox", name="Mesh of ranks of the data flow")
        ranks.fill("x=2")
        ranks.press("Enter")
        replace_text(page, PROGRAM.replace("    C[", "    [[shard(whole, x)]] [[shard(A, whole, x)]] C["))
        page.get_by_role("tab", name="Data flow").click()
        page.locator("g.exchange").first.wait_for()
        page.get_by_text("As a list").click()
        page.get_by_role("list", name="Values of the data flow").get_by_text("C needs all of A along x").wait_for()
        page.locator("svg text", has_text="(whole, x)").first.wait_for()
        ranks.fill("x=0")
        ranks.press("Enter")
        page.get_by_role("list", name="Faults").get_by_text("TIL351").wait_for()


def test_the_program_is_completed_by_keys(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, PROGRAM.replace("tanh(C);\n}\n", ""))
        page.keyboard.type("sigm")
        page.get_by_role("listbox", name="Completions").get_by_role("option", name="sigmoid").wait_for()
        page.wait_for_timeout(200)  # keys right after it opened are meant for the text
        page.keyboard.press("Enter")
        page.keyboard.type("(C);\n}")
        page.get_by_role("textbox", name="Program").get_by_text("sigmoid(C);").wait_for()
        stage(page).select_option("typed")
        listing(page).get_by_text("sigmoid").first.wait_for()


def test_what_a_pass_changed_is_marked(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        few = stage(page).locator("option").count()
        page.get_by_role("checkbox", name="all passes").check()
        assert stage(page).locator("option").count() > few
        name = stage(page).locator("option", has_text=re.compile(r"\. fuse$")).first.get_attribute("value")
        stage(page).select_option(name)
        listing(page).locator(".changed").first.wait_for()


def test_faults_are_shown_while_somebody_types_and_old_views_stay(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, PROGRAM.replace("B[k, j]", "D[k, j]").replace("tanh", "tahn"))
        faults = page.get_by_role("list", name="Faults")
        faults.get_by_text("TIL201").wait_for()
        shown = faults.locator("pre").all_inner_texts()
        assert [[line.strip() for line in text.split("\n")][1] for text in shown] == ["^", "^^^^^^^"]
        assert [text.index("^") - text.index("\n") - 1 for text in shown] == [
            shown[0].index("D[k"),
            shown[1].index("tahn"),
        ]
        page.get_by_text("the last program that compiled").wait_for()
        listing(page).get_by_text("tanh(C)").wait_for()
        page.locator(".cm-lintRange-error").first.wait_for()
        faults.get_by_role("button").nth(1).click()
        page.keyboard.type(" ")
        replace_text(page, PROGRAM.replace("tanh", "exp"))
        listing(page).get_by_text("exp(C)").wait_for()
        assert page.get_by_text("the last program that compiled").count() == 0


def test_what_somebody_wrote_is_saved_and_there_after_a_reload(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, PROGRAM.replace("tanh", "sqrt"))
        listing(page).get_by_text("sqrt(C)").wait_for()
        with page.expect_download() as saved:
            page.get_by_role("region", name="Program").get_by_role("button", name="Save").click()
        assert saved.value.suggested_filename == "matmul.tile"
        assert saved.value.path().read_text("utf-8") == PROGRAM.replace("tanh", "sqrt")
        page.reload()
        listing(page).get_by_text("sqrt(C)").wait_for()
    with opened(browser, address) as page:
        listing(page).get_by_text("tanh(C)").wait_for()


def test_shapes_that_do_not_fit_are_faults_of_the_text(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        value = page.get_by_role("textbox", name=re.compile(r"^B"))
        value.fill("f32[7, 9]")
        value.press("Enter")
        page.get_by_role("list", name="Faults").get_by_text(re.compile("TIL3")).first.wait_for()
        listing(page).get_by_text("tanh(C)").wait_for()
        value.fill("f32[256, 9]")
        value.press("Enter")
        listing(page).get_by_text("f32[256, 9]").first.wait_for()


def test_characters_beyond_the_basic_plane_shift_no_place(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "// 🙂🙂🙂\n" + PROGRAM.replace("tanh", "tahn"))
        page.locator(".cm-lintRange-error", has_text="tahn(C)").wait_for()


def test_by_keys_alone(browser: Browser, address: str) -> None:
    """From the first key: edit, choose a stage, walk its lines, go back to the statement, run."""

    with opened(browser, address) as page:
        tab_to(page, "Explorer|TAB|tab")
        tab_to(page, "textbox Program")
        page.keyboard.press("Control+Home")
        page.keyboard.type("// by keys")
        page.keyboard.press("Enter")
        tab_to(page, "File for A")
        tab_to(page, "Device")
        tab_to(page, "tab ")
        tab_to(page, "SELECT .*Stage")
        page.keyboard.press("t")
        listing(page).get_by_text("C[i, j : M, N]").wait_for()
        tab_to(page, "listbox")
        for _ in range(2):
            page.keyboard.press("ArrowDown")
        page.locator(".cm-line.active", has_text="tanh").wait_for()
        page.keyboard.press("End")
        page.keyboard.press("Home")
        stage(page).select_option("typed")
        listing(page).get_by_text("Y: f32").wait_for()
        listing(page).focus()
        for _ in range(5):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert "Program" in focused(page)
        page.keyboard.press("Control+Enter")
        page.get_by_role("heading", name=re.compile("Y: f32")).wait_for()


def test_lines_and_statements_light_each_other_up(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        stage(page).select_option("code.llvm")
        listing(page).get_by_text("define void").first.click()
        page.locator(".cm-line.active").first.wait_for()
        stage(page).select_option("typed")
        listing(page).get_by_text("Y: f32").wait_for()
        page.locator(".cm-line", has_text="tanh").click()
        listing(page).locator(".row.active", has_text="tanh(C)").wait_for()
        assert listing(page).locator(".row.active", has_text="C: f32").count() == 0


def test_two_targets_stand_side_by_side(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_role("checkbox", name="Compare two targets").check()
        for number in (0, 1):
            stage(page, number).select_option("sem")
        page.get_by_role("combobox", name="Passes of").nth(1).select_option("gpu")
        listing(page, 0).get_by_text("kernel ").first.wait_for()
        listing(page, 1).get_by_text("grid(").first.wait_for()


def test_costs_are_drawn_and_measured(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_role("tab", name="Costs").click()
        page.get_by_role("img", name=re.compile("Roofline")).wait_for()
        rows = page.get_by_role("table").get_by_role("row")
        assert rows.count() >= 2
        assert rows.nth(1).get_by_role("cell").nth(7).inner_text() == "–"
        page.get_by_role("button", name="Measure").click()
        page.locator("circle.measured").first.wait_for()
        assert "s" in rows.nth(1).get_by_role("cell").nth(7).inner_text()


def test_the_data_flow_is_a_drawing_and_a_list(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.get_by_role("tab", name="Data flow").click()
        page.locator("svg rect").first.wait_for()
        page.get_by_text("As a list").click()
        values = page.get_by_role("list", name="Values of the data flow").get_by_role("listitem")
        assert [text.split("\n")[0].split()[0] for text in values.all_inner_texts()] == ["A", "B", "C", "Y"]
        values.filter(has_text="tanh").get_by_role("button").click()
        page.locator(".cm-line.active", has_text="tanh").wait_for()


def test_a_picture_that_is_given_is_shown_and_changes(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "photo.png"
    Image.fromarray((np.arange(64 * 48 * 3) % 251).astype(np.uint8).reshape(48, 64, 3)).save(file)
    with served(file) as address, opened(browser, address) as page:
        page.get_by_role("region", name="Program").get_by_text("photo.png, f32[48, 64, 3]").wait_for()
        page.get_by_role("tab", name="Results").click()
        page.get_by_role("checkbox", name="on each change").check()
        page.get_by_role("button", name="Run").click()
        picture = page.get_by_role("img", name="Blurred as a picture")
        picture.wait_for()
        first = picture.get_attribute("src")
        assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [64, 48]
        page.locator(".cm-line", has_text="49.0").click()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        page.keyboard.type(" / 2.0")
        page.wait_for_function(
            """first => {
            const find = root => root.querySelector('img') ?? [...root.querySelectorAll('*')]
                .map(each => each.shadowRoot && find(each.shadowRoot)).find(Boolean);
            return ![null, undefined, first].includes(find(document)?.getAttribute('src'));
        }""",
            arg=first,
        )
        page.get_by_role("button", name="Take back the file for Picture").click()
        page.get_by_label("File for Picture").set_input_files(file)
        page.get_by_role("region", name="Program").get_by_text("photo.png, f32[48, 64, 3]").wait_for()


def test_long_texts_are_drawn_in_part(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        rows, height = listing(page).evaluate("""async box => {
            const element = box.getRootNode().host;
            const text = Array.from({ length: 400_000 }, (_, line) => `  vmovups ${line}(%rax), %zmm0`).join('\\n');
            element.stage = { name: 'long', title: 'Long', text, regions: [], changes: [] };
            await element.updateComplete;
            box.scrollTop = box.scrollHeight;
            await new Promise(requestAnimationFrame);
            await element.updateComplete;
            await new Promise(requestAnimationFrame);
            return [box.querySelectorAll('.row').length, box.scrollHeight];
        }""")
        assert rows < 200
        assert height == 400_000 * 18
        listing(page).get_by_text("399999(%rax)").wait_for()


@pytest.mark.sampled(0)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(browser: Browser, address: str, page_folder: Path, scheme: str) -> None:
    axe = page_folder / "node_modules/axe-core/axe.min.js"
    with opened(browser, address, color_scheme=scheme, bypass_csp=True) as page:
        page.add_script_tag(path=axe)
        contents = {
            "Stages": ".row >> nth=2",
            "Data flow": "svg rect >> nth=0",
            "Costs": "role=table",
            "Results": "role=heading[name=/Y: f32/]",
        }
        for tab, content in contents.items():
            page.get_by_role("tab", name=tab).click()
            if tab == "Results":
                page.get_by_role("button", name="Run").click()
            page.locator(content).wait_for()
            check_access(page, tab)
        replace_text(page, PROGRAM.replace("tanh", "tahn"))
        page.get_by_role("list", name="Faults").get_by_text("TIL206").wait_for()
        check_access(page, "faults")


@pytest.mark.sampled(0)
def test_the_page_works_at_twice_the_size(browser: Browser, address: str) -> None:
    with opened(browser, address, viewport={"width": 640, "height": 400}) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        stage(page).select_option("sem")
        listing(page).get_by_text("kernel ").first.wait_for()


@pytest.mark.sampled(0)
def test_a_run_that_takes_too_long_is_stopped(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        replace_text(page, "function (A[N]) -> (S) { S[] = >(A[i] * A[j]); }")
        value = page.get_by_role("textbox", name="A[N]")
        value.fill("f64[16777216]")
        value.press("Enter")
        listing(page).get_by_text("f64[16777216]").first.wait_for()
        page.get_by_role("tab", name="Results").click()
        page.get_by_role("button", name="Run").click()
        page.get_by_role("button", name="Stop").click()
        page.get_by_role("button", name="Run", exact=True).wait_for()
        value.fill("f64[16]")
        value.press("Enter")
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("heading", name="S: f64[]").wait_for()
