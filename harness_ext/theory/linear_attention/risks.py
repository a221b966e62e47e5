"""The risk E‖TF + W x‖² / d of structured weights, without sampling prompts.

Inside the structured set every token's halves are P x_i and W R x_i, with d×d matrices P and R that
depend on the data only through S = XXᵀ/n and the query x. W averages out: the prediction is W w for
a vector w, so the risk is E‖x + w‖². Nothing grows with n. (Λ4 with orthonormal first rows and a
zero last row is as good as arrows that each read their own pair, which is what is computed.)
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from harness_ext.errors import UsageError
from harness_ext.theory.linear_attention.quadrature import Sample, Spectrum
from harness_ext.theory.linear_attention.structure import Blocks, Structure


def single_risk(numbers: Tensor, layers: int, spectrum: Spectrum) -> Tensor:
    """Exact risk of single-token weights, shape (*batch, size) to (*batch,).

    P, R and w are polynomials in S here, so that each eigenvalue goes its own way.
    """
    blocks = Structure("single", layers).blocks(numbers)
    ones = torch.ones_like(spectrum.values)
    x, y, query, answer = ones, ones, ones, 0 * ones
    for layer in range(layers):
        a, b, c = (scale[..., layer, None] for scale in blocks.scales.unbind(-1))
        own = blocks.pair[..., layer, 0, 0, None]
        keys, values = c * spectrum.values * x * x, c * spectrum.values * x * y
        x, y, query, answer = (
            x + a * (keys + own) * x,
            y + b * (values * x + own * y),
            query + a * keys * query,
            answer + b * values * query,
        )
    return ((1 + answer).square() * spectrum.weights).sum(-1)


def structured_risk(numbers: Tensor, structure: Structure, sample: Sample) -> Tensor:
    """Risk over the sample's points, for one model of several tokens per pair: (size,) to ()."""
    return structured_losses(numbers, structure, sample) @ sample.weights


def structured_losses(numbers: Tensor, structure: Structure, sample: Sample) -> Tensor:
    """‖x + w‖² at each point, for one model of several tokens per pair: (size,) to (points,)."""
    if structure.layout == "single":
        raise UsageError("single-token prompts have an exact risk: single_risk")
    blocks = structure.blocks(numbers)
    upper, lower, x, w = _first_layer(blocks.scales[0], _mixing(blocks, 0), sample)
    for layer in range(1, structure.layers - 1):
        a, b, c = blocks.scales[layer]
        pair, query = _mixing(blocks, layer)
        seen = [token.after(sample.covariance) for token in upper]
        keys = c * (_sum(p @ s for p, s in zip(upper, seen, strict=True)) + _outer(x, x, sample))
        values = c * (_sum(r @ s for r, s in zip(lower, seen, strict=True)) + _outer(w, x, sample))
        upper, lower, x, w = (
            [_updated(upper, t, a, keys, upper[t], pair) for t in range(len(upper))],
            [_updated(lower, t, b, values, upper[t], pair) for t in range(len(upper))],
            [v + a * (_applied(keys, v) + _mixed(query, x, t)) for t, v in enumerate(x)],
            [v + b * (_applied(values, x[t]) + _mixed(query, w, t)) for t, v in enumerate(w)],
        )
    # The last layer matters at the last token only, and matrices need not be multiplied any more.
    _, b, c = blocks.scales[-1]
    last = len(x) - 1
    read = [_applied(sample.covariance, p.transposed(x[last])) for p in upper]
    attended = _sum(r.applied(s) for r, s in zip(lower, read, strict=True))
    attended = attended + _sum(w[t] * (x[t] * x[last]).sum(0) for t in range(last)) / sample.n
    answer = w[last] + b * (c * attended + _mixed(_mixing(blocks, -1)[1], w, last))
    return (sample.query + answer).square().sum(0)


