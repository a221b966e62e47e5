from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lm_eval.tasks import TaskManager

from harness_ext.compare.heads_claims import CLAIMS, count, difference, seeds_by_task, sentences
from harness_ext.compare.heads_runs import (
    ABLATED,
    ADDED,
    ICL,
    LABELS,
    NAMES,
    SETS,
    ZERO_SHOT,
    Arm,
    HeadRuns,
)
from harness_ext.plugin import tasks_dir
from tests.compare.heads_output import grid, row, runs_of

GENERATE = ("generate_positive", "generate_negative")
_, _, _, _, ONE_LABEL, RATIO_LOST, _, RATIO_KEPT, _ = CLAIMS
# Of 30 documents, how many are right; and how many are in the label set, where that differs.
AS_IN_THE_PAPER: Mapping[Arm, int] = {
    ZERO_SHOT: 2, ICL: 29, ADDED["tr"]: 22, ADDED["tl"]: 8, ADDED["ih"]: 8, ADDED["random"]: 2,
    ABLATED["tr"]: 4, ABLATED["tl"]: 12, ABLATED["ih"]: 10, ABLATED["random"]: 27,
}  # fmt: skip
IN_SET = {ICL: 30, ABLATED["tr"]: 5, ABLATED["tl"]: 29, ABLATED["random"]: 30}
TONE = {ZERO_SHOT: 8, ICL: 24, ADDED["tr"]: 6, ADDED["tl"]: 20, ADDED["random"]: 8}


def scores(right: int) -> list[int]:
    return [1] * right + [0] * (30 - right)


def rows_of(
    right: Mapping[Arm, int], in_set: Mapping[Arm, int], tone: Mapping[Arm, int]
) -> list[dict[str, Any]]:
    rows = [
        row(task, seed, arm, scores(n), scores(in_set.get(arm, n)))
        for task in SETS
        for arm, n in right.items()
        for seed in (range(2) if arm != ZERO_SHOT else [0])
    ]
    return rows + grid(GENERATE, [0], tone, lambda arm: scores(tone[arm]))


def said(runs: HeadRuns) -> list[str]:
    """What is said of each claim: shows, does not show, …"""
    return [line.split("**")[1] for line in sentences(runs).splitlines()]


def test_all_claims_show_where_figures_are_as_in_the_paper(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, rows_of(AS_IN_THE_PAPER, IN_SET, TONE))
    assert said(runs) == ["shows"] * len(CLAIMS)


def test_a_sentence_gives_the_means_and_the_sum(tmp_path: Path) -> None:
    first, *_, last = sentences(
        runs_of(tmp_path, rows_of(AS_IN_THE_PAPER, IN_SET, TONE))
    ).splitlines()
    figures = "Mean accuracy over the four sets, 2 seeds: TR 0.73, ICL (8) 0.97, zero-shot 0.07; "
    assert f"**shows**, in 2 of 2 seeds. {figures}TR − (ICL + zero-shot) / 2 = +0.22 [" in first
    figures = "Mean tone as asked over 2 tasks, 1 seed: TL 0.67, TR 0.20, zero-shot 0.27, ICL (8) "
    assert f"{figures}0.80, random 0.27; TL − TR = +0.47 [" in last


def test_a_sum_that_one_seed_makes_is_seen_by_seed(tmp_path: Path) -> None:
    rows = [
        row("classify_sentiment", seed, arm, scores(right))
        for seed, (tr, tl) in enumerate([(16, 15), (15, 16), (30, 0)])
        for arm, right in ((ADDED["tr"], tr), (ADDED["tl"], tl))
    ]
    [said] = [s for s in sentences(runs_of(tmp_path, rows)).splitlines() if "TR − TL =" in s]
    assert "**shows**, in 2 of 3 seeds." in said
    assert said.endswith("; by seed +0.03, -0.03, +1.00.")


