from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from lm_eval.models.huggingface import HFLM
from transformers import PreTrainedTokenizerFast

from harness_ext.errors import UsageError
from harness_ext.steering.prompts import EncodedPrompt, PromptEncoder, cue_end
from tests.models import TOKENIZERS, tiny_tokenizer

SHOTS = "Example: cat → dog\nExample: one → two\n"
QUERY = "Example: red →"


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request: pytest.FixtureRequest) -> PreTrainedTokenizerFast:
    return tiny_tokenizer(request.param)


def encoder(tokenizer: PreTrainedTokenizerFast, cue: str = "→") -> PromptEncoder:
    return PromptEncoder(tokenizer, tokenizer.encode, cue)


def last_token_of(tokenizer: PreTrainedTokenizerFast, ids: list[int], text: str) -> int:
    """The first token up to which decoding yields all of `text`, white space left aside."""

    def bare(decoded: str) -> str:
        return "".join(decoded.split())

    for n in range(1, len(ids) + 1):
        if bare(tokenizer.decode(ids[:n], skip_special_tokens=True)).startswith(bare(text)):
            return n - 1
    raise AssertionError(f"{text!r} is not in the tokens")


@pytest.mark.parametrize("cue", ["→", "->", "Answer:", "= >"])
@pytest.mark.parametrize("end", ["", " ", "  ", "\n"])
def test_the_cue_is_the_token_up_to_which_the_prompt_decodes_to_its_cue(
    tokenizer: PreTrainedTokenizerFast, cue: str, end: str
) -> None:
    text = (SHOTS + QUERY).replace("→", cue) + end
    prompt = encoder(tokenizer, cue).prompt(text)
    assert prompt.text == text
    assert list(prompt.ids) == tokenizer.encode(text)
    assert prompt.cue == last_token_of(tokenizer, list(prompt.ids), text.rstrip())


def test_cues_of_random_prompts_are_found(tokenizer: PreTrainedTokenizerFast) -> None:
    draw = random.Random(0)
    words = ["cat", "dog", "red", "no", "big", "left"]
    for _ in range(30):
        lines = [f"{draw.choice(words)} → {draw.choice(words)}" for _ in range(draw.randrange(4))]
        text = "\n".join([*lines, f"{draw.choice(words)} →"])
        prompt = encoder(tokenizer).prompt(text)
        assert prompt.cue == last_token_of(tokenizer, list(prompt.ids), text)


@pytest.mark.parametrize(
    ("kind", "token"),
    [
        ("split", "Ĵ"),
        ("joined", "ĠâĨĴ"),
        ("before", "dĠâĨĴ"),
        ("words", "→"),
        ("spm", "<0x92>"),
        ("after", "âĨĴ"),
    ],
)
def test_the_arrow_is_found_where_it_splits_or_joins(kind: str, token: str) -> None:
    tokenizer = tiny_tokenizer(kind)
    prompt = encoder(tokenizer).prompt(QUERY)
    assert prompt.cue == len(prompt.ids) - 1
    assert tokenizer.convert_ids_to_tokens(prompt.ids[-1]) == token


def test_an_arrow_that_joins_the_white_space_behind_it_is_found() -> None:
    tokenizer = tiny_tokenizer("after")
    for end, token in ((" ", "âĨĴĠ"), ("\n", "âĨĴĊ")):
        prompt = encoder(tokenizer).prompt(QUERY + end)
        assert tokenizer.convert_ids_to_tokens(prompt.ids[prompt.cue]) == token


@pytest.mark.parametrize("kind", ["words", "spm"])
def test_a_bos_in_front_moves_the_cue_by_one(kind: str) -> None:
    tokenizer = tiny_tokenizer(kind)
    bare = PromptEncoder(tokenizer, lambda t: tokenizer.encode(t, add_special_tokens=False), "→")
    with_bos, without = encoder(tokenizer).prompt(QUERY), bare.prompt(QUERY)
    assert with_bos.ids == (tokenizer.bos_token_id, *without.ids)
    assert with_bos.cue == without.cue + 1


