"""Recorded runs with head vectors and ablated heads, and what they estimate.

Seeds draw the demonstrations, episodes and random heads; the tested
documents are the same for all. An estimate is for the seeds it is over: the scores of a query in
all of them make one cluster, and intervals are over queries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from harness_ext.compare.statistics import Interval, accuracy_interval, task_mean_interval

# The own sets, with how many labels each has; labels are equally frequent.
LABELS: Mapping[str, int] = {
    "classify_sentiment": 2,
    "classify_subjectivity": 2,
    "classify_topic": 4,
    "classify_question": 4,
}
SETS = tuple(LABELS)
GENERATION = "generate_"
FAMILIES = ("classify_", "forward_", "inverse_", "bijection_", GENERATION)
KINDS: Mapping[str, str] = {"tr": "TR", "tl": "TL", "ih": "IH", "random": "random"}
RATIO = "tr_ratio"
# What `head_fraction` is where a row does not give it, and the shots of in-context learning.
FRACTION, SHOTS = 0.03, 8


@dataclass(frozen=True)
class Arm:
    """What was done: heads of a kind added at zero shots, or knocked out of the few-shot prompt."""

    added: str = "none"
    ablated: str = "none"
    shots: int = 0
    fraction: float = FRACTION


ZERO_SHOT, ICL = Arm(), Arm(shots=SHOTS)
ADDED = {kind: Arm(added=kind) for kind in KINDS}
ABLATED = {kind: Arm(ablated=kind, shots=SHOTS) for kind in KINDS}
NAMES: Mapping[Arm, str] = {
    ZERO_SHOT: "zero-shot",
    ICL: f"ICL ({SHOTS})",
    **{arm: KINDS[kind] for kind, arm in ADDED.items()},
    **{arm: f"−{KINDS[kind]}" for kind, arm in ABLATED.items()},
}


@dataclass(frozen=True)
class Choice:
    """Where the heads were added: so many heads, after which layer, with which strength.

    development: the accuracy there on development episodes; None where the layer was given.
    """

    heads: int
    layer: int
    strength: float
    development: float | None


@dataclass(frozen=True)
class Row:
    """The scores of one run on a task, document by document.

    Attributes:
        place: file and line it stands at.
        task, seed, arm: which run it is.
        documents, queries: hash and query of each document.
        scores: 0 or 1 for each document, by metric.
        choices: one for each draw of heads that were added; none where none were.
        facts: what the run was made with, by name.
        weights: fingerprint of the model's weights, where it was taken.
    """

    place: str
    task: str
    seed: int
    arm: Arm
    documents: tuple[str, ...]
    queries: tuple[str, ...]
    scores: Mapping[str, tuple[int, ...]]
    choices: tuple[Choice, ...]
    facts: Mapping[str, str]
    weights: str | None


@dataclass(frozen=True)
class HeadRuns:
    """The rows of one model, by task and arm, then by seed; some may be missing."""

    model: str
    rows: Mapping[tuple[str, Arm], Mapping[int, Row]]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The recorded tasks: the four sets, then others family by family."""
        names = {task for task, _ in self.rows}
        others = [
            task
            for family in FAMILIES
            for task in sorted(names - {*SETS})
            if task.startswith(family)
        ]
        return (*(task for task in SETS if task in names), *others)

    def seeds(self, task: str, arm: Arm) -> frozenset[int]:
        """The seeds that are recorded of a task and an arm."""
        return frozenset(self.rows.get((task, arm), {}))

    def shared_seeds(self, task: str, arms: Iterable[Arm]) -> frozenset[int]:
        """The seeds that all arms share; a seed changes nothing in a plain zero-shot prompt.

        Empty where one of the arms is not recorded.
        """
        own = {arm: self.seeds(task, arm) for arm in arms}
        drawn = [seeds for arm, seeds in own.items() if arm != ZERO_SHOT]
        return frozenset.intersection(*drawn) if drawn and all(own.values()) else frozenset()

    def covers(self, task: str, arm: Arm, seeds: Collection[int]) -> bool:
        """Whether the arm is recorded for all of the seeds."""
        own = self.seeds(task, arm)
        return own >= {*seeds} or (arm == ZERO_SHOT and bool(own))

    def counts(
        self, task: str, arm: Arm, score: str, seeds: Collection[int] | None = None
    ) -> dict[str, tuple[int, int]]:
        """For each query of a task, how many scores are 1 and how many there are.

        seeds: those to count, all by default; the plain zero-shot prompt has but one.
        """
        found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for seed, row in self.rows[task, arm].items():
            if seeds is None or seed in seeds or arm == ZERO_SHOT:
                for query, value in zip(row.queries, row.scores[score], strict=True):
                    right, asked = found[query]
                    found[query] = (right + value, asked + 1)
        return dict(found)

    def share(
        self, task: str, arm: Arm, score: str, seeds: Collection[int] | None = None
    ) -> Interval:
        """The mean score of a task over queries, each averaged over seeds."""
        right, asked = zip(*self.counts(task, arm, score, seeds).values(), strict=True)
        return accuracy_interval(right, asked)


