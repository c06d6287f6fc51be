"""Whatever the element steps are, all ways to run them agree with the plainest one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from grain import transforms
from grain.graph.functions import Function
from grain.indices.rng import RngPool
from grain.ops.flattening import ItemOrNone
from grain.plan.element_steps import Apply, ApplyRandom, ApplyWithIndex, Keep
from grain.plan.index_steps import IndexStep, Modulo, Permute, Stride
from grain.plan.kinds import Read
from grain.plan.reads import Items
from grain.runtime.local import element_loops
from grain.runtime.local.inline import Block, at

LENGTH = 12


class BrokenError(Exception):
    """What users' code raises here."""


class Behaviour:
    """A user's function that gives None for some elements and fails for others; it sees neither None nor twice."""

    def __init__(self, name, missing, failing):
        self.__name__, self.missing, self.failing = name, missing, failing

    def __call__(self, *args):
        assert None not in args
        number = sum(arg if isinstance(arg, int) else int(arg.integers(5)) for arg in args)
        if number % 7 in self.failing:
            raise BrokenError(self.__name__, number)
        return None if number % 5 in self.missing else number + 1


class Fan(transforms.FlatMap):
    max_fan_out = 2

    def __init__(self, behaviour):
        self.behaviour = behaviour

    def flat_map(self, element):
        return [self.behaviour(element)] * (1 + element % 2)


def element_step(kind, function):
    if kind is ApplyRandom:
        return ApplyRandom("RandomMap", Function(function, "random_map"), 3)
    if kind is ItemOrNone:
        return ItemOrNone("FlatMap", Function(Fan(function), "flat_map"), 2)
    method = {Apply: "map", Keep: "filter", ApplyWithIndex: "map_with_index"}[kind]
    return kind(kind.__name__, Function(function, method))


FEW = st.frozensets(st.integers(0, 6), max_size=2)
FUNCTIONS = st.builds(Behaviour, st.sampled_from("fgh"), FEW, FEW)
ELEMENT_STEPS = st.builds(
    element_step, st.sampled_from([Apply, Apply, Apply, Keep, ApplyWithIndex, ApplyRandom, ItemOrNone]), FUNCTIONS
)
INDEX_STEPS = st.sampled_from([Modulo(5), Permute(LENGTH, 4), Stride(1, 3, 4, LENGTH)])
SOURCES = st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=LENGTH, max_size=LENGTH)


@st.composite
def plans(draw):
    steps = draw(st.lists(st.one_of(ELEMENT_STEPS, ELEMENT_STEPS, INDEX_STEPS), max_size=5))
    if draw(st.booleans()) and steps:
        steps.append(draw(st.sampled_from(steps)))  # the same function twice
    return Read(Items(draw(SOURCES)), (Modulo(LENGTH), *steps))


def outcome(make):
    """An element, or the error in its place with its notes."""
    try:
        return make()
    except BrokenError as error:
        return error.args, error.__notes__


def reference(plan, index):
    """The element at an index, by the rules of `element_loops`, one step at a time."""
    indices = [index]
    for step in reversed(plan.steps):
        indices.append(step(indices[-1]) if isinstance(step, IndexStep) else indices[-1])
    element = plan.records.source[indices.pop()]
    for step in plan.steps:
        place = indices.pop()
        if isinstance(step, IndexStep) or element is None:
            continue
        try:
            element = applied(step, element, place)
        except BrokenError as error:
            error.add_note(f"Raised in {step.title}(transform={step.function.place}) for the element at index {place}.")
            raise
    return element


def applied(step, element, index):
    function = step.function.call
    if isinstance(step, Keep):
        return element if function(element) else None
    if isinstance(step, ApplyWithIndex):
        return function(index, element)
    if isinstance(step, ApplyRandom):
        return function(element, RngPool(step.seed).acquire_rng(index))
    if isinstance(step, ItemOrNone):
        items = function(element)
        return items[index % 2] if index % 2 < len(items) else None
    return function(element)


def read_on(elements_from, count):
    """All outcomes, going on after each error."""
    found = []
    while len(found) < count:
        elements = elements_from(len(found))
        try:
            for element in elements:
                found.append(element)
        except BrokenError as error:
            found.append((error.args, error.__notes__))
    return found


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(plans(), st.integers(0, 40))
def test_all_ways_agree(plan, start):
    indices = np.arange(start, start + 15)
    expected = [outcome(lambda index=index: reference(plan, index)) for index in indices.tolist()]
    assert [outcome(lambda index=index: at(plan, index)) for index in indices.tolist()] == expected
    block = Block(plan, indices)
    assert read_on(block.elements, len(indices)) == expected
    if plan.calls:
        assert read_on(lambda position: in_general(block, position), len(indices)) == expected


def in_general(block, position):
    """The elements from `position` on, by the loop that can do all."""
    block._steps._loop = element_loops.general
    return block.elements(position)


def test_the_fastest_loop_is_chosen():
    def loop(*kinds):
        steps = tuple(element_step(kind, Behaviour("f", (), ())) for kind in kinds)
        return element_loops.loop_of(Read(Items([]), steps).calls)

    assert loop(Apply) is loop(Apply, Apply) is element_loops.mapped
    assert loop(Keep) is element_loops.filtered
    assert loop(Keep, Keep) is loop(Apply, Keep) is loop(ApplyWithIndex) is loop(ApplyRandom) is element_loops.general
    same = element_step(Apply, Behaviour("f", (), ()))
    assert element_loops.loop_of(Read(Items([]), (same, same)).calls) is element_loops.general
