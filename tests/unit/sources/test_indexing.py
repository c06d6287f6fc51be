"""Indexes that are kept: damaged ones, those of others, and folders that nothing can be written to."""

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np
import pytest

import grain
from grain.files.paths import File
from grain.sources import indexing
from grain.sources.indexing import kept_index

COUNT = 3000
OFFSETS = np.arange(COUNT) * 8


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"content")
    return File(path)


def flipped(kept, bit):
    changed = bytearray(kept)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


DAMAGES = {
    "empty": lambda kept: b"",
    "cut within a number": lambda kept: kept[:-3],
    "cut between numbers": lambda kept: kept[:-8],
    "cut within the header": lambda kept: kept[:12],
    "longer": lambda kept: kept + bytes(8),
    "zeros": lambda kept: bytes(len(kept)),
    "a page of zeros": lambda kept: kept[:4096] + bytes(4096) + kept[8192:],
    "the last page is zeros": lambda kept: kept[:-4096] + bytes(4096),
    "swapped": lambda kept: kept[:8000] + kept[8008:8016] + kept[8000:8008] + kept[8016:],
    "text": lambda kept: b"?" * len(kept),
    **{f"bit {bit}": lambda kept, bit=bit: flipped(kept, bit) for bit in (0, 63, 64, 130, 190, 200, 9999, 190_000)},
}


@pytest.mark.parametrize("width", [None, 2])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_and_the_index_made_again(cache, file, damage, width):
    found = OFFSETS if width is None else OFFSETS.reshape(-1, width)
    kept_index(file, "kind", lambda: found)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(DAMAGES[damage](whole))
    for find in (lambda: found, None):  # the second time it is there
        again = kept_index(file, "kind", find)
        assert isinstance(again, np.memmap)
        assert np.array_equal(again, found)
        assert kept.read_bytes() == whole


def test_every_single_bit(cache, file):
    kept_index(file, "kind", lambda: OFFSETS[:10])
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    for bit in range(8 * len(whole)):
        kept.write_bytes(flipped(whole, bit))
        assert indexing._opened(kept, file) is None


def test_another_layout_and_another_version_of_the_file(cache, file, monkeypatch):
    kept_index(file, "kind", lambda: OFFSETS)
    with monkeypatch.context() as context:
        context.setattr(indexing, "_LAYOUT", 99)
        assert kept_index(file, "kind", lambda: [7]).tolist() == [7]
    assert kept_index(file, "kind", lambda: [8]).tolist() == [8]
    os.utime(file.path, (1, 1))
    assert kept_index(File(file.path), "kind", lambda: [9]).tolist() == [9]


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_indexed_again(cache, tmp_path):
    path, other = tmp_path / "lines.jsonl", tmp_path / "other"
    path.write_bytes(b'"aaa"\n"b"\n')
    other.write_bytes(b'"c"\n"ddd"\n')
    for each in (path, other):
        os.utime(each, (1_000_000_000, 1_000_000_000))
    assert grain.JsonLinesDataSource(path).__getitems__([0, 1]) == ["aaa", "b"]
    os.replace(other, path)
    assert grain.JsonLinesDataSource(path).__getitems__([0, 1]) == ["c", "ddd"]


SCRIPT = """
import mmap, os, resource, signal, sys, warnings
import numpy as np
from grain.files.paths import File
from grain.sources.indexing import kept_index
path, present = sys.argv[1:]
def index(find):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return kept_index(File(path), "kind", find).tolist(), "".join(str(each.message) for each in told)
"""


def run(script):
    """Run a program as somebody who is not allowed everything, with a folder that all may use."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        path = Path(folder, "data")
        path.write_bytes(b"content")
        cache = Path(folder, "cache")
        cache.mkdir()
        cache.chmod(0o777)
        text = SCRIPT + "if os.geteuid() == 0: os.seteuid(65534)\n" + textwrap.dedent(script)
        environment = {**os.environ, "GRAIN_CACHE": str(cache)}
        done = subprocess.run(
            [sys.executable, "-c", text, path, cache], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return os.listdir(cache)


def test_an_index_that_may_not_be_read_is_made_again():
    kept = run("""
        assert index(lambda: [4]) == ([4], "")
        (kept,) = os.listdir(present)
        os.chmod(os.path.join(present, kept), 0)
        assert index(lambda: [5]) == ([5], "")
        assert index(None) == ([5], "")
    """)
    assert len(kept) == 1


@pytest.mark.parametrize(
    "trouble",
    {
        "read-only": "os.chmod(present, 0o555)",
        "not to be entered": "os.chmod(present, 0)",
        # Files cannot grow beyond a limit: what a full disk does, without one.
        "full": "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))",
    }.values(),
)
def test_where_nothing_can_be_written_the_index_is_in_memory(trouble):
    kept = run(f"""
        os.seteuid(0) if os.getuid() == 0 else None
        {trouble}
        os.seteuid(65534) if os.getuid() == 0 else None
        for _ in range(2):
            found, told = index(lambda: np.arange(10_000))
            assert found == list(range(10_000))
            assert "cannot be kept" in told and "GRAIN_CACHE" in told, told
        os.seteuid(0) if os.getuid() == 0 else None
        os.chmod(present, 0o777)
    """)
    assert kept == []


def test_an_index_is_checked_once_in_a_process(cache, file, monkeypatch):
    kept_index(file, "kind", lambda: OFFSETS)
    calls, extend = [], indexing.crc32c
    monkeypatch.setattr(indexing, "_sound", {})
    monkeypatch.setattr(indexing, "crc32c", lambda *args: calls.append(1) or extend(*args))
    for _ in range(3):
        kept_index(file, "kind", None)
    assert len(calls) == 1