def test_the_last_of_several_cues_counts(tokenizer: PreTrainedTokenizerFast) -> None:
    prompt = encoder(tokenizer).prompt("one → two\nthree → four →")
    assert prompt.cue == len(prompt.ids) - 1


# ---- prompts that cannot be used ----------------------------------------------------------------


def test_a_prompt_without_the_cue_is_refused_and_the_cue_named() -> None:
    with pytest.raises(
        UsageError, match=r"'→' does not occur in the prompt 'Example: red ->'.*cue="
    ):
        encoder(tiny_tokenizer("split")).prompt("Example: red ->")


@pytest.mark.parametrize("behind", ["</user>", " yes", "\n<assistant>\n", "."])
def test_text_behind_the_cue_is_refused_and_named(behind: str) -> None:
    for tokenizer in (tiny_tokenizer("split"), tiny_tokenizer("spm")):
        for use in (
            lambda e: e.prompt(QUERY + behind),
            lambda e: e.with_answer(QUERY + behind, " red"),
        ):
            with pytest.raises(UsageError) as caught:
                use(encoder(tokenizer))
            assert str(caught.value).startswith(f"{behind!r} stands between the cue '→' and the")


def test_a_long_prompt_is_quoted_from_its_end() -> None:
    with pytest.raises(UsageError) as caught:
        cue_end("x" * 500 + "end", "→")
    assert "'…" + "x" * 57 + "end'" in str(caught.value)


def test_the_end_of_the_cue_is_an_index_into_the_text() -> None:
    assert cue_end("a → b →  ", "→") == 7
    assert cue_end("Question: x\nAnswer: ", "Answer: ") == 20


def test_ids_that_the_tokenizer_does_not_give_are_refused() -> None:
    tokenizer = tiny_tokenizer("split")
    reversed_ids = PromptEncoder(tokenizer, lambda text: tokenizer.encode(text)[::-1], "→")
    with pytest.raises(UsageError, match="does not encode 'Example: red →' as the model is fed it"):
        reversed_ids.prompt(QUERY)


def test_a_tokenizer_without_offsets_is_refused_by_name() -> None:
    class SlowTokenizer:
        is_fast = False

    slow = PromptEncoder(SlowTokenizer(), lambda _: [1, 2], "→")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="SlowTokenizer gives no character offsets"):
        slow.prompt(QUERY)


@pytest.mark.parametrize("kind", ["split", "joined", "words"])
def test_a_cue_that_ends_in_white_space_no_token_is_said_to_hold_is_refused(kind: str) -> None:
    context = "Question: red\nAnswer: "
    for use in (lambda e: e.prompt(context), lambda e: e.with_answer(context, "blue")):
        with pytest.raises(UsageError, match="no token holds the end of the cue 'Answer: '"):
            use(encoder(tiny_tokenizer(kind), "Answer: "))


# ---- several cues -------------------------------------------------------------------------------


@pytest.mark.parametrize("cue", ["→", "->", "Answer:"])
def test_every_cue_is_the_token_up_to_which_the_prompt_decodes_to_it(
    tokenizer: PreTrainedTokenizerFast, cue: str
) -> None:
    draw = random.Random(1)
    words = ["cat", "dog", "red", "no", "big", "left"]
    for shots in (1, 2, 5):
        lines = [f"{draw.choice(words)} {cue} {draw.choice(words)}\n" for _ in range(shots)]
        text = "".join([*lines, f"{draw.choice(words)} {cue}"])
        prompt = encoder(tokenizer, cue).prompt(text, shots + 1)
        beginnings = ["".join(lines[:n]) + lines[n].rsplit(" ", 1)[0] for n in range(shots)]
        expected = [last_token_of(tokenizer, list(prompt.ids), b) for b in [*beginnings, text]]
        assert list(prompt.cues) == expected
        answered = encoder(tokenizer, cue).with_answer(text, " no", shots + 1)
        assert answered.cues == prompt.cues


