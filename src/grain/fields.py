"""Plain data: classes that are their annotated fields.

As dataclasses, of which there would be fifty here, but without generating code: that would double the time of
`import grain`. Annotations are looked at as text, so modules with such classes import them from `__future__`.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, dataclass_transform

_REQUIRED: Any = object()
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
        names, values = self.field_names, self.__dict__
        values.update(self._defaults)
        values.update(zip(names, args, strict=False))
        values.update(kwargs)
        missing = [name for name in names if values[name] is _REQUIRED]
        if (
            missing
            or len(values) != len(names)
            or len(args) > len(names)
            or not kwargs.keys().isdisjoint(names[: len(args)])
        ):
            raise TypeError(f"{type(self).__name__} takes {names}: got {args} and {kwargs}, without {missing}.")

    def replaced(self: Self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{**{name: getattr(self, name) for name in self.field_names}, **changes})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.field_names)})"


class Frozen(Fields):
    """Fields that never change."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: {name} cannot be set.")
