"""Positions in the checkpoints of Orbax, also in those that Grain wrote."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint import v1

import grain
import grain.python
from grain.checkpoint import CheckpointHandler, CheckpointRestore, CheckpointSave

WRITTEN_BY_GRAIN = Path(__file__).parents[2] / "golden" / "checkpoints"
NAME = "process_0-of-1.json"


def indexed():
    return grain.MapDataset.range(20).shuffle(seed=3).to_iter_dataset().map_with_index(lambda i, x: (i, x))


def randomized():
    stream = grain.MapDataset.range(30).to_iter_dataset()
    stream = stream.random_map(lambda x, rng: (x, int(rng.integers(1000))), seed=7)
    return stream.window_shuffle(4, seed=2).batch(2, batch_fn=list)


def interleaved():
    return grain.IterDataset.interleave([grain.MapDataset.range(i, 30, 5) for i in range(5)], cycle_length=2)


def with_workers():
    stream = grain.MapDataset.range(20).to_iter_dataset().map(lambda x: x * x)
    return stream.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


PIPELINES = {"indexed": indexed, "random": randomized, "interleaved": interleaved, "workers": with_workers}


def loader(**options):
    sampler = grain.IndexSampler(10, shuffle=True, seed=1, num_epochs=1)
    source = options.pop("data_source", grain.RangeDataSource(0, 10, 1))
    return grain.DataLoader(data_source=source, sampler=sampler, operations=[grain.Batch(2)], **options)


class ByteIterator:
    """An iterator whose state is bytes, as that of a DataLoader."""

    def __init__(self):
        self.position, self.is_started = 0, False

    def __next__(self):
        self.position += 1
        return self.position

    def get_state(self):
        return json.dumps({"version": 2, "position": self.position}, indent=4).encode()

    def set_state(self, state):
        self.position = json.loads(state.decode())["position"]

    def start_prefetch(self):
        self.is_started = True


def advanced(dataset, count=5):
    iterator = iter(dataset)
    for _ in range(count):
        next(iterator)
    return iterator


@pytest.mark.parametrize("name", PIPELINES)
def test_files_are_as_grain_writes_them(name, tmp_path):
    with ocp.CheckpointManager(tmp_path) as manager, advanced(PIPELINES[name]()) as iterator:
        manager.save(5, args=CheckpointSave(iterator))
    expected = WRITTEN_BY_GRAIN / name
    written = (tmp_path / "5" / "default" / NAME).read_bytes()
    assert written == (expected / "5" / "default" / NAME).read_bytes()
    handlers = [json.loads((path / "5" / "_CHECKPOINT_METADATA").read_text()) for path in (tmp_path, expected)]
    assert handlers[0]["item_handlers"] == handlers[1]["item_handlers"]


@pytest.mark.parametrize("name", PIPELINES)
def test_checkpoints_of_grain_are_restored(name, tmp_path):
    dataset = PIPELINES[name]()
    shutil.copytree(WRITTEN_BY_GRAIN / name, tmp_path, dirs_exist_ok=True)
    with ocp.CheckpointManager(tmp_path) as manager, iter(dataset) as iterator:
        assert manager.restore(5, args=CheckpointRestore(iterator)) is iterator
        assert list(iterator) == list(dataset)[5:]


def test_loader_checkpoint_of_grain(tmp_path):
    shutil.copytree(WRITTEN_BY_GRAIN / "loader", tmp_path, dirs_exist_ok=True)
    with ocp.CheckpointManager(tmp_path) as manager:
        iterator = manager.restore(2, args=CheckpointRestore(iter(loader())))
        manager.save(3, args=CheckpointSave(iterator))
    assert (tmp_path / "3" / "default" / NAME).read_bytes() == (tmp_path / "2" / "default" / NAME).read_bytes()
    assert [batch.tolist() for batch in iterator] == [[4, 8], [9, 2], [1, 3]]


def test_stateful_loader(tmp_path):
    iterator, again = advanced(loader(), 2), iter(loader())
    v1.save_checkpointables(tmp_path / "step", {"data": iterator})
    v1.load_checkpointables(tmp_path / "step", {"data": again})
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in iterator]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"worker_count": 1}, "(?s)Worker count.*checkpoint: 0.*dataloader: 1"),
        ({"data_source": grain.RangeDataSource(0, 20, 2)}, r"(?s)DataSource.*stop=10.*stop=20"),
    ],
)
def test_another_loader_says_what_differs(options, words, tmp_path):
    CheckpointHandler().save(tmp_path, advanced(loader(), 2))
    other = iter(loader(**options))
    with pytest.raises(ValueError, match=words) as caught:
        CheckpointHandler().restore(tmp_path, other)
    assert str(tmp_path) in caught.value.__notes__[-1]
    assert len(list(other)) == 5


@pytest.mark.parametrize("text", ['{\n    "version": 2,\n    "last_se', "", "[]", "{}"])
def test_a_loader_state_that_was_cut_short(text, tmp_path):
    (tmp_path / NAME).write_text(text)
    iterator = advanced(loader(), 2)
    with pytest.raises(ValueError, match=r"cut short|The state"):
        CheckpointHandler().restore(tmp_path, iterator)
    assert len(list(iterator)) == 3


def test_composite_checkpoint_of_grain(tmp_path):
    shutil.copytree(WRITTEN_BY_GRAIN / "composite", tmp_path, dirs_exist_ok=True)
    iterator = iter(indexed())
    with ocp.CheckpointManager(tmp_path) as manager:
        wanted = ocp.args.Composite(data=CheckpointRestore(iterator), note=ocp.args.JsonRestore())
        restored = manager.restore(5, args=wanted)
    assert restored.note == {"loss": 1.5}
    assert restored.data is iterator
    assert list(iterator) == list(indexed())[5:]


def test_stateful_checkpoint_of_grain(tmp_path):
    shutil.copytree(WRITTEN_BY_GRAIN / "stateful", tmp_path / "step")
    iterator = iter(indexed())
    v1.load_checkpointables(tmp_path / "step", {"data": iterator})
    assert list(iterator) == list(indexed())[5:]


def test_states_that_are_bytes(tmp_path):
    original, iterator = ByteIterator(), ByteIterator()
    next(original), next(original)
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=CheckpointSave(original))
        manager.wait_until_finished()
        manager.restore(1, args=CheckpointRestore(iterator))
    assert (tmp_path / "1" / "default" / NAME).read_bytes() == original.get_state()
    assert next(iterator) == 3
    assert iterator.is_started


def test_beside_a_model_while_training_goes_on(tmp_path):
    iterator = iter(indexed())
    expected = list(indexed())
    with ocp.CheckpointManager(tmp_path, options=ocp.CheckpointManagerOptions(max_to_keep=3)) as manager:
        for step in range(6):
            assert next(iterator) == expected[step]
            model = ocp.args.StandardSave({"step": np.array(step)})
            manager.save(step, args=ocp.args.Composite(model=model, data=CheckpointSave(iterator)))
    with ocp.CheckpointManager(tmp_path) as manager:
        again = iter(indexed())
        model = ocp.args.StandardRestore({"step": np.array(0)})
        restored = manager.restore(4, args=ocp.args.Composite(model=model, data=CheckpointRestore(again)))
    assert restored.model["step"] == 4
    assert list(again) == expected[5:]


def test_asynchronous_checkpoints_hold_the_position_of_the_call(tmp_path):
    iterator = advanced(indexed(), 3)
    with ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        big = ocp.args.StandardSave({"w": np.zeros(1_000_000)})
        checkpointer.save(tmp_path / "step", args=ocp.args.Composite(model=big, data=CheckpointSave(iterator)))
        rest = list(iterator)
        checkpointer.wait_until_finished()
        again = iter(indexed())
        checkpointer.restore(tmp_path / "step", args=ocp.args.Composite(data=CheckpointRestore(again)))
    assert list(again) == rest


def test_handler_alone_in_a_checkpointer(tmp_path):
    iterator, again = advanced(indexed(), 3), iter(indexed())
    with ocp.Checkpointer(CheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "new", args=CheckpointSave(iterator))
        checkpointer.restore(tmp_path / "new", args=CheckpointRestore(again))
        assert (tmp_path / "new" / NAME).exists()
        assert next(again) == next(iterator)


def test_handlers_derived_from_it_have_names_of_their_own():
    from orbax.checkpoint.experimental.emergency.p2p import local

    derived = local._LocalPyGrainHandlerMixin
    assert issubclass(derived, CheckpointHandler)
    assert derived.typestr() != CheckpointHandler.typestr()


def test_handler_made_before_its_arguments_are_used():
    script = """
