"""The page in a real Chromium: Debian's, headless, without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.compare.page_data import evaluation, grid, head_scores, hostile_page, page

pytestmark = pytest.mark.browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; without it tests are skipped, or fail where TASKVEC_CHROMIUM=required."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        missing = f"none of {', '.join(NAMES)} is installed: `make browser` installs it"
        if os.environ.get("TASKVEC_CHROMIUM") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    with sync_playwright() as playwright:
        # Chromium's sandbox does not start for root.
        sandbox = os.geteuid() != 0
        found = playwright.chromium.launch(executable_path=program, chromium_sandbox=sandbox)
        yield found
        found.close()


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens HTML from a file; afterwards no page has said, asked for or opened anything."""
    said: list[str] = []
    contexts = []

    def show(html: str, **options: Any) -> Page:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        contexts.append(browser.new_context(**options))
        opened = contexts[-1].new_page()
        opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("dialog", lambda dialog: said.append(dialog.message))
        opened.on(
            "request",
            lambda request: (
                None
                if request.url == path.as_uri() or request.url.startswith("data:")
                else said.append(request.url)
            ),
        )
        opened.goto(path.as_uri())
        return opened

    yield show
    for context in contexts:
        context.close()
    assert said == []


def board(opened: Page) -> list[list[str]]:
    """The texts of the cells of the leaderboard that can be seen, row by row."""
    return opened.evaluate(
        """() => [...document.querySelectorAll("#board tbody tr")]
            .filter((row) => row.offsetParent !== null)
            .map((row) => [...row.cells].filter((c) => c.offsetParent !== null)
                .map((cell) => cell.innerText.replace(/\\s+/g, " ").trim()))"""
    )


def head(opened: Page, name: str) -> Any:
    return opened.locator("#board thead th").filter(has_text=name)


def choice(opened: Page, name: str) -> Any:
    return opened.locator(f"#filters select[name={name}]")


def estimates(rows: list[list[str]], column: int) -> list[str]:
    return [row[column].removeprefix("★ best ").split(" ")[0] for row in rows]


def test_it_opens_from_a_file_and_is_quiet(show: Open) -> None:
    opened = show(page(grid(), heads=[head_scores()]))
    assert opened.title() == "Task vectors: leaderboard"
    assert len(board(opened)) == 6
    assert opened.locator("svg").count() > 0
    opened.wait_for_timeout(200)


def test_columns_of_numbers_sort_both_ways_by_value(show: Open) -> None:
    low = evaluation(method="tv_m", right=lambda n: n < 1)
    none = evaluation("inverse_upper", method="tv_ms")
    opened = show(page([evaluation(), low, evaluation(method="none"), none]))
    column = head(opened, "forward_")
    place = column.evaluate("cell => cell.cellIndex")
    column.get_by_role("button").click()
    assert column.get_attribute("aria-sort") == "descending"
    assert estimates(board(opened), place) == ["0.50", "0.50", "0.05", "–"]
    column.get_by_role("button").click()
    assert column.get_attribute("aria-sort") == "ascending"
    assert estimates(board(opened), place) == ["0.05", "0.50", "0.50", "–"]
    assert "ascending" in opened.locator("#status").inner_text()


def test_names_sort_both_ways_and_only_one_column_is_sorted(show: Open) -> None:
    models = ("m10", "M9", "a")
    opened = show(page([evaluation(model=model) for model in models]))
    column = head(opened, "Method and model")
    column.get_by_role("button").click()
    assert column.get_attribute("aria-sort") == "ascending"
    assert [row[0] for row in board(opened)] == ["tv a", "tv M9", "tv m10"]
    column.get_by_role("button").click()
    assert [row[0] for row in board(opened)] == ["tv m10", "tv M9", "tv a"]
    head(opened, "forward_").get_by_role("button").click()
    assert opened.locator("#board th[aria-sort]").count() == 1


def test_sorting_works_from_the_keyboard(show: Open) -> None:
    opened = show(page(grid()))
    head(opened, "Method and model").get_by_role("button").focus()
    for key in ("Enter", "Space"):
        before = head(opened, "Method and model").get_attribute("aria-sort")
        opened.keyboard.press(key)
        assert head(opened, "Method and model").get_attribute("aria-sort") != before
    opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    assert opened.locator("#board th").nth(1).get_attribute("aria-sort") == "descending"


def test_everything_that_acts_can_be_reached_by_tab(show: Open) -> None:
    opened = show(page(grid()))
    reached = set()
    for _ in range(60):
        opened.keyboard.press("Tab")
        reached.add(
            opened.evaluate(
                "() => document.activeElement.name || document.activeElement.tagName.toLowerCase()"
            )
        )
    wanted = {"a", "search", "model", "method", "shots", "columns", "button", "summary", "div"}
    assert wanted <= reached


