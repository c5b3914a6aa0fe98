"""One interface for a foreign environment, dm_env.Environment or Gymnasium (found by attributes).

    reset(seed) -> obs [O];   step(action in [-1, 1]) -> obs [O], reward, ended

Neither library is imported here, so each works without the other. Observations that are
dictionaries are flattened in their own order, as dm_control's are. Actions are scaled to the
environment's bounds.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from zsrl_jax.errors import DataError

Factory = Callable[..., Any]


class Adapter(NamedTuple):
    """An environment's functions in the interface above, and the sizes of its arrays."""

    reset: Callable[[int], np.ndarray]
    step: Callable[[np.ndarray], tuple[np.ndarray, float, bool]]
    obs_dim: int
    action_dim: int
    draw: Callable[[dict[str, Any]], Any] | None = None  # a frame [H, W, 3]; takes width, height


def refuse_instance(factory: Any) -> None:
    """Refuse what cannot be called, such as an environment instead of its factory."""
    if not callable(factory):
        kind = type(factory).__name__
        raise DataError(
            f"environment is a {kind}, not a factory: expected a function that makes one, such as "
            f"lambda: {kind}(...), because several copies are needed"
        )


def adapt(factory: Factory) -> Adapter:
    """Build an environment and give it the interface."""
    env = factory(**({"seed": 0} if _takes_seed(factory) else {}))
    if hasattr(env, "action_spec") and hasattr(env, "observation_spec"):
        return _from_dm_env(env, factory)
    if hasattr(env, "action_space") and hasattr(env, "reset"):
        return _from_gymnasium(env)
    raise DataError(
        f"{type(env).__name__} is not an environment: expected a factory of a dm_env.Environment "
        "(action_spec) or of a Gymnasium environment (action_space)"
    )


def _from_dm_env(env: Any, factory: Factory) -> Adapter:
    low, high = _bounds(env.action_spec(), "minimum", "maximum")
    current = [env]

    def reset(seed: int) -> np.ndarray:
        if _takes_seed(factory):
            current[0] = factory(seed=seed)
        else:
            _random_state(env).seed(seed)
        return flatten(current[0].reset().observation)

    def step(action: np.ndarray) -> tuple[np.ndarray, float, bool]:
        reached = current[0].step(low + (high - low) / 2 * (action + 1))
        return flatten(reached.observation), float(reached.reward or 0.0), bool(reached.last())

    def draw(picture: dict[str, Any]) -> Any:
        return current[0].physics.render(**picture)

    drawn = draw if hasattr(getattr(env, "physics", None), "render") else None
    return Adapter(reset, step, flatten(env.reset().observation).size, low.size, drawn)


def _from_gymnasium(env: Any) -> Adapter:
    low, high = _bounds(env.action_space, "low", "high")

    def step(action: np.ndarray) -> tuple[np.ndarray, float, bool]:
        native = (low + (high - low) / 2 * (action + 1)).astype(env.action_space.dtype)
        obs, reward, terminated, truncated, _ = env.step(native)
        return flatten(obs), float(reward), bool(terminated or truncated)

    def reset(seed: int) -> np.ndarray:
        return flatten(env.reset(seed=int(seed))[0])

    drawn = (lambda picture: env.render()) if getattr(env, "render_mode", None) else None
    return Adapter(reset, step, reset(0).size, low.size, drawn)


def flatten(observation: Any) -> np.ndarray:
    """Return an observation, or a dictionary of them in its own order, as one vector."""
    if isinstance(observation, Mapping):
        return np.concatenate([flatten(value) for value in observation.values()])
    return np.ravel(np.asarray(observation, np.float64))


def _bounds(space: Any, low: str, high: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of a continuous action."""
    if not (hasattr(space, low) and hasattr(space, high)):
        raise DataError(f"action {space}: expected a bounded continuous action")
    shape = space.shape
    lowest, highest = (
        np.broadcast_to(np.asarray(getattr(space, name), np.float64), shape) for name in (low, high)
    )
    if len(shape) != 1 or not (np.isfinite(lowest).all() and np.isfinite(highest).all()):
        raise DataError(f"action {space}: expected one axis with finite bounds")
    return lowest, highest


def _takes_seed(factory: Factory) -> bool:
    try:
        return "seed" in inspect.signature(factory).parameters
    except ValueError:  # a builtin without a signature
        return False


def _random_state(env: Any) -> Any:
    """Return the random state that dm_control starts episodes from (of the task, or its own)."""
    found = getattr(getattr(env, "task", None), "random", None) or getattr(
        env, "random_state", None
    )
    if not isinstance(found, np.random.RandomState):
        raise DataError(
            f"{type(env).__name__} cannot be seeded: give its factory a parameter 'seed'"
        )
    return found
