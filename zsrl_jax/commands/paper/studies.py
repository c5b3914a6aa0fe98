"""The studies as tables: the cells of each at each scale. Data only; `cells` makes runs of them.

Laptop scale is what two cores do in a night: cheetah, five seeds with a collection each, whole
runs of the preset. `--domains`, `--encoders`, `--seeds` and others narrow or widen it.
Smoke scale runs every study end to end in a minute or two and says nothing about the method: one
domain, one or two encoders, two seeds, 60 updates, two or three points per axis.
"""

from typing import Any, NamedTuple

WIDE = (128, 128, 1024)  # hidden layers of phi; the last one bounds its rank


class Study(NamedTuple):
    """A table of cells: domains x encoders x samplers x values of a field (x variants)."""

    title: str
    kind: str = "score"  # what to do with a cell: score, dilution, task_space
    samplers: tuple[str, ...] = ("btd",)
    axis: str = ""  # the config field that varies along the chart
    values: dict[str, tuple] = {}  # of that field, by scale
    variants: tuple[dict[str, Any], ...] = ({},)  # fields set for a second copy of all cells
    fields: dict[str, dict[str, Any]] = {}  # by scale, set in all cells
    sizes: dict[str, dict[str, Any]] = {}  # by scale, what differs from STUDY_SIZES, `samplers`
    oracle: bool = False  # also TD3 on each task's true reward, as a reference
    options: dict[str, dict[str, Any]] = {}  # by scale, for kinds that are not runs


STUDIES = {
    "main": Study(
        "Zero-shot scores: uniform against BTD tasks, for every encoder",
        samplers=("uniform", "btd"),
        sizes={"smoke": {"encoders": ("fb", "lra_p")}},
        oracle=True,
    ),
    "spread": Study(
        "Spread over encoders: uniform (solid) against BTD tasks (hatched)",
        samplers=("uniform", "btd"),
        sizes={"smoke": {"encoders": ("fb", "lra_p")}},
        oracle=True,
    ),
    "dimension": Study(
        "Score against the dimension d of features and tasks",
        samplers=("uniform", "btd"),
        axis="encoder.dim",
        values={
            "paper": (50, 100, 250, 500, 750, 1000),
            "laptop": (50, 100, 250, 500, 1000),
            "smoke": (4, 8),
        },
        fields={"laptop": {"encoder.hidden": WIDE}},
        sizes={"laptop": {"encoders": ("lra_p", "fb"), "seeds": 3}},
        oracle=True,
    ),
    "alpha": Study(
        "Score against the share alpha of uniform tasks among BTD tasks",
        samplers=("mix",),
        axis="tasks.alpha",
        values={
            "paper": (0.0, 0.25, 0.5, 0.75, 1.0),
            "laptop": (0.0, 0.25, 0.5, 0.75, 1.0),
            "smoke": (0.0, 0.5, 1.0),
        },
        sizes={"laptop": {"encoders": ("fb",)}},
        oracle=True,
    ),
    "samplers": Study(
        "Task samplers on FB features, with and without a centred reward",
        samplers=("uniform", "full_traj", "subtraj", "btd", "btd_centered", "goal_mix"),
        variants=({"policy.center_reward": True}, {"policy.center_reward": False}),
        sizes={
            "paper": {"encoders": ("fb",)},
            "laptop": {"encoders": ("fb",)},
            "smoke": {"samplers": ("uniform", "subtraj", "btd")},
        },
        oracle=True,
    ),
    "settings": Study(
        "Uniform and BTD tasks on FB features: the preset, and other settings of it",
        samplers=("uniform", "btd"),
        variants=(
            {},
            {"tasks.center": False},
            {"infer.nearest": 100},
            {"policy.way_back": True, "policy.learning_rate": 1e-3},
        ),
        sizes={
            "paper": {"encoders": ("fb",)},
            "laptop": {"encoders": ("fb",)},
            "smoke": {"encoders": ("fb",)},
        },
    ),
    "dilution": Study(
        "Signal dilution: variance of returns over behaviours against d",
        kind="dilution",
        samplers=("uniform",),
        axis="encoder.dim",
        values={
            "paper": (5, 10, 50, 100, 500, 1000),
            "laptop": (5, 10, 50, 100, 500),
            "smoke": (4, 8),
        },
        fields={"laptop": {"encoder.hidden": WIDE}},
        sizes={"laptop": {"encoders": ("lra_p",)}},
        options={
            "paper": {"num_pieces": 100_000, "num_tasks": 10_000},
            "laptop": {"num_pieces": 100_000, "num_tasks": 10_000},
            "smoke": {"num_pieces": 2000, "num_tasks": 2000},
        },
    ),
    "components": Study(
        "Score and unseen log-likelihood against the number K of components",
        axis="tasks.num_components",
        values={
            "paper": (5, 10, 20, 50, 100, 200),
            "laptop": (5, 10, 20, 50, 100, 200),
            "smoke": (2, 4),
        },
        sizes={"laptop": {"encoders": ("fb",)}},
        oracle=True,
    ),
    "subtrajectories": Study(
        "Score against the number N_tau of sub-trajectories",
        axis="tasks.num_subtrajectories",
        values={
            "paper": (10, 100, 1000, 10_000, 100_000, 1_000_000),
            "laptop": (10, 100, 1000, 10_000, 100_000, 1_000_000),
            "smoke": (10, 500),
        },
        sizes={
            "paper": {"encoders": ("fb",)},
            "laptop": {"encoders": ("fb",)},
        },
        oracle=True,
    ),
    "task_space": Study(
        "Where tasks lie: of the data, from BTD, uniform, and the test tasks",
        kind="task_space",
        samplers=("btd",),
        sizes={
            "paper": {"encoders": ("fb",)},
            "laptop": {"encoders": ("fb",)},
        },
        options={
            "paper": {"num": 2000, "threshold": 0.5},
            "laptop": {"num": 2000, "threshold": 0.5},
            "smoke": {"num": 200, "threshold": 0.5},
        },
    ),
}
# The paper's ablation table (FB features, ExORL, mean over a domain's tasks): domain -> sampler.
PUBLISHED: dict[str, dict[str, tuple[int, int]]] = {
    "cheetah": {
        "uniform": (464, 60), "full_traj": (482, 37), "subtraj": (512, 24), "btd": (579, 25),
    },
    "walker": {
        "uniform": (560, 42), "full_traj": (488, 11), "subtraj": (579, 25), "btd": (611, 23),
    },
    "quadruped": {
        "uniform": (634, 124), "full_traj": (421, 30), "subtraj": (678, 43), "btd": (704, 64),
    },
}  # fmt: skip
