"""Plans are data: they can be printed, compared and pickled, and passes change none of them."""

from __future__ import annotations

import pickle
import types

import cloudpickle
import numpy as np
import pytest

from grain import MapDataset, samplers
from grain.fields import Compared, brief
from grain.graph.node import Node
from grain.indices.selection import FanOut, Proportions
from grain.ops.sampling import sampled
from grain.plan import passes
from grain.plan.index_steps import (
    Affine,
    Divide,
    Lookup,
    Modulo,
    ModuloLength,
    Permute,
    Progression,
    RecordKeys,
    Stride,
    Unfold,
    WindowPermute,
)
from grain.plan.kinds import Gather, Plan
from grain.plan.lowering import _lowered, random_access
from grain.plan.picking import PermuteEach
from grain.sharding import NoSharding
from support.pipelines import MAP_PIPELINES, numbers
from support.user_code import add_one, is_even, pair_with_index

STEPS = [
    (Modulo(7), "Modulo(length=7)"),
    (ModuloLength([1, 2, 3]), "Modulo(length=3)"),
    (Progression(2, -3, 5), "Progression(start=2, step=-3, length=5)"),
    (Affine(4, 1), "Affine(scale=4, offset=1)"),
    (Divide(3), "Divide(count=3)"),
    (Permute(10, 42), "Permute(length=10, seed=42)"),
    (WindowPermute(4, 1), "WindowPermute(size=4, seed=1)"),
    (Stride(1, 2, 3, 9), "Stride(start=1, step=2, length=3, length_below=9)"),
    (Lookup(list(range(100)), 100), "Lookup(table=[0, 1, 2, … 97 more], length_below=100)"),
    (Lookup(np.array([3, 1]), 4), "Lookup(table=[3, 1], length_below=4)"),
    (Unfold(FanOut([2, 0, 1])), "Unfold(fan_out=FanOut(starts=[0, 2, 2, 3]))"),
    (
        RecordKeys(samplers.IndexSampler(5, shuffle=True, num_epochs=1, seed=3)),
        "RecordKeys(sampler=IndexSampler(num_records=5, shard_options=NoSharding(shard_index=0, shard_count=1, "
        "drop_remainder=False), shuffle=True, num_epochs=1, seed=3))",
    ),
]


@pytest.mark.parametrize(
    ("step", "text"), STEPS, ids=lambda value: "" if isinstance(value, str) else type(value).__name__
)
def test_index_steps_are_data(step, text):
    copy = pickle.loads(pickle.dumps(step))
    assert repr(step) == text
    assert copy == step
    assert hash(copy) == hash(step)
    indices = np.arange(40)
    assert [step(int(index)) for index in indices] == [step.function(int(index)) for index in indices]
    assert step(indices).tolist() == copy(indices).tolist() == [step(int(index)) for index in indices]
    with pytest.raises(AttributeError, match="immutable"):
        step.anything = 1


def test_steps_differ_where_a_field_does():
    steps = [step for step, _ in STEPS]
    assert sum(one == other for one in steps for other in steps) == len(steps)
    assert Modulo(7) != Modulo(8)
    assert Lookup(np.array([1, 2]), 4) != Lookup(np.array([1, 3]), 4)
    assert Modulo(7) != 7


def test_what_cannot_be_compared_is_equal_to_itself_alone():
    class Odd:
        def __eq__(self, other):
            raise RuntimeError

        __hash__ = None

    odd = Odd()
    assert ModuloLength(odd) == ModuloLength(odd)
    assert ModuloLength(odd) != ModuloLength(Odd())
    assert isinstance(hash(ModuloLength(odd)), int)


def parts_of(value):
    """All that a plan is made of."""
    yield value
    if isinstance(value, Compared):
        for name in value.field_names:
            yield from parts_of(getattr(value, name))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from parts_of(item)


