"""Quadruped, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/quadruped_fb_btd.py      # or :laptop, :paper, :smoke

Laptop scale, measured on the 512 episodes that it collects: returns of 1000 steps, one training
seed (0), 10 episodes a task as the run prints them, and 60 others, for most of a score is luck:

                    stand        walk         run          jump       mean
    btd, 10       353 +- 419   180 +- 211   176 +- 210   264 +- 332    243
    random, 10    307 +- 450   147 +- 215   153 +- 224   228 +- 333    209
    btd, 60       218          111          110          169           152
    random, 60    161           82           81          120           111
    R^2           0.93         0.73         0.92         0.92

An episode starts in a random orientation, and all four rewards are paid for being upright: a robot
that lands on its feet (one in five) scores, one that lands on its back does not. In a hundred
thousand random steps none ever got up, and an explorer of this size does not learn it either. So
the laptop recipe starts 0.6 of the collected episodes on the feet (`data.collect.standing`); scores
are of the ordinary starts. Mean over tasks of the same 60 by that share: 0 gives 107, 0.6 gives
152, 0.9 gives 123, one run each. The policy stands and keeps standing; it walks little, and it does
not get up. After 5, 10, 15, 20 thousand policy updates (10 episodes): 209, 259, 248, 243.

The run takes 22 minutes on two cores that other work had a quarter of: 8.6 to collect, 7.3 for the
encoder, 5.2 for the policy; 2.3 GiB of memory. ExORL's data comes by `--config.data.path`.

These figures are of laptop scale and of data of our own: they do not compare with published ExORL
scores. At paper scale, with an accelerator and ExORL data, the paper reports 704 +- 64 for this
cell; that has not been run here.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["quadruped_fb_btd"]
