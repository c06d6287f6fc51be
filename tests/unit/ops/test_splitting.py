"""Concatenate-then-split: edges, errors, and where Grain goes wrong."""

import json
import logging

import numpy as np
import pytest

from grain import MapDataset, ReadOptions
from grain.experimental import BOSHandling, ConcatThenSplitIterDataset

INLINE = ReadOptions(num_threads=0, prefetch_buffer_size=0)
BOS = {"bos_handling": BOSHandling.REPLACE_FIRST_TOKEN_WITH_BOS, "bos_token_id": 99}


def split(documents, length_struct, **options):
    stream = MapDataset.source(documents).to_iter_dataset(INLINE)
    return stream.concat_and_split(length_struct=length_struct, **options)


def of_lengths(*lengths):
    return [{"tokens": np.full(length, number, np.int32)} for number, length in enumerate(lengths, 1)]


def values(dataset, name="tokens"):
    return [row[name].tolist() for row in dataset]


def resumed(dataset, state):
    iterator = iter(dataset)
    iterator.set_state(json.loads(json.dumps(state)))
    return iterator


def assert_resumes_anywhere(dataset, names):
    iterator = iter(dataset)
    states, rows = [iterator.get_state()], []
    for row in iterator:
        rows.append({name: row[name].tolist() for name in names})
        states.append(iterator.get_state())
    for position, state in enumerate(states):
        rest = [{name: row[name].tolist() for name in names} for row in resumed(dataset, state)]
        assert rest == rows[position:], f"resumed after {position} rows, from {state}"


# ---------------------------------------------------------------- rows


def test_documents_are_cut_where_a_row_is_full():
    dataset = split(of_lengths(3, 6, 2, 5, 6, 4), {"tokens": 6})
    assert values(dataset) == [
        [1, 1, 1, 2, 2, 2],
        [2, 2, 2, 3, 3, 4],
        [4, 4, 4, 4, 5, 5],
        [5, 5, 5, 5, 6, 6],
        [6, 6, 0, 0, 0, 0],
    ]
    row = next(iter(dataset))
    assert list(row) == ["tokens", "tokens_segment_ids", "tokens_positions"]
    assert row["tokens_segment_ids"].tolist() == [1, 1, 1, 2, 2, 2]
    assert row["tokens_positions"].tolist() == [0, 1, 2, 0, 1, 2]


def test_documents_that_fill_a_row_may_stay_whole():
    dataset = split(of_lengths(3, 6, 2, 5, 6, 4), {"tokens": 6}, split_full_length_features=False)
    assert values(dataset) == [
        [1, 1, 1, 3, 3, 4],
        [2, 2, 2, 2, 2, 2],
        [4, 4, 4, 4, 6, 6],
        [5, 5, 5, 5, 5, 5],
        [6, 6, 0, 0, 0, 0],
    ]
    assert_resumes_anywhere(dataset, ["tokens"])


def test_every_piece_may_start_with_a_token():
    dataset = split(of_lengths(3, 6), {"tokens": 6}, bos_features=("tokens",), **BOS)
    assert values(dataset) == [[99, 1, 1, 99, 2, 2], [99, 2, 2, 0, 0, 0]]


def test_types_and_shapes_are_those_of_the_first_document_of_a_row():
    documents = [{"tokens": np.ones((3, 2), np.float32)}, {"tokens": np.full((3, 2), 2.5)}]
    first, second = split(documents, {"tokens": 4})
    assert first["tokens"].dtype == np.float32
    assert first["tokens"].tolist() == [[1, 1], [1, 1], [1, 1], [2.5, 2.5]]
    assert second["tokens"].dtype == np.float64
    assert second["tokens"].shape == (4, 2)


def test_a_document_of_another_shape_than_the_rest_that_begins_its_row():
    iterator = iter(split([{"tokens": np.ones((6, 2))}, {"tokens": np.ones(2)}], {"tokens": 4}))
    next(iterator)
    with pytest.raises(ValueError, match=r"have the shape \(\), but those of a document before had \(2,\)"):
        next(iterator)
    assert next(iterator)["tokens"].tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]


