"""A browser by the WebDriver protocol, in a few lines: Debian's chromium and chromium-driver."""

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

PORT = 9517
OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--window-size=1400,1200",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no network: a page that needs it fails
]  # fmt: skip


class Browser:
    """One session of a browser."""

    def __init__(self, session: str):
        self.session = session

    def call(self, command: str, method: str = "POST", **body: Any) -> Any:
        return request(f"/session/{self.session}/{command}", method, body)

    def open(self, url: str) -> None:
        self.call("url", url=url)

    def run(self, script: str) -> Any:
        return self.call("execute/sync", script=script, args=[])

    def log(self) -> list[dict]:
        return self.call("se/log", type="browser")


def request(path: str, method: str, body: dict | None = None) -> Any:
    data = json.dumps(body).encode() if method == "POST" else None
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=180) as answer:
        return json.loads(answer.read())["value"]


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a driver and a browser; end both."""
    driver = subprocess.Popen(["chromedriver", f"--port={PORT}"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(120):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if request("/status", "GET")["ready"]:
                    break
            time.sleep(0.5)
        wanted = {
            "goog:chromeOptions": {"args": OPTIONS},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = request("/session", "POST", {"capabilities": {"alwaysMatch": wanted}})
        session = Browser(made["sessionId"])
        try:
            yield session
        finally:  # a driver that is ended leaves its browser behind
            request(f"/session/{session.session}", "DELETE")
    finally:
        driver.terminate()
        driver.wait(30)
