"""Answers recorded from Grain 0.2.18, replayed: lengths, elements, states, and restoring the states that Grain wrote.

specs.jsonl holds random pipelines, each with how many elements to take and where to save; answers.jsonl what Grain
answered, or the type of its error. Left out are pipelines of which Grain loses a part or fails: DataLoaders whose
shards are not equally long, and two that batch values of mixed types into shared memory. Where it loses a document
after a restore (`loses_a_document`) its answer is kept, and is not ours. packing.jsonl holds documents, options and
Grain's answers for all kinds of packing. table.jsonl holds its answers for the rows of support/pipelines.py, but those
that it lacks (slicing by a sequence of indices, packing by methods) or does wrong (a repeated interleave saves stale
flags, one of datasets with gaps fails).
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from grain import MapDataset, ReadOptions, experimental
from grain.experimental import BOSHandling
from support import comparison, golden_pipelines, pipelines
from support.golden_pipelines import as_state, build, plain

GOLDEN = Path(__file__).parent


def read(name):
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def cases(accept):
    """The pairs of spec and answer for which `accept(answer)` holds, as parameters of a test."""
    answers = {answer["id"]: answer for answer in read("answers.jsonl")}
    pairs = [(spec, answers[spec["id"]]) for spec in read("specs.jsonl")]
    return pytest.mark.parametrize(
        ("spec", "answer"),
        [pytest.param(*pair, id=f"{pair[0]['kind']}-{pair[0]['id']}") for pair in pairs if accept(pair[1])],
    )


def taken(iterator, count):
    """The next `count` elements, and "END" where there are fewer."""
    elements = [plain(element) for element in itertools.islice(iterator, count)]
    return elements if len(elements) == count else [*elements, "END"]


@cases(lambda answer: "len" in answer)
def test_length_and_random_access(spec, answer):
    dataset = build(spec["tree"])
    length = len(dataset)
    assert length == answer["len"]
    if length:
        indices = (0, 1, length - 1, length, 2 * length + 1)
        assert [plain(dataset[index]) for index in indices] == answer["at"]


@cases(lambda answer: "out" in answer)
def test_elements_and_states(spec, answer):
    iterator = iter(build(spec["tree"]))
    elements, states = [], {}
    for position in range(spec["take"]):
        if position in spec["save"]:
            states[str(position)] = json.loads(json.dumps(plain(iterator.get_state())))
        elements += taken(iterator, 1)
        if elements[-1] == "END":
            break
    assert elements == answer["out"]
    assert states == answer["states"]


def loses_a_document(spec, state):
    """Whether Grain goes wrong when it restores `state`: where no document is cut, it says so with the pair (-1, -1).

    From JSON that comes back as a list, which Grain does not recognise: it takes the next document for a cut one, and
    passes over it.
    """
    return spec["tree"][0] == "cts" and state["remainder_slices"] == {"tokens": [-1, -1]}


@cases(lambda answer: answer.get("states"))
def test_states_that_grain_wrote_are_restored(spec, answer):
    for position, state in answer["states"].items():
        iterator = iter(build(spec["tree"]))
        iterator.set_state(as_state(state))
        assert plain(iterator.get_state()) == state
        found, again = taken(iterator, 6), answer["again"][position]
        uninterrupted = answer["out"][int(position) :][:6]
        if loses_a_document(spec, state):
            assert again[: len(uninterrupted)] != uninterrupted, "Grain's defect is to be seen in its answer"
            assert found[: len(uninterrupted)] == uninterrupted
        else:
            assert found == again, f"restored after {position} elements"


@cases(lambda answer: "error" in answer)
def test_errors(spec, answer):
    with pytest.raises(Exception) as raised:  # noqa: PT011 - its type is compared below
        list(build(spec["tree"]))
    assert answer["error"] in {kind.__name__ for kind in type(raised.value).__mro__}


def test_every_operator_that_can_be_built_is_recorded():
    used = set()
    waiting = [spec["tree"] for spec in read("specs.jsonl")]
    for tree in waiting:  # grows while it is gone through
        if isinstance(tree, list):
            waiting += tree
            used |= {tree[0]} & golden_pipelines.OPERATORS.keys() if tree and isinstance(tree[0], str) else set()
    assert used == golden_pipelines.OPERATORS.keys()


# ---------------------------------------------------------------- the contract table


TABLE = {answer["name"]: answer for answer in read("table.jsonl")}


@pytest.fixture(params=TABLE)
def recorded(request):
    return TABLE[request.param]


def as_json(value):
    return json.loads(json.dumps(comparison.plain(value)))


@pytest.mark.parametrize("name", [name for name in TABLE if name.startswith("map: ")])
def test_table_length_and_random_access(name):
    dataset = pipelines.MAP_PIPELINES[name.removeprefix("map: ")]()
    assert len(dataset) == TABLE[name]["len"]
    assert [as_json(dataset[index]) for index in range(3 * len(dataset))] == TABLE[name]["at"]


def test_table_elements_and_states(recorded):
    iterator = iter(pipelines.iter_pipeline(recorded["name"], "inline"))
    states, elements = [as_json(iterator.get_state())], []
    for element in iterator:
        elements.append(as_json(element))
        states.append(as_json(iterator.get_state()))
    assert elements == recorded["out"]
    assert [*states, as_json(iterator.get_state())] == recorded["states"]


def test_table_states_that_grain_wrote_are_restored(recorded):
    for position, state in enumerate(recorded["states"]):
        iterator = iter(pipelines.iter_pipeline(recorded["name"], "inline"))
        iterator.set_state(state)
        assert iterator.get_state() == state
        assert [as_json(element) for element in iterator] == recorded["out"][position:]


# ---------------------------------------------------------------- packing


def decoded(value):
    """A recorded value: arrays with their types, and shapes even where they are empty."""
    return np.array(value["v"], value["dtype"]).reshape(value["shape"]) if isinstance(value, dict) else value


@pytest.fixture(params=read("packing.jsonl"), ids=lambda case: case["operator"])
def packed(request):
    """Documents packed by us, and what Grain recorded."""
    case = request.param
    documents = [{name: decoded(value) for name, value in document.items()} for document in case["documents"]]
    options = dict(case["options"])
    if "bos_handling" in options:
        options["bos_handling"] = BOSHandling[options["bos_handling"]]
    stream = MapDataset.source(documents).to_iter_dataset(ReadOptions(num_threads=0, prefetch_buffer_size=0))
    return getattr(experimental, case["operator"])(stream, **options), case


def as_recorded(row):
    """A row with all that is to be the same: the order of its keys, types, shapes, values."""
    return [[name, comparison.plain(value)] for name, value in row.items()]


def test_packed_rows_and_states(packed):
    dataset, case = packed
    expected = [[[name, comparison.plain(decoded(value))] for name, value in row] for row in case["rows"]]
    iterator = iter(dataset)
    states, rows = [iterator.get_state()], []
    for row in iterator:
        rows.append(as_recorded(row))
        states.append(iterator.get_state())
    assert rows == expected
    assert states == case["states"]
    for position, state in enumerate(case["states"]):
        iterator.set_state(state)
        assert [as_recorded(row) for row in iterator] == expected[position:], f"restored after {position} rows"
