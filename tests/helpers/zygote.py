"""Runs commands that are refused in processes forked from one that has the imports behind it.

By itself (`python zygote.py`): a line of JSON asks for a command, another tells how it ended.
"""

import json
import os
import runpy
import sys
import traceback


def serve() -> None:
    """Answer requests until the other side is gone."""
    import matplotlib.pyplot  # noqa: F401  what commands import, but no command: it defines flags

    import zsrl_jax.analysis.health
    import zsrl_jax.commands.cli
    import zsrl_jax.exploration.collection
    import zsrl_jax.training.pipeline  # noqa: F401

    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _be(asked)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps(code), flush=True)


def _be(asked: dict) -> None:
    """Become the command: its folder, its words, what it prints; never return."""
    for number, name in ((0, os.devnull), (1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
    code: object = 1
    try:
        os.chdir(asked["cwd"])
        sys.path.insert(0, asked["cwd"])  # as `python -m` does
        sys.argv = [asked["module"], *asked["args"]]
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    serve()
