"""Samplers of training tasks by name: fit(key, behaviour, config) and sample(key, params, n) -> z.

    uniform       the whole sphere
    full_traj     z_tau of whole episodes, every episode of the data once; drawn uniformly
    subtraj       z_tau of `num_subtrajectories` sub-trajectories; drawn uniformly
    btd           a Gaussian mixture fitted to those z_tau by maximum likelihood
    btd_centered  as btd with `center`, whatever the config says
    mix           uniform with probability `alpha`, else btd
    goal_mix      half uniform, half phi(s) of states that an action reached, drawn from a pool
    von_mises_fisher   as btd, with a mixture of von Mises-Fisher distributions

`center` takes the mean behaviour out of the tasks of all but uniform and goal_mix:

    z_tau = radius (m_tau - c) / |m_tau - c|,   m_tau = psi(tau) / sum_t gamma^t,   c = mean m_tau

The paper leaves open what becomes of a sample's norm: every sample is projected to the sphere,
because a task is a direction. `center` is not in the paper: phi has a mean, along which all plain
z_tau point, and without it the tasks spread. Nor are the splits and merges of the mixture's fit
(`moves`; 0 is plain EM). `goal_mix` is the habit of tuned FB runs. They take B(s); here it is
phi(s) for every encoder, which is C^-1 B(s) for fb.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key
from ml_collections import ConfigDict

from zsrl_jax import gmm
from zsrl_jax.data.sampling import draw_places
from zsrl_jax.networks import project, sphere_radius
from zsrl_jax.tasks import occupancy, von_mises_fisher
from zsrl_jax.tasks.occupancy import Behaviour, task_vectors
from zsrl_jax.types import Sampler

COIN = 2**31 - 1  # split gives fold_in(key, 0), fold_in(key, 1), ...: never this one


class Uniform(NamedTuple):
    """The sphere: its radius, and a vector of zeros that carries the dimension."""

    radius: Float[Array, ""]
    zero: Float[Array, " d"]


class Pool(NamedTuple):
    """Task vectors on the sphere, all equally likely."""

    z: Float[Array, "n d"]
    centre: Float[Array, " d"] | None = None  # what occupancies per step were reduced by


class Btd(NamedTuple):
    """The Behavioural Task Distribution: a mixture on the sphere of this radius."""

    radius: Float[Array, ""]
    mixture: gmm.Mixture | von_mises_fisher.Directions
    trace: gmm.Trace | von_mises_fisher.Climb  # log-likelihood by iteration
    centre: Float[Array, " d"] | None = None  # what occupancies per step were reduced by


class Mix(NamedTuple):
    """`uniform` with probability `share`, else the other."""

    share: Float[Array, ""]
    uniform: Uniform
    other: Btd | Pool

    @property
    def trace(self) -> Any:
        """Return the trace of the mixture's fit; goal_mix has no mixture, so no such attribute."""
        return self.other.trace  # type: ignore[union-attr]

    @property
    def centre(self) -> Float[Array, " d"] | None:
        """Return what the other part's occupancies were reduced by."""
        return self.other.centre


def centre_of(params: Any) -> Float[Array, " d"] | None:
    """Return what a fitted sampler subtracts from occupancies per step; None where nothing is."""
    return getattr(params, "centre", None)


