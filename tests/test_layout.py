"""The reading order is the import order, and one file alone knows flax."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "zsrl_jax"
ORDER = [
    "errors", "types", "scale", "programs", "precision", "signals", "hosts", "lock", "disk",
    "hush", "envs", "data", "networks", "learner", "encoders", "gmm", "tasks", "td3", "mesh",
    "loop", "feed", "divergence", "infer",
    "settings", "checkpoint", "saves", "explore", "rounds", "collection", "card", "source",
    "metrics", "provenance", "facts", "takeover", "stage", "encoding", "resume", "agent", "oracle",
    "finished", "evaluation", "pipeline", "statistics", "geometry", "probe",
]  # fmt: skip
FILES = sorted(f for f in PACKAGE.rglob("*.py") if f != PACKAGE / "__init__.py")


def place(file: Path) -> int:
    return ORDER.index(file.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_only_what_stands_above(file):
    for name in imported(file):
        parts = name.split(".")
        if parts[0] == "zsrl_jax" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= place(file), f"{file.name} imports {name}"


def test_flax_is_known_to_networks_alone():
    users = [f.name for f in FILES if any(n.split(".")[0] == "flax" for n in imported(f))]
    assert users == ["networks.py"]


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
def test_that_law_can_fail(code):
    assert runs_what_it_reads(ast.parse(code))
    assert not runs_what_it_reads(ast.parse("np.load(f, allow_pickle=False); jax.eval_shape(f)"))
