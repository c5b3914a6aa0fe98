"""The reference line: TD3 on the true reward of tasks: configs/oracle.py:DOMAIN[,TASK...][,SCALE].

python -m experiments.run --config=configs/oracle.py:walker,run
python -m experiments.run --config=configs/oracle.py:walker      # or :walker,all: every task
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["oracle"]
