"""Domains and tasks; batched simulation; reward relabelling; pictures; foreign environments.

`zsrl_jax.envs.suite` holds the sixteen tasks as dm_control environments. It is not imported here,
because dm_control loads a GL library. Everything else loads one only when it draws.
"""

from zsrl_jax.envs.domain import Domain, Quantities
from zsrl_jax.envs.external import External, play
from zsrl_jax.envs.registry import DOMAINS, find_domain, find_task
from zsrl_jax.envs.relabelling import quantities, relabel
from zsrl_jax.envs.render import render, render_physics, rollout
from zsrl_jax.envs.sensors import measure
from zsrl_jax.envs.simulator import Simulator

__all__ = [
    "DOMAINS",
    "Domain",
    "External",
    "Quantities",
    "Simulator",
    "find_domain",
    "find_task",
    "measure",
    "play",
    "quantities",
    "relabel",
    "render",
    "render_physics",
    "rollout",
]
