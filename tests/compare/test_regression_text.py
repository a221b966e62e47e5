from __future__ import annotations

import io
import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.pairing import pair
from harness_ext.compare.regression import Limits, Report, compare
from harness_ext.compare.regression_files import as_json, as_junit
from harness_ext.compare.regression_text import as_markdown, notes, show, summary
from tests.compare.made_up import evaluation, sample

HOSTILE = "<script>alert(1)</script> | `x` [red] \x1b[31m \u202e \x00 '\"& \ud800 😀"


def sides(name: str = "task", right: str = "right", wrong: str = "wrong") -> list[list[Evaluation]]:
    """Ten answers are lost, one is gained, of fifty."""
    base = [sample(f"d{n}", float(n != 49), query=f"query {n} {name}") for n in range(50)]
    new = [replace(each, scores={"answer_match": float(n >= 10)}) for n, each in enumerate(base)]
    return [
        [
            evaluation(
                name,
                [replace(e, answer=right if e.scores["answer_match"] else wrong) for e in own],
                facts={"lm-eval": version},
            )
        ]
        for own, version in ((base, "0.4.12"), (new, "0.4.13"))
    ]


def report(*both: list[Evaluation], limits: Limits | None = None) -> Report:
    return compare(pair(*both), limits or Limits())


def shown(found: Report, most: int = 2, width: int = 80) -> str:
    text = io.StringIO()
    show(Console(file=text, width=width), found, most, lambda each, one: f"Q: {one.query} →")
    return text.getvalue()


def markdown(found: Report, most: int = 2) -> str:
    return as_markdown(found, most, lambda each, one: None)


def test_the_terminal_shows_what_was_lost_and_gained_with_prompts() -> None:
    text = shown(report(*sides()))
    assert text.startswith("1 comparison: 1 worse.")
    assert "task: lost by NEW (2 of 10)" in text and "task: gained by NEW (1 of 1)" in text
    assert "prompt  Q: query 0 task →" in text
    assert "BASE    right" in text and "NEW     wrong" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_no_difference_is_said_to_be_none_shown() -> None:
    base, _ = sides()
    assert summary(report(base, base)) == "1 comparison: no difference shown."


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
    assert "6 queries have to get worse and none better" in said
    assert "too small for that: few." in said


def test_markdown_has_the_summary_first_and_the_flips_folded() -> None:
    text = markdown(report(*sides()))
    assert text.startswith("**taskvec compare** ❌ 1 comparison: 1 worse.\n")
    assert "<details><summary>task: lost by NEW (2 of 10)</summary>" in text
    assert "query   query 0 task (its prompt is not known)" in text


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
    }
    assert [suite.get(key) for key in ("tests", "failures", "skipped")] == ["4", "2", "2"]


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
