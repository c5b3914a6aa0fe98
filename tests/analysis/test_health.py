"""Rules of health: each can say good and not good, and every verdict says what to do."""

import numpy as np
import pytest
from helpers.person import ROOT

from zsrl_jax.analysis import health

CONFIG = {"encoder": {"dim": 50}, "policy": {"behaviour": 0.1}}


def curve(*values):
    return np.arange(len(values)), np.array(values, float)


def verdict(name, curves, results=None, config=CONFIG):
    found = {v.metric: v for v in health.examine(curves, config, results)}
    return found.get(name)


CASES = {
    "encoder/effective_rank": [(curve(40), "good"), (curve(4), "watch"), (curve(1.1), "bad")],
    "encoder/orthonormality": [(curve(-45), "good"), (curve(-3), "watch")],
    "policy/q_abs": [
        (curve(1, 5, 9, 10, 10, 10, 10, 10), "good"), (curve(*range(1, 17)), "watch"),
        (curve(*(2.0 ** np.arange(16))), "bad"),
    ],
    "policy/saturated": [(curve(0.02), "good"), (curve(0.5), "watch")],
    "policy/behaviour": [(curve(0.3), "good"), (curve(0.001), "watch"), (curve(0.99), "watch")],
    "evaluate/mean": [(curve(10, 50, 60), "good"), (curve(90, 10, 12), "watch")],
}  # fmt: skip


@pytest.mark.parametrize("metric", CASES)
def test_a_rule_judges_its_metric(metric):
    for values, state in CASES[metric]:
        found = verdict(metric, {metric: values})
        assert found.state == state, found
        assert (state == "good") == (";" not in found.text)


def test_rules_of_two_metrics():
    pair = {"policy/critic_loss": curve(600), "policy/q_abs": curve(310)}
    assert verdict("policy/critic_loss", pair).state == "good"
    pair["policy/critic_loss"] = curve(60_000)
    assert verdict("policy/critic_loss", pair).state == "watch"
    fit = {"tasks/log_likelihood": curve(-7.5), "tasks/unseen_log_likelihood": curve(-12.7)}
    assert verdict("tasks/unseen_log_likelihood", fit).state == "good"
    fit["tasks/unseen_log_likelihood"] = curve(-300)
    assert verdict("tasks/unseen_log_likelihood", fit).state == "watch"


def test_a_low_r2_alone_is_never_bad():
    low = {"encoder/r2_walk": curve(0.0), "encoder/r2_run": curve(0.01)}
    assert verdict("encoder/r2", low).state == "watch"
    assert verdict("encoder/r2", {"encoder/r2_walk": curve(0.8)}).state == "good"


@pytest.mark.parametrize(
    ("returns", "state"), [([90, 80], "good"), ([90, 5], "watch"), ([1, 5], "bad")]
)
def test_scores_are_compared_with_the_random_policy(returns, state):
    results = {"returns": [[[x] for x in returns]], "random": [[30], [20]], "tasks": ["a", "b"]}
    assert verdict("score", {}, results).state == state


def test_prompts_and_failed_seeds():
    assert verdict("prompts' cosine", {}, {"cosine": [[0.9, None]]}).state == "good"
    assert verdict("prompts' cosine", {}, {"cosine": [[0.9, 0.3]]}).state == "bad"
    assert verdict("seeds", {}, {"failed": [{}]}).state == "bad"
    assert verdict("seeds", {}, {"failed": []}) is None


def test_what_is_not_finite_is_bad_and_what_is_not_logged_is_left_out():
    assert verdict("policy/q_abs", {"policy/q_abs": curve(1, np.nan)}).state == "bad"
    assert health.examine({}, {}) == [] and health.summary([]) == "no metrics to judge"


def test_the_summary_is_that_of_the_worst():
    good, watch, bad = (health.Verdict("x", state, "") for state in ("good", "watch", "bad"))
    assert health.summary([good]) == "healthy: all 1 checks are good"
    assert health.summary([good, watch]).startswith("mostly healthy: 1 of 2")
    assert health.summary([good, watch, bad]).startswith("not healthy: 1 of 3")


def test_every_rule_stands_in_the_page():
    page = (ROOT / "docs/diagnostics.md").read_text()
    for rule in health.RULES:
        if "/" in rule.metric:
            assert rule.metric in page, rule.metric
