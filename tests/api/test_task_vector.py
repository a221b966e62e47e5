"""`task_vector` against states read by hand and a slow loop over layers; the README's example."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tokenizers import processors
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from harness_ext import Injection, inject, task_vector
from harness_ext.errors import UsageError
from harness_ext.steering import store
from harness_ext.steering.context import Document
from harness_ext.steering.episodes import (
    Episode,
    EpisodeShape,
    development_episodes,
    reusable_episodes,
)
from harness_ext.steering.pairs import PairContext
from tests import vector_files
from tests.lm.oracle import Oracle
from tests.models import LAYERS, save_tiny, tiny_model, tiny_tokenizer
from tests.steering import oracle as layers_oracle

torch.set_num_threads(1)

ROOT = Path(__file__).resolve().parents[2]
PAIRS = [(f"{a}{b}", f"{b}{a}") for a in "bcd" for b in "klmno"]
SMALL: dict[str, Any] = {"demos": 3, "average": 4, "dev": 40}
TEMPLATE = "Q: {x} →"


def asked(pairs: Sequence[Any] = PAIRS, delimiter: str = " ") -> PairContext:
    return PairContext.of(pairs, TEMPLATE, delimiter, "\n")


def prompt(shown: Sequence[Document], query: Document, delimiter: str = " ") -> str:
    lines = [f"Q: {d['x']} →{delimiter}{d['answers'][0]}\n" for d in shown]
    return "".join([*lines, f"Q: {query['x']} →"])


def extraction_prompts(episode: Episode, delimiter: str = " ") -> list[str]:
    return [prompt(episode.demonstrations, dummy, delimiter) for dummy in episode.dummies]


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text", "bloom", "falcon"])
@pytest.mark.parametrize("queries", [1, 2])
def test_the_vector_is_the_mean_of_the_states_that_its_prompts_end_in(
    family: str, queries: int
) -> None:
    tokenizer = tiny_tokenizer("split")
    model = tiny_model(family, len(tokenizer))
    found = task_vector(
        model, tokenizer, PAIRS, layer=2, queries=queries, seed=5, template=TEMPLATE, **SMALL
    )
    prompts = [
        text
        for episode in reusable_episodes(asked(), EpisodeShape(3, 0, queries), 4, 5)
        for text in extraction_prompts(episode)
    ]
    assert len(set(prompts)) == 4 * queries
    states = [layers_oracle.states(model, tokenizer(text).input_ids)[2] for text in prompts]
    assert (found.layer, found.strength) == (2, None)
    assert (found.vector.shape, found.vector.dtype) == ((32,), torch.float32)
    torch.testing.assert_close(found.vector, torch.stack(states).mean(dim=0), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["joined", "words", "spm"])
def test_states_are_those_of_the_ids_that_a_users_own_prompts_have(kind: str) -> None:
    tokenizer = tiny_tokenizer(kind)
    model = tiny_model("llama", len(tokenizer))
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    pairs = list(zip(words, reversed(words), strict=True))
    found = task_vector(model, tokenizer, pairs, layer=1, demos=2, average=3, template=TEMPLATE)
    episodes = reusable_episodes(asked(pairs), EpisodeShape(2, 0, 1), 3, 0)
    states = [
        layers_oracle.states(model, tokenizer(text).input_ids)[1]
        for episode in episodes
        for text in extraction_prompts(episode)
    ]
    torch.testing.assert_close(found.vector, torch.stack(states).mean(dim=0), atol=1e-4, rtol=1e-4)


@pytest.fixture(scope="module")
def talkative(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model inclined to the letters that answers begin with: it gets some right by chance."""
    folder = save_tiny(tmp_path_factory.mktemp("talkative"), "llama", "split", seed=7)
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        for letter in "klmno":
            [token] = tokenizer.encode(letter)
            model.lm_head.weight[token] *= 10
    model.save_pretrained(folder)
    return folder


Candidate = tuple[int, float | None]


