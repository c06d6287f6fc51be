"""Arrow files with offsets, lengths and indices that lead nowhere: an error that names the file, never other memory.

And, in Parquet files too, with values that their types do not have.
"""

import io
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest

from grain import ArrowDataSource
from grain.sources import ParquetDataSource
from support.arrow_arrays import ARRAYS, write_arrow
from support.parquet_files import write_parquet

WORDS = ["zero", "one", "two", "three", "four", "five"]


def numbers(*values, dtype=np.int32):
    return np.array(values, dtype).tobytes()


def write_damaged(path, array, old, new, compression=None):
    """Write an array to a file, in which the only place that has the bytes `old` has `new` instead."""
    file = io.BytesIO()
    with pa.ipc.new_file(file, pa.schema({"x": array.type})) as writer:
        writer.write_batch(pa.record_batch({"x": array}))
    content = file.getvalue()
    assert content.count(old) == 1
    content = content.replace(old, new)
    if compression is None:
        Path(path).write_bytes(content)
    else:
        write_arrow(path, pa.ipc.open_file(content).read_all().to_batches()[0], compression=compression, rows=100)


def outcomes(source):
    """What each row gives by itself and in a batch with another one: its value, or the message of the error."""

    def attempt(read):
        try:
            return read()["x"]
        except ValueError as error:
            return str(error)

    keys = range(len(source))
    alone = [attempt(lambda key=key: source[key]) for key in keys]
    return alone, [attempt(lambda key=key: source.__getitems__([key, key])[1]) for key in keys]


@pytest.mark.parametrize(("wrong", "lost"), [(2**31 - 1, {2, 3}), (24, {2, 3}), (-1, {2, 3}), (6, {2}), (16, {3})])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()], ids=str)
def test_only_rows_with_damaged_offsets_are_lost(kind, wrong, lost, tmp_path):
    path, words = str(tmp_path / "a.arrow"), pa.array(WORDS).cast(kind)
    dtype = np.int64 if kind == pa.large_string() else np.int32
    sound, damaged = (numbers(0, 4, 7, third, 15, 19, 23, dtype=dtype) for third in (10, wrong))
    write_damaged(path, words, sound, damaged)
    for found in outcomes(ArrowDataSource(path)):
        for key in lost:
            assert f"Column 'x' of record batch 0 of {path!r} cannot be read: row {key} of it reaches" in found[key]
        others = [0, 1, 4, 5]  # the neighbour of one that is lost may be longer or shorter: there is no checksum
        assert [found[key] for key in others] == words.take(others).to_pylist()
    with pytest.raises(ValueError, match=rf"a.arrow' cannot be read: row {min(lost)} of it reaches"):
        ArrowDataSource(path).batch(np.arange(6))


_MAP = pa.map_(pa.string(), pa.int8())
_UNION = (pa.array([0, 1, 0], pa.int8()), pa.array([0, 3, 1], pa.int32()), [pa.array([1, 2]), pa.array(range(4))])
DAMAGED = {
    "strings with nulls": (pa.array([*WORDS, None]), (0, 4, 7, 10, 15, 19, 23, 23), 3),
    "lists": (pa.array([[1], [2, 3], [], [4, 5, 6]]), (0, 1, 3, 3, 6), 2),
    "strings in lists": (pa.array([["a"], ["bcd", "e"]]), (0, 1, 4, 5), 1),
    "strings in structs": (pa.array([{"a": "bcd"}, {"a": "efg"}, {"a": "h"}]), (0, 3, 6, 7), 1),
    "maps": (pa.array([[("k", 7)], [("lmn", 8), ("m", 9)]], _MAP), (0, 1, 3), 1),
    "dictionary": (pa.array(["a", "b", "c", "b", "a"]).dictionary_encode(), (0, 1, 2, 1, 0), 2),
    "numbers by dictionary": (pa.array([9, 8, 7, 8, 9]).dictionary_encode(), (0, 1, 2, 1, 0), 2),
    "values of a dictionary": (pa.array(["ab", "cde", "ab"]).dictionary_encode(), (0, 2, 5), 1),
    "runs": (pa.RunEndEncodedArray.from_arrays(pa.array([3, 4, 9], pa.int32()), pa.array([*"abc"])), (3, 4, 9), 1),
    "list views": (pa.array([[1], [2, 3], [4]], pa.list_view(pa.int8())), (0, 1, 3), 1),
    "sizes of list views": (pa.array([[1], [2, 3, 4], []], pa.list_view(pa.int8())), (1, 3, 0), 1),
    "union": (pa.UnionArray.from_dense(*_UNION), (0, 3, 1), 1),
}