def test_lists_are_documents():
    assert values(split([{"tokens": [1, 2, 3]}, {"tokens": [4]}], {"tokens": 2})) == [[1, 2], [3, 4]]


def test_meta_features_are_in_each_row_that_has_a_part_of_the_document(caplog):
    documents = [
        {"kind": np.array([7]), "tokens": np.arange(1, 10)},
        {"kind": np.array([8, 8]), "tokens": np.arange(2)},
    ]
    dataset = split(documents, {"kind": 2, "tokens": 4}, meta_features=("kind",))
    with caplog.at_level(logging.ERROR, "grain"):
        rows = list(dataset)
    assert [row["kind"].tolist() for row in rows] == [[7, 0], [7, 0], [7, 0], [8, 8]]
    assert [row["tokens"].tolist() for row in rows[2:]] == [[9, 0, 0, 0], [0, 1, 0, 0]]
    assert list(rows[0]) == ["kind", "tokens", "tokens_segment_ids", "tokens_positions"]
    assert "Meta feature 'kind' limited packing" in caplog.text
    assert_resumes_anywhere(dataset, ["kind", "tokens"])


# ---------------------------------------------------------------- where Grain goes wrong


def test_a_restore_from_json_loses_no_document():
    assert_resumes_anywhere(split(of_lengths(3, 6, 2, 5, 6, 4), {"tokens": 6}), ["tokens"])


def test_states_with_tuples_as_grain_gives_them():
    dataset = split(of_lengths(3, 6, 2), {"tokens": 6})
    for position, slices in ((0, (-1, -1)), (1, (3, 6))):
        iterator = iter(dataset)
        iterator.set_state(
            {
                "parent_state": {"next_index": position},
                "remainder_slices": {"tokens": slices},
                "elements_from_buffer_after_checkpoint": 0,
            }
        )
        assert values(iterator) == values(dataset)[position:]


def test_each_feature_is_cut_where_it_is_itself():
    dataset = split([{"a": np.arange(1, 9), "b": np.array([10, 11])}], {"a": 3, "b": 10})
    assert values(dataset, "a") == [[1, 2, 3], [4, 5, 6], [7, 8, 0]]
    assert values(dataset, "b") == [[10, 11, *[0] * 8], [0] * 10, [0] * 10]
    assert_resumes_anywhere(dataset, ["a", "b"])


@pytest.mark.parametrize("seed", range(20))
def test_several_features_and_repeated_splits_lose_and_repeat_nothing(seed):
    rng = np.random.default_rng(seed)
    lengths = {name: int(rng.integers(1, 9)) for name in ("a", "b", "c")}
    documents, next_token = [], 1
    for _ in range(12):
        document = {}
        for name in lengths:
            count = int(rng.integers(0, 20))
            document[name] = np.arange(next_token, next_token + count)
            next_token += count
        documents.append(document)
    dataset = split(documents, lengths, split_full_length_features=bool(seed % 2))
    rows = list(dataset)
    for name in lengths:
        written = np.concatenate([row[name][row[f"{name}_segment_ids"] > 0] for row in rows])
        expected = np.concatenate([document[name] for document in documents])
        assert sorted(written.tolist()) == expected.tolist()
        if seed % 2:
            assert written.tolist() == expected.tolist()
    assert_resumes_anywhere(dataset, list(lengths))


def test_an_empty_piece_gets_no_token():
    documents = [{"a": np.arange(1, 6), "b": np.array([7])}, {"a": np.array([6]), "b": np.array([8])}]
    dataset = split(documents, {"a": 3, "b": 4}, bos_features=("b",), **BOS)
    assert values(dataset, "b") == [[99, 0, 0, 0], [99, 0, 0, 0]]
    full = [{"a": np.arange(4), "b": np.arange(2)}, {"a": np.arange(0), "b": np.arange(0)}]
    assert values(split(full, {"a": 4, "b": 2}, bos_features=("a", "b"), **BOS), "b") == [[99, 1]]


