"""Config files by name, for use without a checkout: --config=cheetah_fb_btd:laptop.

A name is that of a file in `configs/`; its argument follows after a colon.
"""

from collections.abc import Callable
from pathlib import Path

from ml_collections import ConfigDict

from zsrl_jax.errors import ConfigError, unknown
from zsrl_jax.settings.cells import cell_from_text, config, oracle_from_text
from zsrl_jax.settings.scales import choose_scale, explorer_recipe


def _named(domain: str) -> Callable[..., ConfigDict]:
    return lambda scale="": config(domain, "fb", "btd", scale or "auto")


def _explorer(scale: str = "") -> ConfigDict:
    chosen = scale if scale == "shipped" else choose_scale(scale or "auto")[0]
    return explorer_recipe(chosen).lock()


NAMES: dict[str, Callable[..., ConfigDict]] = {
    "cell": cell_from_text,
    "oracle": oracle_from_text,
    "explorer": _explorer,
    "cheetah_fb_btd": _named("cheetah"),
    "walker_fb_btd": _named("walker"),
    "quadruped_fb_btd": _named("quadruped"),
    "point_mass_maze_fb_btd": _named("point_mass_maze"),
}


def get_config(text: str = "") -> ConfigDict:
    """Return the config of NAME[:ARGUMENT]."""
    name, _, argument = text.partition(":")
    if name not in NAMES:
        raise ConfigError(unknown("config", name, NAMES))
    return NAMES[name](argument)


def resolve(value: str) -> str:
    """Return a config flag's value; if its file does not exist, the package's of that name."""
    file, colon, argument = value.partition(":")
    name = Path(file).name.removesuffix(".py")
    if name in NAMES and not Path(file).is_file():
        return f"{Path(__file__)}:{name}{colon}{argument}"
    return value
