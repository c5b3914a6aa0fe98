"""Train an agent and score it on four tasks that it was never trained for.

It makes a little data, trains an encoder and a policy, and plays episodes of every task.
The default scale is smoke. It takes about a minute on one core, most of it to compile, and half of
that the next time. It shows the steps and learns nothing.

    python examples/01_train_and_score.py
    python examples/01_train_and_score.py --scale=laptop    # 5 to 15 minutes, real scores
"""

import argparse

import zsrl_jax


def main() -> None:
    """Train at the chosen scale, print the scores, and load the agent again."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", default="smoke", choices=["smoke", "laptop", "paper"])
    parser.add_argument("--workdir", default="runs/example")
    args = parser.parse_args()

    config = zsrl_jax.config("cheetah", encoder="fb", sampler="btd", scale=args.scale)
    agent = zsrl_jax.train(config, workdir=args.workdir)
    print(agent)

    scores = zsrl_jax.evaluate(agent, episodes=config.evaluate.episodes)
    print(scores)  # of 1000; returns[seed, task, episode] are in scores.returns

    again = zsrl_jax.load(args.workdir)  # in another program, later
    print(f"loaded from {args.workdir}: {again}")


if __name__ == "__main__":
    main()
