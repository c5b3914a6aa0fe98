"""Walker, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/walker_fb_btd.py         # or :laptop, :paper, :smoke

Laptop scale, measured on the 512 episodes that it collects: returns of 1000 steps, 10 episodes a
task, one training seed (0), so a draw and not a mean:

                              stand   walk    run   flip   mean
    btd                         411     91     69    116    172
    btd, policy.successor=0     346    151     59    164    180     (10 other start states)
      and infer.nearest=0       301     70     56    104    133     (the same 10)
    random                      127     34     23     50     59
    R^2                        0.86   0.55   0.75   0.60

Mean over tasks after 5, 10, 15, 20 thousand policy updates: 134, 166, 178, 172. Uniform tasks were
not run. On two cores with as much other work beside it as its own, collecting took 18 minutes,
encoder and policy 29; it was not timed on free cores (cheetah, with a slightly smaller model: 14.5
in all).

The encoder's loss does not settle here: its objective falls to -161 at 1750 updates and ends at
333, because the off-diagonal term grows (diagonal 14, off-diagonal 361; cheetah's: 333 and
287). Its features express the rewards all the same.

These figures are of laptop scale and of data of our own: they do not compare with published ExORL
scores. At paper scale, with an accelerator and ExORL data, the paper reports 611 +- 23 for this
cell; that has not been run here.
"""

from ml_collections import ConfigDict

from configs.cell import get_cell


def get_config(scale: str = "auto") -> ConfigDict:
    """Return the run at a scale: auto, laptop, paper or smoke."""
    return get_cell("walker", "fb", "btd", scale or "auto")