class _Affine(NamedTuple):
    """scale · I + matrix, points last: scale is a number, matrix (d, d, points) or None for 0."""

    scale: Tensor
    matrix: Tensor | None = None

    def __matmul__(self, right: Tensor) -> Tensor:
        product = self.scale * right
        return product if self.matrix is None else product + _product(self.matrix, right)

    def before(self, left: Tensor) -> Tensor:
        """left · self."""
        product = self.scale * left
        return product if self.matrix is None else product + _product(left, self.matrix)

    def after(self, left: Tensor) -> Tensor:
        """left · selfᵀ."""
        product = self.scale * left
        if self.matrix is None:
            return product
        return product + _product(left, self.matrix.transpose(0, 1))

    def applied(self, vector: Tensor) -> Tensor:
        """self · vector, (d, points)."""
        product = self.scale * vector
        return product if self.matrix is None else product + _applied(self.matrix, vector)

    def transposed(self, vector: Tensor) -> Tensor:
        """selfᵀ · vector, (d, points)."""
        product = self.scale * vector
        if self.matrix is None:
            return product
        return product + _applied(self.matrix.transpose(0, 1), vector)


_State = tuple[list[_Affine], list[_Affine], list[Tensor], list[Tensor]]


def _first_layer(scales: Tensor, mixing: tuple[Tensor, Tensor], sample: Sample) -> _State:
    """P and R of a pair's tokens and both halves of the query's, after the first layer.

    Before it, the first token holds x alone and the last y alone: no token has both halves, so
    attention by content moves x only, and only at the first token.
    """
    a, b, c = scales
    pair, query = mixing
    side = len(pair)
    keys = a * c * (sample.covariance + _outer([sample.query] * 2, [sample.query] * 2, sample))
    upper = [_Affine(a * pair[0, t]) for t in range(side)]
    lower = [_Affine(b * pair[-1, t]) for t in range(side)]
    upper[0] = _Affine(1 + upper[0].scale, keys)
    lower[-1] = _Affine(1 + lower[-1].scale)
    x = [a * query[0, t] * sample.query for t in range(side)]
    x[0] = x[0] + sample.query + _applied(keys, sample.query)
    return upper, lower, x, [torch.zeros_like(sample.query)] * side


def _mixing(blocks: Blocks, layer: int) -> tuple[Tensor, Tensor]:
    """D's block of a demonstration, whose arrow reads its own pair, and of the query: (T, T)."""
    return blocks.pair[layer] + blocks.arrow[layer], blocks.query[layer]


def _updated(
    tokens: Sequence[_Affine],
    t: int,
    scale: Tensor,
    attention: Tensor,
    query: _Affine,
    pair: Tensor,
) -> _Affine:
    """Token t's P or R after a layer: attention by content to its x, by position to its pair."""
    mixed = [scale * pair[s, t] for s in range(len(tokens))]
    matrix = scale * query.before(attention)
    for factor, token in zip(mixed, tokens, strict=True):
        if token.matrix is not None:
            matrix = matrix + factor * token.matrix
    own = tokens[t]
    total = own.scale + _sum(f * token.scale for f, token in zip(mixed, tokens, strict=True))
    return _Affine(total, matrix if own.matrix is None else matrix + own.matrix)


def _mixed(block: Tensor, tokens: Sequence[Tensor], t: int) -> Tensor:
    """What D lets the query's token t read from the query's tokens, (d, points)."""
    return _sum(block[s, t] * token for s, token in enumerate(tokens))


def _outer(left: Sequence[Tensor], right: Sequence[Tensor], sample: Sample) -> Tensor:
    """Σ left rightᵀ / n over the query's tokens, the hidden last one excepted: (d, d, points)."""
    pairs = zip(left[:-1], right[:-1], strict=True)
    return _sum(one[:, None] * other[None] for one, other in pairs) / sample.n


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Matrix products, points last: several times faster than the other way for tiny matrices."""
    product = left[:, 0, None] * right[None, 0]
    for k in range(1, left.shape[1]):
        product = torch.addcmul(product, left[:, k, None], right[None, k])
    return product


def _applied(matrix: Tensor, vector: Tensor) -> Tensor:
    """Matrices times vectors, points last: (d, d, points) and (d, points) to (d, points)."""
    return (matrix * vector[None]).sum(1)


def _sum(terms: Iterable[Tensor]) -> Tensor:
    return reduce(operator.add, terms)
