"""Every objective against loops over samples: its value, and its gradient by differences.

The references are plain numpy. What they take from `bar` (target networks) and from `still` (the
online networks where the gradient is stopped) does not move when a parameter is moved, so that a
missing stop, a wrong network or a term on other states is a wrong gradient.
"""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from zsrl_jax.data import fit_normalizer, to_device
from zsrl_jax.encoders import ENCODERS
from zsrl_jax.settings import fields
from zsrl_jax.types import Spec

SPEC, DIM, SIZE = Spec(4, 2), 3, 13  # SIZE > 4 DIM: losses by d x d products, as in training
WEIGHT, DISCOUNT = 0.7, 0.9


def dense(params, *inputs):
    x = np.concatenate(inputs, axis=-1)
    for i in range(len(params)):
        layer = params[f"Dense_{i}"]
        x = (np.maximum(x, 0) if i else x) @ layer["kernel"] + layer["bias"]
    return x


def sphere(params, obs):
    x = dense(params, obs)
    return DIM**0.5 * x / np.linalg.norm(x, axis=-1, keepdims=True)


def bind(params, on_sphere=True):
    def one(name):
        net = sphere if on_sphere and name in ("phi", "mu") else dense
        return lambda *inputs: net(params[name], *inputs)

    return SimpleNamespace(**{name: one(name) for name in params})


def pairs():
    return [(i, j) for i in range(SIZE) for j in range(SIZE) if i != j]


def squares(x, y):
    return [sum((x[i][c] - y[i][c]) ** 2 for c in range(len(x[i]))) for i in range(SIZE)]


def aenc(net, bar, still, b):
    phi = net.phi(b.obs)
    return np.mean(squares(net.decoder(phi), b.obs)) / SPEC.obs_dim, phi


def trans(net, bar, still, b):
    phi = net.phi(b.obs)
    return np.mean(squares(net.predictor(phi, b.action), b.next_obs)) / SPEC.obs_dim, phi


def lra_p(net, bar, still, b):
    left, phi = net.left(b.obs, b.action), net.phi(b.next_obs)
    off = np.mean([(left[i] @ phi[j]) ** 2 for i, j in pairs()])
    return off / 2 - np.mean([left[i] @ phi[i] for i in range(SIZE)]), phi


def lra_sr(net, bar, still, b):
    left, phi = net.left(b.obs), net.phi(b.next_obs)
    ahead, reached = bar.left(b.next_obs), bar.phi(b.next_obs)
    gamma = DISCOUNT * b.discount
    off = [(left[i] @ phi[j] - gamma[i] * (ahead[i] @ reached[j])) ** 2 for i, j in pairs()]
    return np.mean(off) - 2 * np.mean([left[i] @ phi[i] for i in range(SIZE)]), phi


def byol(net, bar, still, b):
    phi = net.phi(b.obs)
    return np.mean(squares(net.predictor(phi, b.action), bar.phi(b.next_obs))), phi


def byol_gamma(net, bar, still, b):
    phi = net.phi(b.obs)
    forward = np.mean(squares(net.ahead(phi, b.action), bar.phi(b.future)))
    return forward + np.mean(squares(net.back(net.phi(b.future)), bar.phi(b.obs))), phi


def byol_gamma_as_printed(net, bar, still, b):
    phi = net.phi(b.obs)
    forward = np.mean(squares(net.ahead(phi, b.action), bar.phi(b.future)))
    return forward + np.mean(squares(net.back(still.phi(b.future)), phi)), phi


def laplacian(net, bar, still, b):
    phi = net.phi(b.obs)
    return np.mean(squares(phi, net.phi(b.next_obs))), phi


def contrastive(net, bar, still, b):
    phi, mu = net.phi(b.obs), net.mu(b.future)
    logit = [[phi[i] @ mu[j] / DIM / 0.1 for j in range(SIZE)] for i in range(SIZE)]
    return np.mean([np.log(np.sum(np.exp(logit[i]))) - logit[i][i] for i in range(SIZE)]), phi


