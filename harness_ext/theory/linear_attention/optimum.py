"""Least risks inside the structured sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.model import Weights
from harness_ext.theory.linear_attention.moments import trace_moment
from harness_ext.theory.linear_attention.prompts import TOKENS, Format
from harness_ext.theory.linear_attention.quadrature import Sample, Spectrum
from harness_ext.theory.linear_attention.risks import single_risk, structured_risk
from harness_ext.theory.linear_attention.structure import (
    INTO_ARROW,
    PAIR_ENTRIES,
    QUERY_ENTRIES,
    Structure,
    embedded,
)

RADII = 14
"""Radii per direction: exact for three layers, whose risk has degree 27 in the squared radius."""

DIRECTIONS = 256
"""Directions a risk is minimised on: the risk of three layers then is right to a few percent."""

SPREAD = 0.1
"""Standard deviation of the noise that sets starts of several tokens per pair apart."""

ITERATIONS = 300
"""Steps of BFGS from each start of three layers; the risk falls by under a percent after them."""

REPLICATES = 16
"""Independent samples that an inexact risk and its standard error come from."""


@dataclass(frozen=True)
class Optimum:
    """The best of several starts.

    Attributes:
        structure: the set it is in.
        numbers: where it is, shape (size,).
        risk: its risk on the mean-over-d scale.
        error: standard error of that risk's integration; 0 where it is exact.
        starts: the risk that each start ended at, in the order of the seeds.
    """

    structure: Structure
    numbers: Tensor
    risk: float
    error: float
    starts: tuple[float, ...]

    def weights(self, n: int, d: int) -> Weights:
        """The whole model's weights at the optimum."""
        return self.structure.weights(self.numbers, n, d)


def least_risk(
    layout: Format, layers: int, n: int, d: int, seeds: Sequence[int], positions: bool = True
) -> Optimum:
    """The least risk found, from one start per seed; two layers of pairs need no start.

    `positions` False takes D from single-token prompts, as the released code does. Raises
    :class:`UsageError` for a layout with too few layers, n < d, or no seed.
    """
    structure = Structure(layout, layers)
    if not seeds:
        raise UsageError("the least risk needs at least one seed to start from")
    if n < d:
        raise UsageError(f"n is {n}, below d = {d}: the risk's quadrature needs n of at least d")
    if layout == "single":
        return single_optimum(layers, n, d, seeds, [True, True, True, positions])
    if layers == 2:
        return _two_layers(structure, n, d)
    return searched(structure, n, d, seeds)


def two_layer_numbers(layout: Format, n: int, d: int, arrow: float = 0.0) -> Tensor:
    """Where the least risk of two layers is, shape (size,).

    Two layers of pairs reach the predictions w = S (α + β S′) x and no others, S′ = S + xxᵀ/n as
    the query is among the keys: a least-squares problem in α and β. Of the numbers that give the
    best α and β, these keep x where it is, bring y to it, and with `arrow` a and orthonormal Λ4
    give the arrows a times the pairs, which then carry a share a² / (1 + a²) of α.
    """
    if arrow and layout != "triplet":
        raise UsageError(f"arrow is {arrow}, but {layout} prompts have no arrows; leave it at 0")
    gram, cross = _two_layer_moments(n, d)
    alpha, beta = np.linalg.solve(gram, -cross)
    direct = alpha / (1 + arrow**2)
    structure = Structure(layout, 2)
    numbers = _concatenating(structure)
    rows = numbers.view(2, -1)
    rows[0, 2] = beta / direct
    rows[1, :3] = torch.tensor([0.0, 1.0, direct], dtype=torch.float64)
    if layout == "triplet":
        rows[0, -len(INTO_ARROW) :] = arrow
    return numbers


def _two_layers(structure: Structure, n: int, d: int) -> Optimum:
    gram, cross = _two_layer_moments(n, d)
    risk = float(d - cross @ np.linalg.solve(gram, cross))
    return Optimum(structure, two_layer_numbers(structure.layout, n, d), risk, 0.0, (risk,))


