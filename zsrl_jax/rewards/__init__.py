"""Rewards as text: "speed*(height>0.5)" over a domain's named quantities, in a small safe language.

The same grammar runs in the browser (`web/client/language.js`); one table of cases tests both.
"""

from zsrl_jax.rewards.language import FUNCTIONS, RewardTextError, parse
from zsrl_jax.rewards.of_states import quantity_columns, quantity_names, reward_function

__all__ = [
    "FUNCTIONS",
    "RewardTextError",
    "parse",
    "quantity_columns",
    "quantity_names",
    "reward_function",
]
