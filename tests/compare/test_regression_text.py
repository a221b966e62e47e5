from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.regression_files import as_json, as_junit
from harness_ext.compare.regression_terminal import show
from harness_ext.compare.regression_text import COMMENT, as_markdown, notes, summary
from harness_ext.compare.report import Limits, Report
from tests.compare.comparisons import report, sides
from tests.compare.made_up import evaluation, sample

HOSTILE = "<script>alert(1)</script> | `x` [red] \x1b[31m \u202e \x00 '\"& \ud800 😀"


def shown(found: Report, most: int = 2, width: int = 80) -> str:
    text = io.StringIO()
    show(Console(file=text, width=width), found, most, lambda each, one: f"Q: {one.query} →")
    return text.getvalue()


def markdown(found: Report, most: int = 2) -> str:
    return as_markdown(found, most, lambda each, one: None)


def test_changed_answers_are_in_the_summary_where_they_are_limited() -> None:
    found = report(*sides(), limits=Limits(max_changed=0.1))
    assert summary(found).endswith(
        "22.0% of the answers are other texts, more than the 10.0% allowed."
    )


def test_notes_tell_versions_and_tasks_too_small_for_the_test() -> None:
    said = " ".join(notes(report(*sides())))
    assert "lm-eval differs: 0.4.12 (BASE), 0.4.13 (NEW)." in said
    few = [evaluation("few", [1, 1, 0])]
    said = " ".join(notes(report(few, few)))
    assert "Of fewer than 6 queries, too few for a drop to be significant where no other" in said


def test_a_task_that_is_significant_beside_others_is_not_called_too_small() -> None:
    """7 queries are needed alone; Holm's second of two needs 6, and there are 6."""
    base = [evaluation("large", [1] * 20), evaluation("small", [1] * 6)]
    new = [evaluation("large", [0] * 20), evaluation("small", [0] * 6)]
    found = report(base, new)
    assert [each.outcome for each in found.compared] == ["worse", "worse"]
    assert "too few" not in " ".join(notes(found))


def test_where_one_query_fewer_gives_just_alpha_one_more_is_needed() -> None:
    """2 · 2⁻⁵ is 0.0625: not below, so that 6 are needed."""
    found = report(*[[evaluation("task", [1] * 10)]] * 2, limits=Limits(alpha=0.0625))
    assert found.needed == 6
    new = [evaluation("task", [0] * 5 + [1] * 5)]
    lost = report([evaluation("task", [1] * 10)], new, limits=Limits(alpha=0.0625))
    assert lost.compared[0].outcome == "no difference shown"


def test_the_score_that_is_compared_and_versions_of_tasks_are_told() -> None:
    base = [evaluation("a", version="1"), evaluation("b", metric="acc", version="1")]
    new = [evaluation("a", version="2"), evaluation("b", metric="acc", version="1")]
    said = " ".join(notes(report(base, new)))
    assert "Compared by answer_match (a), acc (b)." in said
    assert "version of a differs: 1 (BASE), 2 (NEW)." in said and "version of b" not in said


def test_the_least_drop_that_can_be_significant_is_told() -> None:
    """With two comparisons 7 queries have to be lost: 2 · 2 · 2⁻⁷ < 0.05."""
    tasks = [evaluation("small", [1] * 10), evaluation("large", [1] * 50)]
    found = report(tasks, tasks)
    assert [found.least_drop(each) for each in found.compared] == [0.7, 0.14]
    assert "7 queries have to get worse and none better" in " ".join(notes(found))
    assert "a drop of 0.14 to 0.70, by the size of the task." in " ".join(notes(found))
    for lost, outcome in ((7, "worse"), (6, "no difference shown")):
        new = [evaluation("small", [1] * 10), evaluation("large", [0] * lost + [1] * (50 - lost))]
        assert report(tasks, new).compared[1].outcome == outcome


def test_a_limit_of_one_side_and_what_differs_within_a_pair_are_told() -> None:
    def side(first: str, second: str, **more: int) -> list[Evaluation]:
        return [
            evaluation("a", facts={"PyTorch": first, "steering seed": 0, **more}),
            evaluation("b", facts={"PyTorch": second}),
        ]

    said = " ".join(notes(report(side("2.12", "2.13"), side("2.13", "2.12", limit=50))))
    assert "limit differs: none (BASE), 50 (NEW)." in said
    assert "PyTorch differs: 2.12, 2.13 (BASE), 2.12, 2.13 (NEW)." in said
    assert "steering seed" not in said


def test_documents_without_scores_are_told() -> None:
    base = [evaluation(scores=[sample(str(n), 1) for n in range(5)])]
    bare = replace(sample("0", 1), scores={"other": 1.0})
    new = [replace(base[0], samples=(bare, *(base[0].samples or ())[1:]))]
    assert any(
        "1 documents of both sides are left out, as they have no answer_match" in note
        for note in notes(report(base, new))
    )


def test_a_comment_is_no_longer_than_may_be_and_worse_tasks_come_first() -> None:
    base, new = sides("better")[::-1]
    for name in ("worse1", "worse2"):
        one, other = sides(name)
        base, new = base + one, new + other
    found = report(base, new)
    whole = as_markdown(found, None, lambda each, one: None)
    assert whole.index("worse2: lost") < whole.index("better: lost")
    assert "worse1: lost by NEW (10 of 10)" in whole
    limit = len(whole) * 2 // 3
    short = as_markdown(found, None, lambda each, one: None, limit)
    assert len(short) < limit + 200
    assert "worse1: lost by NEW (10 of 10)" in short and "better: gained" not in short
    left = whole.count("<details>") - short.count("<details>")
    assert left > 0 and f"{left} more list" in short


