"""Every number of a config has a range; what lies outside is refused before anything runs."""

import math

import pytest
from helpers.person import command
from ml_collections import ConfigDict

from zsrl_jax import DOMAINS, ENCODERS
from zsrl_jax.errors import ConfigError
from zsrl_jax.settings import cells, fields
from zsrl_jax.settings.checks import check
from zsrl_jax.settings.ranges import RANGES, Range, numbers
from zsrl_jax.settings.scales import SCALES

CONFIGS = {name: fields.get_config("cheetah", name, "btd") for name in ENCODERS}
FIELDS = {path: name for name, config in CONFIGS.items() for path, _ in numbers(config)}


@pytest.mark.parametrize("path", FIELDS)
def test_every_number_has_a_range(path):
    assert path in RANGES, f"give {path} a range in zsrl_jax/settings/ranges.py"


@pytest.mark.parametrize("path", RANGES)
def test_every_range_is_of_a_field(path):
    assert path in FIELDS


def field_set(path, value):
    config = cells.config("cheetah", FIELDS[path], "btd", "smoke")
    config.evaluate.every = 0
    config.update_from_flattened_dict({path: value})
    return config


def outside(path):
    allowed = RANGES[path]
    step = 1 if allowed.whole else 0.5
    yield allowed.low - step
    if not math.isinf(allowed.high):
        yield allowed.high + step
    if allowed.closed[0] == "(":
        yield allowed.low
    if allowed.closed[1] == ")":
        yield allowed.high
    if not allowed.whole:
        yield from (math.nan, math.inf)


def of_its_type(path, value):
    """Return a value as the field takes it: hidden layers are a list, counts are integers."""
    default = dict(numbers(CONFIGS[FIELDS[path]]))[path]
    if isinstance(default, tuple):
        return (8, int(value))
    return int(value) if RANGES[path].whole else float(value)


@pytest.mark.parametrize("path", RANGES)
def test_a_value_outside_of_its_range_is_refused(path):
    for value in outside(path):
        with pytest.raises(ConfigError, match=rf"config\.{path} is .*: expected"):
            check(field_set(path, of_its_type(path, value)))


@pytest.mark.parametrize("path", RANGES)
def test_the_ends_of_a_range_are_as_it_says(path):
    allowed = RANGES[path]
    assert allowed.holds(allowed.low) == (allowed.closed[0] == "[")
    if not math.isinf(allowed.high):
        assert allowed.holds(allowed.high) == (allowed.closed[1] == "]")


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_of_every_cell_lies_in_the_ranges(scale):
    for domain in DOMAINS:
        for encoder in ENCODERS:
            check(cells.config(domain, encoder, "btd", scale))
        check(cells.oracle_config(domain, (), scale))


def test_an_oracle_s_fields_are_checked_too():
    config = cells.oracle_config("cheetah", ("run",), "smoke")
    config.policy.discount = 1.5
    with pytest.raises(ConfigError, match="policy.discount is 1.5: expected at least 0 and below"):
        check(config)


def test_a_range_says_what_it_expects():
    assert str(Range(0, 1)) == "0 to 1"
    assert str(Range(0, 1, "(]")) == "above 0 and at most 1"
    assert str(Range(1, whole=True)) == "at least 1 (a whole number)"
    assert not Range(0, 1).holds(True) and not Range(0, 1).holds("0.5")
    assert not Range(1, whole=True).holds(1.5) and not Range(1).holds(())


def test_a_section_without_types_takes_no_words():
    config = cells.config("cheetah", "fb", "btd", "smoke")
    config.infer.nearest = "many"
    with pytest.raises(
        ConfigError, match=r"infer.nearest is many: expected at least 0 \(a whole number\)"
    ):
        check(config)


def test_an_encoder_of_ones_own_brings_ranges(monkeypatch):
    class Own:
        RANGES = {"depth": (1, 4)}
        default_config = staticmethod(ConfigDict)

    monkeypatch.setitem(ENCODERS, "own", Own)
    config = cells.config("cheetah", "aenc", "btd", "smoke")
    with config.unlocked():
        config.encoder.name, config.encoder.depth = "own", 9
    with pytest.raises(ConfigError, match="encoder.depth is 9: expected 1 to 4"):
        check(config)


@pytest.mark.parametrize(
    ("flag", "module"),
    [
        ("--config.policy.updates=-3", "experiments.run"),
        ("--config.policy.discount=1.5", "experiments.run"),
        ("--recipe.learning_rate=-1", "experiments.collect"),
        ("--set=policy.updates=-3", "experiments.paper"),
    ],
)
def test_the_commands_refuse_before_anything_is_made(flag, module, tmp_path):
    asked = {
        "experiments.run": ["--config=configs/cheetah_fb_btd.py:smoke"],
        "experiments.paper": ["main", "--scale=smoke"],
    }.get(module, [])
    folder = "--workdir" if module == "experiments.run" else "--out"
    done = command(*asked, flag, f"{folder}={tmp_path / 'made'}", module=module)
    assert done.returncode == 2 and done.stderr.startswith("error: "), done.stderr
    assert "expected" in done.stderr and not (tmp_path / "made").exists()
