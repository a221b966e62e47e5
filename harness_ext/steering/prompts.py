"""Prompts as the token ids the model is fed, and where their cues stand in them.

A cue is found by character offsets in those very ids: no token is looked up by its text, so an
arrow that splits into several tokens, or one that merges with its neighbour, is found all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from transformers import PreTrainedTokenizerBase

from harness_ext.errors import UsageError


@dataclass(frozen=True)
class EncodedPrompt:
    """A prompt's text, its token ids, and the indices among them of its cues, the query's last.

    A cue's index is that of the token holding the cue's last character.
    """

    text: str
    ids: tuple[int, ...]
    cues: tuple[int, ...]
    dropped: int = 0
    """Tokens that truncation has cut off at the beginning."""

    @property
    def cue(self) -> int:
        """Index of the last cue, the one the answer follows."""
        return self.cues[-1]

    @property
    def up_to_cue(self) -> tuple[int, ...]:
        """The ids up to the last cue, which is the last of them."""
        return self.ids[: self.cue + 1]

    def cut(self, kept: int) -> EncodedPrompt:
        """The prompt with only its last `kept` tokens, as truncation from the left leaves it.

        Cues of demonstrations may be cut off; raises :class:`UsageError` where the last one is.
        """
        dropped = max(0, len(self.ids) - kept)
        if self.cue < dropped:
            raise UsageError(
                f"the cue of the prompt {_end(self.text)} is cut off: the prompt has "
                f"{len(self.ids)} tokens and {kept} fit. Raise max_length or shorten the prompt."
            )
        cues = tuple(cue - dropped for cue in self.cues if cue >= dropped)
        return EncodedPrompt(self.text, self.ids[dropped:], cues, self.dropped + dropped)

    def fed(self, kept: int) -> EncodedPrompt:
        """Prompt and answer as a log-likelihood is computed: without the last token, cut to fit."""
        return EncodedPrompt(self.text, self.ids[:-1], self.cues).cut(kept)


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

    def prompt(self, text: str, cues: int = 1) -> EncodedPrompt:
        """The context `text`, which has to end with the cue, and where its last `cues` cues stand.

        Raises :class:`UsageError` as :func:`cue_ends` does, and where the tokenizer joins a cue's
        last character and the start of an answer in one token.
        """
        return self._at(text, text, cue_ends(text, self.cue, cues))

    def with_answer(self, context: str, continuation: str, cues: int = 1) -> EncodedPrompt:
        """Context and continuation as lm-eval scores them, the cues being the context's.

        lm-eval encodes both together, but feeds the context's own ids and what the whole has beyond
        so many; where the tokenizer joins the cue and the delimiter, these differ from the whole's.

        Raises as :meth:`prompt` does.
        """
        text = context + continuation
        whole = self._at(text, context, cue_ends(context, self.cue, cues))
        fed = tuple(self.encode(context.rstrip()))
        if whole.ids[: len(fed)] == fed:
            return whole
        prompt = self.prompt(context.rstrip(), cues)
        return EncodedPrompt(text, (*fed, *whole.ids[len(fed) :]), prompt.cues)

    def opening(self, prompt: EncodedPrompt, delimiter: str, answers: Sequence[str]) -> Opening:
        """How `answers` begin as they continue the prompt.

        Encoded together with the prompt where that leaves the prompt's ids as they are, alone
        otherwise (a tokenizer that joins across the border cannot produce the joined token).
        """
        each = self.opening_of_each(prompt, delimiter, answers)
        return replace(each, first=tuple(dict.fromkeys(each.first)))

    def opening_of_each(
        self, prompt: EncodedPrompt, delimiter: str, answers: Sequence[str]
    ) -> Opening:
        """As :meth:`opening`, but `first` has one id per answer, in their order, alike or not."""
        rests = [self._continuation(prompt, delimiter + answer) for answer in answers]
        lead: list[int] = []
        # Some tokenizers write " 4" as a blank and "4": a blank that all answers share tells none.
        while all(len(rest) > 1 and rest[0] == rests[0][0] for rest in rests):
            if str(self.tokenizer.decode([rests[0][0]])).strip():
                break
            lead.append(rests[0][0])
            rests = [rest[1:] for rest in rests]
        return Opening(tuple(lead), tuple(rest[0] for rest in rests))

    def _continuation(self, prompt: EncodedPrompt, text: str) -> list[int]:
        """Ids of `text` as it continues the prompt."""
        joined = self.encode(prompt.text + text)
        n = len(prompt.ids)
        if tuple(joined[:n]) == prompt.ids and len(joined) > n:
            return joined[n:]
        alone: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return alone

    def _at(self, text: str, context: str, ends: Sequence[int]) -> EncodedPrompt:
        ids = tuple(self.encode(text))
        spans = self.offsets(text, ids)
        cues = []
        for end in ends:
            holding = [i for i, (a, b) in enumerate(spans) if a < end <= b]
            if not holding:
                raise UsageError(
                    f"no token holds the end of the cue {self.cue!r} in the prompt "
                    f"{_end(context)}. Choose a cue that ends in a character the tokenizer keeps, "
                    "not in white space."
                )
            cues.append(holding[-1])
            answer = text[end:].lstrip()
            if spans[cues[-1]][1] > len(text) - len(answer):
                raise UsageError(
                    f"the tokenizer joins the cue {self.cue!r} and the start of the answer "
                    f"{answer[:30]!r} in one token, so there is no state of the cue alone. Choose "
                    "another cue or target delimiter."
                )
        return EncodedPrompt(text, ids, tuple(cues))

    def offsets(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Character spans of `ids`, from the encoding of `text` that gives exactly these.

        Raises :class:`UsageError` where no encoding does, and for a tokenizer without offsets.
        """
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


def cue_ends(context: str, cue: str, cues: int) -> tuple[int, ...]:
    """Indices right after the last `cues` cues: the query's, and before it one per demonstration.

    Raises :class:`UsageError` as :func:`cue_end` does. Where demonstrations' cues are asked for, it
    raises too if the context holds the cue's text more or less often: one of them would then stand
    inside a word (or in a description), and which one cannot be told.
    """
    last = cue_end(context, cue)
    if cues == 1:
        return (last,)
    found = [match.end() for match in re.finditer(re.escape(cue), context)]
    if len(found) != cues or found[-1] != last:
        raise UsageError(
            f"the cue {cue!r} occurs {len(found)} times in a prompt of {cues - 1} demonstrations "
            f"and a query, which should hold it {cues} times, so its cues cannot be told from "
            f"other text: {_end(context, 200)}. Choose a cue that occurs in no word of the task."
        )
    return tuple(found)


def _end(text: str, width: int = 60) -> str:
    """The end of a prompt, quoted for a message."""
    return repr(text if len(text) <= width else "…" + text[-width:])
