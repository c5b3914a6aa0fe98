"""A run's memory before it starts: shapes against the compiler, the table, and what is refused."""

import pytest

from zsrl_jax import train
from zsrl_jax.commands import doctor, sizes
from zsrl_jax.devices import peaks, precision
from zsrl_jax.errors import ConfigError
from zsrl_jax.settings import cells
from zsrl_jax.settings.cells import config as get_cell
from zsrl_jax.training import memory, streaming
from zsrl_jax.training.blueprint import DataShape, programs, shape_of
from zsrl_jax.training.memory import GB, Need
from zsrl_jax.types import Spec

SMALL = DataShape(20, 30, Spec(4, 2))


def test_shapes_tell_what_the_compiler_tells():
    """Results and donated state are exact before anything is compiled."""
    config = get_cell("other", "lra_p", "uniform", "smoke")
    config.seeds = 2
    first = next(programs(config, SMALL))
    shapes, compiled = memory.by_shapes(first), memory.by_compiler(first)
    assert shapes.reused == memory.size_of(first.args[0]) > 0  # the whole state is donated
    for field in ("results", "reused"):
        told, found = getattr(shapes, field), getattr(compiled, field)
        assert abs(told - found) <= 1024, field  # small ones are laid out with gaps
    assert compiled.temporaries > 0 and compiled.flops > 0 and shapes.temporaries == 0


@pytest.fixture(scope="module")
def paper():
    config = get_cell("cheetah", "aenc", "uniform", "paper")
    return config, shape_of(config)


@pytest.mark.parametrize(
    ("limit", "told"),
    [(5.2, "program 'features' of 5 seeds needs 5.3"), (0.3, "use config.data.device_gib=0.001")],
)
def test_what_cannot_fit_is_refused_before_it_starts(paper, limit, told):
    with pytest.raises(ConfigError, match=told) as caught:
        memory.refuse_if_too_large(*paper, int(limit * GB))
    assert "GB for it: use " in str(caught.value) and "\n" not in str(caught.value)


def test_the_advice_is_right(paper):
    """Fewer seeds, as the message says, are not refused by their shapes."""
    config, shape = paper
    with pytest.raises(ConfigError, match="config.seeds=([0-9]+) per device") as caught:
        memory.refuse_if_too_large(config, shape, int(5.2 * GB))
    fewer = int(str(caught.value).partition("config.seeds=")[2].split()[0])
    assert 1 <= fewer < 5 and "config.policy.feature_gib=0 (" in str(caught.value)
    config = config.copy_and_resolve_references()
    config.seeds = fewer
    assert max(memory.by_shapes(p).total for p in programs(config, shape)) <= 5.2 * GB


def test_a_cpu_is_never_refused(paper):
    memory.refuse_if_too_large(*paper, None)
    assert memory.device_limit() is None  # here


def test_a_store_on_the_host_takes_no_place(paper, monkeypatch):
    """Only updates are on the device then; what they need is refused as well."""
    monkeypatch.setattr(memory, "by_compiler", memory.by_shapes)
    config = paper[0].copy_and_resolve_references()
    config.data.device_gib = 0.1
    memory.refuse_if_too_large(config, paper[1], int(0.45 * GB))  # less than the store alone
    with pytest.raises(ConfigError, match="'policy' of 5 seeds .* use config.seeds=3 per device"):
        memory.refuse_if_too_large(config, paper[1], int(0.3 * GB))
    with pytest.raises(ConfigError, match="use smaller networks or a smaller batch"):
        memory.refuse_if_too_large(config, paper[1], 1000)


def test_devices_share_the_seeds_and_an_oracle_s_tasks(paper, monkeypatch):
    monkeypatch.setattr(memory, "by_compiler", memory.by_shapes)
    config, shape = paper
    memory.refuse_if_too_large(config, shape, int(2 * GB), num_devices=5)
    with pytest.raises(ConfigError, match="of 5 seeds"):  # two do not divide five
        memory.refuse_if_too_large(config, shape, int(2 * GB), num_devices=2)
    oracle = cells.oracle_config("walker", scale="paper")
    with pytest.raises(ConfigError, match="'policy' of 20 tasks x seeds .* use 10 tasks x seeds"):
        memory.refuse_if_too_large(oracle, shape_of(oracle), int(1.5 * GB))
    memory.refuse_if_too_large(oracle, shape_of(oracle), int(1.5 * GB), num_devices=4)
    with pytest.raises(ConfigError, match="of 5 tasks x seeds .* use less data"):
        memory.refuse_if_too_large(oracle, shape_of(oracle), int(0.7 * GB), num_devices=4)


def test_temporaries_count_on_every_device_whose_batch_is_whole(paper, monkeypatch):
    """Five seeds on two devices are one device's program; a divided batch is another."""
    seen = []

    def noted(program):
        seen.append(program.name)
        return memory.by_shapes(program)

    monkeypatch.setattr(memory, "by_compiler", noted)
    config = paper[0].copy_and_resolve_references()
    memory.refuse_if_too_large(config, paper[1], 80 * GB, num_devices=2)
    assert "policy" in seen
    seen.clear()
    config.devices.data = 2
    memory.refuse_if_too_large(config, paper[1], 80 * GB, num_devices=2)
    assert not seen


