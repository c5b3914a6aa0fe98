"""A stage under faults, with a learner of three numbers: poison, signals, disks, locks, seeds."""

import contextlib
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import tiny_disk
from ml_collections import ConfigDict

import zsrl_jax
from zsrl_jax import checkpoint, lock, metrics, saves, signals, stage
from zsrl_jax.divergence import nan_seeds
from zsrl_jax.errors import DataError, DiskError, DivergedError, LockedError
from zsrl_jax.loop import seed_keys
from zsrl_jax.types import LearnerState, Policy

NEVER = 10**6


def make_learner(quantity="loss"):
    """Make a learner whose `quantity` is not finite at the update that its data names."""

    def init(key):
        w = jax.random.normal(key, (3,))
        return LearnerState({"w": w}, {"w": w + 0.0}, {"w": jnp.zeros(3)})

    def sample(key, data):
        return jax.random.normal(key, (3,)), data

    def update(state, batch, key, step):
        noise, poison = batch
        bad = jnp.where(step == poison, jnp.inf, 0.0)
        grad = noise + (bad if quantity == "gradient" else 0.0)
        w = 0.9 * state.params["w"] + 0.1 * noise + (bad if quantity == "parameter" else 0.0)
        loss = jnp.sum(w**2) + (bad if quantity == "loss" else 0.0)
        moment = state.opt_state["w"] + grad
        return LearnerState({"w": w}, {"w": state.target_params["w"]}, {"w": moment}), {
            "policy/critic_loss": loss
        }

    return Policy(init, sample, update, act=lambda params, obs, z: obs)


def make_run(workdir, updates=60, seeds=(0, 1, 2), save_every=20):
    config = ConfigDict({
        "domain": "cheetah", "seed": 0, "seeds": len(seeds), "log_every": 10,
        "checkpoint_every": save_every, "data": {"normalize": "none", "clip": 1.0},
        "encoder": {}, "tasks": {}, "policy": {"updates": updates},
    })  # fmt: skip
    keys = jnp.stack([seed_keys(seed, 1)[0] for seed in seeds])
    return stage.Run(config, workdir, metrics.Log(workdir), keys, {}, "abc", True, {})


def learn(run, poison=(NEVER, NEVER, NEVER), quantity="loss", on_chunk=None):
    data = jnp.asarray(poison)
    try:
        return stage.learn(run, "policy", make_learner(quantity), data, 0, on_chunk)
    finally:
        run.log.close()


def equal(one, other, places=slice(None)):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a)[places], np.asarray(b)[places]) for a, b in pairs)


def lines(workdir):
    return [{k: v for k, v in x.items() if k != "seconds"} for x in metrics.read(workdir)]


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    return learn(make_run(folder)), lines(folder)


@pytest.mark.parametrize(
    ("quantity", "told"),
    [
        ("loss", "policy/critic_loss is not"),
        ("gradient", "update 34: gradient of w"),
        ("parameter", "parameter of w"),
    ],
)
def test_a_poisoned_seed_is_frozen_and_changes_no_other(tmp_path, capsys, quantity, told):
    run, well = make_run(tmp_path), tmp_path / "well"
    clean = learn(make_run(well), quantity=quantity)  # the same program, other data
    state = learn(run, (NEVER, 33, NEVER), quantity)
    assert equal(state, clean, [0, 2]) and not equal(state, clean, [1])
    failure = run.failed[1]
    assert (failure.seed, failure.stage, failure.step, failure.kept) == (1, "policy", 34, 30)
    message = capsys.readouterr().err
    assert "seed 1 failed: policy, update 34" in message and told in message
    before = learn(make_run(tmp_path / "short", updates=30), quantity=quantity)
    assert equal(state, before, [1])  # the last good state, to the bit
    assert [x["step"] for x in lines(tmp_path)] == [10, 20, 30, 40, 50, 60]
    values = [x["policy/critic_loss"] for x in lines(tmp_path)]
    assert [v[0] for v in values] == [x["policy/critic_loss"][0] for x in lines(well)]
    assert values[-1][1] == "nan"
    again = make_run(tmp_path)
    assert equal(learn(again), state) and again.failed == run.failed  # it stays frozen


def test_a_run_whose_seeds_have_all_failed_stops_with_what_was_good(tmp_path):
    for _ in range(2):  # and again at once, the second time
        with pytest.raises(DivergedError, match=r"seed 0 failed.*update 13.*no seed is left"):
            learn(make_run(tmp_path, seeds=(0,)), (12,))
    state = checkpoint.restore(saves.newest(tmp_path / "policy").folder, learned_like(1))
    assert equal(state, learn(make_run(tmp_path / "short", updates=10, seeds=(0,)), (NEVER,)))


