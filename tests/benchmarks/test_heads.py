"""Reading and scoring attention heads, beside a plain forward of the same prompts."""

from __future__ import annotations

import torch

from harness_ext.heads.tsla import label_set, score
from harness_ext.steering.attention import dissect_attention
from harness_ext.steering.batches import by_length, pad_right
from harness_ext.steering.episodes import EpisodeShape, reusable_episodes
from harness_ext.steering.head_outputs import head_outputs
from harness_ext.steering.prompts import PromptEncoder
from harness_ext.steering.task_context import TaskContext

from .conftest import ratio

BOUND = 1.3
EPISODES = 50


def test_scoring_all_heads_costs_little_more_than_a_forward(
    anatomy, manager, tokenizer, benchmark
) -> None:
    task = manager.load("classify_sentiment")["tasks"]["classify_sentiment"]
    task.set_fewshot_seed(1234)
    context = TaskContext(task, {})
    encoder = PromptEncoder(tokenizer, tokenizer.encode, "→")
    episodes = reusable_episodes(context, EpisodeShape(8, 0, 1), EPISODES, 0)
    prompts = [encoder.prompt(context.prompt(e.demonstrations, e.dummies[0])) for e in episodes]
    rows = [prompt.up_to_cue for prompt in prompts]
    attention = dissect_attention(anatomy)
    unembedding = anatomy.model.get_output_embeddings().weight.detach()

    def plain() -> None:
        for batch in by_length([len(row) for row in rows]):
            ids = pad_right([rows[i] for i in batch], anatomy.device)
            with torch.no_grad():
                anatomy.model(input_ids=ids, use_cache=False, logits_to_keep=1)

    def scored() -> None:
        labels = []
        for episode, prompt in zip(episodes, prompts, strict=True):
            shown = [context.answers(d)[0] for d in episode.demonstrations]
            right = context.answers(episode.dummies[0])[0]
            labels.append(label_set(encoder, prompt, context.delimiter, right, shown))
        score(head_outputs(attention, rows), labels, unembedding)

    measured = ratio(scored, plain, bound=BOUND, rounds=5)
    benchmark.extra_info["scoring all heads / plain forward, 50 episodes"] = round(measured, 3)
    benchmark.pedantic(scored, rounds=1)
    assert measured <= BOUND