def is_made_on_the_way(value):
    """Whether `value` is code that only its maker can make again: a closure, or a method of a node."""
    if isinstance(value, types.MethodType):
        return isinstance(value.__self__, Node)
    return isinstance(value, types.FunctionType) and value.__module__.startswith("grain.")


@pytest.mark.parametrize("name", MAP_PIPELINES)
def test_plans_of_pipelines_are_data(name):
    one, other = (random_access(MAP_PIPELINES[name]()._as_node) for _ in range(2))
    assert not any(is_made_on_the_way(part) or isinstance(part, Node) for part in parts_of(one))
    assert hash(one) == hash(one)
    copy = cloudpickle.loads(cloudpickle.dumps(one))
    assert repr(copy) == repr(one) == repr(other)


def some_pipeline(seed=1, function=add_one):
    parts = [numbers(20).shuffle(seed=seed), MapDataset.source(list(range(9))).shuffle(seed=2)]
    mixed = MapDataset.mix(parts, weights=[1, 2]).map(function).map_with_index(pair_with_index)
    return MapDataset.zip([mixed, mixed])[1::2].repeat(2, reseed_each_epoch=False).batch(3)


def plan_of(dataset):
    return random_access(dataset._as_node)


def test_plans_are_compared_by_what_they_do():
    assert plan_of(some_pipeline()) == plan_of(some_pipeline())
    assert plan_of(some_pipeline()) != plan_of(some_pipeline(seed=5))
    assert plan_of(some_pipeline()) != plan_of(some_pipeline(function=is_even))


def test_plans_that_have_run_can_be_pickled():
    dataset = some_pipeline()
    plan = plan_of(dataset)
    assert plan.descent is not None
    assert all(child.calls is not None and child.descent is not None for child in plan.inputs)
    copy = pickle.loads(pickle.dumps(plan))
    assert copy == plan
    assert vars(copy).keys() == set(plan.field_names)


def test_passes_change_no_plan():
    node = some_pipeline()._as_node
    plan, untouched = _lowered(node), _lowered(node)
    for improved in passes.PASSES:
        assert isinstance(improved(plan), Plan)
        assert plan == untouched
        assert improved(improved(plan)) == improved(plan)
    assert [improved.__name__ for improved in passes.PASSES] == ["hoist_shuffles", "batch_reads"]


def test_shuffles_are_hoisted():
    parts = [numbers(20).shuffle(seed=1), numbers(30).shuffle(seed=2)]
    plan = plan_of(MapDataset.mix(parts))
    assert isinstance(plan, Gather)
    assert plan.picks == PermuteEach(Proportions([1, 1]), (20, 30), (1, 2))
    assert [child.steps for child in plan.children] == [(Modulo(20),), (Modulo(30),)]
    assert plan_of(MapDataset.mix([*parts, numbers(5)])).picks == Proportions([1, 1, 1])


def test_what_is_shared_stays_shared():
    dataset = numbers(4).shuffle(seed=1)
    for _ in range(60):  # 2**60 paths
        dataset = MapDataset.concatenate([dataset, dataset])[:4]
    plan = plan_of(dataset)
    assert plan.inputs[0] is plan.inputs[1]
    assert [dataset[index] for index in range(4)] == list(numbers(4).shuffle(seed=1))


def test_the_order_of_a_loader_is_data_too():
    def plan():
        sampler = samplers.IndexSampler(8, shuffle=True, num_epochs=1, seed=3)
        return random_access(sampled(list(range(8)), sampler, NoSharding(), with_metadata=True))

    assert plan() == plan() == pickle.loads(pickle.dumps(plan()))


def test_long_sequences_are_shown_briefly():
    assert brief((1,)) == "(1,)"
    assert brief([(1, 2), "x"]) == "[(1, 2), 'x']"
    assert brief(np.arange(1000)) == "[0, 1, 2, … 997 more]"
    assert brief(list(range(5000))) == "[0, 1, 2, … 4,997 more]"
