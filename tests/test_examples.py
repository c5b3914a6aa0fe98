"""The programs in examples/ run as they stand, in a new folder, and say what they found."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAID = {
    "01_train_and_score": ("walk_backward", "mean", "loaded from runs/example: Agent("),
    "02_prompt": ("a reward function", "a goal state", "a demonstration", "z (1, 8)"),
    "03_own_data": ("50 episodes, 5000 transitions", "asked to go right", "asked to go down"),
    "04_own_encoder": ("Agent(cheetah_inverse_btd", "norm 2.828 = sqrt(d)"),
    "05_mixture": ("EM stopped after", "mean log density of unseen points"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Share one folder, as a person would: later programs find the data of the first one."""
    return tmp_path_factory.mktemp("examples")


def test_every_example_is_known():
    assert [file.stem for file in EXAMPLES] == list(SAID)


@pytest.mark.whole
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_runs(file, folder):
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}
    env.pop("ZSRL_DATA", None)
    call = [sys.executable, str(file)]
    done = subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    for words in SAID[file.stem]:
        assert words in done.stdout, done.stdout
