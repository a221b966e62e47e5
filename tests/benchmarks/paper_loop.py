"""The experiments of the paper as a plain script runs them: what the benchmarks compare with.

Batches of padded whole prompts, no prefix shared, nothing remembered between methods, a forward per
layer in a sweep. It is given the episodes, so that both sides answer the same prompts, and shares
no other code with the package.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

BATCH = 50


@dataclass(frozen=True)
class Trial:
    """A prompt to be answered: extraction prompts, one for each of its last cues; the prompt; the
    ids that are right after it."""

    extractions: tuple[str, ...]
    prompt: str
    right: frozenset[int]


class PaperLoop:
    """A Llama and its tokenizer, in which every arrow is one token."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.layers = model.model.layers
        self.arrow = tokenizer.encode(" →")[-1]

    def icl(self, prompts: Sequence[str]) -> list[int]:
        """The most likely first token after each prompt."""
        found: list[int] = []
        for first in range(0, len(prompts), BATCH):
            ids, mask = self._batch(prompts[first : first + BATCH])
            with torch.no_grad():
                logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            found += logits[:, -1].argmax(dim=1).tolist()
        return found

    def steered(
        self, development: Sequence[Trial], tested: Sequence[Trial]
    ) -> tuple[int, list[int]]:
        """The layer of the best development accuracy, and the tested prompts' first tokens."""
        vectors = self._vectors(development)
        accuracy = []
        for layer in range(len(self.layers)):
            answers = self._answers(development, vectors[:, :, layer], layer)
            right = [a in t.right for a, t in zip(answers, development, strict=True)]
            accuracy.append(sum(right))
        best = max(accuracy)
        layer = max(
            (n for n in range(len(accuracy)) if accuracy[n] == best),
            key=lambda n: self._log_prob(development, vectors[:, :, n], n),
        )
        return layer, self._answers(tested, self._vectors(tested)[:, :, layer], layer)

    def _vectors(self, trials: Sequence[Trial]) -> Tensor:
        """[trials, cues, layers, width]: states at the end of the extraction prompts."""
        prompts = [prompt for trial in trials for prompt in trial.extractions]
        found = []
        for first in range(0, len(prompts), BATCH):
            ids, mask = self._batch(prompts[first : first + BATCH])
            found.append(self._last_states(ids, mask))
        return torch.cat(found).unflatten(0, (len(trials), -1))

    def _last_states(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[rows, layers, width]."""
        seen: list[Tensor] = []

        def note(module: Any, args: Any, output: Any) -> None:
            seen.append(_hidden(output)[:, -1])

        hooks = [layer.register_forward_hook(note) for layer in self.layers]
        with torch.no_grad():
            self.model(input_ids=ids, attention_mask=mask, use_cache=False)
        for hook in hooks:
            hook.remove()
        return torch.stack(seen, dim=1)

    def _logits(self, trials: Sequence[Trial], vectors: Tensor, layer: int) -> Tensor:
        """[trials, vocabulary], `vectors` [trials, cues, width] replacing the last cues' states."""
        found = []
        for first in range(0, len(trials), BATCH):
            ids, mask = self._batch([trial.prompt for trial in trials[first : first + BATCH]])
            own = vectors[first : first + BATCH]
            with self._replacing(ids, own, layer), torch.no_grad():
                logits = self.model(input_ids=ids, attention_mask=mask, use_cache=False).logits
            found.append(logits[:, -1])
        return torch.cat(found)

    def _answers(self, trials: Sequence[Trial], vectors: Tensor, layer: int) -> list[int]:
        answers: list[int] = self._logits(trials, vectors, layer).argmax(dim=1).tolist()
        return answers

    def _log_prob(self, trials: Sequence[Trial], vectors: Tensor, layer: int) -> float:
        log_probs = self._logits(trials, vectors, layer).log_softmax(dim=1)
        own = [row[list(t.right)].logsumexp(0) for row, t in zip(log_probs, trials, strict=True)]
        return float(torch.stack(own).mean())

    @contextmanager
    def _replacing(self, ids: Tensor, vectors: Tensor, layer: int) -> Any:
        places = [(row == self.arrow).nonzero().flatten()[-vectors.shape[1] :] for row in ids]
        rows = torch.arange(len(ids)).unsqueeze(1)

        def edit(module: Any, args: Any, output: Any) -> Any:
            hidden = _hidden(output).clone()
            hidden[rows, torch.stack(places)] = vectors
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        hook = self.layers[layer].register_forward_hook(edit)
        try:
            yield
        finally:
            hook.remove()

    def _batch(self, prompts: Sequence[str]) -> tuple[Tensor, Tensor]:
        self.tokenizer.padding_side = "left"
        encoded = self.tokenizer(list(prompts), padding=True, return_tensors="pt")
        return encoded["input_ids"], encoded["attention_mask"]


def _hidden(output: Any) -> Tensor:
    found: Tensor = output[0] if isinstance(output, tuple) else output
    return found