def learned_like(seeds):
    return jax.eval_shape(jax.vmap(make_learner().init), seed_keys(0, seeds))


def test_seeds_permuted_or_a_subset_are_the_same_to_the_bit(clean, tmp_path):
    state = learn(make_run(tmp_path / "permuted", seeds=(2, 0, 1)))
    assert equal(jax.tree.map(lambda x: x[np.array([1, 2, 0])], state), clean[0])
    state = learn(make_run(tmp_path / "subset", seeds=(2,)), (NEVER,))
    assert equal(jax.tree.map(lambda x: x[0], state), jax.tree.map(lambda x: x[2], clean[0]))
    assert equal(learn(make_run(tmp_path / "again")), clean[0])


@pytest.mark.parametrize("number", signals.CAUGHT)
def test_a_signal_saves_at_the_next_chunk_and_a_second_adds_nothing(clean, tmp_path, number):
    seen = []

    def on_chunk(_, done):
        seen.append(done)
        if done == 30 and 30 not in seen[:-1]:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), signal.SIGTERM)

    run = make_run(tmp_path, save_every=NEVER)
    before = signal.getsignal(number)
    with pytest.raises(signals.Stopped, match=number.name), signals.caught():
        learn(run, on_chunk=on_chunk)
    assert signal.getsignal(number) is before
    save = saves.newest(tmp_path / "policy")
    assert save.step == 40 and save.meta["pending"]  # what belongs to update 40 is still to do
    assert seen == [10, 20, 30]
    with signals.caught():
        state = learn(make_run(tmp_path, save_every=NEVER), on_chunk=on_chunk)
    assert seen == [10, 20, 30, 40, 50, 60]
    assert equal(state, clean[0]) and lines(tmp_path) == clean[1]


def test_more_updates_than_before_end_as_if_asked_for_at_once(clean, tmp_path):
    learn(make_run(tmp_path, updates=25))
    assert equal(learn(make_run(tmp_path)), clean[0])
    assert [x["step"] for x in lines(tmp_path)] == [10, 20, 25, 30, 40, 50, 60]


def test_a_damaged_save_is_told_and_the_run_still_ends_the_same(clean, tmp_path, capsys):
    learn(make_run(tmp_path, updates=40))
    file = saves.step_folder(tmp_path / "policy", 40) / "tree" / "_METADATA"
    file.write_bytes(file.read_bytes()[:-5])
    assert equal(learn(make_run(tmp_path)), clean[0]) and lines(tmp_path) == clean[1]
    told = capsys.readouterr().err
    assert "step_00000040' is damaged: file 'tree/_METADATA'" in told and "passed over" in told


@contextlib.contextmanager
def file_limit(size):
    """Let no file grow beyond a size: what a quota does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 200])  # of a metrics line, and inside a save
def test_a_quota_leaves_the_last_save_and_names_the_cause(clean, tmp_path, size):
    learn(make_run(tmp_path, updates=40))
    with file_limit(size), pytest.raises(DiskError, match="File too large"):
        run = make_run(tmp_path, updates=60)
        if size:  # so that the metrics are not the first to fail
            run.log.write = lambda *_: None
        learn(run)
    save = saves.newest(tmp_path / "policy")
    assert save.step == 40 and not save.passed
    assert equal(learn(make_run(tmp_path)), clean[0])
    assert not list((tmp_path / "policy").glob("*.part"))  # what was left of it is gone by now


@pytest.mark.parametrize(
    ("options", "told"), [("size=4k", "No space left"), ("ro", "Read-only file system")]
)
def test_a_full_or_read_only_disk_leaves_the_last_save(clean, tmp_path, options, told):
    folder = tmp_path / "disk"
    with tiny_disk(folder, "size=4m"):
        learn(make_run(folder, updates=40))
        if options == "ro":
            remount(folder, "ro")
        else:
            (folder / "ballast").write_bytes(b"")
            with contextlib.suppress(OSError), (folder / "ballast").open("wb") as file:
                while True:
                    file.write(bytes(4096))
                    file.flush()
        with pytest.raises((DiskError, OSError), match=told):
            learn(make_run(folder))
        save = saves.newest(folder / "policy")
        assert save.step == 40 and not save.passed
        if options == "ro":
            remount(folder, "rw")
        else:
            (folder / "ballast").unlink()
        assert equal(learn(make_run(folder)), clean[0]) and lines(folder) == clean[1]


def remount(folder, how):
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


HOLD = """
import sys, time
from pathlib import Path
sys.modules["zsrl_jax"] = type(sys)("zsrl_jax"); sys.modules["zsrl_jax"].__path__ = [sys.argv[1]]
from zsrl_jax import lock
with lock.held(sys.argv[2]):
    print("held", flush=True)
    time.sleep(600)
