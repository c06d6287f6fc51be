"""TFRecord files, by index and as streams."""

import io
import json
import pickle
import struct
from pathlib import Path

import pytest

import grain
from grain import MultiprocessingOptions, TFRecordDataSource, TFRecordIterDataset
from grain.api.tfrecord_iterator import _TFRecordDatasetIterator, _TFRecordReader
from grain.sources import tfrecord as tfrecord_module
from grain.sources.byte_streams import Reading
from support.record_files import elements_and_errors, masked, tfrecord, written

RECORDS = [bytes([number]) * (number * 7 % 50) for number in range(20)]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "records.tfrecord", tfrecord(RECORDS))


def test_a_record_as_it_is_known_to_be_written():
    assert tfrecord([b""]).hex() == "0000000000000000" + "29039807" + "d8ea82a2"


def test_records_by_index(path):
    source = TFRecordDataSource(path)
    assert (len(source), source[3], source[-1]) == (20, RECORDS[3], RECORDS[-1])
    assert source.__getitems__([5, 0, 19, 5]) == [RECORDS[5], RECORDS[0], RECORDS[19], RECORDS[5]]
    assert list(grain.MapDataset.source(source)) == RECORDS
    assert repr(source) == f"TFRecordDataSource({str(path)!r})"
    for index in (20, -21):
        for read in (source.__getitem__, lambda index: source.__getitems__([0, index])):
            with pytest.raises(IndexError, match=f"Index {index} out of range for 20 records"):
                read(index)


def test_several_files_and_one_without_records(tmp_path):
    for number in range(3):
        written(
            tmp_path / f"{number}.tfrecord", tfrecord([b"%d%d" % (number, i) for i in range(2 * (number % 2 == 0))])
        )
    source = TFRecordDataSource(tmp_path / "*.tfrecord")
    assert source.__getitems__(range(4)) == [source[index] for index in range(-4, 0)] == [b"00", b"01", b"20", b"21"]
    assert list(TFRecordIterDataset(str(tmp_path / "*.tfrecord"))) == [b"00", b"20", b"01", b"21"]
    assert repr(source) == repr(TFRecordDataSource([tmp_path / f"{number}.tfrecord" for number in range(3)]))
    assert repr(source) != repr(TFRecordDataSource([tmp_path / "0.tfrecord", tmp_path / "2.tfrecord"]))


def test_a_pickled_source_is_small_and_reads_the_same(tmp_path):
    path = written(tmp_path / "many.tfrecord", tfrecord([b"x"] * 50_000))
    pickled = pickle.dumps(TFRecordDataSource(path))
    assert len(pickled) < 2_000
    assert pickle.loads(pickled)[49_999] == b"x"


@pytest.mark.parametrize("name", ["records.tfrecord", "records.tfrecord.gz"])
def test_a_stream_resumes_at_every_record(tmp_path, name):
    dataset = TFRecordIterDataset(written(tmp_path / name, tfrecord(RECORDS)))
    iterator, offset = iter(dataset), 0
    for position, record in enumerate(RECORDS):
        assert iterator.get_state() == {"reader_offset": offset}
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert list(resumed) == RECORDS[position:]
        assert next(iterator) == record
        offset += len(record) + 16


def test_a_length_that_looks_like_gzip_is_none(tmp_path):
    record = bytes(0x00088B1F)
    path = written(tmp_path / "large.tfrecord", tfrecord([record]))
    assert path.read_bytes().startswith(b"\x1f\x8b\x08")
    assert list(TFRecordIterDataset(path)) == [record]


def test_a_compressed_file_has_no_random_access(tmp_path):
    path = written(tmp_path / "records.gz", tfrecord(RECORDS))
    with pytest.raises(ValueError, match=r"records\.gz' is compressed.*stream with TFRecordIterDataset"):
        TFRecordDataSource(path)


def test_workers_share_the_records(path):
    options = MultiprocessingOptions(num_workers=2)
    assert list(TFRecordIterDataset(path).mp_prefetch(options)) == RECORDS
    dataset = grain.MapDataset.source(TFRecordDataSource(path)).to_iter_dataset()
    assert list(dataset.mp_prefetch(options)) == RECORDS


# ---------------------------------------------------------------- damage

FOUR = [b"first", b"second" * 20, b"third", b"fourth"]
CONTENT = tfrecord(FOUR)
STARTS = [0, 21, 21 + 136, 21 + 136 + 21]


