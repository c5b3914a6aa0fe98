"""A finished run: prompt it with a reward, a goal or a demonstration, and act.

Every array has the seeds of the run as axis 0, so that one call prompts all seeds at once.
"""

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from ml_collections import ConfigDict

from zsrl_jax import acting, networks, prompts
from zsrl_jax.data import Normalizer
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS
from zsrl_jax.errors import DataError
from zsrl_jax.prompts import Regression
from zsrl_jax.rewards import reward_function
from zsrl_jax.seeds import over_seeds
from zsrl_jax.settings.names import cell_name, is_own
from zsrl_jax.types import Spec

Reward = str | Callable[[Any], Any] | tuple[Any, Any] | list[Any]
WEAK_R2 = 0.1  # below this, a prompt is answered with a warning
FAR = 5.0  # deviations outside of the data's states: beyond, a prompt is answered with a warning
SMALL = 1e-3  # least deviation of an entry of the states, for those that hardly vary


class AgentParams(NamedTuple):
    """What a run leaves behind; axis 0 is the seed, except in `normalizer` and `prompt_*`."""

    encoder: Any  # frozen: what `features` needs
    actor: Any
    tasks: Float[Array, "seed n d"] | None  # of the data: how near is a prompt's z?
    normalizer: Normalizer
    prompt_obs: Float[Array, "n obs"]  # dataset states on which a reward function is computed
    prompt_physics: Float[np.ndarray, "n physics"] | None
    centre: Float[Array, "seed d"] | None = None  # mean occupancy, if the tasks were centred
    task_size: Float[Array, "seed n"] | None = None  # of the occupancies that `tasks` are made of
    prompt_before: Float[Array, "n obs"] | None = None  # what led to `prompt_obs`, if phi needs it


class Prompt(NamedTuple):
    """A task vector for every seed, with measures of its quality."""

    z: Float[np.ndarray, "seed d"]
    r2: Float[np.ndarray, " seed"]  # of the reward regression on held-out states; nan otherwise
    ridge: Float[np.ndarray, " seed"]
    cosine: Float[np.ndarray, " seed"]  # of the prompt's own z with the data's nearest task