"""


def test_one_process_for_each_folder_and_a_dead_one_holds_nothing(tmp_path):
    package = os.path.dirname(lock.__file__)
    call = [sys.executable, "-c", HOLD, package, str(tmp_path)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        told = f"in use by process {other.pid} on "
        with pytest.raises(LockedError, match=told), lock.held(tmp_path):
            pass
        other.send_signal(signal.SIGKILL)
        other.wait()
    with lock.held(tmp_path), lock.held(tmp_path):  # our own functions may nest
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()
    with lock.held(tmp_path):
        pass


READING = """
import signal, time
from experiments import cli
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
cli.run(lambda argv: (print("reading", flush=True), time.sleep(600)))
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGUSR1, 75), (signal.SIGINT, 130)])
def test_a_signal_before_there_is_anything_to_save_is_told_too(number, code):
    call, pipe = [sys.executable, "-c", READING], subprocess.PIPE
    with subprocess.Popen(call, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout.readline() == "reading\n"
        process.send_signal(number)
        _, told = process.communicate()
    assert process.returncode == code and told.startswith("\nstopped") and told.count("\n") == 2


def test_json_of_a_manifest_runs_nothing(tmp_path):
    """A pickle in place of any file, and a manifest that points elsewhere, are refused."""
    canary = tmp_path / "canary"
    pickled = b"cposix\nsystem\n(S'touch " + str(canary).encode() + b"'\ntR."
    learn(make_run(tmp_path, updates=40))
    newest, older = (saves.step_folder(tmp_path / "policy", step) for step in (40, 20))
    checkpoint.discard(older)
    for file in [f for f in newest.rglob("*") if f.is_file()]:
        good = file.read_bytes()
        file.write_bytes(pickled)
        assert saves.newest(tmp_path / "policy").folder is None
        file.write_bytes(good)
    manifest = json.loads((newest / "manifest.json").read_text())
    files = manifest["files"] | {"../../../secret": "0" * 32}
    checkpoint.write_manifest(newest, manifest["meta"], files)  # with a checksum that is right
    assert "'../../../secret' is missing" in saves.newest(tmp_path / "policy").passed[0]
    assert not canary.exists()


CONFIG = {"encoder": {"name": "fb"}, "tasks": {"sampler": "btd"}}


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"tree": {"a": [[3], "object"]}, "config": CONFIG},
        {"tree": {"a": [[-3], "float32"]}, "config": CONFIG},
        {"tree": {"a": [[3], "no dtype"]}, "config": CONFIG},
        {"tree": {"a": [[3], "float32"]}, "config": {"encoder": {"name": "__class__"}}},
        {"tree": {"a": [[3], "float32"]}, "config": {**CONFIG, "encoder": {"name": "../fb"}}},
        {"tree": {"a": [[3], "float32"]}, "config": "import os"},
        {"tree": {"a": [[4], "float32"]}, "config": CONFIG},
        {"tree": {"a": [[3], "float32"]}, "config": CONFIG},
    ],
)
def test_an_agent_that_is_described_as_none_of_ours_is_refused(tmp_path, meta):
    checkpoint.save(tmp_path / "agent", {"a": jnp.ones(3)}, meta)
    with pytest.raises(DataError, match=str(tmp_path)):
        zsrl_jax.load(tmp_path)


def test_a_fit_that_is_not_a_number_is_found_by_seed():
    tree = {"a": jnp.array([[1.0, 2.0], [jnp.inf, jnp.nan]]), "b": jnp.array([1, 2])}
    assert nan_seeds(tree) == {1: "['a']"}


def test_killed_inside_a_save_and_after_another_it_ends_the_same(clean, tmp_path):
    """Real processes, really killed; `make test-faults` does it to the whole command."""
    forked = multiprocessing.get_context("forkserver")
    forked.set_forkserver_preload([__name__])  # imports are paid once
    folder = tmp_path / "policy"

    def kill(when):
        process = forked.Process(target=learn_here, args=(tmp_path,), daemon=True)
        process.start()
        while process.exitcode is None and not when():
            time.sleep(0.001)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL

    kill(lambda: list(folder.glob("step_*.part/*")))
    assert list(folder.glob("step_*.part")) and saves.newest(folder).folder is None
    kill(saves.step_folder(folder, 40).exists)
    assert saves.newest(folder).step == 40
    assert equal(learn(make_run(tmp_path)), clean[0]) and lines(tmp_path) == clean[1]


def learn_here(workdir):
    learn(make_run(workdir))
