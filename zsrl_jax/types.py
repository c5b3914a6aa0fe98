"""The nouns of the project: NamedTuples of arrays, or of pure functions.

One seed everywhere: no array here has a seed axis. `seeds.over_seeds` adds it, as axis 0.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Array, Float, Int, Key

Params = Any
Metrics = dict[str, Array]


class Spec(NamedTuple):
    """The sizes that an encoder or a policy needs before it sees any data."""

    obs_dim: int
    action_dim: int


class Store(NamedTuple):
    """A dataset on the device: observations kept once, the next observation is the next row."""

    obs: Float[Array, "episode row obs"]  # T+1 rows: the reset, then the state after each action
    action: Float[Array, "episode step action"]  # action t leads from obs t to obs t+1
    discount: Float[Array, "episode step"]  # 0 where obs t+1 is terminal, else 1
    length: Int[Array, " episode"]  # steps of each episode; the rows after them are padding


class Transition(NamedTuple):
    """A batch of (s, a, s') with the place it came from."""

    obs: Float[Array, "batch obs"]
    action: Float[Array, "batch action"]
    next_obs: Float[Array, "batch obs"]
    discount: Float[Array, " batch"]
    episode: Int[Array, " batch"]
    step: Int[Array, " batch"]


class Ahead(NamedTuple):
    """Transitions over n steps: s, a, the states reached on the way, and the last of them.

    `start.next_obs` is the state after n steps (fewer where the episode ends), and
    `start.discount` holds discount^(n-1), or 0 where that state is terminal.
    """

    start: Transition
    reached: Float[Array, "batch n obs"]
    row: Int[Array, "batch n"]  # of the episode, for each state reached
    weight: Float[Array, "batch n"]  # discount^i, 0 behind the end


class LearnerState(NamedTuple):
    """All that an update changes: arrays only."""

    params: Params
    target_params: Params
    opt_state: Any


class Encoder(NamedTuple):
    """An encoder: how it is trained, and the frozen function phi it leaves behind.

    phi is of a state, features(params, obs); or, where `of_transitions`, of a state and the one
    that follows, features(params, obs, next_obs).
    """

    init: Callable[[Key[Array, ""]], LearnerState]
    sample: Callable[[Key[Array, ""], Store], Any]
    update: Callable[..., tuple[LearnerState, Metrics]]  # (state, batch, key, step)
    freeze: Callable[[Key[Array, ""], Params, Store], Params]  # what `features` needs, made once
    features: Callable[..., Array]
    of_transitions: bool = False


class Policy(NamedTuple):
    """A task-conditioned policy: how it is trained, and how it acts."""

    init: Callable[[Key[Array, ""]], LearnerState]
    sample: Callable[[Key[Array, ""], Any], Any]
    update: Callable[..., tuple[LearnerState, Metrics]]  # (state, batch, key, step)
    act: Callable[[Params, Array, Array], Array]  # (actor, obs, z) -> action


class OwnPolicy(NamedTuple):
    """The policy that an encoder trained together with itself; its z is E[features r]."""

    take: Callable[[Params], tuple[Params, Params]]  # trained -> (what `features` needs, actor)
    features: Callable[[Params, Array], Array]
    act: Callable[[Params, Array, Array], Array]  # (actor, obs, z) -> action


class Sampler(NamedTuple):
    """A distribution of training tasks: fitted once to the data, then drawn from on the device."""

    fit: Callable[..., Any]  # (key, behaviour, config) -> params
    sample: Callable[[Key[Array, ""], Any, int], Array]  # (key, params, n) -> z[n, d]


class Failure(NamedTuple):
    """Where a seed stopped being finite."""

    seed: int
    stage: str
    step: int  # the update that went wrong; the kept state is that of update `kept`
    quantity: str
    kept: int

    def __str__(self) -> str:
        """Return the failure in one line."""
        return (
            f"seed {self.seed} failed: {self.stage}, update {self.step}: {self.quantity} is not "
            f"finite; its state is kept as of update {self.kept}"
        )
