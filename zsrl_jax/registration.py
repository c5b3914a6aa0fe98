"""Encoders and domains of your own, by name: `register` them in every process that uses them.

    zsrl_jax.register(encoder=module, name="inverse")      # has `make` and `default_config`
    zsrl_jax.register(domain=HOPPER)                       # a Domain has its name

A package can do so for every process, commands included, by an entry point in its pyproject.toml:

    [project.entry-points.zsrl_jax]
    hopper = "my_robots.registration"          # a module that calls zsrl_jax.register when imported

Entry points are imported when a name is not known: reading code from a run folder is never needed.
"""

import importlib.metadata
from typing import Any

from zsrl_jax.encoders import ENCODERS
from zsrl_jax.envs import DOMAINS, Domain
from zsrl_jax.errors import ConfigError

GROUP = "zsrl_jax"
PARTS = ("make", "default_config")
OURS = {"encoder": frozenset(ENCODERS), "domain": frozenset(DOMAINS)}


def register(*, encoder: Any = None, domain: Domain | None = None, name: str | None = None) -> None:
    """Make an encoder or a domain of your own known in this process.

    An encoder is a module, or anything with `make` and `default_config`; its name is the module's
    unless `name` says another. A domain is a `Domain`, which has its name.
    """
    if (encoder is None) == (domain is None):
        raise ConfigError("register got none or both: expected encoder=... or domain=...")
    if domain is not None:
        if not isinstance(domain, Domain):
            raise ConfigError(f"domain is a {type(domain).__name__}: expected a Domain")
        _add(DOMAINS, "domain", name or domain.name, domain)
        return
    if missing := [part for part in PARTS if not callable(getattr(encoder, part, None))]:
        raise ConfigError(
            f"the encoder {encoder!r} has no function {missing[0]}: expected a module with "
            "make(config, spec) and default_config()"
        )
    module = getattr(encoder, "__name__", "").rpartition(".")[2]
    if not (name or module):
        raise ConfigError("the encoder has no name: expected register(encoder=..., name='...')")
    _add(ENCODERS, "encoder", name or module, encoder)


def _add(table: dict[str, Any], kind: str, name: str, value: Any) -> None:
    """Add a name; those of zsrl_jax stay as they are."""
    if name in OURS[kind]:
        raise ConfigError(f"the {kind} '{name}' is zsrl_jax's own: expected another name")
    table[name] = value


def find_plugins() -> None:
    """Import what installed packages register by entry points."""
    for entry in importlib.metadata.entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:
            raise ConfigError(
                f"the entry point '{entry.name}' ({entry.value}) cannot be imported "
                f"({type(error).__name__}: {error}): repair or remove its package"
            ) from error


def missing_part(encoder: str | None, domain: str | None) -> str | None:
    """Return what has to be registered before an encoder and a domain are known, or None."""
    if _unknown(encoder, domain):
        find_plugins()
    kinds = _unknown(encoder, domain)
    if not kinds:
        return None
    told = " and ".join(f"the {kind} '{name}'" for kind, name in kinds)
    calls = " and ".join(
        f"zsrl_jax.register(encoder=..., name='{name}')" if kind == "encoder"
        else "zsrl_jax.register(domain=...)" for kind, name in kinds
    )  # fmt: skip
    return f"needs {told}, not known in this process: call {calls} first (docs/api.md)"


def _unknown(encoder: str | None, domain: str | None) -> list[tuple[str, str]]:
    asked = (("encoder", encoder, ENCODERS), ("domain", domain, DOMAINS))
    return [(kind, name) for kind, name, known in asked if name is not None and name not in known]