import orbax.checkpoint as ocp, grain.python as grain, tempfile, pathlib
with tempfile.TemporaryDirectory() as folder, ocp.Checkpointer(grain.PyGrainCheckpointHandler()) as checkpointer:
    path = pathlib.Path(folder) / "new"
    checkpointer.save(path, args=grain.PyGrainCheckpointSave(iter(grain.MapDataset.range(3))))
    assert [path.name for path in path.glob("process*")] == ["process_0-of-1.json"]
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_stateful_protocol(tmp_path):
    iterator = advanced(indexed(), 3)
    v1.save_checkpointables(tmp_path / "step", {"data": iterator, "model": {"w": np.arange(3.0)}})
    again = iter(indexed())
    loaded = v1.load_checkpointables(tmp_path / "step", {"data": again, "model": {"w": np.zeros(3)}})
    assert loaded["model"]["w"].tolist() == [0.0, 1.0, 2.0]
    assert list(again) == list(iterator)


def test_stateful_protocol_notes_the_position_at_once(tmp_path):
    class Directory:
        async def await_creation(self):
            return tmp_path

    async def save(iterator):
        writing = await iterator.save(Directory())
        rest = list(iterator)
        assert not (tmp_path / NAME).exists()
        await writing
        return rest

    async def load(iterator):
        await (await iterator.load(tmp_path))

    again = iter(indexed())
    rest = asyncio.run(save(advanced(indexed(), 3)))
    asyncio.run(load(again))
    assert list(again) == rest


