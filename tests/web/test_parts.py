"""The parts of the page: checked by hash, kept, fetched again after a fault, and told by hand."""

import http.server
import io
import tarfile
import threading

import pytest

from zsrl_jax.errors import DataError
from zsrl_jax.web import parts

PACKAGE = parts.Part("@some/thing", "1.0.0", "", ("a.js",), "MIT")


def tarball(text=b"let a = 1"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("package/a.js")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return buffer.getvalue()


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry on this machine that fails as often as it is told."""
    state = {"data": tarball(), "faults": 0, "asked": []}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            state["asked"].append(self.path)
            if state["faults"]:
                state["faults"] -= 1
                self.send_error(503)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(state["data"])

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(parts, "PAUSE", 0.01)
        yield state
        server.shutdown()


def wanted(data):
    return PACKAGE._replace(sha512=parts._digest(data))


def test_fetched_once_checked_and_kept(registry):
    part = wanted(registry["data"])
    assert parts.read(part) == {"a.js": b"let a = 1"}
    assert parts.read(part) == {"a.js": b"let a = 1"}
    assert registry["asked"] == ["/@some/thing/-/thing-1.0.0.tgz"]


def test_tried_again_after_faults(registry):
    registry["faults"] = 2
    assert parts.read(wanted(registry["data"])) == {"a.js": b"let a = 1"}
    assert len(registry["asked"]) == 3


def test_another_content_is_refused_and_not_kept(registry):
    part = wanted(tarball(b"let a = 2"))
    with pytest.raises(DataError, match="sha512 .* expected .* put the file 'thing-1.0.0.tgz'"):
        parts.read(part)
    assert not (parts.cache_folder() / part.tarball).exists()


def test_a_damaged_file_of_the_cache_is_fetched_again(registry):
    part = wanted(registry["data"])
    parts.read(part)
    (parts.cache_folder() / part.tarball).write_bytes(b"half")
    assert parts.read(part) == {"a.js": b"let a = 1"}


def test_without_a_network_one_line_says_what_to_put_where(registry, monkeypatch):
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1/")
    with pytest.raises(DataError, match="cannot be reached.*'npm pack @some/thing@1.0.0'") as error:
        parts.read(wanted(registry["data"]))
    assert str(parts.cache_folder()) in str(error.value) and "\n" not in str(error.value)


def test_the_registry_is_that_of_npm(registry, tmp_path, monkeypatch):
    monkeypatch.delenv("npm_config_registry")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert parts.find_registry() is None
    with pytest.raises(DataError, match="no npm registry is known here: install npm"):
        parts.read(wanted(registry["data"]))
    (tmp_path / ".npmrc").write_text("fund=false\nregistry = https://mirror.example/npm/\n")
    assert parts.find_registry() == "https://mirror.example/npm/"
