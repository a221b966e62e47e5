"""Tasks that are not ours, as a user writes them: YAML files in a folder, run by lm-eval's command.

Their data are local files; nothing else tells them from tasks over a hub's data set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from lm_eval.__main__ import cli_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.tasks import manager as manager_module
from torch import nn

from harness_ext.combining import TASK_VECTORS
from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.steering.task_context import TaskContext
from tests.lm.by_hand import Asked, continuation, score
from tests.lm.conftest import Results
from tests.lm.oracle import Oracle

LAYER = 2
DEMOS = 3
CHOICES = ["true", "false", "neither one"]
Row = dict[str, Any]

QUESTIONS = {
    # Words that stand in one split alone, so that every text fed shows where it comes from.
    "train": [f"t{letter}" for letter in "abcdefghi"],
    "dev": [f"v{letter}" for letter in "jklmnop"],
    "test": [f"z{letter}" for letter in "qrstu"],
}


def rows(split: str) -> list[Row]:
    return [
        {"question": q, "right": n % 3, "reply": f"{q}{q[::-1]}"}
        for n, q in enumerate(QUESTIONS[split])
    ]


@dataclass(frozen=True)
class Shape:
    """A task of lm-eval's own kind: its YAML, and how its prompts read."""

    config: dict[str, Any]
    pool: str
    text: Callable[[Row], str]
    answer: Callable[[Row], str]
    separator: str = "\n\n"
    description: str = ""

    def prompt(self, shown: Sequence[Row], query: Row) -> str:
        done = [f"{self.text(d)} {self.answer(d)}{self.separator}" for d in shown]
        return self.description + "".join([*done, self.text(query)])


def asking(row: Row) -> str:
    return f"Question: {row['question']}?\nAnswer:"


SHAPES = {
    "choice": Shape(
        config={
            "output_type": "multiple_choice",
            "training_split": "train",
            "validation_split": "dev",
            "test_split": "test",
            "description": "Say what holds.\n\n",
            "doc_to_text": "Question: {{question}}?\nAnswer:",
            "doc_to_choice": CHOICES,
            "doc_to_target": "right",
            "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
        },
        pool="train",
        text=asking,
        answer=lambda row: CHOICES[row["right"]],
        description="Say what holds.\n\n",
    ),
    "generation": Shape(
        config={
            "output_type": "generate_until",
            "training_split": "train",
            "fewshot_split": "dev",
            "test_split": "test",
            "doc_to_text": "Question: {{question}}?\nAnswer:",
            "doc_to_target": "{{reply}}",
            "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 6},
            "metric_list": [{"metric": "exact_match"}],
        },
        pool="dev",
        text=asking,
        answer=lambda row: str(row["reply"]),
    ),
    "samples": Shape(
        config={
            "output_type": "multiple_choice",
            "test_split": "test",
            "fewshot_config": {"sampler": "first_n", "samples": rows("dev")},
            "doc_to_text": "Question: {{question}}?\nAnswer:",
            "doc_to_choice": CHOICES,
            "doc_to_target": "right",
            "fewshot_delimiter": "\n###\n",
        },
        pool="dev",
        text=asking,
        answer=lambda row: CHOICES[row["right"]],
        separator="\n###\n",
    ),
}


@pytest.fixture(scope="module")
def users_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user's own: a YAML file for every shape, the data beside them."""
    folder = tmp_path_factory.mktemp("users")
    for split in QUESTIONS:
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows(split))))
    files = {split: str(folder / f"{split}.jsonl") for split in QUESTIONS}
    for name, shape in SHAPES.items():
        config = {
            "task": f"my_{name}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")},
            **shape.config,
        }
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return folder


@pytest.fixture(scope="module")
def oracle(folder: Path) -> Oracle:
    return Oracle(folder)


@pytest.fixture
def lm_eval_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users_folder: Path, folder: Path
) -> Callable[..., Results]:
    """Runs `lm_eval` as it is typed, without its own tasks, and returns what it writes."""
    (tmp_path / "stock").mkdir()
    monkeypatch.setattr(manager_module, "__file__", str(tmp_path / "stock" / "manager.py"))
    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)

    def run(name: str, model_args: str, *options: str) -> Results:
        output = tmp_path / "output"
        typed = ["lm_eval", "--model", "taskvec-hf", "--tasks", f"my_{name}"]
        typed += ["--include_path", str(users_folder), "--output_path", str(output)]
        typed += ["--model_args", f"pretrained={folder},{model_args}", "--log_samples", *options]
        monkeypatch.setattr("sys.argv", typed)
        cli_evaluate()
        [results] = output.rglob("results_*.json")
        [samples] = output.rglob("samples_*.jsonl")
        found: Results = json.loads(results.read_text())
        found["samples"] = list(map(json.loads, samples.read_text().splitlines()))
        return found

    return run