def test_markdown_has_the_summary_first_and_the_flips_folded() -> None:
    text = markdown(report(*sides()))
    assert text.startswith("**taskvec compare** ❌ 1 comparison: 1 worse.\n")
    assert "<details><summary>task: lost by NEW (2 of 10)</summary>" in text
    assert "query   query 0 task (its prompt is not known)" in text


def test_what_could_not_be_compared_is_no_success() -> None:
    base, _ = sides()
    whole = [*base, evaluation("gone")]
    text = markdown(report(whole, base))
    assert text.startswith(
        "**taskvec compare** ⚠️ 1 comparison: no difference shown. Not all of BASE could be"
    )
    text = markdown(report(whole, base, limits=Limits(allow_missing=True)))
    assert text.startswith("**taskvec compare** ✅ 1 comparison: no difference shown.\n")
    text = markdown(report(base, [evaluation("other")], limits=Limits(allow_missing=True)))
    assert text.startswith("**taskvec compare** ⚠️ 0 comparisons. Nothing could be compared.")


def test_json_holds_every_flip_and_no_nan() -> None:
    found = json.loads(as_json(report(*sides()), lambda each, one: None))
    assert found["regressed"] is True
    (task,) = found["comparisons"]
    assert len(task["flips"]) == 11
    assert task["flips"][0]["change"] == -1
    lonely = report([evaluation(has_samples=False)], [evaluation()])
    text = as_json(lonely, lambda each, one: None)
    assert "NaN" not in text and json.loads(text)["comparisons"][0]["base"] is None


def test_junit_has_a_case_for_every_task_and_counts_them() -> None:
    base, new = sides()
    base.append(evaluation("gone"))
    base.append(evaluation("dumb"))
    new.append(evaluation("dumb", has_samples=False))
    suite = ElementTree.fromstring(as_junit(report(base, new, limits=Limits(max_changed=0.0))))
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "task": ["failure"],
        "dumb": ["skipped"],
        "gone": ["skipped"],
        "share of answers that are other texts": ["failure"],
        "all can be compared": ["error"],
    }
    counted = [suite.get(key) for key in ("tests", "failures", "errors", "skipped")]
    assert counted == ["5", "2", "1", "2"]
    allowed = as_junit(report(base, new, limits=Limits(allow_missing=True)))
    assert ElementTree.fromstring(allowed).get("errors") == "0"


@pytest.mark.parametrize("place", ["name", "right", "wrong"])
def test_hostile_text_is_text_in_every_format(place: str) -> None:
    found = report(*sides(**{place: HOSTILE}))
    text, md = shown(found), markdown(found)
    for out in (text, md):
        assert "\x1b" not in out and "\u202e" not in out and "\x00" not in out
    assert "<script>" not in md
    table = [line for line in md.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    suite = ElementTree.fromstring(as_junit(found).encode())
    assert "<script>" in ElementTree.tostring(suite, encoding="unicode", method="text") + str(
        [case.get("name") for case in suite]
    )
    json.loads(as_json(found, lambda each, one: None).encode("utf-8", "surrogatepass"))


def test_a_comment_on_many_tasks_keeps_the_worse_ones_and_counts_the_others() -> None:
    base, new = [], []
    for number in range(700):
        worse = number % 100 == 50
        name = f"task_with_quite_a_long_name_{number}"
        base.append(evaluation(name, [1] * 40))
        new.append(evaluation(name, [0 if worse else 1] * 40))
    # Each with a note of its own, as a document is in BASE only.
    new = [replace(each, samples=(each.samples or ())[1:]) for each in new]
    text = as_markdown(report(base, new), 3, lambda each, one: None, COMMENT)
    assert len(text) <= COMMENT
    rows = [line for line in text.splitlines() if line.startswith("| task")]
    assert sum("| worse" in row for row in rows) == 7
    assert "tasks that show no difference" in text
    assert "<details><summary>task_with_quite_a_long_name_50: lost by NEW" in text
    assert "Compared by answer" in text and "Tests: " in text and " more\n" in text


def test_a_name_in_markdown_calls_nobody() -> None:
    # In <pre> it would not anyway.
    outside = re.sub("<pre>.*?</pre>", "", markdown(report(*sides("@team"))), flags=re.DOTALL)
    assert "team" in outside and "@team" not in outside


def test_files_that_are_compared_with_themselves_are_told() -> None:
    base, _ = sides()
    assert "BASE and NEW are the same file in 1 of 1 evaluations." in notes(report(base, base))


def test_nothing_is_said_of_answers_where_there_are_none() -> None:
    other = [evaluation("task", [sample("another", 1)])]
    found = report(sides()[0], other, limits=Limits(max_changed=0.02))
    assert "other texts" not in summary(found)
    assert json.loads(as_json(found, lambda each, one: None))["changed_share"] is None
    suite = ElementTree.fromstring(as_junit(found))
    (case,) = (case for case in suite if "other texts" in str(case.get("name")))
    assert [child.tag for child in case] == ["skipped"]


def test_no_difference_is_said_to_be_none_shown() -> None:
    base, _ = sides()
    assert summary(report(base, base)) == "1 comparison: no difference shown."
