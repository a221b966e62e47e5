"""Head vectors and ablations, cell by cell: what results/heads/ holds.

    python results/heads.py --to results/heads
    python results/heads.py --to results/heads --model packaged:gemma-3-270m

One model is loaded, and what its heads write on a task is read once per seed for all kinds of
heads. A cell is a task, a seed and a set of steering arguments; one that is there already is not
run again. `--plan` names what to run: `steering` (every kind of head at zero shots, and in-context
learning), `ablation` (heads knocked out of the few-shot prompt) or `fraction` (fewer and more heads
than 3 %).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager

import harness_ext
from harness_ext import TaskVectorLM, packaged_models, plugin
from harness_ext.errors import UsageError
from harness_ext.files import write_whole

CLASSIFICATION = (
    "classify_sentiment", "classify_subjectivity", "classify_topic", "classify_question",
)  # fmt: skip
WORDS = ("forward_upper", "forward_plural", "forward_french", "forward_capital")
GENERATION = ("generate_positive", "generate_negative")
KINDS = ("tr", "tl", "ih", "random")
# Tested documents of a task, demonstrations, development episodes.
LIMIT, SHOTS, DEV = 50, 8, 25
FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2)
METRICS = ("answer_match", "tr_ratio", "tone_match", "tone_balance", "opinion_ratio")
_LISTS = ("layers", "development_log_prob_by_layer", "doc_hashes")


@dataclass(frozen=True)
class Cell:
    """One row of the results: a task, a seed, the shots of its prompts, and what was done."""

    task: str
    seed: int
    shots: int
    steering: dict[str, Any]

    @property
    def key(self) -> str:
        return json.dumps([self.task, self.seed, self.shots, self.steering], sort_keys=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="folder of the results")
    parser.add_argument("--model", default=packaged_models.PREFIX + packaged_models.DEFAULT)
    parser.add_argument("--plan", default="steering", choices=sorted(PLANS))
    parser.add_argument("--tasks", default=",".join(CLASSIFICATION))
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 to N - 1")
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    path = args.to / f"{args.model.removeprefix(packaged_models.PREFIX).replace('/', '__')}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {row["key"] for row in rows}
    manager = TaskManager(include_path=str(plugin.tasks_dir()), include_defaults=False)
    try:
        lm = TaskVectorLM(args.model, method="none", batch_size=args.batch_size)
    except UsageError as error:
        raise SystemExit(str(error)) from error
    for task in args.tasks.split(","):
        for cell in PLANS[args.plan](task, args):
            if cell.key not in done:
                rows.append(run(lm, manager, cell, args))
                write(path, rows)


def steering(task: str, args: argparse.Namespace) -> Iterator[Cell]:
    """Unsteered with and without demonstrations, then every kind of head, seed by seed."""
    yield Cell(task, 0, 0, {"method": "none"})
    for seed in range(args.seeds):
        yield Cell(task, seed, SHOTS, {"method": "none"})
        for kind in KINDS:
            yield Cell(task, seed, 0, heads(kind, seed, args))


def ablation(task: str, args: argparse.Namespace) -> Iterator[Cell]:
    """Every kind of head knocked out of the few-shot prompt."""
    for seed in range(args.seeds):
        for kind in KINDS:
            yield Cell(task, seed, SHOTS, {"method": "none", "ablate": kind, "seed": seed})


def fraction(task: str, args: argparse.Namespace) -> Iterator[Cell]:
    """Fewer and more heads than 3 %."""
    for seed in range(args.seeds):
        for kind in ("tr", "tl", "random"):
            for share in FRACTIONS:
                yield Cell(task, seed, 0, {**heads(kind, seed, args), "head_fraction": share})


PLANS = {"steering": steering, "ablation": ablation, "fraction": fraction}


def heads(kind: str, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    # Seeds are draws already; within one, random heads are drawn once.
    own = {"draws": 1} if kind == "random" else {}
    return {"method": kind, "seed": seed, "dev": DEV, **own}


def run(
    lm: TaskVectorLM, manager: TaskManager, cell: Cell, args: argparse.Namespace
) -> dict[str, Any]:
    """The cell's row: scores per document, in the order of `doc_hashes`, and what was chosen."""
    start = time.time()
    try:
        results = simple_evaluate(
            lm.with_steering(**cell.steering),
            tasks=[cell.task],
            num_fewshot=cell.shots,
            limit=LIMIT,
            task_manager=manager,
            fewshot_random_seed=cell.seed,
            bootstrap_iters=0,
        )
    except UsageError as error:
        raise SystemExit(f"{cell.task}, {cell.steering}: {error}") from error
    samples = sorted(results["samples"][cell.task], key=lambda sample: sample["doc_id"])
    steered = results["config"]["steering"]
    record = steered["tasks"].get(cell.task, {})
    row = {
        "key": cell.key,
        "task": cell.task,
        "seed": cell.seed,
        "shots": cell.shots,
        "steering": cell.steering,
        "doc_hashes": [sample["doc_hash"][:16] for sample in samples],
        "queries": [sample["doc"]["query"] for sample in samples],
        "scores": {
            name: [sample[name] for sample in samples] for name in METRICS if name in samples[0]
        },
        "record": _short(record),
        "version": harness_ext.__version__,
        "weights_sha256": steered.get("model", {}).get("weights_sha256"),
        "dtype": str(lm.model.dtype).removeprefix("torch."),
        "seconds": round(time.time() - start, 1),
    }
    means = {name: round(sum(own) / len(own), 3) for name, own in row["scores"].items()}
    print(cell.task, cell.seed, cell.shots, cell.steering, means, row["seconds"], flush=True)
    return row


def _short(record: Any) -> Any:
    """The record without its longest lists."""
    if isinstance(record, list):
        return [_short(entry) for entry in record]
    if not isinstance(record, dict):
        return record
    return {name: _short(value) for name, value in record.items() if name not in _LISTS}


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """The whole file, or nothing of it."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_whole(path, text.encode())


if __name__ == "__main__":
    main()
