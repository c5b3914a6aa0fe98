"""Cheetah, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/cheetah_fb_btd.py        # or :laptop, :paper, :smoke

At laptop scale the run takes 10 minutes on two cores and 1.6 GiB of memory.
Scores and what was tried: docs/results/cheetah.md.
"""

from ml_collections import ConfigDict

from configs.cell import get_cell


def get_config(scale: str = "auto") -> ConfigDict:
    """Return the run at a scale: auto, laptop, paper or smoke."""
    return get_cell("cheetah", "fb", "btd", scale or "auto")
