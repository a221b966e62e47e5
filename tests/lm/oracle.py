"""A slow, plain implementation of what the tests compare with: one prompt at a time, no cache.

Written for the tests' own model, a Llama, and a tokenizer in whose prompts the arrow's last byte is
a token of its own. It shares nothing with the code under test.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

Document = dict[str, Any]


class Oracle:
    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text)["input_ids"])

    def state(self, prompt: str, layer: int, position: int = -1) -> Tensor:
        """The state [width] after a layer at one of the prompt's tokens, by default the last."""
        seen: list[Tensor] = []
        handle = self.model.model.layers[layer].register_forward_hook(
            lambda module, args, output: seen.append(_hidden(output)[0, position].clone())
        )
        with torch.no_grad():
            self.model(torch.tensor([self.ids(prompt)]), use_cache=False)
        handle.remove()
        return seen[0]

    def logits(
        self,
        ids: Sequence[int],
        layer: int | None = None,
        vectors: Sequence[Tensor] = (),
        positions: Sequence[int] = (),
        strength: float | None = None,
    ) -> Tensor:
        """Logits [positions, vocabulary], vectors injected after a layer at these positions."""

        def edit(module: Any, args: Any, output: Any) -> Any:
            hidden = _hidden(output).clone()
            for vector, position in zip(vectors, positions, strict=True):
                old = hidden[0, position]
                hidden[0, position] = vector if strength is None else old + strength * vector
            return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

        handles = []
        if layer is not None:
            handles.append(self.model.model.layers[layer].register_forward_hook(edit))
        with torch.no_grad():
            found: Tensor = self.model(torch.tensor([list(ids)]), use_cache=False).logits[0]
        for handle in handles:
            handle.remove()
        return found

    def cues(self, prompt: str) -> list[int]:
        """Positions of all arrows' last bytes."""
        last = self.ids("→")[-1]
        return [position for position, token in enumerate(self.ids(prompt)) if token == last]

    def answer(self, prompt: str, *injection: Any, tokens: int = 8) -> str:
        """The greedy continuation up to a newline.

        injection: layer, vector (or one for each of the last cues), strength.
        """
        ids = self.ids(prompt)
        layer, vectors, strength = _several(*injection)
        cues = self.cues(prompt)[-len(vectors) :] if vectors else []
        new: list[int] = []
        while len(new) < tokens:
            new.append(int(self.logits([*ids, *new], layer, vectors, cues, strength)[-1].argmax()))
            if new[-1] == self.tokenizer.eos_token_id:
                break
        text: str = self.tokenizer.decode(new, skip_special_tokens=True)
        return text.split("\n")[0]

    def score(self, prompt: str, continuation: str, *injection: Any) -> tuple[float, bool]:
        """Log-probability of a continuation, and whether it is the greedy one."""
        ids = self.ids(prompt + continuation)
        layer, vectors, strength = _several(*injection)
        cues = self.cues(prompt)[-len(vectors) :] if vectors else []
        log_probs = self.logits(ids, layer, vectors, cues, strength).log_softmax(dim=-1)
        scored = range(len(self.ids(prompt)), len(ids))
        total = sum(float(log_probs[i - 1, ids[i]]) for i in scored)
        return total, all(int(log_probs[i - 1].argmax()) == ids[i] for i in scored)


def _several(
    layer: int | None = None,
    vectors: Tensor | Sequence[Tensor] | None = None,
    strength: float | None = None,
) -> tuple[int | None, list[Tensor], float | None]:
    if vectors is None:
        return layer, [], strength
    alone = isinstance(vectors, Tensor) and vectors.dim() == 1
    return layer, [vectors] if alone else list(vectors), strength


def _hidden(output: Any) -> Tensor:
    found: Tensor = output[0] if isinstance(output, tuple) else output
    return found


def word_prompt(demonstrations: Sequence[Document], query: Document) -> str:
    """A prompt of the word tasks, written by hand."""
    lines = [f"Example: {d['query']} → {d['target']}" for d in demonstrations]
    return "\n".join([*lines, f"Example: {query['query']} →"])