def both(path):
    return elements_and_errors(TFRecordIterDataset(path)), elements_and_errors(
        grain.MapDataset.source(TFRecordDataSource(path)).to_iter_dataset()
    )


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (STARTS[1] + 30, "120 bytes of the record at byte 21 of .* wrong checksum"),
        (STARTS[1] + 135, "120 bytes of the record at byte 21 of .* wrong checksum"),
        (STARTS[1], "The length has a wrong checksum: .* at byte 21 of .* The 136 bytes up to the next record"),
        (STARTS[1] + 6, "The length has a wrong checksum"),
        (STARTS[1] + 9, "The length has a wrong checksum"),
    ],
)
def test_a_damaged_record_is_an_error_and_the_others_are_read(tmp_path, place, message):
    damaged = bytearray(CONTENT)
    damaged[place] ^= 0x41
    for found in both(written(tmp_path / "damaged.tfrecord", bytes(damaged))):
        assert found[:1] + found[2:] == [b"first", b"third", b"fourth"]
        with pytest.raises(ValueError, match=message):
            raise ValueError(found[1])


@pytest.mark.parametrize("cut", range(STARTS[3] + 1, len(CONTENT)))
def test_a_truncated_file_gives_all_whole_records(tmp_path, cut):
    expected = cut - STARTS[3]
    text = "Fewer than 12 bytes" if expected < 12 else "Fewer than 10 bytes"
    for found in both(written(tmp_path / "truncated.tfrecord", CONTENT[:cut])):
        assert found[:3] == [b"first", b"second" * 20, b"third"]
        assert len(found) == 4
        assert found[3].startswith(f"Not a valid TFRecord. {text}: b'")
        assert f"truncated.tfrecord' ends within the record at byte {STARTS[3]}" in found[3]


def test_a_truncated_compressed_file_gives_all_whole_records(tmp_path):
    path = written(tmp_path / "records.gz", CONTENT)
    path.write_bytes(path.read_bytes()[:-9])
    found = elements_and_errors(TFRecordIterDataset(path))
    assert found[:3] == [b"first", b"second" * 20, b"third"]
    assert "damaged after byte" in found[-1]
    assert "ends too early" in found[-1]


@pytest.mark.parametrize("cut", range(1, 40))
def test_where_a_compressed_file_ends_there_is_one_error(tmp_path, cut):
    path = written(tmp_path / "records.gz", CONTENT)
    path.write_bytes(path.read_bytes()[:-cut])
    *records, error = elements_and_errors(TFRecordIterDataset(path))
    assert records == FOUR[: len(records)]
    assert "damaged after byte" in error


def test_many_damaged_records_are_passed_over_without_reading_all_that_follows(tmp_path, monkeypatch):
    damaged, fetched = bytearray(tfrecord([b"x" * 100] * 2000)), []
    for start in range(0, len(damaged), 2 * 116):
        damaged[start] ^= 1
    piece = Reading.piece

    def counted(self, start, stop, keep=None):
        fetched.append(len(data := piece(self, start, stop, keep)))
        return data

    monkeypatch.setattr(Reading, "piece", counted)
    found = elements_and_errors(TFRecordIterDataset(written(tmp_path / "damaged.tfrecord", bytes(damaged))))
    assert found[1::2] == [b"x" * 100] * 1000
    assert sum(fetched) < 30 * len(damaged)


def test_a_record_after_many_zeros_is_found_without_trying_each(tmp_path, monkeypatch):
    tried, length = [], tfrecord_module._length
    monkeypatch.setattr(tfrecord_module, "_length", lambda header: tried.append(1) or length(header))
    path = written(tmp_path / "zeros.tfrecord", CONTENT + bytes(100_000) + CONTENT)
    found = elements_and_errors(TFRecordIterDataset(path))
    assert found[:4] + found[5:] == FOUR * 2
    assert len(tried) < 200


def test_an_error_of_a_source_tells_the_record(tmp_path):
    damaged = bytearray(CONTENT)
    damaged[40] ^= 1
    source = TFRecordDataSource(written(tmp_path / "damaged.tfrecord", bytes(damaged)))
    with pytest.raises(ValueError, match="wrong checksum") as caught:
        source.__getitems__([0, 1])
    assert caught.value.__notes__ == [f"Raised by reading record 1 of {source!r}."]


@pytest.mark.parametrize("content", [b"what is this?" * 100, b"short", bytes(1000)])
def test_a_file_of_another_format(tmp_path, content):
    path = written(tmp_path / "other.txt", content)
    with pytest.raises(ValueError, match=r"Not a valid TFRecord.*other\.txt"):
        TFRecordDataSource(path)
    assert len(elements_and_errors(TFRecordIterDataset(path))) == 1


def test_an_empty_file_has_no_records(tmp_path):
    path = written(tmp_path / "empty.tfrecord", b"")
    assert (len(TFRecordDataSource(path)), list(TFRecordIterDataset(path))) == (0, [])


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        next(iter(TFRecordIterDataset(tmp_path / "nowhere")))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        TFRecordDataSource(tmp_path / "nowhere")


def test_a_length_that_is_sound_but_far_too_large(tmp_path):
    length = struct.pack("<Q", 1 << 40)
    path = written(tmp_path / "huge.tfrecord", tfrecord([b"a"]) + length + masked(length) + b"little")
    for found in both(path):
        assert found[0] == b"a"
        assert found[1].startswith("Not a valid TFRecord. Fewer than 1099511627780 bytes: b'6c6974746c65'")
        assert len(found) == 2


