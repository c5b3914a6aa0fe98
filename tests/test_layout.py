"""The rooms of the house: who may import whom, what each says of itself, and what is never run."""

import ast
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from helpers.person import ROOT

PACKAGE = ROOT / "zsrl_jax"
ROOMS = [  # each may import what stands before it, and itself
    "errors", "types", "devices.precision", "seeds", "devices", "files", "envs", "data",
    "networks", "learner", "encoders", "gmm", "tasks", "td3", "acting", "prompts", "rewards",
    "registration", "settings", "agent", "oracle", "runs", "asked_tasks", "rollouts", "evaluation",
    "exploration", "training", "web", "analysis", "commands", "__main__",
]  # fmt: skip
METHOD = ["seeds", "networks", "learner", "encoders", "gmm", "tasks", "td3", "acting",
          "prompts", "rewards", "agent", "oracle"]  # fmt: skip
FILES = sorted(f for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py")


def room_of(dotted: str) -> str:
    """Return the room of a module's name below the package."""
    if dotted.startswith("devices.precision"):
        return "devices.precision"
    return dotted.split(".")[0]


def own_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(file: Path) -> set[str]:
    """Name all that a file imports when it runs; what only a type checker reads does not count."""
    tree, names = ast.parse(file.read_text()), set()
    typing = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n)]
    skipped = {id(inner) for node in typing for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def rooms_imported(file: Path) -> set[str]:
    names = {name.removeprefix("zsrl_jax.") for name in imported(file)
             if name.startswith("zsrl_jax.")}  # fmt: skip
    return {room for room in map(room_of, names) if room in ROOMS}


@pytest.mark.parametrize("file", FILES, ids=own_name)
def test_a_room_imports_only_what_stands_before_it(file):
    mine = ROOMS.index(room_of(own_name(file)))
    late = [room for room in rooms_imported(file) if ROOMS.index(room) > mine]
    assert not late, f"{own_name(file)} imports {late}"


@pytest.mark.parametrize("file", [f for f in FILES if room_of(own_name(f)) in METHOD], ids=own_name)
def test_the_method_knows_no_devices_files_or_runs(file):
    assert not rooms_imported(file) & {"devices", "files", "runs", "exploration", "training"}


def test_that_law_can_fail(tmp_path):
    file = tmp_path / "a.py"
    file.write_text("def f():\n    from zsrl_jax.training import loop\n")
    assert rooms_imported(file) == {"training"}


def test_one_file_alone_knows_flax():
    users = [f.name for f in FILES if any(n.split(".")[0] == "flax" for n in imported(f))]
    assert users == ["networks.py"]


ACTING = """
import sys
import numpy as np
import zsrl_jax
agent = zsrl_jax.load(sys.argv[1])
action = agent.act(np.zeros(17), agent.infer(reward="run"))
assert action.shape == (1, 6)
brought = {"dm_control", "optax", "distrax", "tensorboardX"} & set(sys.modules)
brought |= {name for name in sys.modules if name.startswith("zsrl_jax.training")}
assert not brought, brought
"""


def test_an_agent_that_acts_brings_no_optimiser_no_dm_control_and_no_training():
    run = ROOT / "tests/fixtures/run_0_1"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", ACTING, str(run)], cwd=ROOT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_wheel_holds_the_package_alone_and_all_of_its_files():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    (pattern,) = settings["packages"]["find"]["include"]
    folders = [f.name for f in ROOT.iterdir() if f.is_dir() and f.name.isidentifier()]
    assert [name for name in folders if fnmatch(name, pattern)] == ["zsrl_jax"]
    others = [file for file in PACKAGE.rglob("*") if file.is_file() and file.suffix != ".py"]
    kinds = settings["package-data"]["zsrl_jax"]
    for name in [str(file.relative_to(PACKAGE)) for file in others]:
        assert "__pycache__" in name or any(fnmatch(name, kind) for kind in kinds), name


def test_every_room_says_what_belongs_in_it():
    for room in [f.parent for f in PACKAGE.rglob("__init__.py")]:
        text = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
        assert len(text.splitlines()) >= 1 and len(text) > 40, room


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_public_functions_and_modules_say_what_they_do(file):
    tree = ast.parse(file.read_text())
    assert ast.get_docstring(tree), f"{file.name} has no docstring"
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{file.name}: {node.name} has no docstring"


CODE = [f for folder in ("zsrl_jax", "experiments", "configs")
        for f in sorted((PACKAGE.parent / folder).rglob("*.py"))]  # fmt: skip
RUNNING = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}


def runs_what_it_reads(tree: ast.AST) -> list[str]:
    """Name what in a module could run code that it found in a file."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found += [name for name in names if name.split(".")[0] in RUNNING]
        elif isinstance(node, ast.Name) and node.id in ("eval", "exec", "__import__"):
            found.append(node.id)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                found.append("allow_pickle")
        elif isinstance(node, ast.Attribute) and node.attr in ("read_pickle", "unsafe_load"):
            found.append(node.attr)
    return found


@pytest.mark.parametrize("file", CODE, ids=lambda f: str(f.relative_to(PACKAGE.parent)))
def test_nothing_that_is_read_can_be_run(file):
    assert runs_what_it_reads(ast.parse(file.read_text())) == []


@pytest.mark.parametrize(
    "code", ["import pickle", "from pickle import loads", "eval('1')", "run = exec",
             "np.load(f, allow_pickle=True)", "np.load(f, allow_pickle=yes)", "__import__('os')"],
)  # fmt: skip
def test_the_law_against_running_can_fail(code):
    assert runs_what_it_reads(ast.parse(code))
    assert not runs_what_it_reads(ast.parse("np.load(f, allow_pickle=False); jax.eval_shape(f)"))
