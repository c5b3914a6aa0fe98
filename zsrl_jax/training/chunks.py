"""Chunks of updates on their way to the devices: the next one is sent before one has reported.

    sent      0 ---- chunk n ---- chunk n+1 ----
    settled   0 ---- chunk n ----                 its metrics are read while chunk n+1 runs

Nothing waits for a device inside a chunk, and a device never waits for a line of the log. Which
seeds are alive goes from chunk to chunk on the device; a seed that fails keeps its state, so that
it can be looked at one chunk later. Several processes settle every chunk before they send another:
their exchange of metrics is a program itself, which would queue behind the chunk.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from zsrl_jax.devices import precision, processes
from zsrl_jax.seeds import pick_seed
from zsrl_jax.training.divergence import guard, locate
from zsrl_jax.training.loop import make_loop
from zsrl_jax.training.run import Run
from zsrl_jax.training.streaming import Feed
from zsrl_jax.types import Encoder, Policy

AHEAD = 1  # windows that are sent before an earlier one is settled


class Window(NamedTuple):
    """Updates that were sent together; their results are still on the device."""

    first: int
    num: int
    part: Any  # the data that they read
    values: Any
    good: Any  # by seed
    chunk: range  # the updates of the whole chunk


class Chunks:
    """The chunks of a stage, from where it stands; `landed` are those that have reported."""

    def __init__(self, work: Any, learner: Encoder | Policy, feed: Feed, keys: jax.Array):
        self.work, self.run, self.feed, self.keys = work, work.run, feed, keys
        self.learner = learner._replace(sample=feed.sample_of(learner))
        self.products = self.run.config.get("precision", precision.EXACT)
        self.sent, self.alive = work.done, jnp.asarray(self._alive())
        self.flying: deque[Window] = deque()
        self.landed: deque[tuple[int, dict[str, np.ndarray]]] = deque()
        self._seen: list[dict[str, np.ndarray]] = []  # of windows of a chunk that is not whole yet
        self._programs: dict[int, Callable] = {}

    def send(self, length: int) -> None:
        """Send a chunk, window by window; settle what is more than AHEAD windows behind."""
        chunk = range(self.sent, self.sent + length)
        self.sent = chunk.stop
        for first, num, part in self.feed.windows(self.keys, chunk.start, length):
            args = self.keys, part, jnp.asarray(first), self.alive
            self.work.state, values, self.alive = self._program(num)(self.work.state, *args)
            self.flying.append(Window(first, num, part, values, self.alive, chunk))
            while len(self.flying) > (0 if processes.several() else AHEAD):
                self.settle()

    def settle(self) -> None:
        """Wait for the oldest window, and read what it reports."""
        window = self.flying.popleft()
        values, good = _fetch(self.run, (window.values, window.good))
        for place in np.flatnonzero(self._alive() & ~good).tolist():
            self._blame(place, window)
        share = window.num / len(window.chunk)
        self._seen.append(jax.tree.map(lambda x: x * share, values))
        if window.first + window.num == window.chunk.stop:
            whole = jax.tree.map(lambda *parts: sum(parts), *self._seen)
            self.landed.append((window.chunk.stop, whole))
            self._seen = []

    def drop(self) -> None:
        """Forget what is on its way: all seeds have failed, so it changes nothing."""
        self.flying.clear()
        self.landed.clear()
        self.sent = self.work.done

    def _alive(self) -> np.ndarray:
        return np.array([i not in self.run.failed for i in range(len(self.keys))])

    def _program(self, num: int) -> Callable:
        """Return the program of so many updates, compiled once."""
        if num not in self._programs:
            loop = guard(make_loop(self.learner.sample, self.learner.update, num))
            axes = (0, 0, self.feed.seed_axes(), None, 0)
            self._programs[num] = self.run.over_seeds(
                loop, axes, donate=(0,), products=self.products
            )
        return self._programs[num]

    def _blame(self, place: int, window: Window) -> None:
        """Give up a seed, after its updates are run again to find the one that went wrong."""
        state, read = self.run.local((self.work.state, window.part))
        mine = pick_seed(read, self.feed.seed_axes(), place)
        find = precision.bind(locate, self.products)
        steps = range(window.first, window.first + window.num)
        step, quantity = find(
            self.learner, pick_seed(state, 0, place), self.keys[place], mine, steps
        )
        self.run.fail(place, self.work.stage, step, quantity, window.first)


def _fetch(run: Run, tree: Any) -> Any:
    """Bring a tree to the host; without a program, which would wait for the chunk behind it."""
    near = all(leaf.is_fully_addressable for leaf in jax.tree.leaves(tree))
    return jax.device_get(tree if near else run.local(tree))