def _two_layer_moments(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of products of S x and S S′ x, shape (2, 2), and of each with x, shape (2,)."""
    t = [float(trace_moment(n, d, k)) / d for k in range(5)]
    # E ρ², E ρ⁴ / n, E ρ⁶ / n² for ρ = ‖x‖, which is independent of S and of x's direction.
    one, two, three = d, d * (d + 2) / n, d * (d + 2) * (d + 4) / n**2
    mixed = t[3] * one + t[2] * two
    square = t[4] * one + 2 * t[3] * two + t[2] * three
    gram = np.array([[t[2] * one, mixed], [mixed, square]])
    return gram, np.array([t[1] * one, t[2] * one + t[1] * two])


def _concatenating(structure: Structure) -> Tensor:
    """Numbers whose first layer moves y to its x and the query's x to the last token, no more."""
    numbers = torch.zeros(structure.size, dtype=torch.float64)
    first = numbers[: structure.per_layer]
    pair, query = PAIR_ENTRIES[structure.layout], QUERY_ENTRIES[structure.layout]
    last = TOKENS[structure.layout] - 1
    first[:2] = 1
    first[3 + pair.index((last, 0))] = 1
    first[3 + pair.index((last, last))] = -1
    first[3 + len(pair) + query.index((0, last))] = 1
    return numbers


def single_optimum(
    layers: int, n: int, d: int, seeds: Sequence[int], free: Sequence[bool] = (True,) * 4
) -> Optimum:
    """The least exact risk of single-token prompts found, from one start per seed.

    `free` says which of A, B, C, D of every layer may be other than 0: plain gradient descent, for
    one, has no A.
    """
    structure = Structure("single", layers)
    spectrum = Spectrum.exact(n, d, layers)
    held = torch.tensor(free, dtype=torch.float64).repeat(layers)

    def risk(numbers: Tensor) -> Tensor:
        return single_risk(numbers * held, layers, spectrum)

    ends = []
    for seed in seeds:
        start = 0.3 * np.random.default_rng(seed).standard_normal(structure.size)
        ends.append(descend(risk, start, 1000))
    risks = [float(risk(end)) for end in ends]
    best = int(np.argmin(risks))
    return Optimum(structure, ends[best] * held, risks[best], 0.0, tuple(risks))


def searched(structure: Structure, n: int, d: int, seeds: Sequence[int]) -> Optimum:
    """The least risk of several tokens per pair by descent on quasi-random points, any layers.

    Starts lie around the single-token optimum of one layer fewer, which the set contains.
    """
    shorter = single_optimum(structure.layers - 1, n, d, range(4))
    centre = embedded(shorter.numbers, structure.layout)
    ends = []
    for seed in seeds:
        sample = Sample.draw(seed, n, d, DIRECTIONS, RADII)
        noise = SPREAD * np.random.default_rng(seed).standard_normal(structure.size)
        start = centre.numpy() + noise
        risk = partial(structured_risk, structure=structure, sample=sample)
        ends.append(descend(risk, start, ITERATIONS))
    # The start is chosen on points of its own, and the risk of the chosen one taken on others.
    trial = Sample.draw(10**6, n, d, 4 * DIRECTIONS, RADII)
    risks = [float(structured_risk(end, structure, trial)) for end in ends]
    best = int(np.argmin(risks))
    least, error = fresh_risk(ends[best], structure, n, d)
    return Optimum(structure, ends[best], least, error, tuple(risks))


def fresh_risk(numbers: Tensor, structure: Structure, n: int, d: int) -> tuple[float, float]:
    """Risk and its standard error over independent samples that nothing was fitted to."""
    samples = (Sample.draw(2 * 10**6 + k, n, d, 2 * DIRECTIONS, RADII) for k in range(REPLICATES))
    risks = [float(structured_risk(numbers, structure, sample)) for sample in samples]
    return float(np.mean(risks)), float(np.std(risks, ddof=1) / np.sqrt(REPLICATES))


def descend(risk: Callable[[Tensor], Tensor], start: np.ndarray, iterations: int) -> Tensor:
    """Where BFGS ends from a start of shape (size,): a point of the same shape."""

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        numbers = torch.tensor(point, requires_grad=True)
        # The logarithm, because risks fall to 1e-5 and the method's tolerances are absolute.
        value = risk(numbers).log()
        (gradient,) = torch.autograd.grad(value, numbers)
        return float(value.detach()), gradient.numpy()

    found = minimize(
        value_and_gradient, start, jac=True, method="BFGS", options={"maxiter": iterations}
    )
    return torch.from_numpy(found.x)
