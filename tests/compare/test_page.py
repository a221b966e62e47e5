import base64
import hashlib
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness_ext.compare.evaluations import Problem, Reading
from harness_ext.compare.leaderboard import build
from harness_ext.compare.page import render
from harness_ext.compare.reading import read
from tests.compare.output import answered, write_output
from tests.compare.page_data import MADE, evaluation, grid, head_scores, hostile_page, page

SECTIONS = ("leaderboard", "gap", "layers", "heads", "failures", "provenance")
TEXTS = ("ink", "muted", "accent", "good", "warn")


class Tags(HTMLParser):
    """The elements of a page, the ids, and whether every element that was opened is closed."""

    VOID = ("meta", "link", "input", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_has_all_sections_and_closes_what_it_opens() -> None:
    tags = Tags(page(grid(), heads=[head_scores()]))
    assert tags.open == []
    ids = [own["id"] for _, own in tags.found if "id" in own]
    assert len(ids) == len({*ids}) and {*SECTIONS} <= {*ids}
    links = {own["href"] for tag, own in tags.found if tag == "a"}
    assert links == {f"#{name}" for name in SECTIONS}


def test_sections_that_have_nothing_to_show_are_left_out() -> None:
    ids = {own.get("id") for _, own in Tags(page([evaluation(method="none")])).found}
    assert ids.isdisjoint({"gap", "layers", "heads"})
    assert {"leaderboard", "failures", "provenance"} <= ids


def test_equal_input_gives_equal_bytes() -> None:
    pages = [page(grid(), heads=[head_scores()]).encode() for _ in range(2)]
    assert pages[0] == pages[1]


def test_style_and_script_are_those_the_policy_names_and_nothing_else_is_allowed() -> None:
    text = page(grid())
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0]
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize("made", [lambda: page(grid(), heads=[head_scores()]), hostile_page])
def test_nothing_is_fetched_and_no_attribute_can_act(made) -> None:
    for tag, own in Tags(made()).found:
        assert tag not in ("img", "iframe", "object", "embed", "base")
        assert not any(name.startswith("on") or name == "style" for name in own)
        for name in ("src", "href"):
            assert (own.get(name) or "#").startswith(("#", "data:image/png;base64,", "data:,"))


def test_hostile_text_is_text() -> None:
    text = hostile_page()
    tags = Tags(text)
    assert [tag for tag, _ in tags.found].count("script") == 1
    assert tags.open == []
    assert "<script>alert" not in text and "\u202e" not in text and "\x00" not in text
    assert "{{ 7*7 }}" in text


def test_problems_are_told_file_by_file_without_the_machine() -> None:
    source = Path("/home/anna/results")
    problems = [
        Problem(source / "a.json", f"also in {source}/b.json", unused=False),
        Problem(source / "c.json", "cut off"),
    ]
    text = page(grid(), problems, sources=[source], command=f"taskvec leaderboard {source}")
    assert "results/a.json: also in results/b.json" in text
    assert "Left out</strong>: results/c.json: cut off" in text
    assert "/home" not in text and "anna" not in text


def test_what_lm_eval_wrote_becomes_a_page(tmp_path: Path) -> None:
    tasks = ("forward_upper", "bijection_upper")
    for method, shots in (("tv", 0), ("none", 10)):
        write_output(
            tmp_path / method, answered(tasks, lambda doc: doc["draw"] == 0), method, shots
        )
    reading = read([tmp_path])
    text = render(reading, build(reading), sources=[tmp_path], made=MADE)
    assert "ICL (10)" in text and "tiny" in text
    assert str(tmp_path) not in text and f"{tmp_path.name}/tv/results_" in text


def test_five_hundred_files_make_a_page_of_a_few_megabytes_in_seconds() -> None:
    evaluations = [
        evaluation(f"forward_{task}", method, shots, count=100, right=lambda n: n % 3 == 0)
        for task in range(25)
        for method in ("tv", "tv_m", "tv_ms", "none")
        for shots in range(5)
    ]
    reading = Reading(tuple(evaluations), ())
    board = build(reading)
    start = time.perf_counter()
    text = render(reading, board, made=MADE)
    assert time.perf_counter() - start < 5
    assert len(text.encode()) < 3_000_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(scheme: str) -> None:
    colours, tint, strongest = palette(scheme)
    shaded = mixed(colours["bg"], tint, strongest)
    for name in TEXTS:
        for ground in (colours["bg"], colours["panel"]):
            assert contrast(colours[name], ground) >= 4.5, name
    for name in ("ink", "muted", "good", "warn"):
        assert contrast(colours[name], shaded) >= 4.5, name
    for number in range(6):
        assert contrast(colours[f"c{number}"], colours["bg"]) >= 3


def palette(scheme: str) -> tuple[dict[str, list[int]], list[int], float]:
    """The colours of the style sheet in a scheme, the tint of cells, and its greatest share."""
    style = re.findall(r"<style>(.*?)</style>", page(grid()), flags=re.DOTALL)[0]
    block = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)[scheme == "dark"]
    names = re.findall(r"--(\w+): #(\w{6});", block)
    tint = [int(part) for part in re.findall(r"--tint: ([\d ]+);", block)[0].split()]
    shares = [float(share) for share in re.findall(r"var\(--tint\) / (\.\d+)\)", style)]
    return {name: list(bytes.fromhex(code)) for name, code in names}, tint, max(shares)


def mixed(ground: list[int], colour: list[int], share: float) -> list[int]:
    pairs = zip(ground, colour, strict=True)
    return [round(below + share * (above - below)) for below, above in pairs]


def contrast(one: list[int], other: list[int]) -> float:
    """The contrast ratio of WCAG 2.2."""

    def luminance(colour: list[int]) -> float:
        parts = [value / 255 for value in colour]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
