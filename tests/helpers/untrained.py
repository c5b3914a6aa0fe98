"""Agents that nobody trained: any encoder, any way to answer prompts, on states of a real robot."""

import jax
import jax.numpy as jnp
import numpy as np

import zsrl_jax
from zsrl_jax import acting, td3
from zsrl_jax.agent import Agent, AgentParams
from zsrl_jax.data import Dataset, fit_normalizer, to_device
from zsrl_jax.envs import DOMAINS, Simulator


def play(domain, episodes=4, steps=100):
    """Return a dataset of random actions."""
    simulator, draw = Simulator(domain, episodes, 1), np.random.default_rng(0)
    obs, physics, actions = [simulator.reset(range(episodes))], [simulator.physics()], []
    for _ in range(steps):
        actions.append(draw.uniform(-1, 1, (episodes, DOMAINS[domain].action_dim)))
        obs.append(simulator.step(actions[-1]))
        physics.append(simulator.physics())
    rows = [np.stack(x, axis=1) for x in (obs, actions, physics)]
    return Dataset.from_arrays(rows[0], rows[1], physics=rows[2], domain=domain)


def make_agent(domain="cheetah", encoder="fb", normalize="standard", tasks=True, **fields):
    """Return an agent with networks as they are drawn; `fields` are those of its config."""
    config = zsrl_jax.config(domain, encoder, "btd", "smoke")
    config.update_from_flattened_dict(fields)
    data, key = play(domain), jax.random.key(0)
    normalizer, module = fit_normalizer(data, normalize), zsrl_jax.ENCODERS[encoder]
    made = module.make(config.encoder, data.spec)
    params = made.init(key).params
    if config.policy.kind == "own":
        frozen, actor = module.own_policy(config.encoder, data.spec).take(params)
    else:
        frozen = made.freeze(key, params, to_device(data, normalizer))
        policy = td3.make(config.policy, data.spec, config.encoder.dim, lambda key, data: None)
        actor = acting.params_of(config.policy, policy.init(key))
    one_seed = lambda tree: jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], tree)  # noqa: E731
    draw, dim = np.random.default_rng(1), config.encoder.dim
    vectors = draw.normal(size=(1, 300, dim))
    vectors *= np.sqrt(dim) / np.linalg.norm(vectors, axis=-1, keepdims=True)
    episode, row = data.reached(400)
    return Agent(config, data.spec, domain, AgentParams(
        encoder=one_seed(frozen), actor=one_seed(actor),
        tasks=np.float32(vectors) if tasks else None, normalizer=normalizer,
        prompt_obs=data.obs[episode, row], prompt_physics=data.physics[episode, row],
        centre=np.float32(draw.normal(size=(1, dim))) if tasks else None,
        task_size=np.float32(draw.uniform(0.5, 2, (1, 300))) if tasks else None,
        prompt_before=data.obs[episode, row - 1] if made.of_transitions else None,
    ))  # fmt: skip
