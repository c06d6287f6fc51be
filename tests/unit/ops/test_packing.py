"""First fit and best fit: edges, errors, what a restore reads again, and how full rows are."""

import json
import subprocess
import sys

import numpy as np
import pytest

from grain import (
    IterDataset,
    MapDataset,
    MultiprocessingOptions,
    ReadOptions,
)
from grain.experimental import (
    BestFitPackIterDataset,
    FirstFitPackIterDataset,
    multithread_prefetch,
)

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)


def streamed(documents):
    return MapDataset.source(documents).to_iter_dataset(INLINE)


def of_lengths(*lengths):
    """Documents of so many tokens, which tell their document: 1, 2, 3..."""
    return [{"tokens": np.full(length, number, np.int32)} for number, length in enumerate(lengths, 1)]


@pytest.fixture(params=["pack_first_fit", "pack_best_fit"])
def pack(request):
    """Packs documents, in order where nothing is said."""

    def packed(documents, bins=2, length_struct=None, **options):
        options = {"shuffle_bins": False, **options}
        method = getattr(streamed(documents), request.param)
        return method(length_struct=length_struct or {"tokens": 8}, num_packing_bins=bins, **options)

    packed.is_best_fit = request.param == "pack_best_fit"
    return packed


def tokens(dataset):
    return [row["tokens"].tolist() for row in dataset]


# ---------------------------------------------------------------- rows


def test_where_documents_go(pack):
    rows = tokens(pack(of_lengths(4, 6, 3, 4, 5, 2, 1)))
    assert rows[:2] == [[1, 1, 1, 1, 3, 3, 3, 0], [2, 2, 2, 2, 2, 2, 0, 0]]
    if pack.is_best_fit:
        assert rows[2:] == [[4, 4, 4, 4, 0, 0, 0, 0], [5, 5, 5, 5, 5, 6, 6, 7]]
    else:
        assert rows[2:] == [[4, 4, 4, 4, 6, 6, 7, 0], [5, 5, 5, 5, 5, 0, 0, 0]]


def test_keys_are_sorted_and_arrays_are_each_rows_own(pack):
    documents = [{"b": np.ones(2), "a": np.ones(2), "zip": 1}]
    (row,) = pack(documents, length_struct={"b": 3, "a": 3}, meta_features=["zip", "b"])
    assert list(row) == ["a", "a_positions", "a_segment_ids", "b", "zip"]
    assert all(array.base is None for name, array in row.items() if name != "zip")


def test_the_order_of_keys_does_not_depend_on_jax():
    script = """
import sys
from grain import MapDataset
documents = MapDataset.source([{"b": [1], "a": [2]}]).to_iter_dataset()
lengths = {"b": 3, "a": 3}
packed = documents.pack_first_fit(length_struct=lengths, num_packing_bins=1)
assert list(next(iter(packed))) == [f"{key}{suffix}" for key in "ab" for suffix in ("", "_positions", "_segment_ids")]
split = documents.concat_and_split(length_struct=lengths)
assert list(next(iter(split))) == [f"{key}{suffix}" for key in "ba" for suffix in ("", "_segment_ids", "_positions")]
"""
    for first in ("", "import jax\n"):
        subprocess.run([sys.executable, "-c", first + script], check=True)


def test_numbers_by_themselves_and_lists_are_tokens(pack):
    documents = [{"tokens": 3, "more": [1, 2]}, {"tokens": np.int32(4), "more": [5]}]
    (row,) = pack(documents, length_struct={"tokens": 3, "more": 4})
    assert row["tokens"].tolist() == [3, 4, 0]
    assert row["tokens"].dtype == np.int64
    assert row["tokens_segment_ids"].tolist() == [1, 2, 0]
    assert row["more"].tolist() == [1, 2, 5, 0]


def test_types_and_shapes_are_those_of_the_first_document(pack):
    documents = [{"tokens": np.ones((2, 3), np.float32)}, {"tokens": np.full((1, 3), 2.5)}]
    (row,) = pack(documents, length_struct={"tokens": 4})
    assert row["tokens"].dtype == np.float32
    assert row["tokens"].tolist() == [[1, 1, 1], [1, 1, 1], [2.5, 2.5, 2.5], [0, 0, 0]]
    assert row["tokens_positions"].tolist() == [0, 1, 0, 0]


