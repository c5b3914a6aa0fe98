"""Point mass maze, forward-backward features, tasks from the Behavioural Task Distribution.

python -m experiments.run --config=configs/point_mass_maze_fb_btd.py   # or :laptop, :paper, :smoke

No run at laptop scale has been finished yet, so neither its time nor its scores are known.
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["point_mass_maze_fb_btd"]
