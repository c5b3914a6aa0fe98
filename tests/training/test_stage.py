"""A stage knows what decided it, and forgets what an earlier run built on it."""

import jax
import pytest

from zsrl_jax.errors import ConfigError, DataError
from zsrl_jax.runs import identity, step_saves
from zsrl_jax.runs.identity import STAGES
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.training import metrics, stage


@pytest.fixture
def run(tmp_path):
    log = metrics.Log(tmp_path)
    config = get_cell("cheetah", "fb", "btd", "smoke")
    yield stage.Run(config, tmp_path, log, jax.random.key(0), {}, "abc", True, {})
    log.close()


@pytest.mark.parametrize(
    ("path", "value", "changed"),
    [
        ("data.clip", 3.0, {"encoder", "tasks", "policy"}),
        ("data.normalize", "none", {"encoder", "tasks", "policy"}),
        ("encoder.batch", 65, {"encoder", "tasks", "policy"}),
        ("encoder.updates", 61, {"tasks", "policy"}),
        ("tasks.min_length", 2, {"tasks", "policy"}),
        ("tasks.moves", 0, {"tasks", "policy"}),
        ("policy.behaviour", 0.5, {"policy"}),
        ("policy.updates", 61, set()),
        ("evaluate.episodes", 3, set()),
    ],
)
def test_facts_cover_what_decides_a_stage(run, path, value, changed):
    before = {name: run.asked.facts(name) for name in STAGES[1:]}
    section, field = path.split(".")
    run.config[section][field] = value
    assert {name for name in before if run.asked.facts(name) != before[name]} == changed


def test_facts_cover_data_and_seeds_and_the_updates_of_an_annealed_stage(run):
    before = run.asked.facts("encoder")
    assert run._replace(fingerprint="abd").asked.facts("encoder") != before
    run.config.policy.anneal = True
    annealed = run.asked.facts("policy")
    run.config.policy.updates = 61
    assert run.asked.facts("policy") != annealed
    run.config.seed = 1
    assert run.asked.facts("encoder") != before


def put(run, name, step):
    """Leave a save of a stage, as a run would."""
    work = stage.Work(run, name, {"a": jax.numpy.zeros(2)})
    work.done = step
    work.save()


def test_other_settings_are_refused_naming_each_and_forced_on_record(run, tmp_path):
    put(run, "encoder", 60)
    put(run, "policy", 40)
    run.asked.check()
    run.config.encoder.batch = 65
    run.config.policy.behaviour = 0.5
    changed = run._replace(fingerprint="abd")
    with pytest.raises(ConfigError) as error:
        changed.asked.check()
    for told in ("encoder.batch was 64, now 65", "policy.behaviour was 0.0, now 0.5",
                 "was abc, now abd", "--force", str(tmp_path)):  # fmt: skip
        assert told in str(error.value)
    assert identity.forced(tmp_path) == []
    changed.asked.check(force=True)
    assert identity.forced(tmp_path) == []  # nothing was read yet, so no save is marked
    stage.Work(changed, "encoder", {"a": jax.numpy.zeros(2)})
    with pytest.raises(DataError, match="does not fit"):
        stage.Work(changed, "policy", {"a": jax.numpy.zeros(3)})
    assert identity.forced(tmp_path) == []  # what does not fit stays as it is, and so do the others
    stage.Work(changed, "policy", {"a": jax.numpy.zeros(2)})
    changed.mark_saves()
    changed.asked.check()  # marked: the same command again needs no force
    notes = {note["stage"]: note for note in identity.forced(tmp_path)}
    assert notes["encoder"]["fields"]["encoder.batch"] == [64, 65]
    assert notes["policy"]["step"] == 40
    assert step_saves.newest(tmp_path / "policy").step == 40  # still whole
    put(changed, "policy", 50)
    assert {note["stage"]: note for note in identity.forced(tmp_path)} == notes  # and remembered


def test_updates_may_grow_but_not_shrink_below_what_is_done(run):
    put(run, "policy", 60)
    run.config.policy.updates = 100
    run.asked.check()
    run.config.policy.updates = 40
    with pytest.raises(ConfigError, match="policy.updates was 60, now 40"):
        run.asked.check()


def test_work_on_a_stage_forgets_what_was_built_on_it(run, tmp_path):
    for name in ("encoder", "tasks", "policy", "agent"):
        (tmp_path / name).mkdir()
    (tmp_path / "results.json").write_text("{}")
    run.forget_after("tasks")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["encoder", "tasks"]
