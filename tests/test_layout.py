"""The reading order is the import order, and one file alone knows flax."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "zsrl_jax"
ORDER = [
    "errors", "types", "scale", "programs", "envs", "data", "networks", "learner", "encoders",
    "gmm", "tasks", "td3", "loop", "infer", "settings", "checkpoint", "explore", "collection",
    "card", "source", "metrics", "stage", "agent", "oracle", "finished", "evaluation", "pipeline",
    "statistics", "geometry",
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


def test_pickles_are_never_loaded():
    for file in FILES:
        text = file.read_text()
        assert "allow_pickle=True" not in text and "pickle.load" not in text
