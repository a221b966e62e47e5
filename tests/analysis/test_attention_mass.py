"""Where attention goes, on hand-made weights and on prompts of several tokenizers."""

from __future__ import annotations

import pytest
import torch

from harness_ext.analysis.attention_mass import Mass, Parts, mass_of, masses, prompt_parts
from harness_ext.errors import UsageError
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder
from tests.models import tiny_tokenizer

FIRST = "Example: one →  dog\nExample: cat →  big fish\nExample: red →"
SECOND = "Example: two →  cat\nExample: right →  dog\nExample: right bad →"
ANSWERS = [["dog", "big fish"], ["cat", "dog"]]


def encoder(kind: str, cue: str = "→") -> PromptEncoder:
    tokenizer = tiny_tokenizer(kind)
    return PromptEncoder(tokenizer, tokenizer.encode, cue)


def text_of(own: PromptEncoder, prompt: EncodedPrompt, tokens: tuple[int, ...]) -> str:
    """What the tokens say, without blanks."""
    decoded = own.tokenizer.decode([prompt.ids[n] for n in tokens])
    return "".join(str(decoded).split())


@pytest.mark.parametrize("kind", ["split", "joined", "after", "words", "spm"])
def test_labels_and_query_are_found_whatever_the_tokenizer(kind: str) -> None:
    own = encoder(kind)
    prompts = [own.prompt(FIRST), own.prompt(SECOND)]
    one, other = prompt_parts(own, prompts, ANSWERS)
    assert text_of(own, prompts[0], one.labels) == "dogbigfish"
    assert text_of(own, prompts[0], one.query) == "red"
    assert text_of(own, prompts[1], other.labels) == "catdog"
    assert text_of(own, prompts[1], other.query) == "rightbad"


def test_only_whole_words_are_taken_for_the_template() -> None:
    own = encoder("split")
    texts = ["Word: ab → x\nWord: an →", "Word: ac → x\nWord: au →"]
    prompts = [own.prompt(text) for text in texts]
    parts = prompt_parts(own, prompts, [["x"], ["x"]])
    said = [text_of(own, prompt, part.query) for prompt, part in zip(prompts, parts, strict=True)]
    assert said == ["an", "au"]


def test_a_description_before_the_demonstrations_is_no_template() -> None:
    own = encoder("split")
    texts = ["Be good.\n\nQ: ab → x\nQ: an →", "Be good.\n\nQ: cc → x\nQ: du →"]
    prompts = [own.prompt(text) for text in texts]
    parts = prompt_parts(own, prompts, [["x"], ["x"]])
    assert text_of(own, prompts[0], parts[0].query) == "an"
    assert text_of(own, prompts[1], parts[1].labels) == "x"


def test_a_cue_inside_a_text_is_refused() -> None:
    own = encoder("split")
    prompt = own.prompt("Example: one → two → dog\nExample: red →")
    with pytest.raises(UsageError, match="occurs 3 times"):
        prompt_parts(own, [prompt], [["dog"]])


def test_an_answer_that_does_not_follow_its_cue_is_refused() -> None:
    own = encoder("split")
    prompt = own.prompt("Example: one → (dog)\nExample: red →")
    with pytest.raises(UsageError, match="'dog' of a demonstration does not follow"):
        prompt_parts(own, [prompt], [["dog"]])


def test_weights_are_summed_by_part_and_averaged_over_prompts() -> None:
    weights = [
        torch.tensor([[[0.5, 0.2, 0.1, 0.1, 0.1]], [[0.0, 0.0, 0.0, 0.0, 1.0]]]),
        torch.tensor([[[0.1, 0.3, 0.6]], [[0.2, 0.0, 0.2]]]),  # the second looks at nothing too
    ]
    parts = [Parts(labels=(1, 2), query=(3,)), Parts(labels=(2,), query=(0,))]
    found = masses(weights, parts)
    labels, query, start, elsewhere = found[:, 0, 0].tolist()
    assert labels == pytest.approx((0.3 + 0.6) / 2)
    assert query == pytest.approx((0.1 + 0.1) / 2)  # in the second, the first token is the query
    assert start == pytest.approx(0.5 / 2)
    assert elsewhere == pytest.approx((0.1 + 0.3) / 2)
    assert found.sum(dim=0)[0, 0] == pytest.approx(1)
    assert found.sum(dim=0)[1, 0] == pytest.approx((1 + 0.4) / 2)


def test_the_mass_of_heads_is_their_mean() -> None:
    found = torch.arange(24.0).reshape(4, 2, 3)
    assert mass_of(found, [(0, 0), (1, 2)]) == Mass(2.5, 8.5, 14.5, 20.5)
    assert mass_of(found) == Mass(2.5, 8.5, 14.5, 20.5)
    assert mass_of(found, [(0, 1)]) == Mass(1, 7, 13, 19)