# What is compressed was read and written again: of runs that pyarrow makes others.
CASES = [(name, how) for name in DAMAGED for how in (None, "lz4") if (name, how) != ("runs", "lz4")]


@pytest.mark.parametrize("wrong", [2**31 - 1, 10**6, -1], ids=str)
@pytest.mark.parametrize(("name", "compression"), CASES)
def test_what_leads_out_of_a_buffer_is_an_error(name, compression, wrong, tmp_path):
    array, sound, place = DAMAGED[name]
    path, damaged = tmp_path / "a.arrow", [*sound[:place], wrong, *sound[place + 1 :]]
    write_damaged(path, array, numbers(*sound), numbers(*damaged), compression)
    for read in (lambda source: source[place], lambda source: source.__getitems__([place, 0])):
        with pytest.raises(ValueError, match=r"ecord batch 0 of '.*a.arrow' cannot be read: "):
            read(ArrowDataSource(path))


def test_record_batches_that_are_sound_are_read(tmp_path):
    path, lists = tmp_path / "a.arrow", [[1], [2], [3, 4], [5], [], [6], [7]]
    write_arrow(path, {"x": pa.array(lists)}, rows=3)
    content, sound = path.read_bytes(), numbers(0, 1, 1, 2)
    assert content.count(sound) == 1
    path.write_bytes(content.replace(sound, numbers(0, 9, 1, 2)))
    for found in outcomes(ArrowDataSource(path)):
        assert [found[key].tolist() for key in (0, 1, 2, 6)] == [[1], [2], [3, 4], [7]]
        assert all("Column 'x' of record batch 1 of" in found[key] for key in (3, 4, 5))


def test_views_that_lead_out_of_their_buffers(tmp_path):
    array = pa.array(["short", "a string that is not short", "another that is long"], pa.string_view())
    view = numbers(26) + b"a st" + numbers(0, 0)
    for number, damaged in enumerate([(10**6, 0, 0), (26, 1, 0), (26, -1, 0), (26, 0, 40), (26, 0, -1), (-1, 0, 0)]):
        path = tmp_path / f"{number}.arrow"
        write_damaged(path, array, view, numbers(damaged[0]) + b"a st" + numbers(*damaged[1:]))
        source = ArrowDataSource(path)
        with pytest.raises(ValueError, match=rf"record batch 0 of '.*{number}.arrow' cannot be read"):
            source[1]


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_text_that_is_not_utf8_names_its_row(compression, tmp_path):
    path = tmp_path / "a.arrow"
    write_damaged(path, pa.array(WORDS), b"three", b"thr\xffe", compression)
    source = ArrowDataSource(path)
    for read in (lambda: source[3], lambda: source.__getitems__([0, 3]), lambda: source.batch(np.array([0, 3]))):
        with pytest.raises(ValueError, match=r"Column 'x' of row 3 of .*a.arrow' cannot be read: .*utf-8"):
            read()
    assert [row["x"] for row in source.__getitems__([2, 4])] == ["two", "four"]


IS_NULL = np.array([number % 5 == 0 or number % 7 == 3 for number in range(64)])
_ITEMS = pa.array([None if is_null else number for number, is_null in enumerate(IS_NULL)], pa.int32())
WITH_NULLS = {
    "numbers": _ITEMS,
    "booleans": pa.array([None if item is None else item % 3 == 0 for item in _ITEMS.to_pylist()]),
    "strings": _ITEMS.cast(pa.string()),
    "lists": pa.array([None if item is None else [item] for item in _ITEMS.to_pylist()]),
    "numbers in structs": pa.StructArray.from_arrays([_ITEMS], ["y"]),
    "numbers in lists of one size": pa.FixedSizeListArray.from_arrays(_ITEMS, 2),
    "dictionary": _ITEMS.cast(pa.string()).dictionary_encode(),
}


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("name", WITH_NULLS)
def test_nulls_that_are_not_as_many_as_the_file_says(name, compression, tmp_path):
    path, bits = tmp_path / "a.arrow", np.packbits(~IS_NULL, bitorder="little")
    changed = bits ^ np.array([0, 0, 1, 0, 0, 0, 0, 0], np.uint8)
    write_damaged(path, WITH_NULLS[name], bits.tobytes(), changed.tobytes(), compression)
    with pytest.raises(ValueError, match=r"ecord batch 0 of '.*a.arrow' cannot be read: .*nulls"):
        ArrowDataSource(path)[0]


