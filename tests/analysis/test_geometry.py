"""The paper's proposition on dilution, and overlap, against values worked by hand."""

import numpy as np
import pytest

from zsrl_jax.analysis import geometry


@pytest.fixture
def psi():
    """Occupancies with a mean, correlated coordinates and a covariance of low rank."""
    draw = np.random.default_rng(0)
    return draw.normal(size=(3000, 3)) @ draw.normal(size=(3, 12)) + 5.0


def test_trace_by_hand():
    # variances 1 and 4 around means 1 and 2: (1 + 4) / 2
    assert geometry.normalized_trace(np.array([[0.0, 0.0], [2.0, 4.0]])) == 2.5


def test_variance_of_returns_by_hand():
    psi = np.array([[0.0, 0.0], [2.0, 4.0]])
    z = np.array([[3.0, 0.0], [0.0, 0.1]])  # norms do not matter
    assert geometry.return_variance(psi, z) == pytest.approx((1 + 4) / 2)
    assert geometry.return_variance(psi, np.array([[1.0, 1.0]])) == pytest.approx(4.5)


def test_proposition_holds_exactly_on_any_orthonormal_frame(psi):
    frame, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 12)))
    assert geometry.return_variance(psi, frame.T) == pytest.approx(geometry.normalized_trace(psi))


def test_proposition_holds_for_uniform_tasks_within_their_error(psi):
    z = np.random.default_rng(2).normal(size=(20_000, 12))
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    each = np.einsum("md,de,me->m", unit, np.cov(psi.T, bias=True), unit)
    error = each.std() / len(z) ** 0.5
    gap = geometry.return_variance(psi, z) - geometry.normalized_trace(psi)
    assert abs(gap) < 4 * error < 0.05 * geometry.normalized_trace(psi)


def test_tasks_of_the_data_see_more_than_uniform_ones(psi):
    own = geometry.return_variance(psi, psi - psi.mean(axis=0))
    assert own > 2 * geometry.normalized_trace(psi)


def test_overlap_by_hand():
    tasks = np.array([[1.0, 0, 0], [0, 2.0, 0], [0, 0, 1.0]])
    samples = {"btd": np.array([[5.0, 0.1, 0]]), "uniform": np.array([[0.0, 1, 0.5]])}
    found = geometry.overlap(tasks, samples, threshold=0.6)
    assert found.share == {"btd": 1 / 3, "uniform": 1 / 3}  # the third: cosine 0.447, too far
    assert found.cosine["uniform"] == pytest.approx((0 + 2 / 5**0.5 + 1 / 5**0.5) / 3)


def test_principal_plane_keeps_the_two_widest_directions():
    draw = np.random.default_rng(3)
    axes, _ = np.linalg.qr(draw.normal(size=(500, 5)) - draw.normal(size=(1, 5)))
    axes, _ = np.linalg.qr(axes - axes.mean(axis=0)[None])  # centred, orthonormal columns
    x = axes * np.array([0.1, 9.0, 0.1, 3.0, 0.1]) + 100
    plane = geometry.principal_plane(x)
    np.testing.assert_allclose(np.abs(plane), np.abs(x[:, [1, 3]] - 100), atol=1e-6)
    assert geometry.principal_plane(x[:, :1]).shape[1] == 1
