"""Studies as tables of cells: configs are sound, encoders shared, the same cell is one run."""

import json
import os
import signal

import pytest
from helpers.made_up import fill

import zsrl_jax
from zsrl_jax.commands import cli
from zsrl_jax.commands.paper import cells, jobs, launch, progress, work
from zsrl_jax.commands.paper.cells import Cell, Place, cells_of
from zsrl_jax.commands.paper.plan import again, check_folders, narrow, study_names, write_plan
from zsrl_jax.commands.paper.studies import STUDIES
from zsrl_jax.devices import signals
from zsrl_jax.errors import ConfigError, TaskError
from zsrl_jax.settings.checks import check
from zsrl_jax.settings.scales import StudySize


@pytest.mark.parametrize("scale", ["paper", "laptop", "smoke"])
@pytest.mark.parametrize("name", STUDIES)
def test_every_cell_of_every_study_is_a_sound_config(name, scale, tmp_path):
    place = Place(tmp_path, scale)
    found = cells_of(name, place)
    assert len(found) == len(set(found)) == len({cell.folder(place) for cell in found})
    for cell in found:
        config = cell.config(place)
        check(config)
        assert config.seeds == cell.seeds and config.scale == scale
        assert progress.cost(cell, place) > 0 and cell.kind in work.KINDS
        if cell.kind != "oracle":  # a mixture needs as many points as components
            assert config.tasks.num_components <= config.tasks.num_subtrajectories


def test_paper_scale_has_the_cells_of_the_paper(tmp_path):
    place = Place(tmp_path, "paper")
    count = {name: len(cells_of(name, place)) for name in STUDIES}
    assert count["main"] == count["spread"] == 3 * 7 * 2 + 3  # an oracle a domain, of all its tasks
    assert count["dimension"] == 3 * 7 * 2 * 6 + 3 and count["alpha"] == 3 * 7 * 5 + 3
    assert count["samplers"] == 3 * 6 * 2 + 3 and count["dilution"] == 3 * 7 * 6
    assert count["components"] == 3 * 7 * 6 + 3 and count["subtrajectories"] == 3 * 6 + 3
    assert all(cell.seeds == 5 for name in STUDIES for cell in cells_of(name, place))


def test_laptop_studies_are_whole_runs_and_flags_win(tmp_path):
    place = Place(tmp_path, "laptop")
    cell = cells_of("main", place)[0]
    whole, config = zsrl_jax.config("cheetah", "aenc", "btd", "laptop"), cell.config(place)
    for stage in ("encoder", "policy"):
        assert config[stage].updates == whole[stage].updates
    longer = place._replace(fields=(("policy.updates", 20_000),))
    assert cell.config(longer).policy.updates == 20_000
    assert [w for w in cell.command(longer) if "policy.updates" in w] == [
        "--config.policy.updates=20000"
    ]
    assert "updates" not in cell.name
    oracle = cells_of("main", place)[-1]
    assert oracle.kind == "oracle"
    assert oracle.config(place).policy.updates == whole.policy.updates


def test_a_plan_tells_the_commands_that_go_on_with_it(tmp_path):
    words = ["all", "--out", "there", "--seeds=5", "--jobs=2", "--set=a.b=3", "--slurm", "x=y"]
    wanted = "python -m experiments.paper main --seeds=5 --set=a.b=3 --scale=laptop"
    assert (
        again("main", words, "laptop") == again("main", [*words, "--scale=laptop"], "x") == wanted
    )
    place = Place(tmp_path, "smoke")
    for command in (wanted, wanted, "another"):
        file = write_plan("main", cells_of("main", place), place, command)
    assert json.loads(file.read_text())["commands"] == [wanted, "another"]


def test_a_place_of_other_settings_is_refused_before_it_is_touched(tmp_path):
    place = Place(tmp_path, "laptop")
    fill(place, "alpha")
    every = [cell for part in launch.waves(cells_of("alpha", place)) for cell in part]
    check_folders(every, place)
    check_folders(every, place._replace(fields=(("evaluate.every", 7), ("log_every", 3))))
    for field in (("policy.updates", 20_000), ("tasks.min_length", 7)):
        with pytest.raises(ConfigError, match=rf"{field[0]} was .*, now {field[1]}; name another"):
            check_folders(every, place._replace(fields=(field,)))
    encoder = every[0].folder(place)
    encoder.mkdir(parents=True)
    config = json.loads(every[0].config(place).to_json_best_effort())
    (encoder / "run.json").write_text(json.dumps({"config": config}))  # not finished yet
    with pytest.raises(ConfigError, match=r"encoder.updates was 8000, now 7; name another --out"):
        check_folders(every, place._replace(fields=(("encoder.updates", 7),)))


