"""What holds for every encoder and for the policy: seeds and chunks change nothing."""

import jax
import numpy as np
import pytest
from helpers.learners import LEARNERS, build, equal

from zsrl_jax.seeds import over_seeds, seed_keys, take_seed
from zsrl_jax.training.loop import make_loop, stream_keys


def trained(learner, data, keys, lengths, how="auto"):
    """Run chunks of updates for all seeds; return the state after each."""
    state = over_seeds(learner.init, (0,), how=how)(stream_keys(keys, 0))
    start, states = 0, []
    programs = {
        n: over_seeds(make_loop(learner.sample, learner.update, n), (0, 0, None, None), how=how)
        for n in set(lengths)
    }
    for length in lengths:
        state, _ = programs[length](state, stream_keys(keys, 1), data, start)
        start += length
        states.append(state)
    return states


MAIN = ("lra_p", "hilp")  # the others, fb and the policy too, in `make test-lowering`
REST = [pytest.param(name, marks=pytest.mark.lowering) for name in LEARNERS if name not in MAIN]


@pytest.mark.parametrize("name", [*MAIN, *REST])
def test_seeds_and_chunks_change_nothing(name, noise_dataset):
    """A seed among many is that seed alone, chunks equal a straight run, vmap follows map."""
    learner, data = build(name, noise_dataset)
    keys = seed_keys(5, 3)
    half, many = trained(learner, data, keys, [4, 4], "map")
    alone = trained(learner, data, keys[1:2], [8], "map")[-1]
    assert equal(take_seed(many, 1), take_seed(alone, 0))
    assert not equal(take_seed(many, 0), take_seed(many, 1))
    batched = trained(learner, data, keys, [4], "vmap")[-1]
    for a, b in zip(jax.tree.leaves(half.params), jax.tree.leaves(batched.params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-6)
    # keys, places and tasks are drawn the same to the bit
    draws = [over_seeds(learner.sample, (0, None), how=how)(keys, data) for how in ("map", "vmap")]
    exact = [d._replace(reward=0) if name == "policy" else d for d in draws]  # a product of floats
    assert equal(*exact)