def score_of(task: str) -> str:
    """The metric that says whether an answer is right, or continues in the tone asked for."""
    return "tone_match" if task.startswith(GENERATION) else "answer_match"


def mean_share(
    runs: HeadRuns, tasks: Mapping[str, Collection[int]], arm: Arm, ratio: bool = False
) -> Interval:
    """The mean over tasks of accuracy, or of the TR ratio, over the seeds given for each."""
    counts = (
        runs.counts(task, arm, RATIO if ratio else score_of(task), seeds)
        for task, seeds in tasks.items()
    )
    return task_mean_interval([list(own.values()) for own in counts])


def contrast(
    runs: HeadRuns,
    tasks: Mapping[str, Collection[int]],
    weights: Mapping[Arm, Fraction],
    ratio: bool = False,
) -> Interval:
    """The weighted sum of arms, paired by query: a mean over tasks, over the seeds of each.

    A query's score in an arm is its mean over seeds; a query is one cluster. `ratio` compares the
    TR ratio in place of accuracy. Exact fractions keep each sum within the weights' extremes.
    """
    paired = []
    for task, seeds in tasks.items():
        score = RATIO if ratio else score_of(task)
        sums: dict[str, Fraction] = defaultdict(Fraction)
        for arm, weight in weights.items():
            for query, counted in runs.counts(task, arm, score, seeds).items():
                sums[query] += weight * Fraction(*counted)
        paired.append([(float(total), 1) for total in sums.values()])
    extremes = (
        float(sum(w for w in weights.values() if w < 0)),
        float(sum(w for w in weights.values() if w > 0)),
    )
    return task_mean_interval(paired, extremes)


@dataclass(frozen=True)
class Curve:
    """Accuracy of a task by the share of heads that are added.

    Attributes:
        task, seeds: what it is over: the seeds that all points share.
        points: for each kind, by share of heads: their number, and the accuracy.
        bounds: accuracy without demonstrations and with, for comparison, where they are recorded
            over the same seeds.
    """

    task: str
    seeds: frozenset[int]
    points: Mapping[str, Mapping[float, tuple[int, Interval]]]
    bounds: Mapping[Arm, Interval]


def curves(runs: HeadRuns) -> list[Curve]:
    """A curve for each task that is recorded at other shares of heads than FRACTION too.

    A curve has no points where no seed is recorded at all of them.
    """
    found = []
    for task in runs.tasks:
        arms = [arm for of, arm in runs.rows if of == task and arm.added != "none"]
        swept = {arm.added for arm in arms if arm.fraction != FRACTION}
        own = sorted((arm for arm in arms if arm.added in swept), key=lambda arm: arm.fraction)
        if not own:
            continue
        seeds = runs.shared_seeds(task, own)
        points: dict[str, dict[float, tuple[int, Interval]]] = {k: {} for k in KINDS if k in swept}
        for arm in own if seeds else ():
            heads = runs.rows[task, arm][min(seeds)].choices[0].heads
            points[arm.added][arm.fraction] = (heads, runs.share(task, arm, score_of(task), seeds))
        bounds = {
            arm: runs.share(task, arm, score_of(task), seeds)
            for arm in (ZERO_SHOT, ICL)
            if seeds and runs.covers(task, arm, seeds)
        }
        found.append(Curve(task, seeds, points, bounds))
    return found
