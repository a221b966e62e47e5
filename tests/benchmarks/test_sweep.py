"""The layer sweep against one plain forward of the same prompts."""

from __future__ import annotations

import torch

from harness_ext.steering.batches import pad_right
from harness_ext.steering.one_pass import one_pass
from harness_ext.steering.prompts import PromptEncoder
from harness_ext.steering.scoring import SweepPrompt
from harness_ext.steering.sweep import layer_loop

from .conftest import counting, peak_bytes, ratio

N_PROMPTS, SHOTS = 50, 2


def prompts_of(task, tokenizer, shots: int = 0) -> list[SweepPrompt]:
    """N-shot prompts, to be injected at every cue."""
    encoder = PromptEncoder(tokenizer, tokenizer.encode, "→")
    documents = list(task.test_docs())[:N_PROMPTS]
    prompts = [
        encoder.prompt(task.fewshot_context(doc, num_fewshot=shots), shots + 1) for doc in documents
    ]
    firsts = [
        encoder.opening(prompt, " ", doc["answers"]).first
        for prompt, doc in zip(prompts, documents, strict=True)
    ]
    return [SweepPrompt(p.ids, p.cues, (f,)) for p, f in zip(prompts, firsts, strict=True)]


def test_a_sweep_over_all_layers_costs_at_most_six_plain_forwards(
    anatomy, task, tokenizer, benchmark
) -> None:
    prompts = prompts_of(task, tokenizer)
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
    prompts = prompts_of(task, tokenizer)[:6]
    shape = (len(prompts), len(anatomy.layers), 1, anatomy.hidden_size)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    fast, slow = one_pass(anatomy, prompts, vectors), layer_loop(anatomy, prompts, vectors)
    assert torch.equal(fast.right, slow.right)
    assert torch.allclose(fast.log_prob, slow.log_prob, atol=2e-3)


def test_a_sweep_at_every_cue_costs_about_half_of_a_forward_per_layer(
    anatomy, task, tokenizer, benchmark
) -> None:
    prompts = prompts_of(task, tokenizer, SHOTS)[:20]
    shape = (len(prompts), len(anatomy.layers), SHOTS + 1, anatomy.hidden_size)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found, counts = {}, {}
    for name, sweep in (("one pass", one_pass), ("loop", layer_loop)):
        with counting(anatomy.layers) as count:
            found[name] = sweep(anatomy, prompts, vectors)
        counts[name] = count[0]
    assert torch.equal(found["one pass"].right, found["loop"].right)
    measured = ratio(
        lambda: one_pass(anatomy, prompts, vectors),
        lambda: layer_loop(anatomy, prompts, vectors),
        bound=0.7,
        rounds=6,
    )
    benchmark.extra_info["sweep at every cue: one pass / a forward per layer"] = round(measured, 2)
    benchmark.extra_info["token-layers"] = counts
    benchmark.pedantic(lambda: one_pass(anatomy, prompts, vectors), rounds=1)
    assert measured <= 0.7
