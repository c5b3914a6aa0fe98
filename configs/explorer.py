"""The exploring agent's fields: configs/explorer.py[:SCALE], by default those of the machine.

python -m experiments.collect --domain=cheetah --episodes=500 --recipe=configs/explorer.py:paper
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["explorer"]
