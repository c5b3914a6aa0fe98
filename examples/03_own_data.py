"""Train on data of your own robot, then prompt with states that you labelled yourself.

The robot here is a point that is pushed around on a plane. Its episodes are written as one npz file
with the keys of OGBench; docs/data.md lists the other formats. Half a minute on one core.

    python examples/03_own_data.py
"""

import numpy as np

import zsrl_jax


def record(path: str, episodes: int = 50, steps: int = 100) -> None:
    """Write random walks: T + 1 rows per episode, and the last row's action is unused."""
    draw = np.random.default_rng(0)
    push = draw.uniform(-0.5, 0.5, (episodes, 1, 2))
    action = np.clip(push + draw.normal(0, 0.3, (episodes, steps + 1, 2)), -1, 1)
    place = np.cumsum(0.1 * action, axis=1) - 0.1 * action  # the place before each action
    ends = np.zeros((episodes, steps + 1))
    ends[:, -1] = 1
    flat = {"observations": place.reshape(-1, 2), "actions": action.reshape(-1, 2)}
    flat = {name: value.astype(np.float32) for name, value in flat.items()}
    np.savez(path, terminals=ends.reshape(-1), **flat)


def main() -> None:
    """Record, load, train, and ask the agent to go four ways."""
    record("walks.npz")
    data = zsrl_jax.load_dataset("walks.npz", progress=False)
    print(data)

    config = zsrl_jax.config("other", "lra_p", "btd", scale="smoke")  # other: not a known robot
    config.encoder.updates = config.policy.updates = 1000
    config.encoder.learning_rate = config.policy.learning_rate = 1e-3
    agent = zsrl_jax.train(config, data, workdir="runs/own_data")

    states = data.obs.reshape(-1, 2)
    ways = {"right": states[:, 0], "left": -states[:, 0], "up": states[:, 1], "down": -states[:, 1]}
    for name, reward in ways.items():  # more reward further that way
        z, place = agent.infer(reward=(states, reward)), np.zeros(2)
        for _ in range(20):
            place = place + 0.1 * agent.act(place, z)[0]
        print(f"asked to go {name:<5}: 20 steps from (0, 0) lead to {place.round(1)}")


if __name__ == "__main__":
    main()
