"""Whether Arrow arrays are sound: pyarrow follows the offsets of a damaged file out of its buffers, and crashes.

Only what leads somewhere is looked at, and what is null. Strings, numbers and bytes may be any, and stay unread in a
mapped file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grain.sources.arrow_columns import compute, pa

_INLINE_BYTES = 12
"""What a view of at most that many bytes leads to is in the view itself."""


def check(array: Any) -> None:
    """Raise an error of Arrow if offsets, lengths or indices of `array` lead beyond what it has, or nulls are wrong."""
    array.validate()  # buffers are large enough; it looks at no more than the first and the last of them
    _check(array)


def _check(array: Any) -> None:
    kind, is_a = array.type, pa.types
    if not len(array):
        return
    _check_nulls(array)
    if isinstance(array, pa.ExtensionArray):
        _check(array.storage)
    elif is_a.is_dictionary(kind):
        _check_indices(array.indices, len(array.dictionary), "dictionary")
        _check(array.dictionary)
    elif is_a.is_run_end_encoded(kind):
        _check_runs(array)
        _check(array.values)
    elif is_a.is_union(kind):
        _check_union(array)
    elif is_a.is_struct(kind):
        for number in range(kind.num_fields):
            _check(array.field(number))
    elif is_a.is_string_view(kind) or is_a.is_binary_view(kind):
        _check_views(array)
    elif is_a.is_list_view(kind) or is_a.is_large_list_view(kind):
        begins = array.offsets.to_numpy().astype(np.int64)  # a sum of two may be too large for 32 bits
        _check_extents(begins, begins + array.sizes.to_numpy(), len(array.values))
        _check(array.values)
    elif is_a.is_fixed_size_list(kind):
        _check(array.values)
    elif is_a.is_list(kind) or is_a.is_large_list(kind) or is_a.is_map(kind):
        offsets = _items(array, 1, np.int64 if is_a.is_large_list(kind) else np.int32, 1)
        _check_extents(offsets[:-1], offsets[1:], len(array.values))
        _check(array.values)
    elif is_a.is_string(kind) or is_a.is_binary(kind) or is_a.is_large_string(kind) or is_a.is_large_binary(kind):
        is_large = is_a.is_large_string(kind) or is_a.is_large_binary(kind)
        offsets, data = _items(array, 1, np.int64 if is_large else np.int32, 1), array.buffers()[2]
        _check_extents(offsets[:-1], offsets[1:], 0 if data is None else data.size)


def _check_nulls(array: Any) -> None:
    """See that there are as many nulls as the file says: else values are missing, or are there that were not."""
    is_valid = array.buffers()[0]
    if is_valid is not None:
        found = pa.Array.from_buffers(pa.bool_(), len(array), [None, is_valid], offset=array.offset).false_count
        if found != array.null_count:
            raise pa.ArrowInvalid(f"There are {found} nulls, where the file says {array.null_count}.")


def _items(array: Any, buffer: int, dtype: Any, more: int = 0) -> Any:
    """The numbers in a buffer, one for each row and `more`."""
    size = np.dtype(dtype).itemsize
    return np.frombuffer(array.buffers()[buffer], dtype, len(array) + more, array.offset * size)


def _check_extents(begins: Any, ends: Any, sizes: Any) -> None:
    wrong = wrong_extent(begins, ends, sizes)
    if wrong is not None:
        size = np.broadcast_to(sizes, len(begins))[wrong]
        raise pa.ArrowInvalid(f"A value reaches from {begins[wrong]} to {ends[wrong]}, where there are {size} items.")


def wrong_extent(begins: Any, ends: Any, sizes: Any) -> int | None:
    """The first place at which something begins after its end, or is not within its size."""
    wrong = (begins < 0) | (ends < begins) | (ends > sizes)
    return int(wrong.argmax()) if wrong.any() else None


def _check_indices(indices: Any, size: int, what: str) -> None:
    found = compute.min_max(indices).as_py()  # nulls have none
    if found["min"] is not None and not 0 <= found["min"] <= found["max"] < size:
        raise pa.ArrowInvalid(f"Indices are {found['min']} to {found['max']}, where the {what} has {size} values.")


def _check_runs(array: Any) -> None:
    ends = array.run_ends.to_numpy()
    if not len(ends) or ends[0] < 1 or (ends[1:] <= ends[:-1]).any() or ends[-1] < array.offset + len(array):
        raise pa.ArrowInvalid(f"Runs do not end one after the other, or not at {array.offset + len(array)}.")


def _check_union(array: Any) -> None:
    codes, is_dense = array.type_codes.to_numpy(), array.type.mode == "dense"
    if unknown := set(np.unique(codes).tolist()) - set(array.type.type_codes):
        raise pa.ArrowInvalid(f"The union has no types {sorted(unknown)}, but {array.type.type_codes}.")
    for number, code in enumerate(array.type.type_codes):
        values = array.field(number)
        if is_dense:
            chosen = array.offsets.to_numpy()[codes == code]
            _check_indices(pa.array(chosen), len(values), "type")
        _check(values)


def _check_views(array: Any) -> None:
    sizes_of_data = np.array([0 if data is None else data.size for data in array.buffers()[2:]], np.int64)
    views = _items(array, 1, np.dtype((np.int32, 4)))[array.is_valid().to_numpy(zero_copy_only=False)]
    views = views[(views[:, 0] < 0) | (views[:, 0] > _INLINE_BYTES)].astype(np.int64)
    lengths, buffers, begins = views[:, 0], views[:, 2], views[:, 3]
    _check_indices(pa.array(buffers), len(sizes_of_data), "array of views")
    if len(views):
        _check_extents(begins, begins + lengths, sizes_of_data[buffers])
