"""Ask a trained agent for something new: by a reward, by a goal state, by a demonstration.

Give it a run folder. Without one it makes a tiny run first, which takes about a minute on one core.
Features of a tiny run can express few rewards, so it may warn that a prompt is weak.

    python examples/02_prompt.py runs/cheetah_fb_btd
"""

import sys

import zsrl_jax


def tiny_run() -> zsrl_jax.Agent:
    """Train an agent at smoke scale: it can be asked anything, and answers badly."""
    config = zsrl_jax.config("cheetah", "fb", "btd", scale="smoke")
    return zsrl_jax.train(config, workdir="runs/example")


def stroll(physics):
    """Reward a speed near 1 metre per second; physics is [state, qpos and qvel]."""
    speed = zsrl_jax.quantities("cheetah", physics).speed
    return 1 / (1 + (speed - 1) ** 2)


def main() -> None:
    """Turn three prompts into task vectors, then act with them."""
    agent = zsrl_jax.load(sys.argv[1]) if len(sys.argv) > 1 else tiny_run()
    seen = agent.params.prompt_obs  # states of the data, as the robot observes them
    prompts = {
        "a task by its name": agent.infer(reward="run"),
        "a reward function": agent.infer(reward=stroll),
        "a goal state": agent.infer(goal=seen[0]),
        "a demonstration": agent.infer(demonstration=seen[:50]),
    }
    for name, z in prompts.items():  # z is [seed, d], one task vector per training seed
        action = agent.act(seen[0], z)  # [seed, action]
        print(f"{name:<20} z {z.shape}, first action {action[0].round(2)}")

    # Any z can be scored on any task: does the agent run when it is asked to?
    print(zsrl_jax.evaluate(agent, {"run": prompts["a task by its name"]}, episodes=2))


if __name__ == "__main__":
    main()
