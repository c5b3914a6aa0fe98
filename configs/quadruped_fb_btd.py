"""Quadruped, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/quadruped_fb_btd.py      # or :laptop, :paper, :smoke

Laptop scale, measured on the 512 episodes that it collects: returns of 1000 steps, 10 episodes a
task, one training seed (0), mean and deviation over episodes:

                 stand        walk         run          jump       mean
    btd        140 +- 281   140 +- 180    70 +- 141   103 +- 215    113
    random     307 +- 450   147 +- 215   153 +- 224   228 +- 333    209
    R^2          0.91         0.71         0.90         0.90

**It is no better than random here.** An episode starts in a random orientation, and all four
rewards are paid for being upright, so that most of a score is the luck of the start: from the same
ten starts the policy is upright for less of the time than random actions are (stand). In the data
the robot is upright 10 % of the time, no more at an episode's end than at its start, so there is
little in it to learn getting up from. Mean over tasks after 5, 10, 15, 20 thousand policy updates:
144, 210, 104, 113. Not tried: an explorer that is trained longer, more behaviour; ExORL's data
comes by `--config.data.path`.

On two cores with as much other work beside it as its own, collecting took 22 minutes, encoder and
policy 32; it was not timed on free cores.

These figures are of laptop scale and of data of our own: they do not compare with published ExORL
scores. At paper scale, with an accelerator and ExORL data, the paper reports 704 +- 64 for this
cell; that has not been run here.
"""

from ml_collections import ConfigDict

from configs.cell import get_cell


def get_config(scale: str = "auto") -> ConfigDict:
    """Return the run at a scale: auto, laptop, paper or smoke."""
    return get_cell("quadruped", "fb", "btd", scale or "auto")
