"""Domains and tasks; batched simulation; reward relabelling."""

from zsrl_jax.envs.domain import Domain, Quantities
from zsrl_jax.envs.relabelling import quantities, relabel
from zsrl_jax.envs.simulator import Simulator
from zsrl_jax.envs.table import DOMAINS, find_domain, find_task

__all__ = [
    "DOMAINS",
    "Domain",
    "Quantities",
    "Simulator",
    "find_domain",
    "find_task",
    "quantities",
    "relabel",
]
