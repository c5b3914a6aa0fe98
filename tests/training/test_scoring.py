"""Scores beside training are those of a run that waits for them, in the same lines."""

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.tiny_run import NEVER, equal, lines, make_learner, make_run

from zsrl_jax import train
from zsrl_jax.devices import precision, signals
from zsrl_jax.errors import ConfigError
from zsrl_jax.runs import step_saves
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.settings.checks import check
from zsrl_jax.training import scoring, stage
from zsrl_jax.training.streaming import Resident


def learn(run, beside, gate=None, fault=None):
    """Train three numbers; "score" them every 20 updates, in a thread that waits for a gate."""
    pool = ThreadPoolExecutor(1)

    def score(w):
        if gate is not None:
            assert gate.wait(60)
        if fault is not None:
            raise fault
        return {"evaluate/mean": w.sum(axis=1)}

    def call(state, done):
        w = np.array(state.params["w"])  # a copy: the next chunk overwrites it
        if beside:
            run.log.later(done, pool.submit(score, w))
        else:
            run.log.write(done, score(w))

    feed = Resident(jnp.asarray((NEVER,) * 3), 0)
    try:
        on_chunk = stage.OnChunk(call, lambda done: done % 20 == 0)
        return stage.learn(run, "policy", make_learner(), feed, on_chunk)
    finally:
        run.log.close()


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("waited")
    return learn(make_run(folder, save_every=20), beside=False), lines(folder)


def test_the_lines_are_the_same_and_in_the_same_order(waited, tmp_path):
    assert [x["step"] for x in waited[1]] == [10, 20, 20, 30, 40, 40, 50, 60, 60]
    state = learn(make_run(tmp_path, save_every=20), beside=True)
    assert equal(state, waited[0]) and lines(tmp_path) == waited[1]


def test_training_goes_on_while_scores_are_made(tmp_path):
    """The scores of update 20 wait until update 50 has been sent; a save at 60 waits for them."""
    run, gate, seen = make_run(tmp_path, save_every=NEVER), threading.Event(), []
    write = run.log.write

    def noted(step, values):
        seen.append((step, run.log.holds()))
        if step == 50:
            gate.set()
        write(step, values)

    run.log.write = noted
    learn(run, beside=True, gate=gate)
    assert (30, True) in seen and (50, True) in seen
    assert [x["step"] for x in lines(tmp_path)] == [10, 20, 20, 30, 40, 40, 50, 60, 60]


def test_a_save_notes_scores_that_are_not_there_and_the_next_run_makes_them(waited, tmp_path):
    """As after a kill: the save of update 20 was written while its scores were being made."""
    run, gate = make_run(tmp_path, updates=40, save_every=20), threading.Event()
    found, write = [], stage.Work._write

    def watched(work, state):
        write(work, state)
        found.append((work.done, step_saves.newest(tmp_path / "policy").meta["pending"]))
        gate.set()
        if work.done == 20:
            raise KeyboardInterrupt  # leaves the folder as it is

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage.Work, "_write", watched)
        with pytest.raises(KeyboardInterrupt):
            learn(run, beside=True, gate=gate)
    assert found == [(20, True)] and [x["step"] for x in lines(tmp_path)] == [10, 20]
    state = learn(make_run(tmp_path, save_every=20), beside=True)
    assert equal(state, waited[0]) and lines(tmp_path) == waited[1]
    assert not step_saves.newest(tmp_path / "policy").meta["pending"]


def test_an_error_of_the_thread_ends_the_run(tmp_path):
    with pytest.raises(ZeroDivisionError):
        learn(make_run(tmp_path), beside=True, fault=ZeroDivisionError())


def test_a_signal_does_not_end_the_thread_in_the_middle():
    with signals.caught(), ThreadPoolExecutor(1) as pool:
        signals._noted.append(15)
        with pytest.raises(signals.Stopped):
            signals.check()
        pool.submit(signals.check).result()


def test_a_copy_for_the_host_is_made_as_a_cpu_runs():
    """Seeds one after the other, whatever trains."""

    @dataclasses.dataclass
    class Actor:
        params: dict

        def __post_init__(self):
            self.backend = precision.backend()

    with precision.traced_for("gpu"):
        agent = Actor({"w": jnp.ones(2)})
        assert agent.backend == "gpu" and scoring.on_host(agent).backend == "cpu"


def test_auto_is_beside_only_where_an_accelerator_trains():
    section = get_cell("cheetah", "fb", "btd", "smoke").evaluate
    assert section.beside == "auto" and not scoring.is_beside(section)  # on this CPU
    section.beside = "always"
    assert scoring.is_beside(section)
    config = get_cell("cheetah", "fb", "btd", "smoke")
    config.evaluate.beside = "thread"
    with pytest.raises(ConfigError, match=r"config.evaluate.beside 'thread'.*always"):
        check(config)


@pytest.mark.whole
def test_a_real_run_scores_the_same_beside_and_in_turn(tmp_path):
    found = []
    for beside in ("never", "always"):
        config = get_cell("cheetah", "lra_p", "uniform", "smoke")
        config.update({
            "seeds": 2, "log_every": 10, "encoder": {"updates": 10}, "policy": {"updates": 30},
            "data": {"episodes": 2, "cache": str(tmp_path / "data")}, "checkpoint_every": 20,
            "evaluate": {"every": 20, "episodes": 1, "beside": beside},
        })  # fmt: skip
        train(config, None, tmp_path / beside, quiet=True)
        found.append(lines(tmp_path / beside))
    assert found[0] == found[1]
    assert any("evaluate/run" in line and line["step"] == 20 for line in found[0])
