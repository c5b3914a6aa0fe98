"""The domains by name; a look-up that fails suggests the nearest name."""

from zsrl_jax.envs.domain import Domain, Reward
from zsrl_jax.envs.domains import cheetah, point_mass_maze, quadruped, walker
from zsrl_jax.errors import TaskError, missing_domain, unknown

DOMAINS: dict[str, Domain] = {
    domain.name: domain
    for domain in (cheetah.DOMAIN, walker.DOMAIN, quadruped.DOMAIN, point_mass_maze.DOMAIN)
}


def find_domain(domain: str | Domain | None) -> Domain:
    """Return the domain of this name; a Domain is returned unchanged."""
    if isinstance(domain, Domain):
        return domain
    if domain is None:
        raise TaskError(missing_domain(None))
    if domain not in DOMAINS:
        hint = "; add yours by zsrl_jax.register(domain=...)"
        raise TaskError(unknown("domain", str(domain), DOMAINS) + hint)
    return DOMAINS[domain]


def find_task(domain: str | Domain, task: str) -> Reward:
    """Return a task's reward, a function of physics [..., P]."""
    tasks = find_domain(domain).tasks
    if task not in tasks:
        raise TaskError(unknown("task", task, tasks))
    return tasks[task]
