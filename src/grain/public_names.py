"""Names that public modules have beside those they define: some are found on first use, wrong ones are put right."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any


def found_in(modules: Mapping[str, Sequence[str]]) -> dict[str, Callable[[], Any]]:
    """For `complete`: names that are in modules which are imported only then.

    >>> found_in({"math": ["pi"]})["pi"]()
    3.141592653589793
    """
    return {name: partial(_found, module, name) for module, names in modules.items() for name in names}


def _found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def complete(module: ModuleType, found_later: Mapping[str, Callable[[], Any]] = MappingProxyType({})) -> None:
    """Let `module` find names by calling functions on first use, and suggest the right name for a wrong one.

    It is done from outside, not by a function `__getattr__` in each module, which would keep type checkers from
    noticing wrong names.

    >>> import types
    >>> module = types.ModuleType("module")
    >>> module.Batch, module.__all__ = "a name", ["Batch"]
    >>> complete(module, {"THREE": lambda: 3})
    >>> module.THREE
    3
    >>> module.batches
    Traceback (most recent call last):
    AttributeError: module 'module' has no attribute 'batches'. Did you mean: 'Batch'?
    """

    def find(name: str) -> Any:
        if name not in found_later:
            message = f"module {module.__name__!r} has no attribute {name!r}{_suggestion(module, name)}"
            raise AttributeError(message, name=name, obj=None)  # or newer Pythons would suggest the same once more
        value = found_later[name]()
        setattr(module, name, value)
        return value

    module.__getattr__ = find  # type: ignore[method-assign]
    module.__dir__ = lambda: sorted([*module.__all__, *found_later])  # type: ignore[method-assign]


def _suggestion(module: ModuleType, name: str) -> str:
    if name.startswith("__"):  # asked for by Python itself
        return ""
    import difflib  # only now: `import grain` is to be fast

    known = {public.casefold(): public for public in dir(module)}
    close = difflib.get_close_matches(name.casefold(), known, n=1)
    return f". Did you mean: {known[close[0]]!r}?" if close else ""
