"""Commands that need no trained run: bad input is one clear line, collecting tells its coverage."""

import pytest
from helpers.person import command, refused

CONFIG = "configs/cheetah_fb_btd.py:smoke"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([f"--config={CONFIG}", "--config.policy.update=5"], "updates"),
        ([f"--config={CONFIG}", "--config.policy.updates=many"], "many"),
        (["--config=configs/cell.py:cheetah,fb,uniforn"], "did you mean 'uniform'"),
        (["--config=configs/nothing.py"], "configs/nothing.py"),
        ([], "no config"),
        ([f"--config={CONFIG}", "--config.data.path=nowhere/at/all"], "nowhere/at/all"),
        ([f"--config={CONFIG}", "--config.scale=paper"], "configs/cheetah_fb_btd.py:paper"),
        ([f"--config={CONFIG}", "config.policy.updates=5"], "unexpected argument"),
    ],
)
def test_bad_input_is_one_clear_line(args, told, tmp_path):
    done = refused(*args, *([f"--workdir={tmp_path}/run"] if args else []))
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert lines[-1].startswith("error: ") and told in lines[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_collect_command_prints_coverage(tmp_path):
    done = command(
        "--domain=cheetah", "--episodes=2", f"--out={tmp_path}",
        "--recipe=configs/explorer.py:smoke", "--recipe.random_steps=5000",
        module="experiments.collect",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "speed" in done.stdout and "99 %" in done.stdout and "coverage" in done.stdout
    bad = refused("--domain=cheeta", module="experiments.collect")
    assert bad.returncode == 2 and "did you mean 'cheetah'" in bad.stderr
