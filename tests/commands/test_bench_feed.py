"""The bench of the host's feeding: it measures, and says who waits."""

import pytest

from zsrl_jax.commands.bench import feed
from zsrl_jax.errors import DataError


def test_who_waits_is_told(capsys):
    feed.main(["--encoder=lra_p", "--size=tiny", "--seeds=2", "--episodes=2", "--repeats=1"])
    text = capsys.readouterr().out
    assert "encoder  host " in text and "policy   host " in text
    assert text.count("the device waits") == 8  # a tiny update takes a device no time
    with pytest.raises(DataError, match="unknown size 'big'"):
        feed.main(["--size=big"])
