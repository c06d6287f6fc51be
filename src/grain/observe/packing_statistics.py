"""How full packed rows are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grain.observe.counters import Counters, Key

if TYPE_CHECKING:
    from collections import Counter

    from grain.elements.packed_rows import Row, RowFormat

ROWS, SEQUENCES, TOKENS, CAPACITY = "rows", "sequences", "tokens", "capacity"


def count_row(counter: Counter[Key], row: Row, format: RowFormat) -> None:
    """Count a row that is handed out."""
    counter[ROWS, ""] += 1
    counter[SEQUENCES, ""] += row.sequences
    for place, name, length in format.counted:
        counter[TOKENS, name] += row.tokens[place]
        counter[CAPACITY, name] += length


class PackingStatistics:
    """How full packed rows are: what all packing operators of one iterator have handed out since it was made.

    It is no part of the saved state, and goes on counting after `set_state`. Rows that threads and workers have packed
    count when the element that they are in has arrived.

    >>> import grain
    >>> documents = grain.MapDataset.source([{"tokens": list(range(n))} for n in (3, 4, 2)])
    >>> packed = documents.to_iter_dataset().pack_first_fit(length_struct={"tokens": 8}, num_packing_bins=2)
    >>> iterator = iter(packed.batch(2))
    >>> _ = next(iterator)
    >>> iterator.packing_statistics
    PackingStatistics(rows=2, sequences=3, tokens={'tokens': 9}, capacity={'tokens': 16}, efficiency={'tokens': 0.562})
    >>> iterator.packing_statistics.efficiency["tokens"]
    0.5625
    """

    def __init__(self, counters: Counters | None = None) -> None:
        self._counters = counters or Counters()

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self._counters.total(ROWS).get("", 0))

    @property
    def sequences(self) -> int:
        """The number of documents, or pieces of documents, in them."""
        return int(self._counters.total(SEQUENCES).get("", 0))

    @property
    def tokens(self) -> dict[str, int]:
        """For each feature, the tokens of documents."""
        return {name: int(count) for name, count in self._counters.total(TOKENS).items()}

    @property
    def capacity(self) -> dict[str, int]:
        """For each feature, the tokens that there is room for."""
        return {name: int(count) for name, count in self._counters.total(CAPACITY).items()}

    @property
    def efficiency(self) -> dict[str, float]:
        """For each feature, what part of the rows are tokens of documents."""
        tokens = self.tokens
        return {name: tokens.get(name, 0) / capacity for name, capacity in self.capacity.items() if capacity}

    def __repr__(self) -> str:
        efficiency = {name: round(part, 3) for name, part in self.efficiency.items()}
        return (
            f"PackingStatistics(rows={self.rows}, sequences={self.sequences}, tokens={self.tokens}, "
            f"capacity={self.capacity}, efficiency={efficiency})"
        )