@pytest.mark.parametrize(
    ("text", "cues", "found"),
    [
        ("a→b → c\nd →", 2, 3),  # in a word of a demonstration
        ("Use → well.\na → b\nc →", 2, 3),  # in a description
        ("a → b\nc →", 3, 2),  # fewer demonstrations than asked for
    ],
)
def test_cues_that_cannot_be_told_from_other_text_are_refused(
    text: str, cues: int, found: int
) -> None:
    own = encoder(tiny_tokenizer("split"))
    with pytest.raises(UsageError, match=f"occurs {found} times .* should hold it {cues} times"):
        own.prompt(text, cues)
    assert own.prompt(text).cue  # the last one is certain


def test_a_demonstrations_cue_that_is_joined_with_its_answer_is_refused() -> None:
    own = encoder(tiny_tokenizer("across"))
    assert len(own.prompt("a → b\nc →", 2).cues) == 2
    with pytest.raises(UsageError, match="joins the cue '→' and the start of the answer 'xa"):
        own.prompt("a → xa\nc →", 2)


def test_cutting_drops_the_cues_it_cuts_off() -> None:
    prompt = EncodedPrompt("…", (10, 11, 12, 13, 14), (1, 3))
    assert prompt.cut(4).cues == (0, 2)
    assert prompt.cut(3).cues == (1,)


# ---- truncation ---------------------------------------------------------------------------------


def test_cutting_keeps_the_last_tokens_and_the_cue_in_its_place() -> None:
    prompt = EncodedPrompt("…", (10, 11, 12, 13, 14), (3,))
    for kept in (2, 3, 4, 5, 100):
        cut = prompt.cut(kept)
        assert cut.ids == prompt.ids[-kept:]
        assert cut.ids[cut.cue] == 13


@pytest.mark.parametrize("kept", [1, 0, -3])
def test_cutting_the_cue_off_is_refused(kept: int) -> None:
    prompt = EncodedPrompt("a long prompt", (10, 11, 12, 13, 14), (3,))
    with pytest.raises(UsageError, match=f"is cut off: the prompt has 5 tokens and {kept} fit"):
        prompt.cut(kept)


# ---- with an answer -----------------------------------------------------------------------------


def fed_by_lm_eval(encode: Callable[[str], list[int]], context: str, answer: str) -> list[int]:
    """Context and continuation ids as lm-eval's own model puts them together."""

    class Encoding:
        backend = "causal"

        def tok_encode(self, text: str) -> list[int]:
            return encode(text)

    parts = HFLM._encode_pair(Encoding(), context, answer)  # type: ignore[arg-type]
    return [*parts[0], *parts[1]]


@pytest.mark.parametrize("end", ["", " ", "\n"])
@pytest.mark.parametrize("answer", [" blue", "blue", " two three"])
def test_prompts_with_an_answer_are_those_lm_eval_feeds(
    tokenizer: PreTrainedTokenizerFast, end: str, answer: str
) -> None:
    context = SHOTS + QUERY + end
    found = encoder(tokenizer).with_answer(context, answer)
    assert list(found.ids) == fed_by_lm_eval(tokenizer.encode, context, answer)
    assert found.text == context + answer
    # The cue is the last token of the context as it is fed, without the white space at its end.
    assert found.cue == len(tokenizer.encode(context.rstrip())) - 1


def test_an_arrow_that_joins_the_delimiter_is_fed_and_steered_without_it() -> None:
    tokenizer = tiny_tokenizer("after")
    found = encoder(tokenizer).with_answer(QUERY, " blue")
    assert tokenizer.convert_ids_to_tokens(found.ids[found.cue :]) == ["âĨĴ", *"blue"]