def test_rows_are_filtered_by_model_method_shots_and_text(show: Open) -> None:
    opened = show(page(grid()))
    choice(opened, "model").select_option(label="alpha")
    assert len(board(opened)) == 3
    choice(opened, "shots").select_option(label="10")
    assert [row[0] for row in board(opened)] == ["ICL (10) alpha"]
    assert opened.locator("#status").inner_text().startswith("1 of 6 rows")
    opened.get_by_role("button", name="Reset").click()
    opened.wait_for_function("document.getElementById('status').textContent.startsWith('6 of 6')")
    choice(opened, "method").select_option(label="tv")
    assert {row[0] for row in board(opened)} == {"tv alpha", "tv beta-2"}
    opened.get_by_label("Search rows").fill("BETA tv")
    assert [row[0] for row in board(opened)] == ["tv beta-2"]
    opened.get_by_label("Search rows").fill("nothing like it")
    assert board(opened) == []


def test_columns_are_filtered_and_stay_filtered_when_sorted(show: Open) -> None:
    tasks = [f"{kind}_{name}" for kind in ("forward", "bijection") for name in ("a", "b")]
    opened = show(page([evaluation(t, m) for t in tasks for m in ("tv", "none")]))
    assert len(board(opened)[0]) == 8
    choice(opened, "columns").select_option(label="bijection")
    assert len(board(opened)[0]) == 4
    opened.locator("#board thead th:visible button").last.click()
    assert len(board(opened)[0]) == 4
    choice(opened, "columns").select_option(label="All columns")
    assert len(board(opened)[0]) == 8


def test_without_script_tables_are_whole_and_there_are_no_controls(show: Open) -> None:
    opened = show(page(grid(), heads=[head_scores()]), java_script_enabled=False)
    assert opened.locator("#board tbody tr:visible").count() == 6
    for control in ("button", "select", "input"):
        assert opened.locator(f"{control}:visible").count() == 0
    assert opened.locator("#filters, #status").filter(visible=True).count() == 0
    opened.locator("#failures > details > summary").first.click()
    assert opened.get_by_text("wrong", exact=False).first.is_visible()


def test_the_dark_scheme_changes_the_colours_of_page_and_charts(show: Open) -> None:
    seen = []
    for scheme in ("light", "dark"):
        opened = show(page(grid()), color_scheme=scheme)
        seen.append(
            opened.evaluate(
                """() => ["body", "#gap svg text", "#gap svg .mark"].flatMap((name) => {
                    const style = getComputedStyle(document.querySelector(name));
                    return [style.backgroundColor, style.fill, style.stroke];
                })"""
            )
        )
    light, dark = seen
    assert light[0] == "rgb(255, 255, 255)" and dark[0] != light[0]
    assert light[4] != dark[4] and light[8] != dark[8]


@pytest.mark.parametrize("made", [lambda: page(grid(), heads=[head_scores()]), hostile_page])
def test_on_a_phone_only_tables_scroll_sideways(show: Open, made: Callable[[], str]) -> None:
    opened = show(made(), viewport={"width": 360, "height": 740})
    opened.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert opened.evaluate("document.documentElement.scrollWidth") == 360
    first = opened.locator("#board tbody th").first
    before = first.bounding_box()
    opened.evaluate("document.querySelector('#leaderboard .scroll').scrollLeft = 200")
    assert first.bounding_box() == before


def test_hostile_names_are_shown_as_text(show: Open) -> None:
    opened = show(hostile_page())
    opened.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert opened.locator("script").count() == 1
    assert opened.locator("img, b, i").count() == 0
    for part in ("#board", "#gap", "#layers", "#heads", "#failures", "#provenance", "footer"):
        assert "<script>alert(1)</script>" in opened.locator(part).inner_text(), part
    assert "\\u202e" in opened.locator("#failures").inner_text()
    assert "😀" in opened.locator("#failures").inner_text()
    head(opened, "Method and model").get_by_role("button").click()
    opened.get_by_label("Search rows").fill("<script>")
    assert len(board(opened)) == 3


def test_print_shows_the_whole_table_and_no_controls(show: Open) -> None:
    opened = show(page(grid()))
    opened.emulate_media(media="print")
    assert opened.locator("#filters").is_hidden() and opened.locator("nav").is_hidden()
    overflow = "getComputedStyle(document.querySelector('#leaderboard .scroll')).overflow"
    assert opened.evaluate(overflow) == "visible"


def test_charts_and_the_tables_beside_them_have_names(show: Open) -> None:
    opened = show(page(grid(), heads=[head_scores()]))
    names = opened.locator("svg[role=img] > title").all_text_contents()
    assert len(names) == opened.locator("svg[role=img]").count() and all(names)
    assert opened.locator("svg[role=img] > desc").count() == len(names)
    assert opened.get_by_role("region", name="Leaderboard").count() >= 1
