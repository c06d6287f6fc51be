"""Users' own subclasses of DatasetIterator: errors, closing, positions, and options shared with the pipeline."""

from __future__ import annotations

import pytest

import grain
from grain import experimental as ex
from support.subclasses import (
    AddedIterator,
    Counting,
    CountingIterator,
    EveryOther,
    EveryOtherIterator,
    Tripled,
    counting,
    dataset_of,
    identity,
)


class Failing(grain.DatasetIterator):
    """Fails once, at the third element."""

    def __init__(self):
        super().__init__()
        self.position = 0

    def __next__(self):
        self.position += 1
        if self.position == 3:
            raise RuntimeError("no third element")
        if self.position == 6:
            raise StopIteration
        return self.position

    def get_state(self):
        return {"position": self.position}

    def set_state(self, state):
        self.position = state["position"]


def test_iteration_goes_on_after_an_error_of_a_users_iterator():
    for dataset in (dataset_of(Failing), dataset_of(Failing).map(identity)):
        iterator = iter(dataset)
        assert [next(iterator), next(iterator)] == [1, 2]
        with pytest.raises(RuntimeError, match="no third element"):
            next(iterator)
        assert list(iterator) == [4, 5]


def test_closing_reaches_users_iterators_and_what_they_read():
    class Checking(EveryOtherIterator):
        def __next__(self):
            self._assert_not_closed()
            return super().__next__()

    iterator = iter(dataset_of(Checking, dataset_of(Checking, counting(9))))
    next(iterator)
    inner = iterator._parent
    iterator.close()
    iterator.close()
    for closed in (iterator, inner, inner._parent):
        with pytest.raises(ValueError, match="closed iterator"):
            next(closed)
    assert iterator.get_state()["dropped"] == 1

    built_in = iter(dataset_of(Checking, counting(9)).map(identity))
    built_in.close()
    with pytest.raises(ValueError, match="closed iterator"):
        next(built_in)


def test_close_and_start_prefetch_of_a_users_iterator_are_called():
    called = []

    class Watched(CountingIterator):
        def close(self):
            called.append("close")
            super().close()

        def start_prefetch(self):
            called.append("start_prefetch")
            super().start_prefetch()

    above = dataset_of(EveryOtherIterator, dataset_of(lambda: Watched(3)).map(identity))
    iterator = iter(above.batch(2))
    iterator.start_prefetch()
    iterator.close()
    assert called == ["start_prefetch", "close"]


def test_next_index_of_users_iterators():
    iterator = iter(Counting(9))
    ex.set_next_index(iterator, 4)
    assert (ex.get_next_index(iterator), next(iterator)) == (4, 4)

    mapped = iter(Counting(9).map(identity).batch(2))
    ex.set_next_index(mapped, 2)
    assert (ex.get_next_index(mapped), next(mapped).tolist()) == (2, [4, 5])

    for without in (iter(EveryOther(Counting(9))), iter(EveryOther(Counting(9)).map(identity))):
        with pytest.raises(NotImplementedError):
            ex.get_next_index(without)
        with pytest.raises(NotImplementedError):
            ex.set_next_index(without, 1)


# ---------------------------------------------------------------- options


class Asking(EveryOtherIterator):
    """Gives the share of dropped elements at which the pipeline is to fail."""

    def __next__(self):
        super().__next__()
        return self._ctx.dataset_options.filter_raise_threshold_ratio


def with_ratio(dataset, ratio):
    return ex.WithOptionsIterDataset(dataset, ex.DatasetOptions(filter_raise_threshold_ratio=ratio))


def test_options_reach_users_iterators_from_both_sides():
    assert next(iter(dataset_of(Asking, counting(4)))) is None
    assert next(iter(with_ratio(dataset_of(Asking, counting(4)), 0.5))) == 0.5
    assert next(iter(with_ratio(dataset_of(Asking, counting(4)).map(identity), 0.5))) == 0.5
    assert next(iter(dataset_of(Asking, with_ratio(counting(4), 0.6)))) == 0.6
    assert next(iter(dataset_of(Asking, with_ratio(counting(4), 0.6)).filter(identity))) == 0.6
    assert next(iter(with_ratio(dataset_of(Asking, with_ratio(counting(4), 0.6)).map(identity), 0.7))) == 0.7


def test_the_first_parents_options_win():
    parents = [with_ratio(counting(4), 0.3), with_ratio(counting(4), 0.4)]
    iterator = iter(dataset_of(lambda *iterators: AddedIterator(iterators), *parents))
    assert iterator._ctx.dataset_options.filter_raise_threshold_ratio == 0.3


def test_options_pass_through_users_iterators_to_operators():
    def none(x):
        return False

    for dataset in (
        with_ratio(EveryOther(counting(4000).filter(none)), 0.9),
        EveryOther(with_ratio(counting(4000), 0.9)).filter(none),
        with_ratio(EveryOther(Tripled(grain.MapDataset.range(4000)).filter(none)).map(identity), 0.9),
    ):
        with pytest.raises(ValueError, match=r"skipped 100.00 %"):
            list(dataset)


def test_all_iterators_of_a_pipeline_share_one_context():
    iterator = iter(dataset_of(EveryOtherIterator, dataset_of(EveryOtherIterator, counting(4)).map(identity)))
    assert iterator._ctx is iterator._parent._ctx


def test_the_context_tells_the_worker():
    for iterator in (iter(counting(4)), iter(dataset_of(EveryOtherIterator, counting(4)))):
        worker = iterator._ctx.mp_context
        assert (worker.process_index, worker.process_count) == (0, 1)


def test_users_iterators_may_have_attributes_of_any_name():
    class Named(EveryOtherIterator):
        def __init__(self, parent):
            super().__init__(parent)
            self._context = "validation"
            self._stream = self._elements = None

    dataset = dataset_of(Named, counting(4))
    assert list(dataset) == list(dataset.map(identity)) == [0, 2]
    assert iter(dataset)._ctx.dataset_options.filter_raise_threshold_ratio is None