def test_empty_documents_take_a_number_and_no_room(pack):
    documents = of_lengths(0, 2, 0, 1)
    (row,) = pack(documents, length_struct={"tokens": 3})
    assert row["tokens"].tolist() == [2, 2, 4]
    assert row["tokens_segment_ids"].tolist() == [2, 2, 4]


def test_the_number_of_documents_in_a_row_can_be_limited(pack):
    assert tokens(pack(of_lengths(1, 1, 1), length_struct={"tokens": 3}, max_sequences_per_bin=2)) == [
        [1, 2, 0],
        [3, 0, 0],
    ]


def test_best_fit_puts_empty_documents_into_a_row_that_has_nothing_else(pack):
    rows = tokens(pack(of_lengths(0, 2, 0, 0), length_struct={"tokens": 2}, max_sequences_per_bin=1))
    assert len(rows) == (2 if pack.is_best_fit else 4)


def test_meta_features_have_no_segment_ids_and_may_be_anything(pack):
    documents = [{**document, "kind": [7], "name": name} for document, name in zip(of_lengths(2, 1), "xy", strict=True)]
    (row,) = pack(documents, length_struct={"tokens": 4, "kind": 3}, meta_features=["kind", "name"])
    assert row["kind"].tolist() == [7, 7, 0]
    assert row["name"] == ["x", "y"]
    assert "kind_segment_ids" not in row


def test_a_meta_feature_may_be_nested(pack):
    documents = [{"tokens": np.ones(1), "more": {"y": np.ones(1), "x": np.ones(2)}}] * 2
    (row,) = pack(documents, length_struct={"tokens": 3, "more": {"y": 2, "x": 5}}, meta_features=["more"])
    assert list(row["more"]) == ["x", "y"]
    assert row["more"]["x"].tolist() == [1, 1, 1, 1, 0]


def test_rows_are_shuffled_anew_for_each_batch(pack):
    documents = of_lengths(*[3] * 40)
    shuffled = [row[0] for row in tokens(pack(documents, 8, {"tokens": 4}, shuffle_bins=True, seed=5))]
    assert sorted(shuffled) == list(range(1, 41))
    batches = [[(number - 1) % 8 for number in shuffled[start : start + 8]] for start in range(0, 40, 8)]
    assert len({tuple(batch) for batch in batches}) == 5
    assert all(sorted(batch) == list(range(8)) for batch in batches)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_sequences_per_bin": 0}, "`max_sequences_per_bin` must be a positive integer, but got 0"),
        ({"bins": 0}, "`num_packing_bins` must be a positive integer, but got 0"),
        ({"seed": -1}, "seed must be a non-negative integer, but got -1"),
        ({"length_struct": {"tokens": {"x": 3}}}, "Failed to extract segment ids for 'tokens'.*meta feature"),
        ({"length_struct": [3]}, "length_struct must be a dict"),
        ({"pack_alignment_struct": {}}, "pack_alignment_struct must be of the structure of length_struct"),
        ({"pack_alignment_struct": {"tokens": 0}}, "alignment of 'tokens' must be a positive integer, but got 0"),
        ({"padding_struct": {"tokens": 0, "other": 1}}, "padding_struct .* has no \\['other'\\]"),
        (
            {"shuffle_bins": True, "shuffle_bins_group_by_feature": "kind"},
            "shuffle_bins_group_by_feature must be one of \\['tokens'\\], but got 'kind'",
        ),
    ],
)
def test_options_that_make_no_sense(pack, options, message):
    with pytest.raises(ValueError, match=message):
        pack([], **options)


def test_a_document_that_is_too_long_is_told_and_passed_over(pack):
    iterator = iter(pack(of_lengths(2, 9, 3)))
    with pytest.raises(ValueError, match="must be truncated to max length") as caught:
        next(iterator)
    assert "[(('tokens',), 9, 8)]" in str(caught.value)
    assert ("packer" if pack.is_best_fit else "PackedBatch") in str(caught.value)
    assert any("FitPackIterDataset" in note for note in caught.value.__notes__)
    assert next(iterator)["tokens"].tolist() == [1, 1, 3, 3, 3, 0, 0, 0]


