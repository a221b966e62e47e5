"""What recorded head vectors and ablations say of the paper's claims, in plain words.

The claims are those of the paper on task-recognition and task-learning heads. Each is written as a
weighted sum of arms that lies above 0 where the claim holds, paired by query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean

from harness_ext.compare.gap import verdict
from harness_ext.compare.heads_runs import (
    ABLATED,
    ADDED,
    GENERATION,
    ICL,
    LABELS,
    NAMES,
    SETS,
    ZERO_SHOT,
    Arm,
    HeadRuns,
    contrast,
    mean_share,
)
from harness_ext.compare.statistics import Interval
from harness_ext.compare.tables import interval
from harness_ext.compare.text import number

HALF, ONE = Fraction(1, 2), Fraction(1)
ONE_LABEL = "one label"
Weights = Mapping[Arm, Fraction]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        says, there: the claim, and what the paper found, if it looked.
        sum: how the weighted sum is written.
        weights: the sum, which `margin` is added to.
        ratio: whether it is one of TR ratios, not of accuracies.
        generation: whether it is about open generation, not about the four sets.
        above_one_label: whether the sum is less what one label for all documents would get.
        beside: arms whose means are given too.
        given: a sum that must lie above 0 for the claim to mean something.
        otherwise: what is said where it does not.
    """

    says: str
    there: str
    sum: str
    weights: Weights
    margin: float = 0.0
    ratio: bool = False
    generation: bool = False
    above_one_label: bool = False
    beside: tuple[Arm, ...] = ()
    given: Weights = field(default_factory=dict)
    otherwise: str = ""


CLAIMS = (
    Claim(
        "Adding TR heads recovers at least half of what ICL adds to zero-shot",
        "40 % right after 9 % zero-shot",
        "TR − (ICL + zero-shot) / 2",
        {ADDED["tr"]: ONE, ICL: -HALF, ZERO_SHOT: -HALF},
        given={ICL: ONE, ZERO_SHOT: -ONE},
        otherwise="ICL is not shown to be above zero-shot, so there is nothing to recover",
    ),
    Claim(
        "Adding TR heads is better than adding TL heads",
        "40 % against 11 %",
        "TR − TL",
        {ADDED["tr"]: ONE, ADDED["tl"]: -ONE},
    ),
    Claim(
        "Adding TR heads is better than adding random heads",
        "40 % against 10 %",
        "TR − random",
        {ADDED["tr"]: ONE, ADDED["random"]: -ONE},
    ),
    Claim(
        "Adding TR heads is better than adding induction heads",
        "",
        "TR − IH",
        {ADDED["tr"]: ONE, ADDED["ih"]: -ONE},
    ),
    Claim(
        "Adding TR heads is better than one and the same label for all documents of a set",
        "",
        f"TR − {ONE_LABEL}",
        {ADDED["tr"]: ONE},
        above_one_label=True,
    ),
    Claim(
        "Without TR heads, more than half of the TR ratio is lost",
        "from about 100 % to about 20 %",
        "intact / 2 − (−TR)",
        {ICL: HALF, ABLATED["tr"]: -ONE},
        ratio=True,
        beside=(ABLATED["random"],),
    ),
    Claim(
        "Without TL heads, accuracy is lower",
        "by about 30 points",
        "intact − (−TL)",
        {ICL: ONE, ABLATED["tl"]: -ONE},
        beside=(ABLATED["random"],),
    ),
    Claim(
        "Without TL heads, the TR ratio stays within 0.1 of the intact one",
        "at most 10 points lower",
        "(−TL) − intact + 0.1",
        {ABLATED["tl"]: ONE, ICL: -ONE},
        margin=0.1,
        ratio=True,
        beside=(ABLATED["random"],),
    ),
    Claim(
        "In open generation, adding TL heads is better than adding TR heads",
        "rated 5.1 against 3.4, zero-shot 3.9, ICL 8.0",
        "TL − TR",
        {ADDED["tl"]: ONE, ADDED["tr"]: -ONE},
        generation=True,
        beside=(ZERO_SHOT, ICL, ADDED["random"]),
    ),
)


def sentences(runs: HeadRuns) -> str:
    """A list item for each claim: whether it shows, with the figures."""
    return "".join(f"- {_sentence(runs, claim)}\n" for claim in CLAIMS)


