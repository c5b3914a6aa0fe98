"""A stage under faults, with a learner of three numbers: poison, signals, kills, seeds."""

import multiprocessing
import os
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.tiny_run import NEVER, equal, learn, lines, make_learner, make_run

from zsrl_jax.devices import signals
from zsrl_jax.errors import DivergedError
from zsrl_jax.runs import checkpoint, step_saves
from zsrl_jax.seeds import seed_keys
from zsrl_jax.training.divergence import nan_seeds


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
    state = checkpoint.restore(step_saves.newest(tmp_path / "policy").folder, learned_like(1))
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
    save = step_saves.newest(tmp_path / "policy")
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
    assert list(folder.glob("step_*.part")) and step_saves.newest(folder).folder is None
    kill(step_saves.step_folder(folder, 40).exists)
    assert step_saves.newest(folder).step == 40
    assert equal(learn(make_run(tmp_path)), clean[0]) and lines(tmp_path) == clean[1]


def learn_here(workdir):
    learn(make_run(workdir))
