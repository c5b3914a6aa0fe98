"""Give the library an encoder of your own, without changing the library.

The encoder is an inverse model: features before and after a step must tell the action (the package
has it too, as `icm`). An encoder is anything with `make` and `default_config`, such as a module.
Half a minute on one core.

    python examples/04_own_encoder.py
"""

from types import SimpleNamespace

import jax.numpy as jnp
from ml_collections import ConfigDict

import zsrl_jax
from zsrl_jax import networks
from zsrl_jax.encoders.base import from_objective


def make(config, spec):
    """Build the encoder: mean (f(phi(s), phi(s')) - a)^2."""
    between = networks.mlp((config.dim, config.dim), config.hidden, spec.action_dim)

    def objective(online, target, batch, key):
        phi = online.phi(batch.obs)
        action = online.between(phi, online.phi(batch.next_obs))
        error = jnp.mean((action - batch.action) ** 2)
        return error, phi, {"error": error}

    return from_objective(config, spec, {"between": between}, objective)


def main() -> None:
    """Register the encoder under a name, and train with it like with any other."""
    inverse = SimpleNamespace(make=make, default_config=ConfigDict)
    zsrl_jax.register(encoder=inverse, name="inverse")
    config = zsrl_jax.config("cheetah", "inverse", "btd", scale="smoke")
    agent = zsrl_jax.train(config, workdir="runs/own_encoder")
    print(agent)
    phi = agent.features(agent.params.prompt_obs)  # [seed, state, d]
    print(f"features {phi.shape}, norm {(phi[0, 0] ** 2).sum() ** 0.5:.3f} = sqrt(d)")


if __name__ == "__main__":
    main()
