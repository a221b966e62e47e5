"""Prompts as the token ids the model is fed, and where their cue stands in them.

A cue is found by character offsets in those very ids: no token is looked up by its text, so an
arrow that splits into several tokens, or one that merges with its neighbour, is found all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from harness_ext.errors import UsageError


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt's text, its token ids, and the index among them of its last cue.

    The cue's index is that of the token holding the cue's last character.
    """

    text: str
    ids: tuple[int, ...]
    cue: int

    def cut(self, kept: int) -> EncodedPrompt:
        """The prompt with only its last `kept` tokens, as truncation from the left leaves it."""
        dropped = max(0, len(self.ids) - kept)
        if self.cue < dropped:
            raise UsageError(
                f"the cue of the prompt {_end(self.text)} is cut off: the prompt has "
                f"{len(self.ids)} tokens and {kept} fit. Raise max_length or shorten the prompt."
            )
        return EncodedPrompt(self.text, self.ids[dropped:], self.cue - dropped)

    def fed(self, kept: int) -> EncodedPrompt:
        """Prompt and answer as a log-likelihood is computed: without the last token, cut to fit."""
        return EncodedPrompt(self.text, self.ids[:-1], self.cue).cut(kept)


@dataclass(frozen=True)
class Opening:
    """The first tokens of answers: blank ones that all begin with, then those that tell them apart.

    lead: ids of the blank tokens, in order, mostly none. first: ids of the tokens after these.
    """

    lead: tuple[int, ...]
    first: tuple[int, ...]


@dataclass(frozen=True)
class PromptEncoder:
    """Encodes prompts for one tokenizer.

    encode: text → token ids, exactly as the model is fed them (special tokens included).
    """

    tokenizer: PreTrainedTokenizerBase
    encode: Callable[[str], list[int]]
    cue: str

    def prompt(self, text: str) -> EncodedPrompt:
        """The context `text`, which has to end with the cue; raises as :func:`cue_end` does."""
        return self._at(text, text, cue_end(text, self.cue))

    def with_answer(self, context: str, continuation: str) -> EncodedPrompt:
        """Context and continuation as lm-eval scores them, the cue being the context's last.

        lm-eval encodes both together, but feeds the context's own ids and what the whole has beyond
        so many; where the tokenizer joins the cue and the delimiter, these differ from the whole's.

        Raises :class:`UsageError` as :func:`cue_end` does, and where the tokenizer joins the cue's
        last character and the start of the continuation in one token.
        """
        text = context + continuation
        whole = self._at(text, context, cue_end(context, self.cue))
        answer = len(text) - len(continuation.lstrip())
        if self._offsets(text, whole.ids)[whole.cue][1] > answer:
            raise UsageError(
                f"the tokenizer joins the cue {self.cue!r} and the start of the answer "
                f"{continuation!r} in one token, so there is no state of the cue alone. Choose "
                "another cue or target delimiter."
            )
        fed = tuple(self.encode(context.rstrip()))
        if whole.ids[: len(fed)] == fed:
            return whole
        prompt = self.prompt(context.rstrip())
        return EncodedPrompt(text, (*fed, *whole.ids[len(fed) :]), prompt.cue)

    def opening(self, prompt: EncodedPrompt, delimiter: str, answers: Sequence[str]) -> Opening:
        """How `answers` begin as they continue the prompt.

        Encoded together with the prompt where that leaves the prompt's ids as they are, alone
        otherwise (a tokenizer that joins across the border cannot produce the joined token).
        """
        rests = [self._continuation(prompt, delimiter + answer) for answer in answers]
        lead: list[int] = []
        # Some tokenizers write " 4" as a blank and "4": a blank that all answers share tells none.
        while all(len(rest) > 1 and rest[0] == rests[0][0] for rest in rests):
            if str(self.tokenizer.decode([rests[0][0]])).strip():
                break
            lead.append(rests[0][0])
            rests = [rest[1:] for rest in rests]
        return Opening(tuple(lead), tuple(dict.fromkeys(rest[0] for rest in rests)))

    def _continuation(self, prompt: EncodedPrompt, text: str) -> list[int]:
        """Ids of `text` as it continues the prompt."""
        joined = self.encode(prompt.text + text)
        n = len(prompt.ids)
        if tuple(joined[:n]) == prompt.ids and len(joined) > n:
            return joined[n:]
        alone: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return alone

    def _at(self, text: str, context: str, end: int) -> EncodedPrompt:
        ids = tuple(self.encode(text))
        holding = [i for i, (a, b) in enumerate(self._offsets(text, ids)) if a < end <= b]
        if not holding:
            raise UsageError(
                f"no token holds the end of the cue {self.cue!r} in the prompt {_end(context)}. "
                "Choose a cue that ends in a character the tokenizer keeps, not in white space."
            )
        return EncodedPrompt(text, ids, holding[-1])

    def _offsets(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Character spans of `ids`, from the encoding of `text` that gives exactly these."""
        if not self.tokenizer.is_fast:
            raise UsageError(
                f"{type(self.tokenizer).__name__} gives no character offsets, so the cue cannot be "
                "found in its tokens. Use the model's fast tokenizer (use_fast_tokenizer=True)."
            )
        for special in (True, False):
            encoding = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
            if list(encoding["input_ids"]) == list(ids):
                return [(int(a), int(b)) for a, b in encoding["offset_mapping"]]
        raise UsageError(
            f"the tokenizer does not encode {_end(text)} as the model is fed it, so the cue cannot "
            "be found; check add_bos_token and the tokenizer's own post-processing."
        )


def cue_end(context: str, cue: str) -> int:
    """Index right after the last cue's last character.

    Raises :class:`UsageError` where the cue is missing, or more than white space follows it.
    """
    start = context.rfind(cue)
    if start < 0:
        raise UsageError(
            f"the cue {cue!r} does not occur in the prompt {_end(context)}. Pass the text that "
            "ends this task's input as cue=… in --model_args."
        )
    end = start + len(cue)
    if context[end:].strip():
        raise UsageError(
            f"{context[end:]!r} stands between the cue {cue!r} and the answer in the prompt "
            f"{_end(context)}; the answer has to follow the cue. Choose a cue that ends the "
            "prompt, or run without the chat template that puts this there."
        )
    return end


def _end(text: str, width: int = 60) -> str:
    """The end of a prompt, quoted for a message."""
    return repr(text if len(text) <= width else "…" + text[-width:])