def by_hand(
    oracle: Oracle, seed: int, candidates: Sequence[Candidate]
) -> Mapping[Candidate, tuple[float, float]]:
    """Development accuracy and mean log-probability of each candidate, one prompt at a time."""
    context, shape = asked(delimiter=""), EpisodeShape(3, 0, 1)
    episodes = reusable_episodes(context, shape, 4, seed)
    shown = [{d["x"] for d in (*e.demonstrations, *e.dummies)} for e in episodes]
    queries = [e.query for e in development_episodes(context, shape, len(PAIRS), seed)]
    assert len({query["x"] for query in queries}) == len(PAIRS)
    found = {}
    for layer, strength in candidates:
        states = [oracle.state(extraction_prompts(e, "")[0], layer) for e in episodes]
        rights, log_probs = [], []
        for query in queries:
            unseen = [s for s, own in zip(states, shown, strict=True) if query["x"] not in own]
            if not unseen:
                continue
            ids = oracle.ids(prompt([], query))
            vector = torch.stack(unseen).mean(dim=0)
            row = oracle.logits(ids, layer, [vector], [len(ids) - 1], strength)[-1]
            [first] = oracle.ids(query["answers"][0][0])
            rights.append(int(row.argmax()) == first)
            log_probs.append(float(row.log_softmax(dim=0)[first]))
        found[layer, strength] = (sum(rights) / len(rights), sum(log_probs) / len(rights))
    return found


@pytest.mark.parametrize("mode", ["replace", "add"])
def test_layer_and_strength_are_those_a_slow_loop_over_the_pairs_chooses(
    mode: Any, talkative: Path
) -> None:
    oracle = Oracle(talkative)
    strengths = (None,) if mode == "replace" else (0.5, 1.0, 2.0, 4.0)
    candidates = [(layer, strength) for layer in range(LAYERS) for strength in strengths]
    chosen, accuracies = [], []
    for seed in range(4):
        expected = by_hand(oracle, seed, candidates)
        best = max(expected, key=lambda each: (*expected[each], -candidates.index(each)))
        found = task_vector(
            oracle.model,
            oracle.tokenizer,
            PAIRS,
            mode=mode,
            seed=seed,
            template=TEMPLATE,
            delimiter="",
            **SMALL,
        )
        assert (found.layer, found.strength) == best
        given = task_vector(
            oracle.model,
            oracle.tokenizer,
            PAIRS,
            layer=best[0],
            mode=mode,
            strength="auto" if best[1] is None else best[1],
            seed=seed,
            template=TEMPLATE,
            delimiter="",
            **SMALL,
        )
        torch.testing.assert_close(found.vector, given.vector, atol=1e-4, rtol=1e-4)
        chosen.append(best)
        accuracies += [accuracy for accuracy, _ in expected.values()]
    assert len(set(chosen)) > 1
    assert len(set(accuracies)) > 1


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return tiny_model("llama", len(tiny_tokenizer("split")))


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer("split")