def test_an_encoder_is_left_only_for_a_cell_that_takes_it(tmp_path):
    place = Place(tmp_path, "laptop")
    fill(place, "main")  # all cells, and no folder of an encoder
    encoders, rest = launch.waves(cells_of("main", place))
    assert launch.part([*encoders, *rest], place) == (rest, [])
    lost = rest[0]
    (lost.folder(place) / "results.json").unlink()
    assert launch.part([*encoders, *rest], place) == (rest[1:], [lost.encoder_cell(), lost])


def test_encoders_are_trained_once_for_all_samplers_alphas_and_components(tmp_path):
    place = Place(tmp_path, "paper")
    every = [c for name in ("main", "spread", "alpha", "samplers", "components", "subtrajectories")
             for c in cells_of(name, place)]  # fmt: skip
    encoders, rest = launch.waves(every)
    assert len(encoders) == 3 * 7 and all(cell.kind == "encoder" for cell in encoders)
    assert len(rest) == len(set(rest)) < len(every)
    (dims, _) = launch.waves(cells_of("dimension", place))
    assert len(dims) == 3 * 7 * 6


def test_the_same_cell_of_two_studies_is_one_run(tmp_path):
    place = Place(tmp_path, "paper")
    main, components = cells_of("main", place), cells_of("components", place)
    shared = set(main) & set(components)  # K = 20 is the default, and the oracle
    assert {(c.domain, c.encoder) for c in shared} == {(c.domain, c.encoder) for c in components}
    other = next(c for c in components if c not in shared)
    assert "num_components" in other.name and other.fields[0][0] == "tasks.num_components"