def test_numbers_by_themselves_need_room_in_each_row():
    documents = [{"tokens": np.arange(1, count + 1), "kind": 10 + i} for i, count in enumerate((6, 6, 2, 2, 3))]
    dataset = split(documents, {"tokens": 8, "kind": 2})
    assert values(dataset, "kind") == [[10, 11], [11, 12], [13, 14]]
    assert values(dataset) == [[1, 2, 3, 4, 5, 6, 1, 2], [3, 4, 5, 6, 1, 2, 0, 0], [1, 2, 1, 2, 3, 0, 0, 0]]
    assert_resumes_anywhere(dataset, ["tokens", "kind"])


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bos_token_id": 1}, "bos_token_id and bos_features should not be set"),
        ({"bos_features": ("tokens",)}, "bos_token_id and bos_features should not be set"),
        ({**BOS, "bos_token_id": None}, "bos_token_id must be set if bos_handling is BOSHandling.REPLACE"),
        (
            {**BOS, "bos_features": ["tokens"], "meta_features": ["tokens"]},
            "bos_features and meta_features should not over",
        ),
        ({"length_struct": {"tokens": 0}}, "length_struct must have a positive length for each feature"),
        ({"length_struct": {}}, "length_struct must have a positive length for each feature"),
    ],
)
def test_options_that_make_no_sense(options, message):
    stream = MapDataset.source(of_lengths(1)).to_iter_dataset()
    with pytest.raises(ValueError, match=message):
        ConcatThenSplitIterDataset(stream, **{"length_struct": {"tokens": 4}, **options})


@pytest.mark.parametrize("options", [{"length_struct": {"tokens": 4}, "bos_feature": ["tokens"]}, {}])
def test_options_that_are_unknown_or_missing(options):
    with pytest.raises(TypeError, match=r"bos_feature|length_struct"):
        MapDataset.source(of_lengths(1)).to_iter_dataset().concat_and_split(**options)


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (np.arange(2), r"must be unnested dictionaries but got int64\[2\]"),
        (
            {"tokens": np.arange(2), "b": 1},
            r"structure {'b': 'int\[\]', 'tokens': 'int64\[2\]'} but target .* {'tokens': 4}",
        ),
        ({"b": np.arange(2)}, "There must be a sequence length for each feature"),
        ({"tokens": np.ones((2, 2))}, r"'tokens' have the shape \(2,\), but those of a document before had \(\)"),
    ],
)
def test_an_element_that_is_no_such_document_is_told_and_passed_over(element, message):
    iterator = iter(split([{"tokens": np.array([1])}, element, {"tokens": np.array([2])}], {"tokens": 4}))
    with pytest.raises(ValueError, match=message) as caught:
        next(iterator)
    assert any("ConcatThenSplitIterDataset for the element at index 1" in note for note in caught.value.__notes__)
    assert next(iterator)["tokens"].tolist() == [1, 2, 0, 0]


def test_a_meta_feature_that_is_longer_than_a_row():
    iterator = iter(
        split([{"kind": np.arange(3), "tokens": np.arange(2)}], {"kind": 2, "tokens": 4}, meta_features=["kind"])
    )
    with pytest.raises(ValueError, match="'kind' has 3 tokens, a row only 2"):
        next(iterator)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"remainder_slices": {"other": [-1, -1]}}, r"remainder_slices must be those of \['tokens'\]"),
        ({"elements_from_buffer_after_checkpoint": 2}, "2 rows were handed out where there are only 1"),
        ({"parent_state": {"next_index": 2}, "remainder_slices": {"tokens": [1, 2]}}, "document .* is missing"),
    ],
)
def test_states_of_another_pipeline(changes, message):
    dataset = split(of_lengths(3, 3), {"tokens": 3})
    state = {**iter(dataset).get_state(), **changes}
    with pytest.raises(ValueError, match=message):
        next(resumed(dataset, state))


def test_statistics():
    iterator = iter(split(of_lengths(3, 6), {"tokens": 6}).batch(2))
    list(iterator)
    statistics = iterator.packing_statistics
    assert (statistics.rows, statistics.sequences) == (2, 3)
    assert statistics.efficiency == {"tokens": 9 / 12}
