"""The networks of zsrl_jax in PyTorch, layer by layer, with the same shapes."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """A ReLU network on the concatenation of its inputs."""

    def __init__(self, width_in: int, hidden: Sequence[int], out: int):
        super().__init__()
        sizes, layers = [width_in, *hidden], []
        for before, after in zip(sizes[:-1], sizes[1:], strict=True):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], out))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the output."""
        return self.net(torch.cat(inputs, dim=-1))


class Sphere(Mlp):
    """phi(s): a ReLU network whose output has the length sqrt(d)."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the output on the sphere."""
        return project(super().forward(*inputs))


def project(x: Tensor) -> Tensor:
    """Scale vectors to the sphere of radius sqrt(d)."""
    return x.shape[-1] ** 0.5 * nn.functional.normalize(x, dim=-1)


def stream(width_in: int, width: int) -> nn.Sequential:
    """Make one stream: Dense LayerNorm tanh -> Dense ReLU."""
    return nn.Sequential(
        nn.Linear(width_in, width), nn.LayerNorm(width), nn.Tanh(),
        nn.Linear(width, width // 2), nn.ReLU(),
    )  # fmt: skip


class Actor(nn.Module):
    """pi(s, z): streams [s] and [s, z], joined."""

    def __init__(self, obs: int, action: int, dim: int, width: int):
        super().__init__()
        self.alone, self.told = stream(obs, width), stream(obs + dim, width)
        self.head = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, action), nn.Tanh()
        )

    def forward(self, obs: Tensor, z: Tensor) -> Tensor:
        """Return actions."""
        told = self.told(torch.cat([obs, z], dim=-1))
        return self.head(torch.cat([self.alone(obs), told], dim=-1))


class Twin(nn.Module):
    """Two heads on streams [s, a] and [s, z], joined."""

    def __init__(self, obs: int, action: int, dim: int, width: int):
        super().__init__()
        self.acted, self.told = stream(obs + action, width), stream(obs + dim, width)
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dim))
            for _ in range(2)
        )

    def forward(self, obs: Tensor, action: Tensor, z: Tensor) -> Tensor:
        """Return both heads' outputs, [2, batch, d]."""
        acted = self.acted(torch.cat([obs, action], dim=-1))
        told = self.told(torch.cat([obs, z], dim=-1))
        joined = torch.cat([acted, told], dim=-1)
        return torch.stack([head(joined) for head in self.heads])


def frozen_copy(net: nn.Module) -> nn.Module:
    """Return a target network."""
    return copy.deepcopy(net).requires_grad_(False)


def follow(target: nn.Module, online: nn.Module, rate: float) -> None:
    """Move a target network towards the online one."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), online.parameters(), strict=True):
            old.lerp_(new, rate)


def noisy(action: Tensor, noise: float, clip: float) -> Tensor:
    """Add TD3's clipped noise to an action."""
    disturbance = (noise * torch.randn_like(action)).clamp(-clip, clip)
    return (action + disturbance).clamp(-1, 1)
