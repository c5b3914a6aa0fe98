"""What `evaluate` is asked: each task's name, its prompt, the reward it is scored with, and words.

    a task's name            the task's reward of the domain
    a reward text            over the domain's quantities, such as "speed*(height>0.5)"
    a function               of physics states (of observations, in an environment): yours
    a z, or (states, r)      the reward of the task that the name says, else its own: phi(s).z
                             (of transitions, phi(s, s').z), counted from its mean over the data

A task that is not the domain's gets a note, so that its score says what it is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from zsrl_jax.agent import Agent, Prompt
from zsrl_jax.envs import DOMAINS, relabel
from zsrl_jax.errors import DataError, TaskError, missing_domain, unknown
from zsrl_jax.oracle import Oracle
from zsrl_jax.rewards import reward_function

Player = Agent | Oracle


class Steps(NamedTuple):
    """Steps that were played: the states before and after, and the physics after."""

    before: Float[np.ndarray, "*n obs"]
    obs: Float[np.ndarray, "*n obs"]
    physics: Float[np.ndarray, "*n physics"] | None = None


Rewarder = Callable[[Steps], np.ndarray]  # steps [seed, n, ...] -> rewards [seed, n]


class Asked(NamedTuple):
    """One task that an agent is scored on."""

    name: str
    prompt: Prompt
    reward: Rewarder | None  # None: the environment's own
    note: str = ""  # what the score is, if it is not that of a task of the domain


class Place(NamedTuple):
    """Where episodes are played: a domain's simulator, or an environment of the user's."""

    agent: Player
    foreign: bool
    reward: Callable[..., Any] | str | None  # given for all tasks

    @property
    def known(self) -> tuple[str, ...]:
        """Return the tasks that the place can score by name."""
        domain = self.agent.domain
        return () if self.foreign or domain not in DOMAINS else tuple(DOMAINS[domain].tasks)


def ask(
    agent: Player, tasks: Any, reward: Callable[..., Any] | str | None, foreign: bool
) -> tuple[Asked, ...]:
    """Prompt an agent for each task; `foreign` says that an environment of the user's is played."""
    place = Place(agent, foreign, reward)
    if not foreign and agent.domain not in DOMAINS:
        raise TaskError(missing_domain(agent.domain, "give environment=, a factory of yours"))
    if reward is not None and not callable(reward) and not isinstance(reward, str):
        raise DataError(f"reward is a {type(reward).__name__}: expected a function, or a task name")
    named = _named(place, tasks)
    if not named:
        raise DataError(f"tasks is empty: expected {_options(place)}")
    return tuple(_ask(place, name, given) for name, given in named.items())


def _options(place: Place) -> str:
    names = ", ".join(place.agent.task_names)
    own = "tasks={name: z or function}, or reward=, a function"
    return f"names of tasks ({names}), or {own}" if names else own


def _named(place: Place, tasks: Any) -> dict[str, Any]:
    """Return what is asked by name."""
    if tasks is None and place.reward is not None:
        return {_name_of(place.reward): place.reward}
    if tasks is None:
        if not place.agent.task_names:
            raise DataError(
                "the agent knows no task of its robot: expected tasks={name: z}, such as "
                "{'there': agent.infer(goal=state)}, or reward=, a function of observations"
            )
        return {name: name for name in place.agent.task_names}
    if isinstance(tasks, Mapping):
        return dict(tasks)
    if isinstance(tasks, str) or callable(tasks):
        tasks = (tasks,)
    if not isinstance(tasks, Iterable) or isinstance(tasks, np.ndarray):
        raise DataError(f"tasks is a {type(tasks).__name__}: expected {_options(place)}")
    found: dict[str, Any] = {}
    for given in tasks:
        if not (isinstance(given, str) or callable(given)):
            kind = type(given).__name__
            raise DataError(f"tasks holds a {kind} without a name: expected {_options(place)}")
        found[_name_of(given)] = given
    return found


def _name_of(given: Any) -> str:
    name = given if isinstance(given, str) else getattr(given, "__name__", "reward")
    return "reward" if name == "<lambda>" else str(name)


def _ask(place: Place, name: str, given: Any) -> Asked:
    """Prompt the agent for one task, and find the reward that scores it."""
    if isinstance(given, str):
        told, own = _of_text(place, given)
        told = "" if given == name and given in place.known else told
        prompt = place.agent.prompt(given)
    elif callable(given):
        prompt, own = _prompt_by_function(place, given), _of_function(given, place.foreign)
        told = f"your function {_name_of(given)} of {_states(place)}"
    else:
        prompt = _prompt_by_vector(place.agent, given)
        told, own = _of_vector(place, name, prompt)
    if place.foreign and own is None:
        told = "the environment's own reward"
    if place.reward is not None and given is not place.reward:
        own, told = _scored_with(place)
    return Asked(name, prompt, own, f"{name}: {told}" if told else "")