def requested(
    name: str, folder: Path, found: Results, oracle: Oracle, shots: int, layer: int
) -> list[Asked]:
    """The tested documents, each with the vector of demonstrations from its few-shot documents."""
    shape = SHAPES[name]
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    context = TaskContext(manager.load([f"my_{name}"])["tasks"][f"my_{name}"], {})
    asked = []
    for sample in found["samples"]:
        document = sample["doc"]
        order = context.order(document, 0, 0)
        shown, dummy = order[:DEMOS], order[max(DEMOS, shots)]
        assert all(d["question"] in QUESTIONS[shape.pool] for d in order)
        prompts = [arguments["arg_0"] for arguments in sample["arguments"].values()]
        assert set(prompts) == {prompts[0]}
        assert prompts[0].endswith(shape.text(document))
        if not shots:
            assert prompts[0] == shape.prompt([], document)
        asked.append(
            Asked(
                document=document,
                prompt=prompts[0],
                continuations=[str(a["arg_1"]) for a in sample["arguments"].values()],
                vectors=[oracle.state(shape.prompt(shown, dummy), layer)],
            )
        )
    return asked


@pytest.mark.parametrize("shots", [0, 2])
@pytest.mark.parametrize("name", SHAPES)
def test_a_users_task_is_steered_by_its_own_few_shot_documents(
    name: str,
    shots: int,
    lm_eval_command: Callable[..., Results],
    users_folder: Path,
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = f"cue=Answer:,demos={DEMOS},layer={LAYER}"
    found = lm_eval_command(name, arguments, "--num_fewshot", str(shots), "--batch_size", "3")
    assert found["config"]["steering"]["tasks"][f"my_{name}"]["layer"] == LAYER
    assert len(found["samples"]) == len(QUESTIONS["test"])
    asked = requested(name, users_folder, found, oracle, shots, LAYER)
    # The cue ends the prompt here, whatever its text: the oracle steers at the last token.
    monkeypatch.setattr("tests.lm.by_hand.cues", lambda own, text: [len(own.ids(text)) - 1])
    for sample, a in zip(found["samples"], asked, strict=True):
        if name == "generation":
            text = continuation(oracle, a, LAYER, tokens=6, until=["\n\n"])
            assert sample["resps"] == [[text]]
            continue
        scores = [score(oracle, a, choice, LAYER) for choice in a.continuations]
        for [(value, greedy)], (expected, likeliest) in zip(sample["resps"], scores, strict=True):
            assert float(value) == pytest.approx(expected, abs=1e-3)
            assert str(greedy) == str(likeliest)
        best = max(range(3), key=lambda choice: scores[choice][0])
        assert sample["acc"] == float(best == a.document["right"])


@pytest.mark.parametrize("method", TASK_VECTORS)
@pytest.mark.parametrize("name", SHAPES)
def test_a_layer_is_chosen_for_it_and_said_in_the_results(
    name: str, method: str, lm_eval_command: Callable[..., Results]
) -> None:
    arguments = f"cue=Answer:,demos={DEMOS},dev=4,method={method}"
    found = lm_eval_command(name, arguments, "--num_fewshot", "2", "--limit", "2")
    record = found["config"]["steering"]["tasks"][f"my_{name}"]
    assert record["chosen_by"] == "development accuracy"
    assert len(record["development_accuracy_by_layer"]) == 4
    assert record["shots"] == 2


@pytest.fixture
def texts_fed(
    steered: Callable[..., TaskVectorLM],
) -> Iterator[Callable[..., tuple[TaskVectorLM, list[str]]]]:
    """Makes a model, and a list that fills with every text that is ever run through it."""
    handles = []

    def make(**arguments: Any) -> tuple[TaskVectorLM, list[str]]:
        lm = steered(**arguments)
        texts: list[str] = []

        def note(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
            texts.extend(map(str, lm.tokenizer.batch_decode(ids)))

        handles.append(lm.model.register_forward_pre_hook(note, with_kwargs=True))
        return lm, texts

    yield make
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("method", TASK_VECTORS)
@pytest.mark.parametrize("average", [0, 3])
@pytest.mark.parametrize("name", SHAPES)
def test_no_tested_document_is_ever_shown_with_its_answer(
    name: str,
    average: int,
    method: str,
    users_folder: Path,
    texts_fed: Callable[..., tuple[TaskVectorLM, list[str]]],
    evaluate: Callable[..., Results],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = SHAPES[name]
    config = yaml.safe_load((users_folder / f"{name}.yaml").read_text())
    lm, texts = texts_fed(method=method, cue="Answer:", average=average, demos=DEMOS, dev=5)
    evaluate(lm, config, num_fewshot=2)
    tested = [text for text in texts if any(q in text for q in QUESTIONS["test"])]
    others = [text for text in texts if text not in tested]
    assert tested and any("Question: " in text for text in others)
    for text in tested:
        # The tested query is the last of its prompt: no other query follows an answer to it.
        last = text[text.rindex("Question: ") :]
        assert sum(text.count(q) for q in QUESTIONS["test"]) == sum(
            last.count(q) for q in QUESTIONS["test"]
        )
    unused = [
        q for split in QUESTIONS if split not in (shape.pool, "test") for q in QUESTIONS[split]
    ]
    assert not [text for text in texts for q in unused if f"Question: {q}?" in text]


# ---- a cue that stands elsewhere too -------------------------------------------------------------

HOLDING_THE_CUE = {
    "process_docs": lambda docs: docs.map(
        lambda d: {**d, "question": f"is Answer: {d['question']} an Answer:"}
    ),
}


def test_the_last_cue_counts_where_a_question_holds_the_cue_too(
    users_folder: Path,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
    oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = yaml.safe_load((users_folder / "generation.yaml").read_text())
    config = {**config, **HOLDING_THE_CUE}
    lm = steered(cue="Answer:", layer=LAYER, demos=DEMOS, batch_size=3)
    found = evaluate(lm, config, num_fewshot=2)
    task = TaskManager(include_defaults=False).load([config])["tasks"]["my_generation"]
    context, shape = TaskContext(task, {}), SHAPES["generation"]
    monkeypatch.setattr("tests.lm.by_hand.cues", lambda own, text: [len(own.ids(text)) - 1])
    for sample in found["samples"]["my_generation"]:
        document, prompt = sample["doc"], sample["arguments"][0][0]
        assert prompt.count("Answer:") == 9
        order = context.order(document, 0, 0)
        vector = oracle.state(shape.prompt(order[:DEMOS], order[DEMOS]), LAYER)
        a = Asked(document, prompt, [], [vector])
        text = continuation(oracle, a, LAYER, tokens=6, until=["\n\n"])
        assert sample["resps"] == [[text]]


@pytest.mark.parametrize("method", ["tv_m", "tv_ms"])
@pytest.mark.parametrize(
    "settings",
    [
        HOLDING_THE_CUE,
        {"doc_to_target": "{{reply}} Answer: {{reply}}"},
        {"doc_to_text": "Question: {{question}} in Answer:s?\n", "gen_prefix": "Answer:"},
    ],
    ids=["in the query", "in the answer", "in the query, prefilled"],
)
def test_a_cue_inside_a_word_is_a_mistake_where_every_cue_is_steered(
    settings: dict[str, Any],
    method: str,
    users_folder: Path,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    config = yaml.safe_load((users_folder / "generation.yaml").read_text())
    lm = steered(method=method, cue="Answer:", layer=LAYER, demos=DEMOS)
    with pytest.raises(UsageError) as error:
        evaluate(lm, {**config, **settings}, num_fewshot=2)
    message = str(error.value)
    assert "'Answer:'" in message and "a cue that occurs in no word" in message
    assert "\n" not in message


@pytest.mark.parametrize("method", ["tv_m", "tv_ms"])
def test_a_cue_in_the_description_is_not_taken_for_one(
    method: str,
    users_folder: Path,
    steered: Callable[..., TaskVectorLM],
    evaluate: Callable[..., Results],
) -> None:
    """It is steered at the cues of queries, or refused, but never at another place."""
    config = yaml.safe_load((users_folder / "generation.yaml").read_text())
    lm = steered(method=method, cue="Answer:", layer=LAYER, demos=DEMOS)
    described = {**config, "description": "After Answer: comes the answer.\n\n"}
    with pytest.raises(
        UsageError, match=r"the cue 'Answer:' occurs 3 times .* should hold it 2 times"
    ):
        evaluate(lm, described, num_fewshot=2, limit=1)
