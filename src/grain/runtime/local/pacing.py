"""How many threads to use, decided by trying: pure logic that is told what happened and when.

The consumer reports each chunk it takes. A window of such reports gives two figures for each element: `wall`, all the
time that passed, and `inside`, the part of it that the consumer spent in the reader, computing or waiting. A level is
the number of threads; at level 0 the consumer computes by itself. Another level is tried for a window or two, and kept
if it is better; then the next one in that direction is tried, and so on. Then it rests, and begins again after a pause.
Pauses grow while nothing is gained; noise, or a consumer that changes its ways, is put right all the same. Threads are
not even tried where a probe finds the interpreter's lock held all the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

CHUNK_SECONDS = 1e-3
"""The work that is handed over at once: much more than handing it over costs, too little to wait for."""
WINDOW_SECONDS, LONGEST_WINDOW_SECONDS = 0.03, 1.0
SETTLING_SECONDS = 0.1
"""How long threads that were added may take to fill the buffer before they are judged."""
START_SECONDS = 0.1
"""What is read in less time than that is read without further ado."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 32.0
_WINDOWS = 3
"""How many windows a level is measured for; the faster one counts, as noise only ever adds time."""
_SAMPLE_SECONDS = 0.01
"""How long the consumer must have computed before it is judged whether the work blocks."""
_BLOCKING = 0.4
"""The work blocks where the processor is busy for less than this share of the time."""
_NEGLIGIBLE = 0.01
"""A share of the time that is too small to be worth an attempt to save it."""


class Speed(NamedTuple):
    """Seconds for each element: in all, and within the reader."""

    wall: float
    inside: float

    def is_better_than(self, other: Speed) -> bool:
        """Clearly faster, or much less waiting while no slower."""
        return self.wall < 0.92 * other.wall or (self.inside < 0.5 * other.inside and self.wall < 1.02 * other.wall)

    def is_as_good_as(self, other: Speed) -> bool:
        """Not noticeably slower, and not noticeably more waiting."""
        return self.wall < 1.03 * other.wall and self.inside < 1.2 * other.inside + 0.05 * other.wall


class Learned(NamedTuple):
    """What the next iterator over the same dataset need not find out again."""

    level: int
    pause: float


NOTHING_LEARNED = Learned(0, 0.0)


def resized(size: int, count: int, seconds: float) -> int:
    """How many elements to hand over at once, now that `count` of them took `seconds`."""
    if seconds * size <= count * CHUNK_SECONDS / 2:
        return 2 * size  # step by step: the first ones may not be like the others
    return max(1, min(size, int(count * CHUNK_SECONDS / seconds)))


class Probe(Protocol):
    """Looks whether the interpreter's lock is ever free; None: not known yet."""

    is_free: bool | None


