"""Bytes of files by their places, plain and packed."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grain.sources import byte_streams as module
from grain.sources.byte_streams import Reading
from support.record_files import written

CONTENT = bytes(range(256)) * 40 + b"needle" + bytes(3000)


@pytest.fixture(scope="module", params=["plain", "packed", "packed in parts"])
def path(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("reading") / "file"
    if request.param == "packed in parts":
        content = gzip.compress(CONTENT[:5000]) + gzip.compress(CONTENT[5000:]) + bytes(512)
    else:
        content = gzip.compress(CONTENT) if request.param == "packed" else CONTENT
    return str(written(path, content))


@pytest.fixture(scope="module", autouse=True)
def _small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", 100)
        patch.setattr(module, "_PACKED_PIECE", 100)
        yield


PLACES = st.integers(0, len(CONTENT) + 10)


@given(st.lists(st.tuples(PLACES, st.integers(0, 500)), max_size=6))
def test_pieces_in_any_order(path, wanted):
    with Reading.of(path) as reading:
        for start, length in wanted:
            assert reading.piece(start, start + length) == CONTENT[start : start + length]


@given(st.lists(PLACES, max_size=6))
def test_finding(path, starts):
    with Reading.of(path) as reading:
        for start in starts:
            assert reading.find(b"needle", start) == CONTENT.find(b"needle", start)


@given(st.tuples(PLACES, PLACES, PLACES))
def test_what_is_to_be_kept_is_not_read_again(path, places):
    keep, start, stop = sorted(places)
    with Reading.of(path) as reading:
        reading.piece(start, stop, keep=keep)
        reading._file.seek = None
        assert reading.piece(keep, stop) == CONTENT[keep:stop]


@pytest.mark.parametrize("cut", [1, 8, 12, 60])
def test_all_that_comes_before_the_end_of_a_truncated_file_is_read(tmp_path, cut):
    packed = gzip.compress(CONTENT)
    held = zlib.decompressobj(31).decompress(packed[:-cut])
    with Reading.of(str(written(tmp_path / "file", packed[:-cut]))) as reading:
        assert reading.damage is None
        assert reading.piece(0, len(CONTENT) + 1) == held
        assert reading.damage == (len(held), "the file ends too early")


def test_all_that_comes_before_damage_is_read(tmp_path):
    first, second = gzip.compress(CONTENT[:5000]), gzip.compress(CONTENT[5000:])
    with Reading.of(str(written(tmp_path / "file", first + b"\xff" * 50 + second))) as reading:
        assert reading.piece(0, len(CONTENT)) == CONTENT[:5000]
        assert reading.damage[0] == 5000