def test_mixing_nothing_is_the_run_of_the_other_sampler(tmp_path):
    place = Place(tmp_path, "paper")
    alpha, main = cells_of("alpha", place), cells_of("main", place)
    assert {c.sampler for c in alpha if c.kind == "score"} == {"mix", "btd", "uniform"}
    assert set(main) - set(alpha) == set()  # both samplers of every encoder, and the oracles
    plan = json.loads(write_plan("alpha", alpha, place).read_text())["cells"]
    of = [row for row in plan if (row["domain"], row["encoder"]) == ("walker", "byol")]
    assert [(row["value"], row["sampler"]) for row in of] == [
        (a, "mix") for a in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert of[0]["folder"] == "runs/walker_byol_btd-seeds5"
    assert of[4]["folder"] == "runs/walker_byol_uniform-seeds5"


def test_a_narrowed_command_takes_no_cell_out_of_a_plan(tmp_path):
    wide = Place(tmp_path, "smoke")
    narrow = wide._replace(size=StudySize((), ("lra_p",), 0))
    cells = cells_of("main", wide)
    write_plan("main", cells, wide)
    file = write_plan("main", cells_of("main", narrow), narrow)
    folders = {row["folder"] for row in json.loads(file.read_text())["cells"]}
    assert folders == {str(c.folder(wide).relative_to(wide.root)) for c in cells}
    file.write_text(file.read_text()[:100])  # cut short
    rows = json.loads(write_plan("main", cells, wide).read_text())["cells"]
    assert len(rows) == len(cells)


def test_both_variants_are_told_apart_whatever_flags_set(tmp_path):
    for fields in ((), (("policy.center_reward", False),)):
        place = Place(tmp_path / str(len(fields)), "smoke", None, fields)
        rows = json.loads(write_plan("samplers", cells_of("samplers", place), place).read_text())
        told = [row["fields"]["policy.center_reward"] for row in rows["cells"][:2]]
        assert sorted(told) == [False, True]


def test_flags_narrow_a_study_and_set_fields(tmp_path):
    size = StudySize(("walker",), ("fb",), 2)
    fields = cells.parse_fields(
        ["policy.updates=7", "data.cache=here", "policy.center_reward=False"]
    )
    place = Place(tmp_path, "smoke", size, fields)
    found = cells_of("dimension", place)
    assert {(c.domain, c.encoder, c.seeds) for c in found} == {
        ("walker", "fb", 2),
        ("walker", "oracle", 2),
    }
    config = found[0].config(place)
    assert config.policy.updates == 7 and config.data.cache == "here"
    assert config.policy.center_reward is False
    command = found[0].command(place)
    assert "--config.policy.updates=7" in command and "--config.seeds=2" in command
    with pytest.raises(ConfigError, match="policy.update=7"):
        found[0].config(place._replace(fields=(("policy.update", 7),)))
    with pytest.raises(ConfigError, match="polcy"):
        found[0].config(place._replace(fields=(("polcy.updates", 7),)))
    with pytest.raises(ConfigError, match="expected field=value"):
        cells.parse_fields(["policy.updates"])


def test_samplers_and_the_oracle_can_be_left_out(tmp_path):
    plans = {"main": cells_of("main", Place(tmp_path, "smoke"))}
    kinds = {(cell.kind, cell.sampler) for cell in narrow(plans, [], oracle=True)["main"]}
    assert kinds == {("score", "uniform"), ("score", "btd"), ("oracle", "all")}
    left = narrow(plans, ["btd"], oracle=False)["main"]
    assert {(cell.kind, cell.sampler) for cell in left} == {("score", "btd")}
    with pytest.raises(TaskError, match="sampler of this study 'goal_mix': known: btd, uniform"):
        narrow(plans, ["goal_mix"], oracle=True)


def test_laptop_seeds_have_collections_of_their_own(tmp_path):
    place = Place(tmp_path, "laptop", StudySize((), ("fb",), 5))
    found = cells_of("main", place)
    assert len(found) == 5 * 3 and found[3].collection == 1  # whole collections, one by one
    for cell in found:
        config = cell.config(place)
        assert config.seeds == 1 and config.seed == config.data.seed == cell.collection
        assert f"-collection{cell.collection}-seeds1" in cell.name
        assert f"--config.data.seed={cell.collection}" in cell.command(place)
        if cell.kind == "score":
            encoder = cell.encoder_cell().config(place)
            assert (encoder.data.seed, encoder.seed) == (config.data.seed, config.seed)
    wider = cells_of("main", place._replace(size=StudySize((), ("fb",), 7)))
    assert set(found) < set(wider)  # more seeds keep the runs that are there


def test_collections_share_seeds_out_and_start_where_flags_say(tmp_path):
    place = Place(tmp_path, "smoke", StudySize((), ("fb",), 6, 3), (("data.seed", 7),))
    found = cells_of("task_space", place)
    seen = [(c.seeds, c.config(place).seed, c.config(place).data.seed) for c in found]
    assert seen == [(2, 0, 7), (2, 2, 8), (2, 4, 9)]
    assert {"--seeds=6", "--collections=3", "--set=data.seed=7"} <= set(found[1].command(place))
    scored = cells_of("main", place)[3].command(place)
    assert [w for w in scored if "data.seed" in w] == ["--config.data.seed=8"]


def test_collections_that_cannot_be_are_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("ZSRL_DATA", raising=False)
    uneven = Place(tmp_path, "smoke", StudySize((), (), 5, 2))
    with pytest.raises(ConfigError, match=r"--collections=2 with 5 seeds: .* --seeds=6"):
        cells_of("main", uneven)
    data = tmp_path / "mine.npz"
    data.touch()
    given = (("data.path", str(data)), ("data.format", "store"))
    with pytest.raises(ConfigError, match=r"--collections=5: the data is given \('.*mine.npz'\)"):
        cells_of("main", Place(tmp_path, "laptop", StudySize((), (), 5, 5), given))
    (first, *_) = cells_of("main", Place(tmp_path, "laptop", None, given))
    assert first.seeds == 5 and first.collection is None  # there is nothing to spread them over


def test_a_study_is_cut_off_between_collections(tmp_path):
    place = Place(tmp_path, "laptop", StudySize((), ("fb", "lra_p"), 2))
    encoders, rest = launch.waves(cells_of("main", place))
    _, left = launch.part([*encoders, *rest], place)
    assert [cell.collection for cell in left] == [0] * 7 + [1] * 7
    assert [cell.kind for cell in left[7:9]] == ["encoder"] * 2
    first = {jobs.collection_of(cell): cell for cell in reversed(encoders)}
    assert len(first) == 2  # each collection has a cell that collects it
    for cell in left:
        assert {need.collection for need in jobs.needs(cell, first)} <= {cell.collection}


def test_a_study_that_does_not_exist_is_told_with_the_nearest():
    assert study_names(["all"]) == list(STUDIES)
    with pytest.raises(TaskError, match="did you mean 'dilution'"):
        study_names(["dillution"])
    with pytest.raises(ConfigError, match="expected one study"):
        study_names([])


def test_slurm_options_are_read():
    found = jobs.parse_parameters(["partition=gpu", "time=720"])
    assert found == {"slurm_partition": "gpu", "slurm_time": 720}
    with pytest.raises(ConfigError, match="expected key=value"):
        jobs.parse_parameters(["gpu"])


def test_a_run_adopts_its_encoder_once(tmp_path):
    source, target = tmp_path / "encoder", tmp_path / "run"
    (source / "encoder" / "tree").mkdir(parents=True)
    (source / "encoder" / "tree" / "a").write_text("weights")
    (source / "metrics.jsonl").write_text("{}\n")
    work.adopt(source, target)
    assert (target / "encoder" / "tree" / "a").read_text() == "weights"
    (target / "metrics.jsonl").write_text("{}\n{}\n")
    work.adopt(source, target)  # a run that went on keeps its own
    assert (target / "metrics.jsonl").read_text() == "{}\n{}\n"
    assert not (target / "encoder.part").exists()


def test_position_is_read_from_metrics_even_half_written(tmp_path):
    place = Place(tmp_path, "smoke")
    cell = Cell("score", "cheetah", "fb", "btd", 2)
    assert progress.position(cell, place) == 0
    folder = cell.folder(place)
    folder.mkdir(parents=True)
    lines = [{"step": 60, "encoder/loss": [1, 2]}, {"step": 40, "policy/q": [1, 2]}]
    text = "\n".join(map(json.dumps, lines)) + '\n{"step": 60, "pol'
    (folder / "metrics.jsonl").write_text(text)
    assert progress.position(cell, place) == 40 * 2
    bar = progress.Progress([cell], [], place)
    bar.start(cell)  # it goes on from there: the time left is not told from what was done before
    assert bar.bar.n == bar.bar.initial == 80
    bar.finish(cell, None)
    bar.close()
    assert bar.bar.n == bar.bar.total and bar.bar.initial == 80


def test_what_is_no_run_names_its_study_as_its_command(tmp_path):
    fields = cells.parse_fields(["encoder.updates=4"])
    place = Place(tmp_path, "smoke", None, fields)
    for name in ("dilution", "task_space"):
        call = cells_of(name, place)[0].command(place)
        assert call[:4] == ["python", "-m", "experiments.paper", name]
        narrowed = {"--domains=cheetah", "--encoders=fb", "--seeds=2", "--scale=smoke"}
        assert narrowed | {f"--out={tmp_path}", "--set=encoder.updates=4"} == set(call[4:])


def test_an_encoder_is_named_without_a_sampler(tmp_path):
    cell = cells_of("main", Place(tmp_path, "smoke"))[1].encoder_cell()
    assert cell.name == "cheetah_fb-seeds2" and progress.label(cell) == "encoder cheetah_fb-seeds2"


def test_a_signal_between_two_cells_stops_the_study(tmp_path, monkeypatch):
    place, started = Place(tmp_path, "smoke"), []
    found = cells_of("components", place)

    def do(cell, place, tell):
        started.append(cell)
        os.kill(os.getpid(), signal.SIGTERM)  # comes when the cell has done its last update

    monkeypatch.setattr(launch, "do", do)
    bar = progress.Progress(found, [], place)
    with signals.caught(), pytest.raises(signals.Stopped):
        launch.run_here(found, place, bar)
    bar.close()
    assert started == found[:1]


def test_the_bar_tells_what_a_cell_is_at_and_is_no_flood_in_a_file(tmp_path, monkeypatch):
    place = Place(tmp_path, "smoke")
    found, drawn = cells_of("components", place), []
    bar = progress.Progress(found, [], place)
    monkeypatch.setattr(bar.bar, "refresh", lambda: drawn.append(str(bar.bar)))
    with bar.watch(found[0]) as tell:
        tell("data")
        for _ in range(5):
            bar.look()
    bar.finish(found[0], None)
    bar.close()
    assert len(drawn) == 2  # the first, and the end of a cell
    assert "data of cheetah_fb_btd" in drawn[0] and drawn[1].startswith("1/3 cells")
    assert bar.bar.n == bar.cost[found[0]]


def test_a_warning_is_one_line():
    told = cli.one_line(UserWarning("the features\ncan hardly"), UserWarning, "infer.py", 7)
    assert told == "warning: the features can hardly\n"


def test_a_plan_names_every_cell_with_its_folder_and_command(tmp_path):
    place = Place(tmp_path, "smoke")
    found = cells_of("components", place)
    plan = json.loads(write_plan("components", found, place).read_text())
    assert [row["value"] for row in plan["cells"]] == [2, 4, None]  # the oracle has none
    for row, cell in zip(plan["cells"], found, strict=True):
        assert place.root / row["folder"] == cell.folder(place)
        file = "oracle.py" if cell.kind == "oracle" else "cell.py"
        assert row["command"].startswith(
            f"python -m experiments.run --config=configs/{file}:cheetah"
        )
