"""Cheetah, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/cheetah_fb_btd.py        # or :laptop, :paper, :smoke

At laptop scale the run takes some 4 minutes on one core, one of them to play its data.
Scores and what was tried: docs/results/cheetah.md.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["cheetah_fb_btd"]
