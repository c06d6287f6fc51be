"""WebDataset shards, by index and as streams."""

import io
import json
import os
import subprocess
import tarfile

import numpy as np
import pytest
from PIL import Image

import grain
from grain import MultiprocessingOptions, WebDatasetDataSource, WebDatasetIterDataset
from support.record_files import elements_and_errors, tar, written

LONG = "a/very/long/name/" + "of a folder/" * 20
MEMBERS = [
    ("0.jpg", b"j0"),
    ("0.cls", b"3"),
    ("folder.with.dots/1.jpg", b"x" * 1500),
    ("folder.with.dots/1.SEG.png", b""),
    ("__meta__/info.json", b"{}"),
    ("README", b"no sample"),
    (".hidden", b"no sample"),
    (f"{LONG}2.jpg", b"j2"),
    (f"{LONG}2.cls", b"5"),
    ("ünï.txt", b"text"),
]
SAMPLES = [
    {"__key__": "0", "jpg": b"j0", "cls": b"3"},
    {"__key__": "folder.with.dots/1", "jpg": b"x" * 1500, "seg.png": b""},
    {"__key__": f"{LONG}2", "jpg": b"j2", "cls": b"5"},
    {"__key__": "ünï", "txt": b"text"},
]


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAIN_CACHE", str(tmp_path / "cache"))


def both(path):
    by_index = grain.MapDataset.source(WebDatasetDataSource(path)).to_iter_dataset()
    return elements_and_errors(WebDatasetIterDataset(path)), elements_and_errors(by_index)


