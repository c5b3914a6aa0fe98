"""Fit a Gaussian mixture by itself: `zsrl_jax.gmm` knows nothing of robots.

Made-up points of three clusters are fitted, scored and sampled. Ten seconds on one core.

    python examples/05_mixture.py
"""

import jax
import jax.numpy as jnp

from zsrl_jax import gmm

CENTRES = jnp.array([[0.0, 0.0], [4.0, 0.0], [0.0, 6.0]])
DEVIATION = jnp.array([2.0, 0.5])  # wide and flat clusters, so that they overlap


def draw_points(key: jax.Array, num: int) -> jax.Array:
    """Draw points around the three centres."""
    key_cluster, key_noise = jax.random.split(key)
    cluster = jax.random.randint(key_cluster, (num,), 0, len(CENTRES))
    return CENTRES[cluster] + DEVIATION * jax.random.normal(key_noise, (num, 2))


def main() -> None:
    """Fit, look at the result, score other points, and draw new ones."""
    key_data, key_test, key_fit, key_sample = jax.random.split(jax.random.key(0), 4)
    points = draw_points(key_data, 3000)
    mixture, trace = gmm.fit(key_fit, points, num_components=3)
    print(f"EM stopped after {int(trace.iterations)} iterations")
    for weight, mean in zip(mixture.weights, mixture.means, strict=True):
        print(f"  weight {weight:.2f}, mean ({mean[0]:.2f}, {mean[1]:.2f})")

    unseen = draw_points(key_test, 1000)
    far = jnp.array([[20.0, 20.0]])
    print(f"mean log density of unseen points {mixture.log_prob(unseen).mean():.2f}")
    print(f"log density of a point far away {mixture.log_prob(far)[0]:.0f}")
    for x, y in mixture.sample(key_sample, 3):
        print(f"  a sample ({x:.2f}, {y:.2f})")


if __name__ == "__main__":
    main()
