"""Least risks by quadrature beside sampled training as the paper does it."""

from __future__ import annotations

from time import perf_counter

import torch

from harness_ext.theory.linear_attention.model import squared_errors
from harness_ext.theory.linear_attention.optimum import least_risk, searched
from harness_ext.theory.linear_attention.prompts import draw_pairs, tokens
from harness_ext.theory.linear_attention.structure import Structure
from harness_ext.theory.linear_attention.training import Recipe, train

N, D, LAYERS = 10, 4, 2
STEPS, SEEDS = 20_000, 40
TIMED = 100


def seconds(run) -> float:
    begin = perf_counter()
    run()
    return perf_counter() - begin


def test_quadrature_is_50_times_faster_than_sampled_training_to_a_risk_no_worse(benchmark) -> None:
    recipe = Recipe(TIMED, batch=1000, flips=True)
    trained: list[torch.Tensor] = []
    step = seconds(lambda: trained.append(train("triplet", LAYERS, N, D, [0], recipe)[1])) / TIMED
    training = step * STEPS * SEEDS
    search = seconds(lambda: searched(Structure("triplet", LAYERS), N, D, [0, 1]))
    benchmark.extra_info["sampled training: seconds per step"] = round(step, 4)
    benchmark.extra_info["sampled training / search by quadrature"] = round(training / search)
    best = benchmark.pedantic(
        least_risk, args=("triplet", LAYERS, N, D, [0]), rounds=3, warmup_rounds=1
    )
    exact = benchmark.stats.stats.median
    benchmark.extra_info["sampled training / exact solution"] = round(training / exact)
    assert training / search >= 50
    pairs = draw_pairs(torch.Generator().manual_seed(0), N, D, 20_000)
    weights = best.structure.weights(best.numbers, N, D)
    simulated = float(squared_errors(weights, tokens(pairs, "triplet"), pairs).mean())
    benchmark.extra_info["risk: ours, simulated"] = round(simulated, 4)
    assert simulated <= float(trained[0].min())