@pytest.mark.parametrize("format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_samples_of_all_kinds_of_archives(tmp_path, format):
    path = written(tmp_path / "shard.tar", tar(MEMBERS, format))
    assert both(path) == (SAMPLES, SAMPLES)
    assert list(WebDatasetIterDataset(written(tmp_path / "shard.tar.gz", tar(MEMBERS, format)))) == SAMPLES


def test_names_with_a_prefix(tmp_path):
    name = f"{'f' * 90}/{'n' * 90}"
    path = written(tmp_path / "shard.tar", tar([(f"{name}.txt", b"a")], tarfile.USTAR_FORMAT))
    assert both(path)[0] == both(path)[1] == [{"__key__": name, "txt": b"a"}]


def test_folders_and_links_belong_to_no_sample(tmp_path):
    path = tmp_path / "shard.tar"
    with tarfile.open(path, "w") as archive:
        for name, kind in [
            ("d", tarfile.DIRTYPE),
            ("a.x", None),
            ("a.y", tarfile.SYMTYPE),
            ("e.f", tarfile.DIRTYPE),
            ("a.z", None),
        ]:
            info = tarfile.TarInfo(name)
            if kind is not None:
                info.type, info.linkname = kind, "a.x"
                archive.addfile(info)
            else:
                info.size = 2
                archive.addfile(info, io.BytesIO(b"ok"))
    assert both(path)[0] == both(path)[1] == [{"__key__": "a", "x": b"ok", "z": b"ok"}]


def test_a_size_that_is_written_in_binary(tmp_path):
    content = bytearray(tar([("a.txt", b"abc"), ("b.txt", b"d")]))
    content[124:136] = b"\x80" + (3).to_bytes(11, "big")
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    found = both(written(tmp_path / "shard.tar", bytes(content)))
    assert found[0] == found[1] == [{"__key__": "a", "txt": b"abc"}, {"__key__": "b", "txt": b"d"}]


def test_several_shards_by_index_and_in_turn(tmp_path):
    for shard in range(3):
        written(tmp_path / f"{shard}.tar", tar([(f"{shard}{i}.txt", b"") for i in range(2)]))
    source = WebDatasetDataSource(tmp_path / "*.tar")
    assert [sample["__key__"] for sample in source.__getitems__([5, 0, 3])] == ["21", "00", "11"]
    in_turn = [sample["__key__"] for sample in WebDatasetIterDataset(tmp_path / "*.tar")]
    assert in_turn == ["00", "10", "20", "01", "11", "21"]


@pytest.mark.parametrize("name", ["shard.tar", "shard.tgz"])
def test_a_stream_resumes_at_every_sample(tmp_path, name):
    dataset = WebDatasetIterDataset(written(tmp_path / name, tar(MEMBERS)))
    iterator = iter(dataset)
    for position, sample in enumerate(SAMPLES):
        resumed = iter(dataset)
        resumed.set_state(json.loads(json.dumps(iterator.get_state())))
        assert list(resumed) == SAMPLES[position:]
        assert next(iterator) == sample


def test_workers_share_the_samples(tmp_path):
    options = MultiprocessingOptions(num_workers=2)
    path = written(tmp_path / "shard.tar", tar(MEMBERS))
    assert list(WebDatasetIterDataset(path).mp_prefetch(options)) == SAMPLES
    by_index = grain.MapDataset.source(WebDatasetDataSource(path)).to_iter_dataset()
    assert list(by_index.mp_prefetch(options)) == SAMPLES


def test_decoding(tmp_path):
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    picture, array = io.BytesIO(), io.BytesIO()
    Image.fromarray(pixels).save(picture, "PNG")
    np.save(array, np.arange(3))
    members = {"PNG": picture, "json": b'{"a": 1}', "txt": "ä".encode(), "cls": b"7\n", "v.npy": array, "bin": b"\0"}
    contents = [
        (f"k.{name}", content if isinstance(content, bytes) else content.getvalue())
        for name, content in members.items()
    ]
    path = written(tmp_path / "shard.tar", tar(contents))
    for sample in (WebDatasetDataSource(path, decode=True)[0], next(iter(WebDatasetIterDataset(path, decode=True)))):
        np.testing.assert_array_equal(sample.pop("png"), pixels)
        np.testing.assert_array_equal(sample.pop("v.npy"), np.arange(3))
        assert sample == {"__key__": "k", "json": {"a": 1}, "txt": "ä", "cls": 7, "bin": b"\0"}


def test_what_cannot_be_decoded_is_an_error_and_the_others_are_read(tmp_path):
    path = written(
        tmp_path / "shard.tar", tar([("a.cls", b"1"), ("b.cls", b"one"), ("c.png", b"no picture"), ("d.cls", b"4")])
    )
    first, second, third, last = elements_and_errors(WebDatasetIterDataset(path, decode=True))
    assert (first["cls"], last["cls"]) == (1, 4)
    assert "The file 'cls' of the sample 'b' in" in second
    assert "shard.tar' cannot be decoded: invalid literal" in second
    assert "The file 'png' of the sample 'c'" in third


def test_json_that_is_nested_too_deeply_names_its_sample_and_the_others_are_read(tmp_path):
    path = written(tmp_path / "shard.tar", tar([("a.json", b"[" * 100_000), ("b.json", b"2")]))
    for error, last in (
        elements_and_errors(WebDatasetIterDataset(path, decode=True)),
        elements_and_errors(grain.MapDataset.source(WebDatasetDataSource(path, decode=True)).to_iter_dataset()),
    ):
        assert f"The file 'json' of the sample 'a' in '{path}' cannot be decoded" in error
        assert last["json"] == 2


# ---------------------------------------------------------------- members that are not plain files


@pytest.mark.parametrize(
    "options",
    [
        ["--format=gnu"],
        *(["--format=posix", f"--sparse-version={version}"] for version in ("0.0", "0.1", "1.0")),
    ],
    ids=lambda options: options[-1],
)
@pytest.mark.parametrize("holes", [1, 30])
def test_a_sparse_file_is_refused_by_its_name_and_the_others_are_read(tmp_path, options, holes):
    names = ["a.txt", "b.bin", f"{'c' * 120}.txt"]
    for name in names:
        tmp_path.joinpath(name).write_bytes(name[:1].encode())
    with open(tmp_path / "b.bin", "wb") as sparse:
        for hole in range(1, holes + 1):
            sparse.seek(hole * 100_000)
            sparse.write(b"data")
    subprocess.run(["tar", "--sparse", *options, "-cf", "shard.tar", *names], cwd=tmp_path, check=True)
    for first, error, last in both(tmp_path / "shard.tar"):
        assert (first, last) == ({"__key__": "a", "txt": b"a"}, {"__key__": "c" * 120, "txt": b"c"})
        assert "shard.tar' cannot be read: 'b.bin' has holes, which are not in the archive" in error
        assert "Make it without --sparse" in error


def test_a_hard_link_is_refused_by_its_name_and_the_others_are_read(tmp_path):
    for name in ("a.txt", "c.txt"):
        tmp_path.joinpath(name).write_text(name)
    os.link(tmp_path / "a.txt", tmp_path / "b.txt")
    subprocess.run(["tar", "-cf", "shard.tar", "a.txt", "b.txt", "c.txt"], cwd=tmp_path, check=True)
    for first, error, last in both(tmp_path / "shard.tar"):
        assert (first["txt"], last["txt"]) == (b"a.txt", b"c.txt")
        assert "'b.txt' is a link to 'a.txt'. Make the archive with --hard-dereference" in error


def test_archives_that_were_appended_to_each_other(tmp_path):
    content = tar([("0.a", b"0"), ("1.a", b"1")]) + bytes(70_000) + b"\0" * 144 + tar([("1.a", b"1"), ("2.a", b"2")])
    for found in both(written(tmp_path / "shard.tar", content)):
        assert found == [{"__key__": key, "a": key.encode()} for key in "0112"]


def test_a_header_that_became_zeros_does_not_end_the_archive(tmp_path):
    content = bytearray(CONTENT)
    content[MEMBER * 2 : MEMBER * 2 + 512] = bytes(512)
    for found in both(written(tmp_path / "shard.tar", bytes(content))):
        assert [found[0], *found[-2:]] == [WHOLE[0], *WHOLE[2:]]
        assert f"no tar header at byte {MEMBER * 2 + 512}" in found[1]


def test_a_global_header(tmp_path):
    def content(headers):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers):
            pass
        return buffer.getvalue()[:1024] + tar([("0.a", b"0")])

    for found in both(written(tmp_path / "shard.tar", content({"comment": "made by git"}))):
        assert found == [{"__key__": "0", "a": b"0"}]
    for error, sample in both(written(tmp_path / "other.tar", content({"path": "9.b"}))):
        assert "global header at byte 0 gives all members that follow one 'path'" in error
        assert sample == {"__key__": "0", "a": b"0"}
    path = written(tmp_path / "empty.tar", content({"comment": "nothing"})[:1024] + bytes(1024))
    assert both(path) == ([], [])


