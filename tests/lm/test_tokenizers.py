"""Whatever a tokenizer does to the arrow, the token steered is the one that ends it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness_ext.errors import UsageError
from harness_ext.lm import TaskVectorLM
from tests.lm.by_hand import asked, continuation, fed, score
from tests.lm.conftest import Results, answers
from tests.lm.oracle import Oracle
from tests.models import TOKENIZERS, save_tiny, tiny_tokenizer

LAYER = 1
DOCUMENTS = 4
# Words that every tokenizer of the tests knows; answers of one to three of them.
WORDS = ("cat", "dog", "bird", "fish", "red", "green", "blue", "hot", "cold", "big", "left", "good")
CHOICES = ["yes", "no no", "two three four"]


@pytest.fixture(scope="session")
def written_task(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """A task of whole words, its last four documents tested; settings change its YAML."""
    folder = tmp_path_factory.mktemp("written")
    rows = [{"question": w, "answer": CHOICES[n % 3], "n": n % 3} for n, w in enumerate(WORDS)]
    for split, part in {"train": rows[:-DOCUMENTS], "test": rows[-DOCUMENTS:]}.items():
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, part)))

    def make(output_type: str, **settings: Any) -> dict[str, Any]:
        choosing = output_type == "multiple_choice"
        return {
            "task": "written",
            "output_type": output_type,
            "dataset_path": "json",
            "dataset_kwargs": {
                "data_files": {s: str(folder / f"{s}.jsonl") for s in ("train", "test")},
                "cache_dir": str(folder / "cache"),
            },
            "training_split": "train",
            "test_split": "test",
            "doc_to_text": "Example: {{question}} →",
            "doc_to_target": "n" if choosing else "{{answer}}",
            "doc_to_choice": CHOICES if choosing else None,
            "target_delimiter": " ",
            "fewshot_delimiter": "\n",
            **settings,
        }

    return make


@pytest.fixture(scope="module", params=TOKENIZERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with the tokenizer of that kind."""
    return save_tiny(tmp_path_factory.mktemp(kind), "llama", kind)


@pytest.fixture(scope="module")
def oracle(model: Path) -> Oracle:
    return Oracle(model)


def steering(model: Path, **arguments: Any) -> TaskVectorLM:
    return TaskVectorLM(
        **{"pretrained": str(model), "demos": 3, "layer": LAYER, "batch_size": 3, **arguments}
    )


def choice_scores(
    found: Results, config: dict[str, Any], oracle: Oracle, **settings: Any
) -> list[list[tuple[float, bool]]]:
    return [
        [score(oracle, a, choice, LAYER) for choice in a.continuations]
        for a in asked(found, config, oracle, LAYER, **settings)
    ]


def assert_scores(found: list[Any], expected: list[list[tuple[float, bool]]]) -> None:
    for per_choice, right in zip(found, expected, strict=True):
        for [(value, greedy)], (right_score, right_greedy) in zip(per_choice, right, strict=True):
            assert value == pytest.approx(right_score, abs=1e-3)
            assert greedy == right_greedy


METHODS_AND_SHOTS = [("tv", 0), ("tv", 2), ("tv_ms", 2)]


@pytest.mark.parametrize(("method", "shots"), METHODS_AND_SHOTS)
def test_generated_answers_follow_from_the_cues(
    method: str,
    shots: int,
    model: Path,
    oracle: Oracle,
    evaluate: Callable[..., Results],
    written_task: Callable[..., dict[str, Any]],
) -> None:
    kwargs = {"until": ["\n"], "max_gen_toks": 5}
    config = written_task("generate_until", generation_kwargs=kwargs)
    found = evaluate(steering(model, method=method), config, num_fewshot=shots)
    expected = [
        [[continuation(oracle, a, LAYER, tokens=5)]]
        for a in asked(found, config, oracle, LAYER, shots=shots, method=method)
    ]
    assert answers(found, "written") == expected