class Pacing:
    """Decides on the level, which is at most `ceiling`."""

    def __init__(
        self,
        ceiling: int,
        new_probe: Callable[[], Probe],
        learned: Learned = NOTHING_LEARNED,
    ) -> None:
        self._ceiling, self._new_probe = ceiling, new_probe
        self._probe: Probe | None = None
        self.level = min(learned.level, ceiling)
        self._goes_up = True
        self._pause = learned.pause
        self._rests_until: float | None = None
        """None: it has not begun."""
        self._unsettled = 0
        """How many of the next elements were computed at another level."""
        self._settles_until = 0.0
        self._home: tuple[int, Speed] | None = None
        """The level to go back to, and its speed, while another is tried."""
        self._speeds: list[Speed] = []
        self._left = 0.0
        self._longest_gap = 0.0
        self._begin_window(0.0)

    @property
    def learned(self) -> Learned:
        """What to begin with next time."""
        return Learned(self.level if self._home is None else self._home[0], self._pause)

    def is_resting(self, now: float) -> bool:
        """Whether nothing needs to be reported for the time being."""
        if self._rests_until is None:
            self._rests_until = now + max(self._pause, START_SECONDS)
        return now < self._rests_until

    def _begin_window(self, now: float) -> None:
        self._start, self._count, self._inside = now, 0, 0.0
        self._computing = self._busy = self._longest = 0.0

    def took(
        self,
        count: int,
        entered: float,
        left: float,
        *,
        busy: float | None = None,
        ahead: int = 0,
        is_full: bool = False,
    ) -> None:
        """The consumer asked at `entered` and had `count` elements at `left`.

        `busy`: the processor time of computing them, where the consumer did so. `ahead`: how many more are there or
        being made; `is_full`: there can be no more.
        """
        gap, self._left = entered - self._left, left
        self._unsettled -= count
        if is_full:
            self._settles_until = entered
        is_settling = entered < self._settles_until or self._unsettled >= 0
        if is_settling or self.is_resting(entered) or self._is_stale(busy):
            self._begin_window(left)
            return
        if self._count:
            self._longest_gap = max(self._longest_gap, gap)
            lasted = entered - self._start
            # It ends with a long gap, and so has whole training steps: as many gaps as there is work between them.
            is_whole = gap >= self._longest_gap / 2 or self._longest_gap < WINDOW_SECONDS / 10
            if lasted >= WINDOW_SECONDS and (is_whole or lasted >= LONGEST_WINDOW_SECONDS):
                self._longest_gap /= 2
                self._speeds.append(self._speed(entered))
                self._begin_window(entered)
                self._decide(left, ahead)
                if not self._speeds:  # something was decided
                    return
        else:
            self._start = entered
        self._count += count
        self._inside += left - entered
        if busy is not None and self._home is None:
            self._sample(left - entered, busy)
            if self.level == 0 and self._blocks and not self._is_probing() and self._may_gain:
                self._try(self._ceiling, self._speed(left), ahead)

    def _is_stale(self, busy: float | None) -> bool:
        """Whether these are elements of threads though there should be none by now."""
        return busy is None and self.level == 0

    def _speed(self, now: float) -> Speed:
        return Speed((now - self._start) / self._count, self._inside / self._count)

    def _sample(self, seconds: float, busy: float) -> None:
        self._computing += seconds
        self._busy += busy
        self._longest = max(self._longest, seconds)

    @property
    def _blocks(self) -> bool:
        """Whether the work mostly waits, and not just once, as for a file to be opened."""
        return (
            self._computing >= _SAMPLE_SECONDS
            and self._busy < _BLOCKING * self._computing
            and self._computing - self._longest >= _SAMPLE_SECONDS / 4
        )

    def _decide(self, now: float, ahead: int) -> None:
        best = min(self._speeds)
        if self._home is not None:
            level, speed = self._home
            if not (best.is_better_than(speed) if level < self.level else best.is_as_good_as(speed)):
                if len(self._speeds) == _WINDOWS or best.wall > 1.5 * speed.wall:
                    self._change(level, None, ahead)
                    self._rest(now)
                return
            self._home, self._pause = None, 0.0
        elif self._is_probing() or len(self._speeds) < _WINDOWS:
            return
        wanted = self._next_level(best)
        if wanted == self.level:
            self._rest(now)
        else:
            self._try(wanted, best, ahead)

    def _is_probing(self) -> bool:
        """Whether it is still to be found out if threads would get to run; at other levels they do."""
        if self.level:
            return False
        self._probe = self._probe or self._new_probe()
        return self._probe.is_free is None

    @property
    def _may_gain(self) -> bool:
        return self._probe is None or bool(self._probe.is_free)

    def _next_level(self, speed: Speed) -> int:
        """The level to try after the present one; the same where nothing is to be gained."""
        if speed.inside < _NEGLIGIBLE * speed.wall or not self._may_gain:
            return self.level
        if self._goes_up:
            return min(max(2, 2 * self.level), self._ceiling)
        return self.level // 2 if self.level > 2 else 0

    def _try(self, level: int, speed: Speed, ahead: int) -> None:
        self._change(level, (self.level, speed), ahead)

    def _change(self, level: int, home: tuple[int, Speed] | None, ahead: int) -> None:
        self._settles_until = self._left + (SETTLING_SECONDS if level > self.level else 0.0)
        self.level, self._home, self._unsettled, self._speeds = level, home, ahead, []
        self._probe = None
        self._begin_window(self._left)

    def _rest(self, now: float) -> None:
        self._pause = min(max(2 * self._pause, FIRST_PAUSE), LONGEST_PAUSE)
        self._rests_until = now + self._pause
        self._speeds, self._probe = [], None
        self._goes_up = self.level == 0 or (not self._goes_up and self.level < self._ceiling)
