"""The number of threads is right for every kind of work, on a clock that only moves when it is told to."""

import pytest

from grain.runtime.local.pacing import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    NOTHING_LEARNED,
    START_SECONDS,
    Learned,
    Pacing,
    Speed,
    resized,
)

CEILING = 16


class FakeProbe:
    def __init__(self, is_free):
        self.is_free = is_free


class Simulation:
    """A consumer of chunks: `cost(level)` is the time of an element inside the reader, `outside` that after it."""

    def __init__(self, cost, outside=0.0, busy=1.0, gil_is_free=True, learned=NOTHING_LEARNED, ceiling=CEILING):
        self.cost, self.outside, self.busy = cost, outside, busy
        self.now, self.probes = 100.0, 0
        self.pacing = Pacing(ceiling, lambda: self.probe(gil_is_free), learned)
        self.levels = []

    def probe(self, is_free):
        self.probes += 1
        return FakeProbe(is_free)

    def run(self, seconds, count=1):
        ends = self.now + seconds
        while self.now < ends:
            entered, level = self.now, self.pacing.level
            self.now += count * self.cost(level)
            busy = self.busy * (self.now - entered) if level == 0 else None
            self.pacing.took(count, entered, self.now, busy=busy)
            self.now += count * self.outside
            self.levels.append(self.pacing.level)
        return self.pacing.level


def shared(cores, seconds=1e-3):
    """Work that as many threads as there are cores can do at once."""
    return lambda level: seconds / min(max(level, 1), cores)


def test_work_that_blocks_gets_all_threads_within_a_few_elements():
    simulation = Simulation(lambda level: 5e-3 / max(level, 1), busy=0.01)
    simulation.run(START_SECONDS + 0.03)
    assert simulation.pacing.level == CEILING
    assert set(simulation.levels) == {0, CEILING}
    assert simulation.run(10) == CEILING


def test_a_busy_machine_is_not_taken_for_blocking():
    """A function that holds the lock and seldom gets the processor."""
    simulation = Simulation(lambda level: 1e-3, busy=0.2, gil_is_free=False)
    simulation.run(5)
    assert set(simulation.levels) == {0}


def test_one_slow_opening_is_not_taken_for_blocking():
    pacing, now = Pacing(CEILING, lambda: FakeProbe(True)), START_SECONDS
    pacing.is_resting(0.0)
    pacing.took(1, now, now + 0.05, busy=0.0)
    pacing.took(1, now + 0.05, now + 0.051, busy=0.001)
    assert pacing.level == 0


@pytest.mark.parametrize("cores", [2, 4, 8])
def test_work_for_several_cores_gets_a_thread_for_each(cores):
    assert Simulation(shared(cores)).run(0.9) == cores


def test_there_are_never_more_threads_than_allowed():
    simulation = Simulation(shared(64), ceiling=6)
    assert simulation.run(5) == 6
    assert max(simulation.levels) == 6


def test_threads_are_not_tried_where_the_lock_is_held_all_the_time():
    simulation = Simulation(lambda level: 1e-4 * (1 + level), gil_is_free=False)
    simulation.run(100, count=10)
    assert set(simulation.levels) == {0}
    assert 3 <= simulation.probes <= 12


def test_threads_that_do_not_help_are_given_up_and_tried_ever_less_often():
    simulation = Simulation(lambda level: 1e-4 if level == 0 else 1.3e-4)
    simulation.run(120, count=10)
    assert simulation.pacing.level == 0
    assert sum(map(bool, simulation.levels)) < 0.02 * len(simulation.levels)
    assert any(simulation.levels[len(simulation.levels) // 2 :])  # but it never stops trying


def test_a_consumer_that_is_away_finds_elements_ready():
    """Its steps take so long that the time in the reader hardly counts, but it need not wait at all."""
    assert Simulation(lambda level: 1e-3 if level == 0 else 0.0, outside=0.03).run(2) == 2


def test_nothing_is_tried_where_the_reader_takes_hardly_any_time():
    simulation = Simulation(lambda level: 1e-6, outside=1e-4)
    simulation.run(20, count=10)
    assert set(simulation.levels) == {0}


def test_a_change_of_the_work_is_noticed():
    simulation = Simulation(shared(4))
    assert simulation.run(2) == 4
    simulation.cost = lambda level: 1e-3 * (1 + 0.1 * level)
    assert simulation.run(3 * LONGEST_PAUSE) == 0
    simulation.cost = shared(2)
    assert simulation.run(3 * LONGEST_PAUSE) == 2


def test_one_long_break_of_the_consumer_does_not_mislead():
    simulation = Simulation(lambda level: 1e-4 if level == 0 else 1.05e-4)
    simulation.run(0.05, count=10)
    simulation.now += 10  # an evaluation
    simulation.run(0.9, count=10)
    assert simulation.pacing.level == 0


def test_a_window_has_whole_training_steps():
    """Batches of 32 elements, 100 ms of work, then a step of 100 ms: windows of 30 ms would see one or the other."""
    pacing, now = Pacing(CEILING, lambda: FakeProbe(True)), 0.0
    for _ in range(20):
        for _ in range(32):
            seconds = 3e-3 if pacing.level == 0 else 0.0
            pacing.took(1, now, now + seconds, busy=seconds if pacing.level == 0 else None, is_full=True)
            now += seconds
        now += 0.1
    assert pacing.level == 2


def test_elements_from_before_a_change_of_level_do_not_count():
    """They come at once, and would make any level look good."""
    pacing, now, levels, left_over = Pacing(CEILING, lambda: FakeProbe(True), Learned(4, FIRST_PAUSE)), 0.0, [4], 0
    for _ in range(10_000):
        seconds = 0.0 if left_over else 1e-3
        pacing.took(1, now, now + seconds, ahead=100, busy=seconds if pacing.level == 0 else None)
        now += seconds
        left_over = 100 if pacing.level != levels[-1] else max(0, left_over - 1)
        levels.append(pacing.level)
    assert max(levels) == 8
    assert pacing.level == 0


def test_what_was_learned_is_used_next_time():
    first = Simulation(shared(4))
    first.run(0.9)
    assert first.pacing.learned == Learned(4, FIRST_PAUSE)
    second = Simulation(shared(4), learned=first.pacing.learned)
    second.run(0.5)
    assert set(second.levels) == {4}


def test_what_was_learned_respects_a_lower_ceiling():
    assert Pacing(2, lambda: FakeProbe(True), Learned(16, 1.0)).level == 2


def test_chunks_grow_until_they_take_a_millisecond_and_shrink_at_once():
    size = 1
    for _ in range(20):
        size = resized(size, size, size * 1e-6)
    assert 500 <= size <= 1000
    assert resized(size, size, size * 1e-3) == 1
    assert resized(1, 1, 10.0) == 1


def test_speeds_are_compared_with_a_margin():
    base = Speed(1.0, 0.5)
    assert Speed(0.9, 0.5).is_better_than(base)
    assert not Speed(0.95, 0.4).is_better_than(base)
    assert Speed(1.01, 0.1).is_better_than(base)
    assert not Speed(1.1, 0.1).is_better_than(base)
    assert Speed(1.02, 0.5).is_as_good_as(base)
    assert not Speed(1.1, 0.5).is_as_good_as(base)
    assert not Speed(1.0, 0.7).is_as_good_as(base)
