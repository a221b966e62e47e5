"""Two sides of a comparison that no model made."""

from __future__ import annotations

from dataclasses import replace

from harness_ext.compare.evaluations import Evaluation
from harness_ext.compare.pairing import pair
from harness_ext.compare.regression import compare
from harness_ext.compare.report import Limits, Report
from tests.compare.made_up import evaluation, sample


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
