"""State encoders by name: one file an objective (`make`, `default_config`), one line here."""

from types import ModuleType

from zsrl_jax.encoders import fb

ENCODERS: dict[str, ModuleType] = {"fb": fb}
