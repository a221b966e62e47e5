"""The tasks with open answers: their subjects and sentences, and what is made of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import handle_non_serializable

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from harness_ext.pair_lists import Pair, read_pairs
from tasks.generation.tone import OTHER_TONE, process_results, tones
from tasks.word_task import OPINIONS, list_path
from tests.models import save_tiny

TONES = sorted(OTHER_TONE)
TASKS = [f"generate_{tone}" for tone in TONES]

each_tone = pytest.mark.parametrize("tone", TONES)


def pairs(tone: str) -> list[Pair]:
    return read_pairs(list_path(f"{tone}_opinions"))


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w']+", text.lower()))


@pytest.fixture(scope="module")
def tasks(seeded: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    return seeded("taskvec_generation")


def test_there_is_a_list_for_every_tone() -> None:
    assert sorted(path.name for path in OPINIONS.iterdir()) == [
        f"{tone}_opinions.jsonl" for tone in TONES
    ]


def test_both_tones_have_the_same_subjects_in_the_same_splits() -> None:
    one, other = ([(pair.x, pair.split) for pair in pairs(tone)] for tone in TONES)
    assert one == other


def test_there_are_60_subjects_to_show_and_50_to_test_and_none_twice() -> None:
    splits = Counter(pair.split for pair in pairs("positive"))
    assert splits["train"] >= 60 and splits["test"] == 50
    assert len({pair.x for pair in pairs("positive")}) == splits.total()


def test_a_subject_is_short_and_says_nothing_of_a_tone() -> None:
    for subject in (pair.x[0] for pair in pairs("positive")):
        assert 2 <= len(subject.split()) <= 8, subject
        assert " ".join(subject.split()) == subject and "→" not in subject
        assert list(tones(subject)) == [], subject


@each_tone
def test_sentences_are_short_clean_and_the_only_answer_of_their_subject(tone: str) -> None:
    for _, sentences, *_ in pairs(tone):
        (text,) = sentences
        assert 5 <= len(text.split()) <= 14, text
        assert " ".join(text.split()) == text and text.isprintable()
        assert text[0].isupper() and text[-1] in ".!"
        assert "→" not in text and "’" not in text


def test_no_two_sentences_are_nearly_the_same_or_begin_alike() -> None:
    """At most half of the words of any two are shared, and three openings at most are one word."""
    every = [pair.y[0] for tone in TONES for pair in pairs(tone)]
    for one, other in combinations(every, 2):
        shared = len(words(one) & words(other))
        assert shared <= len(words(one) | words(other)) / 2, (one, other)
    assert max(Counter(text.split()[0] for text in every).values()) <= 3


@each_tone
def test_the_lexicon_finds_the_tone_of_nearly_all_sentences_and_never_the_other_one(
    tone: str,
) -> None:
    """The README gives these figures."""
    texts = [pair.y[0] for pair in pairs(tone)]
    right = [process_results({"tone": tone}, [text])["tone_match"] for text in texts]
    wrong = [process_results({"tone": OTHER_TONE[tone]}, [text])["tone_match"] for text in texts]
    assert len(texts) == 124
    assert sum(right) == {"positive": 123, "negative": 121}[tone]
    assert sum(wrong) == 0


def test_there_is_a_task_for_every_tone_and_the_groups_hold_neither(
    manager: TaskManager, tasks: dict[str, Any], tasks_folder: Path
) -> None:
    assert sorted(tasks) == TASKS
    assert [name for name in manager.all_subtasks if name.startswith("generate")] == TASKS
    assert not set(TASKS) & set(manager.load("taskvec")["tasks"])
    for tone in TONES:
        path = manager.task_index[f"generate_{tone}"].yaml_path
        assert path == tasks_folder / "generation" / f"{tone}.yaml"


def test_every_task_is_shaped_like_a_word_task_with_longer_answers(tasks: dict[str, Any]) -> None:
    for name, task in tasks.items():
        config = task.config
        assert isinstance(task.VERSION, float) and config.num_fewshot is None, name
        assert (config.target_delimiter, config.fewshot_delimiter) == (" ", "\n")
        assert config.generation_kwargs["max_gen_toks"] == 24
        assert config.generation_kwargs["until"] == ["\n"]
        doc = task.eval_docs[0]
        assert task.fewshot_context(doc, 0) == f"Example: {doc['query']} →"
        assert task.accepted_answers(doc) == [doc["target"]]


def test_prompts_of_one_subject_differ_in_tone_only(tasks: dict[str, Any]) -> None:
    sentences = {
        name: {pair.x[0]: pair.y[0] for pair in task.pairs if pair.split == "train"}
        for name, task in tasks.items()
    }
    for docs in zip(*(task.eval_docs for task in tasks.values()), strict=True):
        subjects = []
        for (name, task), doc in zip(tasks.items(), docs, strict=True):
            *lines, query = task.fewshot_context(doc, 8).split("\n")
            shown = [line.removeprefix("Example: ").split(" → ") for line in lines]
            assert all(sentences[name][subject] == sentence for subject, sentence in shown)
            subjects.append([query, *(subject for subject, _ in shown)])
        assert len(subjects[0]) == 9 and subjects[0] == subjects[1]


def run(model: Any, manager: TaskManager, **settings: Any) -> Any:
    return simple_evaluate(model=model, tasks=TASKS, task_manager=manager, **settings)


def test_an_answer_counts_in_the_task_of_its_tone_alone(manager: TaskManager, rule_lm: Any) -> None:
    """Half of the answers are lovely, the others no opinion."""
    answers = [" A lovely place.", " A place."]
    lm = rule_lm(lambda request: answers[request.doc_id % 2])
    result = run(lm, manager, num_fewshot=8)
    assert json.dumps(result, default=handle_non_serializable)
    metrics = ["tone_match", "tone_balance", "opinion_ratio"]
    found = {task: [result["results"][task][f"{name},none"] for name in metrics] for task in TASKS}
    assert found == {"generate_positive": [0.5, 0.5, 0.5], "generate_negative": [0.0, -0.5, 0.5]}
    for task in TASKS:
        assert result["samples"][task][0]["metrics"] == metrics
        assert result["results"][task]["tone_balance_stderr,none"] > 0


def test_documents_and_prompts_do_not_depend_on_the_limit(
    manager: TaskManager, rule_lm: Any
) -> None:
    full, limited = (
        run(rule_lm(lambda request: ""), manager, num_fewshot=2, limit=limit) for limit in (None, 3)
    )
    for task in TASKS:
        assert full["n-samples"][task] == {"original": 50, "effective": 50}
        hashes = [
            [(sample["doc_hash"], sample["prompt_hash"]) for sample in result["samples"][task]]
            for result in (full, limited)
        ]
        assert hashes[0][:3] == hashes[1]


@pytest.mark.parametrize("method", ["none", "tv"])
def test_a_model_answers_plain_and_steered(
    manager: TaskManager, tmp_path: Path, method: str
) -> None:
    """A tiny model, whose layer is chosen by the sentences' first tokens."""
    lm = TaskVectorLM(
        pretrained=str(save_tiny(tmp_path, "llama", "split")), method=method, demos=2, dev=2
    )
    result = run(lm, manager, limit=2)
    for task in TASKS:
        assert 0 <= result["results"][task]["tone_match,none"] <= 1
    steering = result["config"].get("steering", {})
    assert method == "none" or sorted(steering["tasks"]) == TASKS


@pytest.mark.parametrize("tone", ["neutral", None])
def test_a_tone_without_words_is_refused(
    tasks_folder: Path, tmp_path: Path, tone: str | None
) -> None:
    options = {"direction": "forward"} | ({} if tone is None else {"tone": tone})
    (tmp_path / "mine.yaml").write_text(
        f"include: {tasks_folder / 'generation' / '_generate.yaml'}\ntask: mine\n"
        f"dataset_name: positive_opinions\ndataset_kwargs: {json.dumps(options)}\n"
    )
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    with pytest.raises(UsageError, match=f"mine: tone={tone} is not known.*positive, negative"):
        manager.load("mine")