def test_no_claim_shows_where_nothing_does_anything(tmp_path: Path) -> None:
    same = {arm: 20 for arm in AS_IN_THE_PAPER}
    runs = runs_of(tmp_path, rows_of(same, {}, {arm: 20 for arm in TONE}))
    found = dict(zip([claim.says for claim in CLAIMS], said(runs), strict=True))
    # Heads that do nothing leave the ratio where it is, and it does not fall to half.
    assert found.pop(RATIO_KEPT.says) == "shows"
    assert found.pop(RATIO_LOST.says) == "the other way"
    # 20 of 30 are right, whatever is done.
    assert found.pop(ONE_LABEL.says) == "shows"
    assert {*found.values()} == {"does not show"}
    assert "ICL is not shown to be above zero-shot" in sentences(runs).splitlines()[0]


def test_claims_show_the_other_way_where_signs_are_turned(tmp_path: Path) -> None:
    right = {
        **AS_IN_THE_PAPER,
        ADDED["tr"]: 4,
        ADDED["tl"]: 28,
        ADDED["random"]: 15,
        ADDED["ih"]: 28,
    }
    in_set = {ICL: 30, ABLATED["tr"]: 30, ABLATED["tl"]: 10, ABLATED["random"]: 30}
    right |= {ICL: 20, ABLATED["tl"]: 29}
    runs = runs_of(tmp_path, rows_of(right, in_set, {**TONE, ADDED["tr"]: 28}))
    assert said(runs) == ["the other way"] * len(CLAIMS)


def test_what_is_not_recorded_is_said_claim_by_claim(tmp_path: Path) -> None:
    some = {arm: AS_IN_THE_PAPER[arm] for arm in (ZERO_SHOT, ICL, ADDED["tr"], ADDED["random"])}
    runs = runs_of(tmp_path, rows_of(some, {}, {}))
    expected = ["shows", "not recorded", "shows", "not recorded", "shows", *["not recorded"] * 4]
    assert said(runs) == expected
    assert "(TR, TL with a seed in common)" in sentences(runs)


def test_sets_that_are_recorded_in_part_are_counted_and_named(tmp_path: Path) -> None:
    arms = (ADDED["tr"], ADDED["random"])
    rows = [
        row("classify_topic", 0, ADDED["tr"], scores(20)),
        row("classify_question", 1, ADDED["tr"], scores(20)),
        *grid(["classify_sentiment"], [0, 1], arms, lambda arm: scores(AS_IN_THE_PAPER[arm])),
        row("classify_question", 0, ADDED["random"], scores(2)),
    ]
    runs = runs_of(tmp_path, rows)
    assert seeds_by_task(runs, CLAIMS[2]) == {"classify_sentiment": {0, 1}}
    assert "over 1 of the four sets (classify_sentiment), 2 seeds: TR" in sentences(runs)


def test_a_margin_shifts_the_sum_and_its_interval(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, rows_of(AS_IN_THE_PAPER, {ICL: 30, ABLATED["tl"]: 27}, {}))
    found = difference(runs, RATIO_KEPT)
    assert found.estimate == pytest.approx(0)
    assert found.low < 0 < found.high


def test_one_label_for_all_is_right_on_its_share_of_each_set(tmp_path: Path) -> None:
    tasks = ["classify_sentiment", "classify_topic"]
    runs = runs_of(tmp_path, grid(tasks, [0], [ADDED["tr"]], lambda _: scores(15)))
    assert difference(runs, ONE_LABEL).estimate == pytest.approx(0.5 - (1 / 2 + 1 / 4) / 2)
    assert (
        "2 of the four sets (classify_sentiment, classify_topic), 1 seed: TR 0.50, one label "
        in (sentences(runs))
    )


def test_the_sets_have_as_many_labels_as_is_said_equally_often() -> None:
    manager = TaskManager(include_path=str(tasks_dir()), include_defaults=False)
    for name, task in manager.load(list(LABELS))["tasks"].items():
        counts = Counter(doc["target"] for doc in task.eval_docs)
        assert len(counts) == LABELS[name]
        assert len({*counts.values()}) == 1


def test_every_arm_of_a_claim_has_a_name() -> None:
    assert {arm for claim in CLAIMS for arm in (*claim.weights, *claim.beside)} <= NAMES.keys()


@pytest.mark.parametrize(
    ("numbers", "expected"), [({1}, "1 seed"), ({5}, "5 seeds"), ({1, 3}, "1 to 3 seeds")]
)
def test_numbers_are_counted_in_words(numbers: set[int], expected: str) -> None:
    assert count(numbers, "seed") == expected
