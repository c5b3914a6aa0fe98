"""Walker, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/walker_fb_btd.py         # or :laptop, :paper, :smoke

At laptop scale the run takes some 4 minutes on one core, one of them to play its data.
Scores and what was tried: docs/results/walker.md.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["walker_fb_btd"]
