"""The packed store: quick to open, true to its source, whole or not there at all."""

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import time
import tracemalloc
import types
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from helpers.small_data import Canary, write_counters

from zsrl_jax.data import journal, load_dataset, packing, reading, store
from zsrl_jax.data.formats.exorl import open_source
from zsrl_jax.data.loading import Subset
from zsrl_jax.errors import DamageError, DataError

NAMES = [f"episode_{i}_{3 + i}.npz" for i in range(6)]


@pytest.fixture
def folder(tmp_path):
    for i, name in enumerate(NAMES):
        write_counters(tmp_path / "data", [name], rows=4 + i)
    return tmp_path / "data"


def same(one, other):
    assert one.fingerprint() == other.fingerprint() and one.domain == other.domain
    for a, b in zip(one.episodes(), other.episodes(), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_the_store_holds_what_the_files_hold(folder):
    first = load_dataset(folder, progress=False)
    memory = reading.read_all(open_source(folder), progress=False)
    same(first, dataclasses.replace(memory, domain="cheetah"))
    assert (folder / ".zsrl_store" / "obs.npy").is_file()
    assert not isinstance(first.obs.base, type(None)) and not first.obs.flags.writeable
    np.testing.assert_array_equal(first.obs[0, 4:], 0)  # padding


def test_the_fingerprint_is_that_of_the_plain_arrays(folder):
    """Checkpoints know their data by it: it must not change with the way data is kept."""

    data, crc = load_dataset(folder, progress=False), 0
    for array in (data.obs, data.action, data.discount, data.length):
        crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
    assert data.fingerprint() == f"{crc:08x}"


def test_reopening_reads_no_source_file(folder, monkeypatch):
    one = load_dataset(folder, progress=False)
    monkeypatch.setattr("zsrl_jax.data.formats.npz.read", lambda *_: pytest.fail("read again"))
    same(load_dataset(folder, progress=False), one)
    same(load_dataset(folder / ".zsrl_store"), one)  # the store alone is a dataset too


@pytest.mark.parametrize("change", ["touched", "added", "removed"])
def test_a_changed_source_is_packed_anew(folder, change):
    load_dataset(folder, progress=False)
    if change == "touched":
        write_counters(folder, [NAMES[2]], rows=6)
        os.utime(folder / NAMES[2], ns=(0, 0))
    elif change == "added":
        write_counters(folder, ["episode_9_3.npz"], rows=4)
    else:
        (folder / NAMES[2]).unlink()
    expected = {"touched": 6, "added": 7, "removed": 5}[change]
    calls = []
    pack = packing.pack
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "pack", lambda *a, **k: (calls.append(1), pack(*a, **k)))
        assert load_dataset(folder, progress=False).num_episodes == expected
    assert calls == [1]


def test_subsets_are_by_count_by_step_and_by_seed(folder):
    starts = lambda **k: load_dataset(folder, progress=False, **k).obs[:, 0, 0].tolist()  # noqa: E731
    assert starts(max_episodes=2) == [0, 100]
    assert starts(every_nth=2) == [0, 200, 400]
    assert starts(every_nth=2, max_episodes=2) == [0, 200]
    drawn = starts(max_episodes=3, subset_seed=1)
    assert drawn == sorted(drawn) and len(set(drawn)) == 3
    assert drawn == starts(max_episodes=3, subset_seed=1)
    assert len({tuple(starts(max_episodes=3, subset_seed=s)) for s in range(6)}) > 1
    assert starts(max_episodes=99, subset_seed=1) == [0, 100, 200, 300, 400, 500]
    short = load_dataset(folder, max_episodes=2)
    assert short.obs.shape[1] == 5  # padded to its own longest, as if there were no others
    fresh = reading.read_all(open_source(folder), progress=False)
    assert short.fingerprint() == store.select(fresh, Subset(2).pick).fingerprint()
    for bad in ({"max_episodes": 0}, {"every_nth": 0}, {"on_bad": "skipp"}):
        with pytest.raises(DataError, match="expected at least 1|did you mean 'skip'"):
            load_dataset(folder, **bad)


def test_stopped_packing_goes_on_where_it_stopped(folder, monkeypatch):
    whole = reading.read_all(open_source(folder), progress=False)
    monkeypatch.setattr(journal, "SYNC_SECONDS", 0.0)
    note, read = journal.Files.note, []

    def stop(self, line):
        note(self, line)
        if len(self.done) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(journal.Files, "note", stop)
        load_dataset(folder, progress=False)
    assert not (folder / ".zsrl_store").exists()
    with (folder / ".zsrl_store.part" / "journal.jsonl").open("a") as file:
        file.write('{"sums": {"ob')  # cut off by a kill

    def spy(self, index):
        read.append(index)
        return original(self, index)

    original = reading.Reading.read
    monkeypatch.setattr(reading.Reading, "read", spy)
    data = load_dataset(folder, progress=False)
    assert set(read) == {0, 3, 4, 5}  # 0 for its widths
    same(data, dataclasses.replace(whole, domain="cheetah"))
    assert not list(folder.glob(".zsrl_store.*"))


