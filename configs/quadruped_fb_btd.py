"""Quadruped, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/quadruped_fb_btd.py      # or :laptop, :paper, :smoke

At laptop scale the run takes some 7 minutes on one core and 2.4 GiB of memory.
ExORL's data comes by --config.data.path. Scores and what was tried: docs/results/quadruped.md.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["quadruped_fb_btd"]