@pytest.mark.parametrize("meta_features", [[], ["name"]])
def test_a_feature_that_is_missing(pack, meta_features):
    lengths = {"tokens": 8} if meta_features else {"tokens": 8, "name": 3}
    iterator = iter(pack(of_lengths(1), length_struct=lengths, meta_features=meta_features))
    with pytest.raises(KeyError, match="name"):
        next(iterator)


def test_a_document_whose_tokens_cannot_be_those_of_the_row_is_told_and_passed_over(pack):
    documents = [{"tokens": np.array([1])}, {"tokens": np.array(["x"])}, {"tokens": np.array(["2"])}]
    iterator = iter(pack(documents))
    with pytest.raises(ValueError, match="'x'"):
        next(iterator)
    assert next(iterator)["tokens"].tolist() == [1, 2, 0, 0, 0, 0, 0, 0]


def test_a_document_of_another_shape(pack):
    documents = [{"tokens": np.ones((1, 2))}, {"tokens": np.ones((1, 3))}, {"tokens": np.ones((2, 2))}]
    iterator = iter(pack(documents))
    with pytest.raises(ValueError, match=r"'tokens' have the shape \(3,\), but those of a document before had \(2,\)"):
        next(iterator)
    assert next(iterator)["tokens_segment_ids"].tolist() == [1, 2, 2, 0, 0, 0, 0, 0]


def test_an_error_of_the_documents_loses_no_other(pack):
    def failing(x):
        if x == 2:
            raise RuntimeError("broken")
        return {"tokens": np.full(2, x)}

    stream = MapDataset.range(1, 5).map(failing).to_iter_dataset(INLINE)
    method = stream.pack_best_fit if pack.is_best_fit else stream.pack_first_fit
    iterator = iter(method(length_struct={"tokens": 6}, num_packing_bins=2))
    with pytest.raises(RuntimeError, match="broken"):
        next(iterator)
    assert next(iterator)["tokens"].tolist() == [1, 1, 3, 3, 4, 4]


def test_a_state_of_other_documents(pack):
    iterator = iter(pack(of_lengths(8, 8)))
    next(iterator)
    other = iter(pack(of_lengths(8)))
    other.set_state(iterator.get_state())
    with pytest.raises(ValueError, match="the next row is 1 of a batch that has only 1"):
        next(other)


# ---------------------------------------------------------------- restoring


class Watched:
    """A source that counts what is read of it."""

    def __init__(self, documents):
        self.documents, self.read = documents, []

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, index):
        self.read.append(index)
        return self.documents[index]


@pytest.mark.parametrize("operator", ["pack_first_fit", "pack_best_fit", "concat_and_split"])
def test_a_restore_reads_again_no_more_than_what_is_packed_together(operator):
    source = Watched(of_lengths(*np.random.default_rng(1).integers(1, 9, 60).tolist()))
    stream = MapDataset.source(source).to_iter_dataset(INLINE)
    options = {} if operator == "concat_and_split" else {"num_packing_bins": 3}
    dataset = getattr(stream, operator)(length_struct={"tokens": 8}, **options)

    def read_for(iterator):
        source.read.clear()
        return next(iterator)["tokens"].tolist(), len(source.read)

    iterator = iter(dataset)
    states, rows, counts = [], [], []
    while len(rows) < 20:
        states.append(json.loads(json.dumps(iterator.get_state())))
        row, count = read_for(iterator)
        rows.append(row)
        counts.append(count)
    for state, row, needed in zip(states, rows, counts, strict=True):
        resumed = iter(dataset)
        resumed.set_state(state)
        again, count = read_for(resumed)
        assert again == row
        assert count <= needed + max(counts) + 1, "the document that found no room is read again too"


# ---------------------------------------------------------------- statistics


