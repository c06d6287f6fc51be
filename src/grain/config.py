"""`grain.config`: process-wide settings, by attribute, changed with `update`."""

from __future__ import annotations

from typing import Any

from grain.errors import UnknownOptionError

_TRACEBACK_FILTERING = ("auto", "off", "tracebackhide", "quiet_remove_frames", "remove_frames")


class Config:
    """Settings read as attributes and changed with `update`.

    >>> Config().py_debug_mode
    False
    """

    def __init__(self) -> None:
        values: dict[str, Any] = {
            "py_debug_mode": False,
            "py_dataset_visualization_output_dir": None,
            "py_relay_sigterm_to_main": False,
            "py_traceback_filtering": "auto",
            "tf_interleaved_shuffle": False,
            "tf_interleaved_shuffle_block_size": 10,
            "tf_interleaved_shuffle_parallel_blocks": 10,
            "tf_lookup_batch_size": 100,
            "tf_lookup_num_parallel_calls": -1,
            "tf_lookup_fast_warmup": False,
            "tf_optimized_sequential_read": False,
            "tf_prefetch_buffer_size": -1,
        }
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        return self.get_or_default(name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"Please use update(): grain.config.update({name!r}, {value!r}).")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.__dict__["_values"]]

    def get_or_default(self, name: str) -> Any:
        """The value of `name`."""
        self._check(name)
        return self.__dict__["_values"][name]

    def update(self, name: str, value: Any) -> None:
        """Set `name` to `value`, from now on.

        >>> settings = Config()
        >>> settings.update("py_debug_mode", True)
        >>> settings.py_debug_mode
        True
        """
        self._check(name)
        if name == "py_traceback_filtering" and value not in _TRACEBACK_FILTERING:
            raise ValueError(f"py_traceback_filtering must be one of {_TRACEBACK_FILTERING}, got {value!r}.")
        self.__dict__["_values"][name] = value

    def _check(self, name: str) -> None:
        values = self.__dict__["_values"]
        if name not in values:
            import difflib  # only now: `import grain` is to be fast

            close = difflib.get_close_matches(name, values, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(values)}."
            raise UnknownOptionError(f"Unrecognized config option: {name}.{hint}")


config = Config()