def seeds_by_task(runs: HeadRuns, claim: Claim) -> dict[str, frozenset[int]]:
    """The tasks that are recorded in all arms of a claim, with the seeds the arms share."""
    tasks = [t for t in runs.tasks if t.startswith(GENERATION)] if claim.generation else SETS
    shared = {task: runs.shared_seeds(task, claim.weights) for task in tasks}
    return {task: seeds for task, seeds in shared.items() if seeds}


def difference(runs: HeadRuns, claim: Claim) -> Interval:
    """The weighted sum of a claim, margin included; some task must be recorded in its arms."""
    return _difference(runs, claim, seeds_by_task(runs, claim))


def by_seed(runs: HeadRuns, claim: Claim) -> dict[int, float]:
    """The same for each seed that all of the claim's tasks are recorded with."""
    tasks = seeds_by_task(runs, claim)
    shared = frozenset.intersection(*tasks.values()) if tasks else frozenset()
    return {
        seed: _difference(runs, claim, {task: {seed} for task in tasks}).estimate
        for seed in sorted(shared)
    }


def _difference(runs: HeadRuns, claim: Claim, tasks: Mapping[str, Collection[int]]) -> Interval:
    found = contrast(runs, tasks, claim.weights, claim.ratio)
    shift = claim.margin - (_one_label(tasks) if claim.above_one_label else 0)
    return Interval(*(end + shift for end in (found.estimate, found.low, found.high)))


def count(numbers: set[int], unit: str) -> str:
    """Such as `1 seed`, `5 seeds` or `2 to 5 seeds`."""
    low, high = min(numbers), max(numbers)
    said = str(low) if low == high else f"{low} to {high}"
    return f"{said} {unit}{'' if said == '1' else 's'}"


def _sentence(runs: HeadRuns, claim: Claim) -> str:
    tasks = seeds_by_task(runs, claim)
    said = claim.says + (f" (the paper: {claim.there})" if claim.there else "")
    if not tasks:
        needed = ", ".join(_name(arm, claim) for arm in claim.weights)
        together = " with a seed in common" if len(claim.weights) > 1 else ""
        return f"{said}: **not recorded** ({needed}{together})."
    figures = _figures(runs, claim, tasks)
    if claim.given and contrast(runs, tasks, claim.given).low <= 0:
        return f"{said}: **does not show**: {claim.otherwise}. {figures}."
    found, seeds = difference(runs, claim), by_seed(runs, claim)
    alike = sum((value > 0) == (found.estimate > 0) for value in seeds.values())
    often = f", in {alike} of {len(seeds)} seeds" if len(seeds) > 1 else ""
    apart = "; by seed " + ", ".join(map("{:+.2f}".format, seeds.values())) if often else ""
    sum_ = f"{claim.sum} = {interval(found, signed=True)}"
    return f"{said}: **{verdict(found)}**{often}. {figures}; {sum_}{apart}."


def _figures(runs: HeadRuns, claim: Claim, tasks: Mapping[str, frozenset[int]]) -> str:
    """The means that a claim compares, and over what they are taken."""
    beside = [
        arm
        for arm in claim.beside
        if all(runs.covers(task, arm, seeds) for task, seeds in tasks.items())
    ]
    means = ", ".join(
        f"{_name(arm, claim)} {number(mean_share(runs, tasks, arm, claim.ratio).estimate)}"
        for arm in (*claim.weights, *beside)
    )
    if claim.above_one_label:
        means += f", {ONE_LABEL} {number(_one_label(tasks))}"
    what = "TR ratio" if claim.ratio else "tone as asked" if claim.generation else "accuracy"
    if claim.generation:
        over = f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}"
    elif len(tasks) == len(SETS):
        over = "the four sets"
    else:
        over = f"{len(tasks)} of the four sets ({', '.join(tasks)})"
    seeds = count({len(own) for own in tasks.values()}, "seed")
    return f"Mean {what} over {over}, {seeds}: {means}"


def _one_label(tasks: Iterable[str]) -> float:
    """What the same label for all documents gets: the share of a label, a mean over sets."""
    return fmean(1 / LABELS[task] for task in tasks)


def _name(arm: Arm, claim: Claim) -> str:
    return "intact" if arm == ICL and "intact" in claim.sum else NAMES[arm]
