"""The claims that findings on heads are held against, on findings made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

from harness_ext.analysis.attention_mass import Mass
from harness_ext.analysis.explained import Explained, Geometry
from harness_ext.analysis.head_overlap import Agreement, Ranks
from harness_ext.commands.heads_claims import NOT_TESTED, Claim, across_tasks, claims
from harness_ext.commands.heads_measure import COMPARED, TaskFindings
from harness_ext.compare.gap import NOT_SHOWN, OTHER_WAY, SHOWS

LAYERS, HEADS = 4, 4
DEPTH, INDUCTION, ATTENTION, EXPLAINED, GEOMETRY, ATTRIBUTION, SHARED = range(7)


def scores(best: int) -> torch.Tensor:
    """Falling from head `best` on, all others in order behind it."""
    found = torch.zeros(LAYERS * HEADS, dtype=torch.float64)
    order = [(best + n) % (LAYERS * HEADS) for n in range(LAYERS * HEADS)]
    found[order] = torch.arange(LAYERS * HEADS, 0, -1, dtype=torch.float64)
    return found.reshape(LAYERS, HEADS)


def explains(cosine: float) -> Explained:
    values = (None, None, None, cosine)
    return Explained(values, values, values)


def findings(task: str, tr: int = 14, tl: int = 5) -> TaskFindings:
    """As the paper has them: deep TR heads that look at labels, TL heads that look at the query."""
    return TaskFindings(
        task=task,
        prompts=5,
        scores={"tr": scores(tr), "tl": scores(tl)},
        top={"tr": [(3, 2)], "tl": [(1, 1)], "ih": [(2, 0)]},
        mean_layers={"tr": 3, "tl": 1, "ih": 2},
        agreements={p: Agreement(0.2 if "tl" in p else 0.5, 0.1, 0.3, 0.4) for p in COMPARED},
        induction_ranks={"tr": Ranks(0.1, 0.2, 1), "tl": Ranks(0.4, 0.5, 1)},
        attention={
            "tr": Mass(0.6, 0.1, 0.2, 0.1),
            "tl": Mass(0.1, 0.5, 0.2, 0.2),
            "ih": Mass(0.4, 0.1, 0.2, 0.3),
            "all": Mass(0.1, 0.1, 0.7, 0.1),
        },
        explained={
            "tr": explains(0.8),
            "tl": explains(0.2),
            "ih": explains(0.4),
            "random": explains(0.1),
        },
        norms=(1, 1, 1, 1),
        layer=3,
        geometry={
            "zero_shot": Geometry(0.15, 3.9),
            "tr": Geometry(0.29, 3.9),
            "tl": Geometry(0.15, 5.3),
            "ih": Geometry(0.2, 4),
            "random": Geometry(0.15, 3.9),
        },
    )


def several(*found: TaskFindings, spread: float = 0.01) -> list[TaskFindings]:
    """The same findings on tasks that differ by a little."""

    def shifted(cosine: tuple[float | None, ...], by: float) -> tuple[float | None, ...]:
        return tuple(None if value is None else value + by for value in cosine)

    tasks = []
    for n, own in enumerate(found):
        by = spread * (n + 1)
        tr, top, zero = own.explained["tr"], own.attention, own.geometry
        tasks.append(
            replace(
                own,
                task=f"{own.task} {n}",
                mean_layers={**own.mean_layers, "tr": own.mean_layers["tr"] + by},
                induction_ranks={
                    k: replace(each, within=each.within - by)
                    for k, each in own.induction_ranks.items()
                },
                attention={
                    **top,
                    "tr": replace(top["tr"], labels=top["tr"].labels + by),
                    "tl": replace(top["tl"], query=top["tl"].query + by),
                },
                explained={**own.explained, "tr": replace(tr, cosine=shifted(tr.cosine, by))},
                geometry={
                    **zero,
                    "tr": replace(zero["tr"], cosine=zero["tr"].cosine + by),
                    "tl": replace(zero["tl"], lead=zero["tl"].lead + by),
                },
                agreements={
                    pair: replace(each, jaccard=each.jaccard + by * ("tr" in pair))
                    for pair, each in own.agreements.items()
                },
            )
        )
    return tasks


def shown(found: Sequence[TaskFindings]) -> list[Claim]:
    return claims(found, across_tasks(found, 0.1))


def answers(found: Sequence[TaskFindings]) -> list[str]:
    return [claim.shows for claim in shown(found)]


# Of eight tasks all but one have the same TR heads, and every one has TL heads of its own.
PAPER = [findings(f"task {n}", tr=14 + (n == 7), tl=2 * n) for n in range(8)]
AGAINST = {
    DEPTH: {"mean_layers": {"tr": 1, "tl": 2, "ih": 2}},
    INDUCTION: {"induction_ranks": {"tr": Ranks(0.3, 0.2, 0.3), "tl": Ranks(0.6, 0.5, 0.3)}},
    ATTENTION: {
        "attention": dict.fromkeys(("tr", "tl", "ih"), Mass(0, 0, 1, 0))
        | {"all": Mass(0.3, 0.3, 0.2, 0.2)}
    },
    EXPLAINED: {"explained": dict.fromkeys(("tr", "tl", "ih", "random"), explains(-0.1))},
    GEOMETRY: {
        "geometry": {"zero_shot": Geometry(0.4, 3), "tr": Geometry(0.1, 1), "tl": Geometry(0.3, 1)}
    },
    ATTRIBUTION: {
        "agreements": {p: Agreement(0.5 if "tl" in p else 0.1, 0.3, 0, 0) for p in COMPARED}
    },
}


def test_findings_as_the_papers_show_every_claim() -> None:
    assert answers(several(*PAPER)) == [SHOWS] * 7


def test_one_task_says_nothing_of_several_and_two_are_not_tested() -> None:
    assert answers(several(*PAPER[:1])) == [NOT_TESTED] * 6
    assert answers(several(*PAPER[:2])) == [NOT_TESTED] * 7


@pytest.mark.parametrize("claim", AGAINST)
def test_what_is_the_other_way_on_all_tasks_is_said(claim: int) -> None:
    against = [replace(own, **AGAINST[claim]) for own in PAPER]  # type: ignore[arg-type]
    found = answers(several(*against))
    assert found.pop(claim) == OTHER_WAY
    assert found == [SHOWS] * 6


@pytest.mark.parametrize("claim", AGAINST)
def test_what_shows_on_some_tasks_alone_does_not_show(claim: int) -> None:
    """Four for it, four against: the plain mean may lie on either side."""
    against = [replace(own, **AGAINST[claim]) for own in PAPER[:4]]  # type: ignore[arg-type]
    assert answers(several(*against, *PAPER[4:]))[claim] == NOT_SHOWN


def test_task_learning_heads_that_tasks_share_more_speak_against_the_claim() -> None:
    found = several(*(findings("task", tr=2 * n, tl=14 + (n == 7)) for n in range(8)))
    assert answers(found)[SHARED] == OTHER_WAY


def test_the_interval_is_students_over_the_tasks() -> None:
    found = several(*PAPER)
    (depth,) = shown(found)[DEPTH].differences
    values = [own.mean_layers["tr"] - own.mean_layers["tl"] for own in found]
    expected = scipy.stats.t.interval(0.95, 7, np.mean(values), scipy.stats.sem(values))
    assert (depth.low, depth.high) == pytest.approx(expected)
    assert f"TR − TL = +{np.mean(values):.2f} [" in shown(found)[DEPTH].figures


def test_pairs_of_tasks_are_judged_by_leaving_each_task_out() -> None:
    """The jackknife's standard error, and the mean of all pairs."""
    found = several(*PAPER)
    across = across_tasks(found, 0.1)
    pairs = {pair: own.spearman - across["tl"][pair].spearman for pair, own in across["tr"].items()}
    spearman = shown(found)[SHARED].differences[2]
    without = [
        np.mean([value for pair, value in pairs.items() if own.task not in pair]) for own in found
    ]
    error = np.sqrt(7 / 8 * np.sum((np.array(without) - np.mean(without)) ** 2))
    half = scipy.stats.t.ppf(0.975, 7) * error
    assert spearman.estimate == pytest.approx(np.mean(list(pairs.values())))
    assert spearman.high - spearman.estimate == pytest.approx(half)


def test_tasks_that_happen_to_agree_are_no_certainty() -> None:
    found = [findings(f"task {n}") for n in range(4)]
    assert answers(found) == [NOT_TESTED] * 7