def _states(place: Place) -> str:
    return "observations" if place.foreign else "physics states"


def _scored_with(place: Place) -> tuple[Rewarder | None, str]:
    """Return the reward that was given for all tasks."""
    assert place.reward is not None
    if isinstance(place.reward, str):
        if place.foreign:
            raise TaskError(unknown(f"{place.agent.domain} task", place.reward, place.known))
        told, own = _of_text(place, place.reward)
        return own, f"scored with {told}"
    told = f"scored with your function {_name_of(place.reward)} of {_states(place)}"
    return _of_function(place.reward, place.foreign), told


def _prompt_by_function(place: Place, reward: Callable[..., Any]) -> Prompt:
    agent = place.agent
    if not place.foreign or not isinstance(agent, Agent):
        return agent.prompt(reward)
    obs = np.asarray(agent.params.prompt_obs)
    return agent.prompt((agent.prompt_states, _values(reward, obs)))


def _prompt_by_vector(agent: Player, given: Any) -> Prompt:
    if isinstance(given, tuple) and len(given) == 2:
        return agent.prompt(given)
    try:
        z = np.asarray(given, np.float32)
    except (TypeError, ValueError):
        raise DataError(
            f"a task is a {type(given).__name__}: expected a name, a function or a z"
        ) from None
    if z.shape != (expected := (agent.num_seeds, agent.z_dim)):
        raise DataError(f"z has shape {z.shape}: expected {expected}, as agent.infer gives it")
    if not np.isfinite(z).all():
        raise DataError("z is not finite: expected one as agent.infer gives it")
    return Prompt(z, *(np.full(agent.num_seeds, np.nan) for _ in range(3)))


def _of_text(place: Place, text: str) -> tuple[str, Rewarder | None]:
    """Return what a text is, in words, and its reward: a task of the domain, or a reward text."""
    if place.foreign or text in place.known:
        return f"the task {text}", _of_task(place, text)
    if not isinstance(place.agent, Agent):
        raise TaskError(unknown(f"{place.agent.domain} task", text, place.known))
    function = reward_function(str(place.agent.domain), text)
    return f"the reward text {text}", _of_function(function, False)


def _of_task(place: Place, task: str) -> Rewarder | None:
    """Return the reward of a task of the domain; None in an environment, which has its own."""
    if place.foreign:
        return None
    return lambda steps: np.asarray(relabel(str(place.agent.domain), task, steps.physics))


def _of_vector(place: Place, name: str, prompt: Prompt) -> tuple[str, Rewarder | None]:
    if place.foreign:
        return "", None
    if name in place.known:
        return f"a z of yours, scored with the task {name}", _of_task(place, name)
    if not isinstance(place.agent, Agent):
        raise TaskError(unknown(f"{place.agent.domain} task", name, place.known))
    told = "a z of yours, scored with its own reward phi(s).z (0: the data's mean per step)"
    return told, _of_features(place.agent, prompt.z)


def _of_features(agent: Agent, z: np.ndarray) -> Rewarder:
    """Return the reward that a task vector stands for: phi.z above the data's mean."""
    weight = agent.reward_weights(z)
    data = np.einsum("snd,sd->sn", agent.features(agent.prompt_states), weight)
    level = data.mean(axis=1)

    def reward(steps: Steps) -> np.ndarray:
        seen = agent.seen(steps.before, steps.obs)
        phi = [agent.features(states)[seed] for seed, states in enumerate(seen)]
        rows = [p @ w - m for p, w, m in zip(phi, weight, level, strict=True)]
        return np.stack(rows).astype(np.float64)

    return reward


def _of_function(function: Callable[..., Any], foreign: bool) -> Rewarder:
    def reward(steps: Steps) -> np.ndarray:
        states = steps.obs if foreign or steps.physics is None else steps.physics
        flat = states.reshape(-1, states.shape[-1])
        return _values(function, flat).reshape(states.shape[:-1])

    return reward


def _values(function: Callable[..., Any], states: np.ndarray) -> np.ndarray:
    value = np.asarray(function(states), np.float64)
    if value.shape != (len(states),):
        raise DataError(
            f"the reward function gave shape {value.shape} for states {states.shape}: "
            f"expected ({len(states)},), one reward per state"
        )
    return value
