"""Point mass maze, forward-backward features, tasks from the Behavioural Task Distribution.

python -m experiments.run --config=configs/point_mass_maze_fb_btd.py   # or :laptop, :paper, :smoke

A run at laptop scale does not solve it yet: docs/environments.md.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["point_mass_maze_fb_btd"]
