"""Extraction: what it keeps in memory, and what shared demonstrations save."""

from __future__ import annotations

import torch

from harness_ext.steering.batches import pad_right
from harness_ext.steering.capture import branched_states, last_states

from .conftest import peak_bytes, ratio


def extraction_prompts(task, tokenizer, n: int) -> list[list[int]]:
    documents = list(task.test_docs())[:n]
    return [tokenizer.encode(task.fewshot_context(doc, num_fewshot=10)) for doc in documents]


def test_extraction_holds_little_more_than_a_forward_with_last_position_logits(
    anatomy, task, tokenizer, benchmark
) -> None:
    rows = extraction_prompts(task, tokenizer, 8)
    ids = pad_right(rows, anatomy.device)
    layers = range(len(anatomy.layers))

    def plain() -> None:
        with torch.no_grad():
            anatomy.model(input_ids=ids, use_cache=False, logits_to_keep=1)

    measured = peak_bytes(lambda: last_states(anatomy, rows, layers)) / peak_bytes(plain)
    benchmark.extra_info["memory: extraction / plain forward"] = round(measured, 2)
    benchmark.pedantic(lambda: last_states(anatomy, rows, layers), rounds=1)
    assert measured <= 1.2


def test_dummy_queries_after_the_same_demonstrations_run_them_once(
    anatomy, task, tokenizer, benchmark
) -> None:
    stems = extraction_prompts(task, tokenizer, 4)
    branches = [[tokenizer.encode(f" x\nExample: {word} →") for word in "abcd"]] * len(stems)
    layers = range(len(anatomy.layers))
    whole = [stem + branch for stem, own in zip(stems, branches, strict=True) for branch in own]

    def shared() -> None:
        branched_states(anatomy, stems, branches, layers)

    def separate() -> None:
        last_states(anatomy, whole, layers)

    measured = ratio(shared, separate, bound=0.6)
    benchmark.extra_info["shared / separate demonstrations, 4 queries"] = round(measured, 2)
    benchmark.pedantic(shared, rounds=1)
    assert measured <= 0.6
