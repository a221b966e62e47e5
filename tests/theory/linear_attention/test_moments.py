from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from harness_ext.theory.linear_attention.moments import spectral_quadrature, trace_moment


@pytest.mark.parametrize(("n", "d"), [(5, 4), (10, 4), (3, 2)])
def test_first_moments_are_those_known_in_closed_form(n, d) -> None:
    assert trace_moment(n, d, 0) == d
    assert trace_moment(n, d, 1) == d
    assert trace_moment(n, d, 2) == Fraction(d * (n + d + 1), n)
    third = d * (n**2 + d**2 + 3 * n * d + 3 * n + 3 * d + 4)
    assert trace_moment(n, d, 3) == Fraction(third, n**2)


def test_in_one_dimension_moments_are_those_of_chi_square() -> None:
    n = 7
    for k in range(1, 12):
        product = np.prod([n + 2 * j for j in range(k)], dtype=object)
        assert trace_moment(n, 1, k) == Fraction(int(product), n**k)


def test_moments_agree_with_sampling() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100_000, 4, 10))
    values = np.linalg.eigvalsh(x @ x.transpose(0, 2, 1) / 10)
    for k in (4, 5):
        traces = (values**k).sum(1)
        error = traces.std() / len(traces) ** 0.5
        assert abs(traces.mean() - float(trace_moment(10, 4, k))) < 4 * error


def test_the_quadrature_is_exact_up_to_its_degree_and_no_further() -> None:
    nodes, weights = spectral_quadrature(10, 4, 5)
    for k in range(10):
        assert weights @ nodes**k == pytest.approx(float(trace_moment(10, 4, k)), rel=1e-10)
    assert weights @ nodes**10 != pytest.approx(float(trace_moment(10, 4, 10)), rel=1e-6)
    assert (nodes > 0).all() and (weights > 0).all()
