"""Where documents go: rows of limited length are filled, and each document finds one with room for it.

Only lengths are seen here. Rows are opened when they are needed, so those in use are always the first ones.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence


class Bins:
    """Up to `count` rows, with room for `lengths` tokens of the features and for `most` documents each.

    The next document starts at a multiple of the feature's alignment.
    """

    def __init__(self, lengths: Sequence[int], alignments: Sequence[int], count: int, most: int | None) -> None:
        self._lengths, self._alignments, self._most = lengths, alignments, most
        self._rooms: list[list[int]] = [[] for _ in lengths]
        """For each feature, the room that is left in each row."""
        self._documents: list[int] = []
        self._is_simple = len(lengths) == 1 and alignments[0] == 1 and most is None
        self.unopened = count
        """How many more documents are sure to find room, because there is a row to open."""

    def places(self, documents: Iterable[Sequence[int]]) -> Iterator[tuple[int, Sequence[int]]]:
        """For documents that need so many tokens: the row of each, and where it starts there, until one has no room."""
        raise NotImplementedError

    def _open(self) -> int:
        for rooms, length in zip(self._rooms, self._lengths, strict=True):
            rooms.append(length)
        self._documents.append(0)
        self.unopened -= 1
        return len(self._documents) - 1

    def _put(self, row: int, needs: Sequence[int]) -> list[int]:
        """Take the room that a document needs in a row; returns where it starts."""
        starts = []
        for place, rooms in enumerate(self._rooms):
            length = self._lengths[place]
            starts.append(length - rooms[row])
            end = starts[place] + needs[place]
            rooms[row] = length - end - -end % self._alignments[place]
        self._documents[row] += 1
        return starts

    def _has_room(self, row: int, needs: Sequence[int]) -> bool:
        return all(rooms[row] >= need for rooms, need in zip(self._rooms, needs, strict=True))

    def _set_rooms(self, row: int, room: int) -> None:
        for rooms in self._rooms:
            rooms[row] = room


class FirstFit(Bins):
    """Into the first row with room.

    >>> list(FirstFit([8], [1], count=2, most=None).places([[4], [6], [3], [4]]))
    [(0, (0,)), (1, (0,)), (0, (4,))]
    """

    def __init__(self, lengths: Sequence[int], alignments: Sequence[int], count: int, most: int | None) -> None:
        super().__init__(lengths, alignments, count, most)
        self._first_rows = [0] * (lengths[0].bit_length() + 1)
        """For each power of two: no row before this one has that much room for the first feature."""

    def places(self, documents: Iterable[Sequence[int]]) -> Iterator[tuple[int, Sequence[int]]]:
        rooms, is_only_one, first_rows = self._rooms[0], len(self._rooms) == 1, self._first_rows
        for needs in documents:
            need = needs[0]
            power = need.bit_length()
            row, least = first_rows[power], 1 << power >> 1
            while row < len(rooms) and rooms[row] < least:
                row += 1
            first_rows[power] = row
            while row < len(rooms) and (rooms[row] < need or not (is_only_one or self._has_room(row, needs))):
                row += 1
            if row == len(rooms):
                if not self.unopened:
                    return
                self._open()
            if self._is_simple:
                start = self._lengths[0] - rooms[row]
                rooms[row] -= need
                yield row, (start,)
            else:
                starts = self._put(row, needs)
                if self._documents[row] == self._most:
                    self._set_rooms(row, -1)
                yield row, starts


class BestFit(Bins):
    """Into the fullest row with room, all features taken together; of equally full ones into the first.

    A row that has as many documents as it may have, all of them empty, goes on taking empty ones.

    >>> list(BestFit([8], [1], count=2, most=None).places([[4], [5], [2]]))
    [(0, (0,)), (1, (0,)), (1, (5,))]
    """

    def __init__(self, lengths: Sequence[int], alignments: Sequence[int], count: int, most: int | None) -> None:
        super().__init__(lengths, alignments, count, most)
        self._whole = sum(lengths)
        self._by_room: list[tuple[int, int]] = []
        """The room that is left in a row, all features taken together, and the row; sorted."""

    def places(self, documents: Iterable[Sequence[int]]) -> Iterator[tuple[int, Sequence[int]]]:
        by_room, is_enough = self._by_room, len(self._rooms) == 1 and self._most is None
        for needs in documents:
            place = bisect_left(by_room, (sum(needs), -1))
            while place < len(by_room) and not (is_enough or self._has_room(by_room[place][1], needs)):
                place += 1
            if place < len(by_room):
                room, row = by_room.pop(place)
            elif self.unopened:
                room, row = self._whole, self._open()
            else:
                return
            if self._is_simple:
                insort(by_room, (room - needs[0], row))
                yield row, (self._whole - room,)
            else:
                yield row, self._put_and_sort(row, needs)

    def _put_and_sort(self, row: int, needs: Sequence[int]) -> list[int]:
        if self._most is not None and self._documents[row] >= self._most:  # it is empty, and so is the document
            insort(self._by_room, (self._whole, row))
            return [0] * len(needs)
        starts = self._put(row, needs)
        room = sum(rooms[row] for rooms in self._rooms)
        if self._documents[row] != self._most:
            insort(self._by_room, (room, row))
        elif room == self._whole:
            insort(self._by_room, (room, row))
            self._set_rooms(row, 0)
        return starts
