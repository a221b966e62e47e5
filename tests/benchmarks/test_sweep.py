"""The layer sweep against one plain forward of the same prompts."""

from __future__ import annotations

import torch

from harness_ext.steering.batches import pad_right
from harness_ext.steering.one_pass import one_pass
from harness_ext.steering.prompts import PromptEncoder
from harness_ext.steering.scoring import SweepPrompt
from harness_ext.steering.sweep import layer_loop

from .conftest import peak_bytes, ratio

N_PROMPTS = 50


def zero_shot_prompts(task, tokenizer) -> list[SweepPrompt]:
    encoder = PromptEncoder(tokenizer, tokenizer.encode, "→")
    documents = list(task.test_docs())[:N_PROMPTS]
    prompts = [encoder.prompt(task.fewshot_context(doc, num_fewshot=0)) for doc in documents]
    firsts = [
        encoder.opening(prompt, " ", doc["answers"]).first
        for prompt, doc in zip(prompts, documents, strict=True)
    ]
    return [SweepPrompt(p.ids, p.cues, (f,)) for p, f in zip(prompts, firsts, strict=True)]


def test_a_sweep_over_all_layers_costs_at_most_six_plain_forwards(
    anatomy, task, tokenizer, benchmark
) -> None:
    prompts = zero_shot_prompts(task, tokenizer)
    shape = (len(prompts), len(anatomy.layers), 1, anatomy.hidden_size)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    ids = pad_right([p.ids for p in prompts], anatomy.device)

    def plain() -> None:
        with torch.no_grad():
            anatomy.model(input_ids=ids, use_cache=False, logits_to_keep=1)

    def sweep() -> None:
        one_pass(anatomy, prompts, vectors)

    measured = ratio(sweep, plain, bound=6.0, rounds=40)
    benchmark.extra_info["sweep / plain forward"] = round(measured, 2)
    benchmark.extra_info["sweep: peak memory, MB"] = peak_bytes(sweep) // 2**20
    benchmark.pedantic(sweep, rounds=1)
    assert measured <= 6.0


def test_a_sweep_finds_what_a_forward_per_layer_finds(anatomy, task, tokenizer) -> None:
    prompts = zero_shot_prompts(task, tokenizer)[:6]
    shape = (len(prompts), len(anatomy.layers), 1, anatomy.hidden_size)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    fast, slow = one_pass(anatomy, prompts, vectors), layer_loop(anatomy, prompts, vectors)
    assert torch.equal(fast.right, slow.right)
    assert torch.allclose(fast.log_prob, slow.log_prob, atol=2e-3)