def test_statistics_tell_how_full_rows_are(pack):
    iterator = iter(pack(of_lengths(4, 6, 3, 4), meta_features=[]))
    assert iterator.packing_statistics.rows == 0
    assert iterator.packing_statistics.efficiency == {}
    next(iterator)
    statistics = iterator.packing_statistics
    assert (statistics.rows, statistics.sequences, statistics.tokens["tokens"]) == (1, 2, 7)
    assert statistics.efficiency == {"tokens": 7 / 8}
    list(iterator)
    assert repr(statistics) == (
        "PackingStatistics(rows=3, sequences=4, tokens={'tokens': 17}, capacity={'tokens': 24}, "
        "efficiency={'tokens': 0.708})"
    )


def test_alignment_is_no_token_and_meta_features_do_not_count(pack):
    documents = [{**document, "kind": 1} for document in of_lengths(3, 2)]
    options = {"length_struct": {"tokens": 8, "kind": 8}, "meta_features": ["kind"]}
    iterator = iter(pack(documents, pack_alignment_struct={"tokens": 4, "kind": 1}, **options))
    list(iterator)
    assert iterator.packing_statistics.efficiency == {"tokens": 5 / 8}


CHAINS = {
    "batch": lambda ds: ds.batch(2),
    "map": lambda ds: ds.map(lambda row: row["tokens"]).filter(lambda row: True),
    "thread_prefetch": lambda ds: ds.thread_prefetch(2),
    "repeat": lambda ds: ds.repeat(1).limit(9),
    "interleave": lambda ds: IterDataset.interleave([ds], cycle_length=2),
    "threads": lambda ds: multithread_prefetch(ds, num_threads=1, buffer_size=1),
    "zip": lambda ds: IterDataset.zip([ds]),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_statistics_are_there_at_the_end_of_a_chain(pack, chain):
    with iter(CHAINS[chain](pack(of_lengths(4, 6, 3, 4)))) as iterator:
        list(iterator)
        statistics = iterator.packing_statistics
    assert (statistics.rows, statistics.sequences, dict(statistics.tokens)) == (3, 4, {"tokens": 17})


def test_rows_of_worker_processes_count_with_the_element_that_they_are_in(pack):
    dataset = pack(of_lengths(*[4, 6, 3, 4] * 8)).batch(2)
    with iter(dataset.mp_prefetch(MultiprocessingOptions(num_workers=2))) as iterator:
        statistics = iterator.packing_statistics
        for batches in (1, 2, 3):
            assert len(next(iterator)["tokens"]) == 2
            assert statistics.rows == 2 * batches
        rest = sum(len(batch["tokens"]) for batch in iterator)
        assert (statistics.rows, statistics.sequences, statistics.tokens["tokens"]) == (6 + rest, 32, 8 * 17)


def test_statistics_go_on_after_set_state_and_are_in_no_state(pack):
    iterator = iter(pack(of_lengths(4, 6, 3, 4)))
    start = iterator.get_state()
    list(iterator)
    assert set(iterator.get_state()) == {"parent", "next_row", "counter"}
    iterator.set_state(start)
    list(iterator)
    assert iterator.packing_statistics.rows == 6
    assert iter(pack(of_lengths(4))).packing_statistics.rows == 0


@pytest.mark.parametrize("kind", [FirstFitPackIterDataset, BestFitPackIterDataset])
def test_the_size_of_a_batch(kind):
    iterator = iter(kind(streamed(of_lengths(2, 2)), length_struct={"tokens": 3}, num_packing_bins=5))
    with pytest.raises(ValueError, match="after at least one element has been packed"):
        iterator.get_packed_batch_size_bytes()
    next(iterator)
    assert iterator.get_packed_batch_size_bytes() == 5 * 3 * (4 + 4 + 4)


def test_tokens_that_a_row_cannot_hold_are_told_and_passed_over(pack):
    documents = of_lengths(2, 1, 3)
    documents[1] = {"tokens": np.array(["a"])}
    iterator = iter(pack(documents))
    with pytest.raises(ValueError, match="invalid literal for int") as caught:
        next(iterator)
    assert "PackIterDataset" in caught.value.__notes__[0]
    assert [row["tokens"].tolist() for row in iterator] == [[1, 1, 3, 3, 3, 0, 0, 0]]