def with_header(content, **fields):
    """An archive whose first header has other bytes at some places, and the right checksum."""
    content = bytearray(content)
    for place, field in ((int(place[1:]), field) for place, field in fields.items()):
        content[place : place + len(field)] = field
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    return bytes(content)


@pytest.mark.parametrize(
    "size", [b"\x80" + b"\x7f" * 11, b"\xff" * 12, b"-0000001000\0", b"00000009999\0", b"\x80\x10" + bytes(10)]
)
def test_a_size_that_cannot_be_is_an_error_and_reading_goes_on(tmp_path, size):
    content = with_header(tar([("0.a", b"0"), ("1.a", b"1")]), _124=size)
    for error, sample in both(written(tmp_path / "shard.tar", content)):
        assert "for the size of its member" in error
        assert sample == {"__key__": "1", "a": b"1"}


@pytest.mark.parametrize("size", [b"77777777777\0", b"\x80" + bytes(4) + b"\x01" + bytes(6)])
def test_a_size_beyond_the_file(tmp_path, size):
    content = with_header(tar([("0.a", b"0"), ("1.a", b"1")]), _124=size)
    for found in both(written(tmp_path / "shard.tar", content)):
        assert len(found) == 1
        assert "shard.tar' cannot be read: the archive ends within '0.a'" in found[0]


