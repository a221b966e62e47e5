"""Every task-vector method at 0 to 4 shots, task by task: what results/shots/ is recorded from.

    python results/shots.py --to runs
    python -m harness_ext.compare.record runs --to results/shots

One model is loaded, and a task's extraction prompts run once for all methods and shots. A cell that
is there already is not run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lm_eval import simple_evaluate
from lm_eval.loggers import EvaluationTracker
from lm_eval.tasks import TaskManager

from harness_ext import TaskVectorLM, packaged_models, plugin
from harness_ext.errors import UsageError

MAPS = (
    "antonym", "capital", "element", "french", "german", "gerund", "italian", "numeral",
    "participle", "past", "plural", "spanish", "upper",
)  # fmt: skip
TASKS = ("taskvec_bijection", *(f"forward_{name}" for name in MAPS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True, help="folder of lm-eval's output")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--shots", type=int, default=4, help="the most shots")
    parser.add_argument("--limit", type=int, default=50, help="tested documents of a task")
    parser.add_argument("--dev", type=int, default=10, help="development episodes")
    parser.add_argument("--batch_size", type=int, default=50)
    args = parser.parse_args()
    manager = TaskManager(include_path=str(plugin.tasks_dir()), include_defaults=False)
    lm = TaskVectorLM(method="none", batch_size=args.batch_size)
    for task in manager.load(args.tasks.split(","))["tasks"]:
        # From the most shots down: what is read for many cues serves fewer.
        for shots in range(args.shots, -1, -1):
            for method in ("tv_ms", "tv_m", "tv", "none") if shots else ("tv", "none"):
                run(lm, manager, task, method, shots, args)


def run(
    lm: TaskVectorLM,
    manager: TaskManager,
    task: str,
    method: str,
    shots: int,
    args: argparse.Namespace,
) -> None:
    """One cell, in lm-eval's own output."""
    folder = args.to / f"{method}-{shots}shot" / task
    if any(folder.rglob("results_*.json")):
        return
    steering = {"method": method} if method == "none" else {"method": method, "dev": args.dev}
    tracker = EvaluationTracker(output_path=str(folder))
    try:
        results = simple_evaluate(
            lm.with_steering(**steering),
            tasks=[task],
            num_fewshot=shots,
            limit=args.limit,
            task_manager=manager,
            evaluation_tracker=tracker,
            bootstrap_iters=0,
        )
    except UsageError as error:
        raise SystemExit(f"{task}, {method}, {shots} shots: {error}") from error
    tracker.general_config_tracker.model_source = plugin.MODEL
    tracker.general_config_tracker.model_name = packaged_models.DEFAULT
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for name, rows in samples.items():
        tracker.save_results_samples(task_name=name, samples=rows)
    print(task, method, shots, results["results"][task].get("answer_match,none"), flush=True)


if __name__ == "__main__":
    main()
