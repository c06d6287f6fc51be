"""Damaged files of every format that is read: `scripts/fuzz`, and a few seconds of it in the tests.

The law: for each record comes the right record, or an exception that names the file and the record. Anything else is a
bug: another record, a crash, a hang, memory beyond a limit, an error that names no file. However a file is read (by
index, in batches, as a stream, through a dataset, after a resume), the answer is the same.

What is *right* depends on what a format can notice:

| format | right is |
|---|---|
| TFRecord | what was written (checksums); what was not touched is not lost, unless a length lies under its checksum |
| ArrayRecord | what was written (checksums), in a file damaged in place at its own index |
| JSON lines | of each line what Python's `json` makes of it |
| WebDataset | what follows a sound header; a sample lacks files only beside an error; nothing untouched is lost |
| CSV | the cells that Python's `csv` finds, as what they stand for |
| Arrow, Parquet | of each row what pyarrow finds and fully validates |
| .npy | what NumPy finds, if the file has as many bytes as its header says |
| .npz | what was written (checksums) |
| pictures | what Pillow decodes; the other pictures of the folder are as they were |
| any, gzipped | what can be unpacked before the damage, by the law of the format, and then an error |
| indexes in the cache | all that the file holds: a damaged index is made again |
| checkpoints | restoring raises, or the iterator continues and ends; that it points beyond the data may be said then |

In files whose parts were moved, cut out or joined, parts of the other file are right too, at any index.

`table.py` has the formats, `formats.py` what one consists of, `mutations.py` the damage, `cases.py` the ways to read.
"""
