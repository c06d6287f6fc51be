"""Elements as bytes that are nothing but data, so that reading them runs no code.

JSON has what it can hold exactly. Bytes and arrays are as they are, and what contains them has the encodings of its
parts one after the other. All else, and only that, is pickled.
"""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np

_JSON, _BYTES, _ARRAY, _SCALAR, _DICT, _LIST, _TUPLE, _PICKLE = b"jbasdltp"
_CONTAINERS: dict[type, int] = {dict: _DICT, list: _LIST, tuple: _TUPLE}
_value = json.JSONDecoder().decode
_KINDS_OF_NUMBERS = "biufcSUmM"
_LARGEST_INTEGER = 1 << 10_000
"""Python does not read longer ones from text."""


def encoded(element: Any) -> bytes:
    """The bytes that `decoded` makes the same element of.

    >>> encoded({"a": 1}), decoded(encoded((b"x", None)))
    (b'j{"a":1}', (b'x', None))
    """
    try:
        return _encoded(element)
    except RecursionError:  # one that contains itself
        return _tagged(_PICKLE, pickled(element))


def decoded(data: bytes | memoryview) -> Any:
    """The element that was encoded."""
    tag = data[0]
    if tag == _JSON:
        return _value(str(data[1:], "utf-8"))
    if tag == _BYTES:
        return bytes(data[1:])
    if tag == _PICKLE:
        return pickle.loads(data[1:])
    start = 5 + int.from_bytes(data[1:5], "little")
    first, second = _value(str(data[5:start], "utf-8"))
    body = data[start:]
    if tag in (_ARRAY, _SCALAR):
        kind = np.dtype(second)
        if kind.kind not in _KINDS_OF_NUMBERS:
            raise ValueError(f"Expected numbers or text, got an array of {kind}.")
        array: Any = np.ndarray(first, kind, body).copy()
        return array if tag == _ARRAY else array[()]
    parts, stop = [], 0
    for size in first:
        start, stop = stop, stop + size
        parts.append(decoded(body[start:stop]))
    return dict(zip(second, parts, strict=True)) if tag == _DICT else tuple(parts) if tag == _TUPLE else parts


def _encoded(element: Any) -> bytes:
    kind = type(element)
    if _is_json(element):
        return _tagged(_JSON, _json(element))
    if kind is bytes:
        return _tagged(_BYTES, element)
    if kind is np.ndarray or isinstance(element, np.generic):
        if element.dtype.kind not in _KINDS_OF_NUMBERS:
            return _tagged(_PICKLE, pickled(element))
        return _headed(_ARRAY if kind is np.ndarray else _SCALAR, element.shape, element.dtype.str, element.tobytes())
    if kind in _CONTAINERS and (kind is not dict or all(type(key) is str and _is_json(key) for key in element)):
        parts = [_encoded(part) for part in (element.values() if kind is dict else element)]
        keys = list(element) if kind is dict else None
        return _headed(_CONTAINERS[kind], [len(part) for part in parts], keys, b"".join(parts))
    return _tagged(_PICKLE, pickled(element))


def _headed(tag: int, first: Any, second: Any, body: bytes) -> bytes:
    header = _json([first, second])
    return _tagged(tag, len(header).to_bytes(4, "little"), header, body)


def _tagged(tag: int, *parts: bytes) -> bytes:
    return b"".join([bytes([tag]), *parts])


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _is_json(value: Any) -> bool:
    """Whether JSON gives back exactly this value."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) or not any("\ud800" <= letter <= "\udfff" for letter in value)
    if kind is int:
        return bool(-_LARGEST_INTEGER < value < _LARGEST_INTEGER)
    if kind is list:
        return all(map(_is_json, value))
    if kind is dict:
        return all(type(key) is str and _is_json(key) and _is_json(part) for key, part in value.items())
    return value is None or kind in (bool, float)


def pickled(element: Any) -> bytes:
    """The element pickled, also where it is of a class of the program itself, which others cannot import."""
    found = pickle.dumps(element, protocol=5)
    if b"__main__" not in found:
        return found
    import cloudpickle

    return cloudpickle.dumps(element, protocol=5)  # type: ignore[no-any-return]


unpickled = pickle.loads
