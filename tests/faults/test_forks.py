"""os.fork() in a program whose sources have threads or locks: the child reads on, as the parent does."""

import pytest

from support.file_servers import http_server
from support.programs import program

BEGIN = """
import faulthandler, os, sys, threading
import numpy as np
import grain
from grain.files.paths import File
folder = os.environ["FOLDER"]
NUMBERS = list(range(0, 400, 7))

def in_child(read, times=5):
    '''Call `read` in forked processes, which end in both ways; those that hang are ended by an alarm.'''
    for turn in range(times):
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(15, exit=True)
            read()
            if turn % 2:
                sys.exit(0)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status == 0, f"child {turn} ended with {status}"

def expect(found, expected):
    assert list(found) == list(expected), (found, expected)
"""


def run(text, tmp_path, answers_ranges=True):
    with http_server(tmp_path, answers_ranges) as (address, _):
        environment = {"FOLDER": str(tmp_path), "GRAIN_CACHE": str(tmp_path / "cache"), "ADDRESS": address}
        code, output, errors = program(BEGIN + text, folder=tmp_path, **environment).finish(timeout=120)
    assert code == 0, errors + output


ARRAY_RECORD = """
records = [b"%04d" % number * 300 for number in range(400)]
grain.sources.write(records, f"{folder}/x.arrayrecord", progress=False)
options = OPTIONS
source = grain.ArrayRecordDataSource(f"{folder}/x.arrayrecord", reader_options=options)
expected = [records[number] for number in NUMBERS]

def parallel():
    source._files[0]._pace._in_parallel = 3

def read():
    for _ in range(2):
        parallel()
        expect(source.__getitems__(NUMBERS), expected)
        expect([source[number] for number in NUMBERS], expected)
    again = grain.ArrayRecordDataSource(f"{folder}/x.arrayrecord", reader_options=options)
    again._files[0]._pace._in_parallel = 3
    expect(again.__getitems__(NUMBERS), expected)
    source.close()
    expect([source[number] for number in NUMBERS[:3]], expected[:3])
"""


@pytest.mark.parametrize("options", [{}, {"max_parallelism": 4}, {"readahead_buffer_size": "1M", "max_parallelism": 4}])
@pytest.mark.parametrize("is_busy", [False, True])
def test_array_record(tmp_path, options, is_busy):
    run(
        ARRAY_RECORD.replace("OPTIONS", repr(options))
        + f"""
expect(source.__getitems__(NUMBERS), expected)
is_done = threading.Event()
def keep_reading():
    while not is_done.is_set():
        parallel()
        expect(source.__getitems__(NUMBERS), expected)
threads = [threading.Thread(target=keep_reading) for _ in range(3 * {is_busy})]
for thread in threads:
    thread.start()
in_child(read, 10)
is_done.set()
for thread in threads:
    thread.join()
read()
""",
        tmp_path,
    )


def test_a_row_group_that_another_thread_decodes(tmp_path):
    run(
        """
rows = [{"x": number} for number in range(400)]
grain.sources.write(rows, f"{folder}/x.parquet", progress=False, rows_per_group=50)
source = grain.ParquetDataSource(f"{folder}/x.parquet")
is_reading, is_done = threading.Event(), threading.Event()
read_group = source._chunks._read
def slow(number):
    if threading.current_thread() is not threading.main_thread():
        is_reading.set()
        is_done.wait()
    return read_group(number)
source._chunks._read = slow
thread = threading.Thread(target=lambda: source[0])
thread.start()
is_reading.wait()
in_child(lambda: expect([row["x"] for row in source.__getitems__(NUMBERS)], NUMBERS))
is_done.set()
thread.join()
expect([row["x"] for row in source.__getitems__(NUMBERS)], NUMBERS)
""",
        tmp_path,
    )


