"""The claims that findings on heads are held against, on findings made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness_ext.analysis.attention_mass import Mass
from harness_ext.analysis.explained import Explained, Geometry
from harness_ext.analysis.head_overlap import Agreement, Ranks
from harness_ext.commands.heads_claims import across_tasks, claims
from harness_ext.commands.heads_measure import COMPARED, TaskFindings

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
        agreements=dict.fromkeys(COMPARED, Agreement(0.5, 0.1, 0.3, 0.4)),
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


def answers(*found: TaskFindings) -> list[str]:
    return [claim.shows for claim in claims(found, across_tasks(found, 0.1))]


def test_findings_as_the_papers_show_every_claim() -> None:
    one, other = findings("one", tl=5), findings("other", tl=12)
    assert answers(one, other) == ["yes"] * 7


def test_one_task_says_nothing_of_several() -> None:
    assert answers(findings("one")) == ["yes"] * 6


@pytest.mark.parametrize(
    ("claim", "changes"),
    [
        (DEPTH, {"mean_layers": {"tr": 1, "tl": 1, "ih": 2}}),
        (INDUCTION, {"induction_ranks": {"tr": Ranks(0.3, 0.2, 0), "tl": Ranks(0.6, 0.5, 0)}}),
        (ATTENTION, {"attention": dict.fromkeys(("tr", "tl", "ih", "all"), Mass(0, 0, 1, 0))}),
        (EXPLAINED, {"explained": dict.fromkeys(("tr", "tl", "ih", "random"), explains(-0.1))}),
        (GEOMETRY, {"geometry": dict.fromkeys(("zero_shot", "tr", "tl"), Geometry(0.1, 1))}),
        (ATTRIBUTION, {"agreements": dict.fromkeys(COMPARED, Agreement(0.1, 0.1, 0, 0))}),
    ],
)
def test_what_does_not_show_on_any_task_is_a_no_and_on_some_in_part(
    claim: int, changes: dict[str, object]
) -> None:
    against = replace(findings("one"), **changes)  # type: ignore[arg-type]
    assert answers(against)[claim] == "no"
    assert answers(against, findings("other"))[claim] == "in part"


def test_task_learning_heads_that_tasks_share_more_speak_against_the_claim() -> None:
    shared = [findings("one", tr=14, tl=5), findings("other", tr=3, tl=5)]
    assert answers(*shared)[SHARED] == "no"