@pytest.mark.parametrize("field", [100, 108, 116, 136, 329, 337])
@pytest.mark.parametrize("value", [b"name", b"00 0644\0", b"\x7f\xff\xff"])
def test_a_header_with_something_else_in_the_place_of_a_number_is_damaged(tmp_path, field, value):
    """A sum of bytes is the same when some of them change places, those of a name and of a number for example."""
    content = with_header(tar([("0.a", b"0"), ("1.a", b"1")]), **{f"_{field}": value})
    for error, sample in both(written(tmp_path / "shard.tar", content)):
        assert "shard.tar' cannot be read: there is no tar header at byte 0, or it is damaged" in error
        assert sample == {"__key__": "1", "a": b"1"}


@pytest.mark.parametrize("field", [100, 108, 116, 136, 329, 337])
@pytest.mark.parametrize("value", [bytes(8), b" " * 8, b"   644 \0", b"644\0name", b"\x80\0\0\0\1\2\3\4", b"\xff" * 8])
def test_numbers_of_a_header_in_all_forms_that_there_are(tmp_path, field, value):
    content = with_header(tar([("0.a", b"0")]), **{f"_{field}": value})
    for found in both(written(tmp_path / "shard.tar", content)):
        assert found == [{"__key__": "0", "a": b"0"}]


@pytest.mark.parametrize("kind", [b"2", b"3", b"4", b"5", b"6"])
def test_what_is_no_file_has_no_content_whatever_its_size_says(tmp_path, kind):
    content = with_header(tar([("0.a", b""), ("1.a", b"1")]), _156=kind, _124=b"00000012345\0")
    for found in both(written(tmp_path / "shard.tar", content)):
        assert found == [{"__key__": "1", "a": b"1"}]


