"""Walker, forward-backward features, tasks from the Behavioural Task Distribution.

    python -m experiments.run --config=configs/walker_fb_btd.py         # or :laptop, :paper, :smoke

At laptop scale the run takes some 17 minutes on one core, 7 of them (an estimate) to collect.
Scores and what was tried: docs/results/walker.md.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["walker_fb_btd"]
