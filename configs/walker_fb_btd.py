"""Walker, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/walker_fb_btd.py         # or :laptop, :paper, :smoke

Laptop scale, measured on the 512 episodes that it collects: returns of 1000 steps, 10 episodes a
task, one training seed (0), so a draw and not a mean:

                stand   walk    run   flip   mean
    btd           286    105     58     76    131
    random        127     34     23     50     59
    R^2          0.86   0.55   0.75   0.60

Mean over tasks after 5, 10, 15, 20 thousand policy updates: 114, 153, 133, 131. Encoder and policy
took 14.2 minutes on one core beside other work; the collection was not timed on a free machine. The
encoder's loss does not settle here: its objective falls to -161 at 1750 updates and has risen to
139 at 8500, because the off-diagonal term grows. Uniform tasks were not run.

These figures are of laptop scale and of data of our own: they do not compare with published ExORL
scores. At paper scale, with an accelerator and ExORL data, the paper reports 611 +- 23 for this
cell; that has not been run here.
"""

from ml_collections import ConfigDict

from configs.cell import get_cell


def get_config(scale: str = "auto") -> ConfigDict:
    """Return the run at a scale: auto, laptop, paper or smoke."""
    return get_cell("walker", "fb", "btd", scale or "auto")