def icm(net, bar, still, b):
    phi = net.phi(b.obs)
    told = net.between(phi, net.phi(b.next_obs))
    return np.mean(squares(told, b.action)) / SPEC.action_dim, phi


def rldp(net, bar, still, b):
    phi = latent = net.phi(b.obs)
    error = []
    for i in range(5):
        latent = net.model(latent, b.future.action[:, i])
        far = squares(latent, bar.phi(b.future.reached[:, i]))
        error += [far[n] for n in range(SIZE) if b.future.inside[n, i]]
    return np.mean(error), phi


def fb_onestep(net, bar, still, b):
    left, phi = net.forward(b.obs, b.action), net.phi(b.next_obs)
    ahead, reached = bar.forward(b.next_obs, b.future), bar.phi(b.next_obs)
    gamma = DISCOUNT * b.discount
    off = [(left[i] @ phi[j] - gamma[i] * (ahead[i] @ reached[j])) ** 2 for i, j in pairs()]
    return np.mean(off) / 2 - np.mean([left[i] @ phi[i] for i in range(SIZE)]), phi


def hilp(net, bar, still, b):
    def value(which, state, goal):
        return [-max(np.linalg.norm(x), 1e-3) for x in which.phi(state) - which.phi(goal)]

    now, ahead, loss = value(net, b.obs, b.future), value(bar, b.next_obs, b.future), []
    for i in range(SIZE):
        y = 0.0 if (b.obs[i] == b.future[i]).all() else DISCOUNT * b.discount[i] * ahead[i] - 1
        loss.append((0.8 if y >= now[i] else 0.2) * (y - now[i]) ** 2)
    return np.mean(loss), net.phi(b.obs)


REFERENCES = {  # and the target networks of each
    "aenc": (aenc, set()),
    "trans": (trans, set()),
    "lra_p": (lra_p, set()),
    "lra_sr": (lra_sr, {"phi", "left"}),
    "byol": (byol, {"phi"}),
    "byol_gamma": (byol_gamma, {"phi"}),
    "byol_gamma, printed": (byol_gamma_as_printed, {"phi"}),
    "laplacian": (laplacian, set()),
    "contrastive": (contrastive, set()),
    "icm": (icm, set()),
    "hilp": (hilp, {"phi"}),
    "rldp": (rldp, {"phi"}),
    "fb_onestep": (fb_onestep, {"phi", "forward"}),
}


def orthonormality(phi):
    off = np.mean([(phi[i] @ phi[j]) ** 2 for i, j in pairs()])
    return off - 2 * np.mean([phi[i] @ phi[i] for i in range(SIZE)])


def double(tree):
    return jax.tree.map(lambda leaf: np.array(leaf, np.float64), tree)


def by_differences(function, params, step=1e-6):
    """Return d function / d params, one parameter after the other."""

    def slope(leaf):
        out = np.zeros_like(leaf)
        for place in np.ndindex(leaf.shape):
            value, ends = leaf[place], []
            for sign in (1, -1):
                leaf[place] = value + sign * step
                ends.append(function())
            leaf[place] = value
            out[place] = (ends[0] - ends[1]) / (2 * step)
        return out

    return jax.tree.map(slope, params)


def configured(name):
    name, _, printed = name.partition(", ")
    config = fields.get_config("cheetah", name, "uniform").encoder
    config.update({"dim": DIM, "hidden": (6,), "batch": SIZE, "orthonormality": WEIGHT})
    config.discount = DISCOUNT
    if name == "hilp":
        config.expectile = 0.8
    if printed:
        config.backward_stop_gradient = "input"
    return ENCODERS[name].make(config, SPEC), config


def shaken(tree, seed):
    """Return other parameters, so that no network is a copy of another."""
    draw = np.random.default_rng(seed)
    return jax.tree.map(lambda x: x + 0.3 * draw.normal(size=x.shape).astype(np.float32), tree)


