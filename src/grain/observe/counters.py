"""What the stages of a running pipeline have counted.

1. Counts belong to elements that were handed out: what a thread or a worker counts ahead of its consumer travels with
   the element that it belongs to (`taken`), and is added when that arrives (`add`).
2. To go back is to take counts back too (`copy`, `restore`): however often an element was made, it counts once.
3. Counts are in no state: they are those of one iterator since it was made.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

Key: TypeAlias = tuple[str, str]
"""What is counted, and of what: `("tokens", "text")`; the second may be empty."""
Counts: TypeAlias = dict[str, dict[Key, float]]
"""By stage."""


class Counters:
    """A counter for each stage.

    >>> counters = Counters()
    >>> counters.of("pack")["rows", ""] += 2
    >>> counters.total("rows"), counters.taken(), counters.total("rows")
    ({'': 2}, {'pack': {('rows', ''): 2}}, {})
    """

    def __init__(self) -> None:
        self.stages: dict[str, Counter[Key]] = {}

    def of(self, stage: str) -> Counter[Key]:
        """The counter of a stage, which it may keep."""
        return self.stages.setdefault(stage, Counter())

    def total(self, name: str) -> dict[str, float]:
        """What all stages have counted under a name."""
        found: Counter[str] = Counter()
        for counter in list(self.stages.values()):
            for (key, of_what), count in list(counter.items()):
                if key == name:
                    found[of_what] += count
        return dict(found)

    def copy(self) -> Counts:
        """All counts, as plain values."""
        return {stage: dict(counter) for stage, counter in self.stages.items() if counter}

    def restore(self, counts: Counts) -> None:
        """Go back to what `copy` gave."""
        for stage, counter in self.stages.items():
            counter.clear()
            counter.update(counts.get(stage, {}))

    def taken(self) -> Counts | None:
        """What has been counted, to be added elsewhere; here it begins again. None where there is nothing."""
        counts = self.copy()
        for counter in self.stages.values():
            counter.clear()
        return counts or None

    def add(self, counts: Counts | None) -> None:
        """Add what was taken elsewhere."""
        for stage, counted in (counts or {}).items():
            self.of(stage).update(counted)