def test_a_killed_packing_leaves_no_store(folder):
    code = (
        "import time, sys; from zsrl_jax.data import load_dataset, journal\n"
        "note = journal.Files.note\n"
        "def slow(self, line):\n"
        "    note(self, line); print(len(self.done), flush=True); time.sleep(60)\n"
        "journal.Files.note = slow\n"
        "load_dataset(sys.argv[1], progress=False)"
    )
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, cwd=root
    )
    assert child.stdout.readline()
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not (folder / ".zsrl_store").exists()
    assert load_dataset(folder, progress=False).num_episodes == 6


def test_those_who_pack_at_once_take_turns(folder):
    with ThreadPoolExecutor(3) as pool:  # the lock is of an open folder, so threads wait as well
        found = list(pool.map(_fingerprint, [folder] * 3))
    assert len(set(found)) == 1 and not list(folder.glob(".zsrl_store.*"))


def _fingerprint(folder):
    return load_dataset(folder, progress=False).fingerprint()


def test_packing_memory_does_not_grow_with_the_data(tmp_path):
    rows, peaks = 400, []
    for number in (40, 160):
        folder = tmp_path / str(number)
        for i in range(number):
            write_counters(folder, [f"episode_{i}_{rows - 1}.npz"], rows=rows)
        tracemalloc.start()
        load_dataset(folder, progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    size = 160 * rows * (17 * 4 + 6 * 4 + 8 + 18 * 8)
    assert peaks[1] < peaks[0] + size / 4, (peaks, size)


def test_damage_of_the_store_is_noticed(folder):
    data = load_dataset(folder, progress=False)
    file = folder / ".zsrl_store" / "action.npy"
    good = file.read_bytes()
    bad = bytearray(good)
    bad[-1] ^= 1  # the last value of the longest episode
    file.write_bytes(bytes(bad))
    with pytest.raises(DamageError, match=r"expected checksum \w{8}, found \w{8}: del") as error:
        load_dataset(folder).fingerprint()
    assert error.value.path == f"{file}#{NAMES[5]}" and error.value.key == "action"
    with pytest.raises(DamageError, match=NAMES[5]):  # a subset knows its episodes by name
        load_dataset(folder, max_episodes=4, subset_seed=2).verify()
    load_dataset(folder, max_episodes=5).verify()
    file.write_bytes(good[:-4])
    with pytest.raises(DamageError, match="key 'action': expected"):
        load_dataset(folder)
    file.write_bytes(good)
    assert load_dataset(folder).fingerprint() == data.fingerprint()
    manifest = folder / ".zsrl_store" / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace("episode_3_6", "episode_3_7"))
    with pytest.raises(DamageError, match="expected a whole manifest"):
        load_dataset(folder / ".zsrl_store")
    assert load_dataset(folder, progress=False).fingerprint() == data.fingerprint()  # packed anew


def test_a_pickle_planted_in_a_store_is_refused_and_never_run(folder):
    load_dataset(folder, progress=False)
    canary = folder.parent / "canary"
    file = folder / ".zsrl_store" / "obs.npy"
    file.write_bytes(pickle.dumps(Canary(canary)))
    with pytest.raises(DamageError, match="key 'obs': expected a whole array"):
        load_dataset(folder)
    with file.open("wb") as out:
        np.save(out, np.array([Canary(canary)], dtype=object), allow_pickle=True)
    with pytest.raises(DamageError, match="key 'obs': expected a whole array"):
        load_dataset(folder)
    assert not canary.exists()


def test_where_the_store_goes(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    access = os.access
    locked = lambda path, mode: path != folder and access(path, mode)  # noqa: E731
    monkeypatch.setattr(os, "access", locked)
    one = load_dataset(folder, progress=False)
    assert list((tmp_path / "cache" / "zsrl_jax" / "stores").glob("data_*/obs.npy"))
    same(load_dataset(folder, progress=False), one)
    assert not (folder / ".zsrl_store").exists()
    load_dataset(folder, store=tmp_path / "mine", progress=False)
    assert list((tmp_path / "mine").glob("data_*/obs.npy"))
    monkeypatch.setattr("shutil.disk_usage", lambda path: types.SimpleNamespace(free=10))
    with pytest.raises(DataError, match="GiB, 0.0 are free: name another folder"):
        load_dataset(folder, store=tmp_path / "full", progress=False)


def test_reopening_is_quick(folder):
    load_dataset(folder, progress=False)
    start = time.monotonic()
    load_dataset(folder)
    assert time.monotonic() - start < 1
