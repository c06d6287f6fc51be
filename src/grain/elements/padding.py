"""Filling up what is too short: arrays within a batch, and batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from grain.elements.fitting import fitted
from grain.elements.stacking import columns, stacked
from grain.elements.trees import LEAF_TYPES, branch_of, flatten_with_path, map_structure, spec_like
from grain.fields import Frozen
from grain.indices.arithmetic import integer, is_count

Target: TypeAlias = str | int
"""How long arrays become: "longest", "boundary" or a number."""
Fill: TypeAlias = complex | str | bytes | np.generic
"""What arrays are filled up with."""


class Padding(Frozen):
    """How elements of different lengths become one batch: arrays are filled up at the end of their first axis.

    `pad_to` is `"longest"` (of the batch), a length, or in `bucket_by_length` also `"boundary"`; the result is rounded
    up to a multiple of `multiple_of`. What is filled in is `value`. Where elements are dicts, `pad_to` and `value` may
    be dicts too, with entries for some of the keys, and for each key in `masks` the batch has another one,
    `<key>_mask`, which is True where there is data. Bytes and strings become arrays of objects with `keep_bytes`: those
    of NumPy drop zeros at the end. It can be used wherever there is a `batch_fn`.

    >>> Padding(multiple_of=4, masks=["x"])([{"x": np.array([1, 2, 3, 4, 5])}, {"x": np.array([6])}])
    {'x': array([[1, 2, 3, 4, 5, 0, 0, 0],
           [6, 0, 0, 0, 0, 0, 0, 0]]), 'x_mask': array([[ True,  True,  True,  True,  True, False, False, False],
           [ True, False, False, False, False, False, False, False]])}
    """

    pad_to: Target | dict[str, Target]
    multiple_of: int
    value: Fill | dict[str, Fill]
    masks: tuple[str, ...]
    keep_bytes: bool

    def __init__(
        self,
        pad_to: Target | Mapping[str, Target] = "longest",
        *,
        multiple_of: int = 1,
        value: Fill | Mapping[str, Fill] = 0,
        masks: Collection[str] = (),
        keep_bytes: bool = False,
    ) -> None:
        pad_to = dict(pad_to) if isinstance(pad_to, Mapping) else pad_to
        for target in pad_to.values() if isinstance(pad_to, dict) else [pad_to]:
            if target not in ("longest", "boundary") and not (is_count(target) and target):
                raise ValueError(f'pad_to must be "longest", "boundary" or a positive length, got {target!r}.')
        if integer("multiple_of", multiple_of) <= 0:
            raise ValueError(f"multiple_of must be positive, got {multiple_of}.")
        value = dict(value) if isinstance(value, Mapping) else value
        masks = (masks,) if isinstance(masks, str) else tuple(masks)
        super().__init__(pad_to, multiple_of, value, masks, keep_bytes)

    @property
    def pads_to_boundary(self) -> bool:
        """Whether it can only be used in `bucket_by_length`."""
        return "boundary" in (self.pad_to.values() if isinstance(self.pad_to, dict) else [self.pad_to])

    def within(self, boundary: int) -> Padding:
        """The same, with `boundary` where "boundary" was asked for."""
        if isinstance(self.pad_to, dict):
            targets = self.pad_to.items()
            return self.replaced(pad_to={key: boundary if to == "boundary" else to for key, to in targets})
        return self.replaced(pad_to=boundary) if self.pad_to == "boundary" else self

    def __call__(self, values: Sequence[Any]) -> Any:
        """`values` as one batch."""
        first = values[0]
        if not isinstance(first, dict):
            self._check_keys((), first)
            return self._joined(values, None)
        self._check_keys(first, first)
        level = columns(values)
        assert level is not None
        batch = level.build([self._joined(child, key) for key, child in zip(level.keys, level.children, strict=True)])
        for key in self.masks:
            batch[f"{key}_mask"] = _mask([value[key] for value in values], key, batch[key])
        return batch

    def _check_keys(self, keys: Collection[Any], element: Any) -> None:
        named = set(self.masks)
        for by_key in (self.pad_to, self.value):
            named.update(by_key if isinstance(by_key, dict) else ())
        if not named.issubset(keys):
            raise ValueError(
                f"{self} names the keys {sorted(named.difference(keys))}, but elements are {spec_like(element)}."
            )
        taken = [f"{key}_mask" for key in self.masks if f"{key}_mask" in keys]
        if taken:
            raise ValueError(f"There is no room for masks: elements already have the keys {taken}. Rename those.")

    def _joined(self, values: Sequence[Any], key: Any) -> Any:
        """One tree of padded arrays; `key` is that of the whole."""
        level = columns(values)
        if level is None:
            return self._padded(values, key)
        return level.build([self._joined(child, key) for child in level.children])

    def _padded(self, leaves: Sequence[Any], key: Any) -> Any:
        if not np.ndim(leaves[0]):
            return stacked(leaves, keep_bytes=self.keep_bytes)
        arrays = leaves if set(map(type, leaves)) == {np.ndarray} else list(map(np.asarray, leaves))
        shapes = [array.shape for array in arrays]
        if set(map(len, shapes)) != {1} and (() in shapes or len({shape[1:] for shape in shapes}) > 1):
            raise ValueError(
                f"Arrays are padded along their first axis only, but{_at(key)} these shapes differ in another way: "
                f"{sorted(set(shapes))}. Make the other axes alike before batching."
            )
        lengths, dtypes = [shape[0] for shape in shapes], [array.dtype for array in arrays]
        are_alike = dtypes.count(dtypes[0]) == len(dtypes)
        dtype = dtypes[0] if are_alike else np.result_type(*dtypes)
        filler = self._filler(dtype, key)
        batch = np.zeros((len(arrays), self._length(max(lengths), key), *shapes[0][1:]), dtype)
        if filler != 0:
            batch[...] = filler
        if not are_alike:
            arrays = [fitted(array, dtype, f"in element {number}{_at(key)}") for number, array in enumerate(arrays)]
        for row, array, length in zip(batch, arrays, lengths, strict=True):
            row[:length] = array
        return batch

    def _target(self, key: Any) -> Target:
        return self.pad_to.get(key, "longest") if isinstance(self.pad_to, dict) else self.pad_to

    def _length(self, longest: int, key: Any) -> int:
        """How long arrays become of which the longest has the length `longest`."""
        target = self._target(key)
        if target == "boundary":
            raise ValueError('pad_to="boundary" is for `bucket_by_length`: give a length, or pad to the "longest".')
        if target != "longest":
            if longest > int(target):
                raise ValueError(
                    f"An array of length {longest}{_at(key)} cannot be padded to {target}: crop it before batching, or "
                    "raise pad_to."
                )
            longest = int(target)
        return -(-longest // self.multiple_of) * self.multiple_of

    def _filler(self, dtype: np.dtype[Any], key: Any) -> Any:
        """The value to fill in, where arrays of `dtype` can hold it."""
        value = self.value.get(key, 0) if isinstance(self.value, dict) else self.value
        if np.ndim(value):
            raise ValueError(
                f"The padding value{_at(key)} must be one number, or a dict of them by key, got {value!r}."
            )
        with np.errstate(invalid="ignore"):
            filler = np.asarray(value).astype(dtype)
        if filler != value and (value == value or filler == filler):  # not a number is not equal to itself
            raise ValueError(f"The padding value {value!r} does not fit arrays of {dtype}{_at(key)}: choose another.")
        return filler

    def output_spec(self, input_spec: Any, batch_size: int | None, drop_remainder: bool) -> Any:
        """The shapes and types of batches, given those of elements."""
        rows = batch_size if drop_remainder else None

        def padded(spec: Any, key: Any) -> Any:
            if not spec.shape:
                return type(spec)((rows,), spec.dtype)
            length = None if isinstance(self._target(key), str) else self._length(0, key)
            return type(spec)((rows, length, *spec.shape[1:]), spec.dtype)

        if not isinstance(input_spec, dict):
            return map_structure(lambda leaf: padded(leaf, None), input_spec)
        batch = {key: map_structure(lambda leaf, key=key: padded(leaf, key), spec) for key, spec in input_spec.items()}
        return batch | {f"{key}_mask": type(batch[key])(batch[key].shape[:2], np.bool_) for key in self.masks}


def _mask(values: Sequence[Any], key: str, padded: Any) -> Any:
    if branch_of(padded) is not None or padded.ndim < 2:
        raise ValueError(
            f"There is no mask for {key!r}, which is no array with a length: it is {spec_like(values[0])}."
        )
    return np.arange(padded.shape[1]) < np.array([[len(value)] for value in values])


def _at(key: Any) -> str:
    return "" if key is None else f" at {key!r}"


def length_of(element: Any) -> int:
    """The length of the longest array of an element, along the first axis.

    >>> length_of({"x": np.zeros((3, 2)), "y": np.zeros(5), "z": 7})
    5
    """
    leaves = list(element.values()) if type(element) is dict else [element]
    if not LEAF_TYPES.issuperset(map(type, leaves)):
        leaves = [leaf for _, leaf in flatten_with_path(element)]
    lengths = [len(leaf) for leaf in leaves if np.ndim(leaf)]
    if not lengths:
        raise ValueError(f"There is no array with a length in {spec_like(element)}: pass `length_fn`.")
    return max(lengths)


def batch_and_pad(values: Sequence[Any], *, batch_size: int, pad_value: Fill = 0) -> Any:
    """`values` as one batch of exactly `batch_size`, filled up with `pad_value`.

    >>> batch_and_pad([1, 2], batch_size=4, pad_value=-1)
    array([ 1,  2, -1, -1])
    """
    count = len(values)
    if not count:
        raise ValueError("Cannot batch 0 values.")
    if count > batch_size:
        raise ValueError(f"Cannot batch {count} values to {batch_size}.")
    batch = stacked(values)
    if count == batch_size:
        return batch

    def pad(leaf: Any, first: Any) -> Any:
        example = np.asanyarray(first)
        is_number = example.dtype.kind in "biufc"  # of text Grain gives what it is written as
        filler = fitted(np.asarray(pad_value), example.dtype, "as pad_value") if is_number else pad_value
        padding = np.full((batch_size - count, *example.shape), filler, dtype=example.dtype)
        return np.concatenate([leaf, padding])

    return map_structure(pad, batch, values[0])