def fit_uniform(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Uniform:
    """Return the sphere; the data is not used."""
    return Uniform(_radius(behaviour, config), jnp.zeros(behaviour.dim))


def sample_uniform(key: Key[Array, ""], params: Uniform, num: int) -> Float[Array, "n d"]:
    """Draw task vectors uniformly from the sphere."""
    return project(jax.random.normal(key, (num, *params.zero.shape)), params.radius)


def fit_full_traj(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Pool:
    """Keep the task vector of every whole episode."""
    whole = occupancy.whole_episodes(behaviour.length)
    return Pool(*task_vectors(behaviour, whole, config))


def fit_subtraj(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Pool:
    """Keep the task vectors of sub-trajectories: the paper's p_data."""
    return Pool(*task_vectors(behaviour, _draw(key, behaviour, config), config))


def sample_pool(key: Key[Array, ""], params: Pool, num: int) -> Float[Array, "n d"]:
    """Draw task vectors of the pool, with replacement."""
    return params.z[jax.random.randint(key, (num,), 0, params.z.shape[0])]


def fit_btd(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Btd:
    """Fit the mixture to the task vectors of sub-trajectories."""
    return _fit_btd(key, behaviour, config, config.center)


def fit_btd_centered(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Btd:
    """Fit the mixture to task vectors of occupancies per step minus their mean."""
    return _fit_btd(key, behaviour, config, True)


def fit_von_mises_fisher(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Btd:
    """Fit directions instead of points to the task vectors of sub-trajectories."""
    return _fit_btd(key, behaviour, config, config.center, _fit_directions)


def _fit_btd(key, behaviour: Behaviour, config: ConfigDict, center: bool, fit=None) -> Btd:
    key_piece, key_fit = jax.random.split(key)
    drawn = _draw(key_piece, behaviour, config)
    z, centre = task_vectors(behaviour, drawn, config, center)
    mixture, trace = (fit or _fit_mixture)(key_fit, z, config)
    return Btd(_radius(behaviour, config), mixture, trace, centre)


def sample_btd(key: Key[Array, ""], params: Btd, num: int) -> Float[Array, "n d"]:
    """Draw task vectors from the mixture, projected back to the sphere."""
    return project(params.mixture.sample(key, num), params.radius)


def fit_mix(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Mix:
    """Fit `btd` and keep the sphere; both equal what each would be alone with this key."""
    share = jnp.asarray(config.alpha, jnp.float32)
    uniform = fit_uniform(key, behaviour, config)
    return Mix(share, uniform, fit_btd(key, behaviour, config))


def sample_mix(key: Key[Array, ""], params: Mix, num: int) -> Float[Array, "n d"]:
    """Toss a coin for each task; a row equals that row of the chosen sampler with this key."""
    return _toss(key, params, num, sample_btd)


def fit_goal_mix(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> Mix:
    """Keep phi of `num_subtrajectories` states that an action reached, projected to the sphere."""
    places = draw_places(key, behaviour.length, config.num_subtrajectories)

    def reached(place):
        return behaviour.phi(place[0][None])[0, place[1] + 1]

    phi = jax.lax.map(reached, places, batch_size=occupancy.CHUNK)
    uniform = fit_uniform(key, behaviour, config)
    return Mix(jnp.asarray(0.5), uniform, Pool(project(phi, uniform.radius)))


def sample_goal_mix(key: Key[Array, ""], params: Mix, num: int) -> Float[Array, "n d"]:
    """Toss a coin for each task: the sphere, or a state of the pool as a goal."""
    return _toss(key, params, num, sample_pool)


def _toss(key, params: Mix, num: int, sample_other) -> Float[Array, "n d"]:
    """Pick rows of two samples, both from the same key, so that `share` changes no row."""
    coin = jax.random.bernoulli(jax.random.fold_in(key, COIN), params.share, (num, 1))
    uniform = sample_uniform(jax.random.clone(key), params.uniform, num)
    return jnp.where(coin, uniform, sample_other(jax.random.clone(key), params.other, num))


def _fit_mixture(key, z: Float[Array, "n d"], config: ConfigDict) -> tuple[gmm.Mixture, gmm.Trace]:
    return gmm.fit(
        key,
        z,
        config.num_components,
        num_iters=config.num_iters,
        tolerance=config.tolerance,
        candidates=None if config.moves else 1,  # without moves: as it was before there were any
        moves=config.moves,
    )


def _fit_directions(key, z: Float[Array, "n d"], config: ConfigDict) -> tuple[Any, Any]:
    fields = config.num_components, config.num_iters, config.tolerance
    return von_mises_fisher.fit(key, z, *fields)


def _draw(key: Key[Array, ""], behaviour: Behaviour, config: ConfigDict) -> occupancy.SubTrajectory:
    return occupancy.draw_pieces(key, behaviour, config, config.num_subtrajectories)


def _radius(behaviour: Behaviour, config: ConfigDict) -> Float[Array, ""]:
    return jnp.asarray(sphere_radius(config.radius, behaviour.dim), jnp.float32)


SAMPLERS: dict[str, Sampler] = {
    "uniform": Sampler(fit_uniform, sample_uniform),
    "full_traj": Sampler(fit_full_traj, sample_pool),
    "subtraj": Sampler(fit_subtraj, sample_pool),
    "btd": Sampler(fit_btd, sample_btd),
    "btd_centered": Sampler(fit_btd_centered, sample_btd),
    "mix": Sampler(fit_mix, sample_mix),
    "goal_mix": Sampler(fit_goal_mix, sample_goal_mix),
    "von_mises_fisher": Sampler(fit_von_mises_fisher, sample_btd),
}
