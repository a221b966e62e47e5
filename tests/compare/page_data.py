"""Made-up evaluations, and the page of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from harness_ext.compare.evaluations import Evaluation, Metric, Problem, Reading, Sample
from harness_ext.compare.leaderboard import build
from harness_ext.compare.page import HeadScores, render
from harness_ext.compare.page.heads import KINDS, HeadMap
from harness_ext.compare.table1 import table1

MADE = datetime(2026, 5, 6, 7, 8)
LAYERS = [0, 1, 2, 3]
# What a page must show as text: markup, quotes, an end of script, an emoji, a character that turns
# the direction of writing, control characters, and more than fits.
HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>]]></svg>{{ 7*7 }}"
    "\u202e\x00\x1b[31m😀" + "long" * 100
)


def evaluation(
    task: str = "forward_upper",
    method: str = "tv",
    shots: int | None = 0,
    model: str = "tiny",
    seed: int = 1234,
    right: Callable[[int], bool] = lambda number: number % 2 == 0,
    count: int = 20,
    **changes: Any,
) -> Evaluation:
    """An evaluation with `count` samples; `right` says which are right."""
    samples = tuple(
        Sample(
            doc_hash=f"{number:04d}",
            cluster=f"a{number}|A{number}",
            query=f"a{number}",
            target=f"A{number}",
            answer=f" A{number}" if right(number) else f" wrong{number}",
            prompt=f"Example: a{number} →",
            scores={"answer_match": float(right(number))},
        )
        for number in range(count)
    )
    value = sum(sample.scores["answer_match"] for sample in samples) / count
    steering = {
        "layer": 2,
        "layers": LAYERS,
        "development_accuracy": 0.9,
        "development_accuracy_by_layer": [0.1, 0.5, 0.9, 0.2],
        "development_episodes": 50,
    }
    fields: dict[str, Any] = {
        "path": Path(f"runs/{model}/{method}-{shots}/results.json"),
        "model": model,
        "method": method,
        "settings": {"dtype": "float32"},
        "task": task,
        "shots": shots,
        "seed": seed,
        "groups": (),
        "metrics": {"answer_match": Metric(value, None, True)},
        "samples": samples,
        "documents": count,
        "steering": steering if method.startswith("tv") else {},
        "facts": {"lm-eval": "0.4.13", "revision": "main"},
        "date": 1_778_051_289.5,
    }
    return Evaluation(**{**fields, **changes})


def grid() -> list[Evaluation]:
    """A map in all directions, by two models: plain, with demonstrations, with a vector."""
    share = {"none": 3, "icl": 10, "tv": 7}
    return [
        evaluation(
            f"{direction}_upper",
            "tv" if name == "tv" else "none",
            10 if name == "icl" else 0,
            model,
            right=lambda n, least=least: n % 10 < least,
        )
        for model, less in (("alpha", 0), ("beta-2", 2))
        for name, most in share.items()
        for direction, off in (("forward", 0), ("inverse", 1), ("bijection", 3))
        for least in [max(0, most - off - less)]
    ]


def head_scores(
    model: str = "tiny", task: str = "classify_tone", command: str = "taskvec heads --tasks t"
) -> HeadScores:
    """Scores of 3 layers of 2 heads."""
    scores = np.arange(6.0).reshape(3, 2)
    maps = tuple(
        HeadMap(kind, "" if name == "induction" else task, scores - 2 * kind.signed, ((2, 1),))
        for name, kind in KINDS.items()
    )
    return HeadScores(Path("heads/scores.json"), model, command, maps)


def page(
    evaluations: Sequence[Evaluation], problems: Sequence[Problem] = (), **options: Any
) -> str:
    """The page of the evaluations."""
    reading = Reading(tuple(evaluations), tuple(problems))
    table = table1(reading.evaluations)
    return render(reading, build(reading), table, **{"made": MADE, **options})


def hostile_page() -> str:
    """A page on which every text that comes from elsewhere is HOSTILE."""
    found = []
    for task, method, shots in (
        ("forward_" + HOSTILE, "tv", 0),
        ("bijection_" + HOSTILE, "tv", 0),
        ("forward_" + HOSTILE, "none", 10),
        ("bijection_" + HOSTILE, "none", 10),
        (HOSTILE, HOSTILE, 3),
    ):
        plain = evaluation(task, method, shots, model=HOSTILE)
        samples = tuple(
            Sample(each.doc_hash, each.cluster, HOSTILE, HOSTILE, HOSTILE, HOSTILE, each.scores)
            for each in plain.samples or ()
        )
        found.append(
            evaluation(
                task,
                method,
                shots,
                model=HOSTILE,
                samples=samples,
                settings={"dtype": HOSTILE, HOSTILE: HOSTILE},
                facts={HOSTILE: HOSTILE, "limit": HOSTILE},
                groups=(HOSTILE,),
                path=Path("runs", "<b>name</b>\u202e", "results.json"),
            )
        )
    return page(
        found,
        [Problem(Path("runs/<i>broken</i>.json"), HOSTILE)],
        heads=[head_scores(HOSTILE, HOSTILE, HOSTILE)],
        command=HOSTILE,
        title=HOSTILE,
    )
