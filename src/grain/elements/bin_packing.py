"""Where documents go: rows of limited length are filled, and each document finds one with room for it.

Only lengths are seen here. A row is not used before those that come before it are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence


class Bins:
    """`count` rows, with room for `lengths` tokens of the features and for `most` documents each.

    The next document starts at a multiple of the feature's alignment.
    """

    def __init__(self, lengths: Sequence[int], alignments: Sequence[int], count: int, most: int | None) -> None:
        self._lengths, self._alignments, self._count, self._most = lengths, alignments, count, most
        self._rooms = [[length] * (count + 1) for length in lengths]
        """For each feature, the room that is left in each row; after the last one whatever is looked for is found."""
        self._documents = [0] * count
        self._is_simple = len(lengths) == 1 and alignments[0] == 1 and most is None

    def places(self, documents: Iterable[Sequence[int]]) -> Iterator[int]:
        """For documents that need so many tokens: the row of each, until one has no room."""
        raise NotImplementedError

    def _put(self, row: int, needs: Sequence[int]) -> None:
        """Take the room that a document needs in a row."""
        for rooms, need, length, alignment in zip(self._rooms, needs, self._lengths, self._alignments, strict=True):
            end = length - rooms[row] + need
            rooms[row] = length - end - -end % alignment
        self._documents[row] += 1

    def _has_room(self, row: int, needs: Sequence[int]) -> bool:
        return all(rooms[row] >= need for rooms, need in zip(self._rooms, needs, strict=True))

    def _set_rooms(self, row: int, room: int) -> None:
        for rooms in self._rooms:
            rooms[row] = room


class FirstFit(Bins):
    """Into the first row with room.

    >>> list(FirstFit([8], [1], count=2, most=None).places([[4], [6], [3], [4]]))
    [0, 1, 0]
    """

    def __init__(self, lengths: Sequence[int], alignments: Sequence[int], count: int, most: int | None) -> None:
        super().__init__(lengths, alignments, count, most)
        self._first_rows = [0] * (lengths[0].bit_length() + 1)
        """For each power of two: no row before this one has that much room for the first feature."""

    def places(self, documents: Iterable[Sequence[int]]) -> Iterator[int]:
        rooms, first_rows, count = self._rooms[0], self._first_rows, self._count
        is_only_one, is_simple = len(self._rooms) == 1, self._is_simple
        for needs in documents:
            need = needs[0]
            power = need.bit_length()
            row, least = first_rows[power], 1 << power >> 1
            while rooms[row] < least:
                row += 1
            first_rows[power] = row
            while rooms[row] < need or not (is_only_one or self._has_room(row, needs)):
                row += 1
            if row == count:
                return
            if is_simple:
                rooms[row] -= need
            else:
                self._put(row, needs)
                if self._documents[row] == self._most:
                    self._set_rooms(row, -1)
            yield row


class BestFit(Bins):
    """Into the fullest row with room, all features taken together; of equally full ones into the first.

    A row that has as many documents as it may have, all of them empty, goes on taking empty ones.

    >>> list(BestFit([8], [1], count=2, most=None).places([[4], [5], [2]]))
    [0, 1, 1]
    """

    def __init__(self, lengths: Sequence[int], alignments: Sequence[int], count: int, most: int | None) -> None:
        super().__init__(lengths, alignments, count, most)
        self._whole = sum(lengths)
        self._by_room = [self._whole * count + row for row in range(count)]
        """The room that is left in a row, all features taken together, times `count`, and the row; sorted."""

    def places(self, documents: Iterable[Sequence[int]]) -> Iterator[int]:
        by_room, count, is_simple = self._by_room, self._count, self._is_simple
        is_enough = len(self._rooms) == 1 and self._most is None
        for needs in documents:
            place = bisect_left(by_room, sum(needs) * count)
            while place < len(by_room) and not (is_enough or self._has_room(by_room[place] % count, needs)):
                place += 1
            if place == len(by_room):
                return
            found = by_room.pop(place)
            row = found % count
            if is_simple:
                insort(by_room, found - needs[0] * count)
            else:
                self._put_and_sort(row, needs)
            yield row

    def _put_and_sort(self, row: int, needs: Sequence[int]) -> None:
        if self._most is not None and self._documents[row] >= self._most:  # it is empty, and so is the document
            self._sort_in(row, self._whole)
            return
        self._put(row, needs)
        room = sum(rooms[row] for rooms in self._rooms)
        if self._documents[row] != self._most:
            self._sort_in(row, room)
        elif room == self._whole:
            self._sort_in(row, room)
            self._set_rooms(row, 0)

    def _sort_in(self, row: int, room: int) -> None:
        insort(self._by_room, room * self._count + row)