def test_no_orbax_no_arguments():
    script = """
import sys
sys.modules["orbax"] = None
import grain, grain.python
assert not hasattr(grain.checkpoint, "CheckpointSave") and not hasattr(grain.python, "PyGrainCheckpointRestore")
try:
    grain.CheckpointSave
except AttributeError as error:
    assert "orbax" in str(error), error
iterator = iter(grain.MapDataset.range(3))
grain.checkpoint.CheckpointHandler()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def save_text(folder, text):
    (folder / NAME).write_text(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n    "parent": {\n        "next_ind', "cut short"),
        ("", "cut short"),
        ("[1, 2]", r"\[1, 2\]"),
        ('{"next_index": 3}', "needs the keys"),
        ('{"parent": {"next_index": 3}}', "needs the keys"),
        ('{"parent": {"next_index": "3"}, "counter": 3}', "must be an integer"),
        ('{"parent": {"next_index": 2000}, "counter": 3}', "out of range for dataset of length 20"),
    ],
)
def test_a_state_that_does_not_fit_leaves_the_iterator_as_it_was(text, words, tmp_path):
    save_text(tmp_path, text)
    iterator = advanced(indexed(), 4)
    with pytest.raises((ValueError, TypeError, IndexError), match=words) as caught:
        CheckpointHandler().restore(tmp_path, iterator)
    assert str(tmp_path) in caught.value.__notes__[-1]
    assert list(iterator) == list(indexed())[4:]


def test_a_file_that_is_missing(tmp_path):
    iterator = iter(indexed())
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=r"process_0-of-1\.json does not exist.*no states"):
            CheckpointHandler().restore(folder, iterator)
    (tmp_path / "process_1-of-4.json").write_text("{}")
    with pytest.raises(ValueError, match=r"of 4 process\(es\), and this is process 0 of 1"):
        CheckpointHandler().restore(tmp_path, iterator)


def test_nothing_to_save(tmp_path):
    with pytest.raises(ValueError, match=r"CheckpointSave\(iterator\)"):
        CheckpointHandler().save(tmp_path)