def test_flops_of_a_program_are_counted_without_the_device(paper):
    """110 GFLOP per seed (docs/performance.md), of one update: the body of a loop counts once."""
    with precision.traced_for("gpu"):  # five seeds in one batch
        (policy,) = (p for p in programs(*paper) if p.name == "policy")
        assert memory.count_flops(policy) == pytest.approx(5 * 110e9, rel=0.02)


def test_a_run_is_refused_before_data_is_collected(tmp_path, monkeypatch):
    config = get_cell("cheetah", "lra_p", "uniform", "smoke")
    config.data.update({"source": "collect", "cache": str(tmp_path / "data")})
    monkeypatch.setattr(memory, "device_limit", lambda: 10_000)
    with pytest.raises(ConfigError, match="the device has 0.0 GB for it: use "):
        train(config, None, tmp_path / "run", quiet=True)
    assert not list(tmp_path.iterdir())


def test_a_run_is_refused_before_it_trains_on_data_of_its_own(noise_dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "device_limit", lambda: 10_000)
    with pytest.raises(ConfigError, match="the program 'encoder' of"):
        train(get_cell("other", "lra_p", "uniform", "smoke"), noise_dataset, tmp_path / "run")
    assert not (tmp_path / "run" / "encoder").exists()


def test_features_are_on_the_device_once():
    """In one batch of seeds they would be there twice: once with the seeds in the middle."""
    config = get_cell("other", "lra_p", "uniform", "smoke")
    config.seeds = 4
    shape = DataShape(64, 30, Spec(4, 2))
    with precision.traced_for("gpu"):
        (table,) = (p for p in programs(config, shape) if p.name == "features")
        batched = memory.by_compiler(table._replace(how="vmap"))
        found = memory.by_compiler(table)
    assert batched.temporaries >= found.results > 2 * found.temporaries


def test_without_a_host_jax_s_list_of_platforms_is_named(tmp_path, monkeypatch):
    config = get_cell("cheetah", "lra_p", "uniform", "smoke")
    config.update({"log_every": 10, "evaluate": {"every": 20}})

    def unknown(backend):
        raise RuntimeError(f"Unknown backend {backend}")

    monkeypatch.setattr(streaming.jax, "local_devices", unknown)
    with pytest.raises(ConfigError, match="JAX_PLATFORMS=cuda,cpu"):
        train(config, None, tmp_path / "run", quiet=True)


def test_the_doctor_says_what_to_change_where_a_run_does_not_fit(paper):
    found = [(program, memory.by_shapes(program)) for program in programs(*paper)]
    assert sizes.changes(found) == []  # 5.9 GB
    program, need = found[-1]
    large = need._replace(temporaries=int(8 * GB))
    assert [line[:45] for line in sizes.changes([*found[:-1], (program, large)])] == [
        "16 GB: the program 'policy' of 5 seeds needs "
    ]


def test_the_table_says_where_a_program_fits():
    line = sizes.row(Need("policy", int(10 * GB), int(8 * GB), int(GB), int(GB), 5 * 110e9), 5)
    assert len(line) == len(sizes.head()) and sizes.head().endswith("40 GB   80 GB")
    assert line.split()[:3] == ["policy,", "5", "seeds"]
    assert line.split()[-4:] == ["-", "fits", "fits", "fits"]  # 18 GB: 24 GB holds 18 of them


def test_hours_are_those_of_the_page():
    """docs/performance.md: 10^6 updates of five seeds take 20 h on an A100, 2.4 h in tf32."""
    assert round(peaks.hours(5e6 * 110e9, "A100", "float32")) == 20
    assert round(peaks.hours(5e6 * 110e9, "A100", "tf32"), 1) == 2.4
    assert peaks.peak_of("NVIDIA A100-SXM4-80GB") is peaks.PEAKS["A100"]
    assert peaks.peak_of("cpu") is None


@pytest.mark.parametrize(
    ("kind", "name"),
    [("NVIDIA L4", "L4"), ("NVIDIA L40S", None), ("NVIDIA H100 80GB HBM3", "H100"),
     ("NVIDIA GeForce RTX 4090", "RTX 4090"), ("TPU v5", "TPU v5"), ("TPU v5 lite", "TPU v5 lite"),
     ("Tesla V100-SXM2-16GB", None)],
)  # fmt: skip
def test_a_device_is_found_by_its_whole_name(kind, name):
    assert peaks.peak_of(kind) is peaks.PEAKS.get(name)


@pytest.mark.lowering
def test_the_doctor_prints_the_table(capsys):
    assert doctor.main(["doctor", "--config=cell:cheetah,lra_p,uniform,smoke"]) == 0
    text = capsys.readouterr().out
    for words in ("cheetah_lra_p_uniform, smoke scale", "policy, 1 seed", "hours on one A100"):
        assert words in text


def test_the_doctor_refuses_a_config_that_is_none(capsys):
    with pytest.raises(SystemExit) as caught:
        doctor.main(["doctor", "--config=cell:cheetah,none,uniform,smoke"])
    assert caught.value.code == 2 and "unknown encoder 'none'" in capsys.readouterr().err
