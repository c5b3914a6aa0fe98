"""A browser by the WebDriver protocol, in a few lines: Debian's chromium and chromium-driver."""

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PORT = 9517
OPTIONS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--window-size=1400,1200",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no network: a page that needs it fails
]  # fmt: skip
DRAWING = [  # a page that draws in three dimensions, without a graphics card
    "--headless", "--no-sandbox", "--use-angle=swiftshader", "--disable-dev-shm-usage",
    "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
    "--enable-unsafe-swiftshader",
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

    def wait(self, script: str, seconds: float = 60.0) -> Any:
        """Return what a script returns as soon as it is true."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"not true after {seconds} s: {script}"
            time.sleep(0.05)
        return found

    def resize(self, width: int, height: int) -> None:
        self.call("goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params={
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        })  # fmt: skip

    def prefer(self, scheme: str) -> None:
        """Ask for light or dark colours."""
        feature = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call(
            "goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params={"features": feature}
        )

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("screenshot", "GET")))

    def log(self) -> list[dict]:
        return self.call("se/log", type="browser")


def ask(window: Browser, script: str, **values: Any) -> Any:
    """Run a script that sees some values, and return what it returns."""
    given = "".join(f"const {name} = {json.dumps(value)};" for name, value in values.items())
    return window.run(given + script)


def request(path: str, method: str, body: dict | None = None) -> Any:
    data = json.dumps(body).encode() if method == "POST" else None
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, headers, method=method)
    with urllib.request.urlopen(asked, timeout=180) as answer:
        return json.loads(answer.read())["value"]


@contextlib.contextmanager
def browser(options: Sequence[str] = OPTIONS) -> Iterator[Browser]:
    """Start a driver and a browser with an empty profile; end both."""
    profile = tempfile.mkdtemp(prefix="browser")
    driver = subprocess.Popen(["chromedriver", f"--port={PORT}"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(120):
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                if request("/status", "GET")["ready"]:
                    break
            time.sleep(0.5)
        wanted = {
            "goog:chromeOptions": {"args": [*options, f"--user-data-dir={profile}"]},
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
        shutil.rmtree(profile, ignore_errors=True)
