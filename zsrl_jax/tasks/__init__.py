"""Where training tasks come from: feature occupancies of sub-trajectories, and the samplers."""

from zsrl_jax.tasks.occupancy import Behaviour, behaviour_sizes, behaviour_tasks
from zsrl_jax.tasks.samplers import SAMPLERS, Uniform, centre_of

__all__ = ["SAMPLERS", "Behaviour", "Uniform", "behaviour_sizes", "behaviour_tasks", "centre_of"]
