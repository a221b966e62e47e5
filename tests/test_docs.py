from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness_ext import docs
from harness_ext.config import SteeringConfig
from harness_ext.errors import UsageError

STALE = "before\n<!-- generated:arguments -->\nold\n<!-- /generated -->\nafter\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only page of a source tree, with one section that is not current."""
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    monkeypatch.setattr(docs, "PAGES", ("PAGE.md",))
    (tmp_path / "PAGE.md").write_text(STALE)
    return tmp_path / "PAGE.md"


def test_write_puts_the_sections_right_and_leaves_the_rest(page: Path) -> None:
    assert docs.main(["--write"]) == 0
    before, section, after = page.read_text().partition(docs.arguments_table())
    assert section
    assert before == "before\n<!-- generated:arguments -->\n"
    assert after == "<!-- /generated -->\nafter\n"


def test_check_fails_until_the_sections_are_written(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert docs.main(["--check"]) == 1
    assert "PAGE.md: not current" in capsys.readouterr().out
    assert page.read_text() == STALE
    docs.main(["--write"])
    assert docs.main(["--check"]) == 0


def test_an_unknown_section_is_refused_with_the_known_ones(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page.write_text(STALE.replace("arguments", "recipes"))
    assert docs.main(["--write"]) == 1
    assert "recipes is not known; sections: arguments, tasks" in capsys.readouterr().err


def test_a_missing_page_is_named(page: Path) -> None:
    page.unlink()
    with pytest.raises(UsageError, match=r"PAGE\.md is missing"):
        docs.update(page, write=False)


def test_the_arguments_table_holds_every_argument_with_its_default() -> None:
    table = docs.arguments_table()
    other = {"mode": "add", "demos": 8, "average": 50}
    for name, default in vars(SteeringConfig()).items():
        (row,) = [line for line in table.splitlines() if line.startswith(f"| `{name}` |")]
        with_heads = f" (heads: `{other[name]}`)" if name in other else ""
        assert row.endswith(f"| `{default}`{with_heads} |")


def test_the_tasks_table_holds_what_a_task_is() -> None:
    row = "| `bijection_upper` | algorithmic | 16 / 10 | 60 | b → B | 1.0 |"
    assert row in docs.tasks_table().splitlines()


@pytest.mark.parametrize("section", [docs.shots_tables, docs.shots_tasks_table])
def test_a_section_without_recorded_results_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: Callable[[], str]
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    assert section() == "Nothing is recorded yet.\n"


def test_the_classification_table_holds_the_labels_as_they_are_shown() -> None:
    rows = docs.classification_table().splitlines()
    for task, tag, labels in (
        ("classify_sentiment", "taskvec_classification", "positive, negative"),
        ("classify_sentiment_symbol_labels", "taskvec_symbol_labels", "@, #"),
    ):
        assert f"| `{task}` | `{tag}` | {labels} | 168 / 72 | 1.0 |" in rows


def test_the_generation_table_holds_an_example_of_either_tone() -> None:
    rows = docs.generation_table().splitlines()
    for tone, sentence in (("positive", "Sunlight filled it"), ("negative", "Mould covered")):
        (row,) = [row for row in rows if row.startswith(f"| `generate_{tone}` |")]
        assert f"| `taskvec_generation` | 74 / 50 | our hotel room in Lisbon → {sentence}" in row


def test_the_hub_table_says_where_the_data_comes_from_without_loading_it() -> None:
    row = "| `hub_rte` | `nyu-mll/glue` `rte` | true, false | train / validation | 1.0 |"
    assert row in docs.hub_table().splitlines()


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert docs._table(("a",), [("x|y",)]) == "| a |\n| --- |\n| x\\|y |\n"


def test_the_pages_of_this_tree_are_current() -> None:
    assert docs.main(["--check"]) == 0
