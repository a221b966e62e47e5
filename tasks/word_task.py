"""A task over a list of pairs: `class: !function word_task.WordTask` in a task's YAML.

lm-eval loads this file by its path, so it cannot import what lies beside it: the YAML names the
sampler and the metrics as well.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import datasets
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

from harness_ext.errors import UsageError
from harness_ext.pair_lists import SPLITS, Pair, read_pairs, with_symbols

LISTS = Path(__file__).parent / "lists"
SENTENCES = Path(__file__).parent / "sentences"
OPINIONS = Path(__file__).parent / "opinions"
MIN_TEST_DOCUMENTS = 50
# The sides that queries come from.
DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    "forward": ("x",),
    "inverse": ("y",),
    "bijection": ("x", "y"),
}
OTHER_SIDE: Mapping[str, str] = {"x": "y", "y": "x"}

Document = dict[str, Any]


class WordTask(ConfigurableTask):
    """Queries from one side of a list of pairs, or both, answered with the other side.

    The YAML gives the list as `dataset_name` (see `list_path`), and as `dataset_kwargs` the
    direction: `forward` asks for y given x, `inverse` for x given y, `bijection` both in one task.
    `symbols`, a mapping, replaces every y by a symbol, in demonstrations and as the right answer.

    A document is a dictionary of the query, the target, all accepted answers (the target first),
    the pair, the query's side, and a draw number: where the test split has few queries, all of them
    stand again with draw 1, 2 … until there are at least 50 test documents, which get different
    demonstrations. Symbols change nothing of a pair's name, so that a task with symbols shows the
    same pairs as the one without.
    """

    sampler: Any  # lm-eval's attribute: whatever has sample(n, eval_doc=…)

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises :class:`UsageError` for a list, direction or symbols that cannot be used."""
        # lm-eval passes `class` on, which is no field of its own TaskConfig.
        super().__init__(config={key: value for key, value in config.items() if key != "class"})

    def download(self, dataset_kwargs: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Read the pairs into the splits `train` and `test`."""
        options = dict(dataset_kwargs or {})
        direction = str(options.pop("direction", None))
        if direction not in DIRECTIONS:
            raise UsageError(
                f"{self.task_name}: direction={direction} is not known. Write dataset_kwargs: "
                f"{{direction: …}} into the task's YAML with one of {', '.join(DIRECTIONS)}."
            )
        self.direction = direction
        symbols = options.pop("symbols", {})
        pairs = self.read(options)
        self.pairs = with_symbols(pairs, symbols, self.task_name) if symbols else pairs
        queries = {
            split: documents((pair for pair in self.pairs if pair.split == split), direction)
            for split in SPLITS
        }
        for split in SPLITS:
            if not queries[split]:
                raise UsageError(f"{self.task_name}: {self.DATASET_NAME} has no {split} pair.")
        self.draws = math.ceil(MIN_TEST_DOCUMENTS / len(queries["test"]))
        queries["test"] = [
            {**doc, "draw": draw} for draw in range(self.draws) for doc in queries["test"]
        ]
        self.dataset = datasets.DatasetDict(
            {split: datasets.Dataset.from_list(docs) for split, docs in queries.items()}
        )

    def read(self, options: Mapping[str, Any]) -> list[Pair]:
        """The pairs of the list, which is a local file; `options` is the rest of dataset_kwargs."""
        return read_pairs(list_path(self.DATASET_NAME))

    def accepted_answers(self, doc: Document) -> list[str]:
        """Every answer that counts as right, the target first."""
        return list(doc["answers"])

    @cached_property
    def output_space(self) -> frozenset[str]:
        """All accepted answers of the task, of both splits."""
        return frozenset().union(
            *(self._words_of_side[OTHER_SIDE[side]] for side in DIRECTIONS[self.direction])
        )

    def fewshot_context(self, doc: Document, num_fewshot: int, **kwargs: Any) -> str:
        """lm-eval's prompt, the sampler being told which document it draws for.

        Raises :class:`UsageError` where fewer demonstrations are available.
        """
        sampler = self.sampler
        self.sampler = _SamplerFor(doc, sampler)
        try:
            prompt: str = super().fewshot_context(doc, num_fewshot=num_fewshot, **kwargs)
        except UsageError as error:
            raise UsageError(f"{self.task_name}: {error}") from error
        finally:
            self.sampler = sampler
        return prompt

    def process_results(self, doc: Document, results: Sequence[Any]) -> dict[str, Any]:
        """lm-eval's scores of one answer, computed from the document and the words around it.

        Where queries stand in several documents, each score comes again together with its query
        as `…_stderr`, for the standard error (see `aggregation`).
        """
        around = {
            "metrics": list(super().aggregation()),
            "output_space": self.output_space,
            "side_words": self._words_of_side[OTHER_SIDE[doc["side"]]],
            "pair_words": self._words_of_pair[doc["pair"]],
        }
        scores: dict[str, Any] = super().process_results({**doc, **around}, results)
        clustered = {
            f"{name}_stderr": (doc["query"], scores[name])
            for name in self._clustered_metrics()
            if name in scores
        }
        return {**scores, **clustered}

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], Any]]:
        """How each score is aggregated; the standard error of a mean clusters by query.

        lm-eval computes the standard error of a mean as if documents were independent, and offers
        no other. A score called `answer_match_stderr` is written to the very place of that value,
        after it, so that the results file, the printed table and the groups use it. (A stray
        `answer_match_stderr_stderr` of "N/A" stays in the results file; for that reason this is
        done only where a query stands in several documents. Elsewhere both values are the same.)
        """
        return {
            **super().aggregation(),
            **{f"{name}_stderr": clustered_stderr for name in self._clustered_metrics()},
        }

    def dump_config(self) -> dict[str, Any]:
        """The configuration for the results file, functions by the names the YAML gives them."""
        dumped: dict[str, Any] = _with_names(self.config.to_dict(keep_callable=True))
        return dumped

    def _clustered_metrics(self) -> list[str]:
        if self.draws == 1:
            return []
        return [name for name, function in super().aggregation().items() if function is mean]

    @cached_property
    def _words_of_side(self) -> dict[str, frozenset[str]]:
        return {
            side: frozenset(form for pair in self.pairs for form in pair.forms(side))
            for side in OTHER_SIDE
        }

    @cached_property
    def _words_of_pair(self) -> dict[str, frozenset[str]]:
        return {pair.name: frozenset(pair.x + pair.forms("y")) for pair in self.pairs}


class _SamplerFor:
    """A sampler with the tested document filled in.

    lm-eval withholds the document unless demonstrations come from the test split itself.
    """

    def __init__(self, doc: Document, sampler: Any) -> None:
        self._doc = doc
        self._sampler = sampler

    def sample(self, n: int, eval_doc: Document | None = None) -> Sequence[Document]:
        drawn: Sequence[Document] = self._sampler.sample(n, eval_doc=self._doc)
        return drawn


def list_path(name: str | None) -> Path:
    """The file of a list, given its name in lists/, sentences/ or opinions/, or a .jsonl path.

    Raises :class:`UsageError` where there is no such file.
    """
    text = str(name)
    folders = (LISTS, SENTENCES, OPINIONS)
    known = {path.stem: path for folder in folders for path in folder.glob("*.jsonl")}
    path = Path(text) if text.endswith(".jsonl") else known.get(text, LISTS / f"{text}.jsonl")
    if not path.is_file():
        raise UsageError(
            f"There is no word list {text} ({path}). dataset_name takes the path of a .jsonl file "
            f"or one of: {', '.join(sorted(known))}."
        )
    return path


def documents(pairs: Iterable[Pair], direction: str) -> list[Document]:
    """Every query of the pairs as a document, with draw number 0.

    A pair of two equal words has one query, not one for each side.
    """
    return [
        {
            "query": pair.forms(side)[0],
            "target": pair.forms(OTHER_SIDE[side])[0],
            "answers": list(pair.forms(OTHER_SIDE[side])),
            "pair": pair.name,
            "side": side,
            "draw": 0,
        }
        for pair in pairs
        for side in DIRECTIONS[direction][: 1 if pair.x[0] == pair.y[0] else None]
    ]


def clustered_stderr(scores: Sequence[tuple[str, float]]) -> float | str:
    """The standard error of the mean of (cluster, score) rows, clusters being independent.

    The cluster-robust (sandwich) estimate √(G/(G−1) · Σ_g (Σ_{i in g} (s_i − s̄))²) / N, for N
    scores in G clusters of any sizes. With one score in each cluster this is the usual s/√N. For
    fewer than two clusters "N/A", lm-eval's word where there is no standard error.
    """
    average = sum(score for _, score in scores) / len(scores)
    residuals: dict[str, float] = defaultdict(float)
    for cluster, score in scores:
        residuals[cluster] += score - average
    clusters = len(residuals)
    if clusters < 2:
        return "N/A"
    squares = sum(residual**2 for residual in residuals.values())
    return math.sqrt(clusters / (clusters - 1) * squares) / len(scores)


def _with_names(value: Any) -> Any:
    """The value with every function or class in it replaced by module.name."""
    if isinstance(value, dict):
        return {key: _with_names(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_names(entry) for entry in value]
    # lm-eval names a module it has loaded by path after that path.
    return f"{Path(value.__module__).name}.{value.__qualname__}" if callable(value) else value