_DIGITS = pa.array([Decimal("1.5"), Decimal("1234.5"), None], pa.decimal128(5, 1)).buffers()
_TIMES = pa.array([5, 90_000_000_000, None], pa.int64()).view(pa.time64("us"))
WRONG_VALUES = {
    "decimals": (pa.Array.from_buffers(pa.decimal128(3, 1), 3, _DIGITS), "12345 does not fit in precision"),
    "times": (_TIMES, "90000000000 is not within the acceptable range"),
    "negative times": (pa.array([5, -1, None], pa.int64()).view(pa.time64("us")), "-1 is not within"),
    "times in lists": (pa.ListArray.from_arrays([0, 1, 2, 3], _TIMES), "90000000000 is not within"),
    "times in structs": (pa.StructArray.from_arrays([_TIMES], ["y"]), "90000000000 is not within"),
}


@pytest.mark.parametrize("format", ["arrow", "parquet"])
@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_value_that_its_type_does_not_have_names_its_row(name, format, tmp_path):
    """Python would make another one of it: 25 hours are one o'clock."""
    array, why = WRONG_VALUES[name]
    if format == "arrow":
        write_arrow(tmp_path / "a.arrow", {"x": array})
        source = ArrowDataSource(tmp_path / "a.arrow")
    else:
        source = ParquetDataSource(write_parquet(tmp_path, "a.parquet", {"x": array}))
    keys = np.array([0, 1])
    for read in (lambda: source[1], lambda: source.__getitems__([0, 1]), lambda: source.batch(keys)):
        with pytest.raises(ValueError, match=rf"Column 'x' of row 1 of .*a.{format}' cannot be read: .*{why}"):
            read()
    for key, row in zip((0, 2), source.__getitems__([0, 2]), strict=True):
        assert repr(row) == repr(source[key])


def test_a_struct_with_two_fields_of_the_same_name(tmp_path):
    """One of them would be lost."""
    x = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array(["a", "b"])], ["y", "y"])
    write_arrow(tmp_path / "a.arrow", {"x": x})
    path = write_parquet(tmp_path, "a.parquet", {"x": x})
    for source in (ArrowDataSource(tmp_path / "a.arrow"), ParquetDataSource(path)):
        for read in (lambda source=source: source[1], lambda source=source: source.batch(np.array([1, 0]))):
            with pytest.raises(ValueError, match=r"Column 'x' of row 1 of .*a.* cannot be read: .*several fields 'y'"):
                read()


SCRIPT = r"""
import sys
from grain import ArrowDataSource

content, path = open(sys.argv[1], "rb").read(), sys.argv[2]
wrong = [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x40\x42\x0f\x00"]
for place in range(int(sys.argv[3]) * 4, len(content), 28):
    open(path, "wb").write(content[:place] + wrong[place // 28 % 3] + content[place + 4 :])
    try:
        source = ArrowDataSource(path)
    except ValueError as error:
        assert path in str(error), error
        continue
    for read in [lambda: source.__getitems__(range(min(len(source), 20))), lambda: source[len(source) - 1]]:
        try:
            read()
        except (ValueError, IndexError) as error:
            assert path in str(error) or len(source) == 0, error
print("alive")
"""
ATTACKED = ["string", "string view", "deep", "dictionary of string", "runs of string", "dense union of string"]


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("name", [*ATTACKED, "map to int32", "list view of string", "struct of int32"])
def test_no_damage_ends_the_process(name, compression, tmp_path):
    write_arrow(tmp_path / "sound", {"x": ARRAYS[name][1]}, compression=compression)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "sound", tmp_path / "a.arrow", str(len(name) % 7)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