@pytest.mark.parametrize("length", [1 << 40, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("after", [b"", b"little", tfrecord([b"b", b"c"])])
def test_a_length_beyond_the_file_names_file_and_record_and_hides_no_others(tmp_path, length, after):
    header = struct.pack("<Q", length)
    path = written(tmp_path / "huge.tfrecord", tfrecord([b"a"]) + header + masked(header) + after)
    for first, error, *others in both(path):
        assert (first, others) == (b"a", [b"b", b"c"] if after.startswith(b"\1") else [])
        assert error.startswith(f"Not a valid TFRecord. Fewer than {length + 4} bytes: b'")
        assert f"'{path}' ends within the record at byte 17, or the length of that is damaged." in error


HEADERS = [CONTENT[start : start + 12] for start in STARTS]


@pytest.mark.parametrize("name", ["moved.tfrecord", "moved.tfrecord.gz"])
@pytest.mark.parametrize("target", range(4))
@pytest.mark.parametrize("origin", range(4))
def test_a_sound_header_in_the_place_of_another_hides_no_other_record(tmp_path, origin, target, name):
    moved = bytearray(CONTENT)
    moved[STARTS[target] : STARTS[target] + 12] = HEADERS[origin]
    path = written(tmp_path / name, bytes(moved))
    others = [record for number, record in enumerate(FOUR) if number != target or HEADERS[origin] == HEADERS[target]]
    for found in [elements_and_errors(TFRecordIterDataset(path))] if name.endswith("gz") else both(path):
        assert [element for element in found if isinstance(element, bytes)] == others
        errors = [element for element in found if isinstance(element, str)]
        assert bool(errors) == (others != FOUR)
        assert all(f"'{path}'" in error and " at byte " in error for error in errors)


@pytest.mark.parametrize("place", range(STARTS[1], STARTS[2] - 12))
def test_a_sound_header_within_a_record_hides_no_other_record(tmp_path, place):
    moved = bytearray(CONTENT)
    moved[place : place + 12] = HEADERS[1]
    for found in both(written(tmp_path / "moved.tfrecord", bytes(moved))):
        records = [element for element in found if isinstance(element, bytes)]
        assert records == (FOUR if place == STARTS[1] else [FOUR[0], *FOUR[2:]])


def test_a_stream_resumes_after_a_header_that_was_moved(tmp_path):
    moved = bytearray(CONTENT)
    moved[:12] = HEADERS[1]
    iterator = iter(TFRecordIterDataset(written(tmp_path / "moved.tfrecord", bytes(moved))))
    with pytest.raises(ValueError, match="Fewer than 124 bytes"):
        next(iterator)
    resumed = iter(TFRecordIterDataset(tmp_path / "moved.tfrecord"))
    resumed.set_state(iterator.get_state())
    assert list(resumed) == list(iterator) == FOUR[1:]


# ---------------------------------------------------------------- classes of users


class Reader(_TFRecordReader):
    """Opens files in its own way, as a program in use does."""

    def __init__(self, path):
        self._reader = io.BytesIO(Path(path).read_bytes())


class OwnIterator(_TFRecordDatasetIterator):
    def __init__(self, path):
        grain.DatasetIterator.__init__(self)
        self._reader = Reader(path)


class OwnDataset(TFRecordIterDataset):
    def __iter__(self):
        return OwnIterator(self._path)


@pytest.mark.parametrize("iterator_of", [OwnIterator, _TFRecordDatasetIterator, lambda path: iter(OwnDataset(path))])
def test_an_iterator_of_a_users_own(path, iterator_of):
    iterator, expected = iterator_of(str(path)), iter(TFRecordIterDataset(path))
    for position, record in enumerate(RECORDS):
        assert iterator.get_state() == expected.get_state()
        resumed = iterator_of(str(path))
        resumed.set_state(iterator.get_state())
        assert list(resumed) == RECORDS[position:]
        assert next(iterator) == next(expected) == record
    assert list(iterator) == []


def test_a_pipeline_on_a_users_own_dataset(path):
    dataset = OwnDataset(str(path)).map(len)
    assert list(dataset) == [len(record) for record in RECORDS]
    assert list(dataset.mp_prefetch(MultiprocessingOptions(num_workers=1))) == [len(record) for record in RECORDS]
    assert OwnDataset("gs://bucket/opened-elsewhere")._path == "gs://bucket/opened-elsewhere"


def test_damage_in_an_iterator_of_a_users_own(tmp_path):
    damaged = bytearray(CONTENT)
    damaged[STARTS[1]] ^= 1
    found = elements_and_errors(OwnIterator(written(tmp_path / "damaged.tfrecord", bytes(damaged))))
    assert found[:1] + found[2:] == [b"first", b"third", b"fourth"]