def test_a_given_layer_costs_the_extraction_alone(model: PreTrainedModel, tokenizer: Any) -> None:
    with inject(model, []):  # takes it apart
        pass
    rows: list[int] = []
    handle = model.register_forward_pre_hook(
        lambda _, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    task_vector(model, tokenizer, PAIRS, layer=1, **SMALL)
    handle.remove()
    assert rows == [4]


def test_the_same_arguments_give_the_same_vector_and_another_seed_another(
    model: PreTrainedModel, tokenizer: Any
) -> None:
    first, again, other = (
        task_vector(model, tokenizer, PAIRS, seed=seed, layer=1, **SMALL) for seed in (0, 0, 1)
    )
    assert torch.equal(first.vector, again.vector)
    assert not torch.allclose(first.vector, other.vector)


def test_the_first_of_several_answers_is_shown(model: PreTrainedModel, tokenizer: Any) -> None:
    def vector(pairs: Sequence[Any]) -> Tensor:
        return task_vector(model, tokenizer, pairs, layer=1, **SMALL).vector

    several: list[Any] = [(x, [y, "else"]) for x, y in PAIRS]
    assert torch.equal(vector(several), vector(PAIRS))
    assert not torch.allclose(vector([(x, ("else", y)) for x, y in PAIRS]), vector(PAIRS))


def test_dropout_does_not_disturb_a_vector_and_is_back_afterwards(tokenizer: Any) -> None:
    model = tiny_model("gpt2", len(tokenizer))
    expected = task_vector(model, tokenizer, PAIRS, **SMALL)
    fresh = tiny_model("gpt2", len(tokenizer)).train()
    fresh.transformer.h[1].eval()
    modes = [module.training for module in fresh.modules()]
    found = task_vector(fresh, tokenizer, PAIRS, **SMALL)
    assert found.layer == expected.layer
    assert torch.equal(found.vector, expected.vector)
    assert [module.training for module in fresh.modules()] == modes
    assert not found.vector.requires_grad


def test_a_vector_may_not_be_made_while_one_is_injected(
    model: PreTrainedModel, tokenizer: Any
) -> None:
    with inject(model, []), pytest.raises(UsageError, match="inject is open for this model"):
        task_vector(model, tokenizer, PAIRS, **SMALL)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layer": 4}, "layer=4 is out of range: the model has 4 layers, 0 to 3"),
        ({"layer": "last"}, "layer=last is not accepted; layer takes auto or a layer index"),
        ({"average": 0}, "average=0 is not accepted: .* a whole number ≥ 1 here"),
        ({"dev": 0}, "dev=0 is not accepted"),
        ({"strength": 2.0}, "strength=2.0 has no meaning with mode=replace"),
        ({"mode": "swap"}, "mode=swap is not known; accepted: replace, add"),
        ({"demos": 14}, "demos=14 with queries=1 needs 16 pairs.* there are 15.* to 13"),
        ({"queries": 20}, r"needs 24 pairs.* there are 15\. Give more pairs\."),
        ({"pairs": []}, r"there are 0\. Give more pairs\."),
        ({"template": "{x} → "}, "does not end in a cue"),
        ({"demos": 13, "average": 1, "dev": 1}, "average=1 extraction episodes.* Raise average"),
    ],
)
def test_what_cannot_serve_is_refused(
    model: PreTrainedModel, tokenizer: Any, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        task_vector(model, tokenizer, **{"pairs": PAIRS, **SMALL, **arguments})


def test_a_prompt_longer_than_the_model_takes_is_refused(tokenizer: Any) -> None:
    model = tiny_model("llama", len(tokenizer), max_position_embeddings=32)
    with pytest.raises(UsageError, match=r"the model takes max_length=32\. Lower demos"):
        task_vector(model, tokenizer, PAIRS, **SMALL)


def test_a_tokenizer_without_offsets_is_refused(model: PreTrainedModel) -> None:
    slow: Any = SimpleNamespace(is_fast=False)
    with pytest.raises(UsageError, match=r"gives no character offsets.* fast tokenizer"):
        task_vector(model, slow, PAIRS, **SMALL)


def test_a_tokenizer_that_ends_prompts_itself_is_refused() -> None:
    tokenizer = tiny_tokenizer("words")
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]
    )
    model = tiny_model("llama", len(tokenizer))
    with pytest.raises(UsageError, match="puts '</s>' after the cue"):
        task_vector(model, tokenizer, PAIRS, **SMALL)


def test_what_is_no_transformers_model_is_refused(tokenizer: Any) -> None:
    wrapped: Any = torch.nn.Sequential()
    with pytest.raises(UsageError, match="Sequential is not a transformers model"):
        task_vector(wrapped, tokenizer, PAIRS, **SMALL)


def test_a_vector_from_a_file_steers_as_the_one_that_was_written(
    model: PreTrainedModel, tokenizer: Any, tmp_path: Path
) -> None:
    made = task_vector(model, tokenizer, PAIRS, mode="add", **SMALL)
    path = tmp_path / "pairs.safetensors"
    header = vector_files.header(
        layer=made.layer, mode="add", strength=made.strength, average=4, documents=None
    )
    store.save(path, store.VectorFile(made.vector.view(1, 1, -1), header))
    file = store.load(path)
    injection = Injection(file.header.layer, file.vectors[0, -1], file.header.strength)
    ids = torch.tensor([tokenizer("Example: bk →").input_ids])
    runs = []
    for each in (made, injection):
        with torch.no_grad(), inject(model, each):
            runs.append(model(ids).logits)
    assert torch.equal(*runs)


def test_importing_the_package_imports_nothing_else_and_its_names_bring_no_lm_eval() -> None:
    code = """
import sys
before = {*sys.modules}
import harness_ext
print({*sys.modules} - before, {*harness_ext.__all__} - {*dir(harness_ext)})
from harness_ext import Injection, inject, task_vector
print("torch" in sys.modules, "lm_eval" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.splitlines() == ["{'harness_ext'} set()", "True False"]


@pytest.mark.packaged
def test_the_example_of_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    section = (ROOT / "README.md").read_text().partition("\n## From Python\n")[2]
    block = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert block is not None
    space: dict[str, Any] = {}
    exec(compile(block[1], "README.md", "exec"), space)
    printed = capsys.readouterr().out.strip()
    said = block[1].rstrip().rpartition("#")[2].strip()
    assert printed == said
    # The model does not answer so of itself.
    ids = space["model"].generate(**space["prompts"], max_new_tokens=1)
    assert not {*ast.literal_eval(said)} & {*space["tokenizer"].batch_decode(ids)}
