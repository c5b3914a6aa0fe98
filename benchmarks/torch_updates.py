"""The updates of zsrl_jax the ordinary way in PyTorch eager mode: what bench `train` compares with.

One function an objective makes `update()`: draw a batch by indexing tensors, losses, `backward()`,
Adam, target networks. As is usual, the actor's `backward()` runs through the whole critic, whose
gradients are then thrown away. Left out, in PyTorch's favour: metrics and checks for NaN.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from ml_collections import ConfigDict
from torch import Tensor

from benchmarks.torch_networks import (
    Actor,
    Mlp,
    Sphere,
    Twin,
    follow,
    frozen_copy,
    noisy,
    project,
)  # fmt: skip


class Data(NamedTuple):
    """A store as tensors, [episode, row, ...], and phi of its states."""

    obs: Tensor
    action: Tensor
    discount: Tensor
    phi: Tensor | None = None

    def draw(self, num: int) -> tuple[Tensor, Tensor]:
        """Draw places of transitions."""
        episodes, steps = self.action.shape[:2]
        return torch.randint(episodes, (num,)), torch.randint(steps, (num,))

    def batch(self, num: int) -> tuple[Tensor, ...]:
        """Draw (s, a, s', discount)."""
        place, step = self.draw(num)
        obs, reached = self.obs[place, step], self.obs[place, step + 1]
        return obs, self.action[place, step], reached, self.discount[place, step]


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one gradient step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def mean_off(square: Tensor) -> Tensor:
    """Return the mean over pairs with i != j."""
    size = square.shape[-1]
    diagonal = square.diagonal(dim1=-2, dim2=-1)
    return (square.sum((-2, -1)) - diagonal.sum(-1)) / (size * (size - 1))


def mean_on(matrix: Tensor) -> Tensor:
    """Return the mean of the diagonal."""
    return matrix.diagonal(dim1=-2, dim2=-1).mean(-1)


def ortho(phi: Tensor) -> Tensor:
    """Return the orthonormality term of a batch of features."""
    gram = phi @ phi.T
    return mean_off(gram**2) - 2 * mean_on(gram)


def policy(config: ConfigDict, data: Data) -> Callable[[], None]:
    """Make TD3's update on tasks x transitions."""
    phi = data.phi
    assert phi is not None
    obs_dim, action_dim, dim = (x.shape[-1] for x in (data.obs, data.action, phi))
    actor = Actor(obs_dim, action_dim, dim, config.width)
    critic = Twin(obs_dim, action_dim, dim, config.width)
    target, mean = frozen_copy(critic), phi.mean((0, 1))
    opt_actor, opt_critic = (
        torch.optim.Adam(net.parameters(), config.learning_rate) for net in (actor, critic)
    )

    def update() -> None:
        num = config.num_tasks * config.per_task
        place, step = data.draw(num)
        obs, reached = data.obs[place, step], data.obs[place, step + 1]
        z = project(torch.randn(config.num_tasks, dim)).repeat_interleave(config.per_task, 0)
        reward = ((phi[place, step + 1] - mean) * z).sum(-1)
        with torch.no_grad():
            action = noisy(actor(reached, z), config.noise, config.noise_clip)
            q = (target(reached, action, z) * z).sum(-1).min(0).values
            aim = reward + config.discount * data.discount[place, step] * q
        q = (critic(obs, data.action[place, step], z) * z).sum(-1)
        descend(opt_critic, ((q - aim) ** 2).mean(-1).sum())
        q = (critic(obs, actor(obs, z), z) * z).sum(-1)
        descend(opt_actor, -q.min(0).values.mean())
        follow(target, critic, config.target_rate)

    return update


class ForwardBackward(NamedTuple):
    """The update of F, B and their actor, and what acts afterwards."""

    update: Callable[[], None]
    backward: Sphere
    actor: Actor


def fb(config: ConfigDict, data: Data) -> Callable[[], None]:
    """Make the update of F, B and their actor."""
    return forward_backward(config, data).update


def forward_backward(config: ConfigDict, data: Data) -> ForwardBackward:
    """Make F, B, their actor, and the update of all three."""
    obs_dim, action_dim, dim = data.obs.shape[-1], data.action.shape[-1], config.dim
    backward = Sphere(obs_dim, config.hidden, dim)
    forward = Twin(obs_dim, action_dim, dim, config.width)
    actor = Actor(obs_dim, action_dim, dim, config.width)
    targets = frozen_copy(forward), frozen_copy(backward)
    measure = [*forward.parameters(), *backward.parameters()]
    opt_measure = torch.optim.Adam(measure, config.learning_rate)
    opt_actor = torch.optim.Adam(actor.parameters(), config.learning_rate)

    def update() -> None:
        obs, action, reached, discount = data.batch(config.batch)
        with torch.no_grad():
            goal = backward(reached[torch.randperm(config.batch)])
            pick = torch.rand(config.batch, 1) < config.mix_ratio
            z = torch.where(pick, goal, project(torch.randn(config.batch, dim)))
            ahead = noisy(actor(reached, z), config.noise, config.noise_clip)
            bar = targets[0](reached, ahead, z) @ targets[1](reached).T
            bar = config.discount * discount[:, None] * bar.min(0).values
        phi = backward(reached)
        found = forward(obs, action, z) @ phi.T
        loss = (0.5 * mean_off((found - bar) ** 2) - mean_on(found)).sum()
        descend(opt_measure, loss + config.orthonormality * ortho(phi))
        q = (forward(obs, actor(obs, z), z) * z).sum(-1)
        descend(opt_actor, -q.min(0).values.mean())
        for target, net in zip(targets, (forward, backward), strict=True):
            follow(target, net, config.target_rate)

    return ForwardBackward(update, backward, actor)


def _encoder(config: ConfigDict, data: Data, heads: dict[str, tuple[int, int]], objective, targets):
    """Make the update of phi and heads (name -> widths in and out) on one objective."""
    nets = {"phi": Sphere(data.obs.shape[-1], config.hidden, config.dim)}
    nets |= {name: Mlp(i, config.hidden, o) for name, (i, o) in heads.items()}
    bars = {name: frozen_copy(nets[name]) for name in targets}
    params = [p for net in nets.values() for p in net.parameters()]
    optimizer = torch.optim.Adam(params, config.learning_rate)

    def update() -> None:
        loss, phi = objective(nets, bars)
        descend(optimizer, loss + config.orthonormality * ortho(phi))
        for name, bar in bars.items():
            follow(bar, nets[name], config.target_rate)

    return update


def encoder(name: str, config: ConfigDict, data: Data) -> Callable[[], None]:
    """Make the update of an encoder that has one objective."""
    obs_dim, action_dim, dim = data.obs.shape[-1], data.action.shape[-1], config.dim

    def far(place: Tensor, step: Tensor) -> Tensor:
        ahead = torch.empty(len(step)).geometric_(1 - config.discount).long()
        return data.obs[place, torch.minimum(step + ahead, torch.tensor(data.action.shape[1]))]

    def objective(nets, bars):
        place, step = data.draw(config.batch)
        obs, reached = data.obs[place, step], data.obs[place, step + 1]
        action, discount = data.action[place, step], data.discount[place, step]
        if name in ("lra_p", "lra_sr"):
            phi = nets["phi"](reached)
            if name == "lra_p":
                found = nets["left"](obs, action) @ phi.T
                return 0.5 * mean_off(found**2) - mean_on(found), phi
            with torch.no_grad():
                bar = bars["left"](reached) @ bars["phi"](reached).T
                bar = config.discount * discount[:, None] * bar
            found = nets["left"](obs) @ phi.T
            return mean_off((found - bar) ** 2) - 2 * mean_on(found), phi
        phi = nets["phi"](obs)
        if name == "aenc":
            return ((nets["decoder"](phi) - obs) ** 2).mean(), phi
        if name == "trans":
            return ((nets["ahead"](phi, action) - reached) ** 2).mean(), phi
        future = reached if name == "byol" else far(place, step)
        with torch.no_grad():
            aim = bars["phi"](future)
        loss = ((nets["ahead"](phi, action) - aim) ** 2).sum(-1).mean()
        if name == "byol_gamma":
            with torch.no_grad():
                past = bars["phi"](obs)
            loss = loss + ((nets["back"](nets["phi"](future)) - past) ** 2).sum(-1).mean()
        return loss, phi

    ahead = {"ahead": (dim + action_dim, dim)}
    heads, targets = {
        "aenc": ({"decoder": (dim, obs_dim)}, ()),
        "trans": ({"ahead": (dim + action_dim, obs_dim)}, ()),
        "lra_p": ({"left": (obs_dim + action_dim, dim)}, ()),
        "lra_sr": ({"left": (obs_dim, dim)}, ("phi", "left")),
        "byol": (ahead, ("phi",)),
        "byol_gamma": (ahead | {"back": (dim, dim)}, ("phi",)),
    }[name]
    return _encoder(config, data, heads, objective, targets)


def make(name: str, config: ConfigDict, data: Data) -> Callable[[], None]:
    """Make the update of the policy or of an encoder, by name."""
    whole = {"policy": policy, "fb": fb}
    return whole[name](config, data) if name in whole else encoder(name, config, data)
