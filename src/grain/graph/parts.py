"""Parts of a pipeline, one for each of several workers."""

from __future__ import annotations

import sys

from grain.arithmetic import even_split
from grain.fields import Frozen


class Part(Frozen):
    """Part `index` of `count`: every count-th element, or a contiguous block where `is_sequential`.

    >>> Part(1, 3).stride, Part(1, 3).block(10)
    (slice(1, None, 3), slice(4, 7, None))
    """

    index: int
    count: int
    is_sequential: bool = False

    @property
    def stride(self) -> slice:
        return slice(self.index, None, self.count)

    def block(self, length: int) -> slice:
        """Its share of `length` elements side by side."""
        return slice(*even_split(length, self.index, self.count))

    def slice_of(self, length: int) -> slice:
        """What it takes of `length` elements. What is endless has no blocks: a later one would never be come to."""
        return self.block(length) if self.is_sequential and length < sys.maxsize else self.stride
