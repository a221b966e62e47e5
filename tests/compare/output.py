"""Writes what lm-eval writes with --output_path and --log_samples, for made-up answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

Document = dict[str, Any]
Right = Callable[[Document], int]

DATE = "2026-05-06T07-08-09.123456"
SIDES = {"forward": "x", "inverse": "y", "bijection": "xy"}
ENVIRONMENT = """PyTorch version: 2.13.0+cpu
Is debug build: False

Python version: 3.11.7 (main) [GCC 12.2.0] (64-bit runtime)
Model name: Some(R) Processor
"""


def pairs(count: int) -> list[tuple[str, str]]:
    """Made-up pairs of words."""
    return [(f"a{number}", f"A{number}") for number in range(count)]


def documents(task: str, words: Sequence[tuple[str, str]], draws: int = 1) -> list[Document]:
    """The documents of a word task, draw by draw."""
    return [
        {
            "query": x if side == "x" else y,
            "target": y if side == "x" else x,
            "answers": [y if side == "x" else x],
            "pair": f"{x}|{y}",
            "side": side,
            "draw": draw,
        }
        for draw in range(draws)
        for x, y in words
        for side in SIDES[task.partition("_")[0]]
    ]


def sample(number: int, doc: Document, right: int) -> dict[str, Any]:
    """A row of lm-eval's samples file."""
    text = f" {doc['target']}" if right else " no → idea\u2028"
    prompt = f"Example: {doc['query']} →"
    return {
        "doc_id": number,
        "doc": doc,
        "target": doc["target"],
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}},
        "resps": [[text]],
        "filtered_resps": [text],
        "filter": "none",
        "metrics": ["answer_match", "exact_match", "answer_match_stderr"],
        "doc_hash": hashlib.sha256(json.dumps(doc).encode()).hexdigest(),
        "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest(),
        "answer_match": float(right),
        "exact_match": float(right),
        "answer_match_stderr": [doc["query"], float(right)],
    }


def results_file(
    tasks: Mapping[str, int], method: str, shots: int, pretrained: str
) -> dict[str, Any]:
    """lm-eval's results file for tasks with so many documents; method `hf` is the stock model."""
    steering = {
        "version": "0.1.0",
        "arguments": {"method": method, "demos": 10, "dev": 50, "seed": 0},
        "tasks": {
            task: {"shots": shots, "layer": 3 + number, "development_accuracy": number / 10}
            for number, task in enumerate(tasks if method.startswith("tv") else ())
        },
    }
    metadata = {"version": 1.0, "config_source": "/home/anna/src/tasks/upper.yaml"}
    return {
        "results": {task: {"answer_match,none": 0.5} for task in tasks},
        "configs": {
            task: {"task": task, "doc_to_text": "Example: {{query}} →", "metadata": metadata}
            for task in tasks
        },
        "n-shot": dict.fromkeys(tasks, shots),
        "n-samples": {task: {"original": n, "effective": n} for task, n in tasks.items()},
        "config": {
            "model": "hf" if method == "hf" else "taskvec-hf",
            "model_args": {"pretrained": pretrained, "token": "hf_secret"},
            "model_dtype": "torch.float32",
            "fewshot_seed": 1234,
            **({} if method == "hf" else {"steering": steering}),
        },
        "date": 1_778_051_289.5,
        "pretty_env_info": ENVIRONMENT,
        "upper_git_hash": "0123abc",
        "lm_eval_version": "0.4.13",
        "transformers_version": "5.24.0",
        "total_evaluation_time_seconds": "17.5",
        "model_name": pretrained,
        "model_name_sanitized": pretrained.replace("/", "__"),
    }


def write_output(
    folder: Path,
    answers: Mapping[str, Sequence[tuple[Document, int]]],
    method: str = "tv",
    shots: int = 0,
    pretrained: str = "packaged:tiny",
) -> Path:
    """Write a run's results and samples files into the folder; returns the results file."""
    folder.mkdir(parents=True, exist_ok=True)
    for task, rows in answers.items():
        lines = (
            json.dumps(sample(number, doc, right), ensure_ascii=False)
            for number, (doc, right) in enumerate(rows)
        )
        (folder / f"samples_{task}_{DATE}.jsonl").write_text("\n".join(lines) + "\n")
    counts = {task: len(rows) for task, rows in answers.items()}
    path = folder / f"results_{DATE}.json"
    results = results_file(counts, method, shots, pretrained)
    for task, rows in answers.items():
        results["results"][task]["answer_match,none"] = fmean(right for _, right in rows)
    path.write_text(json.dumps(results))
    return path


def answered(
    tasks: Sequence[str], right: Right, count: int = 4, draws: int = 1
) -> dict[str, list[tuple[Document, int]]]:
    """Answers to the documents of the tasks over `count` pairs: 1 where `right` says so."""
    return {
        task: [(doc, right({**doc, "task": task})) for doc in documents(task, pairs(count), draws)]
        for task in tasks
    }
