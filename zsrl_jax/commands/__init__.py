"""The commands: `zsrl NAME ...` for the installed package, `python -m experiments.NAME` here.

Each reads flags, calls the library and prints. An error is one clear line and an exit code.
"""

import runpy
import sys

COMMANDS = {
    "run": "train a run and score it",
    "collect": "collect reward-free data",
    "explorers": "train the explorers that ship",
    "data": "look at datasets, or convert them",
    "page": "make a page where anyone prompts an agent",
    "video": "film a finished run",
    "diagnose": "draw the training curves of runs",
    "report": "make one page from runs and studies",
    "paper": "run a study of the paper",
    "results": "keep studies as small files, and make their page",
    "agents": "pack finished runs as agents that ship",
    "bench": "measure the parts",
    "doctor": "check the machine and what runs left behind",
}
_started: list[str] = []


def start(name: str) -> None:
    """Run a command as the main program of this process."""
    runpy.run_module(f"zsrl_jax.commands.{name}", run_name="__main__", alter_sys=True)


def program(name: str) -> list[str]:
    """Return the words to type for a command, in the way this process was started."""
    return ["zsrl", name] if _started else ["python", "-m", f"experiments.{name}"]


def usage_of(name: str, arguments: str) -> str:
    """Return a command with its arguments, as a person types it."""
    return " ".join([*program(name), arguments])


def main() -> None:
    """Run the command that the first argument names: the console script `zsrl`."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        sys.exit(0 if words else 2)
    if words[0] == "--version":
        import zsrl_jax

        print(f"zsrl_jax {zsrl_jax.__version__}")
        return
    if words[0] not in COMMANDS:
        from zsrl_jax.errors import unknown

        print(f"error: {unknown('command', words[0], COMMANDS)}", file=sys.stderr)
        sys.exit(2)
    _started.append(words[0])
    sys.argv = [f"zsrl {words[0]}", *words[1:]]
    start(words[0])


def usage() -> str:
    """Return the list of commands."""
    rows = [f"  {name:<11}{text}" for name, text in COMMANDS.items()]
    head = "zsrl COMMAND [flags]: zero-shot offline reinforcement learning in JAX"
    return "\n".join([head, "", *rows, "", "zsrl COMMAND --help lists a command's flags."])
