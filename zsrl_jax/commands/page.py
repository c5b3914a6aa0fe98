"""Make a page where anyone prompts an agent: python -m experiments.page runs/cheetah_fb_btd

Writes page/index.html: one file with the physics, the policy and the prompts inside, which opens by
a double click on any machine. With --open it is served on 127.0.0.1 and the browser is opened.
The argument is the folder of a run, or the name of an agent that ships: cheetah.
"""

import functools
import http.server
import webbrowser
from pathlib import Path

from absl import flags

from zsrl_jax.commands import cli, usage_of
from zsrl_jax.errors import ConfigError
from zsrl_jax.web.pages import page

OUT = flags.DEFINE_string("out", "page", "folder for index.html")
OPEN = flags.DEFINE_bool("open", False, "serve it on 127.0.0.1 and open the browser")
PORT = flags.DEFINE_integer("port", 0, "of --open; 0: any that is free", 0, 65535)
MEMBER = flags.DEFINE_integer("member", 0, "which training seed of the run acts")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of one folder that prints no line per request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def serve(folder: Path) -> None:
    """Serve a folder to this machine alone, until the user stops it."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", PORT.value), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        print(f"{address}   (Ctrl-C ends it)", flush=True)
        webbrowser.open(address)
        server.serve_forever()


def main(argv: list[str]) -> None:
    """Write the page of one agent."""
    if len(argv) != 2:
        raise ConfigError(f"expected one run or agent: {usage_of('page', 'RUN_OR_NAME [--open]')}")
    file = page(argv[1], OUT.value, member=MEMBER.value)
    print(f"{file}   ({file.stat().st_size / 1e6:.1f} MB: opens by a double click)", flush=True)
    if OPEN.value:
        serve(file.parent)


if __name__ == "__main__":
    cli.run(main)