@pytest.mark.parametrize("answer", [" xyz", " x"])
def test_a_cue_joined_with_the_answer_is_refused(answer: str) -> None:
    joining = encoder(tiny_tokenizer("across"))
    assert joining.with_answer(QUERY, " yes").cue > 0
    with pytest.raises(UsageError) as caught:
        joining.with_answer(QUERY, answer)
    message = str(caught.value)
    assert message.startswith("the tokenizer joins the cue '→' and the start of the answer")
    assert repr(answer.strip()) in message


def test_a_cue_that_ends_in_a_space_is_found_where_the_space_is_a_token_of_its_own() -> None:
    tokenizer = tiny_tokenizer("spm")
    context = "Question: red\nAnswer: "
    spaced = encoder(tokenizer, "Answer: ")
    prompt = spaced.prompt(context)
    assert tokenizer.convert_ids_to_tokens(prompt.ids[prompt.cue]) == "▁"
    found = spaced.with_answer(context, "yes")
    assert list(found.ids) == fed_by_lm_eval(tokenizer.encode, context, "yes")
    assert found.cue == prompt.cue


# ---- first tokens -------------------------------------------------------------------------------


def first_tokens(kind: str, answers: list[str], delimiter: str = " ") -> list[str]:
    tokenizer = tiny_tokenizer(kind)
    own = encoder(tokenizer)
    opening = own.opening(own.prompt(QUERY), delimiter, answers)
    ids = [*opening.lead, *opening.first]
    return [str(token) for token in tokenizer.convert_ids_to_tokens(ids)]


@pytest.mark.parametrize(
    ("kind", "answers", "expected"),
    [
        ("words", ["blue", "two", "blue"], ["blue", "two"]),
        ("spm", ["an", "be", "ant"], ["▁a", "▁b"]),
        ("split", ["blue"], ["Ġ", "b"]),
        ("split", ["blue", "xam"], ["Ġ", "b", "xam"]),
        ("split", ["blue", "Erna"], ["Ġ", "ĠE"]),  # a blank not all begin with tells them apart
        ("split", ["Erna"], ["ĠE"]),
        ("across", ["x"], ["Ġ", "x"]),  # the joined token cannot follow the prompt
        ("after", ["blue"], ["Ġ", "b"]),  # nor can the arrow with the space
    ],
)
def test_first_tokens_begin_the_answers_as_they_continue_the_prompt(
    kind: str, answers: list[str], expected: list[str]
) -> None:
    assert first_tokens(kind, answers) == expected


def test_first_tokens_without_a_delimiter_are_those_of_the_answer_itself() -> None:
    assert first_tokens("split", ["blue", "xam", "bad"], delimiter="") == ["b", "xam"]


def test_first_tokens_follow_the_whole_prompt() -> None:
    """Alone, SentencePiece would put a space in front of an answer that has none."""
    assert first_tokens("spm", ["blue"], delimiter="") == ["b"]


@pytest.mark.parametrize(
    ("kind", "answers", "lead", "first"),
    [
        ("words", ["blue", "two", "blue"], [], ["blue", "two", "blue"]),
        ("spm", ["an", "be", "ant"], [], ["▁a", "▁b", "▁a"]),
        ("split", ["blue", "xam", "bad"], ["Ġ"], ["b", "xam", "b"]),
        ("split", ["blue", "Erna", "bad"], [], ["Ġ", "ĠE", "Ġ"]),
        ("across", ["x", "xa"], ["Ġ"], ["x", "x"]),
    ],
)
def test_first_tokens_of_each_answer_stand_in_their_order_alike_or_not(
    kind: str, answers: list[str], lead: list[str], first: list[str]
) -> None:
    tokenizer = tiny_tokenizer(kind)
    own = encoder(tokenizer)
    opening = own.opening_of_each(own.prompt(QUERY), " ", answers)
    assert tokenizer.convert_ids_to_tokens(opening.lead) == lead
    assert tokenizer.convert_ids_to_tokens(opening.first) == first