@pytest.mark.parametrize(
    "record", [b"9" * 20 + b" a=b\n", b"9 size=" + b"9" * 5000 + b"\n", b"12 path=0.a", b"3 a\n", b"0 a=b\n"]
)
def test_a_damaged_record_of_an_extended_header(tmp_path, record):
    extended = tar([("x", record)])[: 512 + -(-len(record) // 512) * 512]
    content = tar([("0.a", b"0")])[:1024] + with_header(extended, _156=b"x") + tar([("1.a", b"1"), ("2.a", b"2")])
    for found in both(written(tmp_path / "shard.tar", content)):
        assert found[0] == {"__key__": "0", "a": b"0"}
        assert found[-1] == {"__key__": "2", "a": b"2"}
        assert "an extended header has" in found[1]


@pytest.mark.parametrize("kind", [b"x", b"L", b"g"])
def test_an_extended_header_of_gigabytes(tmp_path, kind):
    extended = with_header(tar([("x", b"12 path=0.a\n")])[:1024], _156=kind, _124=b"77777777777\0")
    for error, last in both(written(tmp_path / "shard.tar", extended + tar([("1.a", b"1")]))):
        assert "has 8589934591 bytes" in error
        assert last == {"__key__": "1", "a": b"1"}


@pytest.mark.parametrize("kind", [b"x", b"L", b"K"])
def test_an_extended_header_that_no_member_follows(tmp_path, kind):
    extended = with_header(tar([("x", b"12 path=0.a\n")])[:1024], _156=kind)
    for first, error in both(written(tmp_path / "shard.tar", tar([("0.a", b"0")])[:1024] + extended + bytes(1024))):
        assert first == {"__key__": "0", "a": b"0"}
        assert "no member follows the extended header" in error


# ---------------------------------------------------------------- damage

FILES = [(f"{number}.{field}", b"%d" % number * 600) for number in range(4) for field in ("a", "b")]
WHOLE = [{"__key__": str(n), "a": b"%d" % n * 600, "b": b"%d" % n * 600} for n in range(4)]
CONTENT = tar(FILES)
MEMBER = 512 + 1024


@pytest.mark.parametrize(("member", "cut"), [(6, 512), (6, 513), (6, 1000), (7, 512), (7, 513), (7, 1000)])
def test_a_truncated_archive_gives_all_whole_samples(tmp_path, member, cut):
    place = MEMBER * member + cut
    for found in both(written(tmp_path / "shard.tar", CONTENT[:place])):
        assert found[:3] == WHOLE[:3]
        (message,) = found[3:]
        assert (
            f"The sample at byte {MEMBER * 6} of '{tmp_path}/shard.tar' cannot be read: the archive ends within"
            in message
        )
        assert f"byte {MEMBER * member}" in message


@pytest.mark.parametrize("cut", [1, 100, 511])
def test_an_archive_that_ends_within_a_header(tmp_path, cut):
    for found in both(written(tmp_path / "shard.tar", CONTENT[: MEMBER * 6 + cut])):
        assert found[:3] == WHOLE[:3]
        (message,) = found[3:]
        assert f"shard.tar' cannot be read: the archive ends within the header at byte {MEMBER * 6}" in message


def test_an_archive_without_the_mark_of_its_end(tmp_path):
    for found in both(written(tmp_path / "shard.tar", CONTENT[: MEMBER * 8])):
        assert found == WHOLE


def test_a_damaged_header_is_an_error_and_the_other_samples_are_read(tmp_path):
    damaged = bytearray(CONTENT)
    damaged[MEMBER * 3 + 5] ^= 1  # of the second file of the second sample
    for first, second, message, third, last in both(written(tmp_path / "shard.tar", bytes(damaged))):
        assert [first, third, last] == [WHOLE[0], WHOLE[2], WHOLE[3]]
        assert second == {"__key__": "1", "a": WHOLE[1]["a"]}
        assert f"shard.tar' cannot be read: there is no tar header at byte {MEMBER * 3}, or it is damaged" in message


def test_a_damaged_extended_header_is_an_error_and_the_other_samples_are_read(tmp_path):
    content = bytearray(tar([("0.a", b"0"), (f"{'x' * 120}.a", b"1"), ("2.a", b"2")], tarfile.PAX_FORMAT))
    place = content.index(b" path=x")
    for damage in (b"?", b" "):
        content[place - 1 : place] = damage
        first, message, last = both(written(tmp_path / "shard.tar", bytes(content)))[0]
        assert (first["a"], last["a"]) == (b"0", b"2")
        assert "an extended header has" in message


def test_two_files_of_one_name_in_a_sample(tmp_path):
    path = written(tmp_path / "shard.tar", tar([("0.a", b"1"), ("0.A", b"2"), ("1.a", b"3")]))
    for message, sample in both(path):
        assert "it has two files '0.A'" in message
        assert sample == {"__key__": "1", "a": b"3"}


def test_a_file_that_is_no_archive(tmp_path):
    path = written(tmp_path / "other.txt", b"some text " * 1000)
    with pytest.raises(ValueError, match=r"other\.txt' is not a tar archive"):
        WebDatasetDataSource(path)
    (message,) = elements_and_errors(WebDatasetIterDataset(path))
    assert "there is no tar header at byte 0" in message


def test_an_empty_file_and_an_empty_archive(tmp_path):
    with pytest.raises(ValueError, match=r"empty\.tar' is empty"):
        WebDatasetDataSource(written(tmp_path / "empty.tar", b""))
    path = written(tmp_path / "no-members.tar", tar([]))
    assert (len(WebDatasetDataSource(path)), list(WebDatasetIterDataset(path))) == (0, [])


def test_a_large_archive_is_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("grain.sources.byte_streams._PIECE", 1000)
    for found in both(written(tmp_path / "shard.tar", CONTENT)):
        assert found == WHOLE
