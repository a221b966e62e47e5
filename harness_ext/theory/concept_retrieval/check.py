"""The check `concept-retrieval`: one cell per training recipe and block of seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from harness_ext.errors import UsageError
from harness_ext.theory.check import Cell, Check, Finding, Measured, Preset
from harness_ext.theory.concept_retrieval import learning, transfer
from harness_ext.theory.concept_retrieval.model import Weights, stream
from harness_ext.theory.concept_retrieval.picture import draw
from harness_ext.theory.concept_retrieval.probes import (
    error,
    generalisation_probes,
    projections,
    standard_probes,
)
from harness_ext.theory.concept_retrieval.prompts import demonstration_prompts
from harness_ext.theory.concept_retrieval.training import RECIPES, Setting, train
from harness_ext.theory.rules import Rule, runs_by

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES: tuple[Rule, ...] = (*learning.RULES, *transfer.RULES)

CURVE_POINTS = 16
GENERALISED = ("qa", "icl")
"""Recipes whose models are also tested on unseen concepts, mixtures and noise."""


class ConceptRetrieval(Check):
    """Theorem 3.2 and Propositions 3.3 and 3.4 of Bu et al. 2025 (arXiv 2508.09820)."""

    name = "concept-retrieval"
    title = "Task concepts are retrieved by vector arithmetic, when trained on questions"
    claims = tuple(rule.claim for rule in RULES)

    def cells(self, preset: Preset) -> list[Cell]:
        """Blocks of up to 4 seeds, trained as one batch; 3 seeds, or 16 for the paper preset."""
        seeds = preset.seeds or {"quick": 3, "paper": 16}[preset.name]
        blocks = [list(range(seeds))[start : start + 4] for start in range(0, seeds, 4)]
        prompts = {"quick": 1000, "paper": 4000}[preset.name]
        return [
            Cell(
                self.name,
                {"recipe": name, "seeds": block, "prompts": prompts, **asdict(Setting())},
            )
            for name in RECIPES
            for block in blocks
        ]

    def measure(self, cell: Cell) -> dict[str, Any]:
        """Figures by name, each a list with one entry per seed; curves hold a list per seed."""
        settings = dict(cell.settings)
        name, seeds = settings.pop("recipe"), settings.pop("seeds")
        prompts = settings.pop("prompts")
        if name not in RECIPES:
            raise UsageError(f"unknown recipe {name!r}; known: {', '.join(RECIPES)}")
        setting, recipe = Setting(**settings), RECIPES[name]
        curves = _Curves(name, setting, seeds, prompts)
        weights = train(recipe, setting, seeds, curves.watch)
        figures: dict[str, Any] = defaultdict(list)
        with torch.no_grad():
            for index, seed in enumerate(seeds):
                arguments = (weights.model(index), recipe.architecture, setting, seed, prompts)
                found = standard_probes(*arguments)
                if name in GENERALISED:
                    found |= generalisation_probes(*arguments)
                for key, figure in found.items():
                    figures[key].append(figure)
        return {**figures, **curves.by_seed()}

    def judge(self, measured: Measured) -> list[Finding]:
        """One finding per rule; a claim holds where it holds for every seed."""
        runs = runs_by("recipe", measured)
        return [rule.judge(runs) for rule in RULES]

    def draw(self, measured: Measured, figure: Figure) -> None:
        draw(runs_by("recipe", measured), figure)


class _Curves:
    """Test error and projections along a training run, on one set of prompts per seed."""

    def __init__(self, name: str, setting: Setting, seeds: Sequence[int], count: int) -> None:
        concepts = setting.vectors()
        self._architecture = RECIPES[name].architecture
        self._concepts, self._dictionary = concepts, concepts.dictionary()
        self._every = max(1, setting.steps // CURVE_POINTS)
        self._last = setting.steps
        self._prompts = [
            demonstration_prompts(
                concepts, setting.pairs, count, setting.noise, stream(seed, "curve")
            )
            for seed in seeds
        ]
        self._steps: list[int] = []
        self._points: dict[str, list[list[float]]] = defaultdict(list)

    def watch(self, step: int, weights: Weights) -> None:
        if step % self._every and step != self._last:
            return
        self._steps.append(step)
        with torch.no_grad():
            for name, values in projections(weights, self._concepts).items():
                self._points[name].append(values.tolist())
            self._points["error"].append(
                [
                    error(weights.model(index), self._architecture, prompts, self._dictionary)
                    for index, prompts in enumerate(self._prompts)
                ]
            )

    def by_seed(self) -> dict[str, list[list[float]]]:
        """Curves, one list of points per seed, the steps among them."""
        curves = {
            f"{name}, curve": [list(seed) for seed in zip(*points, strict=True)]
            for name, points in self._points.items()
        }
        return {"step, curve": [self._steps for _ in self._prompts], **curves}
