"""Plain data: classes that are their annotated fields.

As dataclasses, of which there would be fifty here, but without generating code: that would double the time of
`import grain`. Annotations are looked at as text, so modules with such classes import them from `__future__`.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np

_REQUIRED: Any = object()
_MOST_SHOWN = 6
_set = object.__setattr__
"""Not by way of `__dict__`: once that has been looked at, Python takes longer to find the attributes of an object."""
Self = TypeVar("Self", bound="Fields")


@dataclass_transform()
class Fields:
    """A class whose objects are made of the fields that it and its bases annotate, in that order.

    >>> class Point(Fields):
    ...     x: int
    ...     y: int = 0
    >>> Point(3)
    Point(x=3, y=0)
    >>> Point(3).replaced(y=4)
    Point(x=3, y=4)
    """

    field_names: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        defaults: dict[str, Any] = {}
        for base in reversed(cls.__mro__[1:]):
            defaults.update(base.__dict__.get("_defaults", {}))
        for name, annotation in cls.__annotations__.items():
            if not str(annotation).startswith("ClassVar"):
                defaults[name] = cls.__dict__.get(name, _REQUIRED)
        cls._defaults, cls.field_names = defaults, tuple(defaults)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = self.field_names
        values = {**self._defaults, **dict(zip(names, args, strict=False)), **kwargs}
        missing = [name for name in names if values[name] is _REQUIRED]
        if (
            missing
            or len(values) != len(names)
            or len(args) > len(names)
            or not kwargs.keys().isdisjoint(names[: len(args)])
        ):
            raise TypeError(f"{type(self).__name__} takes {names}: got {args} and {kwargs}, without {missing}.")
        for name, value in values.items():
            _set(self, name, value)

    def replaced(self: Self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{**{name: getattr(self, name) for name in self.field_names}, **changes})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.field_names)})"


class Frozen(Fields):
    """Fields that never change."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set.")


class Compared:
    """Objects that are equal where the attributes that `field_names` lists are, and that show those."""

    field_names: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(_are_equal(getattr(self, name), getattr(other, name)) for name in self.field_names)

    def __hash__(self) -> int:
        return hash((type(self), *(_hashable(getattr(self, name)) for name in self.field_names)))

    def __repr__(self) -> str:
        shown = [f"{name}={brief(getattr(self, name))}" for name in self.field_names]
        return f"{type(self).__name__}({', '.join(shown)})"


class Value(Compared, Frozen):
    """Frozen fields, compared by what they are. What is derived from them and kept is not pickled.

    >>> class Point(Value):
    ...     x: int
    >>> Point(3) == Point(3), len({Point(3), Point(3)})
    (True, 1)
    """

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in self.field_names}


def brief(value: Any) -> str:
    """`repr`, of long sequences only the beginning, and without addresses in memory.

    >>> brief(tuple(range(1000))), brief([1, 2]), brief(brief)
    ('(0, 1, 2, … 997 more)', '[1, 2]', 'brief')
    """
    if isinstance(value, FunctionType):
        return value.__name__
    if not isinstance(value, np.ndarray) and type(value) not in (list, tuple):
        has_own = type(value).__repr__ is not object.__repr__  # type: ignore[comparison-overlap]
        return repr(value) if has_own else type(value).__name__
    count = len(value)
    first = value[: 3 if count > _MOST_SHOWN else count]
    shown = [brief(entry) for entry in (first.tolist() if isinstance(first, np.ndarray) else first)]
    if count > len(shown):
        shown.append(f"… {count - len(shown):,} more")
    if type(value) is tuple:
        return f"({', '.join(shown)}{',' if count == 1 else ''})"
    return f"[{', '.join(shown)}]"


def _are_equal(one: Any, other: Any) -> bool:
    """Whether two values are the same; those of users that cannot be compared are equal only to themselves."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    try:
        if isinstance(one, np.ndarray):
            return one.dtype == other.dtype and np.array_equal(one, other)
        return bool(one == other)
    except Exception:
        return False


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return type(value)
    return value
