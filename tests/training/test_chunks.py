"""Chunks are sent before earlier ones have reported, and end as if each had been waited for."""

import jax
import jax.numpy as jnp
import pytest
from helpers.tiny_run import NEVER, equal, lines, make_learner, make_run

from zsrl_jax.errors import DivergedError
from zsrl_jax.training import chunks, stage
from zsrl_jax.training.streaming import Resident


class Watched:
    """Data on the device, which notes when a chunk is sent."""

    def __init__(self, events, poison=(NEVER, NEVER, NEVER)):
        self.events, self.inner = events, Resident(jnp.asarray(poison), 0)
        self.sample_of, self.seed_axes = self.inner.sample_of, self.inner.seed_axes

    def windows(self, keys, start, length):
        self.events.append(f"send {start}-{start + length}")
        yield from self.inner.windows(keys, start, length)


class Split(Watched):
    """The same in windows of three updates."""

    def windows(self, keys, start, length):
        for first in range(start, start + length, 3):
            yield from self.inner.windows(keys, first, min(3, start + length - first))


def train(folder, events, poison=(NEVER, NEVER, NEVER), on_chunk=None, kind=Watched, **sizes):
    run = make_run(folder, **sizes)
    write, save = run.log.write, stage.Work.save
    run.log.write = lambda step, values: (events.append(f"line {step}"), write(step, values))
    with pytest.MonkeyPatch.context() as patch:
        noted = lambda work: (events.append(f"save {work.done}"), save(work))  # noqa: E731
        patch.setattr(stage.Work, "save", noted)
        try:
            feed = kind(events, poison)
            return stage.learn(run, "policy", make_learner(), feed, on_chunk), run
        finally:
            run.log.close()


def test_a_chunk_is_sent_before_the_one_before_it_is_read(tmp_path):
    """The device has work while a line is written; where a save is due, nothing is sent ahead."""
    events = []
    train(tmp_path, events, updates=60, save_every=30)
    assert events == [
        "send 0-10", "send 10-20", "line 10", "send 20-30", "line 20", "line 30", "save 30",
        "send 30-40", "send 40-50", "line 40", "send 50-60", "line 50", "line 60", "save 60",
    ]  # fmt: skip


class Sealed:
    """A result that is still being computed: to read it is to wait for it."""

    def _read(self, *_, **__):
        raise AssertionError("a result was read before its chunk was settled")

    __array__ = __bool__ = __float__ = __int__ = __iter__ = __getitem__ = block_until_ready = _read


def test_nothing_is_read_inside_a_chunk(tmp_path, monkeypatch):
    """Whatever windows a chunk has: results go to the next window unread."""
    run, fetched = make_run(tmp_path), []
    work = stage.Work(run, "policy", None)
    feed = Split([], (NEVER,))
    sent = chunks.Chunks(work, make_learner(), feed, run.keys)
    monkeypatch.setattr(sent, "_program", lambda num: lambda *args: (Sealed(), Sealed(), Sealed()))
    monkeypatch.setattr(chunks, "AHEAD", NEVER)
    sent.send(10)
    sent.send(10)
    assert len(sent.flying) == 8 and isinstance(work.state, Sealed)
    with pytest.raises(AssertionError, match="was read before"):
        jnp.asarray(work.state)
    fetch = chunks._fetch
    monkeypatch.setattr(chunks, "_fetch", lambda *args: (fetched.append(1), fetch(*args))[1])
    monkeypatch.setattr(chunks, "AHEAD", 1)
    train(tmp_path / "run", [], updates=60)
    assert len(fetched) == 6  # once per log interval
    fetched.clear()
    train(tmp_path / "split", [], kind=Split, updates=60)
    assert len(fetched) == 24  # once per window, while the next one runs
    run.log.close()


def test_the_state_before_a_chunk_is_given_up(tmp_path):
    """Donated: results take its place."""
    run, seen = make_run(tmp_path, updates=20), []
    work = stage.Work(run, "policy", run.over_seeds(make_learner().init, (0,))(run.keys))
    sent = chunks.Chunks(work, make_learner(), Watched([]), run.keys)
    seen.append(work.state)
    sent.send(10)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(seen[0]))
    run.log.close()


def test_what_is_due_sees_the_state_of_its_own_update(tmp_path):
    events, seen = [], []
    on_chunk = stage.OnChunk(lambda state, done: seen.append((done, jnp.copy(state.params["w"]))),
                             lambda done: done % 40 == 0)  # fmt: skip
    train(tmp_path / "a", events, on_chunk=on_chunk, updates=60, save_every=NEVER)
    assert [done for done, _ in seen] == [40] and events.index("line 40") < events.index(
        "send 40-50"
    )
    short, _ = train(tmp_path / "b", [], updates=40, save_every=NEVER)
    assert jnp.array_equal(seen[0][1], short.params["w"])


def test_waiting_for_each_chunk_changes_no_number(tmp_path, monkeypatch):
    """Nor does a seed that fails: it is found one chunk later, and told as of its own update."""
    poison, events = (NEVER, 13, 44), []
    ahead, run = train(tmp_path / "ahead", [], poison, updates=60)
    split, run_split = train(tmp_path / "split", [], poison, kind=Split, updates=60)
    monkeypatch.setattr(chunks, "AHEAD", 0)
    waited, other = train(tmp_path / "waited", events, poison, updates=60)
    assert events[:4] == ["send 0-10", "line 10", "send 10-20", "line 20"]
    assert equal(ahead, waited) and lines(tmp_path / "ahead") == lines(tmp_path / "waited")
    assert run.failed == other.failed and run.failed[1].step == 14 and run.failed[1].kept == 10
    assert equal(split, waited, [0]) and run_split.failed[1].step == 14


def test_when_all_have_failed_nothing_after_it_is_told(tmp_path):
    events = []
    with pytest.raises(DivergedError, match="update 13"):
        train(tmp_path, events, (12,), seeds=(0,), updates=60, save_every=NEVER)
    assert events[-2:] == ["line 20", "save 20"] and "send 20-30" in events
    assert [line["step"] for line in lines(tmp_path)] == [10, 20]
