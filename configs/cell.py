"""Any cell of the study by name: configs/cell.py:DOMAIN,ENCODER,SAMPLER[,SCALE].

    python -m experiments.run --config=configs/cell.py:cheetah,fb,uniform,laptop
    python -m experiments.run --config=configs/cell.py:cheetah,fb_tuned,btd   # fb as tuned runs do

SCALE is auto (default: paper where JAX sees an accelerator, laptop on a CPU), paper, laptop, or
smoke (under a minute, for tests).
"""

from zsrl_jax.settings.by_name import NAMES

get_config = NAMES["cell"]