@pytest.mark.parametrize(("method", "shots"), METHODS_AND_SHOTS)
@pytest.mark.parametrize("delimiter", [" ", ""])
def test_choices_of_different_lengths_are_scored_after_the_cues(
    delimiter: str,
    method: str,
    shots: int,
    model: Path,
    oracle: Oracle,
    evaluate: Callable[..., Results],
    written_task: Callable[..., dict[str, Any]],
) -> None:
    config = written_task("multiple_choice", target_delimiter=delimiter)
    found = evaluate(steering(model, method=method), config, num_fewshot=shots)
    expected = choice_scores(found, config, oracle, shots=shots, method=method)
    assert_scores(answers(found, "written"), expected)


@pytest.mark.parametrize("begins", ["", " "])
def test_a_target_of_several_tokens_is_scored_after_the_cue(
    begins: str,
    model: Path,
    oracle: Oracle,
    evaluate: Callable[..., Results],
    written_task: Callable[..., dict[str, Any]],
) -> None:
    config = written_task("loglikelihood", doc_to_target=begins + "two three {{answer}}")
    found = evaluate(steering(model), config)
    expected = []
    for a in asked(found, config, oracle, LAYER):
        target = begins + "two three " + a.document["answer"]
        ids, context = fed(oracle, a.prompt, target)
        assert len(ids) - context > 2
        expected.append([score(oracle, a, target, LAYER)])
    assert_scores(answers(found, "written"), expected)


def test_the_kinds_differ_in_what_they_join_over_the_border() -> None:
    joined = {
        kind
        for kind in TOKENIZERS
        if (encode := tiny_tokenizer(kind).encode)("a →") != encode("a → b")[: len(encode("a →"))]
    }
    assert joined == {"after", "across"}


def test_a_cue_joined_with_the_answer_is_a_mistake(
    tmp_path: Path,
    evaluate: Callable[..., Results],
    written_task: Callable[..., dict[str, Any]],
) -> None:
    model = save_tiny(tmp_path, "llama", "across")
    config = written_task("multiple_choice", doc_to_choice=["yes", "xam", "no"])
    with pytest.raises(UsageError, match=r"joins the cue '→' and the start of the answer ' ?xam'"):
        evaluate(steering(model), config)


def with_bos(oracle: Oracle, times: int) -> Oracle:
    """The oracle, its prompts beginning with so many BOS tokens, however they are written."""
    own = oracle.tokenizer

    def ids(text: str) -> list[int]:
        bare = own(text.removeprefix("<s>"), add_special_tokens=False)["input_ids"]
        return [*[own.bos_token_id] * times, *bare]

    oracle.ids = ids  # type: ignore[method-assign]
    return oracle


@pytest.mark.parametrize("kind", ["words", "spm", "split"], indirect=True)
@pytest.mark.parametrize("add_bos_token", [True, False])
def test_the_cue_is_found_with_and_without_a_beginning_of_sequence(
    add_bos_token: bool,
    kind: str,
    model: Path,
    evaluate: Callable[..., Results],
    written_task: Callable[..., dict[str, Any]],
) -> None:
    lm = steering(model, add_bos_token=add_bos_token)
    oracle = with_bos(Oracle(model), times=int(add_bos_token))
    config = written_task("multiple_choice")
    found = evaluate(lm, config)
    assert_scores(answers(found, "written"), choice_scores(found, config, oracle))
    spoken = written_task("generate_until", generation_kwargs={"until": ["\n"], "max_gen_toks": 3})
    texts = evaluate(lm, spoken)
    assert answers(texts, "written") == [
        [[continuation(oracle, a, LAYER, tokens=3)]] for a in asked(texts, spoken, oracle, LAYER)
    ]


@pytest.mark.parametrize("kind", ["words", "split"], indirect=True)
def test_a_beginning_of_sequence_written_in_the_prompt_is_not_doubled(
    kind: str,
    model: Path,
    evaluate: Callable[..., Results],
    written_task: Callable[..., dict[str, Any]],
) -> None:
    oracle = with_bos(Oracle(model), times=1)
    config = written_task("multiple_choice", description="<s>")
    found = evaluate(steering(model), config)
    assert all(a.prompt.startswith("<s>Example") for a in asked(found, config, oracle, LAYER))
    assert_scores(answers(found, "written"), choice_scores(found, config, oracle))