def prepared(encoder, dataset):
    store = to_device(dataset, fit_normalizer(dataset, "none"))
    state = jax.jit(encoder.init)(jax.random.key(0))
    batch = encoder.sample(jax.random.key(1), store)
    now = batch[0] if isinstance(batch[0], tuple) else batch
    now = now._replace(discount=np.linspace(0, 1, SIZE, dtype=np.float32))
    batch = (now, *batch[1:]) if isinstance(batch[0], tuple) else now
    if encoder.of_transitions:  # a goal that is reached already
        batch = now, np.concatenate([batch[1][:-1], now.obs[-1:]])
    targets = shaken(state.target_params, 2)
    return state._replace(params=shaken(state.params, 1), target_params=targets), batch


def test_every_encoder_has_a_reference():
    assert {name.split(",")[0] for name in REFERENCES} | {"fb"} == set(ENCODERS)


@pytest.mark.parametrize("name", REFERENCES)
def test_value_and_gradient_are_those_of_the_loops(name, noise_dataset):
    encoder, config = configured(name)
    reference, targets = REFERENCES[name]
    state, batch = prepared(encoder, noise_dataset)
    assert set(state.target_params) == targets
    new, metrics = jax.jit(encoder.update)(state, batch, jax.random.key(2), 0)
    params = double(state.params)
    trees, flat = (params, double(state.target_params), double(state.params)), name == "hilp"
    net, bar, still = (bind(tree, not flat) for tree in trees)
    now, future = batch if isinstance(batch[0], tuple) else (batch, None)
    b = SimpleNamespace(**double(now._asdict()), future=double(future))

    def total():
        value, phi = reference(net, bar, still, b)
        return value + WEIGHT * orthonormality(phi)

    value, phi = reference(net, bar, still, b)
    assert metrics["encoder/objective"] == pytest.approx(value, rel=1e-4)
    assert metrics["encoder/orthonormality"] == pytest.approx(orthonormality(phi), rel=1e-4)
    assert metrics["encoder/loss"] == pytest.approx(total(), rel=1e-4)
    length = np.mean(np.linalg.norm(phi, axis=1)) if flat else DIM**0.5
    assert metrics["encoder/norm"] == pytest.approx(length, rel=1e-4)
    gradient = jax.tree.map(lambda m: np.asarray(m) / 0.1, new.opt_state["all"][0].mu)  # Adam's
    jax.tree.map(
        lambda ours, loops: np.testing.assert_allclose(ours, loops, rtol=2e-3, atol=2e-4),
        gradient, by_differences(total, params),
    )  # fmt: skip


def test_fb_bootstraps_from_both_target_networks_and_orthonormality_acts_on_b(noise_dataset):
    config = fields.get_config("cheetah", "fb", "uniform").encoder
    config.update({"dim": DIM, "hidden": (6,), "batch": SIZE, "width": 8})
    config.orthonormality = 1e6  # drowns the rest of the gradient
    encoder = ENCODERS["fb"].make(config, SPEC)
    state, batch = prepared(encoder, noise_dataset)
    update = jax.jit(encoder.update)

    def off_diagonal(*silent, actor=state.params["actor"]):
        target = dict(state.target_params["measure"])
        target |= {name: jax.tree.map(np.zeros_like, target[name]) for name in silent}
        changed = state._replace(
            params=state.params | {"actor": actor}, target_params={"measure": target}
        )
        return float(update(changed, batch, jax.random.key(2), 0)[1]["encoder/off_diagonal"])

    unaided = off_diagonal("forward", "backward")
    assert off_diagonal("forward") == off_diagonal("backward") == unaided != off_diagonal()
    other = shaken(state.params["actor"], 3)
    assert off_diagonal(actor=other) != off_diagonal()  # the next action is the actor's
    assert off_diagonal("forward", actor=other) == unaided

    new, _ = update(state, batch, jax.random.key(2), 0)
    gradient = jax.tree.map(lambda m: np.asarray(m) / 1e5, new.opt_state["measure"][0].mu)
    params = double(state.params["measure"]["backward"])
    expected = by_differences(lambda: orthonormality(sphere(params, batch.next_obs)), params)
    jax.tree.map(
        lambda ours, loops: np.testing.assert_allclose(ours, loops, rtol=2e-3, atol=2e-3),
        gradient["backward"], expected,
    )  # fmt: skip
    assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient["forward"])) < 1e-3
