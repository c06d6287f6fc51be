"""Parts of a pipeline, one for each of several workers."""

from __future__ import annotations

import sys

from grain.fields import Frozen
from grain.indices.arithmetic import even_split


class Part(Frozen):
    """Part `index` of `count`: every count-th element, or a contiguous block where `is_sequential`.

    >>> Part(1, 3).share_of(10), Part(1, 3, is_sequential=True).share_of(10)
    (slice(1, None, 3), slice(4, 7, None))
    """

    index: int
    count: int
    is_sequential: bool = False

    @property
    def stride(self) -> slice:
        return slice(self.index, None, self.count)

    def share_of(self, length: int) -> slice:
        """What it takes of `length` elements; of endlessly many never a block: all but the first would be far away."""
        if self.is_sequential and length < sys.maxsize:
            return slice(*even_split(length, self.index, self.count))
        return self.stride
