"""Speed of batched simulation and of relabelling against loops over dm_control.

    ratio = (states per second here) / (states per second of the dm_control loop), one process

Simulation: 256 environments on two threads, a 2x256 policy in one jitted call per step, rewards
relabelled within the time, once with one policy and once with 16 vmapped policies of 16
environments each. The loop is dm_control's env.step with the same policy jitted at batch 1.
Resets are left out on both sides.
Relabelling: 100,000 states against set_state, forward, get_reward; the loop is timed on a part
of them (--loop_states) and scaled. Both sides are timed in turn, --repeats times, and the best
time of each counts, so that a busy moment of the machine affects neither. The column `cores` is
the number of cores that the batch got: well below two means that other programs used the machine,
which slows the batch's two threads more than the loop's one.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax import envs

TARGETS = {  # domain -> ratio wanted: one policy, 16 policies, relabelling
    "cheetah": (18, 13, 100),
    "walker": (6, 6, 100),
    "quadruped": (6, 6, 100),
}
NUM_ENVS, NUM_THREADS, WIDTH, POLICIES = 256, 2, 256, 16


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table of ratios, with the target beside each."""
    parser = argparse.ArgumentParser(prog="experiments.bench envs", description=__doc__)
    parser.add_argument("--domains", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--steps", type=int, default=50, help="control steps of the batch")
    parser.add_argument("--loop_steps", type=int, default=300, help="steps of the dm_control loop")
    parser.add_argument("--states", type=int, default=100_000, help="states to relabel")
    parser.add_argument("--loop_states", type=int, default=5_000, help="states for the loop")
    parser.add_argument("--repeats", type=int, default=4)
    options = parser.parse_args(list(argv) if argv is not None else None)
    print(f"{'':24}{'dm_control/s':>14}{'zsrl_jax/s':>14}{'ratio':>8}{'wanted':>8}{'cores':>7}")
    for domain in options.domains:
        one, many, labels = TARGETS[domain]
        _report(f"{domain} 1 policy", one, *_time_simulation(domain, 1, options))
        _report(f"{domain} {POLICIES} policies", many, *_time_simulation(domain, POLICIES, options))
        for dtype in (np.float32, np.float64):
            name = f"{domain} relabel {dtype.__name__}"
            _report(name, labels, *_time_relabelling(domain, dtype, options))


def init_policy(key: jax.Array, obs_dim: int, action_dim: int) -> list[jax.Array]:
    """Return the weights of a 2x256 policy."""
    sizes = (obs_dim, WIDTH, WIDTH, action_dim)
    keys = jax.random.split(key, 3)
    return [
        jax.random.normal(k, (i, o)) / i**0.5
        for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def act(params: list[jax.Array], obs: jax.Array) -> jax.Array:
    """Return actions of observations [..., O]."""
    *hidden, last = params
    for weight in hidden:
        obs = jax.nn.relu(obs @ weight)
    return jnp.tanh(obs @ last)


def _time_simulation(domain: str, policies: int, options: argparse.Namespace) -> tuple[float, ...]:
    """Return environment steps per second of dm_control's loop and of the batch, and its cores."""
    from zsrl_jax.envs import suite

    spec = envs.DOMAINS[domain]
    task = list(spec.tasks)[-1]
    keys = jax.random.split(jax.random.key(0), policies)
    params = jax.vmap(lambda key: init_policy(key, spec.obs_dim, spec.action_dim))(keys)
    env = suite.load(domain, task, random=0)
    sim = envs.Simulator(domain, NUM_ENVS, NUM_THREADS)
    together, single = jax.jit(jax.vmap(act)), jax.jit(act)
    first = jax.tree.map(lambda x: x[0], params)

    def loop(observation: dict) -> None:
        for _ in range(options.loop_steps):
            obs = np.concatenate([np.ravel(x) for x in observation.values()])
            observation = env.step(np.asarray(single(first, obs[None]))[0]).observation

    def batch(obs: np.ndarray) -> None:
        seen = []
        for _ in range(options.steps):
            action = together(params, obs.reshape(policies, -1, spec.obs_dim))
            obs = sim.step(np.asarray(action).reshape(NUM_ENVS, -1))
            seen.append(sim.physics())
        envs.relabel(domain, task, np.stack(seen))

    (slow, _), (fast, cores) = _best(
        [
            (lambda: env.reset().observation, loop),
            (lambda: sim.reset(range(NUM_ENVS)), batch),
        ],
        options.repeats,
    )
    return options.loop_steps / slow, options.steps * NUM_ENVS / fast, cores


def _time_relabelling(domain: str, dtype: type, options: argparse.Namespace) -> tuple[float, ...]:
    """Return states labelled per second by dm_control's loop and in closed form, and its cores."""
    from zsrl_jax.envs import suite

    task = list(envs.DOMAINS[domain].tasks)[-1]
    physics = _states(domain, options.states)
    env = suite.load(domain, task, random=0)
    env.reset()

    def loop(states: np.ndarray) -> None:
        for state in states[: options.loop_states]:
            env.physics.set_state(state)
            env.physics.forward()
            env.task.get_reward(env.physics)

    def batch(states: np.ndarray) -> None:
        envs.relabel(domain, task, states)

    (slow, _), (fast, cores) = _best(
        [(lambda: physics, loop), (lambda: physics.astype(dtype), batch)], options.repeats
    )
    return options.loop_states / slow, options.states / fast, cores


def _states(domain: str, count: int) -> np.ndarray:
    """Return states that random actions reach."""
    width = envs.DOMAINS[domain].action_dim
    sim, generator = envs.Simulator(domain, NUM_ENVS, NUM_THREADS), np.random.default_rng(0)
    sim.reset(range(NUM_ENVS))
    seen = []
    for _ in range(min(200, -(-count // NUM_ENVS))):
        sim.step(generator.uniform(-1, 1, (NUM_ENVS, width)))
        seen.append(sim.physics())
    return np.resize(np.concatenate(seen), (count, seen[0].shape[1]))


def _best(
    contestants: Sequence[tuple[Callable, Callable]], repeats: int
) -> list[tuple[float, float]]:
    """Return the best time of each run(prepare()), without prepare, and the cores used."""
    times: list[list[tuple[float, float]]] = [[] for _ in contestants]
    for _ in range(repeats + 1):  # the first round compiles
        for (prepare, run), taken in zip(contestants, times, strict=True):
            ready = prepare()
            begin, worked = time.perf_counter(), time.process_time()
            run(ready)
            seconds = time.perf_counter() - begin
            taken.append((seconds, (time.process_time() - worked) / seconds))
    return [min(taken[1:]) for taken in times]


def _report(name: str, wanted: float, loop: float, batch: float, cores: float) -> None:
    ratio = batch / loop
    mark = "" if ratio >= wanted else "  below"
    row = f"{name:24}{loop:14,.0f}{batch:14,.0f}{ratio:8.1f}{wanted:8}{cores:7.1f}{mark}"
    print(row, flush=True)


if __name__ == "__main__":
    main()