def test_footers_that_another_thread_reads(tmp_path):
    run(
        """
rows = [{"x": number} for number in range(400)]
grain.sources.write(rows, f"{folder}/x.parquet", progress=False)
from grain.sources.parquet import ParquetFiles
is_reading, is_done, footer = threading.Event(), threading.Event(), ParquetFiles._footer
def slow(self, path):
    if threading.current_thread() is not threading.main_thread():
        is_reading.set()
        is_done.wait()
    return footer(self, path)
ParquetFiles._footer = slow
stream = grain.ParquetIterDataset(f"{folder}/x.parquet")
thread = threading.Thread(target=lambda: list(stream))
thread.start()
is_reading.wait()
in_child(lambda: expect([row["x"] for row in stream], range(400)))
is_done.set()
thread.join()
""",
        tmp_path,
    )


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv", "jsonl", "npy", "remote"])
def test_sources_that_other_threads_read(tmp_path, kind):
    run(
        f"""
import pyarrow as pa, pyarrow.feather, pyarrow.parquet, pyarrow.csv
table, kind = pa.table({{"x": list(range(400))}}), {kind!r}
path = f"{{folder}}/x.{{kind}}"
if kind == "parquet":
    pa.parquet.write_table(table, path, row_group_size=50)
    source = grain.ParquetDataSource(path, cache_bytes=1)
elif kind == "arrow":
    pa.feather.write_feather(table, path, compression="lz4", chunksize=50)
    source = grain.ArrowDataSource(path, cache_bytes=1)
elif kind == "csv":
    pa.csv.write_csv(table, path)
    source = grain.CsvDataSource(path)
elif kind == "npy":
    np.save(path, np.arange(400))
    source = grain.NumpyDataSource({{"x": path}})
elif kind == "jsonl":
    open(path, "w").write("".join('{{"x": %d}}\\n' % number for number in range(400)))
    source = grain.JsonLinesDataSource(path)
else:
    open(f"{{folder}}/x.jsonl", "w").write("".join('{{"x": %d}}\\n' % number for number in range(400)))
    source = grain.JsonLinesDataSource(os.environ["ADDRESS"] + "/x.jsonl")
is_done = threading.Event()
def read():
    expect([int(row["x"]) for row in source.__getitems__(NUMBERS)], NUMBERS)
def keep_reading():
    while not is_done.is_set():
        read()
threads = [threading.Thread(target=keep_reading) for _ in range(3)]
for thread in threads:
    thread.start()
in_child(read, 10)
is_done.set()
for thread in threads:
    thread.join()
read()
""",
        tmp_path,
    )


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "parquet", "remote", "whole"])
def test_a_stream_goes_on_in_both_processes(tmp_path, kind):
    run(
        f"""
import gzip
kind = {kind!r}
COUNT = 200_000
lines = "".join('{{"x": %d}}\\n' % number for number in range(COUNT)).encode()
if kind == "parquet":
    import pyarrow as pa, pyarrow.parquet
    pa.parquet.write_table(pa.table({{"x": list(range(COUNT))}}), f"{{folder}}/x.parquet", row_group_size=5000)
    stream = grain.ParquetIterDataset(f"{{folder}}/x.parquet")
elif kind.startswith("jsonl"):
    open(f"{{folder}}/x.{{kind}}", "wb").write(gzip.compress(lines) if kind.endswith("gz") else lines)
    stream = grain.JsonLinesIterDataset(f"{{folder}}/x.{{kind}}")
else:
    open(f"{{folder}}/x.jsonl", "wb").write(lines)
    from grain.files import opened_files
    opened_files._PIECE = 1 << 18
    stream = grain.JsonLinesIterDataset(os.environ["ADDRESS"] + "/x.jsonl")
iterator = iter(stream)
expect([next(iterator)["x"] for _ in range(10)], range(10))
in_child(lambda: expect([row["x"] for row in iterator], range(10, COUNT)), 3)
expect([row["x"] for row in iterator], range(10, COUNT))
""",
        tmp_path,
        answers_ranges=kind != "whole",
    )


def test_a_fork_while_a_thread_copies_a_file(tmp_path):
    run(
        """
import fsspec
from pathlib import Path
from grain.files.cache_folder import local_copy
from fsspec.implementations.memory import MemoryFileSystem
fsspec.filesystem("memory").pipe_file("/x/file", b"content")
is_reading, is_done, get_file = threading.Event(), threading.Event(), MemoryFileSystem.get_file
def slow(self, *args, **kwargs):
    if threading.current_thread() is not threading.main_thread():
        is_reading.set()
        is_done.wait()
    return get_file(self, *args, **kwargs)
MemoryFileSystem.get_file = slow
thread = threading.Thread(target=lambda: local_copy(File("memory://x/file")))
thread.start()
is_reading.wait()
in_child(lambda: expect(Path(local_copy(File("memory://x/file"))).read_bytes(), b"content"))
is_done.set()
thread.join()
expect(Path(local_copy(File("memory://x/file"))).read_bytes(), b"content")
""",
        tmp_path,
    )


def test_a_fork_waits_for_work_without_the_interpreters_lock_and_lets_none_begin(tmp_path):
    run(
        """
from grain.forks import Undivided
work, is_done, counts = Undivided(), threading.Event(), [0, 0, 0]
def keep_working(number):
    while not is_done.is_set():
        with work:
            counts[number] += 1
            is_done.wait(0.01)
            counts[number] -= 1
threads = [threading.Thread(target=keep_working, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
def read():
    assert counts == [0, 0, 0]
    with work:
        pass
in_child(read, 20)
is_done.set()
for thread in threads:
    thread.join()
""",
        tmp_path,
    )