@dataclasses.dataclass(eq=False)
class Agent:
    """A trained agent: `infer` turns a prompt into z, `act` turns states and z into actions."""

    config: ConfigDict
    spec: Spec
    domain: str | None
    params: AgentParams
    workdir: Path | None = None
    shipped: str | None = None  # its name, if it ships with the package

    def __post_init__(self) -> None:
        """Bind the frozen functions once, so that each is compiled once."""
        section = self.config.encoder
        module, self.is_own = ENCODERS[section.name], is_own(self.config)
        trained: Any = (module.own_policy if self.is_own else module.make)(section, self.spec)
        policy = self.config.policy
        choose = trained.act if self.is_own else acting.make(policy, self.spec, section.dim)
        self.of_transitions = bool(getattr(trained, "of_transitions", False))
        self.radius = networks.sphere_radius(section.radius, section.dim)

        def features(params: Any, normalizer: Normalizer, obs: Array) -> Array:
            seen = normalizer(obs)
            rows = (seen[:, 0], seen[:, 1]) if self.of_transitions else (seen,)
            phi: Array = trained.features(params, *rows)
            return phi

        def act(actor: Any, normalizer: Normalizer, obs: Array, z: Array) -> Array:
            return jnp.clip(choose(actor, normalizer(obs), z), -1.0, 1.0)

        self._features = over_seeds(features, (0, None, None))
        self._act = over_seeds(act, (0, None, 0, 0))

    @property
    def num_seeds(self) -> int:
        """Count the seeds of the run."""
        return int(jax.tree.leaves(self.params.encoder)[0].shape[0])

    @property
    def z_dim(self) -> int:
        """Return the width of z."""
        return int(self.config.encoder.dim)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Return the tasks that it is scored on by default: all of its domain."""
        return tuple(DOMAINS[self.domain].tasks) if self.domain in DOMAINS else ()

    def __repr__(self) -> str:
        """Return the agent in one line."""
        return (
            f"Agent({cell_name(self.config)}, scale {self.config.scale}, {self.num_seeds} seed(s), "
            f"obs {self.spec.obs_dim}, action {self.spec.action_dim}, d {self.config.encoder.dim})"
        )

    @property
    def prompt_states(self) -> Float[Any, "n *pair obs"]:
        """Return what phi takes of the states on which a reward function is computed."""
        return self.seen(self.params.prompt_before, self.params.prompt_obs)

    def seen(self, before: Any, after: Float[Any, "*n obs"]) -> Float[Any, "... obs"]:
        """Return what phi takes of steps: both states if it is of transitions, else the later."""
        return np.stack([np.asarray(before), after], axis=-2) if self.of_transitions else after

    def features(self, obs: Float[Any, "n *pair obs"]) -> Float[np.ndarray, "seed n d"]:
        """Return phi of raw observations [n, O], for every seed; B if the policy is fb's own.

        If phi is of transitions (`of_transitions`): of [n, 2, O], states before and after.
        """
        obs = self._observations(obs, "states", self.of_transitions)
        return np.asarray(self._features(self.params.encoder, self.params.normalizer, obs))

    def infer(
        self,
        reward: Reward | None = None,
        *,
        goal: Any = None,
        demonstration: Any = None,
    ) -> Float[np.ndarray, "seed d"]:
        """Return the task vector of a reward, a goal state or a demonstration, for every seed.

        A reward is a task's name, a text over the domain's quantities ("speed*(height>0.5)"), a
        function of physics states, or (states, rewards).
        """
        return self.prompt(reward, goal=goal, demonstration=demonstration).z

    def prompt(
        self,
        reward: Reward | None = None,
        *,
        goal: Any = None,
        demonstration: Any = None,
    ) -> Prompt:
        """Do as `infer`, and return the regression's R^2 and the cosine to the data's tasks."""
        given = [x for x in (reward, goal, demonstration) if x is not None]
        if len(given) != 1:
            raise DataError(
                f"infer got {len(given)} prompts: expected exactly one of "
                "reward, goal, demonstration"
            )
        constant = None
        if reward is not None:
            states, values = self._label(reward)
            constant = self._constant(values)
            solved = self._regress(states, values)
        elif goal is not None:
            solved = self._aim(goal)
        else:
            solved = self._follow(demonstration)
        z = np.stack([prompts.on_sphere(s.z, self.radius) for s in solved])
        cosine = np.full(len(z), np.nan)
        if self.params.tasks is not None:
            tasks = np.asarray(self.params.tasks)
            cosine = np.einsum("snd,sd->sn", tasks, z).max(axis=1) / self.radius**2
            if demonstration is None or self.config.tasks.behaviours:
                shown = demonstration is not None
                z = np.stack([self._answer(i, own, shown) for i, own in enumerate(z)])
        r2, ridge = (np.array([getattr(s, name) for s in solved]) for name in ("r2", "ridge"))
        if constant is not None:
            warnings.warn(f"{constant}; expect no particular behaviour", stacklevel=3)
        elif reward is not None and not (r2 >= WEAK_R2).all():
            told = f"R^2 {r2.min():.2f} on held-out states" if (r2 < WEAK_R2).any() else "no R^2"
            warnings.warn(
                f"the features hardly express this reward: {told}; expect a weak policy",
                stacklevel=3,
            )
        return Prompt(z, r2, ridge, cosine)

    def act(
        self, obs: Float[Any, "*batch obs"], z: Float[Any, "seed *batch d"]
    ) -> Float[np.ndarray, "seed *batch action"]:
        """Return actions [seed, ..., A]: obs is one state [O] for all seeds, or [seed, ..., O]."""
        obs, z = align(self, obs, z)
        return np.asarray(self._act(self.params.actor, self.params.normalizer, obs, z))

    @property
    def has_intercept(self) -> bool:
        """Tell whether a constant in a reward changes no answer: where training centred rewards."""
        config = self.config
        return bool(config.infer.intercept and config.policy.center_reward and not self.is_own)

    def reward_weights(self, z: Float[np.ndarray, "seed d"]) -> Float[np.ndarray, "seed d"]:
        """Return w of the reward features(s).w that a task vector asks for: z, or C^-1 z for B."""
        z = np.asarray(z, np.float64)
        if not self.is_own:
            return z
        phi = self.features(self.prompt_states).astype(np.float64)
        moment = np.einsum("snd,sne->sde", phi, phi) / phi.shape[1]
        return np.stack([np.linalg.pinv(m, hermitian=True) @ v for m, v in zip(moment, z)])  # noqa: B905

    def _answer(self, seed: int, z: np.ndarray, shown: bool = False) -> np.ndarray:
        """Return what the policy is asked for: z, or behaviours of the data that fit it.

        A demonstration's z (`shown`) is answered as its piece was made a training task.
        """
        section, tasks = self.config.infer, np.asarray(self.params.tasks)[seed]
        if number := self.config.tasks.behaviours if shown else section.behaviours:
            sizes = self.params.task_size
            size = np.ones(len(tasks)) if sizes is None else np.asarray(sizes)[seed]
            z = prompts.best_behaviours(z, tasks, size, number)
        elif section.nearest:
            z = prompts.nearest_mean(z, tasks, section.nearest)
        return prompts.on_sphere(z, self.radius)

    def _aim(self, goal: Any) -> list[Regression]:
        if np.shape(goal) != (width := self.spec.obs_dim,):
            raise DataError(f"goal has shape {np.shape(goal)}: expected one state, ({width},)")
        shown = self._shown(goal, "goal")
        if self.of_transitions:  # the mean way there, from the data's states
            before = np.asarray(self.params.prompt_before)
            way = self.features(self.seen(before, np.broadcast_to(shown, before.shape)))
            return [_unscored(z) for z in way.mean(axis=1, dtype=np.float64)]
        aim = self.features(shown)[:, 0]
        if self.is_own:
            return [_unscored(g) for g in aim]
        phi = self.features(self.params.prompt_obs)
        pairs = zip(phi, aim, strict=True)
        return [_unscored(prompts.goal_vector(*pair, self.has_intercept)) for pair in pairs]

    def _follow(self, demonstration: Any) -> list[Regression]:
        discount = self.config.tasks.discount
        states = self._shown(demonstration, "demonstration")
        if self.of_transitions:
            if len(states) < 2:
                raise DataError("demonstration has 1 state: expected two or more, phi is of steps")
            states = self.seen(states[:-1], states[1:])
        shown = self.features(states)
        centre = np.zeros(len(shown)) if self.params.centre is None else self.params.centre
        return [
            _unscored(prompts.demonstration_vector(p, discount) - np.asarray(c, np.float64))
            for p, c in zip(shown, centre, strict=True)
        ]

    def _label(self, reward: Reward) -> tuple[Any, np.ndarray]:
        """Return states and their rewards: the given pair, or dataset states with their rewards."""
        if isinstance(reward, tuple | list):
            if len(reward) != 2:
                raise DataError(f"reward has {len(reward)} parts: expected (states, rewards)")
            states = self._shown(reward[0], "reward's states", self.of_transitions)
            return states, as_numbers(reward[1], "rewards").reshape(-1)
        if not isinstance(reward, str) and not callable(reward):
            raise DataError(
                f"reward is a {type(reward).__name__}: expected a task's name, a text such as "
                "'speed*(height>0.5)', a function of physics states, or (states, rewards)"
            )
        physics = self.params.prompt_physics
        if physics is None or (isinstance(reward, str) and self.domain is None):
            raise DataError(
                "the dataset has no physics of a known domain: expected reward=(states, rewards)"
            )
        physics = np.asarray(physics)
        if isinstance(reward, str):
            assert self.domain is not None
            return self.prompt_states, reward_function(self.domain, reward)(physics)
        value = np.asarray(reward(physics), np.float64)
        if value.shape != (len(physics),):
            raise DataError(
                f"the reward function gave shape {value.shape} for physics {physics.shape}: "
                f"expected ({len(physics)},), one reward per state"
            )
        return self.prompt_states, value

    def _regress(self, states: Any, reward: np.ndarray) -> list[Regression]:
        ridge, phi = self.config.infer.ridge, self.features(states)
        if self.is_own:
            return [prompts.moment_vector(p, reward, ridge) for p in phi]
        return [prompts.task_vector(p, reward, ridge, self.has_intercept) for p in phi]

    def _observations(self, given: Any, name: str, pairs: bool = False) -> Array:
        obs: Array = jnp.asarray(as_numbers(given, name))
        width = self.spec.obs_dim
        if obs.ndim != 2 + pairs or obs.shape[1:] != ((2, width) if pairs else (width,)):
            told = f"(n, 2, {width}): states before and after" if pairs else f"(n, {width})"
            raise DataError(f"{name} has shape {obs.shape}: expected {told}")
        return obs

    def _shown(self, given: Any, name: str, pairs: bool = False) -> np.ndarray:
        """Return the states of a prompt; refuse none and NaN, warn of states far from the data."""
        shown = np.atleast_2d(as_numbers(given, name))
        if shown.size == 0:
            raise DataError(f"{name} is empty: expected at least one state")
        self._observations(shown, name, pairs)
        obs = shown.reshape(-1, self.spec.obs_dim)
        if bad := int((~np.isfinite(obs)).any(axis=1).sum()):
            raise DataError(f"{name} is not finite in {bad} of {len(obs)} states")
        known = np.asarray(self.params.prompt_obs, np.float64)
        size = np.maximum(known.std(axis=0), SMALL)
        outside = np.maximum(known.min(axis=0) - obs, obs - known.max(axis=0)) / size
        if (far := outside.max()) > FAR:
            entry = int(np.unravel_index(outside.argmax(), outside.shape)[1])
            warnings.warn(
                f"{name} lies {far:.0f} deviations outside of the data (entry {entry}): the "
                "features know nothing about such states; expect a weak policy",
                stacklevel=5,
            )
        return shown

    def _constant(self, reward: np.ndarray) -> str | None:
        """Say that a reward is the same on every state; refuse it if that leaves no task vector."""
        if not len(reward) or np.ptp(reward) > 1e-9 * np.abs(reward).max():
            return None  # an empty or NaN reward is told of by the regression
        told = f"the reward is {reward[0]:.4g} on every state, so it prefers none"
        if self.has_intercept or reward[0] == 0:
            raise DataError(f"{told}: expected one that varies over the data's states")
        return told


def _unscored(z: np.ndarray) -> Regression:
    return Regression(z, float("nan"), float("nan"))


def align(
    agent: Any, obs: Any, z: Any
) -> tuple[Float[np.ndarray, "seed *b o"], Float[np.ndarray, "..."]]:
    """Bring states and task vectors to the same leading axes: seeds, then any batch."""
    obs, z, seeds = as_numbers(obs, "obs"), as_numbers(z, "z"), agent.num_seeds
    widths = [x.shape[-1] if x.ndim else 0 for x in (obs, z)]
    if widths != [agent.spec.obs_dim, agent.z_dim]:
        raise DataError(
            f"act got obs {obs.shape} and z {z.shape}: expected last axes "
            f"{agent.spec.obs_dim} and {agent.z_dim}"
        )
    if z.ndim < 2 or z.shape[0] != seeds:
        raise DataError(f"act got z {z.shape}: expected axis 0 of {seeds} seed(s)")
    if obs.ndim > 1 and obs.shape[0] != seeds:
        raise DataError(
            f"act got obs {obs.shape}: expected one state, or axis 0 of {seeds} "
            "seed(s), such as obs[None] for a batch of one seed"
        )
    for name, x in (("obs", obs), ("z", z)):
        if bad := int((~np.isfinite(x)).sum()):
            raise DataError(f"act got {name} with {bad} value(s) that are not finite")
    obs = np.broadcast_to(obs, (seeds, obs.shape[-1])) if obs.ndim == 1 else obs
    axes = max(obs.ndim, z.ndim) - 2
    obs, z = (x.reshape(x.shape[0], *(1,) * (axes + 2 - x.ndim), *x.shape[1:]) for x in (obs, z))
    lead = (seeds, *np.broadcast_shapes(obs.shape[1:-1], z.shape[1:-1]))
    obs, z = (np.broadcast_to(x, (*lead, x.shape[-1])) for x in (obs, z))
    return obs, z


def as_numbers(given: Any, name: str) -> Float[np.ndarray, "..."]:
    """Return an array of float32, or raise that it is something else."""
    try:
        return np.asarray(given, np.float32)
    except (TypeError, ValueError):
        kind = type(given).__name__
        raise DataError(f"{name} is a {kind} that holds no numbers: expected an array") from None
