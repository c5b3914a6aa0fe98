"""Pages of the agents that ship, and a browser that shows them: for all tests in a browser."""

import pytest
from helpers.webdriver import DRAWING, browser

import zsrl_jax

ROBOTS = ("cheetah", "walker", "quadruped")


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The page of every robot."""
    folder = tmp_path_factory.mktemp("pages")
    return {name: zsrl_jax.page(name, folder / name) for name in ROBOTS}


@pytest.fixture(scope="module")
def window():
    """A browser without a network."""
    with browser(DRAWING) as opened:
        yield opened


@pytest.fixture
def show(window, pages):
    """Open a domain's page at an address, wait until it is ready, and stop its time."""

    def act(name, address="", width=700, height=500):
        window.open("about:blank")
        window.log()
        window.resize(width, height)
        window.open(pages[name].as_uri() + address)
        window.wait("return !!window.zsrl || document.getElementById('loading').hidden", 120)
        window.run("if (!zsrl.isPaused) zsrl.pause()")
        return window

    return act
