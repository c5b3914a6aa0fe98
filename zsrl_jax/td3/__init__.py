"""Task-conditioned offline TD3 on the rewards of a frozen encoder.

    reward   R_z(s') = (phi(s') - m).z        m = mean feature, or 0 (`center_reward`)
    target   y = R_z(s') + gamma min_k Qbar_k(s', a', z),   a' = clip(pi(s', z) + clip(noise))
    critic   sum_k mean (Q_k(s, a, z) - y)^2,               Q_k = psi_k(s, a, z).z
    actor    -mean min_k Q_k(s, pi(s, z), z)

A batch holds `num_tasks` task vectors with `per_task` transitions each. Without tasks (a z of width
0) the same steps train on one reward: that of the oracle, or of the explorer.

Departures from the paper, each a field: `center_reward` shifts every reward by a constant, which
changes no optimal policy but takes the large constant that phi carries out of Q (false = the
paper's letter). The others steady small data and are off at paper scale:
`behaviour` > 0 adds `behaviour` mean (pi(s, z) - a)^2, with Q scaled by its mean absolute value
    (Fujimoto and Gu, 2021). As values spread back through time |Q| grows and with it the pull:
    the policy is free early and settles near the data later.
`successor` > 0 adds `successor` sum_k mean |psi_k - (phi(s') - m + gamma psibar_j(s', a', z))|^2,
    j the critic of least value: d numbers to learn from instead of one. Its target times z is y.
`head_norm` puts LayerNorm into the critic's heads, `anneal` takes the learning rate to 0, and
`actor_average` acts with a running average of the actor.
"""

from zsrl_jax.td3.learning import (
    Nets,
    PolicyBatch,
    PolicyData,
    acting,
    learning_rate,
    make,
    make_actor_step,
    make_critic_step,
    make_draw,
    make_label,
    make_sample,
)
from zsrl_jax.td3.losses import (
    actor_loss,
    critic_loss,
    q_value,
    successor_loss,
    successor_target,
    td_target,
)

__all__ = [
    "Nets",
    "PolicyBatch",
    "PolicyData",
    "acting",
    "actor_loss",
    "critic_loss",
    "learning_rate",
    "make",
    "make_actor_step",
    "make_critic_step",
    "make_draw",
    "make_label",
    "make_sample",
    "q_value",
    "successor_loss",
    "successor_target",
    "td_target",
]
